"""What is linked for a plugin: the table, whole, for every capability and every set of permissions."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from plugin_parts import Config, scope_of

from zeroclaw_host.errors import ComponentMismatch, Kind
from zeroclaw_host.package.manifest import Capability, Permission
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction, interface
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.linker import Surface
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds import surface as module
from zeroclaw_host.worlds.instance import instantiate
from zeroclaw_host.worlds.surface import HttpIncoherent, surface_of

TABLE = {
    Capability.TOOL: {"logging", "secrets", "state"},
    Capability.CHANNEL: {"logging", "secrets", "state", "config", "inbound"},
    Capability.MEMORY: {"logging"},
}
"""The plugin interfaces of each capability, whatever its permissions."""

TRANSPORTS = {
    "wasi:http/types": Permission.HTTP_CLIENT,
    "wasi:http/outgoing-handler": Permission.HTTP_CLIENT,
    "zeroclaw:plugin/sockets": Permission.SOCKET_CLIENT,
    "zeroclaw:plugin/websocket": Permission.WEBSOCKET_CLIENT,
}
"""What tools and channels have besides, each with its permission."""

WASI = {
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:sockets/instance-network",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/network",
    "wasi:sockets/tcp",
    "wasi:sockets/tcp-create-socket",
    "wasi:sockets/udp",
    "wasi:sockets/udp-create-socket",
}
"""What the host answers of the empty system, to everybody."""

NATIVE = {
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:clocks/wall-clock",
    "wasi:random/random",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
}
"""What wasmtime answers itself, from an empty context."""

EVERY_PERMISSION_SET = [
    frozenset(chosen)
    for size in range(len(Permission) + 1)
    for chosen in itertools.combinations(Permission, size)
]


def table_of(capability: Capability, grants: frozenset[Permission]) -> set[str]:
    """The names of the interfaces the linker shall have, besides WASI's."""
    names = {f"zeroclaw:plugin/{name}" for name in TABLE[capability]}
    if capability is not Capability.MEMORY:
        names |= {name for name, permission in TRANSPORTS.items() if permission in grants}
    return names


@pytest.mark.req("PLG-103", "PLG-012", "PLG-016")
@pytest.mark.parametrize("capability", TABLE)
def test_the_linker_has_exactly_the_table_under_every_set_of_permissions(capability):
    assert len(EVERY_PERMISSION_SET) == 2 ** len(Permission)
    for grants in EVERY_PERMISSION_SET:
        surface = surface_of(capability, grants)
        assert set(surface.interfaces) == WASI | table_of(capability, grants), grants
        assert surface.native == NATIVE
        assert surface.empty == {"zeroclaw:plugin/types"}
        assert surface.exports == ("zeroclaw:plugin/plugin-info", f"zeroclaw:plugin/{capability.value}")


@pytest.mark.req("PLG-103")
@pytest.mark.parametrize("capability", TABLE)
def test_every_interface_behind_a_name_is_the_one_of_that_name_and_whole(capability):
    for name, found in surface_of(capability, frozenset(Permission)).interfaces.items():
        assert found.name == name
        assert all(function.name == key for key, function in found.functions.items())


@pytest.mark.req("PLG-103", "PLG-008")
def test_a_memory_has_no_transport_under_any_permission_and_is_told_why():
    reasons = surface_of(Capability.MEMORY, frozenset(Permission)).reasons
    assert {
        name: reasons[name] for name in ("wasi:http/types", "wasi:http/outgoing-handler")
    } == dict.fromkeys(("wasi:http/types", "wasi:http/outgoing-handler"), "a memory plugin has no network")


@pytest.mark.req("PLG-103")
@pytest.mark.parametrize("capability", [Capability.TOOL, Capability.CHANNEL])
@pytest.mark.parametrize(("name", "permission"), TRANSPORTS.items())
def test_a_transport_is_refused_for_its_own_permission_alone(capability, name, permission):
    for grants in EVERY_PERMISSION_SET:
        reason = surface_of(capability, grants).reasons.get(name, "")
        assert (permission.value in reason) is (permission not in grants)


