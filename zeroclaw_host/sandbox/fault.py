"""Why a call into a guest ended without a result.

The C API tells traps of components apart by text alone, so the text is read here, and only here; each phrase is tested
against the wasmtime at hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from wasmtime import ExitTrap, WasmtimeError

from zeroclaw_host.errors import (
    GuestTrap,
    MemoryLimit,
    OutOfFuel,
    PluginError,
    Remedy,
    RemedyAction,
)
from zeroclaw_host.sandbox.causes import backtrace, chain, plain, sentences
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.gate import HOST_FAILURE
from zeroclaw_host.sandbox.limits import MAX_LIST_ELEMENTS, MAX_MEMORIES, MAX_RANDOM_BYTES, MAX_TABLES

_TRAP: Final = "wasm trap: "
_FUEL: Final = "all fuel consumed by WebAssembly"
_BUG: Final = "BUG: "

_TRAPS: Final[Mapping[str, tuple[str, str]]] = {
    "wasm `unreachable` instruction executed": ("unreachable", "the plugin aborted"),
    "call stack exhausted": ("stack-exhausted", "the plugin used up its stack"),
    "out of bounds memory access": ("memory-out-of-bounds", "the plugin accessed memory that is not its own"),
    "integer divide by zero": ("division-by-zero", "the plugin divided by zero"),
    # wasmtime says the same of a store that is dead, but no call of ours enters one.
    "cannot enter component instance": ("re-entered", "the plugin called back into itself"),
}
"""Traps with a word and a sentence of their own. Any other is told in wasmtime's words."""

_LIMITS: Final[tuple[tuple[re.Pattern[str], str, str], ...]] = (
    (re.compile(r"memory minimum size of (\d+) pages exceeds memory limits"), "max_memory_mb", "memory"),
    (
        re.compile(r"table minimum size of (\d+) elements exceeds table limits"),
        "max_table_elements",
        "table elements",
    ),
    (re.compile(r"resource limit exceeded: instance count too high"), "max_instances", "core instances"),
    (re.compile(r"resource limit exceeded: memory count too high"), "memories", "memories"),
    (re.compile(r"resource limit exceeded: table count too high"), "tables", "tables"),
    (
        re.compile(r"too much data is being copied between the host and the guest"),
        "list elements",
        "data in one call",
    ),
    (re.compile(r"cannot allocate another handle"), "handles", "handles"),
    (re.compile(r"GC heap out of memory"), "max_memory_mb", "memory for its exceptions"),
    (re.compile(r"requested len \d+ exceeds limit \d+"), "random bytes", "random bytes at once"),
)

_FIXED_LIMITS: Final[Mapping[str, int]] = {
    "memories": MAX_MEMORIES,
    "tables": MAX_TABLES,
    "list elements": MAX_LIST_ELEMENTS,
    "random bytes": MAX_RANDOM_BYTES,
}
"""Limits nobody sets."""

_PYTHON_TRACEBACK: Final = "Traceback (most recent call last):"
_PYTHON_EXCEPTION: Final = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")

_PANIC: Final = re.compile(r"^thread '[^']*' (\(\d+\) )?panicked at ", re.MULTILINE)
"""What the runtime of a Python component adds below the traceback when it gives up."""

_PANIC_MESSAGE: Final = re.compile(_PANIC.pattern + r"[^\n]*\n(?P<message>[^\n]+)", re.MULTILINE)
"""The same with what a guest in Rust has to say about it."""

_NO_MEMORY: Final = re.compile(r"^(MemoryError\b|object type name: MemoryError$)", re.MULTILINE)
"""An interpreter without memory prints what it still can: the bare word, or a description of the object."""

_ALLOCATION_FAILED: Final = re.compile(
    r"memory allocation of \d+ bytes failed|std::bad_alloc|(fatal|runtime) error: out of memory"
)
"""What the runtimes of Rust, C++ and Go print when they get no memory."""

_PAGES_PER_MB: Final = 16


@dataclass(frozen=True, slots=True)
class GuestException:
    """The exception a Python guest died of, as its interpreter printed it."""

    type: str
    message: str
    traceback: str


def explain(error: WasmtimeError, frame: CallFrame) -> PluginError:
    """What the caller of the plugin gets for an error of wasmtime.

    The first error the host met in this frame comes before anything the text says. Otherwise the engine's own chain of
    causes becomes the error's (PLG-041).
    """
    if frame.error is not None:
        return frame.error
    explained = _explain(error, frame)
    explained.__cause__ = chain(str(error))
    return explained


