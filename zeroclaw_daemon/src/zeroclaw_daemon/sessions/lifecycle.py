"""How sessions end: closed, killed or deleted, in an order that loses nothing where a step fails.

First the running turn is told to stop, then its permit is waited for, then the store is asked, and only then does the live session
go (RPC-154, RPC-157…162). A store that fails leaves an idle session live.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from zeroclaw_daemon.authority.principal import not_owned
from zeroclaw_daemon.sessions.errors import SessionNotFound
from zeroclaw_daemon.sessions.keeping import Keeper, Keepers, KeepsNothing, only_holder
from zeroclaw_daemon.sessions.live import ChatMode, LiveSession, LiveSessions
from zeroclaw_daemon.sessions.ticket import Cause


class SessionLifecycle:
    """Ends sessions. A ``scope`` is the principal that a caller is held to, as :class:`~.keeping.Keeper` has it.

    :param keepers: what keeps sessions, by mode; without them sessions live in memory alone.
    """

    def __init__(self, sessions: LiveSessions, keepers: Keepers | None = None) -> None:
        self._sessions = sessions
        self._keepers = keepers or {}

    async def close(self, session_id: str) -> None:
        """End a session's life in memory: its running turn is cancelled, its waiting ones find it gone. What is kept of it is
        not touched (RPC-152).

        :raises SessionNotFound: no such session is live.
        :raises SessionBusy: its turns did not end in time; it stays.
        """
        session = self._sessions.get(session_id)
        async with self._stopped(session, Cause.SESSION_CLOSED):
            self._drop(session)

    async def kill(self, session_id: str, scope: str | None = None) -> bool:
        """End a session for good: what is kept can be read, and nothing goes on in it (RPC-153). False if that was so before.

        :raises SessionNotFound: no such session is live, nor one that could be killed kept.
        :raises Forbidden: none of the scope's is.
        :raises SessionBusy: its turns did not end in time; it stays. :raises StorageError: it stays live, if it was idle.
        """
        while True:
            live = self._found(session_id, scope)
            if live is None:
                async with self._sessions.lock:
                    if self._sessions.find(session_id) is not None:
                        continue
                    return await self._keeper(ChatMode.ACP).kill(session_id, scope)
            async with self._stopped(live, Cause.KILLED):
                if self._over(live):
                    continue
                with suppress(SessionNotFound):  # a chat, of which nothing could say that it was killed
                    await self._keeper(live.mode).kill(session_id, None)
                self._drop(live)
                return True

    async def delete(self, session_id: str, scope: str | None = None) -> None:
        """Forget a session. The live one says which mode is meant; the other mode's session of the same id is not touched
        (RPC-156).

        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        :raises SessionAmbiguous: none is live, and both modes have one (RPC-255).
        :raises SessionBusy: its turns did not end in time; it stays. :raises StorageError: it stays live, if it was idle.
        """
        while True:
            live = self._found(session_id, scope)
            if live is None:
                async with self._sessions.lock:
                    if self._sessions.find(session_id) is not None:
                        continue
                    mode = await only_holder(self._keepers, session_id, scope)
                    await self._keeper(mode).delete(session_id, scope)
                    return
            async with self._stopped(live, Cause.SESSION_CLOSED):
                if self._over(live):
                    continue
                with suppress(SessionNotFound):
                    await self._keeper(live.mode).delete(session_id, None)
                self._drop(live)
                return

    @asynccontextmanager
    async def _stopped(self, session: LiveSession, cause: Cause) -> AsyncGenerator[None]:
        """Stop a session's turns, and hold what makes it live while the block runs.

        Nothing is waited for before the running turn is told: the lock of the live sessions is held over calls of a store, and
        whoever blocks that store is not to keep a turn going (RPC-157, RPC-158).
        """
        session.closing += 1
        try:
            if session.prompts:
                session.prompts[0].cancel(cause)
            async with session.permit.held(ending=True), self._sessions.lock:
                yield
        finally:
            session.closing -= 1

    def _found(self, session_id: str, scope: str | None) -> LiveSession | None:
        live = self._sessions.find(session_id)
        if live is not None and scope is not None and live.owner != scope:
            raise not_owned()
        return live

    def _over(self, session: LiveSession) -> bool:
        """Whether, while its turns ended, somebody else ended it, or put another session in its place. One that went with its
        turn is still to be ended, where it is kept (RPC-161).
        """
        now = self._sessions.find(session.id)
        return now is not session and not (now is None and session.lost)

    def _drop(self, session: LiveSession) -> None:
        """Nobody is asked for it any more, and it is live no more. Prompts that wait do not take it up again."""
        session.audience = None
        session.lost = False
        self._sessions.remove(session)

    def _keeper(self, mode: ChatMode) -> Keeper:
        return self._keepers.get(mode) or KeepsNothing()
