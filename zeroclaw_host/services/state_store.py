"""Durable state in a database file: what a plugin keeps between its calls, its host's restarts and its own updates.

Each entry belongs to one instance (package, capability, binding) and can be read by nobody else, nor without the
installation's key (PLG-009, PLG-154, PLG-157). Whatever cannot be trusted is ``unavailable`` (PLG-159).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from zeroclaw_host.errors import StorageError
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.services.install_key import InstallKey
from zeroclaw_host.services.sealing import KeyFile
from zeroclaw_host.services.state import (
    MAX_ENTRIES,
    MAX_TOTAL_BYTES,
    MAX_VALUE_BYTES,
    Remaining,
    StateEntry,
    StateFault,
    is_key,
    no_deadline,
)
from zeroclaw_host.services.state_database import Connection, InstanceIndex, StateFile
from zeroclaw_host.services.state_queries import (
    SELECT_ROWS,
    Usages,
    erase_instance,
    key_in_force,
    last_revision,
    mark,
    renew,
    usage_of,
)
from zeroclaw_host.services.state_rows import (
    MAX_REVISION,
    Record,
    Row,
    RowBroken,
    floor_owner,
    locator_of,
    misplaced_record_of,
    owner_of,
    record_of,
    row_of,
)

_KEPT_INDEXES: Final = 128
"""Instances whose rows a connection need not look through again."""

_ATTEMPTS: Final = 3
"""A key that is replaced between a look at the rows and a look at the key is met at the next attempt."""


Result = TypeVar("Result")

logger = logging.getLogger(__name__)


def log_fault(error: StorageError) -> None:
    """Say in Python's log why state is not available."""
    logger.error("%s", error.message)


