"""What the tests of the network authority share: an instance, its requests, and the size of the destination table."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import destinations
import peers
import pytest
import trustme

from zeroclaw_host.egress.anchors import AnchorStore
from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.egress.records import MemoryEgressLog
from zeroclaw_host.egress.request import EgressRequest, TlsMode, Transport
from zeroclaw_host.egress.slots import ConnectionSlots
from zeroclaw_host.egress.testing import Answer, ScriptedResolver, SettablePolicies
from zeroclaw_host.instance import InstanceIdentity

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


@pytest.fixture
def peer() -> Iterator[Callable[..., peers.Peer]]:
    """Servers on loopback that end with the test."""
    made: list[peers.Peer] = []

    def start(handler: peers.Handler = peers.echo, **how: object) -> peers.Peer:
        made.append(peers.Peer(handler, **how))  # type: ignore[arg-type]
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """A private certificate authority."""
    return trustme.CA()


@pytest.fixture(scope="session")
def secure(authority: trustme.CA) -> Callable[..., ssl.SSLContext]:
    """A server's TLS context, with a certificate for these names from this authority."""

    def make(
        *names: str, issuer: trustme.CA = authority, clients: trustme.CA | None = None
    ) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        issuer.issue_cert(*(names or ("a.example",))).configure_cert(context)
        if clients is not None:
            clients.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    return make


def pem(authority: trustme.CA) -> str:
    """An authority's certificate, as a text."""
    return authority.cert_pem.bytes().decode()


@pytest.fixture
def trusted(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The machine trusts the private authority."""
    store = tmp_path_factory.mktemp("store") / "authorities.pem"
    store.write_text(pem(authority))
    monkeypatch.setenv("SSL_CERT_FILE", str(store))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rows = len(destinations.TABLE)
    terminalreporter.write_line(
        f"destination table: {rows} hosts and addresses, {rows * len(destinations.Granted)} verdicts"
    )
