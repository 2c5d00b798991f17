"""A guest's side of ``sockets``, its network of scripted hosts, and the peers behind them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import peers
import pytest
from built_plugins import built_plugin
from loopback import authority, peer, secure, trusted

from zeroclaw_host.egress.anchors import AnchorStore
from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.egress.records import MemoryEgressLog
from zeroclaw_host.egress.slots import ConnectionSlots
from zeroclaw_host.egress.testing import Answer, ScriptedResolver, SettablePolicies
from zeroclaw_host.errors import DeadlineExceeded, PluginError
from zeroclaw_host.imports.sockets import INTERFACE
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import admit
from zeroclaw_host.package.manifest import Permission, parse_manifest
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.sandbox.frame import CallCancelled, CallFrame, Phase, entered
from zeroclaw_host.sandbox.gate import Gated
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.resources import ResourceTable
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.sandbox.values import Err, Ok
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.tool import ToolPlugin

__all__ = ["authority", "peer", "secure", "trusted"]

IDENTITY = InstanceIdentity.default_tool("mail")


def scope_of(permissions: Sequence[str]) -> InstanceScope:
    text = f'name = "mail"\nversion = "1.0.0"\nwasm_path = "mail.wasm"\ncapabilities = ["tool"]\npermissions = {list(permissions)}\n'
    return InstanceScope.admit(IDENTITY, parse_manifest(text.encode()))


@dataclass
class Settings:
    """A configuration of secrets that a test changes."""

    secrets: dict[str, str] = field(default_factory=dict)
    host_only: set[str] = field(default_factory=set)

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        return ResolvedConfig(scope, {}, dict(self.secrets), frozenset(self.host_only))


class Network:
    """A dialer for hosts of a script, with everything around it; all hosts are granted, private addresses included."""

    def __init__(self, script: Mapping[str, Sequence[Answer]], **policy: Any) -> None:
        self.log = MemoryEgressLog()
        self.instances = {IDENTITY}
        self.slots = ConnectionSlots()
        self.policies = SettablePolicies()
        self.resolver = ScriptedResolver(script)
        self.grant(script, **policy)
        self.dialer = Dialer(
            self.policies, self.log, resolver=self.resolver, slots=self.slots, anchors=AnchorStore()
        )

    def grant(
        self,
        hosts: Mapping[str, object] | Sequence[str],
        *,
        private: bool = True,
        max_connections: int = 16,
        tls_profiles: Sequence[TlsProfile] = (),
        identity: InstanceIdentity = IDENTITY,
    ) -> None:
        """From here on these are the granted hosts."""
        policy = EgressPolicy.of(
            hosts, hosts if private else (), max_connections=max_connections, tls_profiles=tls_profiles
        )
        self.policies.set(identity, policy)

    @property
    def held(self) -> int:
        """Connections of every instance that a test made."""
        return sum(self.slots.held(identity) for identity in self.instances)

    def refusals(self) -> list[object]:
        return [
            record.attributes["reason"]
            for record in self.log.records
            if record.error_key.value == "plugin_egress_denied"
        ]


class Guest:
    """What a guest can do, in one call frame."""

    def __init__(
        self,
        network: Network,
        *,
        permissions: Sequence[str] = ("socket_client", "config_read"),
        settings: Settings | None = None,
        phase: Phase = Phase.TOOL_EXECUTE,
        table: ResourceTable | None = None,
    ) -> None:
        self.network = network
        self._late = 0.0
        services = InstanceServices(
            config=settings or Settings(), log=MemoryLogSink(), network=network.dialer
        )
        self.frame = CallFrame(
            scope=scope_of(permissions),
            services=services,
            limits=Limits(call_timeout_ms=600_000),
            phase=phase,
            table=table,
            clock=lambda: time.monotonic() + self._late,
        )

    def end_by(self, what: str) -> type[PluginError]:
        """The call's deadline passes, or its caller gives it up. The error that it ends with."""
        if what == "cancel":
            self.frame.cancel()
            return CallCancelled
        self._late = self.frame.limits.call_timeout_seconds
        self.frame.notify()
        return DeadlineExceeded

    def call(self, name: str, *values: object) -> Any:
        """A host function, uncharged."""
        return INTERFACE.functions[name].implementation(self.frame, *values)

    def gated(self, name: str, *values: object) -> Any:
        """A host function through the gate, which charges it."""
        with entered(self.frame):
            passed, value = Gated(INTERFACE.name, INTERFACE.functions[name]).pass_through(
                lambda _: list(values), lambda _, value: value
            )
        assert passed, self.frame.error
        return value

    def request(
        self, port: int, host: str = "a.example", mode: str = "plaintext", profile: str | None = None
    ) -> dict[str, object]:
        return {"host": host, "port": port, "mode": mode, "tls-profile": profile}

    def try_connect(self, port: int, **how: Any) -> Ok | Err:
        result: Ok | Err = self.call("connect", self.request(port, **how))
        if isinstance(result, Ok):
            self.frame.table.push(result.value)
        return result

    def connect(self, port: int, **how: Any) -> Plug:
        result = self.try_connect(port, **how)
        assert isinstance(result, Ok), result
        return Plug(self, result.value)


