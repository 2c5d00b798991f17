"""What the stores of both modes do alike, for programs that may wait. From the event loop, see :mod:`.facade`.

A ``scope`` is the principal that a caller is held to, None where it may use every session. To a scope, a session of somebody
else and one that does not exist are the same.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from zeroclaw_daemon.authority.principal import not_owned
from zeroclaw_daemon.sessions.errors import SessionNotFound
from zeroclaw_daemon.sessions.store.entries import Entry, Page, Place, Rows, Window, entries, page, window
from zeroclaw_daemon.sessions.store.file import BUSY_SECONDS, SessionFile
from zeroclaw_daemon.sessions.store.folding import MAX_GIVEN_TOKENS
from zeroclaw_daemon.sessions.store.layout import Layout
from zeroclaw_daemon.sessions.store.points import StoreSteps
from zeroclaw_daemon.sessions.store.records import NewSession, Restored, StoredSession


class Found(Protocol):
    """A session's row, as a store looks at it first."""

    @property
    def owner(self) -> str | None:
        """The principal that made it, None where that is the shared operator."""
        ...


Row = TypeVar("Row", bound=Found)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class SessionStore(ABC, Generic[Row]):
    """The sessions of one mode, in a database file. Any thread may call any method; a method waits for the disk, and for other
    programs at most ``busy_seconds``.

    Every method raises :class:`~.file.SessionsUnavailable` if the database cannot be used. Nothing is changed then, except that
    a write whose commit failed may be there after all: its session is to be taken up again by :meth:`resume`.

    :cvar layout: how the database is laid out.
    :param now: the present, with its time zone.
    :param max_given: tokens of a transcript that a model is given where it has no retained context.
    """

    layout: ClassVar[Layout]

    def __init__(
        self,
        path: Path,
        *,
        busy_seconds: float = BUSY_SECONDS,
        steps: StoreSteps | None = None,
        now: Callable[[], datetime] = _utc_now,
        max_given: int = MAX_GIVEN_TOKENS,
    ) -> None:
        self._file = SessionFile(path, self.layout, busy_seconds=busy_seconds, steps=steps)
        self._now = now
        self._max_given = max_given

    def close(self) -> None:
        """Close the database. A later use opens it again."""
        self._file.close()

    # --- sessions -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def create(self, session: NewSession) -> StoredSession:
        """Make a session durable. Nothing of it was durable before.

        :raises SessionExists: one of this id is.
        :raises UsageError: its mode does not have its surface, or a text cannot be stored.
        """

    def find(self, session_id: str, scope: str | None = None) -> StoredSession | None:
        """The session of this id, killed or not; None if there is none, or none of the scope's. Recovers nothing."""
        with self._file.read() as raw:
            row = self._row_of(raw, session_id)
            if row is None or (scope is not None and row.owner != scope):
                return None
            return self._session_of(raw, row)

    @abstractmethod
    def resume(
        self,
        session_id: str,
        scope: str | None = None,
        *,
        agent_alias: str | None = None,
        workspace: str | None = None,
    ) -> Restored:
        """Take a session up again: recover the turn that was broken off, if one was, and say what the model is given.

        One transaction; whatever is refused leaves every row as it was (RPC-147). The owner stays who it is.

        :param agent_alias: the agent that is asked for; None is the session's own, as a prompt wants it.
        :param workspace: the directory it works in from now on, if it is the scope's own; None leaves it where it is.
        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        :raises SessionMismatch: it has another agent.
        """

    @abstractmethod
    def recover(self, session_id: str, scope: str | None = None) -> bool:
        """Recover the turn of a session that nobody has live, for somebody who reads it; whether there was one to recover.

        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        """

    @abstractmethod
    def delete(self, session_id: str, scope: str | None = None) -> None:
        """Delete the session with everything that belongs to it.

        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        """

    # --- reading --------------------------------------------------------------------------------------------------------

    def entries(self, session_id: str, scope: str | None = None) -> list[Entry]:
        """Everything that a client sees of the session, oldest first; of a killed one too. Recovers nothing.

        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        """
        with self._file.read() as raw:
            return entries(self._rows_of(raw, self._owned(raw, session_id, scope)))

    def page(
        self, session_id: str, scope: str | None = None, *, limit: int = 100, before: Place | None = None
    ) -> Page:
        """The newest entries, or those before a place that an earlier page named.

        :param limit: how many at most, from 1 to :data:`~.entries.MAX_PAGE`.
        :raises ValueError: the limit is not one of those.
        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        """
        with self._file.read() as raw:
            return page(self._rows_of(raw, self._owned(raw, session_id, scope)), limit, before)

    def window(
        self, session_id: str, scope: str | None = None, *, limit: int = 100, before: int | None = None
    ) -> Window:
        """The newest entries, or those before the one of this number, counted from 0.

        :param limit: how many at most, from 1 to :data:`~.entries.MAX_PAGE`.
        :raises ValueError: the limit is not one of those, or the number is negative.
        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        """
        with self._file.read() as raw:
            return window(self._rows_of(raw, self._owned(raw, session_id, scope)), limit, before)

    # --- inside a transaction -------------------------------------------------------------------------------------------

    @abstractmethod
    def _row_of(self, raw: sqlite3.Connection, session_id: str) -> Row | None:
        """The row of the session of this id, or None."""

    @abstractmethod
    def _session_of(self, raw: sqlite3.Connection, row: Row) -> StoredSession:
        """What is known of a session now."""

    @abstractmethod
    def _rows_of(self, raw: sqlite3.Connection, row: Row) -> Rows:
        """The rows of a session's transcript."""

    def _owned(self, raw: sqlite3.Connection, session_id: str, scope: str | None) -> Row:
        """:raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's."""
        row = self._row_of(raw, session_id)
        if scope is not None and (row is None or row.owner != scope):
            raise not_owned()
        if row is None:
            raise SessionNotFound
        return row


AnyStore: TypeAlias = SessionStore[Any]
"""The store of either mode."""
