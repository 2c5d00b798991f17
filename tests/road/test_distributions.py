"""What the two distributions carry, and what they need."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def run(*command: str | Path, cwd: Path | None = None) -> str:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))
    }
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    target = tmp_path_factory.mktemp("wheels")
    for project in (ROOT, ROOT / "zeroclaw_daemon"):
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", target, project)
    return {path.name.partition("-")[0]: path for path in target.glob("*.whl")}


class Environment:
    """An empty virtual environment with some of our wheels in it."""

    def __init__(self, directory: Path) -> None:
        venv.create(directory, with_pip=True)
        self.bin = directory / "bin"

    def install(self, *wheels: str | Path) -> None:
        run(self.bin / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", *wheels)

    def names(self) -> set[str]:
        listed = run(self.bin / "python", "-m", "pip", "list", "--format=freeze")
        return {line.partition("==")[0].lower() for line in listed.splitlines()}

    def python(self, code: str) -> str:
        return run(self.bin / "python", "-c", code, cwd=self.bin)


@pytest.fixture(scope="module")
def host_only(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("host"))
    environment.install(wheels["zeroclaw_host"])
    return environment


def test_the_host_wheel_carries_contract_templates_and_type_marker(wheels: dict[str, Path]) -> None:
    names = set(zipfile.ZipFile(wheels["zeroclaw_host"]).namelist())
    for path in sorted((ROOT / "wit").rglob("*.wit")):
        assert f"zeroclaw_host/wit/{path.relative_to(ROOT / 'wit')}" in names
    for path in sorted((ROOT / "zeroclaw_sdk" / "templates").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            assert str(path.relative_to(ROOT)) in names
    assert {"zeroclaw_host/py.typed", "zeroclaw_sdk/py.typed"} <= names
    assert {"zeroclaw_host/contract/data/plugin.json", "zeroclaw_host/contract/ungated/plugin.wit"} <= names
    assert not [
        name for name in names if name.startswith(("tests/", "benchmarks/", "tools/", "zeroclaw_daemon"))
    ]


def test_the_daemon_wheel_carries_its_type_marker_and_command(wheels: dict[str, Path]) -> None:
    archive = zipfile.ZipFile(wheels["zeroclaw_daemon"])
    assert "zeroclaw_daemon/py.typed" in archive.namelist()
    [entry_points] = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
    assert "zeroclaw = " in archive.read(entry_points).decode()


def test_without_extras_the_host_brings_no_author_tool_and_no_web_server(host_only: Environment) -> None:
    assert not host_only.names() & {"componentize-py", "typer", "rich", "starlette", "uvicorn"}
    found = host_only.python(
        "import zeroclaw_host.host, sys; from zeroclaw_host.contract import wit_directory;"
        "print((wit_directory() / 'v0' / 'worlds.wit').is_file(), 'site-packages' in str(wit_directory()))"
    )
    assert found.split() == ["True", "True"]


@pytest.mark.parametrize("program", ["zeroclaw-plugin", "zeroclaw-registry"])
def test_the_commands_of_a_missing_extra_say_so(host_only: Environment, program: str) -> None:
    done = subprocess.run([str(host_only.bin / program)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "zeroclaw-host[sdk]" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_daemon_runs_from_its_wheel(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.install(wheels["zeroclaw_host"], wheels["zeroclaw_daemon"])
    assert "componentize-py" not in environment.names()
    assert "daemon" in run(environment.bin / "zeroclaw", "--help")
