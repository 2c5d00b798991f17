"""A database file of sessions and its transactions.

A connection can write only inside :meth:`SessionFile.write`, which wants a name for it: a write without one is refused by the
database itself.
"""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from zeroclaw_daemon.sessions.store.layout import Layout
from zeroclaw_daemon.sessions.store.points import Phase, StoreSteps, WritePoint
from zeroclaw_daemon.sessions.store.records import RowBroken
from zeroclaw_host.errors import Remedy, RemedyAction, StorageError, ZeroclawError
from zeroclaw_host.private_database import Identity, PrivateDatabase

BUSY_SECONDS: Final = 5.0
"""How long a transaction waits for another program."""

MAX_LOG_BYTES: Final = 16 * 1024 * 1024
"""What the log beside the database is cut to once all of it is in the database: twice the longest line of the protocol, so that
one long prompt after the other does not make and cut it again and again. A transaction that is larger has a larger log while it
lasts.
"""

MAX_REBUILT_BYTES: Final = 32 * 1024 * 1024
"""What a database may hold to be written anew after something is deleted: it is read and written once, in memory and on the disk,
while those that write wait. That is a part of a second for so much.
"""

_SETTINGS: Final = f"""
PRAGMA journal_mode = WAL;
PRAGMA journal_size_limit = {MAX_LOG_BYTES};
PRAGMA synchronous = NORMAL;
PRAGMA foreign_keys = ON;
PRAGMA temp_store = MEMORY;
PRAGMA secure_delete = ON;
PRAGMA trusted_schema = OFF;
PRAGMA cell_size_check = ON;
PRAGMA query_only = ON;
"""
"""A process that is killed loses nothing; a machine that stops may take the last moments with it and leaves the rest whole. No
chunk of an answer waits for a disk. What is deleted is overwritten in the database; for the log beside it see
:meth:`SessionFile.write`."""


class SessionsUnavailable(StorageError):
    """The durable sessions cannot be read or written. ``details`` holds ``path`` and ``reason``, a word: ``link``,
    ``not_a_file``, ``open_to_others``, ``foreign``, ``newer``, ``damaged``, ``busy`` or ``failed``. Never says what is stored.
    """

    code = "sessions_unavailable"


