"""Operation sequences against a small model of a connection: what a guest is told depends on their order alone."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from websocket_peers import closing, frame

from zeroclaw_host.imports.websocket.closing import CloseFrame
from zeroclaw_host.imports.websocket.connection import CLOSE_SECONDS, MAX_INBOUND
from zeroclaw_host.imports.websocket.refusal import Refused

Make = Callable[..., Any]
SIZE = 700
"""Bytes of a message: more than the parser is given at once, so that the fifth is not read along with the fourth."""


class Model:
    """What the guest shall be told."""

    def __init__(self) -> None:
        self.unread: deque[Any] = deque()
        """What the peer did and the host has not looked at, for want of room."""
        self.queue: deque[Any] = deque()
        self.terminal: Any = None
        self.closing = False
        self.over = False

    def turn(self) -> None:
        """The loop looks: as far as there is room."""
        while self.unread and len(self.queue) < MAX_INBOUND and not self.over:
            kind, payload = self.unread.popleft()
            if kind == "message":
                self.queue.append((kind, payload))
            else:
                ending = payload
                if kind == "end":
                    ending = ("closed", None) if self.closing else ("failed", "protocol-error")
                self.end(ending)

    def end(self, event: Any) -> None:
        if not self.over:
            self.over, self.terminal = True, event

    def receive(self) -> Any:
        if self.queue:
            return self.queue.popleft()
        if self.terminal is not None:
            event, self.terminal = self.terminal, None
            return event
        return "closed" if self.over else None


PEER = st.sampled_from(
    ["message", "text", "ping", "close", "close without code", "broken rule", "bad text", "end"]
)
GUEST = st.sampled_from(["send", "receive", "receive", "close", "close without code"])
STEPS = st.lists(PEER.map("peer {}".format) | GUEST | st.just("time passes"), max_size=30)


@given(steps=STEPS)
def test_a_guest_is_told_what_the_model_says(steps: list[str], wire_class: Make) -> None:
    wired, model = wire_class(), Model()
    peer_over = False
    try:
        for number, step in enumerate(steps):
            if step.startswith("peer "):
                if peer_over:
                    continue
                peer_over = act_as_peer(step.removeprefix("peer "), number, wired, model)
            elif step == "time passes":
                wired.seconds += CLOSE_SECONDS
                wired.turn()
                model.turn()
                if model.closing:
                    model.end(("closed", None))
            else:
                act_as_guest(step, wired, model)
            wired.turn()
            model.turn()
            assert wired.ended == model.over
            assert bool(wired.connection.wanted()) is (not model.over and len(model.queue) < MAX_INBOUND)
    finally:
        wired.close()
    assert wired.ended == 1


PADDING = frame(10, bytes(125)) * 5
"""Unasked pongs, which nobody is told of: what comes behind them is not read along with a message before."""
TEXT = 1


def actions_of(number: int) -> dict[str, tuple[bytes, Any]]:
    """What a peer can do: the bytes, and what is told to the guest."""
    word = f"{number:0{SIZE}}"
    data = word.encode()
    bye = {"code": ("going-away", None), "reason": "bye"}
    fragments = frame(TEXT, data[:100], fin=False) + frame(9, b"?") + frame(0, data[100:])
    return {
        "message": (frame(2, data), ("message", ("binary", data))),
        "text": (fragments, ("message", ("text", word))),
        "ping": (frame(9, b"?"), None),
        "close": (closing(1001, b"bye"), ("close", ("closed", bye))),
        "close without code": (frame(8), ("close", ("closed", None))),
        "broken rule": (frame(3), ("broken", ("failed", "protocol-error"))),
        "bad text": (frame(TEXT, b"\xff"), ("broken", ("failed", "protocol-error"))),
        "end": (b"", ("end", None)),
    }


def act_as_peer(step: str, number: int, wired: Any, model: Model) -> bool:
    """Do it, and tell the model; whether the peer can do nothing more."""
    if model.over:
        return True
    sent, told = actions_of(number)[step]
    wired.far.sendall(PADDING + sent)
    if told is None:
        return False
    model.unread.append(told)
    if told[0] == "message":
        return False
    if step == "end":
        wired.far.shutdown(socket.SHUT_WR)
    return True


def told(action: Callable[[], object]) -> object:
    """What it gives, or the word it is refused with."""
    try:
        return action()
    except Refused as refused:
        return refused.word


def act_as_guest(step: str, wired: Any, model: Model) -> None:
    """Do it, and compare what the guest is told."""
    connection = wired.connection
    if step == "receive":
        assert told(connection.receive) == model.receive()
        return
    expected = "closed" if model.over or model.closing else None
    if step == "send":
        assert told(lambda: connection.send("text", "x")) == expected
        return
    saying = CloseFrame(1000, "done") if step == "close" else None
    assert told(lambda: connection.finish(saying)) == expected
    model.closing = True
