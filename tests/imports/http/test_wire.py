"""The wire of an exchange between the loop's other matters: how much is done at once, and what is woken for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from zeroclaw_host.egress.http.body import BUFFER_BYTES, Download, Upload
from zeroclaw_host.egress.http.message import (
    Fault,
    FieldLines,
    HttpFailed,
    HttpTimes,
    RequestHead,
    ResponseHead,
)
from zeroclaw_host.egress.http.wire import Wire

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
PLENTY = 10_000
"""Pieces that nobody moves who looks after others, too."""


class Endless:
    """A connection whose peer has always sent something more, and has always room for more."""

    def __init__(self, piece: bytes) -> None:
        self.piece = piece
        self.received = self.sent = 0
        self.closed = False

    def receive_now(self, limit: int) -> bytes:
        self.received += 1
        assert self.received < PLENTY, "the loop serves nobody else"
        return HEAD if self.received == 1 else self.piece

    def send_now(self, data: memoryview) -> int:
        self.sent += 1
        assert self.sent < PLENTY, "the loop serves nobody else"
        return 1

    def close(self) -> None:
        self.closed = True


class Told:
    """Who is told of the response."""

    def __init__(self) -> None:
        self.woken = 0
        self.head: ResponseHead | None = None
        self.download = Download(lambda: None)
        self.download.attach(self._wake, lambda: None)

    def keep(self, lines: FieldLines) -> None:
        """There is room for everything."""

    def begin(self, head: ResponseHead) -> None:
        self.head = head

    def _wake(self) -> None:
        self.woken += 1


def wire(
    piece: bytes, upload: Upload | None = None, clock: Callable[[], float] = lambda: 100.0
) -> tuple[Wire, Any, Told]:
    told, connection = Told(), Endless(piece)
    head = RequestHead.of(b"POST", b"/", b"a.example", (), content=upload is not None)
    times = HttpTimes(first_byte=10.0, between_bytes=10.0)
    return Wire(connection, head, upload, told, times, clock=clock), connection, told  # type: ignore[arg-type]


CHUNK = b"8000\r\n" + bytes(0x8000) + b"\r\n"


@pytest.mark.req("PAINS-3")
@pytest.mark.parametrize("piece", [CHUNK, b"1\r\nx\r\n" * 10_000], ids=["large", "tiny"])
def test_a_peer_that_never_stops_does_not_have_the_loop_alone(piece: bytes) -> None:
    made, connection, told = wire(piece)
    told.download.discard()  # only the trailers are wanted: nothing the peer sends is too much
    for _ in range(3):
        made.ready()
        assert made.moment() is not None
        assert made.moment() <= 100.0, "it goes on at once, whether or not anything more comes"  # type: ignore[operator]
    assert not connection.closed


def test_what_leaves_slowly_leaves_the_others_their_turn() -> None:
    upload = Upload()
    upload.write(bytes(BUFFER_BYTES))
    made, connection, _ = wire(CHUNK, upload)
    made.ready()
    assert connection.sent < 1_000
    assert not connection.closed


def test_many_tiny_chunks_wake_the_guest_once() -> None:
    made, _, told = wire(b"1\r\nx\r\n" * 10_000)
    made.ready()
    assert told.head is not None
    assert told.download.ready
    assert told.woken == 1


def test_what_has_arrived_is_not_late_however_long_the_others_take() -> None:
    moments = iter(range(0, 10**9, 100))  # more than may pass between two pieces, at every look
    made, connection, told = wire(b"1\r\nx\r\n" * 10_000, clock=lambda: float(next(moments)))
    for _ in range(5):
        made.ready()
    assert told.download.failure is None
    assert not connection.closed


def test_a_peer_that_takes_everything_and_says_nothing_is_late() -> None:
    upload = Upload()
    upload.write(bytes(BUFFER_BYTES))
    moments = iter(range(0, 10**9, 100))
    made, connection, told = wire(b"", upload, clock=lambda: float(next(moments)))
    connection.receive_now = lambda limit: None
    made.ready()
    assert isinstance(told.download.failure, HttpFailed)
    assert told.download.failure.fault is Fault.LATE
    assert connection.closed


def test_whoever_ends_it_does_not_wait_for_a_peer_to_stop() -> None:
    made, connection, told = wire(CHUNK)
    told.download.discard()
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            made.ready()

    thread = threading.Thread(target=run)
    thread.start()
    made.stop()
    ended.set()
    thread.join()
    assert connection.closed
    assert made.wanted() == 0
    assert made.moment() is None
