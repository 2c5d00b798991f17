"""What may be asked for: URLs, headers and subprotocols are read strictly, and what is read is what is sent."""

from __future__ import annotations

import string
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from websockets.http11 import Request
from websockets.server import ServerProtocol

from zeroclaw_host.egress.hosts import RequestHost, parse_request_host
from zeroclaw_host.imports.websocket.options import (
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_SUBPROTOCOL_BYTES,
    MAX_SUBPROTOCOLS,
    MAX_URL_BYTES,
    ConnectOptions,
)
from zeroclaw_host.imports.websocket.refusal import Refused
from zeroclaw_host.imports.websocket.upgrade import Upgrade, request_of

Record = Callable[..., dict[str, object]]
WORDS = {"invalid-options", "reserved-header", "invalid-subprotocol"}


def word_for(record: dict[str, object]) -> str:
    """The error's word, or ``ok``."""
    try:
        ConnectOptions.read(record)
    except Refused as refused:
        return refused.word
    return "ok"


def received(options: ConnectOptions) -> Request:
    """The request as a server reads it, which takes nothing that is no request."""
    upgrade = Upgrade(options)
    server = ServerProtocol()
    server.receive_data(request_of(upgrade.protocol, options).serialize())
    [request] = server.events_received()
    assert isinstance(request, Request)
    assert not server.reader.buffer, "one request and nothing behind it"
    return request


ACCEPTED = [
    ("ws://a.example", False, "a.example", 80, "/"),
    ("ws://a.example/", False, "a.example", 80, "/"),
    ("wss://a.example/", True, "a.example", 443, "/"),
    ("WSS://A.Example./x", True, "a.example", 443, "/x"),
    ("ws://a.example:8080/chat?room=1&x=/?", False, "a.example", 8080, "/chat?room=1&x=/?"),
    ("ws://a.example:/x", False, "a.example", 80, "/x"),
    ("ws://a.example:65535", False, "a.example", 65535, "/"),
    ("ws://a.example?q", False, "a.example", 80, "/?q"),
    ("ws://192.0.2.1/", False, "192.0.2.1", 80, "/"),
    ("ws://[2001:DB8::1]:81/", False, "2001:db8::1", 81, "/"),
    ("ws://a.example//b/../c;d", False, "a.example", 80, "//b/../c;d"),
    ("ws://a.example/%0d%0aHost:%20b", False, "a.example", 80, "/%0d%0aHost:%20b"),
    ("ws://a.example/@b.example", False, "a.example", 80, "/@b.example"),
]


@pytest.mark.parametrize(("url", "secure", "host", "port", "target"), ACCEPTED)
def test_a_url_says_where_to_connect_and_what_to_ask_for(
    url: str, secure: bool, host: str, port: int, target: str, record: Record
) -> None:
    options = ConnectOptions.read(record(url))
    assert (options.secure, options.host, options.port) == (secure, host, port)
    assert received(options).path == target


REFUSED = [
    "",
    "a.example",
    "//a.example/",
    "http://a.example/",
    "https://a.example/",
    "wsss://a.example/",
    "ws:a.example",
    "ws:/a.example",
    "ws://",
    "ws:///x",
    "ws://:80/",
    "ws://user@a.example/",
    "ws://user:secret@a.example/",
    "ws://@a.example/",
    "ws://a.example\\@b.example/",
    "ws://a.example\\.b.example/",
    "ws://a.example/#",
    "ws://a.example/#part",
    "ws://a.example#@b.example/",
    "ws://a.example:0/",
    "ws://a.example:65536/",
    "ws://a.example:000080/",
    "ws://a.example:+80/",
    "ws://a.example:8o/",
    "ws://a.example:80:80/",
    "ws://a..example/",
    "ws://a_b.example/",
    "ws://%61.example/",
    "ws://2130706433/",
    "ws://0x7f.1/",
    "ws://127.1/",
    "ws://[::1",
    "ws://::1/",
    "ws://[::1]x/",
    "ws://x[::1]/",
    "ws://[::1]x:80/",
    "ws://[fe80::1%25eth0]/",
    "ws://[v1.x]/",
    "ws://[127.0.0.1]/",
    " ws://a.example/",
    "ws://a.example/ ",
    "ws://a.example/a b",
    "ws://a.example/\tx",
    "ws://a.example/x\r\nHost: b.example",
    "ws://a.example/\0",
    "ws://a.example/é",
    "ws://é.example/",
    "ws://a.example\u3002b/",
    "ws\n://a.example/",
]


