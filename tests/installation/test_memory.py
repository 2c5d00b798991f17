"""How much memory a process takes to install or update a package."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from zeroclaw_host.package.archive import MAX_EXTRACTED_BYTES

MIB = 1024 * 1024
COMPONENT = 16 * MIB

MEASURED = """
import sys
from pathlib import Path
from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.installation.install import install
from zeroclaw_host.installation.offers import DirectoryOffer, UpdateSpec
from zeroclaw_host.installation.source import LocalSource
from zeroclaw_host.installation.update import Updater
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.worlds.loading import LoadVerdict

def peak():
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024

command, plugins, archive = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
before = peak()
ended = "done"
try:
    if command == "install":
        install(plugins, LocalSource(archive).open(), policy=SignaturePolicy(), load_check=None)
    else:
        updater = Updater(plugins, SignaturePolicy(), lambda _: LoadVerdict(loads=True))
        ended = updater.update(UpdateSpec("x"), DirectoryOffer(archive)).outcome.value
except ZeroclawError as error:
    ended = error.code
print(ended, peak() - before)
"""


def archive(path: Path, component: bytes) -> Path:
    manifest = 'name = "x"\nversion = "1.0.0"\ncapabilities = ["tool"]\nwasm_path = "plugin.wasm"\n'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("manifest.toml", manifest)
        file.writestr("plugin.wasm", component)
    return path


def measured(command: str, plugins: Path, source: Path) -> tuple[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, command, plugins, source], capture_output=True, text=True, check=True
    )
    ended, grown = done.stdout.split()
    return ended, int(grown)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_installing_and_updating_take_less_than_three_times_the_component(tmp_path: Path) -> None:
    # Nothing about it can be compressed, so that the archive is as large as the component.
    source = archive(tmp_path / "x.zip", os.urandom(MIB) * (COMPONENT // MIB))
    for command, expected in (("install", "done"), ("update", "updated")):
        ended, grown = measured(command, tmp_path / "plugins", source)
        assert ended == expected
        assert grown < 3 * COMPONENT


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_an_archive_that_extracts_to_more_than_it_may_takes_no_more_than_what_it_may(tmp_path: Path) -> None:
    source = archive(tmp_path / "x.zip", bytes(2 * MAX_EXTRACTED_BYTES))
    assert source.stat().st_size < MIB
    ended, grown = measured("install", tmp_path / "plugins", source)
    assert ended == "archive_invalid"
    assert grown < MAX_EXTRACTED_BYTES + 16 * MIB
