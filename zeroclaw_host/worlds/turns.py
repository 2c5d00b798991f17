"""Whose turn it is at something that serves one call at a time: first come, first served, threads and tasks alike."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final
from weakref import ref

import anyio

from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.threads import LoopBell


class Turn:
    """A place in the queue. ``come`` turns true once, and stays so until the place is left."""

    __slots__ = ("__weakref__", "come", "wake")

    def __init__(self, wake: Callable[[], object]) -> None:
        self.come = False
        self.wake: Final = wake


class Turns:
    """The queue. It only says who is next; each caller waits in its own way, and is woken when there is news.

    A place belongs to its caller alone: the queue keeps none alive. So a caller that vanishes without leaving, as a task
    does whose loop was closed, or a thread that a second interrupt takes out of the act of leaving, blocks nobody.
    """

    def __init__(self) -> None:
        self._queue: deque[ref[Turn]] = deque()
        self._lock = threading.RLock()
        """Reentrant, because a place that is lost is found out by the garbage collector, which comes at any moment."""

    @contextmanager
    def queued(self, wake: Callable[[], object]) -> Generator[Turn]:
        """A place at the end of the queue for the time of the block. Leaving it, in whatever way, lets the next one on.

        :param wake: called from any thread when it is time to look at the turn again. Must not block. False says that
            nobody is there any more to do so.
        """
        turn = Turn(wake)
        place = ref(turn, self._leave)
        try:
            with self._lock:
                self._queue.append(place)
                self._call_next(newcomer=turn)
            yield turn
        finally:
            self._leave(place)

    def wake_all(self) -> None:
        """Wake everybody: something besides the turn has changed."""
        with self._lock:
            waiting = [turn for place in self._queue if (turn := place()) is not None]
        for turn in waiting:
            turn.wake()

    def _leave(self, place: ref[Turn]) -> None:
        with self._lock:
            with suppress(ValueError):  # it was given up for lost
                self._queue.remove(place)
            self._call_next()

    def _call_next(self, newcomer: Turn | None = None) -> None:
        """Tell the first in the queue, once more if it was told before: who does not hear it any longer is out."""
        while self._queue:
            turn = self._queue[0]()
            if turn is not None:
                turn.come = True
                if turn is newcomer or turn.wake() is not False:
                    return
            self._queue.popleft()


class TaskAlarm:
    """What :meth:`CallFrame.wait` and :meth:`CallFrame.notify` are to a thread, for the task that makes it."""

    def __init__(self, frame: CallFrame) -> None:
        self._frame = frame
        self._event = anyio.Event()
        self._bell = LoopBell(self._set)

    def ring(self) -> bool:
        """Make the waiting task look again; False when its loop is over. Callable from any thread; does not wait for the
        event loop."""
        return self._bell.ring()

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

    def _set(self) -> None:
        self._event.set()
