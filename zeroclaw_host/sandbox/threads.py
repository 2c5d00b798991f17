"""The threads guests run on.

Never the main thread: an interrupt there would be raised inside a host function. Never an event loop: a guest may take
its whole deadline.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
from anyio import RunFinishedError

from zeroclaw_host.errors import PluginUnavailable
from zeroclaw_host.sandbox.frame import CallFrame

DEFAULT_THREADS: Final = 16
"""Guest calls at once. Most of their time they wait for the network, where a thread costs nothing but its stack."""

T = TypeVar("T")


class GuestThreads:
    """A pool of threads for guest calls, each of which belongs to a call frame and ends with it."""

    def __init__(self, count: int = DEFAULT_THREADS) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="zeroclaw-guest")
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._running: set[CallFrame] = set()
        self._closed = False

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
        loop_thread = threading.get_ident()
        token = anyio.lowlevel.current_token()
        future = self._submit(frame, work)

        def announce(finished: Future[T]) -> None:
            if finished.cancelled():
                return  # never started, and whoever cancelled it is not waiting
            if threading.get_ident() == loop_thread:
                done.set()  # it was over before anybody could wait; asking the loop from its own thread never returns
                return
            with suppress(RunFinishedError):  # the loop ended first; nobody is left to tell
                anyio.from_thread.run_sync(done.set, token=token)

        future.add_done_callback(announce)
        try:
            await done.wait()
        except BaseException:
            frame.cancel()
            if not future.cancel():
                with anyio.CancelScope(shield=True):
                    await done.wait()
            raise
        return future.result()

    def close(self) -> None:
        """Cancel what runs, let it end, turn away what waits for a thread, and take no more."""
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

        if os.getpid() != self._process:
            raise PluginUnavailable("the plugin host belongs to the process that this one was forked from")
        try:
            return self._pool.submit(guarded)
        except RuntimeError as error:
            raise _closed() from error


def _closed() -> PluginUnavailable:
    return PluginUnavailable("the plugin host is closed")
