"""A plugin that keeps failing is rebuilt ever more slowly."""

from __future__ import annotations

import anyio
import anyio.to_thread
import pytest
from plugin_parts import Waiting
from warm_guests import call, count, forget, spend_free_rebuilds, waits

from zeroclaw_host.errors import (
    DeadlineExceeded,
    GuestTrap,
)
from zeroclaw_host.sandbox.frame import Phase, current_frame
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.values import Ok
from zeroclaw_host.worlds.warm import REBUILD


@pytest.mark.req("PLG-110", "PAINS-6")
def test_a_guest_that_traps_at_every_call_is_rebuilt_ever_more_slowly(new_store, clock, queued):
    moments = list[float]()
    store = new_store(start=lambda ask: moments.append(clock.seconds))
    spend_free_rebuilds(store)
    for wait in (1, 2, 4):
        waits_before = list(moments)
        forget(queued)
        waiting = Waiting(lambda: call(store, "get", "x"))
        waits(queued)
        assert moments == waits_before
        clock.seconds += wait
        store._turns.wake_all()
        with pytest.raises(GuestTrap):
            waiting.join()
    assert [moment - moments[0] for moment in moments] == [0, 0, 0, 0, 1, 3, 7]


@pytest.mark.req("PLG-110")
def test_the_wait_for_a_rebuild_ends_at_the_callers_deadline_and_names_itself(new_store, clock, queued):
    store = new_store(limits=Limits(call_timeout_ms=900))
    spend_free_rebuilds(store)
    waiting = Waiting(lambda: call(store, "count"))
    for _ in range(5):
        waits(queued)
    clock.seconds += 0.9
    store._turns.wake_all()
    with pytest.raises(DeadlineExceeded) as caught:
        waiting.join()
    assert caught.value.details == {
        "timeout_ms": 900,
        "guest_ms": 0,
        "host_ms": 900,
        "waited_for": REBUILD,
    }
    assert REBUILD in caught.value.message
    assert store.rebuilds == 3


@pytest.mark.req("PLG-110")
def test_the_wait_for_a_rebuild_is_part_of_the_calls_time(new_store, clock, sink, queued):
    store = new_store(limits=Limits(call_timeout_ms=30_000))
    spend_free_rebuilds(store)
    left = list[float]()
    sink.hook = lambda: left.append(current_frame().remaining())
    waiting = Waiting(lambda: call(store, "reindex"))
    for _ in range(5):
        waits(queued)
    clock.seconds += 1
    store._turns.wake_all()
    assert waiting.join() == Ok(1)
    assert left == [29]


@pytest.mark.req("PLG-110")
def test_waiting_for_a_rebuild_takes_no_guest_thread(new_store, clock, queued):
    stores = [new_store(), new_store(), new_store()]
    other = new_store()
    for store in stores:
        spend_free_rebuilds(store)
    forget(queued)
    waiting = [Waiting(lambda store=store: count(store)) for store in stores]
    for _ in stores:
        waits(queued)
    assert count(other) == 1, "three wait, and there are two guest threads"
    clock.seconds += 1
    for store in stores:
        store._turns.wake_all()
    assert [each.join() for each in waiting] == [1, 1, 1]


@pytest.mark.req("PLG-110")
def test_a_task_waits_for_a_rebuild_as_a_thread_does(new_store, clock, queued):
    store = new_store(limits=Limits(call_timeout_ms=900))
    spend_free_rebuilds(store)

    def let_time_pass() -> None:
        for _ in range(5):
            waits(queued)
        clock.seconds += 0.9
        store._turns.wake_all()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, let_time_pass)
            with pytest.raises(DeadlineExceeded) as caught:
                await store.call("count", phase=Phase.STANDARD)
            assert caught.value.details["waited_for"] == REBUILD
        clock.seconds += 0.2
        assert await store.call("count", phase=Phase.STANDARD) == Ok(1)

    anyio.run(main)
