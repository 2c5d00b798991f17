"""One prompt on its way through a session, and how it ends."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeAlias

import anyio

from zeroclaw_daemon.agent.events import MessageChunk, ToolCalled, ToolReturned, TurnEvent
from zeroclaw_host.errors import ZeroclawError


class Cause(StrEnum):
    """Why a turn was cancelled."""

    CLIENT = "client_rpc"
    CONNECTION_CLOSED = "connection_closed"
    SESSION_CLOSED = "session_removed"
    KILLED = "admin_kill"
    STOPPING = "daemon_stopping"


class Outcome(StrEnum):
    """How a turn ended."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


CUT: Final = "max_tokens"
"""The reason of a turn that completed though the model had no room for the rest of its answer."""


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The last that is heard of a turn. ``content`` is the text so far, or the failure; ``reason`` a word for why it is not a
    whole answer, None where it is one.
    """

    outcome: Outcome
    content: str
    reason: str | None = None


SessionEvent: TypeAlias = TurnEvent | TurnEnded
Sink = Callable[[SessionEvent], Awaitable[None]]
"""Takes what happens in a turn, in order; ``TurnEnded`` once and last."""


class Ticket:
    """One prompt on its way: queued, running or over. ``recorded`` is the number of the last event that a store has of it,
    ``seen`` what a store is to be given at the end, ``trimmed`` whether the model has forgotten something in it.

    :param allows_tool: which of the agent's tools its turn has, by name; None is all of them.
    """

    def __init__(self, allows_tool: Callable[[str], bool] | None = None) -> None:
        self.allows_tool = allows_tool
        self.turn_id = str(uuid.uuid4())
        self.began: datetime | None = None
        """When its turn began; None while it waits for those before it."""
        self.cause: Cause | None = None
        self.recorded = 0
        self.seen: list[tuple[MessageChunk | ToolCalled | ToolReturned, datetime]] = []
        self.trimmed = False
        self.queueing = anyio.CancelScope()
        self.working = anyio.CancelScope()
        self.stirred = anyio.Event()
        """Set once the work has ended or was cancelled."""
        self.idle = anyio.Event()
        """Set once nothing of the turn runs any more."""
        self._over = anyio.Event()
        self._ended: TurnEnded | None = None
        self._error: ZeroclawError | None = None

    def cancel(self, cause: Cause) -> None:
        """Stop it, wherever it is. The first cause counts; work that has ended stays as it ended."""
        if self.cause is None and not self.idle.is_set():
            self.cause = cause
            self.queueing.cancel()
            self.working.cancel()
            self.stirred.set()

    def settle(self, ended: TurnEnded, error: ZeroclawError | None) -> None:
        """The turn is over."""
        self._ended, self._error = ended, error
        self._over.set()

    async def ended(self) -> TurnEnded:
        """Wait for the end of a turn that completed or was cancelled.

        :raises ZeroclawError: it failed, or was never begun.
        """
        await self._over.wait()
        if self._error is not None:
            raise self._error
        assert self._ended is not None
        return self._ended
