"""Whose turn it is at something that serves one call at a time: first come, first served, threads and tasks alike."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

import anyio
import anyio.lowlevel

from zeroclaw_host.sandbox.frame import CallFrame


class Turn:
    """A place in the queue. ``come`` turns true once, and stays so until the place is left."""

    __slots__ = ("come", "wake")

    def __init__(self, wake: Callable[[], None]) -> None:
        self.come = False
        self.wake: Final = wake


class Turns:
    """The queue. It only says who is next; each caller waits in its own way, and is woken when there is news."""

    def __init__(self) -> None:
        self._queue: deque[Turn] = deque()
        self._lock = threading.Lock()

    @contextmanager
    def queued(self, wake: Callable[[], None]) -> Generator[Turn]:
        """A place at the end of the queue for the time of the block. Leaving it, in whatever way, lets the next one on.

        :param wake: called from any thread when it is time to look at the turn again. Must not block.
        """
        turn = Turn(wake)
        with self._lock:
            self._queue.append(turn)
            turn.come = self._queue[0] is turn
        try:
            yield turn
        finally:
            self._leave(turn)

    def wake_all(self) -> None:
        """Wake everybody: something besides the turn has changed."""
        with self._lock:
            waiting = list(self._queue)
        for turn in waiting:
            turn.wake()

    def _leave(self, turn: Turn) -> None:
        with self._lock:
            self._queue.remove(turn)
            following = self._queue[0] if self._queue else None
            if following is None or following.come:
                return
            following.come = True
        following.wake()


class TaskAlarm:
    """What :meth:`CallFrame.wait` and :meth:`CallFrame.notify` are to a thread, for the task that makes it."""

    def __init__(self, frame: CallFrame) -> None:
        self._frame = frame
        self._event = anyio.Event()
        loop = cast("Any", anyio.lowlevel.current_token().native_token)
        self._soon: Callable[[Callable[[], None]], object] = getattr(
            loop, "call_soon_threadsafe", None
        ) or getattr(loop, "run_sync_soon")  # noqa: B009 - asyncio's loop has the first, trio's token the second

    def ring(self) -> None:
        """Make the waiting task look again. Callable from any thread; does not wait for the event loop."""
        with suppress(RuntimeError):  # the loop is over, and with it the task
            self._soon(self._ring)

    async def wait(self, ready: Callable[[], bool], what: str, *, until: float | None = None) -> bool:
        """See :meth:`CallFrame.wait`."""
        while not ready():
            left = self._frame.remaining(what)
            if until is not None:
                pause = until - self._frame.now()
                if pause <= 0:
                    return False
                left = min(left, pause)
            with anyio.move_on_after(left):
                await self._event.wait()
            self._event = anyio.Event()
        return True

    def _ring(self) -> None:
        self._event.set()
