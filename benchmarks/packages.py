"""Installing and finding packages: how long it takes, and how much memory an install needs."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Measurement, once
from benchmarks.plugin import built, component_of
from zeroclaw_host.host import PluginHost
from zeroclaw_host.installation.discovery import discover
from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy

IN_PROCESS_GOAL_MS = 500
COMMAND_GOAL_MS = 1200
DISCOVERY_GOAL_MS = 500
MEMORY_GOAL = 3
INSTALLED = 200
ROUNDS = 7

_SMALL_KIB = 64
_MIB = 1024 * 1024

_INSTALLING = """
import sys
from pathlib import Path
from zeroclaw_host.installation.install import install
from zeroclaw_host.installation.source import LocalSource
from zeroclaw_host.package.signature import SignaturePolicy

def peak():
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024

before = peak()
install(Path(sys.argv[1]), LocalSource(Path(sys.argv[2])).open(), policy=SignaturePolicy(), load_check=None)
print(peak() - before)
"""


def measure() -> Iterator[Measurement]:
    """Installs of the example ``redact``, compiled before, and discovery of many packages."""
    with tempfile.TemporaryDirectory() as scratch:
        root, source = Path(scratch), built("redact")
        package = admit(DirectoryReader(source), SignaturePolicy())
        yield _in_process(root / "process", source)
        yield _command(root / "command", source)
        yield from _discovery(root / "many", component_of(package))
        if sys.platform == "linux":
            yield _memory(root / "memory", package)


def _in_process(root: Path, source: Path) -> Measurement:
    reader = DirectoryReader(source)
    with PluginHost(root / "plugins", root / "cache") as host:
        times: list[float] = []
        for _ in range(ROUNDS + 1):  # the first one compiles
            times.append(once(lambda: host.install(reader)))
            host.remove("redact")
    median = statistics.median(times[1:])
    return Measurement(
        "install of a compiled component, inside the process",
        {"install": median},
        f"< {IN_PROCESS_GOAL_MS} ms",
        median < IN_PROCESS_GOAL_MS,
    )


def _command(root: Path, source: Path) -> Measurement:
    root.mkdir()
    program = str(Path(sys.executable).with_name("zeroclaw"))
    zeroclaw = [program, "--config-dir", str(root), "plugin"]

    def run(*arguments: str) -> float:
        started = time.perf_counter()
        subprocess.run([*zeroclaw, *arguments], check=True, capture_output=True)
        return (time.perf_counter() - started) * 1000

    times: list[float] = []
    for _ in range(ROUNDS + 1):  # the first one compiles
        times.append(run("install", str(source)))
        run("remove", "redact")
    median = statistics.median(times[1:])
    return Measurement(
        "install of a compiled component, as a command",
        {"zeroclaw plugin install": median},
        f"< {COMMAND_GOAL_MS} ms",
        median < COMMAND_GOAL_MS,
    )


def _discovery(root: Path, component: bytes) -> Iterator[Measurement]:
    """Discovery reads every component, so that what is listed is what is there: large ones take their time."""
    for number in range(INSTALLED):
        _write(root / f"p{number}", f"p{number}", os.urandom(_SMALL_KIB * 1024))
    median = _discovered(root, INSTALLED)
    yield Measurement(
        f"discovery of {INSTALLED} packages with components of {_SMALL_KIB} KiB",
        {"discovery": median},
        f"< {DISCOVERY_GOAL_MS} ms",
        median < DISCOVERY_GOAL_MS,
    )
    shutil.rmtree(root)
    for number in range(10):
        _write(root / f"p{number}", f"p{number}", component)
    yield Measurement(
        f"discovery of 10 Python plugins of {len(component) // _MIB} MiB",
        {"discovery": _discovered(root, 10)},
    )


def _discovered(root: Path, expected: int) -> float:
    times: list[float] = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        found = discover(root, SignaturePolicy())
        times.append((time.perf_counter() - started) * 1000)
        if len(found.packages) != expected:
            raise RuntimeError(f"{len(found.packages)} of {expected} packages were found")
    return statistics.median(times)


def _write(directory: Path, name: str, component: bytes) -> None:
    directory.mkdir(parents=True)
    (directory / "manifest.toml").write_text(
        f'name = "{name}"\nversion = "1.0.0"\ncapabilities = ["tool"]\nwasm_path = "plugin.wasm"\n'
    )
    (directory / "plugin.wasm").write_bytes(component)


def _memory(root: Path, package: AdmittedPackage) -> Measurement:
    component = component_of(package)
    root.mkdir()
    archive = root / "redact.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path, data in package.files().items():
            file.writestr(path, data)
    command = [sys.executable, "-c", _INSTALLING, str(root / "plugins"), str(archive)]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return Measurement(
        "memory an install of an archive adds to its process",
        {"install": grown / _MIB, "component": len(component) / _MIB},
        f"ratio ≤ {MEMORY_GOAL}",
        grown <= MEMORY_GOAL * len(component),
        unit="MiB",
    )
