"""What the network grants of the installed plugins lack, as an operator is told it again and again.

Pure: manifests and one revision of the configuration in, values out. It never changes anything (PLG-207).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from zeroclaw_daemon.config.egress_standing import (
    DeploymentRefused,
    EgressStanding,
    deployment_refusal,
    standing_of,
)
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.instances import bound_channels
from zeroclaw_host.installation.rows import declaration_of, owns_state
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability, Manifest


@dataclass(frozen=True, slots=True)
class EgressReport:
    """Either what refuses the whole deployment, and nothing else, or each instance, whatever there is to say of it."""

    refusal: DeploymentRefused | None = None
    standings: tuple[EgressStanding, ...] = ()

    @property
    def wanting(self) -> tuple[EgressStanding, ...]:
        """The instances that something is wrong with."""
        return tuple(standing for standing in self.standings if standing.verdict)

    def only(self, identities: Collection[InstanceIdentity]) -> EgressReport:
        """The same of some instances. What refuses all of them stays."""
        return EgressReport(self.refusal, tuple(s for s in self.standings if s.identity in identities))


def egress_report(
    manifests: Iterable[Manifest], snapshot: Snapshot, *, outdated: bool = False
) -> EgressReport:
    """The instances of these packages, in the order of the manifests: each one's tool, then its bound channels by alias.

    Of a package that owns nothing and has no row, and while ``[plugins]`` cannot be read, there is nothing to say: nobody
    knows what the rows are.

    :param outdated: whether the file has the layout of an earlier release, so that it is migrated before it is changed.
    """
    if snapshot.plugins_dropped:
        return EgressReport()
    found = [
        (identity, declaration_of(manifest, identity.capability))
        for manifest in manifests
        for identity in _instances(manifest, snapshot)
    ]
    refusal = deployment_refusal(snapshot.config)
    if refusal is not None and any(declaration.governed for _, declaration in found):
        return EgressReport(refusal)
    return EgressReport(standings=tuple(standing_of(*each, snapshot, outdated=outdated) for each in found))


def _instances(manifest: Manifest, snapshot: Snapshot) -> Iterator[InstanceIdentity]:
    tool = InstanceIdentity.default_tool(manifest.name)
    owns = owns_state(manifest) or snapshot.config.plugins.entry(tool.key) is not None
    if Capability.TOOL in manifest.capabilities and owns:
        yield tool
    yield from bound_channels(manifest, snapshot.config)
