"""Real packages around real components, small enough to be built for every run."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
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


@pytest.fixture(scope="session")
def echo_component(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A real component of the tool world."""
    folder = tmp_path_factory.mktemp("echo")
    (folder / "core.wat").write_text(ECHO)
    wit = Path(__file__).parents[2] / "wit" / "v0"
    _wasm_tools(
        "component",
        "embed",
        "--all-features",
        wit,
        "-w",
        "tool-plugin",
        folder / "core.wat",
        "-o",
        folder / "core.wasm",
    )
    _wasm_tools("component", "new", folder / "core.wasm", "-o", folder / "plugin.wasm")
    return (folder / "plugin.wasm").read_bytes()


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
