"""The exact session that a file is for (RPC-202)."""

from __future__ import annotations

from dataclasses import dataclass

from zeroclaw_daemon.sessions.errors import SessionNotFound
from zeroclaw_daemon.sessions.live import LiveSession, LiveSessions


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A live session as it was when the file was announced: this object, its owner and its agent."""

    session: LiveSession
    owner: str | None
    agent_alias: str

    @classmethod
    def of(cls, session: LiveSession) -> Binding:
        """The session as it is now."""
        return cls(session, session.owner, session.agent_alias)

    def require_same(self, sessions: LiveSessions) -> None:
        """Let a file be placed.

        :raises SessionNotFound: the session is live no more, be there another of its id or not, or it has another owner or
            agent now.
        """
        now = self.session
        if not sessions.is_live(now) or now.owner != self.owner or now.agent_alias != self.agent_alias:
            raise SessionNotFound
