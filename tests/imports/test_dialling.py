"""A connection is opened beside the guest's thread; one that comes too late is closed."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from plugin_parts import Config

from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.decision import Decision
from zeroclaw_host.egress.failures import ConnectFailed
from zeroclaw_host.egress.request import EgressRequest, Transport
from zeroclaw_host.imports.dialling import dial
from zeroclaw_host.instance import InstanceScope
from zeroclaw_host.sandbox.frame import CallCancelled, CallFrame
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import MemoryLogSink

PATIENCE = 60.0
"""Seconds that tell hanging from slow."""


class Late:
    """A network authority that finishes what it began, whatever becomes of the caller."""

    def __init__(self, answer: Connection | Exception) -> None:
        self.asked = threading.Event()
        self.released = threading.Event()
        self.deadline: Deadline | None = None
        self._answer = answer

    def open(self, request: EgressRequest, deadline: Deadline, **how: Any) -> Connection:
        self.deadline = deadline
        self.asked.set()
        assert self.released.wait(PATIENCE)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.fixture
def ended() -> threading.Event:
    """Set when the connection was closed."""
    return threading.Event()


@pytest.fixture
def wanted(scope: InstanceScope) -> EgressRequest:
    return EgressRequest.of(scope, Transport.SOCKETS, "a.example", 80)


@pytest.fixture
def connection(ended: threading.Event, wanted: EgressRequest) -> Iterator[Connection]:
    near, far = socket.socketpair()
    near.setblocking(False)
    with (
        far,
        Connection(
            near,
            decision=Decision(wanted),
            address=ipaddress.ip_address("192.0.2.1"),
            server_name="a.example",
            context=None,
            ended=lambda _usage: ended.set(),
        ) as made,
    ):
        yield made


def frame_of(scope: InstanceScope, network: Any) -> CallFrame:
    services = InstanceServices(Config(), MemoryLogSink(), network=network)
    return CallFrame(scope=scope, services=services, limits=Limits(call_timeout_ms=120_000))


def test_what_is_opened_is_handed_over(
    scope: InstanceScope, wanted: EgressRequest, connection: Connection, ended: threading.Event
) -> None:
    network = Late(connection)
    network.released.set()
    assert dial(frame_of(scope, network), wanted, 30) is connection
    assert not ended.is_set()


def test_what_goes_wrong_is_raised_where_the_guest_waits(scope: InstanceScope, wanted: EgressRequest) -> None:
    network = Late(ConnectFailed("nobody there"))
    network.released.set()
    with pytest.raises(ConnectFailed, match="nobody there"):
        dial(frame_of(scope, network), wanted, 30)


def test_a_process_without_threads_connects_nowhere(
    scope: InstanceScope, wanted: EgressRequest, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an answer for the guest, and no fault of the host's that ends its call."""

    def no_more(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more)
    with pytest.raises(ConnectFailed, match="no thread"):
        dial(frame_of(scope, Late(connection)), wanted, 30)


@pytest.mark.req("PLG-018", "PLG-124")
def test_a_connection_that_comes_after_the_call_was_given_up_is_closed(
    scope: InstanceScope,
    wanted: EgressRequest,
    connection: Connection,
    ended: threading.Event,
    waiting: Callable[[Callable[[], object]], Any],
) -> None:
    network = Late(connection)
    frame = frame_of(scope, network)
    call = waiting(lambda: dial(frame, wanted, 30))
    assert network.asked.wait(PATIENCE)
    frame.cancel()
    with pytest.raises(CallCancelled):
        call.join()
    assert network.deadline is not None
    assert network.deadline.waker.fired, "the authority is told"
    assert not ended.is_set()
    network.released.set()
    assert ended.wait(PATIENCE)
