"""The one lock under which the plugins directory changes.

The lock is the operating system's, on a file inside the directory (PLG-047, PLG-331). Whoever holds it also holds the
directory itself open, and can tell at any moment whether the path still leads to that directory and the name of the
lock file to that file (PLG-059, PLG-060).
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zeroclaw_host.errors import InstallError, Kind
from zeroclaw_host.installation.filesystem import storage_error

LOCK_NAME: Final = ".zeroclaw-package-lock-v1"
LOCK_WAIT_SECONDS: Final = 60.0
"""How long a command waits for another one to finish (PLG-047)."""
FIRST_POLL_SECONDS: Final = 0.01
LAST_POLL_SECONDS: Final = 0.25


class LockTimeout(InstallError):
    """Another command held the plugins directory for the whole time this one was willing to wait."""

    code = "package_lock_timeout"
    kind = Kind.UNAVAILABLE


class NamespaceChanged(InstallError):
    """The plugins directory or its lock file was replaced or removed while a command was working in it."""

    code = "plugins_directory_replaced"


@dataclass(frozen=True, slots=True)
class Clock:
    """The time a wait is measured by, in seconds."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class DirectoryLock:
    """The plugins directory, open and locked. Made by :func:`locked`."""

    def __init__(self, directory: Path, root: int, lock: int) -> None:
        self.directory = directory
        self.root = root
        """The open directory; every operation of a transaction is relative to it."""
        self._root_identity = _identity(os.fstat(root))
        self._lock_identity = _identity(os.fstat(lock))

    def check(self) -> None:
        """Whether the path and the lock's name still lead to what was locked.

        :raises NamespaceChanged: they do not; nothing may be moved or deleted any more.
        """
        if _found(self.directory, None) != self._root_identity:
            raise NamespaceChanged(
                f"the plugins directory {self.directory} was replaced or removed while a command was working in it",
                details={"path": str(self.directory)},
            )
        if _found(LOCK_NAME, self.root) != self._lock_identity:
            path = self.directory / LOCK_NAME
            raise NamespaceChanged(
                f"the lock file {path} was replaced or removed while a command was holding it",
                details={"path": str(path)},
            )


@contextmanager
def locked(
    directory: Path, *, wait: float = LOCK_WAIT_SECONDS, clock: Clock | None = None
) -> Generator[DirectoryLock, None, None]:
    """Open a directory and hold its lock.

    :param wait: seconds to wait for another holder.
    :raises LockTimeout: somebody else held the lock all that time.
    :raises NamespaceChanged: the lock file is no regular file, or was swapped while it was being taken.
    :raises StorageError: the directory or the lock file cannot be opened.
    """
    root = _open_directory(directory)
    try:
        lock = _open_lock(directory, root)
        try:
            _take(lock, directory / LOCK_NAME, wait, clock or Clock())
            held = DirectoryLock(directory, root, lock)
            held.check()
            yield held
        finally:
            os.close(lock)
    finally:
        os.close(root)


def _open_directory(directory: Path) -> int:
    try:
        return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise storage_error(error, str(directory), "open the plugins directory") from error


def _open_lock(directory: Path, root: int) -> int:
    # O_NONBLOCK: a pipe planted under the name must not make the command wait for a writer.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    path = directory / LOCK_NAME
    try:
        lock = os.open(LOCK_NAME, flags, 0o600, dir_fd=root)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _not_a_lock(path) from error
        raise storage_error(error, str(path), "open the lock file of the plugins directory") from error
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        os.close(lock)
        raise _not_a_lock(path)
    return lock


def _not_a_lock(path: Path) -> NamespaceChanged:
    return NamespaceChanged(f"the lock file {path} is not a regular file", details={"path": str(path)})


def _take(lock: int, path: Path, wait: float, clock: Clock) -> None:
    end = clock.now() + wait
    pause = FIRST_POLL_SECONDS
    while not hold(lock):
        remaining = end - clock.now()
        if remaining <= 0:
            raise LockTimeout(
                f"another command has been holding {path} for more than {wait:g} seconds",
                details={"path": str(path), "waited_seconds": wait},
            )
        clock.sleep(min(pause, remaining))
        pause = min(pause * 2, LAST_POLL_SECONDS)


def hold(descriptor: int) -> bool:
    """Take the operating system's exclusive lock on an open file without waiting; whether that succeeded."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _found(path: Path | str, root: int | None) -> tuple[int, int] | None:
    try:
        # The plugins directory itself may be reached through a link; the lock file may not be one.
        return _identity(os.stat(path, dir_fd=root, follow_symlinks=root is None))
    except OSError:
        return None
