"""One count of connections for all transports of an instance, whichever of its calls holds them (PLG-124)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import peers
import pytest
import websocket_peers
from plugin_parts import Config

from zeroclaw_host.egress.anchors import AnchorStore
from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.records import MemoryEgressLog
from zeroclaw_host.egress.slots import ConnectionSlots
from zeroclaw_host.egress.testing import ScriptedResolver, SettablePolicies
from zeroclaw_host.imports.wasi import INTERFACES
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import Capability, parse_manifest
from zeroclaw_host.sandbox.frame import CallFrame, Phase
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.values import Err
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.surface import http_of, surface_of

MANIFEST = (
    b'name = "all"\nversion = "1.0.0"\nwasm_path = "all.wasm"\ncapabilities = ["tool"]\n'
    b'permissions = ["http_client", "websocket_client", "socket_client"]\n'
)
LIMIT = 16
REFUSED = {
    "http": ("connection-limit-reached", None),
    "websocket": "connection-limit",
    "sockets": "connection-limit",
}
"""The seventeenth's answer, in each interface's own word."""

Connect = Callable[[], Any]


def answering_or_holding(plug: Any) -> None:
    """A server of everything: it upgrades who asks for it, and sends others half of a response."""
    request = websocket_peers.request_of(plug)
    if b"Sec-WebSocket-Key" in request:
        plug.sendall(websocket_peers.acceptance(request))
    else:
        plug.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf.")
    peers.hold(plug)


class Instance:
    """An instance with every transport, and its calls."""

    def __init__(self, name: str, services: InstanceServices, port: int) -> None:
        self.identity = InstanceIdentity(name, Capability.TOOL, "own")
        self._scope = InstanceScope.admit(
            self.identity, parse_manifest(MANIFEST.replace(b'"all"', f'"{name}"'.encode()))
        )
        self._services = services
        self._port = port
        self._interfaces = {**surface_of(Capability.TOOL, self._scope.grants).interfaces, **INTERFACES}

    def call(self) -> Call:
        return Call(self._scope, self._services, self._port, self._interfaces)


class Call:
    """One call of an instance, which keeps what it opens until its end."""

    def __init__(self, scope: InstanceScope, services: InstanceServices, port: int, interfaces: Any) -> None:
        self._interfaces = interfaces
        self._port = port
        self.frame = CallFrame(
            scope=scope,
            services=services,
            limits=Limits(call_timeout_ms=120_000),
            phase=Phase.TOOL_EXECUTE,
            http=http_of(scope, services),
        )

    def _do(self, interface: str, function: str, *values: Any) -> Any:
        return self._interfaces[interface].functions[function].implementation(self.frame, *values)

    def open(self, transport: str) -> Any:
        """Connect through a transport: None, or the word of its refusal."""
        found = getattr(self, f"_{transport}")()
        if isinstance(found, Err):
            return found.value
        self.frame.table.push(found.value)
        return None

    def _websocket(self) -> Any:
        options = {
            "url": f"ws://a.example:{self._port}/",
            "headers": [],
            "subprotocols": [],
            "tls-profile": None,
        }
        return self._do("zeroclaw:plugin/websocket", "connect", options)

    def _sockets(self) -> Any:
        request = {"host": "a.example", "port": self._port, "mode": "plaintext", "tls-profile": None}
        return self._do("zeroclaw:plugin/sockets", "connect", request)

    def _http(self) -> Any:
        """The response's head is here, and its body is not."""
        types = "wasi:http/types"
        request = self._do(types, "[constructor]outgoing-request", self._do(types, "[constructor]fields"))
        self._do(types, "[method]outgoing-request.set-scheme", request, ("HTTP", None))
        self._do(types, "[method]outgoing-request.set-authority", request, f"a.example:{self._port}")
        future = self._do("wasi:http/outgoing-handler", "handle", request, None).value
        self.frame.table.push(future)
        pollable = self._do(types, "[method]future-incoming-response.subscribe", future)
        self._do("wasi:io/poll", "[method]pollable.block", pollable)
        return self._do(types, "[method]future-incoming-response.get", future).value

    def end(self) -> None:
        self.frame.table.close()


@pytest.fixture
def origin() -> Iterator[peers.Peer]:
    made = peers.Peer(answering_or_holding)
    yield made
    made.close()


@pytest.mark.req("PLG-124")
@pytest.mark.parametrize("seventeenth", REFUSED)
def test_http_sockets_and_websockets_share_one_count(seventeenth: str, origin: peers.Peer) -> None:
    policies, slots = SettablePolicies(), ConnectionSlots()
    resolver = ScriptedResolver({"a.example": [["127.0.0.1"]]})
    dialer = Dialer(policies, MemoryEgressLog(), resolver=resolver, slots=slots, anchors=AnchorStore())
    services = InstanceServices(Config(), MemoryLogSink(), network=dialer)
    one, another = (Instance(name, services, origin.port) for name in ("one", "another"))
    policy = EgressPolicy.of(["a.example"], ["a.example"], max_connections=LIMIT)
    for instance in (one, another):
        policies.set(instance.identity, policy)
    calls = [one.call(), one.call()]
    other = another.call()
    try:
        transports = list(REFUSED)
        for number in range(LIMIT):
            assert calls[number % 2].open(transports[number % 3]) is None, number
        assert slots.held(one.identity) == LIMIT
        for call in calls:
            assert call.open(seventeenth) == REFUSED[seventeenth]
        assert slots.held(one.identity) == LIMIT
        assert other.open(seventeenth) is None, "another instance has a count of its own"
        calls[0].end()
        assert peers.eventually(lambda: slots.held(one.identity) == LIMIT // 2)
        assert calls[1].open(seventeenth) is None
    finally:
        for call in (*calls, other):
            call.end()
    assert peers.eventually(lambda: slots.held(one.identity) == slots.held(another.identity) == 0)


@pytest.mark.slow
@pytest.mark.req("PLG-124", "PAINS-3")
def test_a_thousand_calls_leave_nothing_of_any_transport(origin: peers.Peer) -> None:
    policies, slots = SettablePolicies(), ConnectionSlots()
    resolver = ScriptedResolver({"a.example": [["127.0.0.1"]]})
    dialer = Dialer(policies, MemoryEgressLog(), resolver=resolver, slots=slots, anchors=AnchorStore())
    services = InstanceServices(Config(), MemoryLogSink(), network=dialer)
    instance = Instance("one", services, origin.port)
    policies.set(instance.identity, EgressPolicy.of(["a.example"], ["a.example"], max_connections=LIMIT))
    with peers.nothing_left():
        for number in range(1_000):
            call = instance.call()
            for transport in list(REFUSED)[number % 3 :]:
                assert call.open(transport) is None, (number, transport)
            call.end()
            assert slots.held(instance.identity) == 0, number
