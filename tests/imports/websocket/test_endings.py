"""The end of a call, its deadline and its caller's patience, in every phase: nothing is left open, counted or running."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import peers
import pytest
import websocket_peers

from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.errors import DeadlineExceeded
from zeroclaw_host.imports import websocket as module
from zeroclaw_host.imports.websocket.connection import WebSocketConnection
from zeroclaw_host.sandbox.frame import CallCancelled, CallFrame
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.resources import ResourceTable

Make = Callable[..., Any]
STARTED: Any = WebSocketConnection.start
PHASES = ["authorise", "resolve", "connect", "tls", "upgrade", "drip"]


class Stuck:
    """A guest that connects and gets no further than one phase, until it is released."""

    def __init__(self, phase: str, guest: Make, peer: Make, stack: ExitStack) -> None:
        self.reached = threading.Event()
        self.released = threading.Event()
        port, scheme = 9, "ws"
        if phase == "connect":
            port = stack.enter_context(peers.full_backlog())
            self.reached.set()
        elif phase in ("tls", "upgrade"):
            port = peer(self._hold).port
        elif phase == "drip":
            port = peer(self._drip).port
        if phase == "tls":
            scheme = "wss"
        self.tool = guest({"a.example": [self._answer if phase == "resolve" else ["127.0.0.1"]]})
        if phase == "authorise":
            policy = self.tool.policies.policy
            self.tool.policies.policy = lambda identity: self._wait(policy(identity))
        self.url = f"{scheme}://a.example:{port}/"

    def connect(self, frame: CallFrame | None = None) -> Any:
        return self.tool.connect(self.url, frame=frame)

    def _wait(self, policy: EgressPolicy) -> EgressPolicy:
        self.reached.set()
        self.released.wait(peers.PATIENCE)
        return policy

    def _answer(self) -> list[str]:
        self.reached.set()
        self.released.wait(peers.PATIENCE)
        return ["127.0.0.1"]

    def _hold(self, plug: socket.socket) -> None:
        plug.recv(1)
        self.reached.set()
        self.released.wait(peers.PATIENCE)

    def _drip(self, plug: socket.socket) -> None:
        """A byte at a time, without end."""
        plug.sendall(websocket_peers.acceptance(websocket_peers.request_of(plug))[:-2] + b"X: ")
        self.reached.set()
        while not self.released.is_set():
            plug.sendall(b"y")
            self.released.wait(0.01)


@pytest.fixture
def stuck(guest: Make, peer: Make) -> Iterator[Make]:
    with ExitStack() as stack:

        @contextmanager
        def make(phase: str) -> Iterator[Stuck]:
            made = Stuck(phase, guest, peer, stack)
            with peers.nothing_left():
                try:
                    yield made
                finally:
                    made.released.set()
            assert made.tool.held == 0

        yield make


@pytest.mark.req("PLG-018", "PLG-124", "PAINS-3")
@pytest.mark.parametrize("phase", PHASES)
def test_a_call_that_is_cancelled_while_it_connects_ends_at_once(
    phase: str, stuck: Make, waiting: Make
) -> None:
    with stuck(phase) as made:
        frame = made.tool.new_frame()
        call = waiting(lambda: made.connect(frame))
        assert made.reached.wait(peers.PATIENCE)
        frame.cancel()
        with pytest.raises(CallCancelled):
            call.join()


@pytest.mark.req("PLG-018", "PLG-124", "PAINS-3")
@pytest.mark.parametrize("phase", PHASES)
def test_a_call_whose_deadline_passes_while_it_connects_ends_and_says_what_it_waited_for(
    phase: str, stuck: Make, waiting: Make, clock: Any
) -> None:
    with stuck(phase) as made:
        frame = CallFrame(
            scope=made.tool.scope,
            services=made.tool.services,
            limits=Limits(call_timeout_ms=10_000),
            phase=made.tool.frame.phase,
            clock=clock,
        )
        call = waiting(lambda: made.connect(frame))
        assert made.reached.wait(peers.PATIENCE)
        clock.advance(10)
        frame.notify()
        with pytest.raises(DeadlineExceeded, match=r"waiting for a connection to a\.example"):
            call.join()


@pytest.mark.req("PLG-124", "PAINS-3")
@pytest.mark.realtime
@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase != "authorise"])
def test_connecting_takes_no_longer_than_its_time_whatever_the_peer_does(
    phase: str, stuck: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.2)  # it never succeeds, however long this takes to pass
    with stuck(phase) as made:
        assert made.connect() == "timeout"


def test_a_connection_that_is_made_after_the_call_gave_up_is_closed(stuck: Make, waiting: Make) -> None:
    """The policy cannot be interrupted: it answers when nobody waits any more, and nothing is dialled."""
    with stuck("authorise") as made:
        frame = made.tool.new_frame()
        call = waiting(lambda: made.connect(frame))
        assert made.reached.wait(peers.PATIENCE)
        frame.cancel()
        with pytest.raises(CallCancelled):
            call.join()
        made.released.set()
    assert made.tool.resolver.asked == []


# --- an open connection -------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-124")
@pytest.mark.parametrize("state", ["open", "with messages", "sending", "closing", "over"])
def test_what_a_call_leaves_ends_with_it(state: str, guest: Make, peer: Make) -> None:
    """However the call ended: its table is closed on every path."""
    gone = threading.Event()
    messages = websocket_peers.frame(2, bytes(1000)) * 100

    def talk(plug: Any) -> None:
        try:
            if state == "with messages":
                plug.sendall(messages)
            if state == "over":
                plug.sendall(websocket_peers.closing(1000))
            if state == "sending":
                stop.wait(peers.PATIENCE)
            else:
                peers.hold(plug)
        finally:  # a connection that ends with something unread is reset
            gone.set()

    stop = threading.Event()
    origin = peer(websocket_peers.upgraded(talk))
    tool = guest()
    with peers.nothing_left():
        frame = tool.new_frame()
        connection = tool.connect(f"ws://a.example:{origin.port}/", frame=frame)
        if state == "closing":
            connection.finish(None)
        if state == "sending":
            while tool.word("send", connection, ("binary", bytes(2**20))) == "ok":
                pass
        if state == "with messages":
            assert tool.receive(connection)[0] == "message"
        if state == "over":
            assert tool.receive(connection)[0] == "closed"
        frame.table.close()
        assert tool.held == 0
        stop.set()
        assert gone.wait(peers.PATIENCE)


@pytest.mark.req("PLG-124")
def test_a_connection_in_a_warm_store_outlives_the_call_that_made_it_and_ends_with_the_store(
    guest: Make, server: Make
) -> None:
    origin = server()
    tool = guest()
    table = ResourceTable()

    def call() -> CallFrame:
        return CallFrame(
            scope=tool.scope, services=tool.services, limits=Limits(), phase=tool.frame.phase, table=table
        )

    with peers.nothing_left():
        connection = tool.connect(f"ws://a.example:{origin.port}/", frame=call())
        assert tool.call("[method]connection.send", connection, ("text", "x"), frame=call()).value is None
        assert tool.receive(connection) == ("message", ("text", "x"))
        assert tool.held == 1
        table.close()
        assert tool.held == 0


def test_many_connections_leave_nothing(guest: Make, server: Make) -> None:
    origin = server(lambda connection: connection.recv())
    tool = guest()
    with peers.nothing_left():
        for number in range(200):
            frame = tool.new_frame()
            connection = tool.connect(f"ws://a.example:{origin.port}/", frame=frame)
            assert not isinstance(connection, str), connection
            if number % 2:
                assert tool.word("send", connection, ("text", "x")) == "ok"
            frame.table.close()
    assert tool.held == 0


def test_a_process_without_descriptors_for_the_loop_makes_no_connection(
    guest: Make, peer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Exhausted:
        def attach(self, connection: Any, handler: Any) -> Any:
            raise OSError(24, "Too many open files")

    monkeypatch.setattr(WebSocketConnection, "start", lambda self: STARTED(self, Exhausted()))
    origin = peer(websocket_peers.upgraded(peers.hold))
    tool = guest()
    with peers.nothing_left():
        assert tool.connect(f"ws://a.example:{origin.port}/") == "unavailable"
        assert tool.held == 0
