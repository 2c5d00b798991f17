"""TLS over a socket of ours."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from zeroclaw_daemon.rpc.transport.sockets import SocketStream


class SocketBytes(ByteStream):
    """A socket as the library of TLS takes it."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        # TLS writes while it reads, too, and a record must not begin within another. Without somebody to wait for there is
        # no moment at which a write could be cancelled before it began.
        self._sending = anyio.Lock(fast_acquire=True)

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """None."""
        return {}

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """Some bytes.

        :raises anyio.EndOfStream: the peer will send no more.
        """
        if data := await self._stream.read(max_bytes):
            return data
        raise anyio.EndOfStream

    async def send(self, item: bytes) -> None:
        """Write all of it.

        :raises anyio.BrokenResourceError: the peer takes no more.
        """
        rest = memoryview(item)
        async with self._sending:
            try:
                while rest:
                    rest = rest[await self._stream.write(rest) :]
            except OSError as error:
                raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        """Send nothing more."""
        self._stream.end()

    async def aclose(self) -> None:
        """Close the socket."""
        self._stream.close()


async def served_over(stream: SocketStream, context: ssl.SSLContext | None) -> ByteStream:
    """The stream after the handshake of TLS, with the certificate of this end; as it is, where there is no context.

    :raises ssl.SSLError: the handshake failed.
    :raises anyio.EndOfStream: the peer left.
    :raises anyio.BrokenResourceError: the peer left.
    """
    plain = SocketBytes(stream)
    if context is None:
        return plain
    return await TLSStream.wrap(plain, server_side=True, ssl_context=context, standard_compatible=False)


async def dialed_over(stream: SocketStream, context: ssl.SSLContext | None, host: str) -> ByteStream:
    """The stream after the handshake of TLS with a peer that proves to be this host; as it is, where there is no context.

    :raises ssl.SSLError: the handshake failed, or the peer's certificate is not trusted or is of another host.
    :raises anyio.EndOfStream: the peer left.
    :raises anyio.BrokenResourceError: the peer left.
    """
    plain = SocketBytes(stream)
    if context is None:
        return plain
    return await TLSStream.wrap(
        plain, server_side=False, hostname=host, ssl_context=context, standard_compatible=False
    )
