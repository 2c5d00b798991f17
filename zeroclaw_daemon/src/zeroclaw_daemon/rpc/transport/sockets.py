"""Stream sockets of any family, without blocking: what a Unix socket and a TCP connection have in common."""

from __future__ import annotations

import asyncio
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

    Between two reads the socket stays registered with the event loop, since to register it takes longer than to read from it.
    Where something comes that nobody waits for, it is registered no more: unread bytes would keep the loop awake.

    :param whole: whether a peer that will send no more is gone altogether.
    """

    def __init__(self, connected: socket.socket, *, whole: bool = False) -> None:
        connected.setblocking(False)
        self._hang_up = getattr(select, "POLLRDHUP", 0) if whole else 0
        self._socket = connected
        self._drained = True
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._wanted = 0
        self._received: bytes | None = None

    async def read(self, max_bytes: int) -> bytes:
        """Some bytes; none once the peer will send no more, for whatever reason."""
        # Bytes that are there already must not keep the event loop from everybody else, so this always lets others run.
        if self._drained and self._received is None:
            await self._readable(max_bytes)
        else:
            await anyio.lowlevel.checkpoint()
        while (data := self._taken(max_bytes)) is None:
            await self._readable(max_bytes)
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
            self._unregister()
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(None)
            anyio.notify_closing(self._socket)
            self._socket.close()

    async def _readable(self, max_bytes: int) -> None:
        """Wait until there is something to take, or this side is closed."""
        if self._socket.fileno() < 0:
            return
        if (loop := self._registered()) is None:
            with suppress(anyio.ClosedResourceError):
                await anyio.wait_readable(self._socket)
            return
        if self._waiting is not None:
            raise anyio.BusyResourceError("reading from")
        self._wanted = max_bytes
        self._waiting = loop.create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def _registered(self) -> asyncio.AbstractEventLoop | None:
        """The event loop, which tells of bytes from now on; None where it cannot, as on Windows, or is another library's."""
        if self._loop is None:
            try:
                loop = asyncio.get_running_loop()
                loop.add_reader(self._socket.fileno(), self._receive)
            except RuntimeError:
                return None
            self._loop = loop
        return self._loop

    def _unregister(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop = None

    def _receive(self) -> None:
        """Take what came. It is kept until a read has it, for the one that waits may be cancelled before it has."""
        if self._waiting is None or self._waiting.done():
            self._unregister()
        elif (data := self._taken(self._wanted)) is not None:
            self._received = data
            self._waiting.set_result(None)

    def _taken(self, max_bytes: int) -> bytes | None:
        """What there is now; None where there is nothing yet."""
        if (data := self._received) is not None:
            self._received = data[max_bytes:] or None
            return data[:max_bytes]
        try:
            return self._socket.recv(max_bytes)
        except BlockingIOError:
            return None
        except OSError:
            return b""


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
