"""Stream sockets of any family, without blocking: what a Unix socket and a TCP connection have in common."""

from __future__ import annotations

import errno
import select
import socket
from contextlib import suppress
from typing import Final

import anyio
import anyio.lowlevel

from zeroclaw_daemon.rpc.transport.base import AcceptFailed

_PASSING_NAMES: Final = (
    "EMFILE", "ENFILE", "ECONNABORTED", "EINTR", "ENOBUFS", "ENOMEM", "EPROTO",
    # What befell one connection of a network before it was accepted, and what a firewall forbade.
    "ENETDOWN", "ENETUNREACH", "EHOSTDOWN", "EHOSTUNREACH", "ENONET", "ENOPROTOOPT", "EOPNOTSUPP", "EPERM",
)  # fmt: skip

PASSING: Final = frozenset(getattr(errno, name) for name in _PASSING_NAMES if hasattr(errno, name))
"""Reasons for which one accept fails and a later one may not. Systems know different ones."""

_LOOK_SECONDS: Final = 0.02
"""How often a connection that has ended looks whether its peer has closed too."""


class SocketStream:
    """The bytes of one connected socket, which it owns from now on.

    :param whole: whether a peer that will send no more is gone altogether.
    """

    def __init__(self, connected: socket.socket, *, whole: bool = False) -> None:
        connected.setblocking(False)
        self._hang_up = getattr(select, "POLLRDHUP", 0) if whole else 0
        self._socket = connected
        self._drained = True

    async def read(self, max_bytes: int) -> bytes:
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

    async def write(self, data: memoryview) -> int:
        """Write as much as the system takes now; waits until it takes something.

        :raises OSError: the peer takes no more bytes, or this side was closed.
        """
        while not (count := self.write_now(data)):
            try:
                await anyio.wait_writable(self._socket)
            except anyio.ClosedResourceError as error:
                raise BrokenPipeError from error
        return count

    def write_now(self, data: bytes | memoryview) -> int:
        """Write as much as the system takes now, which may be nothing.

        :raises OSError: as :meth:`write`.
        """
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0

    def end(self) -> None:
        """Send nothing more."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    async def gone(self) -> None:
        """Wait until the peer has closed its side, without reading what it sent."""
        poll = select.poll()
        poll.register(self._socket, self._hang_up)
        # An event loop waits for bytes, and unread ones would keep it awake: so look for the hang-up now and then.
        while not poll.poll(0):  # noqa: ASYNC110
            await anyio.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        """Close the socket. Calling it again does nothing."""
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()

    async def _readable(self) -> None:
        with suppress(anyio.ClosedResourceError):
            await anyio.wait_readable(self._socket)


async def accepted(listening: socket.socket) -> tuple[socket.socket, object]:
    """The next connection of a socket that listens without blocking, and its peer's address.

    :raises AcceptFailed: this one failed for a reason that passes.
    """
    while True:
        try:
            return listening.accept()
        except BlockingIOError:
            await anyio.wait_readable(listening)
        except OSError as error:
            if error.errno in PASSING:
                raise AcceptFailed(error.strerror) from error
            raise
