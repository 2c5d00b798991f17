"""Frames that are written by whoever sends them, ahead of the writer's next turn: whole, in order, and none after the end."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.rpc.connection import Connection
from zeroclaw_daemon.rpc.envelope import Request, notification_line
from zeroclaw_daemon.rpc.limits import ConnectionLimits
from zeroclaw_daemon.rpc.transport.memory import MemoryTransport, memory_pair

pytestmark = pytest.mark.anyio
OPEN_ENDED = ConnectionLimits(initialize_seconds=None)


class Echoing:
    """Answers with what it was given."""

    def observe(self, notification: Request) -> bool:
        return False

    def runs_beside(self, method: str) -> bool:
        return False

    async def handle(self, request: Request) -> Any:
        return request.params


def connection(capacity: int) -> tuple[MemoryTransport, MemoryTransport, Connection]:
    near, far = memory_pair(capacity=capacity)
    return near, far, Connection(far, Echoing(), limits=OPEN_ENDED, clock=ManualClock())


async def received(near: MemoryTransport, count: int, portion: int) -> bytes:
    data = b""
    with anyio.fail_after(60):
        while len(data) < count:
            data += await near.receive(portion)
    return data


@given(
    sizes=st.lists(st.integers(0, 200), min_size=1, max_size=12),
    pauses=st.lists(st.booleans(), min_size=12, max_size=12),
    capacity=st.integers(1, 120),
    portion=st.integers(1, 150),
)
def test_frames_arrive_whole_and_in_order_however_little_is_taken_at_once(
    sizes: list[int], pauses: list[bool], capacity: int, portion: int
) -> None:
    lines = [notification_line("x", {"n": number, "text": "y" * size}) for number, size in enumerate(sizes)]

    async def run() -> bytes:
        near, _, served = connection(capacity)

        async def tell() -> None:
            for number, (size, pause) in enumerate(zip(sizes, pauses, strict=False)):
                await served.notify("x", {"n": number, "text": "y" * size})
                if pause:  # The writer has its turn, and may have written what was left or not.
                    await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served.run)
            tasks.start_soon(tell)
            found = await received(near, sum(map(len, lines)), portion)
            served.abort()
        return found

    assert anyio.run(run) == b"".join(lines)


async def test_a_frame_is_written_by_whoever_sends_it_while_nothing_is_before_it() -> None:
    near, _, served = connection(4096)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(served.run)
        await anyio.wait_all_tasks_blocked()
        line = notification_line("x", {})
        await served.notify("x", {})
        assert near._incoming.bytes == line  # and no other task has run
        served.abort()


@pytest.mark.parametrize("end", ["abort", "the peer is closed"])
async def test_after_the_end_nothing_is_written_in_the_same_breath(end: str) -> None:
    near, _, served = connection(4096)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(served.run)
        await anyio.wait_all_tasks_blocked()
        served.abort() if end == "abort" else near.close()
        await served.notify("x", {})
        assert near._incoming.bytes == b""
    assert near._incoming.bytes == b""
    assert near._incoming.writer_ended


async def test_answers_to_calls_that_wait_together_are_written_together() -> None:
    """Each write wakes the reader: a pipelined burst is one write, not as many as there are calls."""
    near, far, served = connection(65536)
    writes: list[int] = []
    send, send_now = far.send, far.send_now

    async def counted(data: memoryview) -> int:
        writes.append(len(data))
        return await send(data)

    def counted_now(data: bytes) -> int:
        writes.append(len(data))
        return send_now(data)

    far.send, far.send_now = counted, counted_now  # type: ignore[method-assign]
    burst = b"".join(b'{"jsonrpc":"2.0","method":"x","params":{},"id":%d}\n' % number for number in range(50))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(served.run)
        await near.send(memoryview(burst))
        with anyio.fail_after(60):
            answers = b""
            while answers.count(b"\n") < 50:
                answers += await near.receive(65536)
        assert len(writes) == 1
        near.close()
