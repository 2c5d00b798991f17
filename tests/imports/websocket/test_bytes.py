"""Whatever bytes a peer sends, in whatever pieces: the guest is told the same, in the interface's terms, and nothing is raised."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from websocket_peers import closing, frame

from zeroclaw_host.imports.websocket.refusal import Refused

Make = Callable[..., Any]

PROPER = st.one_of(
    st.binary(max_size=200).map(lambda data: frame(2, data)),
    st.text(max_size=100).map(lambda text: frame(1, text.encode())),
    st.tuples(st.binary(max_size=50), st.binary(max_size=50)).map(
        lambda parts: frame(2, parts[0], fin=False) + frame(9, b"?") + frame(0, parts[1])
    ),
    st.binary(max_size=125).map(lambda data: frame(9, data)),
    st.binary(max_size=125).map(lambda data: frame(10, data)),
    st.sampled_from([1000, 1001, 3000, 4999]).map(closing),
)
ODD = st.one_of(
    st.builds(
        frame,
        st.integers(0, 15),
        st.binary(max_size=130),
        fin=st.booleans(),
        reserved=st.integers(0, 7),
        mask=st.booleans(),
    ),
    st.integers(0, 65_535).map(closing),
    st.integers(0, 2**64 - 1).map(lambda size: struct.pack("!BBQ", 0x82, 127, size)),
    st.binary(max_size=20),
)


def told(wired: Any, pieces: Sequence[bytes]) -> list[Any]:
    """What the guest is told when the peer sends these pieces and goes."""
    found: list[Any] = []

    def look() -> None:
        while True:
            wired.turn()
            try:
                event = wired.connection.receive()
            except Refused as refused:
                if found[-1] != refused.word:
                    found.append(refused.word)
                return
            if event is None:
                return
            found.append(event)

    for piece in pieces:
        try:
            wired.far.sendall(piece)
        except BrokenPipeError:
            break
        look()
    wired.far.shutdown(socket.SHUT_WR)
    look()
    return found


def check(events: list[Any]) -> None:
    *messages, terminal, word = events
    for kind, (form, content) in messages:
        assert kind == "message"
        assert isinstance(content, {"text": str, "binary": bytes}[form])
    assert word == "closed"
    assert terminal[0] == "closed" or terminal in (
        ("failed", "protocol-error"),
        ("failed", "payload-too-large"),
    )


@given(frames=st.lists(PROPER | ODD, max_size=12), cuts=st.lists(st.integers(0, 2000), max_size=8))
def test_a_peers_bytes_mean_the_same_in_any_pieces(
    frames: list[bytes], cuts: list[int], wire_class: Make
) -> None:
    data = b"".join(frames)
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[begin:end] for begin, end in pairwise(bounds) if end > begin]
    events: list[Any] = []
    for sent in ([data] if data else [], pieces):
        wired = wire_class()
        try:
            events.append(told(wired, sent))
        finally:
            wired.close()
        assert wired.ended == 1
    check(events[0])
    assert events[0] == events[1]
