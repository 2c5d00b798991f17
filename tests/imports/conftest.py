"""Frames with a clock of their own, and guests built once."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from zeroclaw_host.contract import wit_directory
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import parse_manifest
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.logging import MemoryLogSink

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
GUESTS = Path(__file__).parent / "guests"


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
    manifest = parse_manifest(
        b'name = "probe"\nversion = "1.0.0"\nwasm_path = "probe.wasm"\ncapabilities = ["tool"]\n'
    )
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


@pytest.fixture(scope="session")
def python_guest() -> Callable[[str], bytes]:
    """Builds ``guests/<name>.py`` for the world ``tool-plugin`` (about ten seconds, the first time)."""

    def build(name: str) -> bytes:
        contract = b"".join(path.read_bytes() for path in sorted((wit_directory() / "v0").glob("*.wit")))
        key = digest_of((GUESTS / f"{name}.py").read_bytes(), contract, version("componentize-py"))

        def run(target: Path) -> None:
            command = [
                str(BIN / "componentize-py"),
                *("--all-features", "-d", str(wit_directory() / "v0"), "-w", "tool-plugin"),
                *("componentize", "-p", str(GUESTS), name, "-o", str(target)),
            ]
            subprocess.run(command, check=True, capture_output=True)

        return built_once(f"{name}-{key}", run).read_bytes()

    return build


@pytest.fixture(scope="session")
def hostile_tool() -> Callable[[str, str, str], bytes]:
    """Builds a tool from core imports and the body of ``execute``, both in the text format, for a version of WASI."""

    def build(imports: str, body: str, wasi: str) -> bytes:
        text = (GUESTS / "hostile.wat").read_text().replace("{imports}", imports).replace("{body}", body)
        with tempfile.TemporaryDirectory() as name:
            work = Path(name)
            shutil.copytree(wit_directory() / "deps", work / "wit" / "deps")
            shutil.copytree(wit_directory() / "v0", work / "wit" / "deps" / "plugin")
            shutil.copy(wit_directory() / "wasi.wit", work / "wit" / "deps" / "wasi.wit")
            shutil.copy(GUESTS / "hostile.wit", work / "wit")
            (work / "core.wat").write_text(text)
            for path in (work / "core.wat", *(work / "wit").rglob("*.wit")):
                path.write_text(path.read_text().replace("@0.2.12", f"@{wasi}"))
            tool = [str(BIN / "wasm-tools"), "component"]
            embed = ["embed", "--all-features", "--world", "hostile", "wit", "core.wat", "-o", "core.wasm"]
            subprocess.run([*tool, *embed], check=True, cwd=work)
            subprocess.run([*tool, "new", "core.wasm", "-o", "tool.wasm"], check=True, cwd=work)
            return (work / "tool.wasm").read_bytes()

    return build
