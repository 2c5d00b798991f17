"""The store from the event loop: in order, off the loop's thread, and never half done."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from session_model import BEGAN, store_at

from zeroclaw_daemon.agent.events import MessageChunk
from zeroclaw_daemon.sessions.store.acp import AcpStore
from zeroclaw_daemon.sessions.store.facade import AcpSessions
from zeroclaw_daemon.sessions.store.records import NewSession

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncGenerator[AcpSessions]:
    made = AcpSessions(store_at(tmp_path))
    await made.write(lambda store: store.create(NewSession("s", "agent", "/work")))
    await made.write(lambda store: store.begin("s", "t", "hi", BEGAN))
    yield made
    await made.write(lambda store: store.close())


class Gate:
    """Work that says when it runs and waits to be let go."""

    def __init__(self) -> None:
        self.running, self.go = threading.Event(), threading.Event()

    def __call__(self, store: AcpStore) -> int:
        self.running.set()
        assert self.go.wait(60)
        return store.append("s", "t", MessageChunk("gated"))

    async def reached(self) -> None:
        assert await anyio.to_thread.run_sync(self.running.wait, 60)


async def test_writes_are_done_in_their_order_and_reads_do_not_wait(sessions: AcpSessions) -> None:
    gate, order = Gate(), list[str]()

    async def write(text: str) -> None:
        await sessions.write(lambda store: store.append("s", "t", MessageChunk(text)))
        order.append(text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sessions.write, gate)
        await gate.reached()
        for text in "abc":
            tasks.start_soon(write, text)
            await anyio.wait_all_tasks_blocked()
        assert await sessions.read(lambda store: store.entries("s")) == []
        assert order == []
        gate.go.set()
    assert order == ["a", "b", "c"]
    await sessions.write(lambda store: store.recover("s"))
    shown = await sessions.read(lambda store: store.entries("s"))
    assert shown[1].content == "gatedabc"


async def test_what_is_cancelled_before_it_runs_is_not_done_and_what_runs_is(sessions: AcpSessions) -> None:
    gate = Gate()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sessions.write, gate)
        await gate.reached()
        tasks.start_soon(sessions.write, lambda store: store.append("s", "t", MessageChunk("never")))
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        gate.go.set()
    await sessions.write(lambda store: store.recover("s"))
    assert (await sessions.read(lambda store: store.entries("s")))[1].content == "gated"
