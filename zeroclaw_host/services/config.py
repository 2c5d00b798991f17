"""An instance's configuration as the host resolved it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

from zeroclaw_host.errors import ConfigInvalid, Remedy, RemedyAction
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.config_schema import ConfigSchema
from zeroclaw_host.package.manifest import Permission


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """One validated revision of one instance's configuration, split into its public part and its secrets.

    ``host_only`` names secrets that the host keeps to itself (they serve TLS profiles). Neither secrets nor their
    names appear in ``repr``.
    """

    scope: InstanceScope = field(repr=False)
    public: Mapping[str, object] = field(repr=False)
    secrets: Mapping[str, str] = field(repr=False)
    host_only: frozenset[str] = field(default=frozenset(), repr=False)


class ConfigResolver(Protocol):
    """Finds an instance's configuration. Called at most once in a call frame (PLG-169)."""

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        """The current configuration of this instance.

        :raises ConfigInvalid: the stored values do not satisfy the package's schema.
        """
        ...


def resolve_config(
    scope: InstanceScope,
    schema: ConfigSchema | None,
    read_values: Callable[[], Mapping[str, str]],
    *,
    host_only: frozenset[str] = frozenset(),
) -> ResolvedConfig:
    """Turn an instance's stored texts into its configuration (PLG-143, PLG-148, PLG-149, PLG-151).

    :param schema: the package's compiled schema; None if it has none.
    :param read_values: reads the stored texts. It is not called when ``config_read`` is not in force: then the empty
        object is validated in their place, so a schema with required properties lets nothing start.
    :param host_only: secrets that only the host reads.
    :raises ConfigInvalid: the values do not satisfy the schema, or there are values and no schema.
    """
    values: Mapping[str, str] = read_values() if scope.grants_permission(Permission.CONFIG_READ) else {}
    if schema is None:
        if values:
            row = f"plugins.entries.{scope.identity.key}"
            raise ConfigInvalid(
                f"package {scope.manifest.name} takes no configuration, and some is stored for it in {row}",
                remedy=Remedy(RemedyAction.UNSET_CONFIG, {"path": f"{row}.config.{next(iter(values))}"}),
                details={"properties": tuple(values)},
            )
        return ResolvedConfig(scope, {}, {}, host_only)
    try:
        typed = schema.materialise(values)
    except ConfigInvalid as error:
        raise _for_instance(scope, schema, error) from None
    secrets = {
        name: value for name, value in typed.items() if name in schema.secret_names and isinstance(value, str)
    }
    public = {name: value for name, value in typed.items() if name not in schema.secret_names}
    return ResolvedConfig(scope, public, secrets, host_only)


def _for_instance(scope: InstanceScope, schema: ConfigSchema, error: ConfigInvalid) -> ConfigInvalid:
    """The same error, naming the package and the property to set; one the schema does not know is to be unset."""
    remedy: Remedy | None = None
    properties = cast("tuple[str, ...]", error.details.get("properties", ()))
    if properties:
        path = f"plugins.entries.{scope.identity.key}.config.{properties[0]}"
        known = properties[0] in schema.properties
        remedy = Remedy(RemedyAction.SET_CONFIG if known else RemedyAction.UNSET_CONFIG, {"path": path})
    return ConfigInvalid(
        f"package {scope.manifest.name}: {error.message}", remedy=remedy, details=error.details
    )


class SchemaConfigResolver:
    """The resolver for a host that keeps the stored texts itself: a schema and texts are looked up by identity.

    Neither is kept: both are asked for on every resolution, so a changed value counts from the next call on.
    """

    def __init__(
        self,
        schema_of: Callable[[InstanceIdentity], ConfigSchema | None],
        values_of: Callable[[InstanceIdentity], Mapping[str, str]],
    ) -> None:
        self._schema_of = schema_of
        self._values_of = values_of

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        """See :meth:`ConfigResolver.resolve`."""
        identity = scope.identity
        return resolve_config(scope, self._schema_of(identity), lambda: self._values_of(identity))


class MemoryConfigResolver:
    """Configuration in a dictionary, for tests and for programs that keep none in a file.

    :param values: the stored texts by instance key, as :attr:`~zeroclaw_host.instance.InstanceIdentity.key` has it; the very
        dictionary is read at each resolution, so a change of it counts from the next call of the plugin on.
    :param host_only: names of secrets that guests do not get, by instance key.

    ``asked`` are the instances it was asked for, in order.
    """

    def __init__(
        self,
        values: Mapping[str, Mapping[str, str]],
        *,
        host_only: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        self._values = values
        self._host_only: Mapping[str, frozenset[str]] = host_only if host_only is not None else {}
        self.asked: list[InstanceIdentity] = []

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        """See :meth:`ConfigResolver.resolve`."""
        key = scope.identity.key
        self.asked.append(scope.identity)
        raw = scope.manifest.config_schema
        schema = None if raw is None else ConfigSchema.compile(raw)
        return resolve_config(
            scope,
            schema,
            lambda: dict(self._values.get(key, {})),
            host_only=self._host_only.get(key, frozenset()),
        )