class SessionFile:
    """The database, for any thread: one writes at a time, and those that read do not wait for it.

    The file is made at its first use. Nothing is made in the place of one that cannot be used.

    :param layout: how it is laid out.
    :param busy_seconds: how long a transaction waits for another program.
    :param max_rebuilt: bytes that it may hold to be written anew after something is deleted.
    """

    def __init__(
        self,
        path: Path,
        layout: Layout,
        *,
        busy_seconds: float = BUSY_SECONDS,
        steps: StoreSteps | None = None,
        max_rebuilt: int = MAX_REBUILT_BYTES,
    ) -> None:
        self.path: Final = path
        self._layout = layout
        self._private = PrivateDatabase(path, "the file of durable sessions", SessionsUnavailable)
        self._busy_seconds = busy_seconds
        self._max_rebuilt = max_rebuilt
        self._steps = steps or StoreSteps()
        self._writing = threading.RLock()
        # Of what is deleted, as far as is known: who deleted last may have been killed.
        self._log_tells = True
        self._lock = threading.Lock()
        self._idle: list[tuple[sqlite3.Connection, Identity]] = []
        weakref.finalize(self, _close_all, self._idle)  # for who does not call close
        self._checked: Identity | None = None

    def close(self) -> None:
        """Close every connection that nobody uses. A later use opens the file again."""
        with self._lock:
            _close_all(self._idle)

    @contextmanager
    def read(self) -> Generator[sqlite3.Connection]:
        """A look at one moment of the database.

        :raises SessionsUnavailable: it cannot be used.
        """
        with self._failures(), self._connection() as raw:
            raw.execute("BEGIN")
            yield raw
            raw.execute("COMMIT")

    @contextmanager
    def write(self, point: WritePoint) -> Generator[sqlite3.Connection]:
        """One transaction; what the block does is there as a whole, or not at all.

        After one that deletes a session, the database is written anew, because SQLite leaves copies of rows in pages that it
        balances, and the log is emptied, because it has every page as it was before. Of a database that holds more than
        :data:`MAX_REBUILT_BYTES`, parts of a page can be left. Where somebody still reads what was there before, the log is
        emptied by whoever uses the database next.

        :param point: what it is for.
        :raises SessionsUnavailable: the database cannot be used. Where the commit itself failed nobody can tell whether it is
            there; whoever goes on reads it again.
        """
        with self._failures(), self._writing, self._connection() as raw:
            self._log_tells = self._log_tells or point is WritePoint.SESSION_DELETED
            with self._transaction(raw, point):
                yield raw
            if point is WritePoint.SESSION_DELETED:
                self._rebuild(raw)

    @contextmanager
    def _transaction(self, raw: sqlite3.Connection, point: WritePoint) -> Generator[None]:
        raw.execute("PRAGMA query_only = OFF")
        raw.execute("BEGIN IMMEDIATE")
        self._steps.reached(point, Phase.BEGUN)
        yield
        self._steps.reached(point, Phase.WRITTEN)
        raw.execute("COMMIT")
        raw.execute("PRAGMA query_only = ON")
        self._steps.reached(point, Phase.COMMITTED)

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        raw, file = self._take()
        try:
            yield raw
        except ZeroclawError:  # an answer, and nothing was changed
            if raw.in_transaction:
                raw.execute("ROLLBACK")
            raw.execute("PRAGMA query_only = ON")
            self._give_back(raw, file)
            raise
        except BaseException:
            raw.close()  # rolls back
            raise
        self._give_back(raw, file)

    def _give_back(self, raw: sqlite3.Connection, file: Identity) -> None:
        if self._log_tells and self._writing.acquire(blocking=False):  # who writes does it himself afterwards
            try:
                self._log_tells = not self._emptied_log(raw)
            finally:
                self._writing.release()
        with self._lock:
            self._idle.append((raw, file))

    def _rebuild(self, raw: sqlite3.Connection) -> None:
        """Write the database anew, unless it is large."""
        with self._not_waiting(raw):
            pages, unused, size = (
                raw.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
            if (pages - unused) * size <= self._max_rebuilt:
                raw.execute("PRAGMA query_only = OFF")
                raw.execute("VACUUM")
        raw.execute("PRAGMA query_only = ON")

    def _emptied_log(self, raw: sqlite3.Connection) -> bool:
        """Empty the log; whether it is empty."""
        busy = True
        with self._not_waiting(raw):
            (busy, *_) = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    @contextmanager
    def _not_waiting(self, raw: sqlite3.Connection) -> Generator[None]:
        """Tidy up after a transaction, as far as that can be done without waiting for anybody. The transaction is over and its
        caller is to hear so: a disk that fails now is met by the next one.
        """
        raw.execute("PRAGMA busy_timeout = 0")
        with suppress(sqlite3.Error):
            yield
        raw.execute(f"PRAGMA busy_timeout = {round(self._busy_seconds * 1000)}")

    def _take(self) -> tuple[sqlite3.Connection, Identity]:
        """An idle connection to the file that is there now, or a new one."""
        if not self._private.exists:
            self._private.create(self._layout.make_empty)
        file = self._private.look()
        with self._lock:
            if self._idle and self._idle[-1][1] != file:
                _close_all(self._idle)
            found = self._idle.pop() if self._idle else None
        return found or (self._open(file), file)

    def _open(self, file: Identity) -> sqlite3.Connection:
        raw = self._steps.connect(self.path, self._busy_seconds)
        try:
            raw.text_factory = _text
            raw.executescript(_SETTINGS)
            self._recognise(raw, file)
            if self._private.look() != file:
                raise self._private.unavailable("failed", "was replaced while it was opened")
        except BaseException:
            raw.close()
            raise
        return raw

    def _recognise(self, raw: sqlite3.Connection, file: Identity) -> None:
        """Refuse a database of something else; look once at the whole of each file; bring an earlier layout to this one."""
        version = self._layout.version_of(raw)
        if version is None:
            raise self._private.unavailable("foreign", "is no database of this program", remedy=self._by_hand)
        if version > self._layout.version:
            raise self._private.unavailable("newer", "was made by a later release")
        if self._checked != file:
            if raw.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
                raise self._damaged()
            self._checked = file
        if version < self._layout.version:
            with self._transaction(raw, WritePoint.MIGRATED):
                self._layout.migrate(raw)

    @contextmanager
    def _failures(self) -> Generator[None]:
        with self._private.failures():
            try:
                yield
            except RowBroken as error:
                raise self._damaged() from error

    def _damaged(self) -> StorageError:
        return self._private.unavailable("damaged", "is damaged", remedy=self._by_hand)

    @property
    def _by_hand(self) -> Remedy:
        return Remedy(RemedyAction.CLEAR_BY_HAND, {"path": str(self.path)})


def _close_all(connections: list[tuple[sqlite3.Connection, Identity]]) -> None:
    while connections:
        connections.pop()[0].close()


def _text(data: bytes) -> str:
    """Text as it was put in, lone surrogates too; the library's own error would quote what is none."""
    try:
        return data.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return data.decode(errors="surrogateescape")
