"""What the tests of the network authority share: an instance, its requests, and the size of the destination table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import destinations
import pytest
from loopback import authority, peer, secure, trusted

from zeroclaw_host.egress.anchors import AnchorStore
from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.egress.records import MemoryEgressLog
from zeroclaw_host.egress.request import EgressRequest, TlsMode, Transport
from zeroclaw_host.egress.slots import ConnectionSlots
from zeroclaw_host.egress.testing import Answer, ScriptedResolver, SettablePolicies
from zeroclaw_host.instance import InstanceIdentity

__all__ = ["authority", "peer", "secure", "trusted"]

IDENTITY = InstanceIdentity.default_tool("weather")


@pytest.fixture(scope="session")
def identity() -> InstanceIdentity:
    return IDENTITY


@pytest.fixture(scope="session")
def ask() -> Callable[..., EgressRequest]:
    """A request of the instance, over HTTPS unless something else is said."""

    def make(
        host: str,
        port: int = 443,
        *,
        transport: Transport = Transport.HTTP,
        tls: TlsMode = TlsMode.DIRECT,
        tls_profile: str | None = None,
        permitted: bool = True,
        identity: InstanceIdentity = IDENTITY,
    ) -> EgressRequest:
        return EgressRequest(
            identity=identity,
            transport=transport,
            host=host,
            port=port,
            tls=tls,
            tls_profile=tls_profile,
            permitted=permitted,
        )

    return make


@dataclass
class Network:
    """A dialer with everything around it, for hosts of a script."""

    resolver: ScriptedResolver
    policies: SettablePolicies = field(default_factory=SettablePolicies)
    log: MemoryEgressLog = field(default_factory=MemoryEgressLog)
    slots: ConnectionSlots = field(default_factory=ConnectionSlots)
    anchors: AnchorStore = field(default_factory=AnchorStore)

    def __post_init__(self) -> None:
        self.dialer = Dialer(
            self.policies, self.log, resolver=self.resolver, slots=self.slots, anchors=self.anchors
        )

    def words(self) -> list[str]:
        return [record.error_key.value for record in self.log.records]


@pytest.fixture
def network() -> Callable[..., Network]:
    """A network where the instance is granted every host of the script, private addresses included."""

    def make(
        script: dict[str, Sequence[Answer]],
        *,
        max_connections: int = 16,
        tls_profiles: Sequence[TlsProfile] = (),
        private: bool = True,
        identity: InstanceIdentity = IDENTITY,
    ) -> Network:
        made = Network(ScriptedResolver(script))
        policy = EgressPolicy.of(
            script,
            script if private else (),
            max_connections=max_connections,
            tls_profiles=tls_profiles,
        )
        made.policies.set(identity, policy)
        return made

    return make


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rows = len(destinations.TABLE)
    terminalreporter.write_line(
        f"destination table: {rows} hosts and addresses, {rows * len(destinations.Granted)} verdicts"
    )
