"""Holding one path for one daemon: who may listen there, and who does already.

Three questions are answered before anything is bound. Does the path fit a socket address? Is its directory one that
strangers cannot write to? Is another daemon there? A lock beside the socket decides the last one; it is held for the
daemon's life and its file stays, because removing a lock that others may be opening is how two owners come about.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import socket
import stat
import struct
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zeroclaw_daemon.authority.principal import PeerCredential
from zeroclaw_daemon.records import record
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, ZeroclawError

MAX_PATH_BYTES: Final = 107
"""Bytes of a path in a Unix socket address on Linux, its closing zero not counted (RPC-229)."""

SOCKET_VARIABLE: Final = "ZEROCLAW_SOCKET"

_PRIVATE: Final = 0o700
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_OPEN_TO_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_PEERCRED: Final = struct.Struct("iII")
_NO_UID: Final = 2**32 - 1
"""What the kernel says of a peer that it has recorded nothing of."""

logger = logging.getLogger(__name__)


class EndpointError(ZeroclawError):
    """A daemon cannot listen at this path. ``details`` holds ``path``."""

    code = "endpoint_unusable"
    kind = Kind.UNAVAILABLE


class EndpointTooLong(EndpointError):
    """The path does not fit a socket address. ``details`` holds ``path``, ``length`` and ``limit``."""

    code = "endpoint_too_long"
    kind = Kind.INVALID


class EndpointBusy(EndpointError):
    """Another daemon serves this path. ``details`` holds ``path`` and, where known, its ``pid``."""

    code = "endpoint_busy"
    kind = Kind.CONFLICT


class EndpointExposed(EndpointError):
    """Strangers could put a socket of their own in this place."""

    code = "endpoint_exposed"
    kind = Kind.REFUSED


@dataclass(frozen=True, slots=True)
class FileId:
    """Which file it is, whatever its name."""

    device: int
    inode: int

    @classmethod
    def at(cls, path: Path) -> FileId | None:
        """The file at a path, links not followed, or None."""
        try:
            found = path.lstat()
        except FileNotFoundError:
            return None
        return cls(found.st_dev, found.st_ino)


@contextmanager
def claimed(path: Path, data_dir: Path) -> Generator[None]:
    """Hold the path while the block runs: nothing is there to be bound over, and no other daemon will come.

    :param data_dir: the daemon's own directory, which is made private whatever it was (RPC-048).
    :raises EndpointTooLong: see :class:`EndpointTooLong`.
    :raises EndpointExposed: the directory, or the lock in it, is open to strangers.
    :raises EndpointBusy: another daemon has it.
    :raises EndpointError: it cannot be had for another reason.
    """
    check_length(path)
    with ExitStack() as held:
        with preparing(path):
            _prepare_directory(path, data_dir)
            held.enter_context(_locked(path))
            _remove_stale(path)
        yield


@contextmanager
def preparing(path: Path) -> Generator[None]:
    """Say of a fault of the file system which endpoint could not be had for it.

    :raises EndpointError: instead of an ``OSError``.
    """
    try:
        yield
    except OSError as error:
        raise EndpointError(
            f"the endpoint {path} cannot be had: {error.strerror}", details={"path": str(path)}
        ) from error


def check_length(path: Path) -> None:
    """Whether the path fits a socket address.

    :raises EndpointTooLong: it does not.
    """
    length = len(os.fsencode(path))
    if length > MAX_PATH_BYTES:
        raise EndpointTooLong(
            f"the endpoint {path} has {length} bytes, and a socket's path may have {MAX_PATH_BYTES}",
            remedy=Remedy(RemedyAction.SHORTEN_PATH, {"variable": SOCKET_VARIABLE}),
            details={"path": str(path), "length": length, "limit": MAX_PATH_BYTES},
        )


def credential_of(connected: socket.socket) -> PeerCredential | None:
    """The process at the other end, as the kernel recorded it when the connection was made (RPC-053).

    Its number is 0 where it lives outside this process's namespace of process numbers: a client on the machine of a daemon
    in a container. Who it is does not depend on that.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None  # Only Linux has it.
    raw = connected.getsockopt(socket.SOL_SOCKET, option, _PEERCRED.size)
    pid, uid, _ = _PEERCRED.unpack(raw)
    return PeerCredential(pid, uid) if uid != _NO_UID else None


