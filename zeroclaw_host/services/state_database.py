"""The database file of durable state: made whole and private, opened only if it is ours, shared with other programs.

Programs that use it at once take turns; how long one waits for its turn is its caller's time. Whatever is wrong with the
file, the system or the key ends as :class:`StateUnavailable`, and nothing is made anew in its place (PLG-159).
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from zeroclaw_host.errors import Remedy, StorageError
from zeroclaw_host.private_database import PrivateDatabase, connect, is_busy
from zeroclaw_host.services.state import Remaining, StateFault
from zeroclaw_host.services.state_schema import SETTINGS, is_ours, make_empty

BUSY_SECONDS: Final = 5.0
"""How long at most an operation waits for other programs."""

_POLL_SECONDS: Final = (0.001, 0.02)
"""Between two attempts: at first, and at most."""

_STEPS_BETWEEN_LOOKS: Final = 100_000
"""Steps of the database's machine between two looks at the clock while a whole file is checked."""


class StateUnavailable(StorageError):
    """Plugins' state cannot be used. ``details`` holds ``path`` and ``reason``, a word: ``link``, ``not_a_file``,
    ``open_to_others``, ``foreign``, ``damaged``, ``key_replaced``, ``busy``, ``revisions_used_up`` or ``failed``. Never says
    what is stored.
    """

    code = "state_unavailable"


@dataclass(slots=True)
class InstanceIndex:
    """The rows of one instance, all found whole: the size of each value by locator, and the highest revision."""

    sizes: dict[bytes, int] = field(default_factory=dict[bytes, int])
    total: int = 0
    highest: int = 0


class Connection:
    """One open database, for one thread at a time.

    ``indexes`` are valid as long as no other connection changed anything.
    """

    def __init__(self, raw: sqlite3.Connection, file: tuple[int, int]) -> None:
        self.raw = raw
        self.file = file
        self.indexes: dict[bytes, InstanceIndex] = {}
        self._version = -1

    def refresh(self) -> None:
        """Forget the indexes if another connection changed something. Inside a transaction."""
        (version,) = self.raw.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self.indexes.clear()
            self._version = version