@dataclass
class Plug:
    """A connection of the guest's."""

    guest: Guest
    resource: Any

    def call(self, method: str, *values: object) -> Any:
        return self.guest.call(f"[method]connection.{method}", self.resource, *values)

    def send(self, data: bytes) -> Any:
        return self.call("send", data)

    def receive(self) -> Any:
        return self.call("receive")

    def pending(self) -> int:
        return self.call("pending").value

    def close(self) -> None:
        self.guest.call("close", self.resource)

    def arrives(self, method: str = "receive") -> Any:
        """The next event that is not idle, or the error."""
        found: list[Any] = []

        def look() -> bool:
            found[:] = [self.call(method)]
            return found[0] != Ok(("idle", None))

        assert peers.eventually(look), "nothing arrives"
        return found[0].value

    def arrive(self, size: int, method: str = "receive") -> bytes:
        """So many bytes."""
        got = bytearray()
        while len(got) < size:
            match self.arrives(method):
                case ("data", data):
                    got += data
                case other:
                    pytest.fail(f"{other} after {len(got)} bytes")
        return bytes(got)


@pytest.fixture
def network() -> type[Network]:
    return Network


@pytest.fixture
def settings() -> type[Settings]:
    return Settings


@pytest.fixture
def guest(peer: object) -> Iterator[Callable[..., Guest]]:
    """Makes guests whose frames end with the test, before their peers do."""
    made: list[Guest] = []

    def make(*arguments: Any, **how: Any) -> Guest:
        made.append(Guest(*arguments, **how))
        return made[-1]

    yield make
    for one in made:
        one.frame.table.close()


@pytest.fixture(scope="session")
def tool(sandbox: Sandbox) -> Callable[..., ToolPlugin]:
    """Loads a plugin of ``plugins/`` beside this file as a tool on a network."""

    def load(
        name: str,
        network: Network,
        settings: Settings,
        *,
        limits: Limits | None = None,
        permissions: Sequence[str] | None = None,
    ) -> ToolPlugin:
        directory = built_plugin(Path(__file__).parent / "plugins" / name)
        package = admit(DirectoryReader(directory), SignaturePolicy())
        identity = InstanceIdentity.default_tool(name)
        network.policies.set(identity, network.policies.policy(IDENTITY))
        network.instances.add(identity)
        grants = None if permissions is None else frozenset(map(Permission, permissions))
        scope = InstanceScope.admit(identity, package.manifest, grants=grants)
        services = InstanceServices(config=settings, log=MemoryLogSink(), network=network.dialer)
        return ToolPlugin.load(sandbox, package, scope, services, limits or Limits())

    return load
