"""The seam to durable stores: what is written is written before anybody hears of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from zeroclaw_daemon.agent.events import TurnEvent
from zeroclaw_daemon.agent.messages import Message
from zeroclaw_daemon.sessions.live import LiveSession


class TurnJournal(Protocol):
    """Records the turns of sessions. A method that raises fails the turn, and what it was to record is not announced."""

    async def begin(self, session: LiveSession, turn_id: str, prompt: str) -> None:
        """A turn begins; before the model is asked anything."""
        ...

    async def record(self, session: LiveSession, turn_id: str, event: TurnEvent) -> None:
        """Something happened; before the client is told."""
        ...

    async def commit(self, session: LiveSession, turn_id: str, messages: Sequence[Message]) -> None:
        """The turn is over and adds these messages to the conversation."""
        ...


class NoJournal:
    """Sessions that live in memory alone."""

    async def begin(self, session: LiveSession, turn_id: str, prompt: str) -> None:
        """Nothing is kept."""

    async def record(self, session: LiveSession, turn_id: str, event: TurnEvent) -> None:
        """Nothing is kept."""

    async def commit(self, session: LiveSession, turn_id: str, messages: Sequence[Message]) -> None:
        """Nothing is kept."""
