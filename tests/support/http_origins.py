"""An HTTP origin for tests that does by hand what it is told, right or wrong."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import h11
import peers

_TAKEN = 65_536


@dataclass
class Asked:
    """A request as it came: its head, and a connection from which the rest can be read."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    connection: socket.socket
    machine: h11.Connection
    trailers: list[tuple[str, str]]
    content: bytes | None = None

    def next_event(self) -> object:
        """The next event of the request."""
        while (event := self.machine.next_event()) is h11.NEED_DATA:
            self.machine.receive_data(self.connection.recv(_TAKEN))
        return event

    def body(self) -> bytes:
        """All of the content, read once; its trailers are kept."""
        if self.content is not None:
            return self.content
        found = bytearray()
        while isinstance(event := self.next_event(), h11.Data):
            found += event.data
        if isinstance(event, h11.EndOfMessage):
            self.trailers = [(name.decode(), value.decode()) for name, value in event.headers]
        self.content = bytes(found)
        return self.content

    def header(self, name: str) -> str | None:
        """The first value of a field."""
        return next((value for found, value in self.headers if found == name), None)

    def send(self, data: bytes) -> None:
        """Say this."""
        self.connection.sendall(data)


Answer = Callable[[Asked], object]


def reply(body: bytes = b"", *, status: str = "200 OK", headers: Mapping[str, str] | None = None) -> Answer:
    """Reads the request and answers with this."""

    def handle(asked: Asked) -> None:
        asked.body()
        lines = {"content-length": str(len(body)), **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        asked.send(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body)

    return handle


def say(data: bytes) -> Answer:
    """Reads the request, says this and no more."""

    def handle(asked: Asked) -> None:
        asked.body()
        asked.send(data)

    return handle


def say_and_hold(data: bytes) -> Answer:
    """Reads the request, says this, and waits for the other side to go."""

    def handle(asked: Asked) -> None:
        asked.body()
        asked.send(data)
        peers.hold(asked.connection)

    return handle


def echo(asked: Asked) -> None:
    """Answers with what was sent, while it comes, and with its trailers."""
    asked.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while isinstance(event := asked.next_event(), h11.Data):
        asked.send(b"%x\r\n" % len(event.data) + bytes(event.data) + b"\r\n")
    assert isinstance(event, h11.EndOfMessage)
    trailers = b"".join(name + b": " + value + b"\r\n" for name, value in event.headers)
    asked.send(b"0\r\n" + trailers + b"\r\n")


class Origin:
    """Answers by path, on loopback.

    :param paths: how to answer a target, its query left out.
    """

    def __init__(self, paths: Mapping[str, Answer] | Answer, *, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        """Every request, as its head was read."""
        self._paths = paths
        self._lock = threading.Lock()
        self._peer = peers.Peer(self._serve, tls=tls)
        self.port = self._peer.port

    @property
    def accepted(self) -> int:
        """Connections so far."""
        return self._peer.accepted

    def _serve(self, connection: socket.socket) -> None:
        with suppress(h11.RemoteProtocolError):  # the other side went in the middle of its request
            self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        machine = h11.Connection(h11.SERVER, max_incomplete_event_size=2**20)
        asked = Asked("", "", [], connection, machine, [])
        event = asked.next_event()
        if not isinstance(event, h11.Request):
            return
        asked.method, asked.target = event.method.decode(), event.target.decode()
        asked.headers = [(name.decode(), value.decode("latin-1")) for name, value in event.headers]
        with self._lock:
            self.asked.append(asked)
        if callable(self._paths):
            self._paths(asked)
        else:
            self._paths[asked.target.partition("?")[0]](asked)

    def close(self) -> None:
        """End every connection."""
        self._peer.close()
