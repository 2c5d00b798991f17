"""Messages both ways, and how conversations end. A test is the loop itself, or there is a real server and the real loop."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import peers
import pytest
import websocket_peers
from websocket_peers import closing, frame
from websockets.frames import Frame
from websockets.server import ServerProtocol
from websockets.streams import StreamReader

from zeroclaw_host.egress.io_loop import READABLE, WRITABLE
from zeroclaw_host.imports.websocket.connection import CLOSE_SECONDS, MAX_INBOUND, MAX_OUTBOUND
from zeroclaw_host.imports.websocket.refusal import Refused
from zeroclaw_host.imports.websocket.upgrade import MAX_FRAME_BYTES, MAX_MESSAGE_BYTES

Make = Callable[..., Any]

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
NORMAL = {"code": ("normal", None), "reason": "bye"}


def frames_of(data: bytes) -> list[tuple[int, bytes]]:
    """The frames a client sent, as a server reads them: opcode and data."""
    reader = StreamReader()
    reader.feed_data(data)
    found: list[tuple[int, bytes]] = []
    while reader.buffer:
        parsing = Frame.parse(reader.read_exact, mask=True)
        try:
            next(parsing)
        except StopIteration as end:
            found.append((end.value.opcode, bytes(end.value.data)))
        else:
            raise AssertionError("half a frame")
    return found


def word_of(action: Callable[[], object]) -> str:
    try:
        action()
    except Refused as refused:
        return refused.word
    return "ok"


def all_of(wired: Any) -> list[Any]:
    """Everything there is to receive, to the word that says there is no more."""
    found: list[Any] = []
    while True:
        try:
            event = wired.connection.receive()
        except Refused as refused:
            return [*found, refused.word]
        wired.turn()
        if event is None:
            return found
        found.append(event)


# --- with a real server -------------------------------------------------------------------------------------------------


def test_messages_go_both_ways(guest: Make, server: Make) -> None:
    origin = server(websocket_peers.echo)
    tool = guest()
    with peers.nothing_left():
        connection = tool.connect(f"ws://a.example:{origin.port}/chat?room=1")
        for message in (("text", "héllo"), ("binary", b"\x00\xff"), ("text", ""), ("binary", b"")):
            assert tool.word("send", connection, message) == "ok"
            assert tool.receive(connection) == ("message", message)
        assert tool.word("close", connection, NORMAL) == "ok"
        assert tool.receive(connection) == ("closed", NORMAL)
        assert tool.look(connection) == "closed"
        assert [path for path, _ in origin.requests] == ["/chat?room=1"]
        assert tool.held == 0
        tool.end()


def test_a_message_of_the_largest_size_goes_both_ways(guest: Make, server: Make) -> None:
    def in_fragments(connection: Any) -> None:
        for message in connection:
            step = MAX_FRAME_BYTES if isinstance(message, bytes) else MAX_FRAME_BYTES // 2
            connection.send([message[at : at + step] for at in range(0, len(message), step)])

    origin = server(in_fragments)
    tool = guest()
    connection = tool.connect(f"ws://a.example:{origin.port}/")
    for message in (
        ("binary", bytes(range(256)) * (MAX_MESSAGE_BYTES // 256)),
        ("text", "é" * (MAX_MESSAGE_BYTES // 2)),
    ):
        assert tool.word("send", connection, message) == "ok"
        assert tool.receive(connection) == ("message", message)


def test_a_server_that_closes_is_told_and_its_messages_come_first(guest: Make, server: Make) -> None:
    heard: list[object] = []

    def talk(connection: Any) -> None:
        for number in range(3 * MAX_INBOUND):
            connection.send(str(number))
        connection.close(4001, "enough")
        heard.append(connection.protocol.close_sent.code)
        heard.append(connection.protocol.close_rcvd.code)

    origin = server(talk)
    tool = guest()
    connection = tool.connect(f"ws://a.example:{origin.port}/")
    got = [tool.receive(connection) for _ in range(3 * MAX_INBOUND + 1)]
    assert got[:-1] == [("message", ("text", str(number))) for number in range(3 * MAX_INBOUND)]
    assert got[-1] == ("closed", {"code": ("other", 4001), "reason": "enough"})
    assert tool.look(connection) == tool.look(connection) == "closed"
    assert peers.eventually(lambda: heard == [4001, 4001])


def test_a_peer_that_does_not_read_meets_a_bounded_queue(guest: Make, peer: Make) -> None:
    read_on = threading.Event()
    seen: list[int] = []

    def stuck(plug: Any) -> None:
        read_on.wait(peers.PATIENCE)
        server = ServerProtocol(state=websocket_peers.OPEN, max_size=None)
        while data := plug.recv(65_536):
            server.receive_data(data)
            seen.extend(len(each.data) for each in server.events_received())

    origin = peer(websocket_peers.upgraded(stuck))
    tool = guest()
    connection = tool.connect(f"ws://a.example:{origin.port}/")
    message = ("binary", bytes(MAX_MESSAGE_BYTES))
    sent = 0
    # Buffers of the system take a few of them; then four wait, and no more.
    while (word := tool.word("send", connection, message)) == "ok":
        sent += 1
        assert sent < 1000
    assert word == "queue-full"
    read_on.set()
    assert peers.eventually(lambda: tool.word("send", connection, ("binary", b"")) == "ok")
    assert peers.eventually(lambda: len(seen) == sent + 1)
    assert seen == [MAX_MESSAGE_BYTES] * sent + [0]


def test_a_peer_that_sends_without_end_is_held_back_by_its_own_connection(guest: Make, peer: Make) -> None:
    size, count = 64 * 1024, 1000
    buffers = 24 * 1024 * 1024  # more than the system keeps for one connection
    sent: list[int] = []

    def pour(plug: Any) -> None:
        message = frame(BINARY, bytes(size))
        for number in range(count):
            plug.sendall(message)
            sent.append(number)

    origin = peer(websocket_peers.upgraded(pour))
    tool = guest()
    connection = tool.connect(f"ws://a.example:{origin.port}/")
    for taken in range(count):
        assert (len(sent) - taken) * size <= buffers
        kind, (_, data) = tool.receive(connection)
        assert (kind, len(data)) == ("message", size)
    assert tool.receive(connection) == ("failed", "protocol-error"), "it ended without a word"


def test_dropping_a_connection_ends_it_at_once_and_without_a_word(guest: Make, peer: Make) -> None:
    heard: list[bytes] = []
    over = threading.Event()

    def listen(plug: Any) -> None:
        while data := plug.recv(65_536):
            heard.append(data)
        over.set()

    origin = peer(websocket_peers.upgraded(listen))
    tool = guest()
    with peers.nothing_left():
        connection = tool.connect(f"ws://a.example:{origin.port}/")
        assert tool.held == 1
        connection.close()
        assert tool.held == 0
        assert over.wait(peers.PATIENCE)
    assert heard == []


# --- limits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "binary"])
def test_a_message_of_the_guest_has_at_most_a_mebibyte(kind: str, wire: Make) -> None:
    wired = wire()
    largest = "x" * MAX_MESSAGE_BYTES if kind == "text" else bytes(MAX_MESSAGE_BYTES)
    longer = largest + "x" if isinstance(largest, str) else largest + b"x"
    assert word_of(lambda: wired.connection.send(kind, longer)) == "payload-too-large"
    assert word_of(lambda: wired.connection.send(kind, largest)) == "ok"


def test_a_texts_bytes_count_and_not_its_characters(wire: Make) -> None:
    wired = wire()
    half = "é" * (MAX_MESSAGE_BYTES // 2)
    assert word_of(lambda: wired.connection.send("text", half + "x")) == "payload-too-large"
    assert word_of(lambda: wired.connection.send("text", half)) == "ok"


def test_four_messages_wait_and_the_fifth_is_refused(wire: Make) -> None:
    wired = wire()
    for number in range(MAX_OUTBOUND):
        wired.connection.send("text", str(number))
    assert word_of(lambda: wired.connection.send("text", "4")) == "queue-full"
    assert wired.connection.wanted() == READABLE | WRITABLE
    wired.turn()
    assert wired.connection.wanted() == READABLE
    assert word_of(lambda: wired.connection.send("text", "4")) == "ok"
    wired.turn()
    assert frames_of(wired.heard()) == [(TEXT, str(number).encode()) for number in range(5)]


def test_four_events_wait_and_the_peer_is_not_read_further(wire: Make) -> None:
    wired = wire()
    message = frame(BINARY, bytes(1024))
    wired.say(*[message] * (MAX_INBOUND - 1))
    assert wired.connection.wanted() == READABLE
    wired.say(message)
    assert wired.connection.wanted() == 0
    wired.say(message, message, closing(1000))
    assert wired.connection.wanted() == 0
    assert word_of(lambda: wired.connection.send("text", "still open")) == "ok"
    assert wired.connection.receive() == ("message", ("binary", bytes(1024)))
    assert wired.connection.wanted() == READABLE | WRITABLE
    wired.turn()
    assert [event[0] if event != "closed" else event for event in all_of(wired)] == [
        *["message"] * 5,
        "closed",
        "closed",
    ]


@pytest.mark.parametrize("fragments", [(MAX_FRAME_BYTES,) * 4, (0, 0, MAX_FRAME_BYTES), (1,) * 100])
def test_a_message_in_fragments_arrives_whole(fragments: tuple[int, ...], wire: Make) -> None:
    wired = wire()
    for index, size in enumerate(fragments):
        last = index == len(fragments) - 1
        sent = memoryview(frame(BINARY if index == 0 else CONT, b"x" * size, fin=last))
        while sent:
            try:
                sent = sent[wired.far.send(sent) :]
            except BlockingIOError:
                wired.turn()
    wired.turn()
    while wired.connection.wanted() and wired.connection.moment() is not None:
        wired.turn()
    assert wired.connection.receive() == ("message", ("binary", b"x" * sum(fragments)))


@pytest.mark.parametrize(
    "head",
    [
        struct.pack("!BBQ", 0x80 | BINARY, 127, MAX_FRAME_BYTES + 1),
        struct.pack("!BBQ", BINARY, 127, MAX_FRAME_BYTES + 1),
        struct.pack("!BBQ", 0x80 | TEXT, 127, 2**63),
    ],
)
def test_a_frame_of_the_peer_beyond_256_kib_is_refused_by_its_head(head: bytes, wire: Make) -> None:
    wired = wire()
    wired.say(head)
    assert all_of(wired) == [("failed", "payload-too-large"), "closed"]
    [(opcode, data)] = frames_of(wired.heard())
    assert (opcode, data[:2]) == (CLOSE, struct.pack("!H", 1009))
    assert wired.ended == 1


def test_a_message_of_the_peer_beyond_a_mebibyte_is_refused(wire: Make) -> None:
    wired = wire()
    piece = bytes(MAX_FRAME_BYTES)
    sent = memoryview(
        frame(BINARY, piece, fin=False) + frame(CONT, piece, fin=False) * 3 + frame(CONT, b"x", fin=True)
    )
    while sent:
        try:
            sent = sent[wired.far.send(sent) :]
        except BlockingIOError:
            wired.turn()
    wired.turn()
    while wired.connection.moment() is not None:
        wired.turn()
    assert all_of(wired) == [("failed", "payload-too-large"), "closed"]


def test_a_flood_of_pings_from_a_peer_that_does_not_read_ends_at_the_connection(wire: Make) -> None:
    wired = wire()

    def flood() -> None:
        for _ in range(100_000):
            wired.far.sendall(frame(PING, b"x" * 125))
            wired.turn()

    with pytest.raises(BlockingIOError):
        flood()
    assert not wired.connection.wanted() & READABLE
    assert wired.connection.receive() is None, "the guest sees nothing of it"


# --- pings --------------------------------------------------------------------------------------------------------------


def test_pings_are_answered_by_the_host_and_hidden(wire: Make) -> None:
    wired = wire()
    wired.say(
        frame(TEXT, b"he", fin=False),
        frame(PING, b"are you there"),
        frame(PONG, b"unasked"),
        frame(CONT, b"llo"),
    )
    assert frames_of(wired.heard()) == [(PONG, b"are you there")]
    assert all_of(wired) == [("message", ("text", "hello"))]


def test_what_comes_behind_more_pings_than_are_answered_at_once_is_not_forgotten(wire: Make) -> None:
    """All of it is read in one piece: the descriptor is not readable again for the rest."""
    wired = wire()
    count = 200
    wired.say(frame(PING, b"x" * 125) * count + frame(TEXT, b"behind"))
    while wired.connection.moment() is not None:
        wired.turn()
    assert wired.connection.receive() == ("message", ("text", "behind"))
    assert frames_of(wired.heard()) == [(PONG, b"x" * 125)] * count


@pytest.mark.parametrize("small", [frame(PONG, b""), frame(CONT, b"", fin=False)], ids=["pongs", "fragments"])
def test_a_flood_that_no_event_and_no_answer_bounds_leaves_others_their_turn(
    small: bytes, wire: Make
) -> None:
    """Neither the loop nor the guest waits while one peer's thousands of frames are parsed."""
    wired = wire()
    count, in_a_turn = 20_000, 2048
    begin, end = frame(TEXT, b"", fin=False), frame(CONT, b"behind")
    wired.far.sendall(begin + small * count + end)
    turns = 0
    while wired.connection.receive() != ("message", ("text", "behind")):
        assert (
            turns == 0 or wired.connection.moment() is not None
        )  # it is looked at again without further bytes
        wired.turn()
        turns += 1
    assert turns >= count / in_a_turn


