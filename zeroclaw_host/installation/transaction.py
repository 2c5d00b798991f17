"""One hidden entry of the plugins directory: what a command is in the middle of.

A transaction is a directory ``.<name>.<kind>-v1-<32 hex>`` holding ``lease`` (locked by the operating system for as long
as its process lives), ``package/`` (the payload) and, once there is no way back, ``deleting`` (PLG-046, PLG-047).
Discovery never looks inside. Whatever stops a command, its package is either at the final name, whole, or not there.

:func:`staging` puts a package in, :func:`claim` takes one out. Both run under the directory lock, and both undo themselves
when they are left by an exception. The plan of a payload is data (:class:`Step`), so that a test can list every step.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final

from zeroclaw_host.errors import InstallError, Kind, Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.installation.filesystem import MOVE_UNSUPPORTED, FileSystem, Operation, storage_error, tree
from zeroclaw_host.installation.lock import DirectoryLock, NamespaceChanged, hold

LEASE: Final = "lease"
PACKAGE: Final = "package"
DELETING: Final = "deleting"

_ENTRY_MODE: Final = 0o700
_PACKAGE_MODE: Final = 0o755
_WORDS: Final = {
    Operation.MAKE: "make the directory",
    Operation.WRITE: "write",
    Operation.SYNC: "flush to the disk",
    Operation.MARK: "write",
    Operation.DROP: "delete",
}
_ENTRY_NAME: Final = re.compile(
    r"\.(?P<package>[a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?)\.(?P<kind>installing|recovering|replacing)-v1-(?P<token>[0-9a-f]{32})"
)


class MoveUnsupported(InstallError):
    """The platform or the file system has no atomic move that never replaces (PLG-049 to PLG-052)."""

    code = "safe_move_unsupported"
    kind = Kind.UNAVAILABLE


class NameOccupied(InstallError):
    """Something is at the package's name already (PLG-062)."""

    code = "package_name_occupied"


class CleanupFailed(InstallError):
    """A command failed, and what it had begun could not be cleared away. ``details["location"]`` says where (PLG-056)."""

    code = "package_cleanup_failed"
    kind = Kind.UNAVAILABLE


class TransactionKind(StrEnum):
    """Which command an entry belongs to."""

    INSTALLING = "installing"
    RECOVERING = "recovering"
    REPLACING = "replacing"


@dataclass(frozen=True, slots=True)
class EntryName:
    """The name of a transaction's directory."""

    package: str
    kind: TransactionKind
    token: str

    @classmethod
    def fresh(cls, package: str, kind: TransactionKind) -> EntryName:
        """A name nobody else uses."""
        return cls(package, kind, secrets.token_hex(16))

    @classmethod
    def parse(cls, text: str) -> EntryName | None:
        """The parts of a directory name, or None when it names no transaction."""
        found = _ENTRY_NAME.fullmatch(text)
        return found and cls(found["package"], TransactionKind(found["kind"]), found["token"])

    def __str__(self) -> str:
        return f".{self.package}.{self.kind}-v1-{self.token}"


@dataclass(frozen=True, slots=True)
class Step:
    """One operation inside a transaction's payload: ``path`` is relative to ``package/``, empty for itself."""

    operation: Operation
    path: str
    data: bytes = b""

    def __repr__(self) -> str:
        return f"Step({self.operation}, {self.path!r}, {len(self.data)} bytes)"