@pytest.mark.parametrize("url", REFUSED)
def test_a_url_that_is_none_or_could_be_read_in_two_ways_is_refused(url: str, record: Record) -> None:
    assert word_for(record(url)) == "invalid-options"


def test_a_url_has_at_most_4096_bytes(record: Record) -> None:
    url = "ws://a.example/"
    assert word_for(record(url + "x" * (MAX_URL_BYTES - len(url)))) == "ok"
    assert word_for(record(url + "x" * (MAX_URL_BYTES - len(url) + 1))) == "invalid-options"


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("Authorization", "Bearer x y", "ok"),
        ("X", "", "ok"),
        ("Origin", "https://a.example", "ok"),
        ("User-Agent", "plugin/1\twith tab", "ok"),
        ("Host", "b.example", "reserved-header"),
        ("hOST", "b.example", "reserved-header"),
        ("Connection", "close", "reserved-header"),
        ("upgrade", "h2c", "reserved-header"),
        ("Sec-WebSocket-Key", "x", "reserved-header"),
        ("sec-websocket-extensions", "permessage-deflate", "reserved-header"),
        ("SEC-WEBSOCKET-ANYTHING", "x", "reserved-header"),
        ("Sec-WebSocket", "x", "ok"),
        ("Content-Length", "0", "invalid-options"),
        ("transfer-encoding", "chunked", "invalid-options"),
        ("", "x", "invalid-options"),
        ("a b", "x", "invalid-options"),
        ("a:", "x", "invalid-options"),
        ("Host:", "x", "invalid-options"),
        ("a\r\nb", "x", "invalid-options"),
        ("é", "x", "invalid-options"),
        ("a", "x\r\nHost: b.example", "invalid-options"),
        ("a", "x\n", "invalid-options"),
        ("a", "x\ry", "invalid-options"),
        ("a", "\0", "invalid-options"),
        ("a", "\x7f", "invalid-options"),
        ("a", "é", "invalid-options"),
    ],
)
def test_a_header_is_sent_whole_or_refused(name: str, value: str, word: str, record: Record) -> None:
    asked = record("ws://a.example/", headers=[(name, value)])
    assert word_for(asked) == word
    if word == "ok":
        assert received(ConnectOptions.read(asked)).headers.get_all(name) == [value]


def test_a_header_may_be_there_more_than_once(record: Record) -> None:
    asked = record("ws://a.example/", headers=[("X", "1"), ("Y", "2"), ("x", "3")])
    assert received(ConnectOptions.read(asked)).headers.get_all("X") == ["1", "3"]


def test_there_are_at_most_32_headers(record: Record) -> None:
    headers = [("x", "y")] * MAX_HEADERS
    assert word_for(record("ws://a.example/", headers=headers)) == "ok"
    assert word_for(record("ws://a.example/", headers=[*headers, ("x", "y")])) == "invalid-options"


def test_headers_have_at_most_16_kib_together(record: Record) -> None:
    half = MAX_HEADER_BYTES // 2
    headers = [("a", "x" * (half - 1)), ("bc", "x" * (half - 2))]
    assert word_for(record("ws://a.example/", headers=headers)) == "ok"
    assert word_for(record("ws://a.example/", headers=[*headers, ("d", "")])) == "invalid-options"


