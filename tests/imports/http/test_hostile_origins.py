"""What a peer may send to confuse whoever reads it: each response is whole, cut where its framing says, or an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import http_origins
import pytest

Make = Callable[..., Any]
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"

PROTOCOL = ("HTTP-protocol-error", None)
INCOMPLETE = ("HTTP-response-incomplete", None)
HEAD_SIZE = ("HTTP-response-header-section-size", None)


def asked(net: Any, port: int, method: str = "get") -> Any:
    """What became of a request: an error code, or the content and how it ended."""
    answer = net.answer(net.handle(net.request(f"http://a.example:{port}/", method=(method, None))))
    if isinstance(answer, tuple):
        return answer
    _, stream = net.body(answer)
    return net.read(stream)


REFUSED = {
    "lengths that differ": OK + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
    "lengths that differ in one line": OK + b"content-length: 3, 4\r\n\r\nabcd",
    "a negative length": OK + b"content-length: -1\r\n\r\nabc",
    "a signed length": OK + b"content-length: +3\r\n\r\nabc",
    "a length in hexadecimal": OK + b"content-length: 0x3\r\n\r\nabc",
    "a length of too many digits": OK + b"content-length: " + b"9" * 5000 + b"\r\n\r\nabc",
    "no length": OK + b"content-length: \r\n\r\nabc",
    "another coding": OK + b"transfer-encoding: gzip, chunked\r\n\r\n" + LAST,
    "two codings": OK + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n" + LAST,
    "a space before the colon": OK + b"content-length : 3\r\n\r\nabc",
    "a space before the first name": OK + b" x: 1\r\n\r\n",
    "a field without a name": OK + b": 1\r\n\r\n",
    "a zero byte in a value": OK + b"x: a\0b\r\ncontent-length: 0\r\n\r\n",
    "a zero byte in a name": OK + b"x\0: a\r\ncontent-length: 0\r\n\r\n",
    "a carriage return in a value": OK + b"x: a\rb\r\ncontent-length: 0\r\n\r\n",
    "no version": b"200 OK\r\n\r\n",
    "another version": b"HTTP/2.0 200 OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "a change of protocol that nobody asked for": b"HTTP/1.1 101 Switching\r\nupgrade: websocket\r\n\r\n",
    "a request": b"GET / HTTP/1.1\r\nhost: a.example\r\n\r\n",
    "a TLS alert": b"\x15\x03\x01\x00\x02\x02\x28",
}


@pytest.mark.parametrize("said", REFUSED.values(), ids=REFUSED)
def test_a_head_that_can_be_read_in_two_ways_is_refused(guest: Make, origin: Make, said: bytes) -> None:
    net = guest()
    assert asked(net, origin(http_origins.say(said)).port) in (PROTOCOL, INCOMPLETE)
    assert net.held == 0


BODIES: dict[str, tuple[bytes, tuple[bytes, Any]]] = {
    "equal lengths": (OK + b"content-length: 3\r\ncontent-length: 3\r\n\r\nabc", (b"abc", None)),
    "both framings": (
        OK + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n" + LAST,
        (b"abc", None),
    ),
    "a folded field": (OK + b"x: a\r\n b\r\ncontent-length: 1\r\n\r\nz", (b"z", None)),
    "bare line feeds": (b"HTTP/1.1 200 OK\ncontent-length: 1\n\nz", (b"z", None)),
    "more after the end": (
        OK + b"content-length: 1\r\n\r\nz" + OK + b"content-length: 1\r\n\r\ny",
        (b"z", None),
    ),
    "more after the last chunk": (CHUNKED + b"1\r\nz\r\n" + LAST + b"HTTP/1.1 200 OK\r\n", (b"z", None)),
    "extensions of chunks": (CHUNKED + b'1;a="b";c\r\nz\r\n0;d\r\n\r\n', (b"z", None)),
    "a chunk of 2^64": (CHUNKED + b"10000000000000000\r\nabc", (b"abc", INCOMPLETE)),
    "a chunk of 2^80": (CHUNKED + b"100000000000000000000\r\nabc", (b"", PROTOCOL)),
    "a negative chunk": (CHUNKED + b"-1\r\nabc", (b"", PROTOCOL)),
    "a chunk in words": (CHUNKED + b"three\r\nabc", (b"", PROTOCOL)),
    "a chunk without its end": (CHUNKED + b"1\r\nzXX" + LAST, (b"z", PROTOCOL)),
    "trailers that are none": (CHUNKED + b"1\r\nz\r\n0\r\nno trailer\r\n\r\n", (b"z", PROTOCOL)),
}


@pytest.mark.parametrize(("said", "found"), BODIES.values(), ids=BODIES)
def test_content_ends_where_its_framing_says(guest: Make, origin: Make, said: bytes, found: Any) -> None:
    net = guest()
    assert asked(net, origin(http_origins.say(said)).port) == found
    assert net.held == 0


@pytest.mark.parametrize(
    ("method", "status"), [("head", b"200"), ("get", b"204"), ("get", b"304")], ids=["head", "204", "304"]
)
def test_a_response_that_has_no_content_has_none_whatever_follows(
    guest: Make, origin: Make, method: str, status: bytes
) -> None:
    net = guest()
    said = b"HTTP/1.1 " + status + b" X\r\ncontent-length: 3\r\n\r\nabc"
    assert asked(net, origin(http_origins.say(said)).port, method) == (b"", None)
    assert net.held == 0


def test_an_extension_of_a_chunk_is_not_endless(guest: Make, origin: Make) -> None:
    def endless(came: http_origins.Asked) -> None:
        came.send(CHUNKED + b"1;")
        while True:
            came.send(b"x" * 65_536)

    net = guest()
    assert asked(net, origin(endless).port) == (b"", ("HTTP-response-trailer-section-size", None))
    assert net.held == 0


def test_ten_thousand_fields_are_refused(guest: Make, origin: Make) -> None:
    net = guest()
    said = OK + b"x: 1\r\n" * 10_000 + b"\r\n"
    code, size = asked(net, origin(http_origins.say(said)).port)
    assert (code, size) == (HEAD_SIZE[0], 60_000)
    assert net.held == 0


def test_trailers_about_the_connection_are_not_passed_on(guest: Make, origin: Make) -> None:
    net = guest()
    trailers = b"transfer-encoding: chunked\r\nconnection: x\r\nx-a: 1\r\n\r\n"
    said = CHUNKED + b"1\r\nz\r\n0\r\n" + trailers
    body, stream = net.body(net.answer(net.get(f"http://a.example:{origin(http_origins.say(said)).port}/")))
    assert net.read(stream)[0] == b"z"
    stream.close()
    assert net.trailers(body).value.value.lines == [("x-a", b"1")]


def drip(said: bytes) -> http_origins.Answer:
    """Says it one byte at a time."""

    def handle(came: http_origins.Asked) -> None:
        came.body()
        for each in range(len(said)):
            came.send(said[each : each + 1])

    return handle


@pytest.mark.parametrize(
    "said",
    [
        OK + b"x: 1\r\ncontent-length: 3\r\n\r\nabc",
        CHUNKED + b"1;x\r\na\r\n2\r\nbc\r\n0\r\nx: 1\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"\r\nabc",
    ],
    ids=["length", "chunks", "until the end"],
)
def test_bytes_that_come_one_by_one_are_the_same_response(guest: Make, origin: Make, said: bytes) -> None:
    net = guest()
    assert asked(net, origin(drip(said)).port) == (b"abc", None)


WHOLE = CHUNKED + b"3\r\nabc\r\n0\r\nx: 1\r\n\r\n"


def test_a_response_that_is_cut_anywhere_is_incomplete(guest: Make, origin: Make) -> None:
    net = guest()
    for length in range(len(WHOLE)):
        found = asked(net, origin(http_origins.say(WHOLE[:length])).port)
        code = found if length < len(CHUNKED) else found[1]
        assert code == INCOMPLETE, (length, found)
        assert net.held == 0