def test_what_was_read_when_other_connections_get_their_turn_is_not_forgotten(wire: Make) -> None:
    """As many bytes as are read in a row, the last of which end the message: the descriptor is not readable again."""
    wired = wire()
    wired.far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    wired.say(frame(BINARY, bytes(200_000)))
    while wired.connection.moment() is not None:
        wired.turn()
    assert wired.connection.receive() == ("message", ("binary", bytes(200_000)))


# --- what a peer must not do --------------------------------------------------------------------------------------------

BROKEN_RULES = {
    "a masked frame": frame(TEXT, b"x", mask=True),
    "a compressed frame": frame(TEXT, b"x", reserved=4),
    "a reserved bit": frame(BINARY, b"x", reserved=1),
    "an unknown data opcode": frame(3, b"x"),
    "an unknown control opcode": frame(11, b"x"),
    "a fragmented ping": frame(PING, b"x", fin=False),
    "a fragmented close": frame(CLOSE, struct.pack("!H", 1000), fin=False),
    "a ping of 126 bytes": frame(PING, bytes(126)),
    "a close of 126 bytes": frame(CLOSE, struct.pack("!H", 1000) + bytes(124)),
    "a continuation of nothing": frame(CONT, b"x"),
    "a message inside another": frame(TEXT, b"x", fin=False) + frame(TEXT, b"y"),
    "a text that is none": frame(TEXT, b"\xff"),
    "a text that ends in the middle": frame(TEXT, "é".encode()[:1]),
    "a text of surrogates": frame(TEXT, b"\xed\xa0\x80"),
    "a text that is none, in fragments": frame(TEXT, b"\xc3", fin=False) + frame(CONT, b"\x28"),
    "a close of one byte": frame(CLOSE, b"x"),
    "a reason that is no text": closing(1000, b"\xff"),
    **{
        f"the close code {code}": closing(code)
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65_535)
    },
}


