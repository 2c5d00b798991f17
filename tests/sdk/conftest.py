"""Plugins that are built once, commands that run as a person runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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

    def run(
        *words: str | Path, cwd: Path | None = None, stdin: str = "", env: Mapping[str, str] | None = None
    ) -> Finished:
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        done = subprocess.run(
            [str(BIN / str(words[0])), *map(str, words[1:])],
            cwd=cwd or tmp_path,
            env=environment(home) | dict(env or {}),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="session")
def built_once() -> Callable[[Path], Path]:
    """Build a plugin's directory through the SDK, once for the same content; the built copy is for reading only."""
    from built_plugins import built_plugin

    return built_plugin


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
