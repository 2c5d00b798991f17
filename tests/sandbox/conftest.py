"""Tiny guests written in WebAssembly text, and frames to call them in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from zeroclaw_host.contract import ungated_wit
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import parse_manifest
from zeroclaw_host.sandbox.conversion import CompiledConversion, Conversion, StockConversion
from zeroclaw_host.sandbox.frame import CallFrame, Phase
from zeroclaw_host.sandbox.interface import HostInterface
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.linker import Surface
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.logging import MemoryLogSink

WASM_TOOLS = Path(sys.executable).with_name("wasm-tools")

MEMORY = """
  (memory (export "memory") 2)
  (global $next (mut i32) (i32.const 8192))
  (func $realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
    (global.set $next (i32.add (local.get $at) (local.get 3)))
    (local.get $at))
"""

TEXTS = """
  (data (i32.const 64) "tiny{}")
  (data (i32.const 80) "\\40\\00\\00\\00\\04\\00\\00\\00\\44\\00\\00\\00\\02\\00\\00\\00")
  (func (export "zeroclaw:plugin/plugin-info@0.1.0#plugin-name") (result i32) (i32.const 80))
  (func (export "zeroclaw:plugin/plugin-info@0.1.0#plugin-version") (result i32) (i32.const 80))
  (func (export "zeroclaw:plugin/tool@0.1.0#name") (result i32) (i32.const 80))
  (func (export "zeroclaw:plugin/tool@0.1.0#description") (result i32) (i32.const 80))
  (func (export "zeroclaw:plugin/tool@0.1.0#parameters-schema") (result i32) (i32.const 88))
"""

ECHO = """
  ;; the arguments as the output of a successful result
  (func $answer (param $at i32) (param $size i32) (result i32)
    (i32.store8 (i32.const 256) (i32.const 0))
    (i32.store8 (i32.const 260) (i32.const 1))
    (i32.store (i32.const 264) (local.get $at))
    (i32.store (i32.const 268) (local.get $size))
    (i32.store8 (i32.const 272) (i32.const 0))
    (i32.const 256))
"""


@pytest.fixture(scope="session")
def embed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    """Makes a component of a core module, for a world of the contract or of a changed copy of it."""

    def make(core: str, *, wit: str | None = None, world: str = "tool-plugin") -> bytes:
        work = tmp_path_factory.mktemp("component")
        (work / "core.wat").write_text(core, encoding="utf-8")
        (work / "plugin.wit").write_text(
            wit or (ungated_wit() / "plugin.wit").read_text(encoding="utf-8"), encoding="utf-8"
        )
        steps = (
            ["component", "embed", "plugin.wit", "--world", world, "core.wat", "-o", "embedded.wasm"],
            ["component", "new", "embedded.wasm", "-o", "component.wasm"],
        )
        for step in steps:
            done = subprocess.run(
                [str(WASM_TOOLS), *step], cwd=work, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        return (work / "component.wasm").read_bytes()

    return make


@pytest.fixture(scope="session")
def tool_core() -> Callable[..., str]:
    """The text of a core module that is a tool; ``execute`` gets the arguments' address and size as locals 0 and 1."""

    def make(
        execute: str = "(call $answer (local.get 0) (local.get 1))", *, imports: str = "", extra: str = ""
    ) -> str:
        return f"""(module {imports} {MEMORY} {TEXTS} {ECHO} {extra}
          (func (export "zeroclaw:plugin/tool@0.1.0#execute") (param i32 i32) (result i32) {execute}))"""

    return make


@pytest.fixture(scope="session")
def wat() -> Callable[[str], bytes]:
    """The bytes of a component written as text."""

    def make(text: str) -> bytes:
        done = subprocess.run(
            [str(WASM_TOOLS), "parse", "-", "-o", "/dev/stdout"],
            input=text.encode(),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    return make


CONVERSIONS: Mapping[str, type[CompiledConversion] | type[StockConversion]] = {
    "compiled": CompiledConversion,
    "stock": StockConversion,
}


@pytest.fixture(scope="session", params=sorted(CONVERSIONS))
def conversion(request: pytest.FixtureRequest) -> Conversion:
    """Both ways across the boundary."""
    return CONVERSIONS[request.param]()


@pytest.fixture(scope="session")
def sandbox(conversion: Conversion) -> Iterator[Sandbox]:
    """A sandbox for each way across the boundary; what it compiled outlives the run."""
    cache = Path(__file__).parents[2] / ".cache" / "sandbox-tests"
    with Sandbox(cache, threads=8, conversion=conversion) as found:
        yield found


class NoConfig:
    """Resolves to nothing."""

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        return ResolvedConfig(scope, {}, {})


@pytest.fixture(scope="session")
def scope() -> InstanceScope:
    manifest = parse_manifest(
        b'name = "tiny"\nversion = "1.0.0"\nwasm_path = "tiny.wasm"\ncapabilities = ["tool"]\n'
    )
    return InstanceScope.admit(InstanceIdentity.default_tool("tiny"), manifest)


@pytest.fixture
def new_frame(scope: InstanceScope) -> Callable[..., CallFrame]:
    """Makes call frames of a tool's execution."""

    def make(limits: Limits | None = None, *, phase: Phase = Phase.TOOL_EXECUTE, **more: object) -> CallFrame:
        services = InstanceServices(config=NoConfig(), log=MemoryLogSink())
        return CallFrame(scope=scope, services=services, limits=limits or Limits(), phase=phase, **more)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def surface() -> Callable[..., Surface]:
    """The tool world with interfaces of the test's own."""

    def make(*interfaces: HostInterface, reasons: Mapping[str, str] | None = None) -> Surface:
        return Surface(
            interfaces={found.name: found for found in interfaces},
            native=frozenset(),
            empty=frozenset({"zeroclaw:plugin/types"}),
            reasons=reasons or {},
            exports=("zeroclaw:plugin/plugin-info", "zeroclaw:plugin/tool"),
            version_fits=lambda name, version: version == "0.1.0",
        )

    return make


Execute = Callable[..., object]


@pytest.fixture
def execute(sandbox: Sandbox, new_frame: Callable[..., CallFrame]) -> Execute:
    """Loads a component behind a surface and runs its ``execute`` once, on a guest thread."""

    def run(
        component: bytes, surface: Surface, *, arguments: str = "{}", frame: CallFrame | None = None
    ) -> object:
        linked = sandbox.load(component, surface)
        used = frame or new_frame()

        def work() -> object:
            with sandbox.guest(linked, used) as guest:
                return guest.call(used, "zeroclaw:plugin/tool", "execute", arguments)

        return sandbox.threads.run(used, work)

    return run
