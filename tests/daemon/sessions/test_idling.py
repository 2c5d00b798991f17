"""Sessions that nobody uses leave memory, and no other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.sessions.idling import IDLE_SECONDS, IdleSessions
from zeroclaw_daemon.sessions.live import ChatMode, LiveSession, LiveSessions
from zeroclaw_daemon.sessions.permit import TurnPermit

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Client:
    """Somebody a session is bound to."""

    gone: bool = False


class House:
    """Two sessions, of which one mode is kept."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.sessions = LiveSessions()
        self.idle = IdleSessions(self.sessions, {ChatMode.ACP}, self.clock)

    def add(self, name: str, mode: ChatMode = ChatMode.ACP, client: Any = None) -> LiveSession:
        session = LiveSession(name, "a", mode, "/", TurnPermit(self.clock))
        session.audience = client
        self.sessions.add(session)
        return session

    async def after(self, seconds: float) -> list[str]:
        """The sessions that are live once it was looked at them again."""
        self.clock.advance(seconds)
        await self.idle.look()
        return self.sessions.ids()


@pytest.mark.req("RPC-246")
async def test_a_session_leaves_once_it_has_been_idle_for_long_and_its_client_is_gone() -> None:
    house, client = House(), Client()
    house.add("s", client=client)
    assert await house.after(10 * IDLE_SECONDS) == ["s"]
    client.gone = True
    assert await house.after(1) == ["s"], "from now on it is idle"
    assert await house.after(IDLE_SECONDS - 1) == ["s"]
    assert await house.after(1) == []


async def test_a_session_that_is_not_kept_stays() -> None:
    house = House()
    house.add("s", ChatMode.CHAT)
    for _ in range(3):
        assert await house.after(IDLE_SECONDS) == ["s"]


async def test_whoever_comes_back_in_between_begins_anew() -> None:
    house = House()
    session = house.add("s")
    await house.after(0)
    session.audience = client = Client()  # pyright: ignore[reportAttributeAccessIssue]
    assert await house.after(IDLE_SECONDS) == ["s"]
    client.gone = True
    assert await house.after(IDLE_SECONDS) == ["s"]
    session.turns += 1
    assert await house.after(IDLE_SECONDS) == ["s"], "a turn came and went"
    async with session.permit.held():
        assert await house.after(IDLE_SECONDS) == ["s"], "a turn runs"
    assert await house.after(IDLE_SECONDS) == ["s"]
    assert await house.after(IDLE_SECONDS) == []
