"""How the grant of one plugin instance stands beside what its package declares, and what is to be done about it.

Pure: a configuration and a declaration in, values out. Listings, installs, bindings, updates and refusals all tell what is
found here, in these words, so that none of them finds a grant good that another one finds wanting (PLG-227).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from zeroclaw_daemon.config import names
from zeroclaw_daemon.config.document.mentions import written_key
from zeroclaw_daemon.config.egress_rows import egress_row, egress_settings, policy_of
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.map_keys import BINDINGS
from zeroclaw_daemon.config.plugin_schema import PluginEntry
from zeroclaw_daemon.config.schema import Config
from zeroclaw_host.egress.policy import (
    MAX_CONNECTIONS_PATH,
    NAT64_PATH,
    EgressPolicy,
    PolicyFault,
    PolicyField,
    PolicyInvalid,
    deployment_faults,
)
from zeroclaw_host.egress.remedies import to_mend_deployment, to_set
from zeroclaw_host.egress.source import EgressRow, EgressSettings
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.installation.rows import Declaration
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.hosts import HostPattern
from zeroclaw_host.package.manifest import Capability


class DeploymentRefused(ZeroclawError):
    """Settings of the whole deployment refuse every plugin's policy, whatever its row says (PLG-193, PLG-226).

    ``details`` holds ``fields``, the paths at fault.
    """

    code = "egress_deployment_refused"
    kind = Kind.INVALID

    def __init__(self, faults: tuple[PolicyFault, ...]) -> None:
        self.faults = faults
        super().__init__(
            f"no plugin reaches anything, for {'; '.join(map(str, faults))}. {NAT64_PATH} and {MAX_CONNECTIONS_PATH} hold for "
            "all plugins, and nothing in a row helps before they are put right",
            remedies=to_mend_deployment(faults),
            details={"fields": tuple(dict.fromkeys(fault.field.value for fault in faults))},
        )


def deployment_refusal(config: Config) -> DeploymentRefused | None:
    """What refuses every instance at once. It is told alone: until it is mended, nothing about a row is true."""
    settings = egress_settings(config)
    faults = deployment_faults(settings.nat64_prefixes, settings.max_connections)
    return DeploymentRefused(faults) if faults else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressStanding:
    """One instance: what its package declares, what its row grants, and what is to be done, in order."""

    identity: InstanceIdentity
    declared: tuple[str, ...]
    granted: tuple[str, ...]
    """The row's ``egress_hosts``, as they are written."""
    row: str | None
    """The name of the row; None where there is none."""
    alias_fault: str | None
    """Why no row can be made for the alias of a channel that has none."""
    refusals: tuple[PolicyFault, ...]
    """Why the runtime refuses the row as a whole, and with it every request."""
    left: tuple[PolicyFault, ...]
    """Those of them that ``steps`` do not mend: private carve-outs, for a person to put right."""
    not_granted: tuple[str, ...]
    """Declared destinations that no entry which the runtime accepts reaches."""
    not_declared: tuple[str, ...]
    """Accepted entries that no declared destination covers. A fact, and never a fault (PLG-212)."""
    steps: tuple[Remedy, ...]

    @property
    def legacy(self) -> bool:
        """Whether the row still has the name it had before 1.0, so that nothing of it is in force (PLG-214)."""
        return self.row is not None and self.row != self.identity.key

    @property
    def label(self) -> str:
        """The instance, as reports call it (PLG-209)."""
        identity = self.identity
        is_tool = identity == InstanceIdentity.default_tool(identity.package)
        return identity.package if is_tool else f"{identity.package} (plugin.{identity.binding})"

    @property
    def verdict(self) -> tuple[str, ...]:
        """What is wrong, one sentence each; empty where the grant does what the declaration asks for."""
        return tuple(f"{self.label}: {sentence}" for sentence in self._sentences())

    @property
    def beyond(self) -> str | None:
        """The destinations that are granted and not declared, as a sentence (PLG-189)."""
        if not self.not_declared:
            return None
        return f"{self.label}: its row grants what it does not declare: {', '.join(self.not_declared)}"

    def _sentences(self) -> list[str]:
        said: list[str] = []
        declared = ", ".join(self.not_granted)
        if self.alias_fault is not None:
            said.append(f"it has no row, and none can be made under its alias: {self.alias_fault}")
        if self.legacy:
            said.append(
                f"its row is named {self.row}, as before 1.0; what it configures and grants is not in force until it is named "
                f"{self.identity.key}"
            )
        if self.refusals:
            said.append(f"every request is refused, for its row is no policy: {_joined(self.refusals)}")
        if self.not_granted and self.row is None:
            said.append(
                f"it declares {declared}, and has no row that grants it, so requests there are refused"
            )
        elif self.not_granted:
            said.append(
                f"it declares {declared}, which its row does not grant, so requests there are refused"
            )
        if self.left:
            path = PolicyField.ALLOW_PRIVATE.path(self.identity)
            said.append(
                f"every request stays refused until {path} is put right by hand: {_joined(self.left)}"
            )
        return said


