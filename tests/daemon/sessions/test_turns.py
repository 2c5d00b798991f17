"""Turns of sessions, written down before they are announced."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import anyio
import anyio.lowlevel
import pytest

from zeroclaw_daemon.agent.directory import Agent, FixedAgents
from zeroclaw_daemon.agent.events import MessageChunk, TurnEvent
from zeroclaw_daemon.agent.messages import AssistantMessage, Message, UserMessage
from zeroclaw_daemon.agent.providers.base import NO_CHOICE, ModelChoice, ModelRequest, TextDelta
from zeroclaw_daemon.agent.providers.scripted import Line, Pause, ScriptedProvider
from zeroclaw_daemon.agent.turn import INTERRUPTED
from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.sessions.errors import NoActiveTurn, SessionBusy, SessionNotFound, TurnFailed
from zeroclaw_daemon.sessions.lifecycle import SessionLifecycle
from zeroclaw_daemon.sessions.live import ChatMode, LiveSession, LiveSessions
from zeroclaw_daemon.sessions.opening import Claim, Opening, SessionOpener
from zeroclaw_daemon.sessions.permit import MAX_WAITING_CHARACTERS
from zeroclaw_daemon.sessions.store.records import Verdict
from zeroclaw_daemon.sessions.ticket import Cause, Outcome, SessionEvent, Ticket, TurnEnded
from zeroclaw_daemon.sessions.turns import CANCEL_GRACE_SECONDS, TurnRunner
from zeroclaw_host.errors import StorageError

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Journal:
    """A journal that keeps a log, and fails where it is told to."""

    recovers = True

    def __init__(self, log: list[object], fails_at: str = "", failure: Exception | None = None) -> None:
        self.began: list[datetime] = []
        self.log, self.fails_at, self.failure = log, fails_at, failure or StorageError("the disk is full")

    async def begin(self, session: LiveSession, ticket: Ticket, prompt: str, at: datetime) -> None:
        self.began.append(at)
        self._write("begin", prompt)

    async def record(self, session: LiveSession, ticket: Ticket, event: TurnEvent) -> None:
        self._write("record", event)

    async def finish(
        self, session: LiveSession, ticket: Ticket, context: Sequence[Message], *, cancelled: bool
    ) -> None:
        self._write("cancelled" if cancelled else "finish", tuple(context))

    async def fail(self, session: LiveSession, ticket: Ticket, verdict: Verdict) -> None:
        self._write("fail", verdict)

    def _write(self, what: str, content: object) -> None:
        if what == self.fails_at:
            raise self.failure
        self.log.append((what, content))


class House:
    """A runner, one session, and what happened in order."""

    def __init__(self, *scripts: list[Line], fails_at: str = "", failure: Exception | None = None) -> None:
        self.log: list[object] = []
        self.clock = ManualClock()
        self.provider = ScriptedProvider(*scripts)
        self.agents = FixedAgents(Agent("a", self.provider, "m"), Agent("b", self.provider, "m"))
        self.sessions = LiveSessions()
        self.opener = SessionOpener(self.sessions, self.agents, clock=self.clock)
        journal = Journal(self.log, fails_at, failure)
        journals = dict.fromkeys(ChatMode, journal)
        self.runner = TurnRunner(self.sessions, self.agents, journals=journals, clock=self.clock)
        self.lifecycle = SessionLifecycle(self.sessions)

    async def sink(self, event: SessionEvent) -> None:
        self.log.append(("told", event))

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[LiveSession]:
        async with self.runner.running():
            yield (await self.opener.open(Opening("a", "me", session_id="s"))).session


async def test_everything_is_written_before_it_is_told() -> None:
    house = House([TextDelta("x"), TextDelta("y")])
    async with house.open() as session:
        ended = await house.runner.start("s", "hi", house.sink).ended()
        assert ended == TurnEnded(Outcome.COMPLETED, "xy")
        messages = (UserMessage("hi"), AssistantMessage("xy"))
        assert house.log == [
            ("begin", "hi"),
            ("record", MessageChunk("x")),
            ("told", MessageChunk("x")),
            ("record", MessageChunk("y")),
            ("told", MessageChunk("y")),
            ("finish", messages),
            ("told", ended),
        ]
        assert tuple(session.history) == messages


@pytest.mark.parametrize("fails_at", ["begin", "record", "finish"])
async def test_what_cannot_be_written_is_not_told_and_fails_the_turn(fails_at: str) -> None:
    house = House([TextDelta("x")], fails_at=fails_at)
    async with house.open() as session:
        with pytest.raises(TurnFailed, match="disk is full") as caught:
            await house.runner.start("s", "hi", house.sink).ended()
        assert caught.value.details == {"cause": "storage_failed"}
        told = [entry[1] for entry in house.log if isinstance(entry, tuple) and entry[0] == "told"]
        assert told[-1] == TurnEnded(Outcome.FAILED, "the disk is full", "storage_failed")
        assert (MessageChunk("x") in told) is (fails_at == "finish")
        assert bool(house.provider.requests) is (fails_at != "begin")
        assert session.running is None
        assert not session.busy


@pytest.mark.req("RPC-254")
async def test_nothing_follows_the_end_of_a_turn_that_was_given_up_while_a_disk_held_it_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written, lets_go = anyio.Event(), anyio.Event()
    write = Journal.record

    async def record(self: Journal, session: LiveSession, ticket: Ticket, event: TurnEvent) -> None:
        written.set()
        await lets_go.wait()
        await write(self, session, ticket, event)

    monkeypatch.setattr(Journal, "record", record)
    house = House([TextDelta("late")])
    async with house.open():
        ticket = house.runner.start("s", "hi", house.sink)
        await written.wait()
        ticket.cancel(Cause.CLIENT)
        while not house.clock.waits:
            await anyio.lowlevel.checkpoint()
        house.clock.advance(CANCEL_GRACE_SECONDS)
        ended = await ticket.ended()
        assert ended.outcome is Outcome.CANCELLED
        lets_go.set()
        await ticket.idle.wait()
    assert [entry for entry in house.log if isinstance(entry, tuple) and entry[0] == "told"] == [
        ("told", ended)
    ]


async def test_a_cancelled_turn_stays_in_the_conversation_with_a_note() -> None:
    pause = Pause()
    house = House([TextDelta("half"), pause])
    async with house.open() as session:
        ticket = house.runner.start("s", "hi", house.sink)
        await pause.reached.wait()
        ticket.cancel(Cause.CLIENT)
        ticket.cancel(Cause.SESSION_CLOSED)
        assert await ticket.ended() == TurnEnded(Outcome.CANCELLED, "half", "client_rpc")
        assert session.history == [UserMessage("hi"), AssistantMessage(f"half\n{INTERRUPTED}")]


async def test_cancelling_what_is_over_changes_nothing() -> None:
    house = House([TextDelta("x")])
    async with house.open():
        ticket = house.runner.start("s", "hi", house.sink)
        ended = await ticket.ended()
        ticket.cancel(Cause.CLIENT)
        assert ticket.cause is None
        assert await ticket.ended() is ended


async def test_a_prompt_cancelled_while_it_waits_is_never_begun() -> None:
    pause = Pause()
    house = House([pause, TextDelta("one")])
    async with house.open():
        first = house.runner.start("s", "one", house.sink)
        await pause.reached.wait()
        second = house.runner.start("s", "two", house.sink)
        await anyio.wait_all_tasks_blocked()
        second.cancel(Cause.CONNECTION_CLOSED)
        with pytest.raises(SessionBusy):
            await second.ended()
        third = house.runner.start("s", "three", house.sink)
        third.cancel(Cause.CONNECTION_CLOSED)  # before its task has run at all
        with pytest.raises(SessionBusy):
            await third.ended()
        pause.go.set()
        assert (await first.ended()).content == "one"
        assert len(house.provider.requests) == 1


async def test_prompts_that_wait_take_so_much_memory_and_no_more() -> None:
    pause = Pause()
    house = House([pause, TextDelta("one")], [TextDelta("two")])
    async with house.open():
        first = house.runner.start("s", "x" * MAX_WAITING_CHARACTERS, house.sink)
        await pause.reached.wait()
        second = house.runner.start("s", "x" * MAX_WAITING_CHARACTERS, house.sink)
        third = house.runner.start("s", "y", house.sink)
        with pytest.raises(SessionBusy):
            await third.ended()
        pause.go.set()
        assert (await first.ended()).content == "one"
        assert (await second.ended()).content == "two"


async def test_a_waiting_prompt_finds_a_session_that_was_replaced_gone() -> None:
    pause = Pause()
    house = House([pause])
    async with house.open() as session:
        first = house.runner.start("s", "one", house.sink)
        await pause.reached.wait()
        second = house.runner.start("s", "two", house.sink)
        await anyio.wait_all_tasks_blocked()
        house.sessions.remove(session)
        house.sessions.add(
            LiveSession("s", "a", ChatMode.CHAT, "/", session.permit)
        )  # another of the same id
        pause.go.set()
        await first.ended()
        with pytest.raises(SessionNotFound):
            await second.ended()


class Broken:
    """A provider that breaks its promise."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta, None]:
        yield TextDelta("x")
        raise KeyError("secret")


