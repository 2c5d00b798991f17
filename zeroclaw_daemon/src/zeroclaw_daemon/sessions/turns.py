"""The turns of sessions: in order, cancellable at every moment, and over exactly once.

A turn belongs to the runner, not to the client that asked for it: the client waits for it and may cancel it. Each turn is
announced as over once, in one shape for every outcome, after its last event and before its permit passes on (RPC-254).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeVar

import anyio
import anyio.abc
import anyio.lowlevel

from zeroclaw_daemon.agent.directory import AgentDirectory
from zeroclaw_daemon.agent.events import PlanChanged, TurnEvent
from zeroclaw_daemon.agent.surroundings import Surroundings
from zeroclaw_daemon.agent.turn import Turn
from zeroclaw_daemon.authority.principal import Forbidden
from zeroclaw_daemon.clock import Clock, SystemClock
from zeroclaw_daemon.records import record
from zeroclaw_daemon.sessions.errors import NoActiveTurn, SessionBusy, SessionNotFound, TurnFailed
from zeroclaw_daemon.sessions.journal import Journals, NoJournal, TurnJournal
from zeroclaw_daemon.sessions.live import LiveSession, LiveSessions
from zeroclaw_daemon.sessions.opening import Claim, SessionOpener
from zeroclaw_daemon.sessions.store.records import TurnSuperseded, Verdict
from zeroclaw_daemon.sessions.ticket import CUT, Cause, Outcome, Sink, Ticket, TurnEnded
from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.services.logging import CallSite

CANCEL_GRACE_SECONDS: Final = 5.0
"""For a cancelled turn to wind down. One that does not is given up together with its session."""

_NO_JOURNAL: Final = NoJournal()
_NOBODY: Final = Claim(lambda _owner, _alias: None)
"""Whose prompt it is that the daemon itself asks for: it takes up nothing, and nobody is asked for it."""

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


def _now() -> datetime:
    return datetime.now(UTC)


class TurnRunner:
    """Runs the turns of live sessions, while :meth:`running` is entered.

    :param journals: who records the turns, by the mode of their session; those of other modes are recorded nowhere.
    :param opener: takes sessions up again that prompts find not live.
    :param now: what time it is, as it is written of turns.
    :param grace_seconds: for a cancelled turn to wind down.
    :param counted: entered for as long as a prompt waits or its turn runs.
    """

    def __init__(
        self,
        sessions: LiveSessions,
        agents: AgentDirectory,
        *,
        journals: Journals | None = None,
        opener: SessionOpener | None = None,
        clock: Clock | None = None,
        now: Callable[[], datetime] = _now,
        grace_seconds: float = CANCEL_GRACE_SECONDS,
        counted: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._sessions = sessions
        self._agents = agents
        self._journals = journals or {}
        self._clock = clock or SystemClock()
        self._opener = opener or SessionOpener(sessions, agents, clock=self._clock)
        self._now = now
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
        self,
        session_id: str,
        prompt: str,
        sink: Sink,
        *,
        claim: Claim | None = None,
        allows_tool: Callable[[str], bool] | None = None,
    ) -> Ticket:
        """Queue a prompt; its end, a failed one too, goes to the sink and then to :meth:`Ticket.ended`. From now on the
        session is busy and the prompt can be cancelled.

        A session that is not live is taken up again, if one is kept; a claimer that may not is refused, and the sink hears
        nothing.

        :param claim: who takes it up; nobody, when left out.
        :param allows_tool: which of the agent's tools this turn has, by name; all of them, when left out.
        """
        ticket = Ticket(allows_tool)
        session = self._sessions.find(session_id)
        if session is not None:
            session.prompts.append(ticket)
        self._group.start_soon(self._take, _Prompt(ticket, session_id, prompt, sink, claim), session)
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

    @property
    def _group(self) -> anyio.abc.TaskGroup:
        if self._tasks is None:
            raise RuntimeError("turns were started before the runner runs")
        return self._tasks

    async def _take(self, asked: _Prompt, session: LiveSession | None) -> None:
        with self._counted():
            await self._take_in_turn(asked, session)

    async def _take_in_turn(self, asked: _Prompt, session: LiveSession | None) -> None:
        ticket, error = asked.ticket, None
        try:
            while True:
                if session is None:
                    session = await self._revived(asked)
                try:
                    async with self._admitted(asked, session):
                        ended, error = await self._run(asked, session)
                        await asked.sink(ended)
                    break
                except _Lost:  # A turn before this one took the session with it, and left it in the store.
                    session.prompts.remove(ticket)
                    session = None
        except Forbidden as refusal:
            # As if it had been refused before anything began: what does not exist looks like what is somebody else's.
            ended, error = TurnEnded(Outcome.FAILED, refusal.message, refusal.code), refusal
        except ZeroclawError as refusal:
            ended, error = TurnEnded(Outcome.FAILED, refusal.message, refusal.code), refusal
            await asked.sink(ended)
        finally:
            if session is not None:
                session.prompts.remove(ticket)
        ticket.settle(ended, error)

    async def _revived(self, asked: _Prompt) -> LiveSession:
        """The session that a prompt is for, which was not live; with the prompt in its queue."""
        if asked.claim is None:
            raise SessionNotFound
        async with self._sessions.lock:
            session = self._sessions.find(asked.session_id)
            if session is not None:
                asked.claim.allows(session.owner, session.agent_alias)
            else:
                revival = self._opener.revive(asked.session_id, asked.claim)
                session = await self._result_of(asked.session_id, revival)
            session.prompts.append(asked.ticket)
            return session

    @asynccontextmanager
    async def _admitted(self, asked: _Prompt, session: LiveSession) -> AsyncGenerator[None]:
        """Hold the session's permit, if the session still takes turns when it is this turn's turn. One that was cancelled
        before needs no permit, because it does nothing.

        :raises _Lost: the session is to be taken up again first.
        """
        ticket = asked.ticket
        async with AsyncExitStack() as stack:
            with ticket.queueing:
                await stack.enter_async_context(session.permit.held(len(asked.prompt)))
            if ticket.cause is Cause.CONNECTION_CLOSED:
                raise SessionBusy("the caller left while the prompt was waiting")
            if ticket.cause is None and (session.closing or not self._sessions.is_live(session)):
                raise _Lost if session.lost and not session.closing else SessionNotFound
            yield

    async def _run(self, asked: _Prompt, session: LiveSession) -> tuple[TurnEnded, ZeroclawError | None]:
        ticket = asked.ticket
        if ticket.cause is not None:
            return TurnEnded(Outcome.CANCELLED, "", ticket.cause.value), None
        claim = asked.claim or _NOBODY
        journal = self._journals.get(session.mode, _NO_JOURNAL)

        async def emit(event: TurnEvent) -> None:
            if session.running is ticket:
                # What the turn has heard is written even if it is cancelled now: what is kept and what the model knows agree.
                with anyio.CancelScope(shield=True):
                    work.unwritten = True
                    await journal.record(session, ticket, event)
                    work.unwritten = False
            if session.running is not ticket:  # given up, maybe meanwhile: all that is left is to hear so
                await anyio.lowlevel.checkpoint()
                return
            if isinstance(event, PlanChanged):
                session.plan = [entry.to_json() for entry in event.entries]
            await asked.sink(event)

        site = CallSite({"agent": session.agent_alias, "session": session.id, "turn": ticket.turn_id})
        # The environment is of whoever asks, and not of the session: it may be somebody else's (RPC-247).
        around = Surroundings(session.asking, session.workspace, claim.env, clock=self._clock)
        turn = Turn(session.history, asked.prompt, emit, site, surroundings=around, call_ids=session.call_ids)
        work = _Work(ticket, turn)
        session.running, ticket.began = ticket, self._now()
        session.turns += 1
        session.asking.begin(claim.scope, claim.audience(session.id) if claim.audience is not None else None)
        try:
            begin = journal.begin(session, ticket, asked.prompt, ticket.began)
            work.failure = await self._failure_of(session.id, begin)
            if work.failure is not None:
                ticket.idle.set()
                return await self._given_up(work, session, journal)
            self._group.start_soon(self._work, work, session)
            await ticket.stirred.wait()
            with self._clock.move_on_after(self._grace_seconds):
                await ticket.idle.wait()
            return await self._conclude(work, session, journal)
        finally:
            session.running = None
            session.asking.end()

    async def _work(self, work: _Work, session: LiveSession) -> None:
        async def steps() -> None:
            agent = await self._agents.agent(session.agent_alias, session.choice)
            work.answer = await work.turn.run(agent.with_tools(work.ticket.allows_tool))

        with work.ticket.working:
            work.failure = await self._failure_of(session.id, steps())
        work.ticket.idle.set()
        work.ticket.stirred.set()

    async def _failure_of(self, session_id: str, step: Awaitable[None]) -> ZeroclawError | None:
        """Why a step of a turn did not succeed, or None where it did."""
        try:
            await self._result_of(session_id, step)
        except ZeroclawError as error:
            return error
        return None

    async def _result_of(self, session_id: str, step: Awaitable[Result]) -> Result:
        """What a step of a turn comes to.

        :raises ZeroclawError: why it did not succeed. A provider or store that breaks its promise fails this turn and nothing else.
        """
        try:
            return await step
        except ZeroclawError:
            raise
        except Exception as error:
            logger.exception("a turn of session %s failed unexpectedly", session_id)
            # Not chained: what the error says is for the log alone.
            raise TurnFailed(f"the turn failed unexpectedly ({type(error).__name__})") from None

    async def _conclude(
        self, work: _Work, session: LiveSession, journal: TurnJournal
    ) -> tuple[TurnEnded, ZeroclawError | None]:
        """How the turn ended, with the conversation brought up to date."""
        ticket, turn = work.ticket, work.turn
        if work.unwritten or not ticket.idle.is_set():
            return await self._given_up(work, session, journal)
        context = (*turn.history, *(turn.messages if work.answer is not None else turn.broken_off()))
        unwritten = None
        if work.answer is None and ticket.cause is None:
            unwritten = await self._failure_of(session.id, journal.fail(session, ticket, Verdict.FAILED))
        if unwritten is None:
            cancelled = work.answer is None
            unwritten = await self._failure_of(
                session.id, journal.finish(session, ticket, context, cancelled=cancelled)
            )
        if unwritten is not None:
            work.failure = unwritten
            return await self._given_up(work, session, journal)
        session.history = list(context)
        if work.answer is not None:
            return TurnEnded(Outcome.COMPLETED, work.answer, CUT if turn.cut else None), None
        if ticket.cause is not None:
            return TurnEnded(Outcome.CANCELLED, turn.text, ticket.cause.value), None
        return _failed(work.failure or TurnFailed("the turn ended without an answer"))

    async def _given_up(
        self, work: _Work, session: LiveSession, journal: TurnJournal
    ) -> tuple[TurnEnded, ZeroclawError | None]:
        """End a turn that left nothing to go on from in memory: its session goes, to be taken up again from the store if that
        can (RPC-256).
        """
        ticket, hangs = work.ticket, not work.ticket.idle.is_set()
        if hangs:
            record(
                logger, logging.WARNING, "a cancelled turn does not end; its session is given up",
                action="turn_abandoned", category="session", session=session.id, turn=ticket.turn_id,
            )  # fmt: skip
        verdict = Verdict.CANCELLED if hangs else Verdict.FAILED
        unwritten = await self._failure_of(session.id, journal.fail(session, ticket, verdict))
        if unwritten is not None and unwritten.code != TurnSuperseded.code:
            record(
                logger, logging.ERROR, f"the end of a turn could not be written: {unwritten.message}",
                action="turn_unwritten", category="session", outcome="failure",
                session=session.id, turn=ticket.turn_id, code=unwritten.code, remedy=unwritten.remedy,
            )  # fmt: skip
        if hangs or journal.recovers:
            async with self._sessions.lock:
                session.lost = journal.recovers
                self._sessions.remove(session)
        if hangs:
            return TurnEnded(Outcome.CANCELLED, work.turn.text, _word(ticket.cause)), None
        return _failed(work.failure or TurnFailed("the turn ended without an answer"))


class _Lost(Exception):
    """The session has to be taken up again from the store before a prompt can have its turn."""


@dataclass(frozen=True, slots=True)
class _Prompt:
    """What was asked for."""

    ticket: Ticket
    session_id: str
    prompt: str
    sink: Sink
    claim: Claim | None


@dataclass(slots=True)
class _Work:
    """A turn being worked on: ``answer`` once it completed, ``failure`` once it failed, neither while it runs or when it
    was cancelled. ``unwritten`` says that something of it happened and could not be written.
    """

    ticket: Ticket
    turn: Turn
    answer: str | None = None
    failure: ZeroclawError | None = None
    unwritten: bool = False


def _word(cause: Cause | None) -> str | None:
    return None if cause is None else cause.value


def _failed(cause: ZeroclawError) -> tuple[TurnEnded, ZeroclawError]:
    error = TurnFailed(cause.message, remedies=cause.remedies, details={"cause": cause.code})
    error.__cause__ = cause
    return TurnEnded(Outcome.FAILED, cause.message, cause.code), error
