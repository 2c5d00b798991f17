"""Loading a component that was compiled before, authentication included."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.harness import Measurement
from benchmarks.plugin import built, cache_directory

FIRST_GOAL_MS = 60
AGAIN_GOAL_MS = 20

_CHILD = """
import sys, time
from pathlib import Path
from zeroclaw_host.sandbox.compiling.cache import ComponentCache
from zeroclaw_host.sandbox.engine import Engines

component = Path(sys.argv[1]).read_bytes()
cache = ComponentCache(Path(sys.argv[2]), Engines())
for _ in range(2):
    started = time.perf_counter()
    cache.load(component)
    print((time.perf_counter() - started) * 1000)
"""


def measure() -> Iterator[Measurement]:
    """The first load of a process and the second, in new processes."""
    component = built("redact") / "build" / "redact.wasm"
    command = [sys.executable, "-c", _CHILD, str(component), str(cache_directory())]
    subprocess.run(command, check=True, capture_output=True)  # compiles it when it is not there
    runs = [
        [
            float(line)
            for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        ]
        for _ in range(7)
    ]
    first, again = (statistics.median(column) for column in zip(*runs, strict=True))
    yield Measurement(
        "cached load, first in a process", {"load": first}, f"≤ {FIRST_GOAL_MS} ms", first <= FIRST_GOAL_MS
    )
    yield Measurement("cached load, again", {"load": again}, f"< {AGAIN_GOAL_MS} ms", again < AGAIN_GOAL_MS)