# The directory.


def _prepare_directory(path: Path, data_dir: Path) -> None:
    made = _make_missing(path.parent)
    status = path.parent.stat()
    own = status.st_uid == os.geteuid()
    if own and (made or path.parent == data_dir or _holds_only_ours(path, status)):
        path.parent.chmod(_PRIVATE)
        return
    exposed = bool(status.st_mode & _WRITABLE_BY_OTHERS)
    trusted = status.st_uid in (0, os.geteuid()) and not exposed
    if not trusted and not status.st_mode & stat.S_ISVTX:
        raise EndpointExposed(
            f"the directory {path.parent} belongs to somebody else or can be written by others",
            remedy=Remedy(RemedyAction.MAKE_DIRECTORY, {"path": str(path.parent)}),
            details={"path": str(path)},
        )
    if status.st_mode & _OPEN_TO_OTHERS:
        record(
            logger, logging.WARNING, f"the directory {path.parent} of the endpoint is open to others and is left so",
            action="endpoint_directory", directory=str(path.parent), mode=f"{stat.S_IMODE(status.st_mode):o}",
        )  # fmt: skip


def _make_missing(directory: Path) -> bool:
    """Make the directory and its parents, each private; whether the directory itself was made."""
    if directory.is_dir():
        return False
    _make_missing(directory.parent)
    try:
        directory.mkdir(mode=_PRIVATE)
    except FileExistsError:
        return False
    directory.chmod(_PRIVATE)
    return True


def _holds_only_ours(path: Path, status: os.stat_result) -> bool:
    """Whether the directory serves nobody but this daemon."""
    if status.st_mode & stat.S_ISVTX:
        return False
    return {entry.name for entry in path.parent.iterdir()} <= {path.name, lock_path(path).name}


# The lock.


def lock_path(path: Path) -> Path:
    """The lock beside a socket."""
    return path.with_name(path.name + ".lock")


@contextmanager
def _locked(path: Path) -> Generator[None]:
    lock = lock_path(path)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _check_lock(lock, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _busy(path, _written_pid(descriptor)) from None
        if FileId.at(lock) != _id_of(descriptor):
            raise EndpointExposed(
                f"the lock {lock} was replaced while it was taken", details={"path": str(path)}
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _check_lock(lock: Path, descriptor: int) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & _OPEN_TO_OTHERS:
        raise EndpointExposed(
            f"the lock {lock} is no private file of this user",
            details={"path": str(lock)},
        )


def _id_of(descriptor: int) -> FileId:
    status = os.fstat(descriptor)
    return FileId(status.st_dev, status.st_ino)


def _written_pid(descriptor: int) -> int | None:
    with suppress(ValueError):
        return int(os.pread(descriptor, 20, 0))
    return None


# The socket that is there.


def _remove_stale(path: Path) -> None:
    """Remove a socket that nobody listens at. Everything else that is there stays, and is a reason not to start."""
    before = FileId.at(path)
    if before is None:
        return
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise EndpointError(f"{path} exists and is no socket", details={"path": str(path)})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        outcome = probe.connect_ex(os.fspath(path))
        if outcome == 0:
            credential = credential_of(probe)
            raise _busy(path, (credential.pid or None) if credential is not None else None)
    match outcome:
        case errno.ENOENT:
            return
        case errno.ECONNREFUSED if FileId.at(path) == before:
            path.unlink()
        case errno.ECONNREFUSED | errno.EAGAIN:
            raise _busy(path, None)
        case _:
            raise OSError(outcome, os.strerror(outcome))


def _busy(path: Path, pid: int | None) -> EndpointBusy:
    known = {"pid": str(pid)} if pid is not None else {}
    owner = f"process {pid}" if pid is not None else "another process"
    return EndpointBusy(
        f"{owner} already serves {path}",
        remedy=Remedy(RemedyAction.STOP_DAEMON, known),
        details={"path": str(path), **known},
    )