class DurableState:
    """The durable state of all instances, as :class:`~zeroclaw_host.services.state.StateStore`.

    Nothing is made before the first value is put: neither the file nor a key. Several threads and several programs may use
    one file.

    :param path: the database; it and what lies beside it can be read by their owner alone.
    :param key_file: the key it is sealed with.
    :param report: told why state is not available, once until that works again: reading, or writing.
    """

    def __init__(
        self,
        path: Path,
        key_file: KeyFile,
        *,
        report: Callable[[StorageError], None] = log_fault,
        file: StateFile | None = None,
    ) -> None:
        self._file = file or StateFile(path)
        self._key_file = key_file
        self._report = report
        self._reported: dict[str, bool] = {}
        """What was told, and whether it was about writing."""

    def close(self) -> None:
        """Close the database. A later use opens it again."""
        self._file.close()

    @property
    def exists(self) -> bool:
        """Whether there is a database.

        :raises StorageError: nobody can tell.
        """
        return self._file.exists

    # --- for guests -----------------------------------------------------------------------------------------------------

    def get(
        self, instance: InstanceIdentity, key: str, *, remaining: Remaining = no_deadline
    ) -> StateEntry | None:
        """The entry under the key, or None. Makes nothing.

        :raises StateFault: ``invalid-key``; ``unavailable``.
        """
        _check_key(key)

        def read(connection: Connection, install: InstallKey) -> StateEntry | None:
            found = self._find(connection, install, instance, key)
            return None if found is None else StateEntry(found.value, found.revision)

        if not self._answer(lambda: self._file.exists, writes=False):
            return None
        return self._answer(lambda: self._attempt(read, remaining, writes=False), writes=False)

    def put(
        self,
        instance: InstanceIdentity,
        key: str,
        value: bytes,
        expected_revision: int | None,
        *,
        remaining: Remaining = no_deadline,
    ) -> int:
        """Write if the key is at the expected revision (None: absent); the new revision, greater than every earlier one of
        this instance (PLG-156, PLG-158).

        :raises StateFault: ``invalid-key``; ``quota-exceeded`` for a value that is too large; ``unavailable``; ``conflict``;
            ``quota-exceeded`` for too many entries or bytes. Then everything is as it was.
        """
        _check_key(key)
        if len(value) > MAX_VALUE_BYTES:
            raise StateFault("quota-exceeded")

        def write(connection: Connection, install: InstallKey) -> int:
            return self._put(connection, install, instance, key, value, expected_revision)

        if not self._answer(lambda: self._file.exists, writes=True):
            if expected_revision is not None:
                raise StateFault("conflict")
            self._answer(self._create, writes=True)
        return self._answer(lambda: self._attempt(write, remaining, writes=True), writes=True)

    def delete(
        self,
        instance: InstanceIdentity,
        key: str,
        expected_revision: int,
        *,
        remaining: Remaining = no_deadline,
    ) -> None:
        """Delete if the key is at the expected revision. Makes nothing.

        :raises StateFault: ``invalid-key``; ``unavailable``; ``not-found``; ``conflict``. Then everything is as it was.
        """
        _check_key(key)

        def erase(connection: Connection, install: InstallKey) -> None:
            found = self._find(connection, install, instance, key)
            if found is None:
                raise StateFault("not-found")
            if found.revision != expected_revision:
                raise StateFault("conflict")
            owner = owner_of(install, instance)
            locator = locator_of(install, owner, key)
            connection.raw.execute("DELETE FROM plugin_state WHERE locator = ?", (locator,))
            index = connection.indexes[owner]
            index.total -= index.sizes.pop(locator)

        if not self._answer(lambda: self._file.exists, writes=True):
            raise StateFault("not-found")
        self._answer(lambda: self._attempt(erase, remaining, writes=True), writes=True)

    # --- for operators --------------------------------------------------------------------------------------------------

    def usage(self, *, remaining: Remaining = no_deadline) -> Usages:
        """How much each instance keeps; no key and no value is told.

        :raises StorageError: the database or the key cannot be used.
        """
        if not self._file.exists:
            return Usages((), 0)
        return self._attempt(usage_of, remaining, writes=False)

    def clear(self, instance: InstanceIdentity, *, remaining: Remaining = no_deadline) -> int:
        """Delete everything one instance keeps; how many entries that were. Its revisions go on from where they were.

        :raises StorageError: the database or the key cannot be used; nothing was deleted.
        """

        def erase(connection: Connection, install: InstallKey) -> int:
            connection.indexes.clear()
            return erase_instance(connection, install, instance)

        if not self._file.exists:
            return 0
        return self._attempt(erase, remaining, writes=True)

    def rekey(self, *, remaining: Remaining = no_deadline) -> int:
        """Seal every row with the key that a rotation is about to put in force, and name it anew, in one transaction.

        Nothing happens when no rotation is under way, or when it is done already. Revisions of instances that keep nothing
        cannot be named anew: from then on no instance is given a number that one of them had.

        :returns: how many rows there are.
        :raises StorageError: the database or a key cannot be used, or a row is damaged; everything is as it was.
        """
        if not self._file.exists:
            return 0
        with self._file.transaction(remaining, writes=True) as connection:
            ring = self._key_file.read()
            whole = True
            try:
                if ring.former is not None and not key_in_force(connection, ring).same_as(ring):
                    renew(connection, ring.former, ring)
            except RowBroken:
                whole = False
            if not whole:
                raise self._broken()
            (rows,) = connection.raw.execute("SELECT count(*) FROM plugin_state").fetchone()
            connection.indexes.clear()
        self._file.forget_history()
        return int(rows)

    # --- inside a transaction -------------------------------------------------------------------------------------------

    def _put(
        self,
        connection: Connection,
        install: InstallKey,
        instance: InstanceIdentity,
        key: str,
        value: bytes,
        expected: int | None,
    ) -> int:
        found = self._find(connection, install, instance, key)
        if (None if found is None else found.revision) != expected:
            raise StateFault("conflict")
        owner = owner_of(install, instance)
        index = connection.indexes[owner]
        total = index.total + len(value) - (0 if found is None else len(found.value))
        if (found is None and len(index.sizes) >= MAX_ENTRIES) or total > MAX_TOTAL_BYTES:
            raise StateFault("quota-exceeded")
        last = max(last_revision(connection, owner), last_revision(connection, floor_owner(install)))
        if last >= MAX_REVISION:
            raise self._file.unavailable("revisions_used_up", "has no further revision for an instance")
        record = Record(instance, key, last + 1, value)
        row = row_of(install, record)
        connection.raw.execute(
            "INSERT OR REPLACE INTO plugin_state (owner, locator, ciphertext) VALUES (?, ?, ?)",
            (row.owner, row.locator, row.ciphertext),
        )
        connection.raw.execute(
            "INSERT OR REPLACE INTO plugin_state_revisions (owner, last_revision) VALUES (?, ?)",
            (owner, record.revision),
        )
        if install.former is not None:  # a rotation is under way, and a database without rows says nothing
            mark(connection, install)
        index.sizes[locator_of(install, owner, key)] = len(value)
        index.total, index.highest = total, record.revision
        return record.revision

    def _find(
        self, connection: Connection, install: InstallKey, instance: InstanceIdentity, key: str
    ) -> Record | None:
        """The record under the key, once everything the instance keeps was found whole.

        :raises RowBroken: something was not.
        """
        owner = owner_of(install, instance)
        index = connection.indexes.get(owner)
        if index is None:
            index = self._index(connection, install, owner)
        locator = locator_of(install, owner, key)
        row = connection.raw.execute(SELECT_ROWS + " WHERE locator = ?", (locator,)).fetchone()
        if row is None:
            if locator in index.sizes:
                raise RowBroken
            if not index.sizes:
                self._trust(connection, install)
            return None
        record = record_of(install, Row(*row))
        if record.instance != instance or index.sizes.get(locator) != len(record.value):
            raise RowBroken
        return record

    def _index(self, connection: Connection, install: InstallKey, owner: bytes) -> InstanceIndex:
        index = InstanceIndex()
        for found in connection.raw.execute(SELECT_ROWS + " WHERE owner = ?", (owner,)):
            row = Row(*found)
            record = record_of(install, row)
            index.sizes[locator_of(install, owner, record.key)] = len(record.value)
            index.total += len(record.value)
            index.highest = max(index.highest, record.revision)
        if index.highest > last_revision(connection, owner):
            raise RowBroken  # then a number would be given out twice
        if len(connection.indexes) >= _KEPT_INDEXES:
            connection.indexes.clear()
        connection.indexes[owner] = index
        return index

    def _trust(self, connection: Connection, install: InstallKey) -> None:
        """See from one row, whosever it is, that this is the key the database is sealed with.

        :raises RowBroken: it is not.
        """
        found = connection.raw.execute(SELECT_ROWS + " LIMIT 1").fetchone()
        if found is not None:
            misplaced_record_of(install, Row(*found))  # another's damage is no reason

    # --- around it ------------------------------------------------------------------------------------------------------

    def _attempt(
        self,
        work: Callable[[Connection, InstallKey], Result],
        remaining: Remaining,
        *,
        writes: bool,
    ) -> Result:
        for attempt in range(_ATTEMPTS):
            try:
                with self._file.transaction(remaining, writes=writes) as connection:
                    result = work(connection, key_in_force(connection, self._key_file.read()))
                if self._reported:
                    self._reported = {} if writes else {what: of for what, of in self._reported.items() if of}
                return result
            except RowBroken:
                if attempt == _ATTEMPTS - 1:
                    break
        raise self._broken()

    def _create(self) -> None:
        self._key_file.read_or_create()
        self._file.create()

    def _broken(self) -> StorageError:
        return self._file.unavailable(
            "key_replaced", "was changed by somebody else, or is sealed with another key than the present one"
        )

    def _answer(self, work: Callable[[], Result], *, writes: bool) -> Result:
        """What a guest gets: the result, or a word. The reason is for the log."""
        try:
            result = work()
        except StorageError as error:
            if error.message not in self._reported:
                self._reported = {**self._reported, error.message: writes}
                self._report(error)
            raise StateFault("unavailable") from error
        return result


def _check_key(key: str) -> None:
    if not is_key(key):
        raise StateFault("invalid-key")
