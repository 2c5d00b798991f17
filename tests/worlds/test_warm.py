"""One guest kept from call to call: its queue, its deadline, its end and its return."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from forge import Forge
from plugin_parts import PATIENCE, Clock, Config, Waiting, scope_of

from zeroclaw_host.errors import (
    DeadlineExceeded,
    GuestFailure,
    GuestTrap,
    MemoryLimit,
    OutOfFuel,
    PluginError,
    PluginUnavailable,
    UsageError,
)
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.sandbox.frame import CallCancelled, Phase, current_frame
from zeroclaw_host.sandbox.gate import HostFunctionFailed
from zeroclaw_host.sandbox.limits import MAX_TEXT_BYTES, Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.sandbox.values import Err, Ok, ValueMismatch
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import CallSite, LogRecord, MemoryLogSink
from zeroclaw_host.worlds.rebuild import RebuildPace
from zeroclaw_host.worlds.surface import surface_of
from zeroclaw_host.worlds.warm import REBUILD, TURN, WarmStore

LOG = (
    "(call $logging.log-record (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 36) (i32.const 0) (i32.const 0)"
    " (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))"
)
"""Say nothing to the log, which a test's own sink turns into whatever the host is to do in the middle of a call."""

COUNTED = """
  (global.set $n (i64.add (global.get $n) (i64.const 1)))
  (i64.store (i32.const 24) (global.get $n))
  (i32.store8 (i32.const 16) (i32.const 0))
  (i32.const 16)"""
"""How many times it was called, as the ok of a result."""

SPIN = "(loop $again (br $again))"

TEXT_AT_16 = "(i32.store8 (i32.const 16) (i32.const 1)) (i32.store (i32.const 20) (i32.const {at})) (i32.store (i32.const 24) (i32.const {size})) (i32.const 16)"
"""An err with a text that lies somewhere, or nowhere."""


@pytest.fixture(scope="module")
def component() -> bytes:
    """A memory that does one thing in each of its functions; only the functions' names are a memory's."""
    half = "(local $i i32) (loop $again (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $again (i32.lt_u (local.get $i) (i32.const 1000))))"
    return Forge("memory-plugin").component(
        imports=(
            "logging.log-record",
            "wasi:cli/stdout.get-stdout",
            "wasi:io/streams.[method]output-stream.blocking-write-and-flush",
        ),
        extra='(global $n (mut i64) (i64.const 0)) (global $out (mut i32) (i32.const 0)) (data (i32.const 64) "said\\ff")',
        bodies={
            "memory.count": COUNTED,
            "memory.reindex": LOG + COUNTED,
            "memory.purge-session": half + COUNTED,
            "memory.purge-agent": "(i32.store8 (i32.const 16) (i32.const 1)) (i32.store (i32.const 24) (i32.const 64)) (i32.store (i32.const 28) (i32.const 4)) (i32.const 16)",
            "memory.forget": LOG + "unreachable",
            "memory.health-check": LOG + SPIN + "(i32.const 1)",
            "memory.ensure-agent-uuid": TEXT_AT_16.format(at=64, size=5),
            "memory.recall": TEXT_AT_16.format(at=4096, size=MAX_TEXT_BYTES + 1),
            "memory.export-entries": TEXT_AT_16.format(at=0x7FFFFFF0, size=100),
            "memory.purge-namespace": """
              (if (i32.eqz (global.get $out)) (then (global.set $out (call $wasi:cli/stdout.get-stdout))))
              (call $"wasi:io/streams.[method]output-stream.blocking-write-and-flush"
                (global.get $out) (local.get 0) (local.get 1) (i32.const 128))"""
            + COUNTED,
        },
        pages=300,
    )


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """Two guest threads: whoever holds one for nothing is found out."""
    cache = Path(__file__).parents[2] / ".cache" / "test-guests" / "compiled"
    with Sandbox(cache, threads=2) as found:
        yield found