def standing_of(
    identity: InstanceIdentity,
    declaration: Declaration,
    snapshot: Snapshot,
    *,
    outdated: bool = False,
    installed: bool = True,
) -> EgressStanding:
    """Judge one instance. The deployment's own settings count as good here; :func:`deployment_refusal` is asked first.

    :param declaration: what its package's manifest says of it.
    :param outdated: whether the file has the layout of an earlier release, which comes to be migrated first.
    :param installed: whether the package is, so that a migration renames its row.
    """
    config = snapshot.config
    wanted = tuple(map(HostPattern, declaration.hosts))
    entry = config.plugins.entry(identity.key)
    former = former_row(identity, config) if entry is None else None
    row = entry or former
    found = _judged(identity, row, wanted, config)
    if not declaration.governed:  # nothing asks the row, so nothing is refused by it
        found = replace(found, refusals=(), left=(), grants=None)
    alias_fault = alias_refusal(identity) if row is None and declaration.governed else None
    renamed_by_migration = (
        outdated and installed and former is not None and identity.package not in config.channels.plugin
    )
    steps: list[Remedy] = []
    if alias_fault is not None:
        steps.append(to_rename_table(identity, snapshot.path))
    elif row is None and found.not_granted:
        steps.append(to_create_row(identity, found.not_granted))
    if former is not None and not renamed_by_migration:
        steps.append(to_rename_row(identity, former, snapshot.path))
    if row is not None and found.grants is not None:
        steps.append(to_set(PolicyField.HOSTS, identity, found.grants))
    if found.left:
        steps.append(Remedy(RemedyAction.MEND_CONFIG, {"path": PolicyField.ALLOW_PRIVATE.path(identity)}))
    if outdated and (renamed_by_migration or any(step.action in _WRITING for step in steps)):
        steps.insert(0, Remedy(RemedyAction.MIGRATE_CONFIG))
    return EgressStanding(
        identity=identity,
        declared=tuple(pattern.text for pattern in wanted),
        granted=row.egress_hosts if row is not None else (),
        row=row.name if row is not None else None,
        alias_fault=alias_fault,
        refusals=found.refusals,
        left=found.left,
        not_granted=found.not_granted,
        not_declared=found.not_declared,
        steps=tuple(steps),
    )


_WRITING = frozenset(
    {RemedyAction.CREATE_ROW, RemedyAction.RENAME_ROW, RemedyAction.SET_CONFIG, RemedyAction.UNSET_CONFIG}
)
"""What changes the file by a command, which is refused while the file has an earlier layout (PLG-368)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    refusals: tuple[PolicyFault, ...]
    left: tuple[PolicyFault, ...]
    not_granted: tuple[str, ...]
    not_declared: tuple[str, ...]
    grants: tuple[str, ...] | None
    """What ``egress_hosts`` is to be; None where it is to stay."""


def _judged(
    identity: InstanceIdentity, entry: PluginEntry | None, wanted: tuple[HostPattern, ...], config: Config
) -> _Judged:
    """The row as the runtime judges it, and what it would be with the declaration granted."""
    row = egress_row(entry) if entry is not None else EgressRow()
    refusals: tuple[PolicyFault, ...] = ()
    try:
        accepted = tuple(pattern.text for pattern in _policy(identity, row, config).hosts)
    except PolicyInvalid as error:
        refusals, accepted = error.faults, error.accepted
    policy = EgressPolicy.of(accepted)
    missing = tuple(pattern.text for pattern in policy.not_granted(wanted))
    union = (*accepted, *missing)
    left: tuple[PolicyFault, ...] = ()
    try:
        _policy(identity, EgressRow(union, row.allow_private), config)
    except PolicyInvalid as error:
        left = error.faults
    changes = bool(missing) or any(fault.field is PolicyField.HOSTS for fault in refusals)
    return _Judged(
        refusals=refusals,
        left=left,
        not_granted=missing,
        not_declared=tuple(pattern.text for pattern in policy.not_declared(wanted)),
        grants=union if changes else None,
    )


def _policy(identity: InstanceIdentity, row: EgressRow, config: Config) -> EgressPolicy:
    """The runtime's policy; where the deployment's own settings are at fault, what it would be with good ones."""
    settings = egress_settings(config)
    if deployment_faults(settings.nat64_prefixes, settings.max_connections):
        settings = EgressSettings()
    return policy_of(identity, settings, row)


def former_row(identity: InstanceIdentity, config: Config) -> PluginEntry | None:
    """The row of before 1.0. Channels are younger than keys, so only a tool's row can have the former name (PLG-218)."""
    if identity != InstanceIdentity.default_tool(identity.package):
        return None
    return config.plugins.entry(identity.package)


def alias_refusal(identity: InstanceIdentity) -> str | None:
    """Why the grammar refuses the alias (PLG-211)."""
    if identity.capability is not Capability.CHANNEL:
        return None
    try:
        names.alias(identity.binding)
    except ValueError as error:
        return str(error)
    return None


def to_rename_table(identity: InstanceIdentity, path: Path) -> Remedy:
    """What gives the channel an alias that a row can be made for."""
    table = f"{BINDINGS}.{written_key(identity.binding)}"
    return Remedy(RemedyAction.RENAME_TABLE, {"path": str(path), "table": table})


def to_rename_row(identity: InstanceIdentity, row: PluginEntry, path: Path) -> Remedy:
    """What puts a row of before 1.0 in force."""
    return Remedy(RemedyAction.RENAME_ROW, {"path": str(path), "old": row.name, "new": identity.key})


def to_create_row(identity: InstanceIdentity, hosts: tuple[str, ...]) -> Remedy:
    """What makes the instance's row, with these hosts granted."""
    return Remedy(RemedyAction.CREATE_ROW, {"key": identity.key, "hosts": ",".join(hosts)})


def _joined(faults: tuple[PolicyFault, ...]) -> str:
    return "; ".join(map(str, faults))
