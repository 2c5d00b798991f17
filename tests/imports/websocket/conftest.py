"""Guests of the interface at the level of its functions, with a real network authority behind them."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import peers
import pytest
import websocket_peers
from loopback import authority, peer, secure, trusted

from zeroclaw_host.egress.anchors import AnchorStore
from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.decision import Decision
from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.egress.records import MemoryEgressLog
from zeroclaw_host.egress.request import EgressRequest, Transport
from zeroclaw_host.egress.slots import ConnectionSlots
from zeroclaw_host.egress.testing import Answer, ScriptedResolver, SettablePolicies
from zeroclaw_host.imports.websocket import INTERFACE
from zeroclaw_host.imports.websocket.connection import WebSocketConnection
from zeroclaw_host.imports.websocket.options import ConnectOptions
from zeroclaw_host.imports.websocket.upgrade import Upgrade
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import parse_manifest
from zeroclaw_host.sandbox.frame import CallFrame, Phase
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.values import Err, Ok
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.logging import MemoryLogSink

__all__ = ["authority", "peer", "secure", "trusted"]

MANIFEST = (
    'name = "chat"\nversion = "1.0.0"\nwasm_path = "chat.wasm"\ncapabilities = ["tool"]\n'
    'permissions = ["websocket_client"]\n'
)
IDENTITY = InstanceIdentity.default_tool("chat")
PLENTY_MS = 120_000
"""A call's time that no good run comes near."""


class Secrets:
    """A configuration with nothing but secrets."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        return ResolvedConfig(scope, {}, self.values)


class Guest:
    """A tool that is being called, and the network authority of its host.

    :param script: what each host's addresses are. Every host is granted, private addresses included.
    """

    def __init__(
        self,
        script: Mapping[str, Sequence[Answer]],
        *,
        max_connections: int = 16,
        tls_profiles: Sequence[TlsProfile] = (),
        secrets: Mapping[str, str] | None = None,
        manifest: str = MANIFEST,
    ) -> None:
        self.resolver = ScriptedResolver(script)
        self.policies = SettablePolicies()
        self.log = MemoryEgressLog()
        self.slots = ConnectionSlots()
        self.grant(script, max_connections=max_connections, tls_profiles=tls_profiles)
        dialer = Dialer(
            self.policies, self.log, resolver=self.resolver, slots=self.slots, anchors=AnchorStore()
        )
        self.manifest = manifest.encode()
        self.scope = InstanceScope.admit(IDENTITY, parse_manifest(self.manifest))
        self.services = InstanceServices(Secrets(secrets or {}), MemoryLogSink(), network=dialer)
        self.frame = self.new_frame()

    def new_frame(self, *, phase: Phase = Phase.TOOL_EXECUTE, timeout_ms: int = PLENTY_MS) -> CallFrame:
        """Another call."""
        limits = Limits(call_timeout_ms=timeout_ms)
        return CallFrame(scope=self.scope, services=self.services, limits=limits, phase=phase)

    def grant(self, hosts: Any, *, private: bool = True, **how: Any) -> None:
        """From here on these hosts are granted."""
        self.policies.set(IDENTITY, EgressPolicy.of(hosts, hosts if private else (), **how))

    @property
    def held(self) -> int:
        """Connections that count."""
        return self.slots.held(IDENTITY)

    def call(self, function: str, *values: Any, frame: CallFrame | None = None) -> Any:
        """Call a function by the name a component has for it; what it answers."""
        return INTERFACE.functions[function].implementation(frame or self.frame, *values)

    def connect(
        self,
        url: str,
        *,
        headers: Sequence[tuple[str, str]] = (),
        subprotocols: Sequence[str] = (),
        profile: str | None = None,
        frame: CallFrame | None = None,
    ) -> Any:
        """Connect; the connection, or the error's word. The frame's table has it, as if the guest held it."""
        frame = frame or self.frame
        answer = self.call("connect", options(url, headers, subprotocols, profile), frame=frame)
        if isinstance(answer, Ok):
            frame.table.push(answer.value)
            return answer.value
        return answer.value

    def word(self, function: str, *values: Any) -> Any:
        """The error's word of a method, or ``ok``."""
        answer = self.call(f"[method]connection.{function}", *values)
        return answer.value if isinstance(answer, Err) else "ok"

    def look(self, connection: WebSocketConnection) -> Any:
        """What is there to receive now: an event, None, or an error's word."""
        return self.call("[method]connection.receive", connection).value

    def receive(self, connection: WebSocketConnection) -> Any:
        """The next event, waiting for it as a guest does."""
        found: list[Any] = []

        def arrived() -> bool:
            answer = self.look(connection)
            if answer is not None:
                found.append(answer)
            return bool(found)

        assert peers.eventually(arrived), "nothing came"
        return found[0]

    def end(self) -> None:
        """The call is over."""
        self.frame.table.close()


