"""The threads guests run on.

Never the main thread: an interrupt there would be raised inside a host function. Never an event loop: a guest may take
its whole deadline.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar, cast

import anyio
import anyio.lowlevel

from zeroclaw_host.errors import PluginUnavailable, UsageError
from zeroclaw_host.sandbox.frame import CallFrame, inside_a_call

DEFAULT_THREADS: Final = 16
"""Guest calls at once. Most of their time they wait for the network, where a thread costs nothing but its stack."""

T = TypeVar("T")


class LoopBell:
    """Calls a function on the event loop of the task that makes it.

    Nobody who rings waits for the loop: it may be busy, stopped for good, or the ringer's own.
    """

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        loop = cast("Any", anyio.lowlevel.current_token().native_token)
        self._soon: Callable[[Callable[[], object]], object] = getattr(
            loop, "call_soon_threadsafe", None
        ) or getattr(loop, "run_sync_soon")  # noqa: B009 - asyncio's loop has the first, trio's token the second

    def ring(self) -> bool:
        """Have the function called soon; False when the loop is over, and its tasks with it. Callable from any thread."""
        try:
            self._soon(self._function)
        except RuntimeError:
            return False
        return True


class GuestThreads:
    """A pool of threads for guest calls, each of which belongs to a call frame and ends with it."""

    def __init__(self, count: int = DEFAULT_THREADS) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="zeroclaw-guest")
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._running: set[CallFrame] = set()
        self._closed = False

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that the threads, the guests and the locks they hold belong to."""
        return os.getpid() != self._process

    def admit(self) -> None:
        """Check that a call can be made here.

        :raises PluginUnavailable: the threads stayed behind in the process that this one was forked from.
        :raises UsageError: the caller is a host function that serves a guest. It would hold the guest's thread, and maybe
            its plugin, while it waits for one.
        """
        if self.forked:
            raise PluginUnavailable("the plugin host belongs to the process that this one was forked from")
        if inside_a_call():
            raise UsageError(
                "a host function cannot call a plugin: it already holds the thread of a plugin's call"
            )

    def run(self, frame: CallFrame, work: Callable[[], T]) -> T:
        """Do the work on a guest thread and wait. An interrupt of the waiting thread cancels the frame first."""
        future = self._submit(frame, work)
        try:
            return future.result()
        except BaseException:
            # Either the work's own failure, and then it is over; or ours, and then it has to end before we do.
            if not future.done():
                frame.cancel()
                if not future.cancel():
                    future.exception()
            raise

    async def run_async(self, frame: CallFrame, work: Callable[[], T]) -> T:
        """Do the work on a guest thread while the event loop goes on.

        Cancelling the waiting task cancels the frame, and waits until the guest has left.
        """
        done = anyio.Event()
        bell = LoopBell(done.set)
        future = self._submit(frame, work)
        future.add_done_callback(lambda _: bell.ring())
        try:
            await done.wait()
        except GeneratorExit:  # the loop is over, and nothing can be awaited any more
            frame.cancel()
            future.cancel()
            raise
        except BaseException:
            frame.cancel()
            if not future.cancel():
                with anyio.CancelScope(shield=True):
                    await done.wait()
            raise
        return future.result()

    def close(self) -> None:
        """Cancel what runs, let it end, turn away what waits for a thread, and take no more."""
        if self.forked:
            return
        with self._lock:
            self._closed = True
            running = list(self._running)
        for frame in running:
            frame.cancel()
        self._pool.shutdown(wait=True)

    def _submit(self, frame: CallFrame, work: Callable[[], T]) -> Future[T]:
        def guarded() -> T:
            with self._lock:
                if self._closed:
                    raise _closed()
                self._running.add(frame)
            frame.begin()
            try:
                return work()
            finally:
                with self._lock:
                    self._running.discard(frame)

        self.admit()
        try:
            return self._pool.submit(guarded)
        except RuntimeError as error:
            raise _closed() from error


def _closed() -> PluginUnavailable:
    return PluginUnavailable("the plugin host is closed")
