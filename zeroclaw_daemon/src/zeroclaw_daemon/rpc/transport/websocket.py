"""A WebSocket as a transport, at either end: one JSON-RPC message is one text message (D-35).

The protocol is a library's, without its I/O. A line end inside a message is blank space there and becomes another blank, so
that a message is one line to whoever reads lines, valid or not exactly as it was sent.
"""

from __future__ import annotations

import logging
import ssl
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream
from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import OPEN, Protocol

from zeroclaw_daemon.clock import Clock
from zeroclaw_daemon.records import record
from zeroclaw_daemon.rpc.framing import MAX_FRAME_BYTES, READ_BYTES
from zeroclaw_daemon.rpc.transport.base import Peer, TransportClosed
from zeroclaw_daemon.rpc.transport.sockets import SocketStream

LOST: Final = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, ssl.SSLError)
"""What a stream raises whose peer is gone or does not speak its protocol."""

_FIRST_SEARCH_BYTES: Final = 4096

_READ_BYTES: Final = 8 * 1024
"""How much is looked at in one go. Of the smallest frames these are a thousand, which take some milliseconds; then others have
their turn.
"""

_LATE_SECONDS: Final = 1.0
"""For an answer to a ping that may have come while nothing was read."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WebSocketLimits:
    """The bounds of one WebSocket. Times are in seconds."""

    message_bytes: int = MAX_FRAME_BYTES - 1
    """Longest message: a line without its end (RPC-021)."""
    stranger_bytes: int = 64 * 1024
    """Longest message of a peer that has not introduced itself."""
    ping_seconds: float = 20.0
    """Between one sign of life and the next question for one."""
    pong_seconds: float = 20.0
    """For the peer to answer that question."""
    reply_seconds: float = 30.0
    """For the peer to take what the protocol itself answers to it: whoever sends pings is to read the answers."""


class WebSocketTransport(ABC):
    """One connection, which owns its socket from now on. TLS and WebSocket are negotiated by the first use; how, is the
    business of each end.
    """

    def __init__(
        self, stream: SocketStream, peer: Peer, protocol: Protocol, *, clock: Clock, limits: WebSocketLimits
    ) -> None:
        self._socket = stream
        self._peer = peer
        self._protocol = protocol
        self._clock = clock
        self._limits = limits
        self._bytes: ByteStream | None = None
        self._begun = False
        self._accepted = False
        self._message = bytearray()
        self._lines = bytearray()
        self._sending = anyio.Lock(fast_acquire=True)
        self._lost = False
        self._asked = False
        self._due = 0.0

    @abstractmethod
    async def _secured(self) -> ByteStream:
        """The stream after the handshake of TLS, or as it is where there is none."""

    @abstractmethod
    async def _negotiate(self, stream: ByteStream) -> bool:
        """Make it a WebSocket; whether it is one now."""

    @abstractmethod
    def _broke_off(self, error: Exception) -> None:
        """The stream ended before it was a WebSocket."""

    @property
    def peer(self) -> Peer:
        """Who is at the other end, by the network's word."""
        return self._peer

    async def receive(self, max_bytes: int) -> bytes:
        """Some bytes of whole messages, each with a line end behind it; none once the peer will send no more.

        A message that the peer broke off is nothing, for what is missing may be what matters.
        """
        await anyio.lowlevel.checkpoint()
        if not await self._opened():
            return b""
        if self._asked:
            # While nobody read, the answer may have come.
            self._due = max(self._due, self._clock.now() + _LATE_SECONDS)
        while not self._lines and self._open:
            await self._take()
        data = bytes(self._lines[:max_bytes])
        del self._lines[:max_bytes]
        return data

    async def send(self, data: memoryview) -> int:
        """Send the first line of the bytes as one message."""
        if not await self._opened():
            raise TransportClosed
        end = _line_end(data)
        async with self._sending:
            try:
                self._protocol.send_text(bytes(data[: end - 1]))
            except InvalidState as error:
                raise TransportClosed from error
            if not await self._write_out():
                raise TransportClosed
        return end

    def send_now(self, data: bytes) -> int:
        """None: what TLS writes is waited for."""
        return 0

    def admitted(self) -> None:
        """The peer may send whole messages from now on."""
        self._protocol.max_message_size = self._limits.message_bytes

    async def farewell(self) -> None:
        """Close the WebSocket, if it is open, saying that this end goes away."""
        self.end()
        await self._see_off()

    def end(self) -> None:
        """Send nothing more but the word that this is the end."""
        if self._protocol.state is OPEN:
            self._protocol.send_close(CloseCode.GOING_AWAY)

    async def abandoned(self) -> None:
        """Wait until the peer has closed its side. After :meth:`end`, what it still sends is thrown away."""
        if self._protocol.state is OPEN:
            await self._socket.gone()
        else:
            await self._see_off()

    def close(self) -> None:
        """Close the socket."""
        self._lost = True
        self._socket.close()

    # The way there.

    @property
    def _open(self) -> bool:
        return not self._lost and self._protocol.state is OPEN

    async def _opened(self) -> bool:
        """Whether there was a WebSocket. Negotiates one at first, within the time of whoever waits for this."""
        if not self._begun:
            self._begun = True
            try:
                self._bytes = await self._secured()
                self._accepted = await self._negotiate(self._bytes)
            except LOST as error:
                self._lost = True
                self._broke_off(error)
            self._due = self._clock.now() + self._limits.ping_seconds
        return self._accepted

    async def _first_events(self, stream: ByteStream) -> Sequence[object]:
        """What the peer says first; nothing where it is no HTTP."""
        events: Sequence[object] = ()
        while not events and not self._lost and self._protocol.handshake_exc is None:
            self._protocol.receive_data(await stream.receive(READ_BYTES))
            events = self._protocol.events_received()
        return events

    # Reading.

    async def _take(self) -> None:
        """Take what arrives next, and answer what the protocol itself has to be answered with."""
        await anyio.lowlevel.checkpoint()  # TLS may hold more that has arrived, and need not wait for it
        data = await self._arrived()
        if data is None:
            pass
        elif data:
            self._protocol.receive_data(data)
            self._keep(self._protocol.events_received())
        else:
            self._lost = True
        async with self._sending:
            with self._clock.move_on_after(self._limits.reply_seconds):
                await self._write_out()

    async def _arrived(self) -> bytes | None:
        """Some bytes; none at their end; None when it is time for a sign of life instead."""
        assert self._bytes is not None
        try:
            with self._clock.move_on_after(max(self._due - self._clock.now(), 0)):
                return await self._bytes.receive(_READ_BYTES)
        except LOST:
            return b""
        if self._asked:
            record(
                logger, logging.WARNING, "a peer gives no sign of life",
                action="ping_timeout", peer=self._peer.label,
            )  # fmt: skip
            return b""
        self._asked = True
        self._due = self._clock.now() + self._limits.pong_seconds
        self._protocol.send_ping(b"")
        return None

    def _keep(self, events: Sequence[object]) -> None:
        for event in events:
            if not isinstance(event, Frame):
                continue
            match event.opcode:
                case Opcode.TEXT | Opcode.CONT:
                    self._message += bytes(event.data).replace(b"\n", b"\r")
                    if event.fin:
                        self._lines += self._message + b"\n"
                        self._message.clear()
                case Opcode.BINARY:
                    self._protocol.fail(CloseCode.UNSUPPORTED_DATA, "messages are text")
                    return
                case Opcode.PONG:
                    self._asked = False
                    self._due = self._clock.now() + self._limits.ping_seconds
                case _:
                    pass  # The protocol has answered pings and the close by itself.

    async def _see_off(self) -> None:
        """Write what is left to say, and throw away what comes until the peer has said goodbye too."""
        async with self._sending:
            await self._write_out()
        if self._bytes is None:
            return
        if not self._accepted or self._protocol.parser_exc is not None:
            self._socket.end()  # There is no goodbye to wait for, only the end.
        try:
            while not self._lost and self._protocol.close_rcvd is None:
                self._protocol.receive_data(await self._bytes.receive(READ_BYTES))
                self._protocol.events_received()
        except LOST:
            self._lost = True

    # Writing.

    async def _write_out(self) -> bool:
        """Write what the protocol has to say; whether the peer takes it. Needs the lock."""
        for data in self._protocol.data_to_send():
            if self._bytes is None or self._lost:
                return False
            try:
                if data:
                    await self._bytes.send(data)
            except LOST:
                self._lost = True
                return False
            except BaseException:
                # A frame that was broken off leaves nothing that the peer could read.
                self._lost = True
                raise
        return not self._lost


def _line_end(data: memoryview) -> int:
    """Where the first line of the bytes ends, its end included. There is one: frames are written whole."""
    reach = _FIRST_SEARCH_BYTES
    while (found := bytes(data[:reach]).find(b"\n")) < 0 and reach < len(data):
        reach *= 4
    return found + 1 if found >= 0 else len(data)
