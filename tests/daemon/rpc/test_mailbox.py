"""A bounded queue between tasks."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.rpc.mailbox import Mailbox, MailboxClosed

pytestmark = pytest.mark.anyio


async def test_items_come_out_in_order_and_then_it_ends() -> None:
    box = Mailbox[int](3)
    for number in range(3):
        await box.put(number)
    box.close()
    assert [number async for number in box] == [0, 1, 2]
    with pytest.raises(MailboxClosed):
        await box.put(4)
    assert box.get_nowait() is None


async def test_whoever_puts_into_a_full_one_waits_and_a_close_ends_the_wait() -> None:
    box = Mailbox[int](1)
    outcome: list[str] = []

    async def put(number: int) -> None:
        try:
            await box.put(number)
            outcome.append(f"put {number}")
        except MailboxClosed:
            outcome.append(f"closed {number}")

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(put, number)
            await anyio.wait_all_tasks_blocked()
        assert outcome == ["put 0"]
        assert box.get_nowait() == 0
        await anyio.wait_all_tasks_blocked()
        assert outcome == ["put 0", "put 1"]
        box.close()
    assert outcome == ["put 0", "put 1", "closed 2"]


async def test_a_closed_one_takes_nothing_even_while_it_is_full_and_nobody_takes_anything_out() -> None:
    box = Mailbox[int](1)
    await box.put(0)
    box.close()
    with anyio.fail_after(60), pytest.raises(MailboxClosed):
        await box.put(1)
    assert [number async for number in box] == [0]


async def test_what_lies_in_it_has_a_bound_of_its_own_and_one_item_may_go_beyond() -> None:
    box = Mailbox[str](10, max_size=5)
    assert box.put_nowait("large", 100)
    assert not box.put_nowait("small", 1)
    assert box.get_nowait() == "large"
    assert all(box.put_nowait("small", 1) for _ in range(4))
    assert box.put_nowait("large", 100)
    assert not box.put_nowait("none", 0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(box.put, "last", 1)
        await anyio.wait_all_tasks_blocked()
        # What goes does not make room as long as the rest has too much.
        assert [box.get_nowait() for _ in range(4)] == ["small"] * 4
        await anyio.wait_all_tasks_blocked()
        assert box.get_nowait() == "large"
        assert box.get_nowait() is None
        await anyio.wait_all_tasks_blocked()
        assert box.get_nowait() == "last"


STEPS = st.lists(st.sampled_from(["put", "take", "cancel"]), max_size=40)


@given(capacity=st.integers(1, 3), steps=STEPS)
async def test_nothing_is_lost_overtaken_or_stuck(capacity: int, steps: list[str]) -> None:
    box = Mailbox[int](capacity)
    waiting: dict[int, anyio.CancelScope] = {}
    expected: list[int] = []
    taken: list[int] = []

    async def put(number: int) -> None:
        with anyio.CancelScope() as waiting[number]:
            await box.put(number)
        if waiting.pop(number).cancelled_caught:
            expected.remove(number)

    async with anyio.create_task_group() as tasks:
        for number, step in enumerate(steps):
            if step == "put":
                expected.append(number)
                tasks.start_soon(put, number)
            elif step == "cancel" and waiting:
                next(iter(waiting.values())).cancel()
            elif (item := box.get_nowait()) is not None:
                taken.append(item)
            await anyio.wait_all_tasks_blocked()
            assert len(waiting) == max(0, len(expected) - len(taken) - capacity)
        while len(taken) < len(expected):
            item = box.get_nowait()
            assert item is not None
            taken.append(item)
            await anyio.wait_all_tasks_blocked()
    assert taken == expected


async def test_it_is_awaited_only_while_somebody_waits_for_more() -> None:
    box = Mailbox[int](3)
    assert not box.awaited
    taken: list[int] = []

    async def take() -> None:
        async for number in box:
            taken.append(number)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        assert box.awaited
        assert not box.waiting
        await box.put(1)
        assert not box.awaited  # although it has not been taken yet
        assert box.waiting
        await anyio.wait_all_tasks_blocked()
        assert box.awaited
        tasks.cancel_scope.cancel()
    assert taken == [1]
    assert not box.awaited
