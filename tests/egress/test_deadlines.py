"""The end of a deadline, and of a caller's patience, in every phase: the slot is free, the socket closed, the thread gone."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import peers
import pytest

from zeroclaw_host.egress.deadline import READABLE, Deadline, Waker, wait_for_socket
from zeroclaw_host.egress.failures import ConnectionClosed, DialCancelled, Stage, TimeIsUp
from zeroclaw_host.egress.request import TlsMode

Make = Callable[..., Any]
PLAIN: dict[str, Any] = {"tls": TlsMode.NONE}


class Phase:
    """A place where a dial stays for ever, and what there is to do to get there."""

    def __init__(self, stage: Stage, network: Make, ask: Make, peer: Make, stack: ExitStack) -> None:
        self.stage = stage
        self.reached = threading.Event()
        self.released = threading.Event()
        self.how: dict[str, Any] = {}
        port, tls = 9, TlsMode.NONE
        if stage is Stage.CONNECT:
            port = stack.enter_context(peers.full_backlog())
            self.reached.set()
        elif stage is not Stage.RESOLVE:
            port = peer(self._hold).port
        if stage is Stage.TLS:
            tls = TlsMode.DIRECT
        if stage is Stage.RECEIVE:
            self.how["establish"] = lambda connection, deadline: connection.receive(1, deadline)
        if stage is Stage.SEND:
            self.how["establish"] = lambda connection, deadline: connection.send(bytes(2**26), deadline)
        self.net = network({"a.example": [self._answer if stage is Stage.RESOLVE else ["127.0.0.1"]]})
        if tls is TlsMode.DIRECT:
            self.net.anchors.context()
        self.request = ask("a.example", port, tls=tls)

    def _answer(self) -> list[str]:
        self.reached.set()
        self.released.wait(peers.PATIENCE)
        return ["127.0.0.1"]

    def _hold(self, connection: socket.socket) -> None:
        self.reached.set()
        self.released.wait(peers.PATIENCE)

    @contextmanager
    def over(self) -> Iterator[None]:
        """Whatever holds the dial ends with the block, and then nothing is left of it."""
        with peers.nothing_left():
            try:
                yield
            finally:
                self.released.set()

    def dial(self, deadline: Deadline) -> None:
        self.net.dialer.open(self.request, deadline, **self.how)


PHASES = [Stage.RESOLVE, Stage.CONNECT, Stage.TLS, Stage.RECEIVE, Stage.SEND]


@pytest.mark.req("PLG-124")
@pytest.mark.parametrize("stage", PHASES, ids=str)
def test_a_dial_that_is_given_up_ends_at_once(ask: Make, network: Make, peer: Make, stage: Stage) -> None:
    with ExitStack() as stack:
        phase = Phase(stage, network, ask, peer, stack)
        stack.enter_context(phase.over())
        deadline = Deadline(peers.PATIENCE)
        caught: list[BaseException] = []

        def dial() -> None:
            try:
                phase.dial(deadline)
            except DialCancelled as error:
                caught.append(error)

        dialling = threading.Thread(target=dial)
        dialling.start()
        assert phase.reached.wait(peers.PATIENCE)
        deadline.cancel()
        dialling.join(peers.PATIENCE)
        assert not dialling.is_alive()
        assert len(caught) == 1
        assert phase.net.slots.held(phase.request.identity) == 0


@pytest.mark.req("PLG-124")
@pytest.mark.parametrize("stage", PHASES, ids=str)
def test_a_dial_ends_with_its_deadline_and_says_where_it_was(
    ask: Make, network: Make, peer: Make, stage: Stage
) -> None:
    """A slow machine may not get as far in a short time; then it has a longer one."""
    with ExitStack() as stack:
        phase = Phase(stage, network, ask, peer, stack)
        stack.enter_context(phase.over())
        for seconds in (0.1, 1.0, 10.0, 40.0):
            with pytest.raises(TimeIsUp) as caught:
                phase.dial(Deadline(seconds))
            assert phase.net.slots.held(phase.request.identity) == 0
            if caught.value.stage is stage:
                break
        assert caught.value.stage is stage


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_deadline_that_is_over_before_it_begins_sends_nothing(
    ask: Make, network: Make, peer: Make, cancelled: bool
) -> None:
    server = peer()
    net = network({"a.example": [["127.0.0.1"]], "127.0.0.1": []})
    deadline = Deadline(peers.PATIENCE if cancelled else 0.0)
    if cancelled:
        deadline.cancel()
    for host in ("a.example", "127.0.0.1"):
        with pytest.raises(DialCancelled if cancelled else TimeIsUp):
            net.dialer.open(ask(host, server.port, **PLAIN), deadline)
    assert net.resolver.asked == []
    assert server.accepted == 0


def test_a_part_of_a_deadline_ends_with_it_and_is_cancelled_with_it() -> None:
    now = [100.0]
    deadline = Deadline(10, clock=lambda: now[0])
    assert deadline.sooner(3).moment == 103.0
    assert deadline.sooner(30).moment == 110.0
    now[0] = 109.0
    assert deadline.sooner(3).moment == 110.0
    part = deadline.sooner(0.5)
    assert part.remaining(Stage.CONNECT) == 0.5
    deadline.cancel()
    with pytest.raises(DialCancelled):
        part.remaining(Stage.CONNECT)


def test_no_time_is_left_at_the_very_moment() -> None:
    now = [0.0]
    deadline = Deadline(5, clock=lambda: now[0])
    now[0] = 4.999
    assert deadline.remaining(Stage.TLS) > 0
    assert not deadline.over
    now[0] = 5.0
    assert deadline.over
    with pytest.raises(TimeIsUp) as caught:
        deadline.remaining(Stage.TLS)
    assert caught.value.stage is Stage.TLS


def test_a_waker_calls_those_who_come_after_it_fired_too_and_nobody_who_left() -> None:
    waker = Waker()
    called: list[str] = []
    with waker.calling(lambda: called.append("left")):
        pass
    with waker.calling(lambda: called.append("waits")):
        waker.fire()
        waker.fire()
        assert called == ["waits", "waits"]
    with waker.calling(lambda: called.append("late")):
        assert called[-1] == "late"


def test_whoever_waits_for_a_socket_is_told_that_it_was_closed() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        closing = Waker()
        closing.fire()
        with pytest.raises(ConnectionClosed):
            wait_for_socket(ours, READABLE, Deadline(peers.PATIENCE), Stage.RECEIVE, closing)
        theirs.sendall(b"x")
        wait_for_socket(ours, READABLE, Deadline(peers.PATIENCE), Stage.RECEIVE, Waker())


class WatchedWaker(Waker):
    """A waker that tells when somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_for = threading.Event()

    @contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        with super().calling(callback):
            self.waited_for.set()
            yield


@pytest.mark.parametrize("how", ["cancelled", "closed"])
def test_whoever_waits_for_a_socket_is_woken(how: str) -> None:
    ours, theirs = socket.socketpair()
    cancelled, closed = WatchedWaker(), WatchedWaker()
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            wait_for_socket(ours, READABLE, Deadline(peers.PATIENCE, waker=cancelled), Stage.RECEIVE, closed)
        except (DialCancelled, ConnectionClosed) as error:
            caught.append(error)

    with ours, theirs:
        waiting = threading.Thread(target=wait)
        waiting.start()
        for waker in (cancelled, closed):
            assert waker.waited_for.wait(peers.PATIENCE)
        (cancelled if how == "cancelled" else closed).fire()
        waiting.join(peers.PATIENCE)
    assert [type(error) for error in caught] == [DialCancelled if how == "cancelled" else ConnectionClosed]
