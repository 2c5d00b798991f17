"""Somebody reads a session while somebody else takes it up: the turn that begins is not taken for one that was broken off."""

from __future__ import annotations

import sqlite3
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
PATIENCE = 60
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


async def recovered(durable: DurableSessions, mode: ChatMode) -> None:
    """Bring the turn that was begun to its end."""
    if mode is ChatMode.ACP:
        assert await durable.acp.write(lambda store: store.recover("s"))
    else:
        assert await durable.chats.write(lambda store: store.recover("s"))


async def turn_of(durable: DurableSessions, mode: ChatMode) -> str | None:
    if mode is ChatMode.ACP:
        found = await durable.acp.read(lambda store: store.find("s"))
    else:
        found = await durable.chats.read(lambda store: store.find("s"))
    assert found is not None
    return found.turn_id


@MODES
async def test_whoever_reads_what_was_finished_waits_for_nobody(
    durable: DurableSessions, mode: ChatMode
) -> None:
    live = LiveSessions()
    reader = SessionReader(live, durable)
    await kept(durable, mode, "made")
    live.add(LiveSession("s", "agent", mode, "/work", TurnPermit(ManualClock())))
    async with live.lock:
        with anyio.fail_after(PATIENCE):
            assert (await reader.window("s", None, mode=mode, limit=10, before=None)).total == 0
            await kept(durable, mode, "begun")  # of the live session, which goes on
            await reader.window("s", None, mode=mode, limit=10, before=None)
            assert await turn_of(durable, mode) == "t"
        live.remove(live.get("s"))
        await recovered(durable, mode)
        with anyio.fail_after(PATIENCE):
            assert (await reader.window("s", None, mode=mode, limit=10, before=None)).total == 2


@pytest.mark.parametrize("why", ["killed", "of a strange surface"])
async def test_whoever_reads_what_is_not_recovered_waits_for_nobody(
    durable: DurableSessions, tmp_path: Path, why: str
) -> None:
    live = LiveSessions()
    await kept(durable, ChatMode.ACP, "made")
    await kept(durable, ChatMode.ACP, "begun")
    if why == "killed":
        await durable.acp.write(lambda store: store.kill("s"))
    else:
        with closing(sqlite3.connect(tmp_path / "sessions" / "acp-sessions.db")) as raw, raw:
            raw.execute("UPDATE acp_sessions SET interaction_surface = 'strange'")
    async with live.lock:
        with anyio.fail_after(PATIENCE):
            page = await SessionReader(live, durable).page(
                "s", None, mode=ChatMode.ACP, limit=10, before=None
            )
    assert page.entries == ()
    assert await turn_of(durable, ChatMode.ACP) == "t"


@MODES
async def test_whoever_reads_what_was_broken_off_waits_for_whoever_takes_it_up(
    durable: DurableSessions, mode: ChatMode
) -> None:
    live = LiveSessions()
    reader = SessionReader(live, durable)
    await kept(durable, mode, "made")
    await kept(durable, mode, "begun")
    shown: list[int] = []

    async def read() -> None:
        window = await reader.window("s", None, mode=mode, limit=10, before=None)
        shown.append(window.total)

    async with anyio.create_task_group() as tasks, live.lock:
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        assert live.lock.statistics().tasks_waiting == 1
        await recovered(durable, mode)  # by the session that is about to be live, which begins a turn then
        await kept(durable, mode, "begun")
        live.add(LiveSession("s", "agent", mode, "/work", TurnPermit(ManualClock())))
    assert await turn_of(durable, mode) == "t"
    assert shown == [2 if mode is ChatMode.ACP else 3]


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
