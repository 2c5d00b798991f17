"""Callers that go without a word: interrupted, forked away, or tasks of a loop that is no more."""

from __future__ import annotations

import asyncio
import gc
import linecache
import os
import signal
import sys
import threading
import time
import warnings
from types import FrameType

import pytest
from plugin_parts import Waiting
from warm_guests import Held, call, count, waits

from zeroclaw_host.errors import PluginUnavailable, UsageError
from zeroclaw_host.sandbox.frame import Phase
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.values import Ok

ON_THE_WAY = ("worlds/warm.py", "worlds/turns.py", "sandbox/threads.py", "sandbox/frame.py")
"""Where the caller of a call is, in its own thread."""


class Interrupt:
    """Raises KeyboardInterrupt before the ``number``-th line of these files that this thread comes to."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, frame: FrameType, event: str, _: object) -> Interrupt | None:
        if not frame.f_code.co_filename.endswith(ON_THE_WAY):
            return None
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        # Entering and leaving a lock is one step for a signal, but not for a trace function.
        if event == "line" and not text.startswith("with self._"):
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


@pytest.mark.req("PAINS-1")
def test_an_interrupt_at_any_line_of_a_call_leaves_the_line_free_for_the_next(new_store):
    store = new_store(limits=Limits(call_timeout_ms=20_000), clock=time.monotonic)
    number, before = 0, sys.gettrace()
    while True:
        number += 1
        interrupt = Interrupt(number)
        sys.settrace(interrupt)
        try:
            call(store)
        except KeyboardInterrupt:
            """As ordered."""
        finally:
            sys.settrace(before)
        if interrupt.left > 0:
            break
        assert isinstance(Waiting(lambda: call(store)).join(), Ok), f"after an interrupt at line {number}"
    assert number > 30


def stopped_loop(*calls) -> tuple[asyncio.AbstractEventLoop, list[asyncio.Task[object]]]:
    """A loop that was stopped in the middle of these calls, and the tasks that make them."""
    loop = asyncio.new_event_loop()
    tasks = [loop.create_task(each) for each in calls]
    loop.run_until_complete(asyncio.sleep(0))
    return loop, tasks


def test_closing_does_not_wait_for_a_loop_that_was_stopped(new_store, sink):
    store = new_store(limits=Limits(call_fuel=10**15, call_timeout_ms=24 * 3600 * 1000), clock=time.monotonic)
    entered = threading.Semaphore(0)
    sink.hook = entered.release
    loop, (task,) = stopped_loop(store.call("health-check", phase=Phase.STANDARD))
    waits(entered)
    Waiting(store.close).join()
    threads = store._sandbox.threads
    for frame in [store._frame(Phase.STANDARD, None) for _ in range(2)]:  # as many as there are threads
        assert Waiting(lambda frame=frame: threads.run(frame, os.getpid)).join() == os.getpid()
    with pytest.raises(PluginUnavailable):
        loop.run_until_complete(task)  # it can be taken up again
    loop.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_tasks_of_a_loop_that_is_closed_hold_nobody_up(new_store, sink):
    store = new_store(clock=time.monotonic)
    held = Held(sink)
    loop, tasks = stopped_loop(
        store.call("reindex", phase=Phase.STANDARD),
        store.call("count", phase=Phase.STANDARD),
    )
    waits(held.inside)
    loop.close()
    held.release.set()
    assert Waiting(lambda: count(store)).join() == 2
    tasks.clear()
    del loop
    gc.collect()
    assert len(store._turns._queue) == 0
    assert count(store) == 3


def in_a_fork(work) -> int:
    """The exit status of a child that does this."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads is what this is about
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            os._exit(work())
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_fork_in_the_middle_of_a_call_is_told_so_and_can_close(new_store, sink):
    store = new_store()
    held = Held(sink)
    running = Waiting(lambda: call(store, "reindex"))
    waits(held.inside)

    def child() -> int:
        for begin in (lambda: call(store), store.start_sync):
            with pytest.raises(PluginUnavailable, match="forked"):
                begin()
        store.close()
        store._sandbox.close()
        return 42

    assert in_a_fork(child) == 42
    held.release.set()
    assert isinstance(running.join(), Ok)


def test_a_host_function_cannot_call_the_plugin_that_it_serves(new_store, sink):
    store = new_store()
    ended = list[BaseException]()

    def again() -> None:
        for begin in (lambda: call(store), store.start_sync):
            try:
                begin()
            except UsageError as error:
                ended.append(error)

    sink.hook = again
    assert isinstance(call(store, "reindex"), Ok)
    assert ["already holds" in str(error) for error in ended] == [True, True]


def test_a_host_function_can_close_the_plugin_that_it_serves(new_store, sink):
    store = new_store()
    sink.hook = store.close
    instance = store._instance
    calling = Waiting(lambda: call(store, "reindex"))
    try:
        calling.join()
    except PluginUnavailable:
        """An epoch tick came between."""
    assert not store.alive
    assert not instance._guest.alive
    with pytest.raises(PluginUnavailable):
        call(store)
