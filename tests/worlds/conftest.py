"""One real Python guest, built once for its sources, and the sandbox it runs in."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from zeroclaw_host.contract import ungated_wit
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.manifest import Manifest, Permission
from zeroclaw_host.package.reader import SkillTree
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy
from zeroclaw_host.sandbox.sandbox import Sandbox

_HERE = Path(__file__).parent
_CACHE = _HERE.parents[1] / ".cache" / "test-guests"


def _tool_world() -> str:
    """The contract, its tool world without the transports that need a permission."""
    text = (ungated_wit() / "plugin.wit").read_text(encoding="utf-8")
    start = text.index("world tool-plugin")
    end = text.index("}", start)
    world = "".join(
        line
        for line in text[start:end].splitlines(keepends=True)
        if "sockets" not in line and "websocket" not in line
    )
    return text[:start] + world + text[end:]


@pytest.fixture(scope="session")
def probe_component(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """``guest/probe.py`` as a component."""
    source = (_HERE / "guest" / "probe.py").read_text(encoding="utf-8")
    wit = _tool_world()
    key = hashlib.sha256("\0".join((source, wit, version("componentize-py"))).encode()).hexdigest()
    built = _CACHE / f"probe-{key[:32]}.wasm"
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "probe.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker builds, the others wait
        if not built.exists():
            _build(tmp_path_factory.mktemp("probe"), source, wit, built)
    return built.read_bytes()


def _build(work: Path, source: str, wit: str, built: Path) -> None:
    (work / "wit").mkdir()
    (work / "wit" / "plugin.wit").write_text(wit, encoding="utf-8")
    (work / "probe.py").write_text(source, encoding="utf-8")
    tool = Path(sys.executable).with_name("componentize-py")
    command = [str(tool), "-d", "wit", "-w", "tool-plugin", "componentize", "probe", "-o", "probe.wasm"]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    beside = built.with_suffix(f".{os.getpid()}")
    shutil.copyfile(work / "probe.wasm", beside)
    beside.replace(built)


JCO = "1.35.0"


@pytest.fixture(scope="session")
def javascript_component(
    tmp_path_factory: pytest.TempPathFactory, system_program: Callable[[str], str]
) -> bytes:
    """``guest/shout.js`` as a component, built by another toolchain than the Python one."""
    source = (_HERE / "guest" / "shout.js").read_text(encoding="utf-8")
    wit = _tool_world()
    key = hashlib.sha256("\0".join((source, wit, JCO)).encode()).hexdigest()
    built = _CACHE / f"shout-{key[:32]}.wasm"
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "shout.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            work = tmp_path_factory.mktemp("shout")
            (work / "wit").mkdir()
            (work / "wit" / "plugin.wit").write_text(wit, encoding="utf-8")
            (work / "shout.js").write_text(source, encoding="utf-8")
            npx = system_program("npx")
            command = [npx, "--yes", f"@bytecodealliance/jco@{JCO}", "componentize", "shout.js"]
            command += [
                "--wit",
                str(work / "wit"),
                "-n",
                "tool-plugin",
                "--backend",
                "quickjs",
                "-o",
                "shout.wasm",
            ]
            done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
            if done.returncode:
                report = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
                report(f"needs npm's package @bytecodealliance/jco: {done.stderr.strip()[-300:]}")
            beside = built.with_suffix(f".{os.getpid()}")
            shutil.copyfile(work / "shout.wasm", beside)
            beside.replace(built)
    return built.read_bytes()


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """A sandbox whose compiled components outlive the run."""
    with Sandbox(_CACHE / "compiled", threads=4) as found:
        yield found


class BytesReader:
    """A package that exists in memory only."""

    origin = "memory"

    def __init__(self, manifest: str, component: bytes | None) -> None:
        self._manifest = manifest.encode()
        self._component = component

    def read_manifest(self) -> bytes:
        return self._manifest

    def read_component(self, wasm_path: str) -> bytes:
        assert self._component is not None
        return self._component

    def read_skills(self) -> SkillTree:
        skill = b"---\nname: demo\ndescription: Shows.\n---\nText.\n"
        return SkillTree({"demo/SKILL.md": skill}, frozenset({"demo"}))


PackageMaker = Callable[..., AdmittedPackage]

SCHEMA = """
[config_schema]
type = "object"
additionalProperties = false
[config_schema.properties.greeting]
type = "string"
[config_schema.properties.token]
type = "string"
x-secret = true
"""


@pytest.fixture
def package_of() -> PackageMaker:
    """Admits a package of a component, capabilities and permissions."""

    def make(
        component: bytes | None,
        *,
        capabilities: tuple[str, ...] = ("tool",),
        permissions: tuple[str, ...] = (),
    ) -> AdmittedPackage:
        text = f"""name = "probe"
version = "1.0.0"
capabilities = {list(capabilities)}
permissions = {list(permissions)}
{'wasm_path = "probe.wasm"' if component is not None else ""}
{SCHEMA if "config_read" in permissions else ""}"""
        return admit(BytesReader(text, component), SignaturePolicy.of(SignatureMode.DISABLED))

    return make


@pytest.fixture
def tool_scope() -> Callable[..., InstanceScope]:
    """Makes the scope of a manifest's default tool instance."""

    def make(manifest: Manifest, grants: frozenset[Permission] | None = None) -> InstanceScope:
        return InstanceScope.admit(InstanceIdentity.default_tool(manifest.name), manifest, grants=grants)

    return make