class Sink(MemoryLogSink):
    """A log that does what a test wants when the guest speaks."""

    def __init__(self) -> None:
        super().__init__()
        self.hook: Callable[[], object] = lambda: None

    def emit(self, record: LogRecord) -> None:
        if record.source == "log":
            self.hook()
        else:
            super().emit(record)


class Held:
    """A guest that stays inside a host function until it is released."""

    def __init__(self, sink: Sink) -> None:
        self.inside = threading.Semaphore(0)
        self.release = threading.Event()
        sink.hook = self._hold

    def _hold(self) -> None:
        self.inside.release()
        assert self.release.wait(PATIENCE)


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def new_store(sandbox, component, sink, clock) -> Iterator[Callable[..., WarmStore]]:
    """Makes stores, started; closed when the test is over."""
    made: list[WarmStore] = []

    def make(
        *,
        limits: Limits | None = None,
        healing: bool = True,
        start=lambda ask: None,
        clock=clock,
        started: bool = True,
    ) -> WarmStore:
        scope = scope_of(Capability.MEMORY)
        store = WarmStore(
            sandbox,
            sandbox.load(component, surface_of(Capability.MEMORY, scope.grants)),
            scope,
            InstanceServices(config=Config(), log=sink),
            limits or Limits(),
            interface="zeroclaw:plugin/memory",
            start=start,
            self_healing=healing,
            clock=clock,
        )
        made.append(store)
        if started:
            store.start_sync()
        return store

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(new_store) -> WarmStore:
    return new_store()


def call(store: WarmStore, function: str = "count", *arguments: object) -> object:
    return store.call_sync(function, *arguments, phase=Phase.STANDARD)


def count(store: WarmStore) -> int:
    """How many calls the instance has served, this one included."""
    found = call(store)
    assert isinstance(found, Ok)
    return found.value


@pytest.fixture
def queued(monkeypatch) -> threading.Semaphore:
    """Released once for each caller that got a place in some queue; its frame exists by then."""
    from zeroclaw_host.worlds import warm

    found = threading.Semaphore(0)
    join = warm.Turns.queued

    def counted(self, wake):
        place = join(self, wake)
        enter = place.__enter__

        class Counted:
            def __enter__(self):
                turn = enter()
                found.release()
                return turn

            def __exit__(self, *why):
                return place.__exit__(*why)

        return Counted()

    monkeypatch.setattr(warm.Turns, "queued", counted)
    return found


def waits(signal: threading.Semaphore) -> None:
    assert signal.acquire(timeout=PATIENCE)


def forget(signal: threading.Semaphore) -> None:
    """Start counting anew."""
    while signal.acquire(blocking=False):
        """One less."""


# --- one store ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-031", "PLG-106")
def test_a_hundred_calls_at_half_their_fuel_are_served_by_one_instance(new_store):
    store = new_store(limits=Limits(call_fuel=12_000))
    counts = [call(store, "purge-session", "x") for _ in range(100)]
    assert counts == [Ok(number) for number in range(1, 101)]
    left = store._instance._guest.fuel_left()
    assert 12_000 * 0.3 < left < 12_000 * 0.6, "the test means half of the fuel"
    assert store.rebuilds == 0


@pytest.mark.req("PLG-106")
def test_every_call_has_the_whole_deadline(new_store, sink, clock):
    store = new_store(limits=Limits(call_timeout_ms=30_000))
    left = list[float]()
    sink.hook = lambda: left.append(current_frame().remaining())
    for _ in range(3):
        call(store, "reindex")
        clock.seconds += 29
    assert left == [30, 30, 30]


def test_handles_live_as_long_as_the_store_and_output_belongs_to_each_call(store, sink):
    for number in (1, 2):
        site = CallSite({"turn": str(number)})
        store.call_sync("purge-namespace", f"line {number}", phase=Phase.STANDARD, call_site=site)
    assert [(record.message, record.source, record.call_site.attributes) for record in sink.records] == [
        ("line 1", "stdout", {"turn": "1"}),
        ("line 2", "stdout", {"turn": "2"}),
    ]
    table = store._instance._table
    assert len(table) == 1, "the stream it took in the first call"
    with pytest.raises(GuestTrap):
        call(store, "get", "x")
    assert len(table) == 0


