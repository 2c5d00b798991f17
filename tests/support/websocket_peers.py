"""WebSocket servers for tests: the library's own, and one that says by hand whatever it should not."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import peers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request
from websockets.protocol import State
from websockets.sync.server import ServerConnection, serve
from websockets.typing import Subprotocol
from websockets.utils import accept_key

OPEN = State.OPEN
Talk = Callable[[ServerConnection], object]


def echo(connection: ServerConnection) -> None:
    """Until the other side closes, or goes without a word."""
    with suppress(ConnectionClosed):
        for message in connection:
            connection.send(message)


class Server:
    """The library's threaded server on loopback. It does not compress, and takes messages of any size."""

    def __init__(
        self,
        talk: Talk = echo,
        *,
        subprotocols: Sequence[str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests: list[tuple[str, list[tuple[str, str]]]] = []
        """Target and headers of every upgrade."""

        def asked(_connection: ServerConnection, request: Request) -> None:
            self.requests.append((request.path, list(request.headers.raw_items())))

        self._server = serve(
            talk,
            "127.0.0.1",
            0,
            ssl=tls,
            process_request=asked,
            subprotocols=None if subprotocols is None else [Subprotocol(name) for name in subprotocols],
            compression=None,
            max_size=None,
        )
        self.port: int = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        """Stop listening and end every connection."""
        self._server.shutdown()
        self._thread.join(peers.PATIENCE)


def request_of(plug: socket.socket) -> bytes:
    """Everything up to the end of a request's head."""
    seen = b""
    while b"\r\n\r\n" not in seen:
        data = plug.recv(65_536)
        if not data:
            break
        seen += data
    return seen


def header_of(request: bytes, name: str) -> str:
    """The value of a header that is there once."""
    [found] = [
        value.strip().decode()
        for line in request.split(b"\r\n")[1:]
        for head, _, value in [line.partition(b":")]
        if head.decode().lower() == name.lower()
    ]
    return found


def acceptance(request: bytes, *more: str) -> bytes:
    """A proper answer to an upgrade, with more header lines."""
    key = accept_key(header_of(request, "Sec-WebSocket-Key"))
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {key}",
        *more,
    ]
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")


def upgraded(then: peers.Handler, *more: str) -> peers.Handler:
    """A peer that upgrades properly, and goes on as it likes."""

    def handle(plug: socket.socket) -> None:
        plug.sendall(acceptance(request_of(plug), *more))
        then(plug)

    return handle


def saying(*parts: bytes, hold: bool = True) -> peers.Handler:
    """After a proper upgrade: these bytes, and then silence until the other side goes (or the end at once)."""

    def speak(plug: socket.socket) -> None:
        for part in parts:
            plug.sendall(part)
        if hold:
            with suppress(OSError):
                peers.hold(plug)

    return upgraded(speak)


def frame(
    opcode: int, data: bytes = b"", *, fin: bool = True, reserved: int = 0, mask: bool = False
) -> bytes:
    """A frame, proper or not.

    :param reserved: the three reserved bits, as a number.
    """
    head = bytes([(0x80 if fin else 0) | reserved << 4 | opcode])
    bit = 0x80 if mask else 0
    if len(data) < 126:
        head += bytes([bit | len(data)])
    elif len(data) < 1 << 16:
        head += struct.pack("!BH", bit | 126, len(data))
    else:
        head += struct.pack("!BQ", bit | 127, len(data))
    return head + (b"\0\0\0\0" if mask else b"") + data


def closing(code: int, reason: bytes = b"") -> bytes:
    """A close frame with a code."""
    return frame(8, struct.pack("!H", code) + reason)