class StateFile:
    """The database at a path, and the connections to it. For the process that made it: a lock does not pass to a fork.

    :param path: the file; made by :meth:`create` alone.
    :param busy_seconds: how long at most an operation waits for other programs.
    :param now: seconds that only grow. :param sleep: waits so many seconds.
    """

    def __init__(
        self,
        path: Path,
        *,
        busy_seconds: float = BUSY_SECONDS,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.path: Final = path
        self._private = PrivateDatabase(path, "the file of plugins' state", StateUnavailable)
        self._busy_seconds = busy_seconds
        self._now = now
        self._sleep = sleep
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        weakref.finalize(self, _close_all, self._idle)  # for who does not call close
        self._checked: tuple[int, int] | None = None

    @property
    def exists(self) -> bool:
        """Whether anything is in the file's place.

        :raises StateUnavailable: nobody can tell, or the file is gone and left something beside its place: the database
            would take that for the latest part of whatever is put there (PLG-159).
        """
        return self._private.exists

    def close(self) -> None:
        """Close every connection that nobody uses."""
        with self._lock:
            _close_all(self._idle)

    def forget_history(self) -> None:
        """Take what was replaced out of the file beside the database too, as far as nobody is reading there.

        :raises StateUnavailable: the database cannot be used.
        """
        with self.failures():
            self._private.look()
            raw = connect(self.path)
            try:
                raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                raw.close()

    def create(self) -> None:
        """Make an empty database unless there is one. Others find no file, or the whole of it.

        :raises StateUnavailable: it cannot be made.
        """
        self._private.create(make_empty)

    @contextmanager
    def transaction(self, remaining: Remaining, *, writes: bool) -> Generator[Connection]:
        """One transaction on the database, which exists; what the block does is there as a whole, or not at all.

        :param remaining: the time the caller has; what it raises passes through.
        :raises StateUnavailable: the database cannot be used.
        """
        end = self._now() + self._busy_seconds
        with self.failures():
            connection = self._take(remaining, end)
            try:
                self._begin(connection, remaining, end, "BEGIN IMMEDIATE" if writes else "BEGIN")
                connection.refresh()
                yield connection
                connection.raw.execute("COMMIT")
            except StateFault:  # an answer, and nothing was changed
                connection.raw.execute("ROLLBACK")
                self._give_back(connection)
                raise
            except BaseException:
                connection.indexes.clear()
                connection.raw.close()  # rolls back
                raise
        self._give_back(connection)

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            self._idle.append(connection)

    def _begin(self, connection: Connection, remaining: Remaining, end: float, begin: str) -> None:
        def attempt() -> None:
            try:
                connection.raw.execute(begin)
                connection.raw.execute("SELECT 1 FROM plugin_state LIMIT 1").fetchone()
            except sqlite3.OperationalError:
                if connection.raw.in_transaction:
                    connection.raw.execute("ROLLBACK")
                raise

        self._patiently(attempt, remaining, end)

    def _patiently(self, attempt: Callable[[], None], remaining: Remaining, end: float) -> None:
        """Try until no other program is in the way, as long as the caller has time.

        :raises sqlite3.OperationalError: there is no time left, or another program was not the reason.
        """
        pause = _POLL_SECONDS[0]
        while True:
            try:
                return attempt()
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
                left = min(remaining(), end - self._now())
                if left <= 0:
                    raise
            self._sleep(min(pause, left))
            pause = min(2 * pause, _POLL_SECONDS[1])

    def _take(self, remaining: Remaining, end: float) -> Connection:
        """An idle connection to the file that is there now, or a new one."""
        if os.getpid() != self._process:
            raise self.unavailable("failed", "was opened by the process that this one is a fork of")
        file = self._private.look()
        with self._lock:
            if self._idle and self._idle[-1].file != file:
                _close_all(self._idle)
            found = self._idle.pop() if self._idle else None
        return found or self._open(file, remaining, end)

    def _open(self, file: tuple[int, int], remaining: Remaining, end: float) -> Connection:
        raw = connect(self.path)

        def attempt() -> None:
            raw.executescript(SETTINGS)
            self._recognise(raw, file, remaining)

        try:
            self._patiently(attempt, remaining, end)
            if self._private.look() != file:
                raise self.unavailable("failed", "was replaced while it was opened")
        except BaseException:
            raw.close()
            raise
        return Connection(raw, file)

    def _recognise(self, raw: sqlite3.Connection, file: tuple[int, int], remaining: Remaining) -> None:
        """Refuse a database that another program made; look once at the whole of each file."""
        if not is_ours(raw):
            raise self.unavailable("foreign", "is no database of this program and version")
        (mode,) = raw.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            (mode,) = raw.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise self.unavailable("failed", "cannot be used by several programs at once here")
        if self._checked == file:
            return
        raw.set_progress_handler(lambda: remaining() <= 0, _STEPS_BETWEEN_LOOKS)
        try:
            found = raw.execute("PRAGMA integrity_check(1)").fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                remaining()  # which raises
            raise
        finally:
            raw.set_progress_handler(None, 0)
        if found != [("ok",)]:
            raise self.unavailable("damaged", "is damaged")
        self._checked = file

    @contextmanager
    def failures(self) -> Generator[None]:
        """Turn what the system and the database say into our errors; their own words name files and nothing stored.

        :raises StateUnavailable: for every :class:`OSError` and :class:`sqlite3.Error` of the block.
        """
        with self._private.failures():
            yield

    def unavailable(
        self, reason: str, what: str, path: Path | None = None, remedy: Remedy | None = None
    ) -> StorageError:
        """The error that says what is wrong with the file."""
        return self._private.unavailable(reason, what, path, remedy)


def _close_all(connections: list[Connection]) -> None:
    while connections:
        connections.pop().raw.close()
