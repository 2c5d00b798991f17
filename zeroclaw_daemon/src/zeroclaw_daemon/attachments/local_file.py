"""A file of this machine that a client names by its path: a regular one, reached through no link (RPC-258)."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from zeroclaw_host.errors import Kind, ZeroclawError

_PIECE: Final = 1024 * 1024
_LINK: Final = frozenset({errno.ELOOP})

MAX_PATH_BYTES: Final = 4096
"""Bytes of a path. Linux takes no longer one, and looking at each of its directories takes the square of its length."""


class PathRefused(ZeroclawError):
    """A path does not name a file that can be sent. ``details`` holds ``fault``: ``relative``, ``unclean``, ``missing``, ``link``,
    ``not_regular``, ``too_large`` or ``unreadable``.
    """

    code = "path_refused"
    kind = Kind.INVALID

    def __init__(self, fault: str, words: str) -> None:
        super().__init__(f"the file cannot be sent by its path: {words}", details={"fault": fault})


def check_path(path: str) -> tuple[str, ...]:
    """The components of an absolute path, the root left out. Looks at no file.

    :raises PathRefused: it is relative, or no plain path: with ``.``, ``..``, empty components or a NUL.
    """
    if not path.startswith("/"):
        raise PathRefused("relative", "it must be absolute")
    components = tuple(path[1:].split("/"))
    if "\0" in path or any(each in ("", ".", "..") for each in components):
        raise PathRefused("unclean", "it must have neither `.` nor `..` nor empty components")
    return components


def read_local(path: str, max_bytes: int) -> bytes:
    """The bytes of the file. Blocks; a daemon calls it in a worker thread.

    :raises PathRefused: there is none, a component is a link, it is no regular file, it has more bytes than may be, or the
        system does not let it be read.
    """
    *directories, name = check_path(path)
    try:
        if len(os.fsencode(path)) > MAX_PATH_BYTES:
            raise PathRefused("missing", "there is no such file")
        descriptor = os.open("/", _directory_flags())
        try:
            for each in directories:
                descriptor = _stepped(descriptor, each, _directory_flags())
            descriptor = _stepped(
                descriptor, name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            )
            return _content(descriptor, max_bytes)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _refused(path, error) from None
    except ValueError:  # a character that no file name of this system can have
        raise PathRefused("missing", "there is no such file") from None


def _directory_flags() -> int:
    # Where the system can open a directory only to pass through it, it need not be readable.
    return getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _stepped(directory: int, name: str, flags: int) -> int:
    """What is below the directory under this name, opened; the directory is closed."""
    found = os.open(name, flags, dir_fd=directory)
    os.close(directory)
    return found


def _content(descriptor: int, max_bytes: int) -> bytes:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise PathRefused("not_regular", "it is no regular file")
    content = bytearray()
    # It may grow while it is read: its size is not believed.
    while len(content) <= max_bytes and status.st_size <= max_bytes:
        piece = os.read(descriptor, min(_PIECE, max_bytes + 1 - len(content)))
        if not piece:
            return bytes(content)
        content += piece
    raise PathRefused("too_large", f"it has more than {max_bytes} bytes")


def _refused(path: str, error: OSError) -> PathRefused:
    if error.errno in _LINK or (error.errno == errno.ENOTDIR and _has_link(path)):
        return PathRefused("link", "a component of the path is a link")
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
        return PathRefused("missing", "there is no such file")
    if error.errno in (errno.ENXIO, errno.ENODEV):  # a socket, or a device without a driver
        return PathRefused("not_regular", "it is no regular file")
    return PathRefused("unreadable", (error.strerror or "the system refuses").lower())


def _has_link(path: str) -> bool:
    """Only for the words: Linux says of a link in place of a directory that it is none."""
    with suppress(OSError):  # a name that is too long below what is no directory
        return any(each.is_symlink() for each in reversed(Path(path).parents))
    return False
