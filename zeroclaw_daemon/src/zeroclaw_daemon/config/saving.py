"""Replacing one file so that a reader, or a machine that stops, finds the old bytes or the new ones and nothing else."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from zeroclaw_host.errors import NO_SPACE, Kind, Remedy, RemedyAction, StorageError, ZeroclawError
from zeroclaw_host.private_files import FILE_MODE, FileSteps, make_private

LOCK_WAIT_SECONDS: Final = 10.0
"""A save takes milliseconds; who waits this long waits for something that hangs."""
LOCK_POLL_SECONDS: Final = 0.01

_TOKEN_BYTES: Final = 8


class ConfigBusy(ZeroclawError):
    """Another program has been writing the configuration for too long. ``details`` holds ``path``."""

    code = "config_busy"
    kind = Kind.UNAVAILABLE


class ConfigOvertaken(ConfigBusy):
    """Somebody who takes no lock, such as an editor, changed the file while it was being written; their change stays."""


Stamp = tuple[int, int, int, int, int] | None
"""What tells one file from another: device, inode, size, and the times of the last writing and the last change; None while
there is none."""


class Steps(FileSteps):
    """The steps of a save."""

    def rename(self, source: Path, target: Path) -> None:
        """Put the new file in the old one's place."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Take a file away."""
        path.unlink()


def replace_file(
    target: Path, data: bytes, steps: Steps | None = None, *, what: str = "the configuration"
) -> Stamp:
    """Give ``target`` this content in one step, for its owner alone. Where it is a link, the file behind it changes.

    What killed processes left of their saves is taken away: who calls this holds the file's lock.

    :param what: what the file is, for the error.
    :returns: the new file's stamp.
    :raises StorageError: nothing changed, and no temporary file is left. A save that may be lost with the machine, because the
        directory cannot be synced, is undone. Only where a disk fails so far that the former content cannot be put back
        either, the new file, whole, stays.
    """
    steps = steps or Steps()
    target = real_path(target)
    try:
        _sweep(target)
        previous = _content(target)
        stamp = _put(target, data, steps)
        try:
            _sync_directory(target.parent, steps)
        except OSError:
            with contextlib.suppress(OSError):
                if previous is None:
                    steps.remove(target)
                else:
                    _put(target, previous, steps)
            raise
    except OSError as error:
        raise storage_error(error, str(target), f"write {what}") from error
    return stamp


def remove_file(target: Path, steps: Steps | None = None, *, what: str = "the configuration") -> None:
    """Take the file away; where it is a link, the file behind it.

    :raises StorageError: it is still there, or its absence may not outlast the machine.
    """
    steps = steps or Steps()
    target = real_path(target)
    try:
        steps.remove(target)
        _sync_directory(target.parent, steps)
    except OSError as error:
        raise storage_error(error, str(target), f"remove {what}") from error


def real_path(path: Path) -> Path:
    """The file behind all links. Links that lead nowhere but to each other are left, for whoever opens them to be told."""
    return Path(os.path.realpath(path))


def _content(target: Path) -> bytes | None:
    try:
        return target.read_bytes()
    except FileNotFoundError:
        return None


def _put(target: Path, data: bytes, steps: Steps) -> Stamp:
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(_TOKEN_BYTES)}.tmp")
    try:
        descriptor = steps.create(temporary)
        try:
            steps.write(descriptor, data)
            steps.sync(descriptor)
            steps.rename(temporary, target)
            return stamp_of(os.fstat(descriptor))
        finally:
            os.close(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _sweep(target: Path) -> None:
    left = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{{2 * _TOKEN_BYTES}}}\.tmp")
    for path in target.parent.iterdir():
        if left.fullmatch(path.name):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


def _sync_directory(directory: Path, steps: Steps) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        steps.sync(descriptor)
    finally:
        os.close(descriptor)


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a file with this status."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@contextmanager
def write_lock(
    path: Path,
    *,
    what: str = "the configuration",
    wait: float = LOCK_WAIT_SECONDS,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Generator[None]:
    """Hold the lock under which the file at ``path`` may be replaced; daemon and commands take the same one (D-18).

    The lock is the operating system's, on a file beside the target that is never removed; where the target is a link,
    beside the file behind it, so that whoever writes the same file takes the same lock.

    :param what: what the file is, for the errors.
    :raises ConfigBusy: somebody else held it for ``wait`` seconds.
    :raises StorageError: the directory or the lock file cannot be made.
    """
    lock = real_path(path)
    lock = lock.with_name(lock.name + ".lock")
    try:
        make_private(lock.parent)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise storage_error(error, str(error.filename or lock), f"open the lock file of {what}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigBusy(f"{lock} is not a regular file", details={"path": str(lock)})
        end = now() + wait
        while not _take(descriptor):
            if now() >= end:
                raise ConfigBusy(
                    f"another program has been writing {what} for more than {wait:g} seconds ({path})",
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


def storage_error(error: OSError, path: str, doing: str) -> StorageError:
    """An :class:`OSError` as an error with a remedy. ``doing`` completes "cannot …"."""
    reason = (error.strerror or type(error).__name__).lower()
    remedy = Remedy(RemedyAction.FREE_SPACE, {"path": path}) if error.errno in NO_SPACE else None
    name = errno.errorcode.get(error.errno or 0, "EIO")
    return StorageError(
        f"cannot {doing}: {reason} ({path})", remedy=remedy, details={"path": path, "errno": name}
    )
