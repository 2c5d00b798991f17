"""The two forms a component is compiled in, and how soon a further Python plugin can be called because of the first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.harness import Measurement, Table, alternate
from benchmarks.plugin import (
    ARGUMENTS,
    CACHE,
    admitted,
    built,
    cache_directory,
    compiled_sandbox,
    load_tool,
)
from zeroclaw_host.host import PluginHost
from zeroclaw_host.sandbox.sandbox import Sandbox

SECOND_GOAL_SECONDS = 1.5
ROUNDS = 100
FIRST, FURTHER = "redact", "churn"

_COMPILING = """
import json, resource, sys, time
from pathlib import Path
from benchmarks.plugin import admitted, scope_of
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.worlds.loading import link_package

package = admitted(sys.argv[1])
with Sandbox(Path(sys.argv[2]), share_core_modules=sys.argv[3] == "shared") as sandbox:
    started = time.perf_counter()
    link_package(sandbox, package, scope_of(package))
    seconds = time.perf_counter() - started
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))
"""
"""Compile a package; print the seconds and the peak kibibytes of the compiling child."""

_CALLING = """
import json, sys
from pathlib import Path
from benchmarks.plugin import ARGUMENTS, admitted, load_tool
from zeroclaw_host.sandbox.sandbox import Sandbox

def resident():
    text = Path("/proc/self/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Rss:"))

first, further = admitted(sys.argv[1]), admitted(sys.argv[2])
with Sandbox(Path(sys.argv[3]), share_core_modules=sys.argv[4] == "shared") as sandbox:
    sizes = []
    for package, arguments in ((first, ARGUMENTS), (further, {"steps": 1000})):
        tool = load_tool(sandbox, package)
        for _ in range(20):
            tool.execute_sync(arguments)
        sizes.append(resident())
print(json.dumps(sizes[1] - sizes[0]))
"""
"""Call one package's tool, then another's too; print the kibibytes that the other added."""


@dataclass(frozen=True)
class Form:
    """What one form of a further plugin costs."""

    compile_seconds: float
    peak_kib: int
    artifact_bytes: int
    resident_kib: int


def measure() -> Iterator[Measurement | Table]:
    """A first and a second install into an empty home, then both forms side by side."""
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        home = Path(scratch)
        shared_cache = home / "cache"
        yield _second_install(home, shared_cache)
        plain_cache = home / "plain"
        plain_cache.mkdir(mode=0o700)
        compiled_sandbox(admitted(FIRST), admitted(FURTHER)).close()
        plain = _form("plain", plain_cache, cache_directory())
        shared = _form("shared", shared_cache, shared_cache)
        once = sum(path.stat().st_size for path in shared_cache.glob("module-*.artifact"))
        calls = _calls(shared_cache)
        yield _table(plain, shared, once, calls)


def _second_install(home: Path, cache: Path) -> Measurement:
    first = _install(home, cache, FIRST)
    started = time.perf_counter()
    second = _install(home, cache, FURTHER)
    with PluginHost(home / ".zeroclaw" / "plugins", cache) as host:
        answer = host.load_tool(host.discover().get(FURTHER)).execute_sync({"steps": 3})
    whole = time.perf_counter() - started
    assert answer.output == "5", answer
    return Measurement(
        "a second Python plugin, from `zeroclaw plugin install` to its first answer",
        {"until the answer": whole, "of which the command": second, "the first plugin's command": first},
        f"< {SECOND_GOAL_SECONDS} s",
        whole < SECOND_GOAL_SECONDS,
        unit="s",
        compared=False,
    )


def _install(home: Path, cache: Path, name: str) -> float:
    """The seconds of the command."""
    env = {**os.environ, "HOME": str(home), "ZEROCLAW_CACHE_DIR": str(cache)}
    for variable in ("ZEROCLAW_SOCKET", "ZEROCLAW_CONFIG_DIR", "ZEROCLAW_DATA_DIR"):
        env.pop(variable, None)
    package = built(name)
    program = str(Path(sys.executable).with_name("zeroclaw"))
    started = time.perf_counter()
    subprocess.run([program, "plugin", "install", str(package)], env=env, check=True, capture_output=True)
    return time.perf_counter() - started


def _form(form: str, compile_into: Path, call_from: Path) -> Form:
    """Compile the further plugin anew, beside the first one where that helps; then call it beside the first one."""
    for artifact in compile_into.glob(f"{form}-*.artifact"):
        if _digest(FURTHER) in artifact.name:
            artifact.unlink()
    seconds, peak = json.loads(_python(_COMPILING, FURTHER, str(compile_into), form))
    artifact = next(path for path in compile_into.glob("*.artifact") if _digest(FURTHER) in path.name)
    resident = json.loads(_python(_CALLING, FIRST, FURTHER, str(call_from), form))
    return Form(seconds, peak, artifact.stat().st_size, resident)


def _digest(name: str) -> str:
    package = admitted(name)
    assert package.component_sha256 is not None
    return package.component_sha256


def _python(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def _calls(shared_cache: Path) -> dict[str, float]:
    package = admitted(FIRST)
    with compiled_sandbox(package) as plain, Sandbox(shared_cache) as shared:
        tools = {"plain": load_tool(plain, package), "shared": load_tool(shared, package)}
        assert shared.improvable(), "the sandbox with sharing serves the shared form"
        return alternate(
            {name: partial(tool.execute_sync, ARGUMENTS) for name, tool in tools.items()},
            rounds=ROUNDS,
        )


def _table(plain: Form, shared: Form, once: int, calls: Mapping[str, float]) -> Table:
    figures: list[tuple[str, float, float, Callable[[float], str]]] = [
        ("compile", plain.compile_seconds, shared.compile_seconds, "{:.2f} s".format),
        ("peak memory while compiling", plain.peak_kib * 1024, shared.peak_kib * 1024, _mb),
        ("artifact", plain.artifact_bytes, shared.artifact_bytes, _mb),
        ("resident memory after 20 calls", plain.resident_kib * 1024, shared.resident_kib * 1024, _mb),
        ("fresh call of the first, median", calls["plain"], calls["shared"], "{:.2f} ms".format),
    ]
    return Table(
        "the two forms of a further Python plugin",
        ("", "plain", "shared", "plain / shared"),
        [(name, show(left), show(right), f"{left / right:.2f}") for name, left, right, show in figures],
        notes=(f"the modules that all share: {_mb(once)}, once",),
    )


def _mb(size: float) -> str:
    return f"{size / 1e6:.1f} MB"
