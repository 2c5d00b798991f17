"""One hidden entry of the plugins directory: what a command is in the middle of.

A transaction is a directory ``.<name>.<kind>-v1-<32 hex>`` holding ``lease`` (locked by the operating system for as long
as its process lives), ``package/`` (the payload) and, once there is no way back, ``deleting`` (PLG-046, PLG-047).
Discovery never looks inside. Whatever stops a command, its package is either at the final name, whole, or not there.

``staging`` puts a package in, ``claim`` takes one out, ``replacement`` takes one out for another. All run under the
directory lock, and all undo themselves when they are left by an exception. The plan of a payload is data (:class:`Step`), so that a test can list every step.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final

from zeroclaw_host.errors import InstallError, Kind, Remedy, RemedyAction
from zeroclaw_host.installation.filesystem import (
    DIRECTORY_FLAGS,
    MOVE_UNSUPPORTED,
    FileSystem,
    Operation,
    storage_error,
    tree,
)
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


class EntryInUse(InstallError):
    """A hidden entry is another command's, or cannot be told from one (PLG-055, PLG-077)."""

    code = "package_entry_in_use"


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


class Transaction(ABC):
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
        self.failures = ExitStack()

    def open(self) -> None:
        """Make the entry and take its lease."""
        lease = f"{self._entry}/{LEASE}"
        self._perform(Operation.MAKE, self._entry, mode=_ENTRY_MODE)
        self._perform(Operation.WRITE, lease)
        try:
            self._lease = os.open(lease, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._lock.root)
        except OSError as error:
            raise storage_error(error, str(self._lock.directory), f"open {self._shown(lease)}") from error
        hold(self._lease)

    def adopt(self) -> None:
        """Take over the entry of a process that is gone, by its lease.

        :raises EntryInUse: its process lives, or its lease is none.
        """
        try:
            self._lease = open_lease(self._lock.root, self._entry)
        except OSError as error:
            raise EntryInUse(
                f"{self._shown(self._entry)} has no lease that can be taken",
                details={"path": self._shown(self._entry)},
            ) from error
        if not hold(self._lease):
            self.close()
            raise EntryInUse(
                f"{self._shown(self._entry)} belongs to a command that is running",
                details={"path": self._shown(self._entry)},
            )

    def discard(self) -> None:
        """Delete the entry with all that is in it; what stays is in :attr:`leftover`."""
        try:
            self._clear([DELETING, LEASE])
        except Stuck as stuck:
            self.leftover = stuck.location

    def on_failure(self, undo: Callable[[], None]) -> None:
        """Have ``undo`` called, ahead of everything else, when the transaction is left by an exception."""
        self.failures.callback(undo)

    @abstractmethod
    def finish(self) -> None:
        """End a transaction that succeeded; what cannot be cleared away is in :attr:`leftover`."""

    @abstractmethod
    def back_out(self, error: BaseException) -> None:
        """Bring the plugins directory back to what it was, because of ``error``.

        :raises CleanupFailed: that failed too.
        :raises NamespaceChanged: the directory or its lock were replaced; nothing was touched.
        """

    def undo(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Back out of what failed, unless the directory is no longer the one that was locked (PLG-059, PLG-060)."""
        del kind, trace
        if error is None or isinstance(error, NamespaceChanged):
            return
        try:
            self._lock.check()
        except NamespaceChanged as changed:
            raise changed from error
        self.back_out(error)

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

        :raises Stuck: something could not be deleted.
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
            raise Stuck(self._lock.directory / where) from error

    def _identity(self, path: str) -> tuple[int, int] | None:
        try:
            found = os.stat(path, dir_fd=self._lock.root, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _shown(self, path: str) -> str:
        return str(self._lock.directory / path)


def open_lease(root: int, entry: str) -> int:
    """Open the lease of an entry, following no link.

    :raises OSError: the entry is no directory, or holds no regular file of that name.
    """
    folder = os.open(entry, DIRECTORY_FLAGS, dir_fd=root)
    try:
        # Non-blocking: a pipe planted under the name must not make a command wait.
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        lease = os.open(LEASE, flags, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(lease).st_mode):
        os.close(lease)
        raise OSError(errno.EINVAL, "not a regular file", f"{entry}/{LEASE}")
    return lease


class Stuck(Exception):
    """Clearing an entry away stopped at :attr:`location`."""

    def __init__(self, location: Path) -> None:
        super().__init__(str(location))
        self.location = location


@contextmanager
def running(work: Transaction) -> Generator[None, None, None]:
    """Open a transaction and end it: finished when it is left normally, backed out when it is left by an exception."""
    try:
        with work.failures as failures:
            failures.push(work.undo)
            work.open()
            yield
            failures.pop_all()
        work.finish()
    finally:
        work.close()


def _unsupported(directory: Path) -> MoveUnsupported:
    return MoveUnsupported(
        f"the file system of {directory} or this platform cannot move a directory without replacing what is in the way; "
        "trying again in the same place will end the same way",
        remedy=Remedy(RemedyAction.SET_CONFIG, {"path": "plugins.plugins_dir"}),
        details={"path": str(directory)},
    )


def cleanup_failed(error: BaseException, failure: BaseException | None, location: Path) -> CleanupFailed:
    """The error of a command that failed by ``error`` and could not clear up because of ``failure``.

    It says where that stopped and what has to be resolved, and nothing about what is left there (PLG-056 to PLG-058).
    """
    reason = (getattr(failure, "strerror", None) or str(failure)).lower()
    move = "; it also takes a file system with a safe move" if isinstance(error, MoveUnsupported) else ""
    return CleanupFailed(
        f"{error}; clearing up then stopped at {location} ({reason}), which has to be resolved first{move}",
        details={"location": str(location)},
    )