async def test_a_provider_that_breaks_its_promise_fails_its_turn_alone() -> None:
    house = House()
    house.runner = TurnRunner(house.sessions, FixedAgents(Agent("a", Broken(), "m")), clock=house.clock)
    async with house.open():
        for _ in range(2):
            with pytest.raises(TurnFailed, match="KeyError") as caught:
                await house.runner.start("s", "hi", house.sink).ended()
            assert "secret" not in caught.value.message


async def test_a_store_that_breaks_its_promise_when_a_session_is_taken_up_fails_that_prompt_alone() -> None:
    house = House([TextDelta("fine")])

    class Breaking(SessionOpener):
        async def revive(self, session_id: str, claim: Claim) -> LiveSession:
            raise KeyError("secret")

    opener = Breaking(house.sessions, house.agents)
    house.runner = TurnRunner(house.sessions, house.agents, opener=opener, clock=house.clock)
    async with house.open():
        with pytest.raises(TurnFailed, match="KeyError") as caught:
            await house.runner.start("gone", "hi", house.sink, claim=Claim(lambda *_: None)).ended()
        assert "secret" not in caught.value.message
        assert caught.value.__cause__ is None
        assert (await house.runner.start("s", "hi", house.sink).ended()).content == "fine"


async def test_an_agent_that_went_away_fails_the_turn() -> None:
    house = House()
    async with house.open():
        house.agents._agents = {}
        with pytest.raises(TurnFailed, match="no such agent"):
            await house.runner.start("s", "hi", house.sink).ended()


