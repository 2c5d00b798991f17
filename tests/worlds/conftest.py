"""One real Python guest, built once for its sources, and the sandbox it runs in."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path

import pytest
from one_npx import one_npx

from zeroclaw_host.contract import ungated_wit
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.manifest import Manifest, Permission
from zeroclaw_host.package.reader import SkillTree
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy
from zeroclaw_host.sandbox.sandbox import Sandbox

_HERE = Path(__file__).parent
_CACHE = _HERE.parents[1] / ".cache" / "test-guests"


def _world(name: str = "tool-plugin") -> str:
    """The contract, one world of it without the transports that need a permission."""
    text = (ungated_wit() / "plugin.wit").read_text(encoding="utf-8")
    start = text.index(f"world {name}")
    end = text.index("}", start)
    world = "".join(
        line
        for line in text[start:end].splitlines(keepends=True)
        if "sockets" not in line and "websocket" not in line
    )
    return text[:start] + world + text[end:]


Build = Callable[[Path], list[list[str]]]
"""The commands that make ``built.wasm`` in a directory which holds a guest's source and ``wit/plugin.wit``."""


def _built(source: str, wit: str, tool: str, work: Path, build: Build) -> bytes:
    """A guest as a component, built once for its source, its world and its tool's version. One worker builds, others wait."""
    text = (_HERE / "guest" / source).read_text(encoding="utf-8")
    key = hashlib.sha256("\0".join((text, wit, tool)).encode()).hexdigest()
    name = source.partition(".")[0]
    kept = _CACHE / f"{name}-{key[:32]}.wasm"
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            (work / "wit").mkdir()
            (work / "wit" / "plugin.wit").write_text(wit, encoding="utf-8")
            (work / source).write_text(text, encoding="utf-8")
            for command in build(work):
                with one_npx() if "npx" in command[0] else nullcontext():
                    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
                if done.returncode and "npx" in command[0]:
                    report = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
                    report(f"needs npm's package @bytecodealliance/jco: {done.stderr.strip()[-300:]}")
                assert done.returncode == 0, done.stderr
            beside = kept.with_suffix(f".{os.getpid()}")
            shutil.copyfile(work / "built.wasm", beside)
            beside.replace(kept)
    return kept.read_bytes()


def _beside_python(program: str) -> str:
    return str(Path(sys.executable).with_name(program))


@pytest.fixture(scope="session")
def probe_component(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """``guest/probe.py`` as a component."""

    def build(_work: Path) -> list[list[str]]:
        words = ["-d", "wit", "-w", "tool-plugin", "componentize", "probe", "-o", "built.wasm"]
        return [[_beside_python("componentize-py"), *words]]

    return _built("probe.py", _world(), version("componentize-py"), tmp_path_factory.mktemp("probe"), build)


@pytest.fixture(scope="session")
def c_component(tmp_path_factory: pytest.TempPathFactory, system_program: Callable[[str], str]) -> bytes:
    """``guest/trip.c`` as a component, by a compiler that knows nothing of components."""
    clang = system_program("clang")
    system_program("wasm-ld")

    def build(_work: Path) -> list[list[str]]:
        target = ["--target=wasm32", "-nostdlib", "-ffreestanding", "-Wl,--no-entry"]
        wasm_tools = _beside_python("wasm-tools")
        embed = ["component", "embed", "wit", "--world", "tool-plugin", "core.wasm", "-o", "embedded.wasm"]
        return [
            [clang, *target, "-O2", "-Wall", "-Werror", "-o", "core.wasm", "trip.c"],
            [wasm_tools, *embed],
            [wasm_tools, "component", "new", "embedded.wasm", "-o", "built.wasm"],
        ]

    return _built("trip.c", _world(), "clang", tmp_path_factory.mktemp("trip"), build)


JCO = "1.35.0"

JavaScript = Callable[[str, str], bytes]


@pytest.fixture(scope="session")
def javascript(tmp_path_factory: pytest.TempPathFactory, system_program: Callable[[str], str]) -> JavaScript:
    """Builds a guest in JavaScript for a world of the contract."""

    def make(source: str, world: str) -> bytes:
        def build(work: Path) -> list[list[str]]:
            words = ["--wit", str(work / "wit"), "-n", world, "--backend", "quickjs", "-o", "built.wasm"]
            jco = [system_program("npx"), "--yes", f"@bytecodealliance/jco@{JCO}"]
            return [[*jco, "componentize", source, *words]]

        return _built(source, _world(world), JCO, tmp_path_factory.mktemp("javascript"), build)

    return make


@pytest.fixture(scope="session")
def javascript_component(javascript: JavaScript) -> bytes:
    """``guest/shout.js`` as a component."""
    return javascript("shout.js", "tool-plugin")


@pytest.fixture(scope="session")
def javascript_channel(javascript: JavaScript) -> bytes:
    """``guest/parrot.js`` as a component."""
    return javascript("parrot.js", "channel-plugin")


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """A sandbox whose compiled components outlive the run."""
    with Sandbox(_CACHE.parent / "compiled", threads=4) as found:
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
