"""The turns of sessions: in order, cancellable at every moment, and over exactly once.

A turn belongs to the runner, not to the client that asked for it: the client waits for it and may cancel it. Each turn is
announced as over once, in one shape for every outcome, after its last event and before its permit passes on (RPC-254).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.abc

from zeroclaw_daemon.agent.directory import AgentDirectory
from zeroclaw_daemon.agent.events import TurnEvent
from zeroclaw_daemon.agent.turn import Turn
from zeroclaw_daemon.clock import Clock, SystemClock
from zeroclaw_daemon.records import record
from zeroclaw_daemon.sessions.errors import NoActiveTurn, SessionBusy, SessionNotFound, TurnFailed
from zeroclaw_daemon.sessions.journal import NoJournal, TurnJournal
from zeroclaw_daemon.sessions.live import LiveSession, LiveSessions
from zeroclaw_daemon.sessions.ticket import Cause, Outcome, Sink, Ticket, TurnEnded
from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.services.logging import CallSite

CANCEL_GRACE_SECONDS: Final = 5.0
"""For a cancelled turn to wind down. One that does not is given up together with its session."""

logger = logging.getLogger(__name__)


class TurnRunner:
    """Runs the turns of live sessions, while :meth:`running` is entered.

    :param grace_seconds: for a cancelled turn to wind down.
    :param counted: entered for as long as a prompt waits or its turn runs.
    """

    def __init__(
        self,
        sessions: LiveSessions,
        agents: AgentDirectory,
        *,
        journal: TurnJournal | None = None,
        clock: Clock | None = None,
        grace_seconds: float = CANCEL_GRACE_SECONDS,
        counted: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._sessions = sessions
        self._agents = agents
        self._journal = journal or NoJournal()
        self._clock = clock or SystemClock()
        self._grace_seconds = grace_seconds
        self._counted = counted
        self._tasks: anyio.abc.TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Own the turns: none outlives the block."""
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    def start(
        self, session_id: str, prompt: str, sink: Sink, *, allows_tool: Callable[[str], bool] | None = None
    ) -> Ticket:
        """Queue a prompt; its end, a failed one too, goes to the sink and then to :meth:`Ticket.ended`. From now on the
        session is busy and the prompt can be cancelled.

        :param allows_tool: which of the agent's tools this turn has, by name; all of them, when left out.
        """
        ticket = Ticket(allows_tool)
        session = self._sessions.find(session_id)
        if session is not None:
            session.prompts.append(ticket)
        self._group.start_soon(self._take, ticket, session, prompt, sink)
        return ticket

    def cancel(self, session_id: str) -> None:
        """Cancel the turn of a session that runs or is about to, and only that one (RPC-242).

        :raises SessionNotFound: no such session is live.
        :raises NoActiveTurn: nothing runs.
        """
        prompts = self._sessions.get(session_id).prompts
        if not prompts or prompts[0].idle.is_set():
            raise NoActiveTurn
        prompts[0].cancel(Cause.CLIENT)

    async def close(self, session_id: str) -> None:
        """End a session: its running turn is cancelled, its waiting ones find it gone.

        :raises SessionNotFound: no such session is live.
        :raises SessionBusy: its turns did not end in time; it stays.
        """
        session = self._sessions.get(session_id)
        session.closing = True
        try:
            if session.prompts:
                session.prompts[0].cancel(Cause.SESSION_CLOSED)
            async with session.permit.held():
                self._sessions.remove(session)
        finally:
            session.closing = False

    @property
    def _group(self) -> anyio.abc.TaskGroup:
        if self._tasks is None:
            raise RuntimeError("turns were started before the runner runs")
        return self._tasks

    async def _take(self, ticket: Ticket, session: LiveSession | None, prompt: str, sink: Sink) -> None:
        with self._counted():
            await self._take_in_turn(ticket, session, prompt, sink)

    async def _take_in_turn(
        self, ticket: Ticket, session: LiveSession | None, prompt: str, sink: Sink
    ) -> None:
        error: ZeroclawError | None = None
        try:
            if session is None:
                raise SessionNotFound
            async with self._admitted(ticket, session):
                ended, error = await self._run(ticket, session, prompt, sink)
                await sink(ended)
        except (SessionNotFound, SessionBusy) as refusal:
            error = refusal
            ended = TurnEnded(Outcome.FAILED, refusal.message, refusal.code)
            await sink(ended)
        finally:
            if session is not None:
                session.prompts.remove(ticket)
        ticket.settle(ended, error)

    @asynccontextmanager
    async def _admitted(self, ticket: Ticket, session: LiveSession) -> AsyncGenerator[None]:
        """Hold the session's permit, if the session still takes turns when it is this turn's turn. One that was cancelled
        before needs no permit, because it does nothing.
        """
        async with AsyncExitStack() as stack:
            with ticket.queueing:
                await stack.enter_async_context(session.permit.held())
            if ticket.cause is Cause.CONNECTION_CLOSED:
                raise SessionBusy("the caller left while the prompt was waiting")
            if ticket.cause is None and (session.closing or not self._sessions.is_live(session)):
                raise SessionNotFound
            yield

    async def _run(
        self, ticket: Ticket, session: LiveSession, prompt: str, sink: Sink
    ) -> tuple[TurnEnded, ZeroclawError | None]:
        if ticket.cause is not None:
            return TurnEnded(Outcome.CANCELLED, "", ticket.cause.value), None

        async def emit(event: TurnEvent) -> None:
            if session.running is ticket:
                await self._journal.record(session, ticket.turn_id, event)
                await sink(event)

        site = CallSite({"agent": session.agent_alias, "session": session.id, "turn": ticket.turn_id})
        turn = Turn(session.history, prompt, emit, site)
        work = _Work(ticket, turn)
        session.running = ticket
        try:
            self._group.start_soon(self._work, work, session, prompt)
            await ticket.stirred.wait()
            with self._clock.move_on_after(self._grace_seconds):
                await ticket.idle.wait()
            return await self._conclude(work, session)
        finally:
            session.running = None

    async def _work(self, work: _Work, session: LiveSession, prompt: str) -> None:
        async def steps() -> None:
            await self._journal.begin(session, work.ticket.turn_id, prompt)
            agent = await self._agents.agent(session.agent_alias, session.choice)
            work.answer = await work.turn.run(agent.with_tools(work.ticket.allows_tool))

        with work.ticket.working:
            work.failure = await self._failure_of(session, steps())
        work.ticket.idle.set()
        work.ticket.stirred.set()

    async def _failure_of(self, session: LiveSession, step: Awaitable[None]) -> ZeroclawError | None:
        """Why a step of a turn did not succeed, or None where it did."""
        try:
            await step
        except ZeroclawError as error:
            return error
        except Exception as error:
            # A provider or store that breaks its promise fails this turn and nothing else.
            logger.exception("a turn of session %s failed unexpectedly", session.id)
            return TurnFailed(f"the turn failed unexpectedly ({type(error).__name__})")
        return None

    async def _conclude(self, work: _Work, session: LiveSession) -> tuple[TurnEnded, ZeroclawError | None]:
        """How the turn ended, with the conversation brought up to date."""
        ticket, turn = work.ticket, work.turn
        if not ticket.idle.is_set():
            record(
                logger, logging.WARNING, "a cancelled turn does not end; its session is given up",
                action="turn_abandoned", category="session", session=session.id, turn=ticket.turn_id,
            )  # fmt: skip
            self._sessions.remove(session)
            return TurnEnded(Outcome.CANCELLED, turn.text, _word(ticket.cause)), None
        messages = turn.messages if work.answer is not None else turn.broken_off()
        unwritten = await self._failure_of(session, self._journal.commit(session, ticket.turn_id, messages))
        if unwritten is not None:
            return _failed(unwritten)
        session.history.extend(messages)
        if work.answer is not None:
            return TurnEnded(Outcome.COMPLETED, work.answer), None
        if ticket.cause is not None:
            return TurnEnded(Outcome.CANCELLED, turn.text, ticket.cause.value), None
        return _failed(work.failure or TurnFailed("the turn ended without an answer"))


@dataclass(slots=True)
class _Work:
    """A turn being worked on: ``answer`` once it completed, ``failure`` once it failed, neither while it runs or when it
    was cancelled.
    """

    ticket: Ticket
    turn: Turn
    answer: str | None = None
    failure: ZeroclawError | None = None


def _word(cause: Cause | None) -> str | None:
    return None if cause is None else cause.value


def _failed(cause: ZeroclawError) -> tuple[TurnEnded, ZeroclawError]:
    error = TurnFailed(cause.message, remedies=cause.remedies, details={"cause": cause.code})
    error.__cause__ = cause
    return TurnEnded(Outcome.FAILED, cause.message, cause.code), error
