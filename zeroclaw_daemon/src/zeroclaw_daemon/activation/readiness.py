"""Whether an instance is ready to run: each answer comes from what the daemon itself asks (PLG-256)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from zeroclaw_daemon.activation.plan import ActivationPlan, Placement
from zeroclaw_daemon.config.egress_standing import EgressStanding, standing_of
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.plugin_schema import PluginEntry
from zeroclaw_host.errors import ConfigInvalid, StorageError
from zeroclaw_host.installation.rows import declaration_of, owns_state
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.config_schema import ConfigSchema
from zeroclaw_host.package.manifest import Manifest
from zeroclaw_host.package.schema_rules import is_portable
from zeroclaw_host.services.config import ConfigResolver

Planner = Callable[[], ActivationPlan]
"""Makes the plan of the configuration as it is; raises :class:`StorageError` when it cannot."""


@dataclass(frozen=True, slots=True)
class RequiredKey:
    """A property that must be configured. Its value is never shown."""

    name: str
    present: bool
    secret: bool
    path: str | None
    """What ``config set`` takes; None for a name that no path can hold, which is edited in the file."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """The report on one instance, in the order in which it is told (PLG-257 to PLG-276)."""

    identity: InstanceIdentity
    permissions: tuple[str, ...]
    required: tuple[RequiredKey, ...]
    fault: ConfigInvalid | None
    """Why its configuration does not resolve."""
    row: PluginEntry | None
    row_is_missing: bool
    """Whether it is owed a row and has none."""
    declared: tuple[str, ...]
    egress: EgressStanding
    """How its grant stands, as listings judge it (PLG-267)."""
    placement: Placement | None
    plan_fault: StorageError | None
    """Why there is no plan."""

    @property
    def starts(self) -> bool:
        """Whether nothing that can be known without running it keeps it from starting."""
        return self.fault is None and self.placement is not None and self.placement.admitted


class Examiner:
    """Looks at instances of installed packages.

    :param snapshot: the configuration to judge by.
    :param resolver: the one that the daemon resolves configuration with.
    :param plan: see :data:`Planner`; asked once at most.
    :param outdated: whether the file has the layout of an earlier release, so that it is migrated before it is changed.
    """

    def __init__(
        self, snapshot: Snapshot, resolver: ConfigResolver, plan: Planner, *, outdated: bool = False
    ) -> None:
        self._outdated: Final = outdated
        self._snapshot: Final = snapshot
        self._resolver: Final = resolver
        self._make_plan: Final = plan
        self._plan: ActivationPlan | StorageError | None = None

    def examine(self, identity: InstanceIdentity, manifest: Manifest) -> Readiness:
        """The report on one instance of the package."""
        row = self._snapshot.config.plugins.entry(identity.key)
        placement, plan_fault = self._placement(identity)
        declaration = declaration_of(manifest, identity.capability)
        return Readiness(
            identity=identity,
            permissions=tuple(permission.value for permission in manifest.permissions),
            required=_required(identity, manifest, row),
            fault=self._fault(identity, manifest),
            row=row,
            row_is_missing=row is None and owns_state(manifest),
            declared=declaration.hosts,
            egress=standing_of(identity, declaration, self._snapshot, outdated=self._outdated),
            placement=placement,
            plan_fault=plan_fault,
        )

    def _fault(self, identity: InstanceIdentity, manifest: Manifest) -> ConfigInvalid | None:
        try:
            self._resolver.resolve(InstanceScope.admit(identity, manifest))
        except ConfigInvalid as error:
            return error
        return None

    def _placement(self, identity: InstanceIdentity) -> tuple[Placement | None, StorageError | None]:
        if self._plan is None:
            try:
                self._plan = self._make_plan()
            except StorageError as error:
                self._plan = error
        if isinstance(self._plan, StorageError):
            return None, self._plan
        return self._plan.of_instance(identity), None


def _required(
    identity: InstanceIdentity, manifest: Manifest, row: PluginEntry | None
) -> tuple[RequiredKey, ...]:
    if manifest.config_schema is None:
        return ()
    schema = ConfigSchema.compile(manifest.config_schema)
    configured = frozenset(row.config) if row is not None else frozenset[str]()
    return tuple(
        RequiredKey(
            name,
            name in configured,
            found.secret,
            f"plugins.entries.{identity.key}.config.{name}" if is_portable(name) else None,
        )
        for name, found in schema.properties.items()
        if found.required
    )
