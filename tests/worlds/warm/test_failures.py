"""What ends an instance, and whether the next call gets another."""

from __future__ import annotations

import threading
import time

import anyio
import anyio.to_thread
import pytest
from plugin_parts import Waiting
from warm_guests import Held, Sink, call, count, forget, waits

from zeroclaw_host.errors import (
    DeadlineExceeded,
    GuestFailure,
    GuestTrap,
    MemoryLimit,
    OutOfFuel,
    PluginUnavailable,
)
from zeroclaw_host.sandbox.frame import Phase
from zeroclaw_host.sandbox.gate import HostFunctionFailed
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.values import Err, Ok, ValueMismatch
from zeroclaw_host.worlds.warm import WarmStore

FAILURES = {
    "trap": ("get", ("key",), GuestTrap),
    "text that is no UTF-8": ("ensure-agent-uuid", ("x",), GuestTrap),
    "text beyond its memory": (
        "export-entries",
        ({"namespace": None, "session-id": None, "category": None, "since": None, "until": None},),
        GuestTrap,
    ),
    "text longer than the host takes": ("recall", ("x", 1, None, None, None), MemoryLimit),
    "failed import": ("reindex", (), HostFunctionFailed),
    "fuel": ("health-check", (), OutOfFuel),
    "deadline": ("health-check", (), DeadlineExceeded),
}


def broken(sink: Sink) -> None:
    def fail() -> None:
        raise RuntimeError("the log is gone")

    sink.hook = fail


def fail(new_store, sink, clock, failure: str, *, healing: bool) -> WarmStore:
    """A store whose instance has served one call and then failed in this way."""
    function, arguments, error = FAILURES[failure]
    fuel = 100_000 if failure == "fuel" else 10**12
    store = new_store(limits=Limits(call_fuel=fuel), healing=healing)
    assert count(store) == 1
    if failure == "failed import":
        broken(sink)
    if failure == "deadline":
        sink.hook = lambda: setattr(clock, "seconds", clock.seconds + 31)
    with pytest.raises(error):
        call(store, function, *arguments)
    sink.hook = lambda: None
    return store


@pytest.mark.req("PLG-107", "PLG-108", "PLG-109")
@pytest.mark.parametrize("failure", FAILURES)
def test_after_a_call_that_failed_inside_the_next_one_has_a_new_instance(new_store, sink, clock, failure):
    store = fail(new_store, sink, clock, failure, healing=True)
    assert not store.alive
    assert count(store) == 1, "a new instance counts from the beginning"
    assert (store.alive, store.rebuilds) == (True, 1)


@pytest.mark.req("PLG-107", "PLG-111")
@pytest.mark.parametrize("failure", FAILURES)
def test_without_healing_every_later_call_fails_at_once_until_the_owner_starts_it_again(
    new_store, sink, clock, failure
):
    store = fail(new_store, sink, clock, failure, healing=False)
    for _ in range(3):
        with pytest.raises(PluginUnavailable) as caught:
            call(store)
        assert caught.value.message == "plugin instance is unavailable"
    assert store.rebuilds == 0
    store.start_sync()
    assert (count(store), store.rebuilds) == (1, 1)


@pytest.mark.req("PLG-107", "PLG-111")
def test_a_call_behind_one_that_fails_does_not_bring_the_instance_back(new_store, sink, queued):
    store = new_store(healing=False)
    forget(queued)
    held = Held(sink)
    first = Waiting(lambda: call(store, "forget", "x"))
    waits(held.inside)
    second = Waiting(lambda: call(store))
    waits(queued)
    waits(queued)
    held.release.set()
    with pytest.raises(GuestTrap):
        first.join()
    with pytest.raises(PluginUnavailable):
        second.join()
    assert store.rebuilds == 0


@pytest.mark.req("PLG-111")
def test_while_the_owner_still_rebuilds_a_call_does_not_wait_for_that(new_store, sink):
    store = new_store(healing=False, start=lambda ask: ask("reindex"))
    with pytest.raises(GuestTrap):
        call(store, "get", "x")
    held = Held(sink)
    owner = Waiting(store.start_sync)
    waits(held.inside)
    with pytest.raises(PluginUnavailable):
        Waiting(lambda: call(store)).join()
    held.release.set()
    owner.join()
    assert (count(store), store.rebuilds) == (2, 1)


@pytest.mark.req("PLG-111")
def test_whoever_gets_past_the_line_does_not_bring_the_instance_back_either(new_store):
    store = new_store(healing=False)
    frame = store._frame(Phase.STANDARD, None)
    with pytest.raises(GuestTrap):
        call(store, "get", "x")
    with pytest.raises(PluginUnavailable):
        Waiting(lambda: store._serve(frame, "count", ())).join()
    assert store.rebuilds == 0


@pytest.mark.req("PLG-108")
def test_an_error_the_guest_answers_with_is_an_answer_and_the_store_is_kept(store):
    count(store)
    assert call(store, "purge-agent", "x") == Err("said")
    assert (count(store), store.rebuilds) == (2, 0)


@pytest.mark.req("PLG-108")
def test_a_result_of_another_type_than_the_contracts_is_the_guests_fault_and_ends_it(store, monkeypatch):
    codec = store._instance._guest._form.exports["zeroclaw:plugin/memory", "count"].call.__self__

    def misread(*value: object) -> object:
        raise ValueMismatch("a value of kind 3 came where kind 4 belongs")

    monkeypatch.setattr(codec, "_lift", misread)
    with pytest.raises(GuestFailure, match="kind 3"):
        count(store)
    assert not store.alive


def test_a_dropped_instance_is_told_to_the_log_with_the_number_of_rebuilds(store, sink):
    for _ in range(2):
        with pytest.raises(GuestTrap):
            call(store, "get", "x")
    assert [(record.source, record.level) for record in sink.records] == [("host", "warn")] * 2
    assert "guest_trap" in sink.records[0].message
    assert "rebuilds so far: 1" in sink.records[1].message


def test_an_instance_that_its_world_refuses_is_dropped_and_the_next_call_tries_again(new_store):
    asked = list[object]()
    refuse = False

    def start(ask) -> None:
        asked.append(ask("count"))
        if refuse:
            raise GuestFailure("not today")

    store = new_store(start=start)
    with pytest.raises(GuestTrap):
        call(store, "get", "x")
    refuse = True
    with pytest.raises(GuestFailure, match="not today"):
        count(store)
    assert not store.alive
    refuse = False
    assert count(store) == 2, "the first call was the start's own"
    assert (asked, store.rebuilds) == ([Ok(1)] * 3, 2)


@pytest.mark.req("PLG-018")
def test_the_start_of_an_instance_has_the_callers_deadline_as_a_whole(new_store, sink, clock):
    def start(ask) -> None:
        ask("reindex")
        ask("health-check")

    sink.hook = lambda: setattr(clock, "seconds", clock.seconds + 20)
    store = new_store(start=start, started=False, limits=Limits(call_timeout_ms=30_000))
    with pytest.raises(DeadlineExceeded):
        store.start_sync()
    assert not store.alive


def test_cancelling_a_task_stops_the_start_of_an_instance(new_store, sink):
    long = Limits(call_fuel=10**15, call_timeout_ms=24 * 3600 * 1000)
    store = new_store(start=lambda ask: ask("health-check"), started=False, limits=long, clock=time.monotonic)
    entered = threading.Semaphore(0)
    sink.hook = entered.release

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.start)
            await anyio.to_thread.run_sync(waits, entered)
            tasks.cancel_scope.cancel()

    anyio.run(main)
    assert not store.alive
