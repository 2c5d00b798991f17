"""Guests run on threads of their own, whoever waits for them and however that ends."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from zeroclaw_host.errors import DeadlineExceeded, PluginUnavailable
from zeroclaw_host.sandbox.engine import EpochTicker, new_engine
from zeroclaw_host.sandbox.frame import CallCancelled
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.threads import GuestThreads


@pytest.fixture
def threads():
    found = GuestThreads(4)
    yield found
    found.close()


@pytest.mark.req("PAINS-1")
def test_guest_code_runs_neither_on_the_callers_thread_nor_on_the_event_loop(threads, new_frame):
    here = threading.get_ident()
    assert threads.run(new_frame(), threading.get_ident) != here

    async def ask() -> int:
        return await threads.run_async(new_frame(), threading.get_ident)

    assert anyio.run(ask) != here


@pytest.mark.req("PAINS-1")
def test_an_interrupt_of_the_waiting_thread_ends_the_call_before_it_goes_on(threads, new_frame, monkeypatch):
    frame = new_frame()
    entered = threading.Event()
    left = threading.Event()

    def work() -> None:
        entered.set()
        try:
            frame.wait(lambda: False, "nothing")
        finally:
            left.set()

    submit = threads._submit

    def interrupted(frame, work):
        future = submit(frame, work)
        entered.wait(20)
        result = future.result

        def interrupt(*_):
            future.result = result
            raise KeyboardInterrupt

        future.result = interrupt
        return future

    monkeypatch.setattr(threads, "_submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        threads.run(frame, work)
    assert left.is_set()


@pytest.mark.parametrize("backend", ["asyncio"])
def test_cancelling_the_task_ends_the_call_before_the_task_ends(backend, threads, new_frame):
    frame = new_frame()
    begun = threading.Event()
    ended: list[type[BaseException]] = []

    def work() -> None:
        begun.set()
        try:
            frame.wait(lambda: False, "nothing")
        except CallCancelled as error:
            ended.append(type(error))
            raise

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(threads.run_async, frame, work)
            await anyio.to_thread.run_sync(begun.wait)
            group.cancel_scope.cancel()
        assert ended == [CallCancelled]

    anyio.run(main, backend=backend)


def test_a_call_cancelled_while_it_still_waits_for_a_thread_never_starts(new_frame):
    threads = GuestThreads(1)
    taken, release = threading.Event(), threading.Event()
    occupied = threading.Thread(
        target=lambda: threads.run(new_frame(), lambda: taken.set() or release.wait(60))
    )
    occupied.start()
    assert taken.wait(60)
    started: list[int] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(threads.run_async, new_frame(), lambda: started.append(1))
            while threads._pool._work_queue.empty():
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    anyio.run(main)
    release.set()
    occupied.join()
    threads.close()
    assert started == []


def test_the_event_loop_goes_on_while_a_guest_works(threads, new_frame):
    turns: list[int] = []

    async def main() -> None:
        release = threading.Event()

        async def tick() -> None:
            for turn in range(5):
                turns.append(turn)
                await anyio.lowlevel.checkpoint()
            release.set()

        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            assert await threads.run_async(new_frame(), lambda: release.wait(20))

    anyio.run(main)
    assert turns == [0, 1, 2, 3, 4]


@pytest.mark.req("PLG-019", "PAINS-5")
@pytest.mark.realtime
def test_more_endless_calls_than_threads_all_end_at_their_deadline_and_the_next_works(threads, new_frame):
    limits = Limits(call_timeout_ms=100)

    def hang() -> str:
        frame = new_frame(limits)
        with pytest.raises(DeadlineExceeded):
            threads.run(frame, lambda: frame.wait(lambda: False, "nothing"))
        return "ended"

    with ThreadPoolExecutor(8) as callers:
        assert list(callers.map(lambda _: hang(), range(8))) == ["ended"] * 8
    assert threads.run(new_frame(), lambda: "works") == "works"


def test_closing_ends_what_runs_and_takes_no_more(new_frame):
    threads = GuestThreads(1)
    frame = new_frame()
    entered = threading.Event()
    outcome: list[BaseException] = []

    def work() -> None:
        entered.set()
        frame.wait(lambda: False, "nothing")

    def caller() -> None:
        try:
            threads.run(frame, work)
        except CallCancelled as error:
            outcome.append(error)

    thread = threading.Thread(target=caller)
    thread.start()
    entered.wait(20)
    threads.close()
    thread.join(20)
    assert len(outcome) == 1
    with pytest.raises(PluginUnavailable):
        threads.run(new_frame(), lambda: None)


@pytest.mark.realtime
def test_the_ticker_moves_the_epoch_while_a_guest_runs_and_then_sleeps(monkeypatch):
    engine = new_engine()
    ticked = threading.Event()
    monkeypatch.setattr(engine, "increment_epoch", ticked.set)
    ticker = EpochTicker(engine, seconds=0.001, linger_seconds=0.003)
    for _ in range(3):
        ticked.clear()
        with ticker.guest():
            assert ticked.wait(20)
        give_up = time.monotonic() + 20
        while not ticker._asleep:
            assert time.monotonic() < give_up
            threading.Event().wait(0.001)
    ticker.close()
    assert not ticker._thread.is_alive()


@pytest.mark.realtime
def test_work_that_is_over_before_anybody_waits_is_awaited_all_the_same(threads, new_frame, monkeypatch):
    submit = threads._submit

    def finished(frame, work):
        future = submit(frame, work)
        future.exception(20)
        return future

    monkeypatch.setattr(threads, "_submit", finished)

    async def ask() -> int:
        with anyio.fail_after(20):
            return await threads.run_async(new_frame(), lambda: 7)

    assert bounded(lambda: anyio.run(ask)) == 7


def test_closing_ends_the_calls_that_still_wait_for_a_thread(new_frame):
    one = GuestThreads(1)
    busy = new_frame()
    entered = threading.Event()
    ends: list[object] = []

    def work() -> None:
        entered.set()
        busy.wait(lambda: False, "nothing")

    def outcome(call) -> None:
        try:
            ends.append(call())
        except Exception as error:  # noqa: BLE001 - compared below
            ends.append(type(error))

    async def ask() -> object:
        return await one.run_async(new_frame(), lambda: "ran")

    with ThreadPoolExecutor(3) as callers:
        callers.submit(outcome, lambda: one.run(busy, work))
        assert entered.wait(20)
        callers.submit(outcome, lambda: one.run(new_frame(), lambda: "ran"))
        callers.submit(outcome, lambda: anyio.run(ask))
        while one._pool._work_queue.qsize() < 2:
            threading.Event().wait(0.001)
        bounded(one.close)
    assert sorted(end.__name__ for end in ends) == ["CallCancelled", "PluginUnavailable", "PluginUnavailable"]


def test_a_forked_child_is_told_that_the_threads_stayed_behind(threads, new_frame):
    threads.run(new_frame(), lambda: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads is what this is about
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            threads.run(new_frame(), lambda: None)
        except PluginUnavailable:
            os._exit(42)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42


def bounded(call):
    """What the call returns, or a failure when it does not return."""
    ends: list[object] = []
    thread = threading.Thread(target=lambda: ends.append(call()), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "the call does not return"
    return ends[0]
