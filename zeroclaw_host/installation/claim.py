"""An installed package on its way out: moved into a hidden entry in one step, then deleted there."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.installation.filesystem import FileSystem, Operation
from zeroclaw_host.installation.lock import DirectoryLock
from zeroclaw_host.installation.transaction import (
    DELETING,
    LEASE,
    EntryName,
    Stuck,
    Transaction,
    TransactionKind,
    cleanup_failed,
    running,
)


class Claim(Transaction):
    """A package on its way out. Made by :func:`claim`."""

    def __init__(self, lock: DirectoryLock, filesystem: FileSystem, name: EntryName, directory: str) -> None:
        super().__init__(lock, filesystem, name)
        self._directory = directory

    def take(self) -> None:
        """Move the package into the entry.

        :raises MoveUnsupported: there is no move that never replaces.
        :raises NamespaceChanged: the directory or its lock were replaced meanwhile.
        """
        self._lock.check()
        self._move(self._directory, self._package)
        self._perform(Operation.SYNC, self._entry)
        self._perform(Operation.SYNC, ".")

    def mark(self) -> None:
        """Note on the disk that the package goes: whoever finds the entry later deletes it and never puts it back."""
        self._perform(Operation.MARK, f"{self._entry}/{DELETING}")
        self._perform(Operation.SYNC, self._entry)

    def finish(self) -> None:
        """Delete the package and the entry; what stays is in :attr:`leftover`."""
        try:
            self._clear([DELETING, LEASE])
        except Stuck as stuck:
            self.leftover = stuck.location

    def back_out(self, error: BaseException) -> None:
        """Put the package back and clear the entry away.

        :raises CleanupFailed: that failed too.
        :raises NamespaceChanged: the directory or its lock were replaced; nothing was touched.
        """
        try:
            mark = f"{self._entry}/{DELETING}"
            if self._identity(mark) is not None:
                self._perform(Operation.DROP, mark)
            if self._identity(self._package) is not None:
                self._move(self._package, self._directory)
            self._clear([LEASE])
        except Stuck as stuck:
            raise cleanup_failed(error, stuck.__cause__, stuck.location) from error
        except (ZeroclawError, OSError) as failure:
            raise cleanup_failed(error, failure, self._lock.directory / self._package) from error


@contextmanager
def claim(
    lock: DirectoryLock, filesystem: FileSystem, package: str, directory: str
) -> Generator[Claim, None, None]:
    """A fresh entry to take an installed package out through. Left by an exception, the package is back at its name.

    :param directory: the name of the package's directory, which a hand-made package may have chosen freely.
    :raises StorageError: an operation failed; the package is where it was.
    :raises CleanupFailed: an operation failed, and so did putting the package back.
    """
    work = Claim(lock, filesystem, EntryName.fresh(package, TransactionKind.RECOVERING), directory)
    with running(work):
        yield work
