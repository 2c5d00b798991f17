"""A package on its way out: moved into a hidden entry in one step, then judged, put back, or deleted there."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from zeroclaw_host.errors import InstallError, Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.installation.filesystem import FileSystem, Operation
from zeroclaw_host.installation.lock import DirectoryLock
from zeroclaw_host.installation.transaction import (
    DELETING,
    LEASE,
    CleanupFailed,
    EntryName,
    NameOccupied,
    Stuck,
    Transaction,
    TransactionKind,
    cleanup_failed,
    running,
)

_ADVICE: Final = "resolve that and run the command again; a hidden entry is not to be deleted just because it looks left over"


class NotPutBack(CleanupFailed):
    """A package was moved aside and could not be moved back. ``details["location"]`` says where it is (PLG-095, PLG-097)."""

    code = "package_not_put_back"


class DirectorySwapped(InstallError):
    """Another directory than the one that was looked at is at a package's name."""

    code = "package_directory_swapped"


class Claim(Transaction):
    """A package on its way out. Made by :func:`claim`, or taken over from a command that is gone.

    :param directory: the name of the package's directory, which a hand-made package may have chosen freely.
    """

    def __init__(self, lock: DirectoryLock, filesystem: FileSystem, name: EntryName, directory: str) -> None:
        super().__init__(lock, filesystem, name)
        self._directory = directory

    @property
    def contents(self) -> Path:
        """Where the package is once it was taken."""
        return self._lock.directory / self._package

    def take(self) -> None:
        """Move the package into the entry.

        :raises MoveUnsupported: there is no move that never replaces.
        :raises DirectorySwapped: what was moved is not the directory that was at the name before.
        :raises NamespaceChanged: the plugins directory or its lock were replaced meanwhile.
        """
        self._perform(Operation.SYNC, self._entry)
        self._lock.check()
        wanted = self._identity(self._directory)
        self._move(self._directory, self._package)
        if wanted != self._identity(self._package):
            raise DirectorySwapped(
                f"{self._shown(self._directory)} was exchanged for another directory at the last moment",
                details={"path": self._shown(self._directory)},
            )
        self._perform(Operation.SYNC, self._entry)
        self._perform(Operation.SYNC, ".")

    def mark(self) -> None:
        """Note on the disk that the package goes: whoever finds the entry later deletes it and never puts it back.

        :raises NamespaceChanged: the plugins directory or its lock were replaced meanwhile.
        """
        self._lock.check()
        self._perform(Operation.MARK, f"{self._entry}/{DELETING}")
        self._perform(Operation.SYNC, self._entry)

    def finish(self) -> None:
        """Delete the package and the entry; what stays is in :attr:`leftover`."""
        self.discard()

    def back_out(self, error: BaseException) -> None:
        """Put the package back and clear the entry away.

        :raises NotPutBack: the package could not be put back.
        :raises CleanupFailed: the emptied entry could not be cleared away.
        :raises NamespaceChanged: the directory or its lock were replaced; nothing was touched.
        """
        try:
            self.put_back()
        except NotPutBack as failure:
            raise NotPutBack(
                f"{error}; {failure.message}", remedy=failure.remedy, details=failure.details
            ) from error
        try:
            self._clear([LEASE])
        except Stuck as stuck:
            raise cleanup_failed(error, stuck.__cause__, stuck.location) from error

    def put_back(self) -> None:
        """Move the package back to its name, over nothing. An entry without one is left as it is.

        :raises NotPutBack: it stays in the entry.
        """
        try:
            mark = f"{self._entry}/{DELETING}"
            if self._identity(mark) is not None:
                self._perform(Operation.DROP, mark)
            if self._identity(self._package) is not None:
                self._move(self._package, self._directory)
        except (ZeroclawError, OSError) as failure:
            raise self._not_put_back(failure) from failure

    def _not_put_back(self, failure: Exception) -> NotPutBack:
        reason = getattr(failure, "strerror", None) or str(failure)
        name = self._shown(self._directory)
        remedy = Remedy(RemedyAction.CLEAR_BY_HAND, {"path": name})
        return NotPutBack(
            f"the package of {name} could not be put back ({reason}) and is in {self.contents}; {_ADVICE}",
            remedy=remedy if isinstance(failure, NameOccupied) else None,
            details={"location": str(self.contents), "path": name},
        )


class Replacement(Claim):
    """A package that gives its place to another version of itself (PLG-332 to PLG-340). Made by :func:`replacement`."""

    def __init__(self, lock: DirectoryLock, filesystem: FileSystem, name: EntryName, directory: str) -> None:
        super().__init__(lock, filesystem, name, directory)
        self.marked = False
        """Whether the replaced package is marked on the disk, so that it is never put back."""
        self._committed = False

    def commit(self) -> None:
        """The new version is in its place: from here on the old one is never put back by this command."""
        self._committed = True
        try:
            self.mark()
        except ZeroclawError:
            # The update stands. What follows from it is told once it is known whether deleting works (PLG-340).
            return
        self.marked = True

    def back_out(self, error: BaseException) -> None:
        """See :class:`Claim`; a replaced package is deleted and not put back."""
        if self._committed:
            self.finish()
        else:
            super().back_out(error)


@contextmanager
def claim(
    lock: DirectoryLock, filesystem: FileSystem, package: str, directory: str
) -> Generator[Claim, None, None]:
    """A fresh entry to take a package out through. Left by an exception, the package is back at its name.

    :raises StorageError: an operation failed; the package is where it was.
    :raises CleanupFailed: an operation failed, and so did putting the package back.
    """
    work = Claim(lock, filesystem, EntryName.fresh(package, TransactionKind.RECOVERING), directory)
    with running(work):
        yield work


@contextmanager
def replacement(
    lock: DirectoryLock, filesystem: FileSystem, package: str, directory: str
) -> Generator[Replacement, None, None]:
    """As :func:`claim`, for a package whose place another version takes."""
    work = Replacement(lock, filesystem, EntryName.fresh(package, TransactionKind.REPLACING), directory)
    with running(work):
        yield work
