"""WebSockets and streams as a plugin's author writes them, over scripted peers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_sdk.guest import sockets, websocket
from zeroclaw_sdk.guest.host import RecordingHost, use_host
from zeroclaw_sdk.guest.network import LONGEST_PAUSE, looks
from zeroclaw_sdk.testing import (
    Closed,
    Ended,
    Failure,
    FakeNetwork,
    FakeSocket,
    FakeWebSocket,
    Nothing,
    Unscripted,
)

URL = "wss://chat.example.com/live"


@pytest.fixture
def dial() -> Iterable[Callable[..., Any]]:
    """Connect to one scripted peer. At the end of the test, nothing may be open."""
    used: list[tuple[use_host, FakeNetwork]] = []

    def to(peer: FakeWebSocket | FakeSocket, **options: Any) -> Any:
        many = {"websockets": [peer]} if isinstance(peer, FakeWebSocket) else {"sockets": [peer]}
        network = FakeNetwork(**many)
        host = use_host(RecordingHost(network=network))
        host.__enter__()
        used.append((host, network))
        if isinstance(peer, FakeWebSocket):
            return websocket.connect(peer.url, **options)
        return sockets.connect(peer.host, peer.port, **options)

    yield to
    for host, network in reversed(used):
        host.__exit__()
        assert network.open == 0


# Waiting


@pytest.mark.parametrize(("seconds", "most"), [(0.02, 14), (1.0, 35), (30.0, 160), (200.0, 900)])
def test_waiting_leaves_most_of_the_budget_and_sees_soon_what_came(seconds: float, most: int):
    network = FakeNetwork()
    made = 0
    for waited in looks(network, None):
        made += 1
        if waited >= seconds:
            break
    assert made <= most
    late = network.now - seconds
    assert late <= min(max(seconds / 4, 0.001), LONGEST_PAUSE)


@pytest.mark.req("PLG-024")
@pytest.mark.parametrize("every", [0.1, 0.25, 1.0])
def test_a_call_of_30_seconds_has_looks_left_though_something_comes_all_the_time(every: float):
    """Who waits for one message of many begins to wait again with each of the others."""
    network = FakeNetwork()
    made = arrived = 0
    while network.now < 30:
        arrived += 1
        for _ in looks(network, None):
            made += 1
            if network.now >= arrived * every:
                break
    assert made == network.looked <= 1000
    assert network.now < arrived * every + LONGEST_PAUSE


@given(st.floats(0, 100))
def test_the_last_look_is_at_the_end_of_the_time(timeout: float):
    network = FakeNetwork()
    moments = list(looks(network, timeout))
    assert moments[0] == 0
    assert moments == sorted(moments)
    assert network.now == pytest.approx(timeout)


# WebSockets


def test_messages_go_both_ways(dial: Callable[..., Any]):
    peer = FakeWebSocket(
        URL, incoming=["hello", b"\x00"], answer=lambda message: [f"{message}?"], subprotocol="v2"
    )
    with dial(peer, headers={"authorization": "Bearer key"}, subprotocols=["v2", "v1"]) as connection:
        assert connection.subprotocol == "v2"
        assert (connection.receive(), connection.receive()) == ("hello", b"\x00")
        assert connection.poll() is None
        connection.send("ready")
        assert connection.receive() == "ready?"
        connection.send(bytearray(b"raw"))
    assert peer.sent == ["ready", b"raw"]
    assert peer.headers["Authorization"] == "Bearer key"
    assert peer.subprotocols == ("v2", "v1")
    assert peer.closed == Closed(1000, "")


def test_what_arrives_later_is_waited_for(dial: Callable[..., Any]):
    with dial(FakeWebSocket(URL, incoming=[Nothing(2), "late"])) as connection:
        assert connection.receive() == "late"


def test_the_end_of_a_timeout_ends_no_connection(dial: Callable[..., Any]):
    with dial(FakeWebSocket(URL, incoming=[Nothing(2), "late"])) as connection:
        with pytest.raises(TimeoutError, match="no message arrived"):
            connection.receive(timeout=1)
        with pytest.raises(TimeoutError):
            connection.receive(timeout=0)
        assert connection.receive(timeout=1.5) == "late"


@pytest.mark.parametrize("code", [1000, 1001])
def test_a_loop_over_messages_ends_with_the_connection(dial: Callable[..., Any], code: int):
    connection = dial(FakeWebSocket(URL, incoming=["a", Nothing(1), "b", Closed(code)]))
    assert list(connection) == ["a", "b"]
    connection.close()


@pytest.mark.parametrize("end", [Closed(1011, "trouble"), Closed(4000), Closed()])
def test_a_loop_raises_how_it_ended_when_that_was_an_error(dial: Callable[..., Any], end: Closed):
    connection = dial(FakeWebSocket(URL, incoming=["a", end]))
    seen: list[Any] = []
    with pytest.raises(websocket.ConnectionClosed) as closed:
        seen.extend(connection)
    assert (closed.value.close_code, closed.value.reason) == (end.code, end.reason)
    for ask in (connection.receive, connection.poll, lambda: connection.send("x")):
        with pytest.raises(websocket.ConnectionClosed) as again:
            ask()
        assert (again.value.close_code, again.value.code) == (end.code, "closed")
    connection.close()


def test_an_error_that_is_told_again_does_not_grow(dial: Callable[..., Any]):
    connection = dial(FakeWebSocket(URL, incoming=[Closed(1011)]))
    errors: list[Exception] = []
    for _ in range(3):
        with pytest.raises(websocket.ConnectionClosed) as closed:
            connection.poll()
        errors.append(closed.value)
    assert len(set(map(id, errors))) == 3
    connection.close()


@pytest.mark.parametrize("word", ["protocol-error", "timeout", "tls-failed"])
def test_a_connection_that_failed_stays_failed(dial: Callable[..., Any], word: str):
    connection = dial(FakeWebSocket(URL, incoming=[Failure(word)]))
    for _ in range(2):
        with pytest.raises(websocket.WebSocketError) as failed:
            connection.receive()
        assert failed.value.code == word
    connection.close()


def test_a_message_that_is_too_large_ends_nothing(dial: Callable[..., Any]):
    with dial(FakeWebSocket(URL, incoming=[Failure("payload-too-large"), Failure("unavailable"), "a"])) as it:
        with pytest.raises(websocket.WebSocketError) as failed:
            it.poll()
        assert failed.value.code == "payload-too-large"
        with pytest.raises(websocket.WebSocketError, match="1000 host calls"):
            it.poll()
        assert it.poll() == "a"


def test_a_full_queue_is_waited_for(dial: Callable[..., Any]):
    peer = FakeWebSocket(URL, busy=5)
    with dial(peer) as connection:
        connection.send("a")
    assert peer.sent == ["a"]


def test_a_queue_that_stays_full_is_a_timeout(dial: Callable[..., Any]):
    peer = FakeWebSocket(URL, busy=10**6)
    with dial(peer) as connection, pytest.raises(TimeoutError, match="takes no message"):
        connection.send("a", timeout=3)
    assert peer.sent == []


@pytest.mark.parametrize(("size", "sent"), [(1024 * 1024, True), (1024 * 1024 + 1, False)])
def test_a_message_has_a_bound(dial: Callable[..., Any], size: int, sent: bool):
    peer = FakeWebSocket(URL)
    with dial(peer) as connection:
        if sent:
            connection.send("x" * size)
        else:
            with pytest.raises(websocket.WebSocketError, match="payload-too-large"):
                connection.send(b"x" * size)
        connection.send("still here")
    assert len(peer.sent) == 1 + sent


@pytest.mark.parametrize("message", [None, 1, ["a"]])
def test_a_message_is_a_text_or_bytes(dial: Callable[..., Any], message: Any):
    with dial(FakeWebSocket(URL)) as connection, pytest.raises(TypeError, match="a text or bytes"):
        connection.send(message)


@pytest.mark.parametrize(
    ("word", "kind", "said"),
    [
        ("destination-denied", websocket.Denied, r'hosts = \["chat.example.com"\]'),
        ("access-denied", websocket.Denied, r'hosts = \["chat.example.com"\]'),
        ("connection-limit", websocket.WebSocketError, "connection-limit"),
        ("handshake-failed", websocket.WebSocketError, "handshake-failed"),
        ("unavailable", websocket.WebSocketError, "1000 host calls"),
    ],
)
def test_a_connection_that_is_not_opened_says_why(
    dial: Callable[..., Any], word: str, kind: type[Exception], said: str
):
    with pytest.raises(websocket.WebSocketError, match=said) as failed:
        dial(FakeWebSocket(URL, error=word))
    assert (type(failed.value), failed.value.code) == (kind, word)
    assert "/live" not in str(failed.value)


def test_a_refusal_with_a_tls_profile_names_it_as_well(dial: Callable[..., Any]):
    with pytest.raises(websocket.Denied, match=r"no TLS profile 'corporate' for this host"):
        dial(FakeWebSocket(URL, error="destination-denied"), tls_profile="corporate")


def words_of(interface: str) -> list[str]:
    """The error words of an interface of the contract."""
    text = (Path(__file__).parents[2] / "wit" / "v0" / f"{interface}.wit").read_text(encoding="utf-8")
    enums = re.findall(r"enum (?:\w|-)*(?:error|close-reason) \{(.*?)\}", text, re.DOTALL)
    return re.findall(r"^ +([a-z-]+),$", "".join(enums), re.MULTILINE)


@pytest.mark.parametrize("word", sorted({*words_of("websocket")} - {"queue-full"}))  # waited for, never told
def test_every_word_of_a_websocket_is_explained(dial: Callable[..., Any], word: str):
    with pytest.raises(websocket.WebSocketError) as failed:
        dial(FakeWebSocket(URL, error=word))
    assert str(failed.value) != f"wss://chat.example.com: {word}"


@pytest.mark.parametrize(
    "word", sorted({*words_of("sockets")} - {"backpressure", "chunk-too-large", "peer-closed"})
)
def test_every_word_of_a_stream_is_explained(dial: Callable[..., Any], word: str):
    with pytest.raises(sockets.SocketError) as failed:
        dial(FakeSocket("a.example", 1, error=word))
    assert str(failed.value) != f"a.example:1: {word}"


def test_a_block_that_fails_says_no_goodbye_and_lets_go(dial: Callable[..., Any]):
    peer = FakeWebSocket(URL)
    with pytest.raises(LookupError), dial(peer) as connection:
        raise LookupError
    assert peer.closed is None
    with pytest.raises(websocket.ConnectionClosed):
        connection.send("a")


def test_closing_tells_code_and_reason_and_can_be_done_twice(dial: Callable[..., Any]):
    peer = FakeWebSocket(URL)
    connection = dial(peer)
    connection.close(4001, "enough")
    connection.close()
    assert peer.closed == Closed(4001, "enough")


@pytest.mark.parametrize("url", ["wss://user:hunter2@chat.example.com/", "wss://[::1/hunter2", "hunter2"])
def test_an_error_shows_no_more_of_a_url_than_its_origin(url: str):
    network = FakeNetwork(websockets=[FakeWebSocket(url, error="invalid-options")])
    with use_host(RecordingHost(network=network)), pytest.raises(websocket.WebSocketError) as failed:
        websocket.connect(url)
    assert "hunter2" not in str(failed.value)


# Streams


def test_a_stream_is_read_as_it_comes_by_line_by_length_and_to_a_mark(dial: Callable[..., Any]):
    peer = FakeSocket(
        "irc.example.com",
        6697,
        incoming=[b"one\r\ntw", Nothing(1), b"o\n\r\n12", b"345;6", Ended("peer-closed")],
    )
    with dial(peer) as stream:
        assert [stream.read_line() for _ in range(3)] == [b"one", b"two", b""]
        assert stream.read_exactly(4) == b"1234"
        assert stream.read_until(b";") == b"5;"
        assert stream.receive() == b"6"
        assert stream.receive() == stream.receive() == b""
        assert stream.read_until(b";") == b""
        with pytest.raises(EOFError):
            stream.read_line()
        with pytest.raises(EOFError):
            stream.read_exactly(1)
        assert stream.read_exactly(0) == b""
    assert (peer.mode, peer.sent) == ("direct-tls", [])


@given(
    st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"").replace(b"\r", b""))),
    st.data(),
)
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], data: st.DataObject):
    whole = b"".join(line + b"\r\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    edges = [0, *cuts, len(whole)]
    pieces = [whole[a:b] for a, b in pairwise(edges) if a < b]
    network = FakeNetwork(sockets=[FakeSocket("a.example", 1, incoming=[*pieces, Ended("peer-closed")])])
    with use_host(RecordingHost(network=network)), sockets.connect("a.example", 1, tls=None) as stream:
        assert [stream.read_line() for _ in lines] == lines
        with pytest.raises(EOFError):
            stream.read_line()


@pytest.mark.parametrize(("size", "read"), [(10, True), (11, False)])
def test_a_line_has_a_bound(dial: Callable[..., Any], size: int, read: bool):
    with dial(FakeSocket("a.example", 1, incoming=[b"x" * size, b"\nrest"])) as stream:
        if read:
            assert stream.read_line(limit=10) == b"x" * 10
        else:
            with pytest.raises(sockets.SocketError, match="more than 10 bytes") as failed:
                stream.read_line(limit=10)
            assert failed.value.code == "too-long"


def test_a_timeout_loses_nothing(dial: Callable[..., Any]):
    with dial(FakeSocket("a.example", 1, incoming=[b"half ", Nothing(5), b"line\n"])) as stream:
        for ask in (stream.read_line, lambda wait: stream.read_exactly(10, wait)):
            with pytest.raises(TimeoutError):
                ask(1)
        assert stream.read_line() == b"half line"


@pytest.mark.parametrize("size", [0, 1, sockets.CHUNK, sockets.CHUNK + 1, 5 * sockets.CHUNK])
def test_what_is_sent_goes_in_pieces_that_the_host_takes(dial: Callable[..., Any], size: int):
    data = bytes(range(256)) * (size // 256 + 1)
    peer = FakeSocket("a.example", 1, busy=3)
    with dial(peer) as stream:
        stream.send(data[:size])
    assert b"".join(peer.sent) == data[:size]
    assert all(0 < len(piece) <= sockets.CHUNK for piece in peer.sent)


def test_a_peer_that_takes_nothing_is_a_timeout(dial: Callable[..., Any]):
    with dial(FakeSocket("a.example", 1, busy=10**6)) as stream, pytest.raises(TimeoutError):
        stream.send(b"x", timeout=2)


def test_tls_begins_where_the_plugin_says(dial: Callable[..., Any]):
    peer = FakeSocket("mail.example.com", 143, incoming=[b"* OK\r\n"], answer=lambda _: [b"a OK\r\n"])
    with dial(peer, tls="starttls", tls_profile="corporate") as stream:
        assert stream.read_line() == b"* OK"
        stream.send(b"a starttls\r\n")
        assert stream.read_line() == b"a OK"
        stream.start_tls()
        stream.send(b"b login\r\n")
        with pytest.raises(sockets.SocketError, match="not opened with tls") as again:
            stream.start_tls()
        assert again.value.code == "invalid-state"
    assert (peer.mode, peer.tls_profile) == ("start-tls", "corporate")
    assert peer.upgraded_after == 1


def test_what_came_in_plain_text_is_never_taken_for_what_comes_under_tls(dial: Callable[..., Any]):
    peer = FakeSocket("mail.example.com", 143, incoming=[b"a OK\r\n* evil\r\n"])
    with dial(peer, tls="starttls") as stream:
        stream.read_line()
        with pytest.raises(sockets.SocketError, match="came in plain text") as refused:
            stream.start_tls()
        assert refused.value.code == "invalid-state"
    assert peer.upgraded_after is None


def test_a_failed_change_to_tls_ends_the_stream(dial: Callable[..., Any]):
    peer = FakeSocket("mail.example.com", 143, tls_error="tls-handshake-failed")
    with dial(peer, tls="starttls") as stream:
        for ask in (stream.start_tls, lambda: stream.send(b"x"), stream.receive):
            with pytest.raises(sockets.SocketError) as failed:
                ask()
            assert failed.value.code == "tls-handshake-failed"
    assert peer.sent == []


@pytest.mark.parametrize("reason", ["io-error", "host-closed", "tls-upgrade-failed"])
def test_a_stream_that_broke_is_an_error_and_no_end(dial: Callable[..., Any], reason: str):
    with dial(FakeSocket("a.example", 1, incoming=[b"half", Ended(reason)])) as stream:
        with pytest.raises(sockets.SocketError) as broke:
            stream.read_line()
        assert broke.value.code == reason
        assert stream.receive() == b"half"
        with pytest.raises(sockets.SocketError):
            stream.receive()


@pytest.mark.parametrize(
    ("word", "kind", "said"),
    [
        ("access-denied", sockets.Denied, r'hosts = \["a.example"\]'),
        ("host-unavailable", sockets.SocketError, "1000 host calls"),
        ("connection-limit", sockets.SocketError, "connection-limit"),
        ("tls-handshake-failed", sockets.SocketError, "tls-handshake-failed"),
    ],
)
def test_a_stream_that_is_not_opened_says_why(
    dial: Callable[..., Any], word: str, kind: type[Exception], said: str
):
    with pytest.raises(sockets.SocketError, match=said) as failed:
        dial(FakeSocket("a.example", 1, error=word))
    assert (type(failed.value), failed.value.code) == (kind, word)


@pytest.mark.parametrize(("port", "tls"), [(0, None), (65536, None), (1, "yes"), (-1, "direct")])
def test_a_port_and_a_kind_of_tls_are_checked(dial: Callable[..., Any], port: int, tls: Any):
    with pytest.raises(ValueError, match=r"port|tls"):
        dial(FakeSocket("a.example", port), tls=tls)


def test_a_closed_stream_stays_closed(dial: Callable[..., Any]):
    stream = dial(FakeSocket("a.example", 1, incoming=[b"x"]))
    stream.close()
    stream.close()
    for ask in (stream.poll, stream.receive, lambda: stream.send(b"x")):
        with pytest.raises(sockets.SocketError, match="closed"):
            ask()


# An author's tests


@pytest.mark.parametrize(
    ("ask", "permission"),
    [
        (lambda: websocket.connect(URL), "websocket_client"),
        (lambda: sockets.connect("a.example", 1), "socket_client"),
    ],
)
def test_without_the_permission_the_error_names_it(ask: Callable[[], Any], permission: str):
    with use_host(RecordingHost()), pytest.raises(Exception, match=f"permission {permission}"):
        ask()


def test_what_no_test_wrote_down_fails_the_test(dial: Callable[..., Any]):
    with use_host(RecordingHost(network=FakeNetwork())):
        with pytest.raises(Unscripted, match="chat"):
            websocket.connect(URL)
        with pytest.raises(Unscripted, match=r"a\.example:1"):
            sockets.connect("a.example", 1)
    with (
        dial(FakeSocket("a.example", 1)) as stream,
        pytest.raises(Unscripted, match="nothing more is scripted"),
    ):
        stream.receive()
    with pytest.raises(Unscripted, match="nothing more is scripted"), dial(FakeWebSocket(URL)) as connection:
        connection.receive()
