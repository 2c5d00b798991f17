"""What is written of turns, before anybody hears of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol

from zeroclaw_daemon.agent.events import (
    ContextUsed,
    HistoryTrimmed,
    MessageChunk,
    PlanChanged,
    ThoughtChunk,
    ToolCalled,
    ToolReturned,
    TurnEvent,
)
from zeroclaw_daemon.agent.messages import Message
from zeroclaw_daemon.sessions.live import ChatMode, LiveSession
from zeroclaw_daemon.sessions.store.facade import AcpSessions, ChatSessions
from zeroclaw_daemon.sessions.store.records import CallOutcome, Settled, Verdict
from zeroclaw_daemon.sessions.ticket import Ticket


class TurnJournal(Protocol):
    """Records the turns of sessions. A method that raises fails the turn, and what it was to record is not announced.

    ``recovers`` says whether the store can take a session up again whose turn was begun and not finished: then such a session
    does not stay live.
    """

    @property
    def recovers(self) -> bool:
        """See above."""
        ...

    async def begin(self, session: LiveSession, ticket: Ticket, prompt: str, at: datetime) -> None:
        """A turn begins, at this time; before the model is asked anything."""
        ...

    async def record(self, session: LiveSession, ticket: Ticket, event: TurnEvent) -> None:
        """Something happened; before the client is told."""
        ...

    async def finish(
        self, session: LiveSession, ticket: Ticket, context: Sequence[Message], *, cancelled: bool
    ) -> None:
        """The turn is over; before the client is told.

        :param context: everything that the model is given next.
        """
        ...

    async def fail(self, session: LiveSession, ticket: Ticket, verdict: Verdict) -> None:
        """The turn did not end as it should. What was recorded of it stays for recovery, unless :meth:`finish` follows."""
        ...


class NoJournal:
    """Sessions that live in memory alone."""

    recovers = False

    async def begin(self, session: LiveSession, ticket: Ticket, prompt: str, at: datetime) -> None:
        """Nothing is kept."""

    async def record(self, session: LiveSession, ticket: Ticket, event: TurnEvent) -> None:
        """Nothing is kept."""

    async def finish(
        self, session: LiveSession, ticket: Ticket, context: Sequence[Message], *, cancelled: bool
    ) -> None:
        """Nothing is kept; a client sees what the model is given."""
        session.shown = len(context)

    async def fail(self, session: LiveSession, ticket: Ticket, verdict: Verdict) -> None:
        """Nothing is kept."""


Journals = Mapping[ChatMode, TurnJournal]
"""Who records the turns of each mode."""


class AcpJournal:
    """The turns of ``acp`` sessions, in their store.

    A call that is cancelled while it writes has written. The order of calls is that of :mod:`zeroclaw_daemon.sessions.store`.
    """

    recovers = True

    def __init__(self, kept: AcpSessions) -> None:
        self._kept = kept

    async def begin(self, session: LiveSession, ticket: Ticket, prompt: str, at: datetime) -> None:
        """A checkpoint with the prompt."""
        ticket.recorded = await self._kept.write(
            lambda store: store.begin(session.id, ticket.turn_id, prompt, at)
        )

    async def record(self, session: LiveSession, ticket: Ticket, event: TurnEvent) -> None:
        """What a client sees goes into the checkpoint, what the model forgets and the plan into the row; thoughts nowhere."""
        match event:
            case MessageChunk() | ToolCalled():
                ticket.recorded = await self._kept.write(
                    lambda store: store.append(session.id, ticket.turn_id, event)
                )
            case ToolReturned():
                settled = _settled(event)
                ticket.recorded = await self._kept.write(
                    lambda store: store.append(session.id, ticket.turn_id, event, settled)
                )
            case HistoryTrimmed(context=context):
                covered = ticket.recorded
                await self._kept.write(
                    lambda store: store.reduce(session.id, ticket.turn_id, context, covered)
                )
            case PlanChanged(entries):
                plan = [entry.to_json() for entry in entries]
                await self._kept.write(lambda store: store.save_plan(session.id, plan))
            case ContextUsed(input_tokens=tokens):
                await self._kept.write(lambda store: store.count_tokens(session.id, tokens))
            case ThoughtChunk():
                pass

    async def finish(
        self, session: LiveSession, ticket: Ticket, context: Sequence[Message], *, cancelled: bool
    ) -> None:
        """The checkpoint becomes transcript, and the context is what the model is given next."""
        stored = await self._kept.write(
            lambda store: store.finish(session.id, ticket.turn_id, context, cancelled=cancelled)
        )
        session.shown = stored.message_count

    async def fail(self, session: LiveSession, ticket: Ticket, verdict: Verdict) -> None:
        """The checkpoint stays, with the verdict."""
        await self._kept.write(lambda store: store.fail(session.id, ticket.turn_id, verdict))


class ChatJournal:
    """The turns of ``chat`` sessions, in their store: the prompt when a turn begins, a plan at once, everything else when it ends."""

    recovers = True

    def __init__(self, kept: ChatSessions) -> None:
        self._kept = kept

    async def begin(self, session: LiveSession, ticket: Ticket, prompt: str, at: datetime) -> None:
        """The prompt."""
        await self._kept.write(lambda store: store.begin(session.id, ticket.turn_id, prompt, at))

    async def record(self, session: LiveSession, ticket: Ticket, event: TurnEvent) -> None:
        """What a client sees waits for the end of the turn; the plan goes into the row."""
        match event:
            case MessageChunk() | ToolCalled() | ToolReturned():
                ticket.seen.append((event, datetime.now(UTC)))
            case HistoryTrimmed():
                ticket.trimmed = True
            case PlanChanged(entries):
                plan = [entry.to_json() for entry in entries]
                await self._kept.write(lambda store: store.save_plan(session.id, plan))
            case ContextUsed() | ThoughtChunk():
                pass

    async def finish(
        self, session: LiveSession, ticket: Ticket, context: Sequence[Message], *, cancelled: bool
    ) -> None:
        """What was seen becomes transcript, and the context is what the model is given next."""
        stored = await self._kept.write(
            lambda store: store.finish(
                session.id, ticket.turn_id, ticket.seen, context, cancelled=cancelled, trimmed=ticket.trimmed
            )
        )
        session.shown = stored.message_count

    async def fail(self, session: LiveSession, ticket: Ticket, verdict: Verdict) -> None:
        """The prompt stays."""
        await self._kept.write(lambda store: store.fail(session.id, ticket.turn_id))


def _settled(event: ToolReturned) -> Settled:
    """What the receipt of a call says once it is over (D-47)."""
    if not event.ran:
        outcome = CallOutcome.NOT_RUN
    else:
        outcome = CallOutcome.SUCCEEDED if event.success else CallOutcome.FAILED
    return Settled(outcome, event.approval, event.duration_ms)
