"""The same tool in two languages, each built once for its sources: it makes the HTTP requests that it is told to make."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path

import pytest
from one_npx import one_npx

from zeroclaw_host.contract import ungated_wit, wit_directory

JCO = "1.35.0"
JS_WASI = "0.2.6"
"""The version of WASI whose HTTP the JavaScript tool uses; what its engine brings along is of another one."""

_STAND_IN = "wasj:"
"""What the packages of WASI are called while the JavaScript tool is built. Its toolchain runs the engine once, in a linker
that has some of WASI and takes the rest for something else, so that the resources of the one do not fit the other. A name of
the same length that it does not know lets it take all of them for something else; afterwards they get their own again."""

SOURCES = Path(__file__).resolve().parents[1] / "imports" / "http" / "guests"
_CACHE = Path(__file__).resolve().parents[2] / ".cache" / "guests"


def built(source: str) -> bytes:
    """``guests/<source>`` as a component. One worker builds, others wait."""
    files = [SOURCES / source, SOURCES / "world.wit", *sorted(ungated_wit().rglob("*.wit"))]
    digest = hashlib.sha256(version("componentize-py").encode() + JCO.encode())
    for path in (*files, *sorted((wit_directory() / "deps").rglob("*.wit"))):
        digest.update(path.read_bytes())
    _CACHE.mkdir(parents=True, exist_ok=True)
    kept = _CACHE / f"{source.replace('.', '-')}-{digest.hexdigest()[:32]}.wasm"
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=_CACHE) as name:
                _build(source, Path(name))
                (Path(name) / "built.wasm").replace(kept)
    return kept.read_bytes()


def _build(source: str, work: Path) -> None:
    wit = work / "wit"
    shutil.copytree(wit_directory() / "deps", wit / "deps")
    (wit / "deps" / "plugin").mkdir()
    shutil.copy(ungated_wit() / "plugin.wit", wit / "deps" / "plugin")
    shutil.copy(SOURCES / "world.wit", wit)
    shutil.copy(SOURCES / source, work)
    if source.endswith(".py"):
        program = str(Path(sys.executable).with_name("componentize-py"))
        command = [program, "-d", "wit", "-w", "surfer", "componentize", "surfer", "-o", "built.wasm"]
    else:
        for path in (*wit.rglob("*.wit"), work / source):
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace("wasi:", _STAND_IN).replace("@0.2.12", f"@{JS_WASI}"), "utf-8")
        words = ["--wit", str(wit), "-n", "surfer", "--backend", "quickjs", "-o", "built.wasm"]
        npx = shutil.which("npx") or "npx"
        command = [npx, "--yes", f"@bytecodealliance/jco@{JCO}", "componentize", source, *words]
    try:
        with one_npx() if source.endswith(".js") else nullcontext():
            done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        _missing("needs the system program npx")
        return
    if done.returncode and source.endswith(".js"):
        _missing(f"needs npm's package @bytecodealliance/jco: {(done.stdout + done.stderr).strip()[-600:]}")
    assert done.returncode == 0, done.stderr
    if source.endswith(".js"):
        target = work / "built.wasm"
        target.write_bytes(target.read_bytes().replace(_STAND_IN.encode(), b"wasi:"))


def _missing(message: str) -> None:
    """Skip by name, or fail where everything is installed."""
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(message)
