"""The few things a transaction does to a disk, behind one interface.

Everything that changes the plugins directory goes through a :class:`FileSystem`, one named operation at a time, so that
a test can stop, fail or kill a transaction before and after each of them (``faults.py``). Paths are relative to ``root``,
an open descriptor of the plugins directory: whatever happens to the directory's own path meanwhile, an operation lands
in the directory that was locked. Nor does an operation go through a link that was put in the place of a directory below
it: every directory on the way is opened as one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final, Protocol

from zeroclaw_host.errors import NO_SPACE, Remedy, RemedyAction, StorageError

DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

MOVE_UNSUPPORTED: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""What a kernel or a file system answers that cannot move without replacing (PLG-049, PLG-050)."""

_RENAME_NOREPLACE: Final = 0x1  # Linux, renameat2(2)
_RENAME_EXCL: Final = 0x4  # Darwin, renameatx_np(2)


class Operation(StrEnum):
    """Everything a transaction can do."""

    MAKE = "make"
    WRITE = "write"
    SYNC = "sync"
    RENAME = "rename-no-replace"
    MARK = "mark"
    DROP = "drop"


class FileSystem(Protocol):
    """The changes a transaction makes. Every method raises :class:`OSError` when it did not happen."""

    def make(self, root: int, path: str, mode: int) -> None:
        """Make one directory that does not exist yet."""
        ...

    def write(self, root: int, path: str, data: bytes) -> None:
        """Create a file that does not exist yet and write all of ``data``. A failure may leave a part of it."""
        ...

    def sync(self, root: int, path: str) -> None:
        """Flush a file's or a directory's content to the disk; ``"."`` is the root."""
        ...

    def rename_no_replace(self, root: int, source: str, target: str) -> None:
        """Move ``source`` to ``target`` in one step; :class:`FileExistsError` when anything is at ``target``."""
        ...

    def mark(self, root: int, path: str) -> None:
        """Create an empty file that says: from here on there is no way back."""
        ...

    def drop(self, root: int, path: str) -> None:
        """Remove one file, symbolic link (never its target) or empty directory."""
        ...


class PosixFileSystem:
    """The real file system. ``mover`` is for tests of platforms that cannot move without replacing."""

    def __init__(self, mover: Callable[[int, bytes, int, bytes], None] | None = None) -> None:
        self._move = mover or system_mover()

    def make(self, root: int, path: str, mode: int) -> None:
        """See :class:`FileSystem`."""
        with _folder(root, path) as (folder, name):
            os.mkdir(name, mode, dir_fd=folder)

    def write(self, root: int, path: str, data: bytes) -> None:
        """See :class:`FileSystem`."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with _folder(root, path) as (folder, name):
            descriptor = os.open(name, flags, 0o644, dir_fd=folder)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        finally:
            os.close(descriptor)

    def sync(self, root: int, path: str) -> None:
        """See :class:`FileSystem`."""
        with _folder(root, path) as (folder, name):
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename_no_replace(self, root: int, source: str, target: str) -> None:
        """See :class:`FileSystem`."""
        with _folder(root, source) as (old_folder, old), _folder(root, target) as (new_folder, new):
            self._move(old_folder, os.fsencode(old), new_folder, os.fsencode(new))

    def mark(self, root: int, path: str) -> None:
        """See :class:`FileSystem`."""
        self.write(root, path, b"")

    def drop(self, root: int, path: str) -> None:
        """See :class:`FileSystem`."""
        with _folder(root, path) as (folder, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)


@contextmanager
def _folder(root: int, path: str) -> Generator[tuple[int, str]]:
    """The open directory that holds ``path``, reached through real directories alone, and the last name of the path."""
    *folders, name = path.split("/")
    at = os.dup(root)
    try:
        for folder in folders:
            below = os.open(folder, DIRECTORY_FLAGS, dir_fd=at)
            os.close(at)
            at = below
        yield at, name
    finally:
        os.close(at)


def system_mover(library: object | None = None) -> Callable[[int, bytes, int, bytes], None]:
    """The system's own move that never replaces, found by what its C library offers.

    Where it offers none, every call raises ``ENOSYS``: there is no fall-back to a plain rename (PLG-050, PLG-051).

    :param library: a loaded C library; the process's own when left out.
    """
    library = ctypes.CDLL(None, use_errno=True) if library is None else library
    for symbol, flag in (("renameat2", _RENAME_NOREPLACE), ("renameatx_np", _RENAME_EXCL)):
        function = getattr(library, symbol, None)
        if function is not None:
            return _bound_mover(function, flag)
    return _no_mover


def _bound_mover(function: Callable[..., int], flag: int) -> Callable[[int, bytes, int, bytes], None]:
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)  # type: ignore[attr-defined]
    function.restype = ctypes.c_int  # type: ignore[attr-defined]

    def move(source_root: int, source: bytes, target_root: int, target: bytes) -> None:
        if function(source_root, source, target_root, target, flag) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), os.fsdecode(source), None, os.fsdecode(target))

    return move


def _no_mover(source_root: int, source: bytes, target_root: int, target: bytes) -> None:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), os.fsdecode(source), None, os.fsdecode(target))


def tree(root: int, path: str) -> list[str]:
    """Everything below and including the directory ``path``, each directory after what it holds; links not followed."""
    found: list[str] = []
    folders = [path]
    while folders:
        folder = folders.pop()
        found.append(folder)
        with _folder(root, folder) as (above, name):
            descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=above)
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    member = f"{folder}/{entry.name}"
                    (folders if entry.is_dir(follow_symlinks=False) else found).append(member)
        finally:
            os.close(descriptor)
    return found[::-1]


def storage_error(error: OSError, path: str, doing: str) -> StorageError:
    """What an :class:`OSError` means to a person.

    :param path: the file or directory the remedy is about.
    :param doing: what failed, as in "cannot ``doing``".
    """
    reason = error.strerror or type(error).__name__
    return StorageError(
        f"cannot {doing}: {reason.lower()} ({path})",
        remedy=_remedy(error.errno, path),
        details={"path": path, "errno": error.errno},
    )


def _remedy(number: int | None, path: str) -> Remedy | None:
    if number in NO_SPACE:
        return Remedy(RemedyAction.FREE_SPACE, {"path": path})
    if number in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR):
        return Remedy(RemedyAction.MAKE_DIRECTORY, {"path": path})
    return None