@pytest.mark.parametrize("broken", BROKEN_RULES.values(), ids=BROKEN_RULES.keys())
def test_a_broken_rule_ends_this_connection_and_says_so(broken: bytes, wire: Make) -> None:
    wired, other = wire(), wire()
    wired.say(frame(TEXT, b"before"), broken, frame(TEXT, b"after"))
    assert word_of(lambda: wired.connection.send("text", "x")) == "closed"
    assert all_of(wired) == [("message", ("text", "before")), ("failed", "protocol-error"), "closed"]
    assert wired.ended == 1
    [(opcode, data)] = frames_of(wired.heard())
    assert (opcode, struct.unpack("!H", data[:2])[0]) in {(CLOSE, 1002), (CLOSE, 1007)}
    other.say(frame(TEXT, b"here"))
    assert all_of(other) == [("message", ("text", "here"))]


def test_a_text_may_be_cut_between_fragments_in_the_middle_of_a_character(wire: Make) -> None:
    wired = wire()
    wired.say(frame(TEXT, "é".encode()[:1], fin=False), frame(CONT, "é".encode()[1:]))
    assert all_of(wired) == [("message", ("text", "é"))]


def test_a_close_frame_between_two_fragments_is_a_close(wire: Make) -> None:
    wired = wire()
    wired.say(frame(TEXT, b"x", fin=False), closing(1001))
    assert all_of(wired) == [("closed", {"code": ("going-away", None), "reason": ""}), "closed"]


