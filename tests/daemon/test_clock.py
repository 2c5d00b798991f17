"""The clock that tests hold in their hands behaves like the one on the wall."""

from __future__ import annotations

import anyio
import pytest

from zeroclaw_daemon.clock import ManualClock, SystemClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_scope_is_left_when_its_time_is_up_and_not_before() -> None:
    clock = ManualClock()
    ended: list[float] = []

    async def wait(seconds: float) -> None:
        with clock.move_on_after(seconds) as scope:
            await anyio.sleep_forever()
        assert scope.cancelled_caught
        ended.append(seconds)

    async with anyio.create_task_group() as tasks:
        for seconds in (3, 1, 2):
            tasks.start_soon(wait, seconds)
        while clock.waits < 3:
            await anyio.lowlevel.checkpoint()
        clock.advance(0.9)
        await anyio.wait_all_tasks_blocked()
        assert ended == []
        clock.advance(1.2)
        await anyio.wait_all_tasks_blocked()
        assert sorted(ended) == [1, 2]
        clock.advance(1)
    assert clock.now() == pytest.approx(3.1)
    assert clock.waits == 0


async def test_a_scope_that_is_left_in_time_is_not_cancelled_later() -> None:
    clock = ManualClock()
    with clock.move_on_after(1) as scope:
        pass
    clock.advance(2)
    assert not scope.cancel_called


async def test_sleeping_ends_when_the_time_has_come() -> None:
    clock = ManualClock()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clock.sleep, 5)
        while not clock.waits:
            await anyio.lowlevel.checkpoint()
        clock.advance(5)


async def test_the_system_clock_is_the_event_loops() -> None:
    clock = SystemClock()
    began = clock.now()
    await clock.sleep(0)
    with clock.move_on_after(0) as scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert clock.now() >= began
