"""The exact session that a file is for (RPC-202)."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import ref

from zeroclaw_daemon.sessions.errors import SessionNotFound
from zeroclaw_daemon.sessions.live import LiveSession, LiveSessions


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A live session as it was when the file was announced: this object, its owner and its agent. Does not keep it in memory: a
    file that is on its way holds its own bytes, and no conversation that has ended.
    """

    session: ref[LiveSession]
    owner: str | None
    agent_alias: str

    @classmethod
    def of(cls, session: LiveSession) -> Binding:
        """The session as it is now."""
        return cls(ref(session), session.owner, session.agent_alias)

    def same(self, sessions: LiveSessions) -> LiveSession:
        """The session, where it is still that one.

        :raises SessionNotFound: the session is live no more, be there another of its id or not, or it has another owner or
            agent now.
        """
        now = self.session()
        if now is None or not sessions.is_live(now):
            raise SessionNotFound
        if now.owner != self.owner or now.agent_alias != self.agent_alias:
            raise SessionNotFound
        return now
