"""Whose turn it is."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.rpc.framing import MAX_FRAME_BYTES
from zeroclaw_daemon.sessions.errors import SessionBusy
from zeroclaw_daemon.sessions.permit import MAX_PENDING, MAX_WAITING_CHARACTERS, WAIT_SECONDS, TurnPermit

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Holder:
    """Somebody who wants the permit."""

    def __init__(
        self, permit: TurnPermit, log: list[str], name: str, *, ending: bool = False, size: int = 0
    ) -> None:
        self.permit, self.log, self.name, self.ending, self.size = permit, log, name, ending, size
        self.done = anyio.Event()
        self.scope = anyio.CancelScope()

    async def run(self) -> None:
        with self.scope:
            try:
                async with self.permit.held(self.size, ending=self.ending):
                    self.log.append(self.name)
                    await self.done.wait()
            except SessionBusy:
                self.log.append(f"{self.name} refused")


@pytest.mark.req("RPC-241")
async def test_the_permit_goes_round_in_the_order_of_arrival() -> None:
    permit, log = TurnPermit(ManualClock()), list[str]()
    async with anyio.create_task_group() as tasks:
        holders = [Holder(permit, log, name) for name in "abc"]
        for holder in holders:
            tasks.start_soon(holder.run)
            await anyio.wait_all_tasks_blocked()
        assert (log, permit.pending) == (["a"], 3)
        for expected, holder in zip((["a", "b"], ["a", "b", "c"], ["a", "b", "c"]), holders, strict=True):
            holder.done.set()
            await anyio.wait_all_tasks_blocked()
            assert log == expected
    assert permit.pending == 0


@pytest.mark.req("RPC-241")
async def test_whoever_waits_too_long_is_refused_and_the_others_keep_their_places() -> None:
    clock = ManualClock()
    permit, log = TurnPermit(clock), list[str]()
    async with anyio.create_task_group() as tasks:
        a, b, c = (Holder(permit, log, name) for name in "abc")
        tasks.start_soon(a.run)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(b.run)
        await anyio.wait_all_tasks_blocked()
        clock.advance(15)
        tasks.start_soon(c.run)
        await anyio.wait_all_tasks_blocked()
        clock.advance(WAIT_SECONDS - 15)
        await anyio.wait_all_tasks_blocked()
        assert log == ["a", "b refused"]
        a.done.set()
        await anyio.wait_all_tasks_blocked()
        assert log == ["a", "b refused", "c"]
        c.done.set()


async def test_at_most_so_many_hold_or_wait() -> None:
    permit, log = TurnPermit(ManualClock(), max_pending=2), list[str]()
    async with anyio.create_task_group() as tasks:
        holders = [Holder(permit, log, name) for name in "abc"]
        for holder in holders:
            tasks.start_soon(holder.run)
            await anyio.wait_all_tasks_blocked()
        assert log == ["a", "c refused"]
        for holder in holders:
            holder.done.set()


async def test_what_waits_is_bounded_by_its_size_as_well_and_what_runs_is_not() -> None:
    permit, log = TurnPermit(ManualClock(), max_waiting=10), list[str]()
    async with anyio.create_task_group() as tasks:
        sizes = {"a": 99, "b": 9, "c": 2, "d": 1, "end": 0, "e": 1}
        holders = {
            name: Holder(permit, log, name, size=size, ending=name == "end") for name, size in sizes.items()
        }
        for holder in holders.values():
            tasks.start_soon(holder.run)
            await anyio.wait_all_tasks_blocked()
        assert log == ["a", "c refused", "e refused"]
        holders["a"].done.set()
        await anyio.wait_all_tasks_blocked()
        assert log[3:] == ["b"]
        tasks.start_soon(holders["c"].run)  # b waits no more
        await anyio.wait_all_tasks_blocked()
        assert permit.pending == 4
        for holder in holders.values():
            holder.done.set()


@pytest.mark.req("RPC-241", "RPC-152")
async def test_whoever_ends_the_session_finds_a_place_where_a_turn_does_not() -> None:
    permit, log = TurnPermit(ManualClock()), list[str]()
    async with anyio.create_task_group() as tasks:
        turns = [Holder(permit, log, str(number)) for number in range(MAX_PENDING + 1)]
        endings = [Holder(permit, log, f"end {number}", ending=True) for number in range(2)]
        for holder in (*turns[:MAX_PENDING], *endings, turns[-1]):
            tasks.start_soon(holder.run)
            await anyio.wait_all_tasks_blocked()
        assert log == ["0", f"{MAX_PENDING} refused"]
        assert permit.pending == MAX_PENDING + 2
        for holder in (*turns, *endings):
            holder.done.set()
    assert log[-2:] == ["end 0", "end 1"]


def test_the_shipped_bounds() -> None:
    assert (MAX_PENDING, WAIT_SECONDS) == (32, 30)
    assert MAX_WAITING_CHARACTERS >= MAX_FRAME_BYTES  # the longest prompt can wait


@given(st.lists(st.tuples(st.sampled_from(["arrive", "finish", "cancel"]), st.integers(0, 9)), max_size=30))
async def test_there_is_one_holder_and_no_place_is_lost(steps: list[tuple[str, int]]) -> None:
    permit, log = TurnPermit(ManualClock()), list[str]()
    holders: list[Holder] = []
    waiting: list[Holder] = []
    async with anyio.create_task_group() as tasks:
        for step, which in steps:
            if step == "arrive":
                holder = Holder(permit, log, str(len(holders)))
                holders.append(holder)
                waiting.append(holder)
                tasks.start_soon(holder.run)
            elif waiting:
                leaving = waiting.pop(which % len(waiting)) if step == "cancel" else waiting.pop(0)
                (leaving.scope.cancel if step == "cancel" else leaving.done.set)()
            await anyio.wait_all_tasks_blocked()
            assert permit.pending == len(waiting)
            assert not waiting or waiting[0].name in log
            assert not any(other.name in log for other in waiting[1:])
        for holder in holders:
            holder.done.set()
    assert permit.pending == 0
