"""A transport inside one process: the same seam, no socket. A public fake for tests of clients and servers."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import anyio

from zeroclaw_daemon.rpc.transport.base import Peer, Transport, TransportClosed

DEFAULT_CAPACITY: Final = 64 * 1024
"""Bytes that one direction holds before its writer waits."""


class _Pipe:
    """One direction: bytes between a writer and a reader."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.bytes = bytearray()
        self.writer_ended = False
        self.reader_closed = False
        self._changed = anyio.Event()

    async def read(self, max_bytes: int) -> bytes:
        while not self.bytes and not self.writer_ended and not self.reader_closed:
            await self._changed.wait()
        data = bytes(self.bytes[:max_bytes])
        del self.bytes[:max_bytes]
        self.notify()
        return data

    async def write(self, data: memoryview) -> int:
        while len(self.bytes) >= self.capacity and not self.reader_closed and not self.writer_ended:
            await self._changed.wait()
        return self.write_now(data)

    def write_now(self, data: bytes | memoryview) -> int:
        if self.reader_closed or self.writer_ended:
            raise TransportClosed
        count = min(len(data), self.capacity - len(self.bytes))
        self.bytes += data[:count]
        self.notify()
        return count

    async def deserted(self) -> None:
        while not self.reader_closed:
            await self._changed.wait()

    def notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class MemoryTransport:
    """One end of a connection that exists only in memory. Made by :func:`memory_pair`."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe, peer: Peer) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._peer = peer

    @property
    def peer(self) -> Peer:
        """Whoever the maker of the pair says is at the other end."""
        return self._peer

    async def receive(self, max_bytes: int) -> bytes:
        """Bytes the other end sent; none once it ended."""
        return await self._incoming.read(max_bytes)

    async def send(self, data: memoryview) -> int:
        """Hand over as many bytes as fit; waits while the other end reads nothing."""
        return await self._outgoing.write(data)

    def send_now(self, data: bytes) -> int:
        """Hand over as many bytes as fit."""
        return self._outgoing.write_now(data)

    def admitted(self) -> None:
        """Nothing changes."""

    async def farewell(self) -> None:
        """The end of the bytes says it all."""

    def end(self) -> None:
        """Send nothing more."""
        self._outgoing.writer_ended = True
        self._outgoing.notify()

    async def abandoned(self) -> None:
        """Wait until the other end is closed."""
        await self._outgoing.deserted()

    def close(self) -> None:
        """End both directions; what was written before still reaches the other end."""
        self.end()
        self._incoming.reader_closed = True
        self._incoming.notify()


def memory_pair(
    *,
    peer: Peer | None = None,
    capacity: int = DEFAULT_CAPACITY,
) -> tuple[MemoryTransport, MemoryTransport]:
    """Two connected ends: the first is the client's, the second the server's.

    :param peer: whom the server's end sees; nobody known when left out.
    :param capacity: bytes each direction holds before its writer waits.
    """
    to_server, to_client = _Pipe(capacity), _Pipe(capacity)
    client = MemoryTransport(to_client, to_server, Peer("memory:server"))
    server = MemoryTransport(to_server, to_client, peer or Peer("memory:client"))
    return client, server


class MemoryListener:
    """A place in memory: :meth:`connect` makes a connection that :meth:`accept` hands out."""

    def __init__(self, *, peer: Peer | None = None, capacity: int = DEFAULT_CAPACITY) -> None:
        self._peer = peer
        self._capacity = capacity
        self._waiting: deque[Transport] = deque()
        self._came = anyio.Event()

    @property
    def endpoint(self) -> str:
        """``memory``."""
        return "memory"

    def opened(self) -> AbstractAsyncContextManager[None]:
        """There is nothing to hold; connections that nobody took when the block is left are closed."""
        return self._opened()

    async def accept(self) -> Transport:
        """The next connection that was made."""
        while not self._waiting:
            self._came = anyio.Event()
            await self._came.wait()
        return self._waiting.popleft()

    def connect(self, *, peer: Peer | None = None) -> MemoryTransport:
        """Make a connection; the client's end of it."""
        client, server = memory_pair(peer=peer or self._peer, capacity=self._capacity)
        self._waiting.append(server)
        self._came.set()
        return client

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            while self._waiting:
                self._waiting.popleft().close()
