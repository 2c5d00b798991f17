"""Frames with a clock of their own, and guests built once."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from plugin_parts import admitted

from zeroclaw_host.contract import wit_directory
from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import parse_manifest
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.logging import LogSink, MemoryLogSink
from zeroclaw_host.worlds.kinds import ToolResult
from zeroclaw_host.worlds.tool import ToolPlugin

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
GUESTS = Path(__file__).parent / "guests"
MANIFEST = b'name = "probe"\nversion = "1.0.0"\nwasm_path = "probe.wasm"\ncapabilities = ["tool"]\n'


class NoConfig:
    """Resolves to nothing."""

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        return ResolvedConfig(scope, {}, {})


class StandingClock:
    """Seconds that pass when a test says so."""

    def __init__(self, start: float = 1000.0) -> None:
        self.seconds = start

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def scope() -> InstanceScope:
    manifest = parse_manifest(MANIFEST)
    return InstanceScope.admit(InstanceIdentity.default_tool("probe"), manifest)


@pytest.fixture
def services() -> InstanceServices:
    return InstanceServices(config=NoConfig(), log=MemoryLogSink())


@pytest.fixture
def frame(clock: StandingClock, scope: InstanceScope, services: InstanceServices) -> CallFrame:
    """A frame of 30 seconds on the standing clock."""
    return CallFrame(scope=scope, services=services, limits=Limits(call_timeout_ms=30_000), clock=clock)


class Waiting:
    """A call that waits on a thread of its own, so that the test can let time pass meanwhile."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.result: object = None
        self.error: Exception | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except Exception as error:  # noqa: BLE001 - raised again where the test joins
            self.error = error

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> object:
        """The result, within a bound no good run comes near."""
        self._thread.join(20)
        assert self.over, "the call still waits"
        if self.error is not None:
            raise self.error
        return self.result


@pytest.fixture
def waiting() -> type[Waiting]:
    return Waiting


def digest_of(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:32]


def built_once(key: str, build: Callable[[Path], None]) -> Path:
    """A file under ``.cache/guests``, built when missing; another process that wants the same one waits."""
    cache = ROOT / ".cache" / "guests"
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / f"{key}.wasm"
    with (cache / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=cache) as work:
                build(Path(work) / "built.wasm")
                (Path(work) / "built.wasm").replace(target)
    return target


def staged_wit(target: Path, wasi: str = "0.2.12", guests: Path = GUESTS) -> None:
    """A WIT directory of the worlds in ``worlds.wit`` and all they need, with WASI of the given version."""
    shutil.copytree(wit_directory() / "deps", target / "deps")
    shutil.copytree(wit_directory() / "v0", target / "deps" / "plugin")
    shutil.copy(wit_directory() / "wasi.wit", target / "deps")
    shutil.copy(guests / "worlds.wit", target)
    for path in target.rglob("*.wit"):
        path.write_text(path.read_text().replace("@0.2.12", f"@{wasi}"))


@pytest.fixture(scope="session")
def python_guest() -> Callable[..., bytes]:
    """Builds ``<name>.py`` of a directory of guests for one of its worlds (about ten seconds, the first time)."""

    def build(name: str, guests: Path = GUESTS, world: str = "honest") -> bytes:
        sources = [*wit_directory().rglob("*.wit"), guests / "worlds.wit", guests / f"{name}.py"]
        key = digest_of(version("componentize-py"), *(path.read_bytes() for path in sorted(sources)))

        def run(target: Path) -> None:
            staged_wit(target.with_name("wit"), guests=guests)
            command = [
                str(BIN / "componentize-py"),
                *("--all-features", "-d", str(target.with_name("wit")), "-w", world),
                *("componentize", "-p", str(guests), name, "-o", str(target)),
            ]
            subprocess.run(command, check=True, capture_output=True)

        return built_once(f"{name}-{key}", run).read_bytes()

    return build


@pytest.fixture(scope="session")
def hostile_tool() -> Callable[[str, str, str], bytes]:
    """Builds a tool from core imports and the body of ``execute``, both in the text format, for a version of WASI."""

    def build(imports: str, body: str, wasi: str) -> bytes:
        text = (GUESTS / "hostile.wat").read_text().replace("{imports}", imports).replace("{body}", body)
        tool = [str(BIN / "wasm-tools"), "component"]
        embed = ["embed", "--all-features", "--world", "hostile", "wit", "core.wat", "-o", "core.wasm"]
        with tempfile.TemporaryDirectory() as name:
            work = Path(name)
            staged_wit(work / "wit", wasi)
            (work / "core.wat").write_text(text.replace("@0.2.12", f"@{wasi}"))
            subprocess.run([*tool, *embed], check=True, cwd=work)
            subprocess.run([*tool, "new", "core.wasm", "-o", "tool.wasm"], check=True, cwd=work)
            return (work / "tool.wasm").read_bytes()

    return build


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """A sandbox whose compiled components outlive the run."""
    with Sandbox(ROOT / ".cache" / "compiled", threads=2) as found:
        yield found


@pytest.fixture(scope="session")
def load_tool(sandbox: Sandbox) -> Callable[..., ToolPlugin]:
    """Loads a component as the tool of a package, one without permissions if none is given; its log goes to the sink."""

    def load(
        component: bytes,
        limits: Limits,
        sink: LogSink,
        *,
        manifest_bytes: bytes = MANIFEST,
        services: InstanceServices | None = None,
    ) -> ToolPlugin:
        manifest = parse_manifest(manifest_bytes)
        package = admitted(manifest_bytes, component)
        scope = InstanceScope.admit(InstanceIdentity.default_tool(manifest.name), manifest)
        services = services or InstanceServices(NoConfig(), sink)
        return ToolPlugin.load(sandbox, package, scope, services, limits)

    return load


@pytest.fixture
def run_hostile(
    hostile_tool: Callable[[str, str, str], bytes], load_tool: Callable[..., ToolPlugin]
) -> Callable[..., ToolResult]:
    """Builds a hostile tool and calls it once."""

    def run(imports: str, body: str, *, limits: Limits | None = None, wasi: str = "0.2.12") -> ToolResult:
        component = hostile_tool(imports, body, wasi)
        try:
            tool = load_tool(component, limits or Limits(), MemoryLogSink())
        except ZeroclawError as error:
            pytest.fail(f"the hostile tool does not load: {error}")
        return tool.execute_sync({})

    return run
