"""Real packages around real components, small enough to be built for every run."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ECHO = """
(module
  (memory (export "memory") 1)
  (global $next (mut i32) (i32.const 4096))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 15)) (i32.const -16)))
    (global.set $next (i32.add (local.get $at) (local.get 3)))
    (local.get $at))
  ;; Two texts as (address, length): the name, and a schema that asks for nothing.
  (data (i32.const 0) "\\10\\00\\00\\00\\04\\00\\00\\00")
  (data (i32.const 16) "echo")
  (data (i32.const 32) "\\40\\00\\00\\00\\02\\00\\00\\00")
  (data (i32.const 64) "{}")
  (func $text (result i32) (i32.const 0))
  (func $schema (result i32) (i32.const 32))
  (export "zeroclaw:plugin/plugin-info@0.1.0#plugin-name" (func $text))
  (export "zeroclaw:plugin/plugin-info@0.1.0#plugin-version" (func $text))
  (export "zeroclaw:plugin/tool@0.1.0#name" (func $text))
  (export "zeroclaw:plugin/tool@0.1.0#description" (func $text))
  (export "zeroclaw:plugin/tool@0.1.0#parameters-schema" (func $schema))
  ;; ok(tool-result { success: true, output: the arguments, error: none })
  (func (export "zeroclaw:plugin/tool@0.1.0#execute") (param i32 i32) (result i32)
    (i32.store8 (i32.const 128) (i32.const 0))
    (i32.store8 (i32.const 132) (i32.const 1))
    (i32.store (i32.const 136) (local.get 0))
    (i32.store (i32.const 140) (local.get 1))
    (i32.store8 (i32.const 144) (i32.const 0))
    (i32.const 128))
)
"""
"""A tool whose result is its arguments."""

NO_TOOL = '(component (core module $m (func (export "f"))) (core instance (instantiate $m)))'
"""A component that exports nothing."""


def _wasm_tools(*arguments: str | Path) -> None:
    program = Path(sys.executable).with_name("wasm-tools")
    subprocess.run([program, *arguments], check=True, capture_output=True)


BuildComponent = Callable[..., bytes]


@pytest.fixture(scope="session")
def build_component(tmp_path_factory: pytest.TempPathFactory) -> BuildComponent:
    """Build a component of the tool world from a core module.

    ``contract`` edits the contract it is built against: by file, a text and what stands there instead.
    """

    def build(core: str, contract: Mapping[str, tuple[str, str]] | None = None) -> bytes:
        folder = tmp_path_factory.mktemp("component")
        wit = folder / "wit"
        shutil.copytree(Path(__file__).parents[2] / "wit" / "v0", wit)
        for name, (old, new) in (contract or {}).items():
            text = (wit / name).read_text() if (wit / name).exists() else ""
            assert old in text
            (wit / name).write_text(text.replace(old, new, 1) if old else new)
        (folder / "core.wat").write_text(core)
        embedded = folder / "core.wasm"
        _wasm_tools(
            *("component", "embed", "--all-features", wit, "-w", "tool-plugin"),
            folder / "core.wat",
            "-o",
            embedded,
        )
        _wasm_tools("component", "new", embedded, "-o", folder / "plugin.wasm")
        return (folder / "plugin.wasm").read_bytes()

    return build


@pytest.fixture(scope="session")
def echo_component(build_component: BuildComponent) -> bytes:
    """A real component of the tool world."""
    return build_component(ECHO)


@pytest.fixture(scope="session")
def trapping_component(build_component: BuildComponent) -> bytes:
    """A component of the tool world that traps while it is instantiated."""
    return build_component(
        ECHO.replace("(func $text", "(func $boom unreachable)\n  (start $boom)\n  (func $text", 1)
    )


@pytest.fixture(scope="session")
def drifted_component(build_component: BuildComponent) -> Callable[[str], bytes]:
    """A component built against another contract than this host's, by what is different in it."""
    gate = "@unstable(feature = plugins-wit-v0)"
    secrets = '(import "zeroclaw:plugin/secrets@0.1.0" "get" (func (param i32 i32)))'
    future = '(import "zeroclaw:plugin/clairvoyance@0.1.0" "ping" (func))'
    no_info = "\n".join(line for line in ECHO.splitlines() if "plugin-info" not in line)

    def build(drift: str) -> bytes:
        match drift:
            case "an import this host does not know":
                return build_component(
                    ECHO.replace("(module", f"(module {future}", 1),
                    {
                        "clairvoyance.wit": (
                            "",
                            f"package zeroclaw:plugin@0.1.0;\n{gate}\ninterface clairvoyance {{ {gate} ping: func(); }}",
                        ),
                        "worlds.wit": ("import logging;", f"import logging; {gate} import clairvoyance;"),
                    },
                )
            case "an import with another parameter type":
                return build_component(
                    ECHO.replace("(module", f"(module {secrets}", 1),
                    {"secrets.wit": ("get: func(name: string)", "get: func(name: u32)")},
                )
            case "an export whose record lacks a field":
                return build_component(ECHO, {"tool.wit": ("error: option<string>,", "")})
            case "an export that is missing":
                return build_component(no_info, {"worlds.wit": (f"{gate}\n    export plugin-info;", "")})
            case _:
                raise ValueError(drift)

    return build