# --- the same, asked of wasmtime ----------------------------------------------------------------------------------------


ALL = {f"zeroclaw:plugin/{name}" for name in TABLE[Capability.CHANNEL]} | set(TRANSPORTS)


@pytest.fixture(scope="module")
def greedy() -> bytes:
    """A component that imports every interface there is, without any function of it, and exports nothing."""
    tool = Path(sys.executable).with_name("wasm-tools")
    imports = "".join(
        f'(import "{name}@{"0.1.0" if name.startswith("zeroclaw:") else "0.2.0"}" (instance))'
        for name in sorted(ALL)
    )
    command = [str(tool), "parse", "-", "-o", "/dev/stdout"]
    text = f"(component {imports})".encode()
    return subprocess.run(command, input=text, capture_output=True, check=True).stdout


@pytest.mark.req("PLG-103", "PLG-016")
@pytest.mark.parametrize("capability", TABLE)
def test_what_is_not_in_the_table_does_not_link_and_what_is_does(capability, greedy, sandbox):
    everything = frozenset(Permission)
    with pytest.raises(ComponentMismatch) as caught:
        sandbox.load(greedy, surface_of(capability, everything))
    told = " ".join(caught.value.details["differences"])  # type: ignore[arg-type]
    refused = {name for name in ALL if f"{name}@" in told}
    assert refused == ALL - table_of(capability, everything)


# --- HTTP -----------------------------------------------------------------------------------------------------------------

EMPTY = b"\0asm\r\0\1\0"
"""A component of nothing: it needs no import and instantiates anywhere."""


def surface_with(*names: str) -> Surface:
    return Surface(
        interfaces={name: interface(name, HostFunction("f", lambda frame: None)) for name in names},
        native=frozenset(),
        empty=frozenset(),
        reasons={},
        exports=(),
        version_fits=lambda name, version: True,
    )


@pytest.fixture
def new_guest(sandbox):
    """Instantiates nothing behind a surface, in a frame with or without HTTP."""

    def make(surface: Surface, http: object | None) -> None:
        scope = scope_of(Capability.TOOL)
        services = InstanceServices(config=Config(), log=MemoryLogSink())
        frame = CallFrame(scope=scope, services=services, limits=Limits(), http=http)
        linked = sandbox.load(EMPTY, surface)
        sandbox.threads.run(frame, lambda: instantiate(sandbox, linked, frame).close())

    return make


@pytest.mark.req("PLG-104")
@pytest.mark.parametrize("name", ["wasi:http/types", "wasi:http/outgoing-handler"])
def test_a_linker_with_http_and_a_frame_without_are_refused(name, new_guest, sandbox, monkeypatch):
    monkeypatch.setattr(sandbox, "guest", None)
    with pytest.raises(HttpIncoherent) as caught:
        new_guest(surface_with(name), None)
    assert caught.value.kind is Kind.INTERNAL
    assert "linked with HTTP" in caught.value.message


@pytest.mark.req("PLG-104")
def test_a_frame_with_http_and_a_linker_without_are_refused(new_guest, sandbox, monkeypatch):
    monkeypatch.setattr(sandbox, "guest", None)
    with pytest.raises(HttpIncoherent, match="without HTTP"):
        new_guest(surface_with(), object())


@pytest.mark.req("PLG-104")
@pytest.mark.parametrize(("names", "http"), [((), None), (("wasi:http/outgoing-handler",), object())])
def test_a_linker_and_a_frame_that_agree_make_a_guest(names, http, new_guest):
    new_guest(surface_with(*names), http)


@pytest.mark.req("PLG-104")
def test_the_worlds_make_guests_in_no_other_way():
    worlds = Path(module.__file__).parent
    made = {
        path.relative_to(worlds).as_posix()
        for path in worlds.rglob("*.py")
        if "sandbox.guest(" in path.read_text(encoding="utf-8")
    }
    assert made == {"instance.py"}
