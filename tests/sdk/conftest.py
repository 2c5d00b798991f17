"""Plugins that are built once, commands that run as a person runs them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
CACHE = ROOT / ".cache"


@dataclass(frozen=True)
class Finished:
    """A command that ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> object:
        return json.loads(self.out)


def environment(home: Path) -> dict[str, str]:
    """A user's environment, with the compile cache that all tests share."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    kept["PATH"] = f"{BIN}:{kept.get('PATH', '')}"
    return kept | {"HOME": str(home), "ZEROCLAW_CACHE_DIR": str(CACHE / "compiled"), "COLUMNS": "200"}


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., Finished]:
    """Run an installed command in a directory, as its user would."""

    def run(*words: str | Path, cwd: Path | None = None, stdin: str = "") -> Finished:
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        done = subprocess.run(
            [str(BIN / str(words[0])), *map(str, words[1:])],
            cwd=cwd or tmp_path,
            env=environment(home),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    return run


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(version("componentize-py").encode())
    for name, data in sorted(files.items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def _contents(directory: Path) -> dict[str, bytes]:
    ignored = {"build", "dist", "__pycache__", ".pytest_cache"}
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not ignored & set(path.relative_to(directory).parts)
    }


@pytest.fixture(scope="session")
def built_once() -> Callable[[Path], Path]:
    """Build a plugin's directory through the SDK, once for the same content; the built copy is for reading only.

    Kept in ``.cache/plugins/<digest>``. Another process that wants the same one waits for it.
    """

    def build(directory: Path) -> Path:
        from zeroclaw_sdk.build import build as build_project
        from zeroclaw_sdk.project import Project

        files = _contents(directory)
        sdk = {f"sdk/{name}": data for name, data in _contents(ROOT / "zeroclaw_sdk" / "guest").items()}
        cache = CACHE / "plugins"
        cache.mkdir(parents=True, exist_ok=True)
        target = cache / _digest(files | sdk)
        with (cache / f"{target.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_dir():
                with tempfile.TemporaryDirectory(dir=cache) as scratch:
                    staged = Path(scratch, "plugin")
                    for name, data in files.items():
                        (staged / name).parent.mkdir(parents=True, exist_ok=True)
                        (staged / name).write_bytes(data)
                    build_project(Project.open(staged))
                    staged.rename(target)
        return target

    return build


@pytest.fixture(scope="session")
def built_plugin(
    built_once: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """A built plugin by name: an example plugin, one under ``plugins/`` beside this file, or ``hello`` from the template."""

    def find(name: str) -> Path:
        if name == "hello":
            from zeroclaw_sdk.scaffold import new_plugin

            return built_once(new_plugin("tool", "hello", tmp_path_factory.mktemp("template")))
        for parent in (ROOT / "example-plugins", Path(__file__).parent / "plugins"):
            if (parent / name).is_dir():
                return built_once(parent / name)
        raise LookupError(name)

    return find


@pytest.fixture
def plugin_copy(built_plugin: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A built plugin in a directory of the test's own."""

    def copy(name: str) -> Path:
        target = tmp_path / "plugins" / name
        shutil.copytree(built_plugin(name), target)
        return target

    return copy


@pytest.fixture(scope="session")
def sandbox() -> Iterator[object]:
    """A sandbox over the compile cache that all tests share."""
    from zeroclaw_host.sandbox.sandbox import Sandbox

    with Sandbox(CACHE / "compiled") as room:
        yield room


@pytest.fixture
def wit_bindings(tmp_path: Path) -> Callable[[Path], set[str]]:
    """The names of the modules that componentize-py makes for the imports of a generated world."""

    def generate(wit: Path) -> set[str]:
        target = tmp_path / "bindings"
        words = ["--all-features", "-d", str(wit), "-w", "plugin", "bindings", str(target)]
        subprocess.run([str(BIN / "componentize-py"), *words], check=True, capture_output=True)
        return {path.stem for path in (target / "wit_world" / "imports").glob("*.py")}

    return generate
