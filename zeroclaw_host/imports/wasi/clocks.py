"""``wasi:clocks/monotonic-clock``. The clock is the call frame's, so a guest's sleep ends with its call (PLG-018).

``wasi:clocks/wall-clock`` has no resource and no wait; it stays with wasmtime.
"""

from __future__ import annotations

from typing import Final

from zeroclaw_host.imports.wasi.streams import Pollable
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction, interface

NANOSECONDS: Final = 1_000_000_000


def _now(frame: CallFrame) -> int:
    return round(frame.now() * NANOSECONDS)


def _resolution(frame: CallFrame) -> int:
    return 1


def _subscribe_instant(frame: CallFrame, when: int) -> Pollable:
    return Pollable(at=when / NANOSECONDS)


def _subscribe_duration(frame: CallFrame, duration: int) -> Pollable:
    return Pollable(at=frame.now() + duration / NANOSECONDS)


MONOTONIC_CLOCK: Final = interface(
    "wasi:clocks/monotonic-clock",
    HostFunction("now", _now),
    HostFunction("resolution", _resolution),
    HostFunction("subscribe-instant", _subscribe_instant),
    HostFunction("subscribe-duration", _subscribe_duration),
)