@pytest.mark.req("RPC-240", "RPC-061")
async def test_a_session_of_the_other_mode_is_replaced_once_its_turns_are_over() -> None:
    pause = Pause()
    house = House([pause])
    async with house.open() as old, anyio.create_task_group() as tasks:
        ticket = house.runner.start("s", "one", house.sink)
        await pause.reached.wait()
        opened: list[LiveSession] = []

        async def reopen() -> None:
            opening = Opening("a", "me", mode=ChatMode.ACP, session_id="s")
            opened.append((await house.opener.open(opening)).session)

        tasks.start_soon(reopen)
        await anyio.wait_all_tasks_blocked()
        assert house.sessions.is_live(old)
        pause.go.set()
        await ticket.ended()
        await anyio.wait_all_tasks_blocked()
        assert opened[0].mode is ChatMode.ACP
        assert house.sessions.is_live(opened[0])
        assert not house.sessions.is_live(old)
        house.sessions.remove(old)
        assert house.sessions.is_live(opened[0])


async def test_a_session_that_cannot_be_closed_in_time_stays_and_takes_turns_again() -> None:
    house = House([TextDelta("fine")])
    async with house.open() as session, session.permit.held(), anyio.create_task_group() as tasks:
        refused = anyio.Event()

        async def close() -> None:
            with pytest.raises(SessionBusy):
                await house.lifecycle.close("s")
            refused.set()

        tasks.start_soon(close)
        await anyio.wait_all_tasks_blocked()
        assert session.closing
        house.clock.advance(30.1)
        await refused.wait()
        assert house.sessions.is_live(session)
        assert not session.closing


