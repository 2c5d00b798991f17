"""Files and directories that their owner alone can read, and writing them so that they outlast the machine."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700


def create(path: Path) -> int:
    """A descriptor, to read and to write, of a new file that its owner alone can open, whatever the umask.

    :raises OSError: there is something of that name already, be it a link, or the system refuses.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        os.fchmod(descriptor, FILE_MODE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def write_all(descriptor: int, data: bytes | bytearray) -> None:
    """Write all of ``data``.

    :raises OSError: it was not written, or a part of it alone.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_directory(directory: Path) -> None:
    """Let what was made, renamed or taken away in the directory outlast a power failure.

    :raises OSError: it may not.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FileSteps:
    """The steps of writing a private file, one method each, so that a test can fail or stop at any of them."""

    def create(self, path: Path) -> int:
        """A descriptor of a new file that its owner alone can open."""
        return create(path)

    def write(self, descriptor: int, data: bytes) -> None:
        """Write all of ``data``."""
        write_all(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Flush a file or a directory to the disk."""
        os.fsync(descriptor)


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
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", str(directory)) from None
    else:
        directory.chmod(DIRECTORY_MODE)