# --- ends ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "event"),
    [
        (frame(CLOSE), None),
        (closing(1000), {"code": ("normal", None), "reason": ""}),
        (closing(1011, b"x" * 123), {"code": ("internal-error", None), "reason": "x" * 123}),
        (closing(1014), {"code": ("other", 1014), "reason": ""}),
        (closing(3000, "é".encode()), {"code": ("other", 3000), "reason": "é"}),
    ],
)
def test_a_peers_close_is_answered_and_told(said: bytes, event: object, wire: Make) -> None:
    wired = wire()
    wired.say(said)
    assert frames_of(wired.heard()) == [(CLOSE, said[2:])]
    assert wired.ended == 1, "both have said all they have to say"
    assert word_of(lambda: wired.connection.send("text", "x")) == "closed"
    assert word_of(lambda: wired.connection.finish(None)) == "closed"
    assert all_of(wired) == [("closed", event), "closed"]
    assert word_of(lambda: wired.connection.receive()) == "closed"


def test_a_close_goes_behind_what_was_sent_and_messages_still_arrive(wire: Make) -> None:
    wired = wire()
    wired.connection.send("text", "last words")
    wired.connection.finish(None)
    assert word_of(lambda: wired.connection.send("text", "x")) == "closed"
    assert word_of(lambda: wired.connection.finish(None)) == "closed"
    wired.turn()
    assert frames_of(wired.heard()) == [(TEXT, b"last words"), (CLOSE, b"")]
    wired.say(frame(TEXT, b"one more"), frame(PING, b"?"))
    assert wired.connection.receive() == ("message", ("text", "one more"))
    assert wired.ended == 0
    wired.say(closing(1000))
    assert all_of(wired) == [("closed", {"code": ("normal", None), "reason": ""}), "closed"]
    assert wired.ended == 1


