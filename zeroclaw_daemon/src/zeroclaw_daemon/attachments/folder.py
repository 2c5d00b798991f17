"""The folder ``uploads`` of an agent's workspace, and how a file gets into it.

Everything goes through the descriptor of the folder, so that no link on the way is followed: neither one in place of the
folder, which is refused, nor one in place of a file, which is replaced (RPC-216). A file appears under its name whole and
lasting, or not at all: it is written under another name, synced and renamed. What a killed process left under such a name
goes with the next file that is stored; the lock on it tells it from one that is being written.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from zeroclaw_daemon.config.saving import storage_error
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.private_files import DIRECTORY_MODE, FILE_MODE, write_all

FOLDER: Final = "uploads"
"""The folder's name in the workspace."""

_TOKEN_BYTES: Final = 8
_UNFINISHED: Final = re.compile(rf"\.[0-9a-f]{{{2 * _TOKEN_BYTES}}}\.part")
_PIECE: Final = 1024 * 1024
_NO_DIRECTORY: Final = frozenset({errno.ELOOP, errno.ENOTDIR})


class UploadsFolderUnsafe(ZeroclawError):
    """``uploads`` in the agent's workspace is a link, or no directory; nothing is written there. ``details`` holds ``path``."""

    code = "uploads_folder_unsafe"
    kind = Kind.CONFLICT

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is not a directory of the workspace itself, so no file is stored there",
            remedy=Remedy(RemedyAction.CLEAR_BY_HAND, {"path": path}),
            details={"path": path},
        )


class FolderSteps:
    """The steps of storing a file, one method each, so that a test can fail or stop at any of them.

    ``folder`` is the descriptor of the directory that a name is in.
    """

    def make_directory(self, name: str, folder: int) -> None:
        """Make a directory that its owner alone can enter."""
        os.mkdir(name, DIRECTORY_MODE, dir_fd=folder)

    def create(self, name: str, folder: int) -> int:
        """A descriptor of a new file that its owner alone can open."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, FILE_MODE, dir_fd=folder)

    def lock(self, descriptor: int) -> bool:
        """Lock an unfinished file for as long as it is open; whether nobody else has."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def write(self, descriptor: int, content: bytes | bytearray) -> None:
        """Write all of it."""
        write_all(descriptor, content)

    def sync(self, descriptor: int) -> None:
        """Flush a file or a directory to the disk."""
        os.fsync(descriptor)

    def rename(self, name: str, target: str, folder: int) -> None:
        """Put the new file under its name, in place of whatever is there."""
        os.rename(name, target, src_dir_fd=folder, dst_dir_fd=folder)

    def remove(self, name: str, folder: int) -> None:
        """Take a file away."""
        os.unlink(name, dir_fd=folder)


class UploadsFolder:
    """``uploads`` below a workspace. Blocks; a daemon calls it in a worker thread.

    :param workspace: an absolute path of a directory that exists.
    """

    def __init__(self, workspace: str, steps: FolderSteps | None = None) -> None:
        self._workspace = workspace
        self._steps = steps or FolderSteps()

    def path(self, name: str) -> str:
        """Where a file of this name lies."""
        return str(Path(self._workspace, FOLDER, name))

    def store(self, name: str, content: bytes | bytearray) -> None:
        """Have a regular file of this name with these bytes. One that is there already and is just that stays; anything else
        of that name is replaced, and what it linked to is untouched (RPC-213 … RPC-216).

        :raises UploadsFolderUnsafe: the folder is a link, or no directory.
        :raises StorageError: the file cannot be stored; nothing of it is left, and one that was replaced is as it was, unless
            the disk fails so far that the new one may be lost with the machine: then there is none.
        """
        try:
            with self._opened() as folder:
                self._sweep(folder)
                if not self._holds(folder, name, content):
                    self._put(folder, name, content)
        except OSError as error:
            raise storage_error(error, self.path(name), "store a file") from error

    @contextmanager
    def _opened(self) -> Generator[int]:
        workspace = os.open(self._workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(FileExistsError):
                self._steps.make_directory(FOLDER, workspace)
                self._steps.sync(workspace)
            try:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                folder = os.open(FOLDER, flags, dir_fd=workspace)
            except OSError as error:
                if error.errno in _NO_DIRECTORY:
                    raise UploadsFolderUnsafe(self.path("")) from None
                raise
        finally:
            os.close(workspace)
        try:
            yield folder
        finally:
            os.close(folder)

    def _holds(self, folder: int, name: str, content: bytes | bytearray) -> bool:
        """Whether the file is there, with these bytes and no other name; then it lasts, too."""
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=folder)
        except OSError:
            return False  # Whatever it is, it is replaced; what stands against that is told then.
        try:
            if not _is_same(descriptor, content):
                return False
            # A save whose end nobody heard of may have left it unsynced.
            self._steps.sync(descriptor)
        finally:
            os.close(descriptor)
        self._steps.sync(folder)
        return True

    def _put(self, folder: int, name: str, content: bytes | bytearray) -> None:
        unfinished, descriptor = self._fresh(folder)
        try:
            self._steps.write(descriptor, content)
            self._steps.sync(descriptor)
            self._steps.rename(unfinished, name, folder)
        except OSError:
            with suppress(OSError):
                self._steps.remove(unfinished, folder)
            raise
        finally:
            os.close(descriptor)
        try:
            self._steps.sync(folder)
        except OSError:
            with suppress(OSError):
                self._steps.remove(name, folder)
            raise

    def _fresh(self, folder: int) -> tuple[str, int]:
        """A new file to write to, locked while it is open."""
        while True:
            name = f".{secrets.token_hex(_TOKEN_BYTES)}.part"
            descriptor = self._steps.create(name, folder)
            try:
                if self._steps.lock(descriptor) and os.fstat(descriptor).st_nlink:
                    return name, descriptor
            except OSError:
                os.close(descriptor)
                with suppress(OSError):
                    self._steps.remove(name, folder)
                raise
            os.close(descriptor)  # Somebody who sweeps found it before it was locked.

    def _sweep(self, folder: int) -> None:
        """Take away what killed processes left."""
        for name in filter(_UNFINISHED.fullmatch, os.listdir(folder)):
            # What cannot be taken away is in nobody's way.
            with suppress(OSError):
                flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                descriptor = os.open(name, flags, dir_fd=folder)
                try:
                    if self._steps.lock(descriptor):
                        self._steps.remove(name, folder)
                finally:
                    os.close(descriptor)


def _is_same(descriptor: int, content: bytes | bytearray) -> bool:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size != len(content):
        return False
    view = memoryview(content)
    for start in range(0, len(view), _PIECE):
        piece = view[start : start + _PIECE]
        if memoryview(os.pread(descriptor, len(piece), start)) != piece:
            return False
    return True
