"""The one transport of this machine, over whatever primitive its system has: a Unix socket, a named pipe (RPC-225)."""

from __future__ import annotations

from types import CoroutineType
from typing import Any, Protocol

from zeroclaw_daemon.rpc.transport.base import Peer, TransportClosed


class SystemStream(Protocol):
    """One local connection, as a system has it."""

    def read(self, max_bytes: int) -> CoroutineType[Any, Any, bytes]:
        """Some bytes; none once the peer will send no more, for whatever reason. Always lets other tasks run."""
        ...

    async def write(self, data: memoryview) -> int:
        """Write a first part of the bytes; how many.

        :raises OSError: the peer takes no more bytes.
        """
        ...

    def write_now(self, data: bytes) -> int:
        """Write what can be written without waiting; how many of the bytes, which may be none.

        :raises OSError: the peer takes no more bytes.
        """
        ...

    def end(self) -> None:
        """Send nothing more, where the system has a way to say so."""
        ...

    async def gone(self) -> None:
        """Wait until the peer has closed its side. Reads nothing."""
        ...

    def close(self) -> None:
        """Release everything. Calling it again does nothing."""
        ...


class LocalTransport:
    """A connection to somebody on this machine."""

    def __init__(self, stream: SystemStream, peer: Peer) -> None:
        self._stream = stream
        self._peer = peer
        self._ended = False

    @property
    def peer(self) -> Peer:
        """Who is at the other end, by the system's word."""
        return self._peer

    def receive(self, max_bytes: int) -> CoroutineType[Any, Any, bytes]:
        """Some bytes; none once the peer will send no more, for whatever reason."""
        return self._stream.read(max_bytes)

    async def send(self, data: memoryview) -> int:
        """Write as much as the system takes now; waits until it takes something."""
        if self._ended:
            raise TransportClosed
        try:
            return await self._stream.write(data)
        except OSError as error:
            raise TransportClosed from error

    def send_now(self, data: bytes) -> int:
        """Write as much as the system takes now."""
        if self._ended:
            raise TransportClosed
        try:
            return self._stream.write_now(data)
        except OSError as error:
            raise TransportClosed from error

    def admitted(self) -> None:
        """A local peer is held to the same from the beginning."""

    async def farewell(self) -> None:
        """The end of the bytes says it all."""

    def end(self) -> None:
        """Send nothing more."""
        self._ended = True
        self._stream.end()

    async def abandoned(self) -> None:
        """Wait until the peer has closed its side, without reading what it sent."""
        await self._stream.gone()

    def close(self) -> None:
        """Release the connection."""
        self._stream.close()