def test_a_peer_that_does_not_answer_a_close_has_five_seconds(wire: Make) -> None:
    wired = wire()
    assert wired.connection.moment() is None
    wired.connection.finish(None)
    assert wired.connection.moment() == wired.seconds + CLOSE_SECONDS
    wired.seconds += CLOSE_SECONDS - 0.001
    wired.say(frame(TEXT, b"later"))
    assert wired.ended == 0
    wired.seconds += 0.001
    wired.turn()
    assert wired.ended == 1
    assert all_of(wired) == [("message", ("text", "later")), ("closed", None), "closed"]


def test_a_peer_that_closes_and_does_not_read_the_answer_has_five_seconds(wire: Make) -> None:
    wired = wire()
    while not wired.connection.wanted() & WRITABLE:  # until the system takes no more
        wired.connection.send("binary", bytes(MAX_MESSAGE_BYTES))
        wired.turn()
    wired.say(closing(1001))
    assert wired.connection.receive() is None
    assert wired.connection.moment() == wired.seconds + CLOSE_SECONDS
    wired.seconds += CLOSE_SECONDS
    wired.turn()
    assert wired.ended == 1
    assert all_of(wired) == [("closed", {"code": ("going-away", None), "reason": ""}), "closed"]


def test_a_guest_that_closes_and_does_not_receive_ends_all_the_same(wire: Make) -> None:
    wired = wire()
    wired.say(*[frame(TEXT, b"x" * 600)] * 6, closing(1000))
    wired.connection.finish(None)
    wired.seconds += CLOSE_SECONDS
    wired.turn()
    assert wired.ended == 1
    assert all_of(wired) == [*[("message", ("text", "x" * 600))] * MAX_INBOUND, ("closed", None), "closed"]


def test_an_end_without_a_word_is_a_failure_unless_somebody_began_to_close(wire: Make) -> None:
    wired = wire()
    wired.far.close()
    wired.turn()
    assert all_of(wired) == [("failed", "protocol-error"), "closed"]
    wired = wire()
    wired.connection.finish(None)
    wired.turn()
    wired.far.close()
    wired.turn()
    assert all_of(wired) == [("closed", None), "closed"]


def test_an_end_in_the_middle_of_a_frame_is_a_failure(wire: Make) -> None:
    wired = wire()
    wired.say(frame(TEXT, b"hello")[:4])
    wired.far.close()
    wired.turn()
    assert all_of(wired) == [("failed", "protocol-error"), "closed"]


def test_a_connection_that_breaks_is_a_failure_of_the_network(guest: Make, peer: Make) -> None:
    def reset(plug: Any) -> None:
        plug.recv(1)
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    origin = peer(websocket_peers.upgraded(reset))
    tool = guest()
    connection = tool.connect(f"ws://a.example:{origin.port}/")
    assert tool.word("send", connection, ("text", "x")) == "ok"
    assert tool.receive(connection) == ("failed", "unavailable")
    assert tool.look(connection) == "closed"


def test_a_connection_whose_handler_failed_is_not_waited_for_forever(wire: Make) -> None:
    wired = wire()
    wired.plain.close()  # as the loop does
    assert word_of(lambda: wired.connection.send("text", "x")) == "closed"
    assert all_of(wired) == [("failed", "unavailable"), "closed"]


def test_a_dropped_connection_keeps_nothing(wire: Make) -> None:
    wired = wire()
    wired.say(frame(TEXT, b"x"))
    wired.connection.close()
    assert word_of(lambda: wired.connection.receive()) == "closed"
    assert wired.ended == 1
    assert wired.heard() == b""
