"""Unix sockets: the listener, the connections it takes, and the way to connect to one."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import anyio

from zeroclaw_daemon.rpc.transport.base import Peer, Transport
from zeroclaw_daemon.rpc.transport.claim import FileId, check_length, claimed, credential_of, preparing
from zeroclaw_daemon.rpc.transport.local import LocalTransport
from zeroclaw_daemon.rpc.transport.sockets import SocketStream, accepted
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, ZeroclawError

_SOCKET_MODE: Final = 0o600

_RETRY_SECONDS: Final = 0.01
"""Pause before another try to connect."""


class DaemonUnreachable(ZeroclawError):
    """Nothing listens where the daemon should. ``details`` holds ``path``."""

    code = "daemon_unreachable"
    kind = Kind.UNAVAILABLE


def _transport(connected: socket.socket) -> LocalTransport:
    credential = credential_of(connected)
    label = f"unix:pid={credential.pid},uid={credential.uid}" if credential is not None else "unix:unknown"
    return LocalTransport(SocketStream(connected), Peer(label, credential))


class UnixListener:
    """A Unix socket that only its owner may connect to.

    :param path: where the socket is; its directory is prepared as :func:`.claim.claimed` says.
    :param data_dir: the daemon's own directory.
    """

    def __init__(self, path: Path, *, data_dir: Path) -> None:
        self._path = path
        self._data_dir = data_dir
        self._socket: socket.socket | None = None

    @property
    def endpoint(self) -> str:
        """The socket's path."""
        return str(self._path)

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Hold the path: bound, private, and only then listening (RPC-050). Left, the socket is gone; a socket that
        somebody else bound there meanwhile stays (RPC-011).

        :raises EndpointError: the path cannot be had, or another daemon has it.
        """
        return self._opened()

    async def accept(self) -> Transport:
        """The next connection."""
        assert self._socket is not None, "the listener is not open"
        connected, _ = await accepted(self._socket)
        return _transport(connected)

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[None]:
        with claimed(self._path, self._data_dir), _listening(self._path) as self._socket:
            try:
                yield
            finally:
                anyio.notify_closing(self._socket)


@contextmanager
def _listening(path: Path) -> Generator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.setblocking(False)
        with preparing(path):
            listening.bind(os.fspath(path))
        bound = FileId.at(path)
        try:
            with preparing(path):
                path.chmod(_SOCKET_MODE)
                listening.listen(socket.SOMAXCONN)
            yield listening
        finally:
            if bound is not None and FileId.at(path) == bound:
                path.unlink()


async def connect(path: Path) -> LocalTransport:
    """Connect to a daemon.

    :raises DaemonUnreachable: nothing listens there.
    :raises EndpointTooLong: the path fits no socket address.
    """
    check_length(path)
    with ExitStack() as undo:
        connected = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        connected.setblocking(False)
        while (outcome := connected.connect_ex(os.fspath(path))) == errno.EAGAIN:  # noqa: ASYNC110
            # The listener's queue is full, and Linux has nothing to wait on for a Unix socket.
            await anyio.sleep(_RETRY_SECONDS)
        if outcome:
            raise DaemonUnreachable(
                f"no daemon listens at {path}: {os.strerror(outcome)}",
                remedy=Remedy(RemedyAction.START_DAEMON),
                details={"path": str(path)},
            )
        undo.pop_all()
    return _transport(connected)