@pytest.fixture(scope="session")
def foreign_component(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A real component of no world of ours."""
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "plugin.wat").write_text(NO_TOOL)
    _wasm_tools("parse", folder / "plugin.wat", "-o", folder / "plugin.wasm")
    return (folder / "plugin.wasm").read_bytes()


@dataclass(frozen=True)
class Package:
    """A package directory that was written for a test."""

    directory: Path

    def files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.directory)): path.read_bytes()
            for path in sorted(self.directory.rglob("*"))
            if path.is_file()
        }


WritePackage = Callable[..., Package]


@pytest.fixture
def write_package(echo_component: bytes) -> WritePackage:
    """Write a tool package; ``manifest`` holds further root lines, ``tables`` what comes after them."""

    def write(
        directory: Path,
        *,
        name: str = "echo",
        version: str = "1.0.0",
        manifest: str = "",
        tables: str = "",
        component: bytes | None = echo_component,
        declare_digest: bool = False,
        wasm_path: str = "plugin.wasm",
        capabilities: str = '["tool"]',
    ) -> Package:
        directory.mkdir(parents=True)
        lines = [f'name = "{name}"', f'version = "{version}"', f"capabilities = {capabilities}"]
        if component is not None:
            lines.append(f'wasm_path = "{wasm_path}"')
            if declare_digest:
                lines.append(f'wasm_sha256 = "{hashlib.sha256(component).hexdigest()}"')
            (directory / wasm_path).parent.mkdir(parents=True, exist_ok=True)
            (directory / wasm_path).write_bytes(component)
        (directory / "manifest.toml").write_text("\n".join([*lines, manifest, tables]) + "\n")
        return Package(directory)

    return write


@pytest.fixture
def write_skill() -> WritePackage:
    """Write a skill bundle with two skills."""

    def write(directory: Path, *, name: str = "manners", complete: bool = True) -> Package:
        for skill in ("greet", "thank"):
            folder = directory / "skills" / skill
            folder.mkdir(parents=True)
            if complete or skill == "greet":
                (folder / "SKILL.md").write_text(
                    f"---\nname: {skill}\ndescription: how to {skill}\n---\nBody\n"
                )
        (directory / "skills" / "greet" / "examples").mkdir()
        (directory / "skills" / "greet" / "examples" / "one.md").write_text("Hello")
        (directory / "manifest.toml").write_text(
            f'name = "{name}"\nversion = "1.0.0"\ncapabilities = ["skill"]\n'
        )
        return Package(directory)

    return write
