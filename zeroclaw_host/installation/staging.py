"""A package on its way in: written in a hidden entry, then published in one move."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.installation.filesystem import FileSystem, Operation
from zeroclaw_host.installation.lock import DirectoryLock
from zeroclaw_host.installation.transaction import (
    LEASE,
    EntryName,
    Step,
    Stuck,
    Transaction,
    TransactionKind,
    cleanup_failed,
    running,
)


class Staging(Transaction):
    """A package on its way in. Made by :func:`staging`."""

    def __init__(self, lock: DirectoryLock, filesystem: FileSystem, name: EntryName) -> None:
        super().__init__(lock, filesystem, name)
        self._payload: tuple[int, int] | None = None
        self._final = name.package

    def fill(self, steps: Iterable[Step]) -> None:
        """Write the payload: ``package/`` and everything in it, as a plan says."""
        self._perform(Operation.MAKE, self._package)
        self._payload = self._identity(self._package)
        for step in steps:
            path = f"{self._package}/{step.path}" if step.path else self._package
            self._perform(step.operation, path, step.data)

    def publish(self, directory: str | None = None) -> None:
        """Move the payload to its final name, where nothing may be.

        :param directory: the final name; the package's own when left out.
        :raises NameOccupied: something is there.
        :raises MoveUnsupported: there is no move that never replaces.
        :raises NamespaceChanged: the directory or its lock were replaced meanwhile.
        """
        self._final = directory or self.name.package
        self._perform(Operation.SYNC, self._entry)
        self._lock.check()
        self._move(self._package, self._final)
        self._perform(Operation.SYNC, ".")

    def finish(self) -> None:
        """Remove the emptied entry; what stays is in :attr:`leftover`."""
        try:
            self._clear([LEASE])
        except Stuck as stuck:
            self.leftover = stuck.location

    def back_out(self, error: BaseException) -> None:
        """Withdraw what was published and clear everything away.

        :raises CleanupFailed: that failed too.
        :raises NamespaceChanged: the directory or its lock were replaced; nothing was touched.
        """
        try:
            if self._payload is not None and self._identity(self._final) == self._payload:
                self._move(self._final, self._package)
            self._clear([LEASE])
        except Stuck as stuck:
            raise cleanup_failed(error, stuck.__cause__, stuck.location) from error
        except (ZeroclawError, OSError) as failure:
            raise cleanup_failed(error, failure, self._lock.directory / self._final) from error


@contextmanager
def staging(lock: DirectoryLock, filesystem: FileSystem, package: str) -> Generator[Staging, None, None]:
    """A fresh entry to put a package in through. Left by an exception, nothing of it stays.

    :raises StorageError: an operation failed; nothing was published.
    :raises CleanupFailed: an operation failed, and so did clearing up.
    """
    work = Staging(lock, filesystem, EntryName.fresh(package, TransactionKind.INSTALLING))
    with running(work):
        yield work
