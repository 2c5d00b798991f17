"""The file of the ledger of what plugin instances used of the network.

A database that several daemons may write and commands read at once. A process that is killed leaves what it had written, whole.
What is kept of an instance is bounded by :data:`KEPT`, whatever hosts its plugin makes up; permitted and refused requests have
bounds of their own, so that neither pushes the other out.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

from zeroclaw_daemon.network.usage import SEVERAL, Key, Outcome, Tally, UsedDestination, added_up
from zeroclaw_host.errors import StorageError
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.private_database import Identity, PrivateDatabase, connect, make_with

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


class UsageUnavailable(StorageError):
    """The ledger of what plugins used of the network cannot be read or written. Plugins go on without it.

    ``details`` holds ``path`` and ``reason``, as of :class:`~zeroclaw_host.private_database.PrivateDatabase`.
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
        self._private = PrivateDatabase(
            path, "the ledger of what plugins used of the network", UsageUnavailable, expendable=True
        )
        self._kept = kept
        self._open: tuple[sqlite3.Connection, Identity] | None = None

    def add(self, tallies: Mapping[Key, Tally]) -> None:
        """Count all of it in, or nothing.

        :raises UsageUnavailable: it could not be written.
        """
        with self._failures():
            if not self._private.exists:
                self.close()
                self._private.create(lambda temporary: make_with(temporary, _SCHEMA))
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
            if not self._private.exists:
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
        file = self._private.look()
        if self._open is not None:
            if self._open[1] == file:
                return self._open[0]
            self.close()
        raw = connect(self.path, busy_seconds=BUSY_SECONDS)
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
            raise self._private.foreign("is no ledger of this program and version")
        if raw.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
            raise self._private.damaged()

    @contextmanager
    def _failures(self) -> Generator[None]:
        """Have whatever is wrong end as our error, and begin anew with the file at its next use."""
        try:
            with self._private.failures():
                yield
        except _RowBroken as error:
            self.close()
            raise self._private.damaged() from error
        except UsageUnavailable:
            self.close()
            raise


def read_usage(path: Path, identity: InstanceIdentity) -> tuple[UsedDestination, ...]:
    """What one instance used, the latest first. Nothing where there is no file. Daemons may be writing meanwhile.

    :raises UsageUnavailable: the file cannot be read, is damaged, or is none of ours.
    """
    with closing(UsageFile(path)) as file:
        return file.read(identity)


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
