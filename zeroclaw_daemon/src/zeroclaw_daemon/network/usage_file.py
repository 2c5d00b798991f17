"""The file of the ledger of what plugin instances used of the network.

A database that several daemons may write and commands read at once. A process that is killed leaves what it had written, whole.
What is kept of an instance is bounded by :data:`KEPT`, whatever hosts its plugin makes up; permitted and refused requests have
bounds of their own, so that neither pushes the other out.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import stat
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote

from zeroclaw_daemon.network.usage import SEVERAL, Key, Outcome, Tally, UsedDestination, added_up
from zeroclaw_host.errors import NO_SPACE, Remedy, RemedyAction, StorageError
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.private_files import create, make_private, sync_directory

KEPT: Final[Mapping[Outcome, int]] = {
    Outcome.OPENED: 1000,
    Outcome.FAILED: 250,
    Outcome.LIMITED: 250,
    Outcome.REFUSED: 500,
}
"""Destinations of one instance that are kept singly: more than a person reads, and less than half a mebibyte in all."""

BUSY_SECONDS: Final = 5.0
"""How long to wait for another program that writes."""

_VERSION: Final = 1
_COLUMNS: Final = (
    "instance", "outcome", "transport", "host", "port", "tls_profile", "reason",
    "count", "sent", "received", "addresses", "private", "rule", "first", "last",
)  # fmt: skip
_SCHEMA: Final = f"""
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE used (
    instance TEXT NOT NULL,
    outcome TEXT NOT NULL,
    transport TEXT NOT NULL,
    host TEXT NOT NULL,
    port INTEGER NOT NULL,
    tls_profile TEXT NOT NULL,
    reason TEXT NOT NULL,
    count INTEGER NOT NULL,
    sent INTEGER NOT NULL,
    received INTEGER NOT NULL,
    addresses TEXT NOT NULL,
    private INTEGER NOT NULL,
    rule TEXT NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (instance, outcome, transport, host, port, tls_profile, reason)
) WITHOUT ROWID;
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_SETTINGS: Final = """
PRAGMA synchronous = NORMAL;
PRAGMA trusted_schema = OFF;
PRAGMA cell_size_check = ON;
"""
"""A machine that stops may take the last moments with it, and leaves the rest whole: no call waits for a disk."""

_SIDE_FILES: Final = ("-wal", "-shm", "-journal")
"""What the database keeps beside its file, by the end of its name."""


class UsageUnavailable(StorageError):
    """The ledger of what plugins used of the network cannot be read or written. Plugins go on without it.

    ``details`` holds ``path``.
    """

    code = "egress_usage_unavailable"


class _RowBroken(Exception):
    """A row holds what was never written there."""


