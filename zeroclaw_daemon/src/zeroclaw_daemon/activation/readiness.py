"""Whether an instance is ready to run: each answer comes from what the daemon itself asks (PLG-256)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from zeroclaw_daemon.activation.plan import ActivationPlan, Placement
from zeroclaw_daemon.config.bindings import usable_declaration
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.plugin_schema import PluginEntry
from zeroclaw_host.errors import ConfigInvalid, StorageError
from zeroclaw_host.installation.rows import owns_state
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.config_schema import ConfigSchema
from zeroclaw_host.package.hosts import HostPattern, HostsInvalid, parse_hosts
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
class Gap:
    """How the grant of a row differs from what the package declares."""

    not_granted: tuple[str, ...]
    not_declared: tuple[str, ...]


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
    gap: Gap | None
    """None without a row."""
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
    """

    def __init__(self, snapshot: Snapshot, resolver: ConfigResolver, plan: Planner) -> None:
        self._snapshot: Final = snapshot
        self._resolver: Final = resolver
        self._make_plan: Final = plan
        self._plan: ActivationPlan | StorageError | None = None

    def examine(self, identity: InstanceIdentity, manifest: Manifest) -> Readiness:
        """The report on one instance of the package."""
        row = self._snapshot.config.plugins.entry(identity.key)
        placement, plan_fault = self._placement(identity)
        declared = usable_declaration(manifest)
        return Readiness(
            identity=identity,
            permissions=tuple(permission.value for permission in manifest.permissions),
            required=_required(identity, manifest, row),
            fault=self._fault(identity, manifest),
            row=row,
            row_is_missing=row is None and owns_state(manifest),
            declared=declared,
            gap=_gap(declared, row.egress_hosts) if row is not None else None,
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


def _gap(declared: tuple[str, ...], granted: tuple[str, ...]) -> Gap:
    """What one list reaches that the other does not, by reachability and not by text (PLG-191)."""
    return Gap(_beyond(declared, granted), _beyond(granted, declared))


def _beyond(hosts: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    known = [pattern for pattern in map(_pattern, others) if pattern is not None]
    return tuple(
        host
        for host in hosts
        if (pattern := _pattern(host)) is None or not any(other.contains(pattern) for other in known)
    )


def _pattern(host: str) -> HostPattern | None:
    """The host as a pattern; None for a text that is none and reaches nothing."""
    try:
        return parse_hosts((host,))[0]
    except HostsInvalid:
        return None
