"""Every sequence of operations against a model of the connection's states, with a real peer on the other side."""

from __future__ import annotations

import queue
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any

import peers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroclaw_host.egress.stream import CHUNK_BYTES
from zeroclaw_host.sandbox.values import OK, Err, Ok

Make = Callable[..., Any]
INVALID, CLOSED, TOO_LARGE = Err("invalid-state"), Err("closed"), Err("chunk-too-large")
OPERATIONS = (
    "receive",
    "receive-negotiation",
    "pending",
    "send",
    "send-negotiation",
    "too large",
    "upgrade-tls",
)
EVENTS = ("says", "ends")
UPGRADES = ("fits", "fails")


class Puppet:
    """A peer that says, ends and shakes hands when it is told to, and confirms what it read."""

    def __init__(self, contexts: dict[str, ssl.SSLContext]) -> None:
        self.orders: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.read: queue.Queue[bytes] = queue.Queue()
        self._contexts = contexts

    def __call__(self, connection: socket.socket) -> None:
        while True:
            order, data = self.orders.get(timeout=peers.PATIENCE)
            match order:
                case "says":
                    connection.sendall(data)
                case "reads":
                    self.read.put(connection.recv(len(data)) if data else b"")
                case "fits" | "fails":
                    try:
                        connection = self._contexts[order].wrap_socket(connection, server_side=True)
                    except OSError:
                        connection.close()
                        return
                case _:
                    connection.close()
                    return


class Model:
    """What the guest is to be told, by the state of the connection alone."""

    def __init__(self, mode: str) -> None:
        self.phase = "negotiation" if mode == "start-tls" else "application"
        self.chunks: deque[bytes] = deque()
        self.end: str | None = None

    def says(self, data: bytes) -> None:
        """The peer's: little bytes wait in one chunk."""
        self.chunks.append((self.chunks.pop() if self.chunks else b"") + data)

    def send(self, phase: str, size: int) -> Ok | Err:
        if self.end:
            return CLOSED
        if self.phase != phase:
            return INVALID
        return TOO_LARGE if size > CHUNK_BYTES else OK

    def receive(self, phase: str) -> Ok | Err:
        if self.phase == phase and self.chunks:
            return Ok(("data", self.chunks.popleft()))
        if self.chunks:
            return INVALID
        if self.end:
            return Ok(("closed", self.end))
        if self.phase != phase and phase == "negotiation":
            return INVALID
        return Ok(("idle", None))

    def upgrade(self, how: str) -> Ok | Err:
        if self.phase != "negotiation" or self.chunks or self.end:
            return INVALID
        if how == "fits":
            self.phase = "application"
            return OK
        self.phase, self.end = "upgrading", "tls-upgrade-failed"
        return Err("tls-handshake-failed")


@pytest.fixture(scope="module")
def contexts(secure: Make) -> dict[str, ssl.SSLContext]:
    return {"fits": secure(), "fails": secure("b.example")}


MODES = ("plaintext", "direct-tls", "start-tls")
STEPS = st.lists(
    st.one_of(
        st.sampled_from(OPERATIONS[:-1]),
        st.sampled_from(EVENTS[:1]),
        st.sampled_from(EVENTS),
        st.sampled_from([f"upgrade-tls {how}" for how in UPGRADES]),
    ),
    max_size=12,
)


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("mode", MODES)
def test_every_sequence_of_operations_is_answered_as_the_model_says(
    network: Make, guest: Make, contexts: dict[str, ssl.SSLContext], mode: str
) -> None:
    net = network({"a.example": [["127.0.0.1"]]})

    @settings(max_examples=40)
    @given(STEPS)
    def follows(steps: list[str]) -> None:
        puppet = Puppet(contexts)
        server = peers.Peer(puppet, tls=contexts["fits"] if mode == "direct-tls" else None)
        try:
            plug = guest(net).connect(server.port, mode=mode)
            model = Model(mode)
            for number, step in enumerate(steps):
                perform(plug, model, puppet, step, b"%d" % number)
            assert net.held == (0 if model.end else 1)
            plug.close()
            assert net.held == 0
        finally:
            puppet.orders.put(("ends", b""))
            server.close()

    follows()


def perform(plug: Any, model: Model, puppet: Puppet, step: str, data: bytes) -> None:
    """One step on both sides, and the same answer from both."""
    stream = plug.resource._stream
    match step:
        case "says" if not model.end:
            puppet.orders.put(("says", data))
            model.says(data)
            assert peers.eventually(lambda: list(stream._arrived) == list(model.chunks))
        case "ends" if not model.end:
            puppet.orders.put(("ends", b""))
            model.end = "peer-closed"
            assert peers.eventually(lambda: stream.end is not None)
        case "says" | "ends":
            pass
        case "pending":
            assert plug.pending() == len(model.chunks)
        case "receive":
            assert plug.receive() == model.receive("application")
        case "receive-negotiation":
            assert plug.call(step) == model.receive("negotiation")
        case "send" | "send-negotiation" | "too large":
            phase = "negotiation" if step == "send-negotiation" else "application"
            sent = bytes(CHUNK_BYTES + 1) if step == "too large" else data
            expected = model.send(phase, len(sent))
            assert plug.call("send" if step == "too large" else step, sent) == expected
            if expected == OK:
                puppet.orders.put(("reads", sent))
                assert puppet.read.get(timeout=peers.PATIENCE) == sent
        case _:
            how = step.removeprefix("upgrade-tls ")
            expected = model.upgrade(how)
            if expected != INVALID:
                puppet.orders.put((how, b""))
            assert plug.call("upgrade-tls") == expected
