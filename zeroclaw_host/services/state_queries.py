"""What is asked of the database of durable state as a whole: inside one transaction each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.services.install_key import InstallKey
from zeroclaw_host.services.state_database import Connection
from zeroclaw_host.services.state_rows import (
    Row,
    RowBroken,
    floor_owner,
    mark_owner,
    misplaced_record_of,
    owner_of,
    record_of,
    row_of,
)

SELECT_ROWS: Final = "SELECT owner, locator, ciphertext FROM plugin_state"
"""The columns of a :class:`Row`."""

SELECT_REVISIONS: Final = "SELECT owner, last_revision FROM plugin_state_revisions"


@dataclass(frozen=True, slots=True)
class Usage:
    """How much one instance keeps: entries, bytes of values, and the last revision it was given."""

    instance: InstanceIdentity
    entries: int
    value_bytes: int
    last_revision: int


@dataclass(frozen=True, slots=True)
class Usages:
    """What a database holds: by instance, and how many rows, of entries or of revisions, nobody can read."""

    instances: tuple[Usage, ...]
    unreadable: int


def last_revision(connection: Connection, owner: bytes) -> int:
    """The highest revision an instance was ever given, by its blind name; 0 without any.

    :raises RowBroken: the column holds something else.
    """
    found = connection.raw.execute(
        "SELECT last_revision FROM plugin_state_revisions WHERE owner = ?", (owner,)
    ).fetchone()
    if found is None:
        return 0
    if type(found[0]) is not int:
        raise RowBroken
    return int(found[0])


def key_in_force(connection: Connection, ring: InstallKey) -> InstallKey:
    """Of a key and the one it is about to replace, that which the database is sealed with at this moment.

    Inside a transaction: a rotation changes all of it in one.
    """
    former = ring.former
    if former is None:
        return ring
    found = connection.raw.execute("SELECT ciphertext FROM plugin_state LIMIT 1").fetchone()
    if found is not None:
        mine = isinstance(found[0], str) and ring.sealed_this(found[0])
    else:  # then the revisions are all there is, and they are named with the one or the other
        (revisions,) = connection.raw.execute("SELECT count(*) FROM plugin_state_revisions").fetchone()
        mine = revisions == 0 or last_revision(connection, mark_owner(ring)) > 0
    return ring if mine else former


def mark(connection: Connection, key: InstallKey) -> None:
    """Say that revisions are named with this key, for :func:`key_in_force` to find."""
    connection.raw.execute(
        "INSERT OR IGNORE INTO plugin_state_revisions (owner, last_revision) VALUES (?, 1)",
        (mark_owner(key),),
    )


def usage_of(connection: Connection, install: InstallKey) -> Usages:
    """How much each instance keeps."""
    counted: dict[InstanceIdentity, list[int]] = {}
    unreadable = 0
    for found in connection.raw.execute(SELECT_ROWS):
        try:
            record = record_of(install, Row(*found))
        except RowBroken:
            unreadable += 1
            continue
        sizes = counted.setdefault(record.instance, [])
        sizes.append(len(record.value))
    last: dict[object, int] = {}
    for owner, revision in connection.raw.execute(SELECT_REVISIONS):
        if type(revision) is int:
            last[owner] = revision
        else:
            unreadable += 1
    return Usages(
        tuple(
            Usage(instance, len(sizes), sum(sizes), last.get(owner_of(install, instance), 0))
            for instance, sizes in sorted(counted.items())
        ),
        unreadable,
    )


def erase_instance(connection: Connection, install: InstallKey, instance: InstanceIdentity) -> int:
    """Delete the rows of an instance, damaged and misplaced ones among them; how many that were.

    :raises RowBroken: no row at all can be read, so nobody knows whose they are.
    """
    raw = connection.raw
    owner = owner_of(install, instance)
    doomed: list[object] = []
    readable = 0
    rows = [Row(*found) for found in raw.execute(SELECT_ROWS)]
    for row in rows:
        try:
            whose = misplaced_record_of(install, row).instance
        except RowBroken:
            if row.owner == owner:
                doomed.append(row.locator)
            continue
        readable += 1
        if whose == instance:
            doomed.append(row.locator)
    if rows and not readable and not doomed:
        raise RowBroken
    for locator in doomed:
        if isinstance(locator, str):  # of a damaged row, and perhaps no text
            raw.execute(
                "DELETE FROM plugin_state WHERE typeof(locator) = 'text' AND CAST(locator AS BLOB) = ?",
                (locator.encode(errors="surrogateescape"),),
            )
        else:
            raw.execute("DELETE FROM plugin_state WHERE locator = ?", (locator,))
    return len(doomed)


def renew(connection: Connection, former: InstallKey, key: InstallKey) -> None:
    """Everything that is sealed and named with ``former``, sealed and named with ``key``.

    :raises RowBroken: a row is damaged.
    """
    raw = connection.raw
    records = [record_of(former, Row(*found)) for found in raw.execute(SELECT_ROWS)]
    owners = {owner_of(former, record.instance): record.instance for record in records}
    floor = 0
    last: dict[InstanceIdentity, int] = {}
    for owner, revision in raw.execute(SELECT_REVISIONS).fetchall():
        if type(revision) is not int:
            raise RowBroken
        if owner in owners:
            last[owners[owner]] = revision
        elif owner != mark_owner(former):
            floor = max(floor, revision)
    raw.execute("DELETE FROM plugin_state")
    raw.execute("DELETE FROM plugin_state_revisions")
    for record in records:
        row = row_of(key, record)
        raw.execute(
            "INSERT INTO plugin_state (owner, locator, ciphertext) VALUES (?, ?, ?)",
            (row.owner, row.locator, row.ciphertext),
        )
    named = [(owner_of(key, instance), revision) for instance, revision in last.items()]
    if floor:
        named.append((floor_owner(key), floor))
    raw.executemany("INSERT INTO plugin_state_revisions (owner, last_revision) VALUES (?, ?)", named)
    mark(connection, key)