def _explain(error: WasmtimeError, frame: CallFrame) -> PluginError:
    stderr = frame.stderr.text()
    if isinstance(error, ExitTrap):
        return GuestTrap(
            f"the plugin ended itself with status {error.code}",
            details={"trap": "exit", "status": error.code, "stderr": stderr},
        )
    text = str(error)
    last = (sentences(text) or ("the engine gave no reason",))[-1]
    for pattern, limit, what in _LIMITS:
        if found := pattern.search(last):
            return _over_limit(
                f"the plugin wants more {what} than allowed", limit, frame, wanted=_wanted(found, limit)
            )
    if last == HOST_FAILURE:
        return PluginError("a host function failed outside the call's frame")
    if last.startswith(_BUG):
        return PluginError("the engine refused to go on, by a fault of its own")
    if not last.startswith(_TRAP):
        # What is left are values, addresses and handles that the component model does not allow.
        return GuestTrap(
            f"the plugin broke a rule of the component model: {last}",
            details={"trap": last, "backtrace": backtrace(text), "stderr": stderr},
        )
    return _explain_trap(last.removeprefix(_TRAP), text, frame, stderr)


def _explain_trap(trap: str, text: str, frame: CallFrame, stderr: str) -> PluginError:
    if trap == _FUEL:
        budget = frame.limits.call_fuel
        guest_ms, host_ms = frame.spent_ms()
        return OutOfFuel(
            f"the plugin used up its fuel in {guest_ms} ms: {budget:,} of {budget:,} units (call_fuel)",
            remedy=Remedy(RemedyAction.RAISE_LIMIT, {"limit": "call_fuel"}),
            # What it used is the budget, to the unit: the engine stops at the first instruction that it cannot pay.
            details={"fuel_used": budget, "fuel_budget": budget, "guest_ms": guest_ms, "host_ms": host_ms},
        )
    raised = python_exception(stderr)
    if raised.type == "MemoryError" if raised is not None else _ALLOCATION_FAILED.search(stderr):
        # A refused growth of memory is no trap: the guest sees it, and each language dies of it in its own way.
        where = {} if raised is None or not raised.traceback else {"traceback": raised.traceback}
        return _over_limit("the plugin ran out of memory", "max_memory_mb", frame, more=where)
    word, sentence = _TRAPS.get(trap, (trap.replace(" ", "-"), "the plugin trapped"))
    details: dict[str, object] = {"trap": word, "backtrace": backtrace(text), "stderr": stderr}
    if raised is None:
        panic = _PANIC_MESSAGE.search(stderr)
        sentence = f"the plugin panicked: {plain(panic['message'])}" if panic else f"{sentence} ({word})"
    else:
        sentence = f"the plugin raised {raised.type}" + (f": {raised.message}" if raised.message else "")
        details |= {"exception": raised.type, "message": raised.message, "traceback": raised.traceback}
    return GuestTrap(sentence, details=details)


def _wanted(found: re.Match[str], limit: str) -> int | None:
    """How much a guest asked for at its start, in the limit's unit; None where the engine does not say."""
    if not found.groups():
        return None
    number = int(found[1])
    return -(-number // _PAGES_PER_MB) if limit == "max_memory_mb" else number


def _over_limit(
    sentence: str,
    limit: str,
    frame: CallFrame,
    *,
    wanted: int | None = None,
    more: Mapping[str, object] | None = None,
) -> MemoryLimit:
    """The error names the limit and its value, where it is one the operator sets."""
    maximum: object = getattr(frame.limits, limit, _FIXED_LIMITS.get(limit))
    details: dict[str, object] = {"limit": limit, "maximum": maximum, **(more or {})}
    if (
        wanted is not None and isinstance(maximum, int) and wanted > maximum
    ):  # else it is about one of several
        sentence += f", {wanted} to begin with"
        details["wanted"] = wanted
    known = "" if maximum is None else f" ({limit} is {maximum})"
    remedy = Remedy(RemedyAction.RAISE_LIMIT, {"limit": limit}) if hasattr(frame.limits, limit) else None
    return MemoryLimit(f"{sentence}{known}", remedy=remedy, details=details)


def python_exception(stderr: str) -> GuestException | None:
    """The last uncaught exception a Python interpreter printed, if it printed one."""
    text = _PANIC.split(stderr, maxsplit=1)[0].strip()
    start = text.rfind(_PYTHON_TRACEBACK)
    traceback = text[start:] if start >= 0 else ""
    lines = traceback.splitlines()
    if _NO_MEMORY.search(traceback or text):
        calls = list(takewhile(lambda line: line.startswith(" "), lines[1:]))
        return GuestException(
            "MemoryError", "", "\n".join([*lines[:1], *calls, "MemoryError"]) if calls else ""
        )
    for index, line in enumerate(lines[1:], 1):
        found = None if line.startswith(" ") else _PYTHON_EXCEPTION.match(line)
        if found:
            message = "\n".join([found["message"] or "", *lines[index + 1 :]]).strip()
            return GuestException(found["type"], message, traceback)
    return None
