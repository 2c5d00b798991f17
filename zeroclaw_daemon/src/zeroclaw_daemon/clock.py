"""Time as the daemon sees it: one seam for every wait, so that tests decide how late it is."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import anyio


class Clock(Protocol):
    """Seconds that only move forward, and the waits that depend on them."""

    def now(self) -> float:
        """Seconds since an arbitrary moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def move_on_after(self, seconds: float) -> AbstractContextManager[anyio.CancelScope]:
        """A block that is left early when the time is up; the scope's ``cancelled_caught`` then is true."""
        ...


class SystemClock:
    """The event loop's own clock."""

    def now(self) -> float:
        """The event loop's monotonic time."""
        return anyio.current_time()

    async def sleep(self, seconds: float) -> None:
        """Wait in real time."""
        await anyio.sleep(seconds)

    def move_on_after(self, seconds: float) -> AbstractContextManager[anyio.CancelScope]:
        """A scope of the event loop with a real deadline."""
        return anyio.move_on_after(seconds)


class ManualClock:
    """A clock that stands still until :meth:`advance` is called. A public fake for tests of anything that waits."""

    def __init__(self) -> None:
        self._now = 0.0
        self._order = itertools.count()
        self._alarms: list[tuple[float, int, Callable[[], object]]] = []

    def now(self) -> float:
        """The seconds advanced so far."""
        return self._now

    @property
    def waits(self) -> int:
        """How many waits have not ended yet: a test can wait for this before it advances."""
        return len(self._alarms)

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was advanced that far."""
        over = anyio.Event()
        with self._alarm(seconds, over.set):
            await over.wait()

    @contextmanager
    def move_on_after(self, seconds: float) -> Generator[anyio.CancelScope]:
        """A scope that :meth:`advance` cancels."""
        with anyio.CancelScope() as scope, self._alarm(seconds, scope.cancel):
            yield scope

    def advance(self, seconds: float) -> None:
        """Let this much time pass at once: every wait that ends within it ends, in order of its end."""
        target = self._now + seconds
        while self._alarms and self._alarms[0][0] <= target:
            due, _, ring = heapq.heappop(self._alarms)
            self._now = max(self._now, due)
            ring()
        self._now = target

    @contextmanager
    def _alarm(self, seconds: float, ring: Callable[[], object]) -> Generator[None]:
        alarm = (self._now + seconds, next(self._order), ring)
        heapq.heappush(self._alarms, alarm)
        try:
            yield
        finally:
            if alarm in self._alarms:
                self._alarms.remove(alarm)
                heapq.heapify(self._alarms)