@pytest.mark.parametrize(
    ("offered", "word"),
    [
        ([], "ok"),
        (["chat"], "ok"),
        (["chat", "Chat", "v1.chat+json"], "ok"),
        (["chat", "mqtt", "chat"], "invalid-subprotocol"),
        ([""], "invalid-subprotocol"),
        (["a,b"], "invalid-subprotocol"),
        (["a b"], "invalid-subprotocol"),
        (["a\r\nHost: b"], "invalid-subprotocol"),
        (["é"], "invalid-subprotocol"),
        (["a/b"], "invalid-subprotocol"),
    ],
)
def test_subprotocols_are_tokens_and_offered_once(offered: list[str], word: str, record: Record) -> None:
    asked = record("ws://a.example/", subprotocols=offered)
    assert word_for(asked) == word
    if word == "ok":
        sent = received(ConnectOptions.read(asked)).headers.get_all("Sec-WebSocket-Protocol")
        assert sent == ([", ".join(offered)] if offered else [])


def test_there_are_at_most_16_subprotocols_of_4096_bytes_when_joined(record: Record) -> None:
    names = [f"p{number}" for number in range(MAX_SUBPROTOCOLS)]
    assert word_for(record("ws://a.example/", subprotocols=names)) == "ok"
    assert word_for(record("ws://a.example/", subprotocols=[*names, "q"])) == "invalid-subprotocol"
    longest = ["a" * 2000, "b" * (MAX_SUBPROTOCOL_BYTES - 2000 - len(", "))]
    assert word_for(record("ws://a.example/", subprotocols=longest)) == "ok"
    longest[1] += "b"
    assert word_for(record("ws://a.example/", subprotocols=longest)) == "invalid-subprotocol"


def test_no_extension_is_offered(record: Record) -> None:
    with pytest.raises(KeyError):
        received(ConnectOptions.read(record("ws://a.example/"))).headers["Sec-WebSocket-Extensions"]


# --- whatever a guest comes up with -------------------------------------------------------------------------------------

URLISH = st.text(
    st.sampled_from("ws:/@#?[]%.\\ \t\r\n:0189afé\0") | st.characters(codec="utf-8"), max_size=40
)
TEXT = st.text(st.sampled_from(string.ascii_letters + "-:,;=\r\n\t \0é"), max_size=20)


@given(url=URLISH | URLISH.map("ws://{}".format) | URLISH.map("wss://a.example{}".format))
@example("ws://[/")
@example("ws://a.example]/")
def test_every_url_is_read_or_refused(url: str) -> None:
    asked = {"url": url, "headers": [], "subprotocols": [], "tls-profile": None}
    word = word_for(asked)
    assert word in {"ok", "invalid-options"}
    if word == "ok":
        options = ConnectOptions.read(asked)
        host = parse_request_host(options.host)
        assert isinstance(host, RequestHost)
        assert host.text == options.host, "a host is canonical"
        assert 0 < options.port < 65536
        request = received(options)
        assert request.path.startswith("/")
        assert request.path[1:] in url


@given(
    headers=st.lists(st.tuples(TEXT, TEXT), max_size=4),
    subprotocols=st.lists(TEXT, max_size=4),
)
def test_headers_and_subprotocols_are_sent_as_they_are_or_refused(
    headers: list[tuple[str, str]], subprotocols: list[str]
) -> None:
    asked: dict[str, object] = {
        "url": "ws://a.example/",
        "headers": [{"name": name, "value": value} for name, value in headers],
        "subprotocols": subprotocols,
        "tls-profile": None,
    }
    word = word_for(asked)
    assert word in WORDS | {"ok"}
    if word != "ok":
        return
    sent = list(received(ConnectOptions.read(asked)).headers.raw_items())
    own = {name.lower() for name, _ in sent[: len(sent) - len(headers)]}
    assert {"host", "upgrade", "connection", "sec-websocket-key", "sec-websocket-version"} <= own
    # A reader takes the blanks around a value for none of it.
    assert sent[len(sent) - len(headers) :] == [(name, value.strip(" \t")) for name, value in headers]
