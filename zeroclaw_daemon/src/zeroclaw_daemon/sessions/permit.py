"""Whose turn it is: one holder at a time, the others in the order they came (RPC-241, D-44)."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from zeroclaw_daemon.clock import Clock
from zeroclaw_daemon.sessions.errors import SessionBusy

MAX_PENDING: Final = 32
"""Turns of one session that run or wait."""

WAIT_SECONDS: Final = 30.0
"""The longest a turn waits for those before it."""


class TurnPermit:
    """Orders the turns of one session.

    :param max_pending: how many turns may hold or wait at once.
    :param wait_seconds: how long one may wait.
    """

    def __init__(
        self, clock: Clock, *, max_pending: int = MAX_PENDING, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._clock = clock
        self._max_pending = max_pending
        self._wait_seconds = wait_seconds
        self._queue: deque[anyio.Event] = deque()

    @property
    def pending(self) -> int:
        """How many hold or wait."""
        return len(self._queue)

    @asynccontextmanager
    async def held(self, *, ending: bool = False) -> AsyncGenerator[None]:
        """Hold the permit while the block runs.

        :param ending: to end the session: there is always a place for that, however many prompts wait.
        :raises SessionBusy: too many wait already, or those before did not end in time.
        """
        if not ending and len(self._queue) >= self._max_pending:
            raise SessionBusy("too many prompts are waiting in this session")
        mine = anyio.Event()
        self._queue.append(mine)
        try:
            if self._queue[0] is not mine:
                with self._clock.move_on_after(self._wait_seconds):
                    await mine.wait()
                if not mine.is_set():
                    raise SessionBusy("the prompts before this one did not end in time")
            yield
        finally:
            self._queue.remove(mine)
            if self._queue:
                self._queue[0].set()