class UsageFile:
    """The database, for one thread at a time. It is made when there is first something to write.

    :param kept: destinations of one instance that are kept singly.
    """

    def __init__(self, path: Path, *, kept: Mapping[Outcome, int] = KEPT) -> None:
        self.path: Final = path
        self._kept = kept
        self._open: tuple[sqlite3.Connection, tuple[int, int]] | None = None

    def add(self, tallies: Mapping[Key, Tally]) -> None:
        """Count all of it in, or nothing.

        :raises UsageUnavailable: it could not be written.
        """
        with self._failures():
            if not self._exists():
                self.close()
                self._create()
            raw = self._connection()
            raw.execute("BEGIN IMMEDIATE")
            for key, tally in tallies.items():
                _count(raw, key, tally)
            for instance, outcome in {(key.instance, key.outcome) for key in tallies}:
                self._shorten(raw, instance, outcome)
            raw.execute("COMMIT")

    def read(self, identity: InstanceIdentity) -> tuple[UsedDestination, ...]:
        """See :func:`read_usage`."""
        with self._failures():
            if not self._exists():
                return ()
            raw = self._connection()
            rows = raw.execute(
                f"SELECT {', '.join(_COLUMNS)} FROM used WHERE instance = ? ORDER BY last DESC, host, port",
                (identity.key,),
            ).fetchall()
            return tuple(_destination(*_of_row(row)) for row in rows)

    def close(self) -> None:
        """Let go of the file. It is opened again at its next use."""
        opened, self._open = self._open, None
        if opened is not None:
            opened[0].close()

    def _shorten(self, raw: sqlite3.Connection, instance: str, outcome: Outcome) -> None:
        """Add up the destinations that were not used for longest, where there are too many."""
        where = "WHERE instance = ? AND outcome = ? AND port <> ?"
        named = (instance, outcome.value, SEVERAL)
        (found,) = raw.execute(f"SELECT count(*) FROM used {where}", named).fetchone()
        excess = found - self._kept[outcome]
        if excess <= 0:
            return
        columns = ", ".join(_COLUMNS)
        oldest = raw.execute(
            f"SELECT {columns} FROM used {where} ORDER BY last, first LIMIT ?", (*named, excess)
        ).fetchall()
        for row in oldest:
            key, tally = _of_row(row)
            raw.execute(f"DELETE FROM used WHERE {_THIS}", key)
            _count(raw, added_up(key, tally), tally)

    def _connection(self) -> sqlite3.Connection:
        """The open database of the file that is there now."""
        file = self._look()
        if self._open is not None:
            if self._open[1] == file:
                return self._open[0]
            self.close()
        raw = sqlite3.connect(
            f"file:{quote(str(self.path))}?mode=rw",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            raw.text_factory = _text
            raw.executescript(_SETTINGS)
            self._recognise(raw)
        except BaseException:
            raw.close()
            raise
        self._open = raw, file
        return raw

    def _recognise(self, raw: sqlite3.Connection) -> None:
        (version,) = raw.execute("PRAGMA user_version").fetchone()
        columns = tuple(row[1] for row in raw.execute("PRAGMA table_info(used)"))
        if version != _VERSION or columns != _COLUMNS:
            raise self._unavailable("is no ledger of this program and version", left=self.path)
        if raw.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
            raise self._unavailable("is damaged", left=self.path)

    def _exists(self) -> bool:
        """Whether there is a file.

        :raises UsageUnavailable: it is gone and left something beside its place, which the database would take for the latest
            part of whatever is put there.
        """
        if _is_there(self.path):
            return True
        for suffix in _SIDE_FILES:
            beside = self.path.with_name(self.path.name + suffix)
            if _is_there(beside) and not _is_there(self.path):
                raise self._unavailable("is gone, and what belongs to it is not", left=beside)
        return _is_there(self.path)

    def _look(self) -> tuple[int, int]:
        """The file that is there, and that nobody else can have written it."""
        found = os.lstat(self.path)
        if not stat.S_ISREG(found.st_mode):
            raise self._unavailable("is not a regular file", left=self.path)
        if found.st_mode & 0o077:
            raise self._unavailable(
                "can be read or written by others than its owner",
                Remedy(RemedyAction.RESTRICT_FILE, {"path": str(self.path)}),
            )
        return found.st_dev, found.st_ino

    def _create(self) -> None:
        """Make an empty database unless there is one by now. Others find no file, or the whole of it."""
        make_private(self.path.parent)
        temporary = self.path.with_name(f"{self.path.name}-{secrets.token_hex(8)}.partial")
        try:
            os.close(create(temporary))
            with closing(sqlite3.connect(temporary, isolation_level=None)) as raw:
                raw.executescript(_SCHEMA)
            os.link(temporary, self.path)
        except (OSError, sqlite3.Error):
            # Somebody who was quicker sweeps files like this one away, at any moment; then his is the one.
            if not _is_there(self.path):
                raise
        finally:
            for left in self.path.parent.glob(f"{self.path.name}-*.partial*"):
                with suppress(OSError):
                    left.unlink()
        sync_directory(self.path.parent)

    @contextmanager
    def _failures(self) -> Generator[None]:
        """Turn what the system and the database say into our error, and begin anew with the file at its next use."""
        try:
            yield
        except OSError as error:
            self.close()
            full = error.errno in NO_SPACE
            said = (error.strerror or type(error).__name__).lower()
            raise self._unavailable(
                f"cannot be used: {said}", self._free_space() if full else None
            ) from error
        except sqlite3.Error as error:
            self.close()
            raise self._of_database(error) from error
        except _RowBroken as error:
            self.close()
            raise self._unavailable("is damaged", left=self.path) from error
        except UsageUnavailable:
            self.close()
            raise

    def _of_database(self, error: sqlite3.Error) -> UsageUnavailable:
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return self._unavailable("has been in use by another program for too long")
            case sqlite3.SQLITE_NOTADB:
                return self._unavailable("is no database", left=self.path)
            case sqlite3.SQLITE_CORRUPT:
                return self._unavailable("is damaged", left=self.path)
            case sqlite3.SQLITE_FULL:
                return self._unavailable("cannot be written: the disk is full", self._free_space())
            case _:
                return self._unavailable(f"cannot be used: {error}")

    def _free_space(self) -> Remedy:
        return Remedy(RemedyAction.FREE_SPACE, {"path": str(self.path)})

    def _unavailable(
        self, what: str, remedy: Remedy | None = None, *, left: Path | None = None
    ) -> UsageUnavailable:
        """The error that says what is wrong; ``left`` is what somebody has to look at, and take away."""
        if left is not None:
            remedy = Remedy(RemedyAction.CLEAR_BY_HAND, {"path": str(left)})
        return UsageUnavailable(
            f"the ledger of what plugins used of the network {what} ({left or self.path})",
            remedy=remedy,
            details={"path": str(self.path)},
        )


def read_usage(path: Path, identity: InstanceIdentity) -> tuple[UsedDestination, ...]:
    """What one instance used, the latest first. Nothing where there is no file. Daemons may be writing meanwhile.

    :raises UsageUnavailable: the file cannot be read, is damaged, or is none of ours.
    """
    with closing(UsageFile(path)) as file:
        return file.read(identity)


def _is_there(path: Path) -> bool:
    """Whether anything has this name, be it a link to nowhere."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


_THIS: Final = " AND ".join(f"{column} = ?" for column in Key._fields)


def _count(raw: sqlite3.Connection, key: Key, tally: Tally) -> None:
    """Count something in, under its key."""
    columns = ", ".join(_COLUMNS)
    row = raw.execute(f"SELECT {columns} FROM used WHERE {_THIS}", key).fetchone()
    if row is not None:
        _, known = _of_row(row)
        known.add(tally)
        tally = known
    raw.execute(
        f"INSERT OR REPLACE INTO used ({columns}) VALUES ({', '.join('?' * len(_COLUMNS))})",
        (
            *key,
            tally.count, tally.sent, tally.received, json.dumps(tally.addresses), tally.private, tally.rule,
            tally.first, tally.last,
        ),
    )  # fmt: skip


def _of_row(row: tuple[object, ...]) -> tuple[Key, Tally]:
    """:raises _RowBroken: no row of ours has these values."""
    match row:
        case (
            str() as instance, str() as outcome, str() as transport, str() as host, int() as port,
            str() as tls_profile, str() as reason, int() as count, int() as sent, int() as received,
            str() as addresses, int() as private, str() as rule, int() as first, int() as last,
        ):  # fmt: skip
            pass
        case _:
            raise _RowBroken
    try:
        key = Key(instance, Outcome(outcome), transport, host, port, tls_profile, reason)
        texts: object = json.loads(addresses)
    except (ValueError, RecursionError) as error:
        raise _RowBroken from error
    if not isinstance(texts, list):
        raise _RowBroken
    shown = tuple(map(str, cast("list[object]", texts)))
    return key, Tally(count, sent, received, shown, bool(private), rule, first, last)


def _text(data: bytes) -> str:
    """Bytes that are no text are a damaged row; the library's own error would quote them."""
    return data.decode(errors="replace")


def _destination(key: Key, tally: Tally) -> UsedDestination:
    return UsedDestination(
        transport=key.transport,
        host=key.host or None,
        port=None if key.port == SEVERAL else key.port,
        tls_profile=key.tls_profile or None,
        outcome=key.outcome,
        reason=key.reason or None,
        rule=tally.rule or None,
        count=tally.count,
        bytes_sent=tally.sent,
        bytes_received=tally.received,
        addresses=tally.addresses,
        private=tally.private,
        first=_moment(tally.first),
        last=_moment(tally.last),
    )


def _moment(milliseconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise _RowBroken from error