def test_an_argument_that_is_none_is_refused_and_the_instance_stays(store):
    count(store)
    with pytest.raises(UsageError, match="argument of purge-session"):
        call(store, "purge-session", "half a pair: \ud800")
    assert count(store) == 2


# --- what ends an instance ----------------------------------------------------------------------------------------------

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


# --- the pace of rebuilds -----------------------------------------------------------------------------------------------


def spend_free_rebuilds(store: WarmStore) -> None:
    for _ in range(4):
        with pytest.raises(GuestTrap):
            call(store, "get", "x")
    assert store.rebuilds == 3


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


# --- the queue ----------------------------------------------------------------------------------------------------------


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


# --- the end ------------------------------------------------------------------------------------------------------------


def test_closing_ends_the_running_call_and_turns_away_those_that_wait(new_store, sink, queued):
    store = new_store(limits=Limits(call_fuel=10**15, call_timeout_ms=24 * 3600 * 1000), clock=time.monotonic)
    entered = threading.Semaphore(0)
    sink.hook = entered.release
    running = Waiting(lambda: call(store, "health-check"))
    waits(entered)
    forget(queued)
    waiting = Waiting(lambda: call(store))
    waits(queued)
    store.close()
    for each in (running, waiting):
        with pytest.raises(PluginUnavailable):
            each.join()
    for begin in (lambda: call(store), store.start_sync):
        with pytest.raises(PluginUnavailable):
            begin()
    assert not store.alive
    store.close()


def test_closing_ends_the_wait_for_a_rebuild_at_once(new_store, clock, queued):
    store = new_store()
    spend_free_rebuilds(store)
    store._pace = RebuildPace((clock.seconds,), 60.0)
    waiting = Waiting(lambda: call(store))
    for _ in range(5):
        waits(queued)
    store.close()
    with pytest.raises(PluginUnavailable):
        waiting.join()


def test_closing_lets_go_of_what_the_guest_held(store):
    call(store, "purge-namespace", "x")
    table = store._instance._table
    anyio.run(store.aclose)
    assert len(table) == 0


def test_a_task_can_close_while_its_own_loop_has_a_call_running(new_store, sink):
    store = new_store(limits=Limits(call_fuel=10**15, call_timeout_ms=24 * 3600 * 1000), clock=time.monotonic)
    entered = threading.Semaphore(0)
    sink.hook = entered.release

    async def main() -> list[type[PluginError]]:
        ended = list[type[PluginError]]()

        async def run() -> None:
            try:
                await store.call("health-check", phase=Phase.STANDARD)
            except PluginError as error:
                ended.append(type(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await anyio.to_thread.run_sync(waits, entered)
            store.close()  # blocks the loop until the guest has left, and comes back
        return ended

    assert anyio.run(main) == [PluginUnavailable]


def test_a_store_of_a_sandbox_that_is_closed_says_so(component, sink):
    with Sandbox(Path(__file__).parents[2] / ".cache" / "test-guests" / "compiled", threads=1) as gone:
        scope = scope_of(Capability.MEMORY)
        store = WarmStore(
            gone,
            gone.load(component, surface_of(Capability.MEMORY, scope.grants)),
            scope,
            InstanceServices(config=Config(), log=sink),
            Limits(),
            interface="zeroclaw:plugin/memory",
            start=lambda ask: None,
            self_healing=True,
        )
        store.start_sync()
    with pytest.raises(PluginUnavailable, match="closed"):
        call(store)
    store.close()


def test_a_cancelled_call_is_told_as_such_where_nobody_closed_anything(store, sink):
    sink.hook = lambda: current_frame().cancel()
    with pytest.raises(CallCancelled):
        call(store, "health-check")
    assert not store.alive
