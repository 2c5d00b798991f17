"""Sessions that nobody uses any more leave memory; what is kept of them stays, and the next prompt takes them up again."""

from __future__ import annotations

import logging
from collections.abc import Container
from typing import Final

from zeroclaw_daemon.clock import Clock
from zeroclaw_daemon.records import record
from zeroclaw_daemon.sessions.live import ChatMode, LiveSession, LiveSessions

IDLE_SECONDS: Final = 600.0
"""How long a session stays live whose client is gone."""

LOOK_SECONDS: Final = 60.0
"""How often that is looked at."""

logger = logging.getLogger(__name__)


class IdleSessions:
    """Lets live sessions go whose client is gone and that take no turn, so that clients that come and go do not fill the
    daemon (RPC-246). Nothing is let go for want of room: whoever comes while it is full is told so.

    :param kept: the modes whose sessions outlive their time in memory; no other session is let go.
    :param idle_seconds: how long it has to be so.
    """

    def __init__(
        self,
        sessions: LiveSessions,
        kept: Container[ChatMode],
        clock: Clock,
        *,
        idle_seconds: float = IDLE_SECONDS,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._sessions = sessions
        self._kept = kept
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._look_seconds = look_seconds
        self._since: dict[LiveSession, tuple[float, int]] = {}

    async def run(self) -> None:
        """Look from time to time, for ever."""
        while True:
            await self._clock.sleep(self._look_seconds)
            await self.look()

    async def look(self) -> None:
        """Let go what has been idle since an earlier look that is long enough ago."""
        async with self._sessions.lock:
            now = self._clock.now()
            since: dict[LiveSession, tuple[float, int]] = {}
            for session in self._sessions.all():
                if session.mode not in self._kept or session.busy or session.audience is not None:
                    continue
                began, turns = self._since.get(session, (now, session.turns))
                if turns != session.turns:  # it was used in between
                    began = now
                if now - began >= self._idle_seconds:
                    self._sessions.remove(session)
                    record(
                        logger, logging.INFO, "a session that nobody uses leaves memory",
                        action="session_released", category="session", session=session.id,
                    )  # fmt: skip
                else:
                    since[session] = (began, session.turns)
            self._since = since
