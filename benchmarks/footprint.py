"""What a daemon holds in memory while nobody wants anything of it."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.daemon_process import Home, Lines
from benchmarks.harness import Measurement
from benchmarks.plugin import admitted, built, compiled_sandbox

PLUGINS = 20
GOAL_MIB = 250
PATIENCE = 300


def measure() -> Iterator[Measurement]:
    """A daemon without plugins, and one with many in Python, loaded and left alone."""
    compiled_sandbox(admitted("redact")).close()
    with tempfile.TemporaryDirectory() as directory:
        home = Home(Path(directory))
        with home.daemon() as (_, process, _):
            bare = _resident_mib(process.pid)
        for number in range(PLUGINS):
            home.command("plugin", "install", str(_renamed(Path(directory), f"redact{number}")))
        home.command("config", "set", "plugins.enabled", "true")
        home.command("config", "set", "plugins.auto_discover", "true")
        with home.daemon() as (client, process, _):
            _wait_until_loaded(client)
            full = _resident_mib(process.pid)
    yield Measurement(
        f"memory of an idle daemon with {PLUGINS} Python plugins loaded",
        {f"{PLUGINS} plugins": full, "no plugin": bare},
        goal=f"< {GOAL_MIB} MiB",
        met=full < GOAL_MIB,
        unit="MiB",
        compared=False,
        notes=("resident, files of compiled code that are mapped among it",),
    )


def _renamed(directory: Path, name: str) -> Path:
    """The same plugin as another package."""
    target = directory / "sources" / name
    shutil.copytree(built("redact"), target)
    manifest = target / "manifest.toml"
    manifest.write_text(manifest.read_text().replace('name = "redact"', f'name = "{name}"', 1))
    return target


def _wait_until_loaded(client: Lines) -> None:
    limit = time.monotonic() + PATIENCE
    states: set[str] = set()
    while time.monotonic() < limit:
        plugins = client.ask("status")["result"]["plugins"]  # type: ignore[index]
        states = {plugin["state"] for plugin in plugins}
        if len(plugins) == PLUGINS and states == {"loaded"}:
            time.sleep(2)  # what was needed to load them is given back
            return
        time.sleep(0.2)
    raise RuntimeError(f"the plugins were not loaded in {PATIENCE} seconds: {states}")


def _resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
