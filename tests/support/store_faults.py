"""Stores of sessions that fail or wait where a test says."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable

from zeroclaw_daemon.sessions.store.points import Phase, StoreSteps, WritePoint

HANGS = 60
"""Seconds after which a write that nobody lets go on fails. No test waits this long otherwise."""


class Faults(StoreSteps):
    """``failing`` are the writes that fail, ``watching`` is called on the store's thread when one begins."""

    def __init__(self) -> None:
        self.failing: set[WritePoint] = set()
        self.watching: dict[WritePoint, Callable[[], object]] = {}
        self._held: dict[WritePoint, threading.Event] = {}
        self._arrived: set[WritePoint] = set()

    def reached(self, point: WritePoint, phase: Phase) -> None:
        if phase is not Phase.BEGUN:
            return
        self._arrived.add(point)
        if point in self._held:
            assert self._held[point].wait(HANGS), "nobody let the write go on"
        if point in self.watching:
            self.watching[point]()
        if point in self.failing:
            raise sqlite3.OperationalError("disk I/O error")

    def hold(self, point: WritePoint) -> threading.Event:
        """Have writes of this kind wait until the event is set."""
        self._arrived.discard(point)
        self._held[point] = threading.Event()
        return self._held[point]

    def arrived(self, point: WritePoint) -> bool:
        """Whether a write of this kind has begun."""
        return point in self._arrived
