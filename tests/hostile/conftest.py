"""Sandboxes for enemies, and the witness that says what an attack left behind."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import wasmtime
from attacks.attack import HARMLESS, answering
from plugin_parts import admitted
from wasmtime.component import Linker
from wasmtime.component import _linker as library  # pyright: ignore[reportPrivateUsage]

from zeroclaw_host.errors import ComponentMismatch
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.sandbox import raw
from zeroclaw_host.sandbox.conversion import CompiledConversion, Conversion, StockConversion
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.linker import LinkedComponent
from zeroclaw_host.sandbox.resources import ResourceTable
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.sandbox.store import Guest
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.loading import link_package
from zeroclaw_host.worlds.tool import ToolPlugin
from zeroclaw_host.worlds.warm import WarmStore

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "test-guests" / "compiled"
"""Shared with other tests, so that what Python plugins have in common is compiled once."""

CONVERSIONS: Mapping[str, type[CompiledConversion] | type[StockConversion]] = {
    "compiled": CompiledConversion,
    "stock": StockConversion,
}

LEFT_BEHIND = (
    CallFrame,
    ResourceTable,
    Guest,
    LinkedComponent,
    ToolPlugin,
    WarmStore,
    Linker,
    wasmtime.Store,
)
"""Kinds of objects that a finished call has no use for."""


SETTLING_SECONDS = 30.0
"""Far longer than a thread takes to return to its pool."""


class NoConfig:
    """Resolves to nothing."""

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        return ResolvedConfig(scope, {}, {})


@pytest.fixture(scope="session")
def no_config() -> NoConfig:
    """A resolver for plugins without configuration."""
    return NoConfig()


@pytest.fixture(scope="session", params=sorted(CONVERSIONS))
def conversion(request: pytest.FixtureRequest) -> Conversion:
    """Both ways across the boundary."""
    return CONVERSIONS[request.param]()


@pytest.fixture(scope="session")
def sandbox(conversion: Conversion) -> Iterator[Sandbox]:
    """A sandbox for each way across the boundary; what it compiled outlives the run."""
    with Sandbox(CACHE, threads=1, conversion=conversion) as found:
        yield found


def package_of(component: bytes, capability: Capability = Capability.TOOL) -> AdmittedPackage:
    """A package without permissions around a component."""
    lines = ('name = "enemy"', 'version = "1.0.0"', 'wasm_path = "enemy.wasm"')
    text = "\n".join((*lines, f'capabilities = ["{capability.value}"]', ""))
    return admitted(text.encode(), component)


@pytest.fixture(scope="session")
def enemy_package() -> Callable[..., AdmittedPackage]:
    return package_of


@pytest.fixture(scope="session")
def already_compiled(sandbox: Sandbox) -> Callable[..., None]:
    """Sees to it that a component is in the cache, so that what that keeps was not left behind by a call."""

    def compiled(component: bytes, capability: Capability = Capability.TOOL) -> None:
        package = package_of(component, capability)
        scope = InstanceScope.admit(InstanceIdentity("enemy", capability, "enemy"), package.manifest)
        with suppress(ComponentMismatch):
            link_package(sandbox, package, scope)

    return compiled


@pytest.fixture(scope="session")
def load_tool_into() -> Callable[..., ToolPlugin]:
    """Loads a component into a sandbox as the tool of a package without permissions."""

    def load(
        sandbox: Sandbox, component: bytes, limits: Limits, sink: MemoryLogSink | None = None
    ) -> ToolPlugin:
        package = package_of(component)
        scope = InstanceScope.admit(InstanceIdentity.default_tool("enemy"), package.manifest)
        services = InstanceServices(NoConfig(), sink or MemoryLogSink())
        return ToolPlugin.load(sandbox, package, scope, services, limits)

    return load


@pytest.fixture(scope="session")
def load_tool(sandbox: Sandbox, load_tool_into: Callable[..., ToolPlugin]) -> Callable[..., ToolPlugin]:
    """The same for the sandbox of most tests."""
    return partial(load_tool_into, sandbox)


@pytest.fixture(scope="session")
def honest(load_tool: Callable[..., ToolPlugin]) -> ToolPlugin:
    """Somebody else's tool in the same sandbox, used once, so that whatever is started once has been."""
    tool = load_tool(answering(HARMLESS)(), Limits())
    assert tool.execute_sync({}).output == "harmless"
    return tool


@dataclass(slots=True)
class Witness:
    """What it saw while the block ran. Sizes in bytes, times in seconds.

    ``worked`` is the processor time of this process, which a machine busy with other things does not change.
    """

    seconds: float = 0.0
    worked: float = 0.0
    grown: int = 0


@pytest.fixture
def witness() -> Callable[[], object]:
    """Watches a block: how long it took, how far memory grew, and that nothing of it is left."""

    @contextmanager
    def watch() -> Iterator[Witness]:
        gc.collect()
        gc.freeze()  # what comes later is what the block made
        try:
            before = remains()
            resident = reset_peak()
            seen = Witness()
            started, idle = time.monotonic(), time.process_time()
            yield seen
            seen.seconds = time.monotonic() - started
            seen.worked = time.process_time() - idle
            seen.grown = peak() - resident
            settle(before)
            assert added(before) == {}
            assert left_behind() == {}
        finally:
            gc.unfreeze()

    return watch


def settle(before: Mapping[str, object]) -> None:
    """Let the guest thread leave the call whose result is already here; give up on what stays."""
    give_up = time.monotonic() + SETTLING_SECONDS
    gc.collect()
    while (added(before) or left_behind()) and time.monotonic() < give_up:
        threading.Event().wait(0.01)
        gc.collect()


def left_behind() -> Mapping[str, int]:
    """Objects of the sandbox that were made since the garbage collector's freeze and are still there, by kind."""
    return Counter(type(thing).__name__ for thing in gc.get_objects() if isinstance(thing, LEFT_BEHIND))


def remains() -> Mapping[str, object]:
    """What an attack might add to in this process."""
    return {
        "threads": entries("/proc/self/task"),
        "named threads": Counter(thread.name for thread in threading.enumerate()),
        "descriptors": entries("/proc/self/fd"),
        "host functions": raw.live_callbacks(),
        "the library's functions": len(library.FUNCTIONS.handles),
        "the library's destructors": len(library.RESOURCE_DTORS.handles),
        "children": Counter(
            Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
        ),
    }


def added(before: Mapping[str, object]) -> Mapping[str, object]:
    """What there is more of than before. What an earlier test left may have gone meanwhile."""
    return {name: now for name, now in remains().items() if not now <= before[name]}  # type: ignore[operator]


def entries(directory: str) -> int:
    """How many entries a directory of the process has."""
    return len(list(Path(directory).iterdir()))


def reset_peak() -> int:
    """Begin a new measurement of the peak; the memory in use now (bytes)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS")


def peak() -> int:
    """The most memory in use since (bytes)."""
    return _status("VmHWM")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