class _Transaction:
    """What putting in and taking out have in common: the entry, its lease, and clearing both away."""

    def __init__(self, lock: DirectoryLock, filesystem: FileSystem, name: EntryName) -> None:
        self.name = name
        self.leftover: Path | None = None
        """What a finished transaction could not clear away. It does no harm, and takes part in nothing."""
        self._lock = lock
        self._filesystem = filesystem
        self._entry = str(name)
        self._package = f"{name}/{PACKAGE}"
        self._lease: int | None = None
        self._payload: tuple[int, int] | None = None

    def open(self) -> None:
        """Make the entry and take its lease."""
        lease = f"{self._entry}/{LEASE}"
        self._perform(Operation.MAKE, self._entry, mode=_ENTRY_MODE)
        self._perform(Operation.WRITE, lease)
        self._lease = os.open(lease, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._lock.root)
        hold(self._lease)

    def close(self) -> None:
        """Give up the lease."""
        if self._lease is not None:
            os.close(self._lease)
            self._lease = None

    def _perform(self, operation: Operation, path: str, data: bytes = b"", mode: int = _PACKAGE_MODE) -> None:
        try:
            match operation:
                case Operation.MAKE:
                    self._filesystem.make(self._lock.root, path, mode)
                case Operation.WRITE:
                    self._filesystem.write(self._lock.root, path, data)
                case Operation.SYNC:
                    self._filesystem.sync(self._lock.root, path)
                case Operation.MARK:
                    self._filesystem.mark(self._lock.root, path)
                case Operation.DROP:
                    self._filesystem.drop(self._lock.root, path)
                case Operation.RENAME:
                    raise ValueError("a move has a target and is no step of a plan")
        except OSError as error:
            raise storage_error(
                error, str(self._lock.directory), f"{_WORDS[operation]} {self._shown(path)}"
            ) from error

    def _move(self, source: str, target: str) -> None:
        try:
            self._filesystem.rename_no_replace(self._lock.root, source, target)
        except FileExistsError as error:
            raise NameOccupied(
                f"something is at {self._shown(target)} already", details={"path": self._shown(target)}
            ) from error
        except OSError as error:
            if error.errno in MOVE_UNSUPPORTED:
                raise _unsupported(self._lock.directory) from error
            raise storage_error(
                error, str(self._lock.directory), f"move a package to {self._shown(target)}"
            ) from error

    def _clear(self, members: Iterable[str]) -> None:
        """Delete the payload, then the other members, then the entry itself.

        :raises _Stuck: something could not be deleted.
        """
        where = self._package
        try:
            if self._identity(self._package) is not None:
                for path in tree(self._lock.root, self._package):
                    self._filesystem.drop(self._lock.root, path)
            where = self._entry
            for member in members:
                if self._identity(f"{self._entry}/{member}") is not None:
                    self._filesystem.drop(self._lock.root, f"{self._entry}/{member}")
            if self._identity(self._entry) is not None:
                self._filesystem.drop(self._lock.root, self._entry)
        except OSError as error:
            raise _Stuck(self._lock.directory / where) from error

    def _identity(self, path: str) -> tuple[int, int] | None:
        try:
            found = os.stat(path, dir_fd=self._lock.root, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _shown(self, path: str) -> str:
        return str(self._lock.directory / path)


class _Stuck(Exception):
    """Clearing an entry away stopped at :attr:`location`."""

    def __init__(self, location: Path) -> None:
        super().__init__(str(location))
        self.location = location


class Staging(_Transaction):
    """A package on its way in. Made by :func:`staging`."""

    def __init__(self, lock: DirectoryLock, filesystem: FileSystem, name: EntryName) -> None:
        super().__init__(lock, filesystem, name)
        self._undo: list[Callable[[], None]] = []

    def fill(self, steps: Iterable[Step]) -> None:
        """Write the payload: ``package/`` and everything in it, as a plan says."""
        self._perform(Operation.MAKE, self._package)
        self._payload = self._identity(self._package)
        for step in steps:
            path = f"{self._package}/{step.path}" if step.path else self._package
            self._perform(step.operation, path, step.data)

    def publish(self) -> None:
        """Move the payload to the package's name, where nothing may be.

        :raises NameOccupied: something is there.
        :raises MoveUnsupported: there is no move that never replaces.
        :raises NamespaceChanged: the directory or its lock were replaced meanwhile.
        """
        self._perform(Operation.SYNC, self._entry)
        self._lock.check()
        self._move(self._package, self.name.package)
        self._perform(Operation.SYNC, ".")

    def on_failure(self, undo: Callable[[], None]) -> None:
        """Have ``undo`` called, ahead of everything else, when the transaction is left by an exception."""
        self._undo.append(undo)

    def finish(self) -> None:
        """Remove the emptied entry; what stays is in :attr:`leftover`."""
        try:
            self._clear([LEASE])
        except _Stuck as stuck:
            self.leftover = stuck.location

    def back_out(self, error: BaseException) -> None:
        """Withdraw what was published and clear everything away.

        :raises CleanupFailed: that failed too.
        :raises NamespaceChanged: the directory or its lock were replaced; nothing was touched.
        """
        for undo in reversed(self._undo):
            undo()
        _check_before_cleaning(self._lock, error)
        final = self.name.package
        try:
            if self._payload is not None and self._identity(final) == self._payload:
                self._move(final, self._package)
            self._clear([LEASE])
        except _Stuck as stuck:
            raise _cleanup_failed(error, stuck.__cause__, stuck.location) from error
        except ZeroclawError as failure:
            raise _cleanup_failed(error, failure, self._lock.directory / final) from error


class Claim(_Transaction):
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
        self._payload = self._identity(self._directory)
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
        except _Stuck as stuck:
            self.leftover = stuck.location

    def back_out(self, error: BaseException) -> None:
        """Put the package back and clear the entry away.

        :raises CleanupFailed: that failed too.
        :raises NamespaceChanged: the directory or its lock were replaced; nothing was touched.
        """
        _check_before_cleaning(self._lock, error)
        try:
            if self._payload is not None and self._identity(self._package) == self._payload:
                self._move(self._package, self._directory)
            self._clear([DELETING, LEASE])
        except _Stuck as stuck:
            raise _cleanup_failed(error, stuck.__cause__, stuck.location) from error
        except ZeroclawError as failure:
            raise _cleanup_failed(error, failure, self._lock.directory / self._package) from error


@contextmanager
def staging(lock: DirectoryLock, filesystem: FileSystem, package: str) -> Generator[Staging, None, None]:
    """A fresh entry to put a package in through. Left by an exception, nothing of it stays.

    :raises StorageError: an operation failed; nothing was published.
    :raises CleanupFailed: an operation failed, and so did clearing up.
    """
    work = Staging(lock, filesystem, EntryName.fresh(package, TransactionKind.INSTALLING))
    with _undone_on_error(work):
        yield work
    work.finish()
    work.close()


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
    with _undone_on_error(work):
        yield work
    work.finish()
    work.close()


@contextmanager
def _undone_on_error(work: Staging | Claim) -> Generator[None, None, None]:
    def undo(
        kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, trace
        try:
            if error is not None:
                work.back_out(error)
        finally:
            work.close()

    with ExitStack() as stack:
        stack.push(undo)
        work.open()
        yield
        stack.pop_all()


def _check_before_cleaning(lock: DirectoryLock, error: BaseException) -> None:
    # A directory that is no longer ours is not cleaned (PLG-059); the first error said so already if it was the same.
    if not isinstance(error, NamespaceChanged):
        try:
            lock.check()
        except NamespaceChanged as changed:
            raise changed from error


def _unsupported(directory: Path) -> MoveUnsupported:
    return MoveUnsupported(
        f"the file system of {directory} or this platform cannot move a directory without replacing what is in the way; "
        "trying again in the same place will end the same way",
        remedy=Remedy(RemedyAction.SET_CONFIG, {"path": "plugins.plugins_dir"}),
        details={"path": str(directory)},
    )


def _cleanup_failed(error: BaseException, failure: BaseException | None, location: Path) -> CleanupFailed:
    reason = (getattr(failure, "strerror", None) or str(failure)).lower()
    move = "; it also takes a file system with a safe move" if isinstance(error, MoveUnsupported) else ""
    return CleanupFailed(
        f"{error}; clearing up then stopped at {location} ({reason}), which has to be resolved first{move}",
        details={"location": str(location)},
    )
