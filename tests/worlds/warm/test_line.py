"""Callers wait for their turn in one line, without a guest thread, for a bounded time."""

from __future__ import annotations

import threading
import time

import anyio
import anyio.to_thread
import pytest
from plugin_parts import Waiting
from warm_guests import Held, call, count, forget, waits

from zeroclaw_host.errors import (
    DeadlineExceeded,
)
from zeroclaw_host.sandbox.frame import Phase, current_frame
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.values import Ok
from zeroclaw_host.worlds.warm import TURN


@pytest.mark.req("PLG-031")
def test_calls_from_many_threads_are_served_one_at_a_time(store):
    threads = [Waiting(lambda: [count(store) for _ in range(25)]) for _ in range(8)]
    served = sorted(number for each in threads for number in each.join())  # type: ignore[union-attr]
    assert served == list(range(1, 201))


@pytest.mark.req("PLG-031")
def test_threads_and_tasks_wait_in_one_line(store, sink, queued):
    forget(queued)
    held = Held(sink)
    first = Waiting(lambda: call(store, "reindex"))
    waits(held.inside)
    waits(queued)

    async def task() -> object:
        return await store.call("count", phase=Phase.STANDARD)

    waiting = list[Waiting]()
    for number in range(6):
        waiting.append(Waiting(lambda: anyio.run(task)) if number % 2 else Waiting(lambda: call(store)))
        waits(queued)
    held.release.set()
    assert first.join() == Ok(1)
    assert [each.join() for each in waiting] == [Ok(number) for number in range(2, 8)]


def test_callers_that_wait_take_no_guest_thread(new_store, sink, queued):
    slow, other = new_store(), new_store()
    held = Held(sink)
    waiting = [Waiting(lambda: call(slow, "reindex"))]
    waits(held.inside)
    forget(queued)
    waiting += [Waiting(lambda: call(slow)) for _ in range(10)]
    for _ in range(10):
        waits(queued)
    assert count(other) == 1, "eleven callers of one plugin, two guest threads"
    held.release.set()
    assert [each.join() for each in waiting[:1]] == [Ok(1)]
    for each in waiting[1:]:
        each.join()


@pytest.mark.req("PAINS-4")
def test_the_wait_for_ones_turn_is_not_the_plugins_time(store, sink, clock, queued):
    forget(queued)
    held = Held(sink)
    first = Waiting(lambda: call(store, "reindex"))
    waits(held.inside)
    left = list[float]()
    second = Waiting(lambda: call(store, "reindex"))
    waits(queued)
    waits(queued)
    clock.seconds += 29
    sink.hook = lambda: left.append(current_frame().remaining())
    held.release.set()
    assert (first.join(), second.join()) == (Ok(1), Ok(2))
    assert left == [30]


def test_the_wait_for_ones_turn_ends_after_the_time_of_a_call_and_names_itself(store, sink, clock, queued):
    forget(queued)
    held = Held(sink)
    first = Waiting(lambda: call(store, "reindex"))
    waits(held.inside)
    second = Waiting(lambda: call(store))
    waits(queued)
    waits(queued)
    clock.seconds += 30
    store._turns.wake_all()
    with pytest.raises(DeadlineExceeded) as caught:
        second.join()
    assert caught.value.details == {
        "timeout_ms": 30_000,
        "guest_ms": 0,
        "host_ms": 30_000,
        "waited_for": TURN,
    }
    clock.seconds -= 1
    held.release.set()
    assert first.join() == Ok(1)
    assert count(store) == 2, "who gave up was never there"


def test_a_task_that_is_cancelled_while_it_waits_never_reaches_the_guest(store, sink):
    held = Held(sink)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: store.call("reindex", phase=Phase.STANDARD))
            await anyio.to_thread.run_sync(waits, held.inside)
            with anyio.CancelScope() as scope:
                scope.cancel()
                await store.call("count", phase=Phase.STANDARD)
            assert scope.cancelled_caught
            held.release.set()
        sink.hook = lambda: None
        assert await store.call("count", phase=Phase.STANDARD) == Ok(2)

    anyio.run(main)


@pytest.mark.req("PLG-107")
def test_cancelling_a_task_stops_the_guest_and_drops_the_instance(new_store, sink):
    store = new_store(limits=Limits(call_fuel=10**15, call_timeout_ms=24 * 3600 * 1000), clock=time.monotonic)
    entered = threading.Semaphore(0)
    sink.hook = entered.release

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: store.call("health-check", phase=Phase.STANDARD))
            await anyio.to_thread.run_sync(waits, entered)
            tasks.cancel_scope.cancel()
        assert not store.alive
        assert await store.call("count", phase=Phase.STANDARD) == Ok(1)

    anyio.run(main)


def test_two_threads_are_never_inside_even_when_the_line_is_passed_by(store, sink, clock):
    held = Held(sink)
    first = Waiting(lambda: call(store, "reindex"))
    waits(held.inside)
    frame = store._frame(Phase.STANDARD, None)
    second = Waiting(lambda: store._serve(frame, "count", ()))
    order = list[str]()
    sink.hook = lambda: None
    held.release.set()
    order.append(f"{first.join()}")
    assert (order, second.join()) == (["Ok(value=1)"], Ok(2))
    assert not store._inside.locked()
