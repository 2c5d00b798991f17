"""Unix sockets: the listener, the connections it takes, and the way to connect to one."""

from __future__ import annotations

import errno
import os
import select
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
import anyio.lowlevel

from zeroclaw_daemon.rpc.transport.base import AcceptFailed, Peer, Transport, TransportClosed
from zeroclaw_daemon.rpc.transport.claim import FileId, check_length, claimed, credential_of, preparing
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, ZeroclawError

_SOCKET_MODE: Final = 0o600

_PASSING: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.EINTR, errno.ENOBUFS, errno.ENOMEM, errno.EPROTO}
)
"""Reasons for which one accept fails and a later one may not."""


_RETRY_SECONDS: Final = 0.01
"""Pause before another try to connect."""


_LOOK_SECONDS: Final = 0.02
"""How often a connection that has ended looks whether its peer has closed too."""


class DaemonUnreachable(ZeroclawError):
    """Nothing listens where the daemon should. ``details`` holds ``path``."""

    code = "daemon_unreachable"
    kind = Kind.UNAVAILABLE


class UnixTransport:
    """A connection over a Unix socket, which it owns from now on."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._drained = True
        credential = credential_of(connected)
        label = (
            f"unix:pid={credential.pid},uid={credential.uid}" if credential is not None else "unix:unknown"
        )
        self._peer = Peer(label, credential)

    @property
    def peer(self) -> Peer:
        """The process at the other end, by the kernel's word."""
        return self._peer

    async def receive(self, max_bytes: int) -> bytes:
        """Some bytes; none once the peer will send no more, for whatever reason."""
        # Bytes that are there already must not keep the event loop from everybody else, so this always lets others run.
        await (self._readable() if self._drained else anyio.lowlevel.checkpoint())
        while True:
            try:
                data = self._socket.recv(max_bytes)
            except BlockingIOError:
                await self._readable()
            except OSError:
                return b""
            else:
                self._drained = len(data) < max_bytes
                return data

    async def _readable(self) -> None:
        with suppress(anyio.ClosedResourceError):
            await anyio.wait_readable(self._socket)

    async def send(self, data: memoryview) -> int:
        """Write as much as the system takes now; waits until it takes something."""
        while True:
            try:
                return self._socket.send(data)
            except BlockingIOError:
                try:
                    await anyio.wait_writable(self._socket)
                except anyio.ClosedResourceError:
                    raise TransportClosed from None
            except OSError as error:
                raise TransportClosed from error

    def send_now(self, data: bytes) -> int:
        """Write as much as the system takes now."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise TransportClosed from error

    def end(self) -> None:
        """Send nothing more."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    async def abandoned(self) -> None:
        """Wait until the peer has closed its side, without reading what it sent."""
        poll = select.poll()
        poll.register(self._socket, 0)
        # An event loop waits for bytes, and unread ones would keep it awake: so look for the hang-up now and then.
        while not poll.poll(0):  # noqa: ASYNC110
            await anyio.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        """Close the socket."""
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()


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
        while True:
            try:
                connected, _ = self._socket.accept()
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
            except OSError as error:
                if error.errno in _PASSING:
                    raise AcceptFailed(error.strerror) from error
                raise
            else:
                return UnixTransport(connected)

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


async def connect(path: Path) -> UnixTransport:
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
    return UnixTransport(connected)