async def test_a_turn_began_when_it_was_its_turn() -> None:
    first, second = Pause(), Pause()
    house, journal = House([first], [second]), Journal([])
    times = [datetime(2026, 1, 1, 12, minute, tzinfo=UTC) for minute in range(2)]
    house.runner = TurnRunner(
        house.sessions,
        house.agents,
        journals={ChatMode.CHAT: journal},
        clock=house.clock,
        now=iter(times).__next__,
    )
    async with house.open():
        one = house.runner.start("s", "one", house.sink)
        await first.reached.wait()
        two = house.runner.start("s", "two", house.sink)
        await anyio.wait_all_tasks_blocked()
        assert (one.began, two.began) == (times[0], None)
        first.go.set()
        await second.reached.wait()
        assert (one.began, two.began) == (times[0], times[1])
        assert journal.began == times
        second.go.set()
        await two.ended()


async def test_a_turn_can_be_cancelled_while_its_agent_is_still_being_made() -> None:
    house = House()
    looking = anyio.Event()

    class Slow:
        async def agent(self, alias: str, choice: ModelChoice = NO_CHOICE) -> Agent:
            looking.set()
            await anyio.sleep_forever()
            raise AssertionError

    house.runner = TurnRunner(house.sessions, Slow(), clock=house.clock)
    async with house.open() as session:
        ticket = house.runner.start("s", "hi", house.sink)
        await looking.wait()
        house.runner.cancel("s")
        assert await ticket.ended() == TurnEnded(Outcome.CANCELLED, "", "client_rpc")
        assert session.history == [UserMessage("hi"), AssistantMessage(INTERRUPTED)]


@pytest.mark.req("RPC-242", "PAINS-22")
@pytest.mark.parametrize("way", ["cancel", "close"])
async def test_a_prompt_that_has_not_begun_yet_can_be_cancelled(way: str) -> None:
    house = House([TextDelta("never")])
    async with house.open() as session:
        ticket = house.runner.start("s", "hi", house.sink)
        assert session.busy
        if way == "cancel":
            house.runner.cancel("s")
            reason = "client_rpc"
        else:
            await house.lifecycle.close("s")
            reason = "session_removed"
        ended = await ticket.ended()
        assert ended == TurnEnded(Outcome.CANCELLED, "", reason)
        assert house.log == [("told", ended)]
        assert not house.provider.requests
        assert not session.busy


async def test_a_cancel_between_two_prompts_never_hits_the_second() -> None:
    house = House([TextDelta("one")], [TextDelta("two")])
    telling, go_on = anyio.Event(), anyio.Event()

    async def slow_sink(event: SessionEvent) -> None:
        if isinstance(event, TurnEnded):
            telling.set()
            await go_on.wait()

    async with house.open():
        first = house.runner.start("s", "1", slow_sink)
        second = house.runner.start("s", "2", house.sink)
        await telling.wait()
        with pytest.raises(NoActiveTurn):
            house.runner.cancel("s")
        go_on.set()
        assert (await first.ended()).content == "one"
        assert (await second.ended()).content == "two"


@pytest.mark.parametrize("fails_at", ["begin", "record", "finish"])
async def test_a_store_that_breaks_its_promise_fails_its_turn_alone(fails_at: str) -> None:
    house = House([TextDelta("x")], fails_at=fails_at, failure=KeyError("secret"))
    async with house.open() as session:
        with pytest.raises(TurnFailed, match="KeyError") as caught:
            await house.runner.start("s", "hi", house.sink).ended()
        assert "secret" not in caught.value.message
        assert not session.busy
