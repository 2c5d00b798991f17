"""A directory of this user's own, closed to others, with a key that nobody else can read."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from zeroclaw_host.errors import NO_SPACE, Remedy, RemedyAction, StorageError
from zeroclaw_host.private_files import DIRECTORY_MODE, create, make_private, sync_directory

PARTIAL: Final = ".partial"
"""How the name of a file ends that is still being written. It begins with a dot."""

_KEY_FILE: Final = "key"
_KEY_BYTES: Final = 32


@contextmanager
def storage_errors(path: Path) -> Generator[None]:
    """Turn the system's errors into ours.

    :raises StorageError: for every ``OSError`` of the block.
    """
    try:
        yield
    except OSError as error:
        full = error.errno in NO_SPACE
        action = RemedyAction.FREE_SPACE if full else RemedyAction.MAKE_DIRECTORY
        what = "the file system is full" if full else (error.strerror or "the system refused")
        raise StorageError(
            f"the cache of compiled components cannot be used: {what}",
            remedy=Remedy(action, {"path": str(path)}),
            details={"path": str(error.filename or path), "errno": error.errno},
        ) from error


def own(directory: Path) -> None:
    """Make the directory, or see that it is a real one that only its owner can enter.

    :raises OSError: it is a link or no directory, or belongs to somebody else.
    """
    make_private(directory)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(errno.ENOTDIR, "it is not a directory of its own", str(directory))
    if found.st_uid != os.geteuid():
        raise OSError(errno.EPERM, "it belongs to another user", str(directory))
    if stat.S_IMODE(found.st_mode) & 0o077:
        directory.chmod(DIRECTORY_MODE)


def is_private_file(found: os.stat_result) -> bool:
    """Whether this is a regular file that only this user can read or write."""
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def partial(directory: Path, stem: str) -> Path:
    """A name nobody else uses, for a file that is still being written."""
    return directory / f".{stem}-{secrets.token_hex(8)}{PARTIAL}"


def read_or_make_key(directory: Path) -> bytes:
    """The directory's random key (D-42). Processes that start at once agree on one: only one can link its file there.

    :raises OSError: the key is damaged or open to others. It is never replaced, for everything here was made under it.
    """
    path = directory / _KEY_FILE
    for _ in range(2):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            _make_key(path)
            continue
        with os.fdopen(descriptor, "rb") as file:
            key = file.read(_KEY_BYTES + 1)
            if len(key) == _KEY_BYTES and is_private_file(os.fstat(file.fileno())):
                return key
        raise OSError(errno.EPERM, "its key is damaged or open to others", str(path))
    raise OSError(errno.ENOENT, "its key vanished", str(path))


def _make_key(path: Path) -> None:
    temporary = partial(path.parent, path.name)
    try:
        with os.fdopen(create(temporary), "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)
