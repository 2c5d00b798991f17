"""What a guest gets of a machine that others use too: other guests, a deadline to watch, a busy Python thread."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

from benchmarks.harness import Measurement, Table, alternate, busy_thread, once
from benchmarks.plugin import ARGUMENTS, admitted, compiled_sandbox, load_tool
from zeroclaw_host.errors import DeadlineExceeded
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.worlds.tool import ToolPlugin

SPEEDUP_GOAL = 1.6
IDLE_GOAL_MS = 20
BUSY_GOAL_MS = 50
TIMEOUT_MS = 200
ROUNDS = 7
LONG = {"steps": 600_000}
ENDLESS = {"steps": 0}
SHORT_SWITCH_SECONDS = 0.0005

AMPLE = Limits(call_fuel=10**15)
TIGHT = Limits(call_fuel=10**15, call_timeout_ms=TIMEOUT_MS)


@contextmanager
def switch_interval(seconds: float) -> Generator[None]:
    """How long a Python thread may keep the interpreter while others wait for it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def measure() -> Iterator[Measurement | Table]:
    """Two guests at once, how late a deadline is noticed, and what a busy thread does to short calls."""
    redact, churn = admitted("redact"), admitted("churn")
    with compiled_sandbox(redact, churn) as sandbox:
        yield _two_guests(load_tool(sandbox, churn, AMPLE))
        yield from _deadlines(load_tool(sandbox, churn, TIGHT))
        yield _busy_interpreter(load_tool(sandbox, redact))


def _two_guests(tool: ToolPlugin) -> Measurement:
    with ThreadPoolExecutor(2) as threads:

        def at_once() -> None:
            list(threads.map(tool.execute_sync, [LONG, LONG]))

        def in_turn() -> None:
            for _ in range(2):
                tool.execute_sync(LONG)

        medians = alternate({"both at once": at_once, "one after the other": in_turn}, rounds=3, warmup=1)
    speedup = medians["one after the other"] / medians["both at once"]
    return Measurement(
        f"two guests that compute: {speedup:.2f} times as fast on two threads",
        medians,
        f"≥ {SPEEDUP_GOAL} times",
        speedup >= SPEEDUP_GOAL,
    )


def _deadlines(tool: ToolPlugin) -> Iterator[Measurement]:
    for beside, surroundings, goal in (
        ("nothing else running", nullcontext, IDLE_GOAL_MS),
        ("a busy Python thread beside it", busy_thread, BUSY_GOAL_MS),
    ):
        with surroundings():
            late = sorted(_overshoot(tool) for _ in range(ROUNDS))
        yield Measurement(
            f"an endless loop, past its deadline of {TIMEOUT_MS} ms by: {beside}",
            {"median": statistics.median(late), "worst": late[-1]},
            f"≤ {goal} ms",
            late[-1] <= goal,
            compared=False,
        )


def _overshoot(tool: ToolPlugin) -> float:
    """The milliseconds from the deadline to the moment at which the caller has the error."""
    started = time.perf_counter()
    try:
        tool.execute_sync(ENDLESS)
    except DeadlineExceeded:
        return (time.perf_counter() - started) * 1000 - TIMEOUT_MS
    raise AssertionError("an endless loop ended")


def _busy_interpreter(tool: ToolPlugin) -> Table:
    def median() -> str:
        return (
            f"{statistics.median(once(lambda: tool.execute_sync(ARGUMENTS)) for _ in range(ROUNDS)):.1f} ms"
        )

    default = sys.getswitchinterval()
    lines = [("nothing", f"{default * 1000:g} ms", median())]
    for seconds in (default, SHORT_SWITCH_SECONDS):
        with switch_interval(seconds), busy_thread():
            lines.append(("a busy Python thread", f"{seconds * 1000:g} ms", median()))
    return Table(
        "a fresh call of redact and the interpreter's lock", ("beside it", "switch interval", "median"), lines
    )
