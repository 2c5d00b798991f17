"""Reading the sessions that were kept: which there are, and what was said in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from zeroclaw_daemon.sessions.durable import DurableSessions
from zeroclaw_daemon.sessions.keeping import only_holder
from zeroclaw_daemon.sessions.live import ChatMode, LiveSessions
from zeroclaw_daemon.sessions.store.base import AnyStore
from zeroclaw_daemon.sessions.store.entries import Page, Place, Window
from zeroclaw_daemon.sessions.store.facade import Sessions
from zeroclaw_daemon.sessions.store.records import StoredSession

Read = TypeVar("Read")


class SessionReader:
    """Reads both stores.

    A ``scope`` is the principal that a caller is held to, None where it may read every session. To a scope, a session of
    somebody else and one that does not exist are the same. Every method raises
    :class:`~zeroclaw_host.errors.StorageError` where a store cannot be used.
    """

    def __init__(self, live: LiveSessions, durable: DurableSessions) -> None:
        self._live = live
        self._durable = durable

    async def page(
        self, session_id: str, scope: str | None, *, mode: ChatMode | None, limit: int, before: Place | None
    ) -> Page:
        """The newest entries of a session, or those before a place that an earlier page named (RPC-244).

        :param mode: which of the two sessions of this id is meant; None is the live one, or the only one.
        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        :raises SessionAmbiguous: there are two, and none is live.
        """
        return await self._read(
            session_id, scope, mode, lambda store: store.page(session_id, scope, limit=limit, before=before)
        )

    async def window(
        self, session_id: str, scope: str | None, *, mode: ChatMode | None, limit: int, before: int | None
    ) -> Window:
        """The newest entries of a session, or those before the one of a number. See :meth:`page`."""
        return await self._read(
            session_id, scope, mode, lambda store: store.window(session_id, scope, limit=limit, before=before)
        )

    async def chats(self, scope: str | None, *, query: str, limit: int) -> tuple[StoredSession, ...]:
        """The sessions of the mode ``chat`` with these words, the latest activity first.

        :raises UsageError: the query is too long.
        """
        return await self._durable.chats.read(lambda store: store.listed(scope, query=query, limit=limit))

    async def acps(self, scope: str | None, *, limit: int) -> tuple[StoredSession, ...]:
        """The sessions of the mode ``acp`` that were not killed, the latest activity first."""
        return await self._durable.acp.read(lambda store: store.listed(scope, limit=limit))

    async def _read(
        self,
        session_id: str,
        scope: str | None,
        mode: ChatMode | None,
        work: Callable[[AnyStore], Read],
    ) -> Read:
        found = mode or await self._mode(session_id, scope)
        kept: Sessions[AnyStore] = self._durable.acp if found is ChatMode.ACP else self._durable.chats
        # Whoever reads waits for nobody, unless there is something to recover.
        if not self._is_live(session_id, found):
            stored = await kept.read(lambda store: store.find(session_id, scope))
            if stored is not None and stored.recoverable:
                # Nobody makes it live meanwhile: the turn of a live session goes on, and is not to be recovered.
                async with self._live.lock:
                    if not self._is_live(session_id, found):
                        await kept.write(lambda store: store.recover(session_id, scope))
        return await kept.read(work)

    def _is_live(self, session_id: str, mode: ChatMode) -> bool:
        live = self._live.find(session_id)
        return live is not None and live.mode is mode

    async def _mode(self, session_id: str, scope: str | None) -> ChatMode:
        live = self._live.find(session_id)
        if live is not None and (scope is None or live.owner == scope):
            return live.mode
        return await only_holder(self._durable.keepers, session_id, scope)