def options(
    url: str,
    headers: Sequence[tuple[str, str]] = (),
    subprotocols: Sequence[str] = (),
    profile: str | None = None,
) -> dict[str, object]:
    """A ``connect-options`` record."""
    return {
        "url": url,
        "headers": [{"name": name, "value": value} for name, value in headers],
        "subprotocols": list(subprotocols),
        "tls-profile": profile,
    }


@pytest.fixture(scope="session")
def record() -> Callable[..., dict[str, object]]:
    return options


@pytest.fixture
def guest() -> Iterator[Callable[..., Guest]]:
    """Makes guests; their calls end with the test, and leave nothing."""
    made: list[Guest] = []

    def make(script: Mapping[str, Sequence[Answer]] | None = None, **how: Any) -> Guest:
        made.append(Guest(script or {"a.example": [["127.0.0.1"]]}, **how))
        return made[-1]

    yield make
    for one in made:
        one.end()
        assert peers.eventually(lambda one=one: one.held == 0)


@pytest.fixture
def server() -> Iterator[Callable[..., websocket_peers.Server]]:
    """The library's servers, which end with the test."""
    made: list[websocket_peers.Server] = []

    def start(*what: Any, **how: Any) -> websocket_peers.Server:
        made.append(websocket_peers.Server(*what, **how))
        return made[-1]

    yield start
    for one in made:
        one.close()


class Wire:
    """A connection whose other end the test holds, and whose loop the test is: each :meth:`turn` is one of the loop's.

    Bytes of a local socket pair are there at once, so nothing depends on time.
    """

    def __init__(self, *, subprotocols: Sequence[str] = ()) -> None:
        near, self.far = socket.socketpair()
        near.setblocking(False)
        self.far.setblocking(False)
        self.seconds = 1000.0
        self.ended = 0
        request = EgressRequest(identity=IDENTITY, transport=Transport.WEBSOCKET, host="a.example", port=80)
        self.plain = Connection(
            near,
            decision=Decision(request),
            address=ipaddress.ip_address("192.0.2.1"),
            server_name="a.example",
            context=None,
            ended=lambda _usage: setattr(self, "ended", self.ended + 1),
        )
        upgrade = Upgrade(ConnectOptions.read(options("ws://a.example/", subprotocols=subprotocols)))
        protocol = upgrade.protocol
        request_bytes = protocol.connect().serialize()
        protocol.receive_data(websocket_peers.acceptance(request_bytes))
        protocol.events_received()
        self.connection = WebSocketConnection(self.plain, protocol, clock=lambda: self.seconds)

    def turn(self) -> None:
        """The loop looks at it."""
        self.connection.ready()

    def say(self, *frames: bytes) -> None:
        """The peer sends, and the loop looks."""
        for frame in frames:
            self.far.sendall(frame)
        self.turn()

    def heard(self) -> bytes:
        """What arrived at the peer since."""
        seen = b""
        try:
            while data := self.far.recv(1 << 20):
                seen += data
        except BlockingIOError:
            pass
        return seen

    def close(self) -> None:
        self.connection.close()
        self.far.close()


@pytest.fixture(scope="session")
def wire_class() -> type[Wire]:
    """For tests that close their wires themselves."""
    return Wire


@pytest.fixture
def wire() -> Iterator[Callable[..., Wire]]:
    """Makes wires that end with the test."""
    made: list[Wire] = []

    def make(**how: Any) -> Wire:
        made.append(Wire(**how))
        return made[-1]

    yield make
    for one in made:
        one.close()
