"""Somebody reads a session while somebody else takes it up: the turn that begins is not taken for one that was broken off."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.sessions.durable import DurableSessions
from zeroclaw_daemon.sessions.live import ChatMode, LiveSession, LiveSessions
from zeroclaw_daemon.sessions.permit import TurnPermit
from zeroclaw_daemon.sessions.reading import SessionReader
from zeroclaw_daemon.sessions.store.records import NewSession

pytestmark = pytest.mark.anyio

BEGAN = datetime(2026, 1, 2, tzinfo=UTC)
MODES = pytest.mark.parametrize("mode", list(ChatMode))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def durable(tmp_path: Path) -> Generator[DurableSessions]:
    with closing(DurableSessions.at(tmp_path / "sessions")) as made:
        yield made


async def kept(durable: DurableSessions, mode: ChatMode, work: str) -> None:
    """Make a session, or begin a turn of it."""
    new = NewSession("s", "agent", "/work")
    if mode is ChatMode.ACP:
        await durable.acp.write(lambda s: s.create(new) if work == "made" else s.begin("s", "t", "hi", BEGAN))
    else:
        await durable.chats.write(
            lambda s: s.create(new) if work == "made" else s.begin("s", "t", "hi", BEGAN)
        )


async def turn_of(durable: DurableSessions, mode: ChatMode) -> str | None:
    if mode is ChatMode.ACP:
        found = await durable.acp.read(lambda store: store.find("s"))
    else:
        found = await durable.chats.read(lambda store: store.find("s"))
    assert found is not None
    return found.turn_id


@MODES
async def test_whoever_reads_waits_for_whoever_takes_it_up(durable: DurableSessions, mode: ChatMode) -> None:
    live = LiveSessions()
    reader = SessionReader(live, durable)
    await kept(durable, mode, "made")
    shown: list[int] = []

    async def read() -> None:
        window = await reader.window("s", None, mode=mode, limit=10, before=None)
        shown.append(window.total)

    async with anyio.create_task_group() as tasks, live.lock:
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        assert live.lock.statistics().tasks_waiting == 1
        await kept(durable, mode, "begun")  # as if by the session that is about to be live
        live.add(LiveSession("s", "agent", mode, "/work", TurnPermit(ManualClock())))
    assert await turn_of(durable, mode) == "t"
    assert shown == [0 if mode is ChatMode.ACP else 1]


@MODES
async def test_whoever_takes_it_up_waits_for_whoever_reads(durable: DurableSessions, mode: ChatMode) -> None:
    live = LiveSessions()
    reader = SessionReader(live, durable)
    await kept(durable, mode, "made")
    await kept(durable, mode, "begun")
    taken: list[str | None] = []

    async def take_up() -> None:
        async with live.lock:
            taken.append(await turn_of(durable, mode))

    async with anyio.create_task_group() as tasks, live.lock:
        tasks.start_soon(lambda: reader.window("s", None, mode=mode, limit=10, before=None))
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(take_up)
        await anyio.wait_all_tasks_blocked()
    assert taken == [None]  # recovered by then
