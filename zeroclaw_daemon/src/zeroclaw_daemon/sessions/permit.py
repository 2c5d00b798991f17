"""Whose turn it is: one holder at a time, the others in the order they came (RPC-241, D-44)."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import anyio

from zeroclaw_daemon.clock import Clock
from zeroclaw_daemon.sessions.errors import SessionBusy

MAX_PENDING: Final = 32
"""Turns of one session that run or wait."""

MAX_WAITING_CHARACTERS: Final = 8 * 1024 * 1024
"""Of the prompts of one session that wait, which are in memory until then: one of the longest line of the protocol may."""

WAIT_SECONDS: Final = 30.0
"""The longest a turn waits for those before it."""


class TurnPermit:
    """Orders the turns of one session.

    :param max_pending: how many turns may hold or wait at once.
    :param max_waiting: how large those that wait may be in all.
    :param wait_seconds: how long one may wait.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        max_pending: int = MAX_PENDING,
        max_waiting: int = MAX_WAITING_CHARACTERS,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._clock = clock
        self._max_pending = max_pending
        self._max_waiting = max_waiting
        self._wait_seconds = wait_seconds
        self._queue: deque[_Place] = deque()

    @property
    def pending(self) -> int:
        """How many hold or wait."""
        return len(self._queue)

    @asynccontextmanager
    async def held(self, size: int = 0, *, ending: bool = False) -> AsyncGenerator[None]:
        """Hold the permit while the block runs.

        :param size: of what waits for it, in characters.
        :param ending: to end the session: there is always a place for that, however many prompts wait.
        :raises SessionBusy: too many wait already, or too much, or those before did not end in time.
        """
        if not ending and not self._has_room(size):
            raise SessionBusy("too many prompts are waiting in this session, or too long ones")
        mine = _Place(size)
        self._queue.append(mine)
        try:
            if self._queue[0] is not mine:
                with self._clock.move_on_after(self._wait_seconds):
                    await mine.first.wait()
                if not mine.first.is_set():
                    raise SessionBusy("the prompts before this one did not end in time")
            yield
        finally:
            self._queue.remove(mine)
            if self._queue:
                self._queue[0].first.set()

    def _has_room(self, size: int) -> bool:
        waiting = sum(place.size for place in islice(self._queue, 1, None))
        fits = not self._queue or waiting + size <= self._max_waiting
        return fits and len(self._queue) < self._max_pending


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """One in the queue. ``first`` is set once it is at the head."""

    size: int
    first: anyio.Event = field(default_factory=anyio.Event)
