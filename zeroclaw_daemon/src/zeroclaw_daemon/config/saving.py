"""Replacing one file so that a reader, or a machine that stops, finds the old bytes or the new ones and nothing else."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from zeroclaw_host.errors import NO_SPACE, Kind, Remedy, RemedyAction, StorageError, ZeroclawError

FILE_MODE: Final = 0o600
"""The configuration holds secrets: its owner alone may read it."""
DIRECTORY_MODE: Final = 0o700

LOCK_WAIT_SECONDS: Final = 10.0
"""A save takes milliseconds; who waits this long waits for something that hangs."""
LOCK_POLL_SECONDS: Final = 0.01


class ConfigBusy(ZeroclawError):
    """Another program has been writing the configuration for too long. ``details`` holds ``path``."""

    code = "config_busy"
    kind = Kind.UNAVAILABLE


class Steps:
    """The steps of a save, one method each, so that a test can fail or stop at any of them."""

    def write(self, descriptor: int, data: bytes) -> None:
        """Write all of ``data``."""
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]

    def sync(self, descriptor: int) -> None:
        """Flush a file or a directory to the disk."""
        os.fsync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Put the new file in the old one's place."""
        source.replace(target)


def replace_file(target: Path, data: bytes, steps: Steps | None = None) -> None:
    """Give ``target`` this content in one step, for its owner alone. Where it is a link, the file behind it changes.

    :raises StorageError: nothing changed, and no temporary file is left.
    """
    steps = steps or Steps()
    target = target.resolve()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        try:
            _write_new(temporary, data, steps)
            steps.rename(temporary, target)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
            raise
        _sync_directory(target.parent, steps)
    except OSError as error:
        raise storage_error(error, str(target), "write the configuration") from error


def _write_new(path: Path, data: bytes, steps: Steps) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, FILE_MODE)
    try:
        os.fchmod(descriptor, FILE_MODE)
        steps.write(descriptor, data)
        steps.sync(descriptor)
    finally:
        os.close(descriptor)


def _sync_directory(directory: Path, steps: Steps) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        steps.sync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def write_lock(
    path: Path,
    *,
    wait: float = LOCK_WAIT_SECONDS,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Generator[None]:
    """Hold the lock under which the file at ``path`` may be replaced; daemon and commands take the same one (D-18).

    The lock is the operating system's, on a file beside the target that is never removed.

    :raises ConfigBusy: somebody else held it for ``wait`` seconds.
    :raises StorageError: the directory or the lock file cannot be made.
    """
    lock = path.with_name(path.name + ".lock")
    try:
        make_private(path.parent)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise storage_error(error, str(lock), "open the lock file of the configuration") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigBusy(f"{lock} is not a regular file", details={"path": str(lock)})
        end = now() + wait
        while not _take(descriptor):
            if now() >= end:
                raise ConfigBusy(
                    f"another program has been writing the configuration for more than {wait:g} seconds",
                    details={"path": str(lock)},
                )
            sleep(LOCK_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_private(directory: Path) -> None:
    """Make a directory and the parents it lacks, each for its owner alone, whatever the umask. What exists stays as it is.

    :raises OSError: one of them cannot be made.
    """
    if directory.is_dir():
        return
    make_private(directory.parent)
    try:
        directory.mkdir(mode=DIRECTORY_MODE)
    except FileExistsError:
        if not directory.is_dir():
            raise
    else:
        directory.chmod(DIRECTORY_MODE)


def storage_error(error: OSError, path: str, doing: str) -> StorageError:
    """An :class:`OSError` as an error with a remedy. ``doing`` completes "cannot …"."""
    reason = (error.strerror or type(error).__name__).lower()
    remedy = Remedy(RemedyAction.FREE_SPACE, {"path": path}) if error.errno in NO_SPACE else None
    name = errno.errorcode.get(error.errno or 0, "EIO")
    return StorageError(
        f"cannot {doing}: {reason} ({path})", remedy=remedy, details={"path": path, "errno": name}
    )
