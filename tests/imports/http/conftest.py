"""``wasi:http`` at the level of its functions, with a real network authority and real origins behind them."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import http_origins
import pytest
from loopback import authority, peer, secure, trusted
from plugin_parts import Config

from zeroclaw_host.egress.anchors import AnchorStore
from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.http.exchange import HttpClient
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.records import MemoryEgressLog
from zeroclaw_host.egress.slots import ConnectionSlots
from zeroclaw_host.egress.testing import Answer, ScriptedResolver, SettablePolicies
from zeroclaw_host.imports.http import OUTGOING_HANDLER, TYPES
from zeroclaw_host.imports.wasi import INTERFACES
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import Permission, parse_manifest
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.values import Ok
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import MemoryLogSink

__all__ = ["authority", "peer", "secure", "trusted"]

MANIFEST = (
    b'name = "weather"\nversion = "1.0.0"\nwasm_path = "weather.wasm"\ncapabilities = ["tool"]\n'
    b'permissions = ["http_client"]\n[egress]\nhosts = ["declared.example"]\n'
)
IDENTITY = InstanceIdentity.default_tool("weather")
PLENTY_MS = 120_000
"""A call's time that no good run comes near."""

SECOND = 1_000_000_000


class Guest:
    """A tool that is being called, and the network authority of its host.

    :param script: what each host's addresses are. Every host is granted, private addresses included.
    """

    def __init__(
        self,
        script: Mapping[str, Sequence[Answer]],
        *,
        max_connections: int = 16,
        grants: frozenset[Permission] | None = None,
    ) -> None:
        self.resolver = ScriptedResolver(script)
        self.policies = SettablePolicies()
        self.log = MemoryEgressLog()
        self.slots = ConnectionSlots()
        self.grant(*script, max_connections=max_connections)
        dialer = Dialer(
            self.policies, self.log, resolver=self.resolver, slots=self.slots, anchors=AnchorStore()
        )
        self.services = InstanceServices(config=Config(), log=MemoryLogSink(), network=dialer)
        self.scope = InstanceScope.admit(IDENTITY, parse_manifest(MANIFEST), grants=grants)
        self.frame = self.new_frame()

    def grant(self, *hosts: str, private: bool = True, max_connections: int = 16) -> None:
        """From here on these hosts are granted and no others."""
        policy = EgressPolicy.of(hosts, hosts if private else (), max_connections=max_connections)
        self.policies.set(IDENTITY, policy)

    def new_frame(self, timeout_ms: int = PLENTY_MS, **more: Any) -> CallFrame:
        """The frame of another call."""
        return CallFrame(
            scope=self.scope,
            services=self.services,
            limits=Limits(call_timeout_ms=timeout_ms),
            http=HttpClient(self.services.network),
            **more,
        )

    @property
    def held(self) -> int:
        """Connections that the instance holds."""
        return self.slots.held(IDENTITY)

    # --- what a guest does ------------------------------------------------------------------------------------------

    def call(self, function: str, *values: Any) -> Any:
        """Call a function by the name a component has for it."""
        for interface in (TYPES, OUTGOING_HANDLER, *INTERFACES.values()):
            if found := interface.functions.get(function):
                return found.implementation(self.frame, *values)
        raise KeyError(function)

    def ok(self, function: str, *values: Any) -> Any:
        """The same, of a call that works."""
        result = self.call(function, *values)
        assert isinstance(result, Ok), result
        return result.value

    def fields(self, *entries: tuple[str, bytes]) -> Any:
        return self.ok("[static]fields.from-list", list(entries))

    def request(
        self,
        url: str,
        *entries: tuple[str, bytes],
        method: tuple[str, str | None] = ("get", None),
    ) -> Any:
        """A request to a URL."""
        scheme, _, rest = url.partition("://")
        authority, slash, path = rest.partition("/")
        request = self.call("[constructor]outgoing-request", self.fields(*entries))
        self.ok("[method]outgoing-request.set-method", request, method)
        self.ok("[method]outgoing-request.set-scheme", request, (scheme.upper(), None))
        self.ok("[method]outgoing-request.set-authority", request, authority)
        self.ok("[method]outgoing-request.set-path-with-query", request, f"{slash}{path}")
        return request

    def options(self, **seconds: float) -> Any:
        """Options with some times, ``first_byte=0.1``."""
        options = self.call("[constructor]request-options")
        for name, value in seconds.items():
            setter = f"[method]request-options.set-{name.replace('_', '-')}-timeout"
            self.ok(setter, options, round(value * SECOND))
        return options

    def handle(self, request: Any, options: Any = None) -> Any:
        """The future of a request that is sent."""
        return self.ok("handle", request, options)

    def get(self, url: str, *entries: tuple[str, bytes], **seconds: float) -> Any:
        return self.handle(self.request(url, *entries), self.options(**seconds))

    def answer(self, future: Any) -> Any:
        """What became of it: the response, or the error code."""
        self.call("[method]pollable.block", self.call("[method]future-incoming-response.subscribe", future))
        result = self.call("[method]future-incoming-response.get", future)
        assert isinstance(result, Ok), result
        inner = result.value
        return inner.value  # type: ignore[union-attr]

    def body(self, response: Any) -> tuple[Any, Any]:
        """A response's body and its stream."""
        body = self.ok("[method]incoming-response.consume", response)
        return body, self.ok("[method]incoming-body.stream", body)

    def read(self, stream: Any) -> tuple[bytes, Any]:
        """All of a stream, and the error code at its end; None of a regular one."""
        found = bytearray()
        while isinstance(result := self.call("[method]input-stream.blocking-read", stream, 65_536), Ok):
            found += result.value  # type: ignore[operator]
        kind, error = result.value
        return bytes(found), None if kind == "closed" else self.call("http-error-code", error)

    def content(self, response: Any) -> bytes:
        """All of a response's content, which has to be whole. Nothing of it stays open."""
        body, stream = self.body(response)
        found, error = self.read(stream)
        assert error is None, error
        stream.close()
        body.close()
        return found

    def trailers(self, body: Any) -> Any:
        """The trailers after a body whose stream is gone."""
        future = self.call("[static]incoming-body.finish", body)
        self.call("[method]pollable.block", self.call("[method]future-trailers.subscribe", future))
        return self.call("[method]future-trailers.get", future)


@pytest.fixture
def guest() -> Callable[..., Guest]:
    """A guest that may talk to ``a.example``, which is this machine."""

    def make(script: Mapping[str, Sequence[Answer]] | None = None, **how: Any) -> Guest:
        return Guest({"a.example": [["127.0.0.1"]]} if script is None else script, **how)

    return make


@pytest.fixture
def origin() -> Iterator[Callable[..., http_origins.Origin]]:
    """Origins on loopback that end with the test."""
    made: list[http_origins.Origin] = []

    def start(paths: Any = http_origins.echo, *, tls: ssl.SSLContext | None = None) -> http_origins.Origin:
        made.append(http_origins.Origin(paths, tls=tls))
        return made[-1]

    yield start
    for one in made:
        one.close()
