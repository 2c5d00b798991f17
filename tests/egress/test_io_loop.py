"""The loop that reads and writes open connections: it serves all, ends with the last, and outlives every handler."""

from __future__ import annotations

import errno
import ipaddress
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import peers
import pytest

from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.deadline import Deadline, Waker
from zeroclaw_host.egress.decision import Decision
from zeroclaw_host.egress.failures import ConnectionBroken, ConnectionClosed
from zeroclaw_host.egress.io_loop import READABLE, WRITABLE, IoLoop
from zeroclaw_host.egress.request import TlsMode

Make = Callable[..., Any]


@pytest.fixture
def opened(ask: Make, network: Make) -> Iterator[Callable[..., Connection]]:
    """Opens connections to peers that serve them, and closes them with the test."""
    net = network({"a.example": [["127.0.0.1"]]}, max_connections=64)
    made: list[Connection] = []

    def open_to(server: peers.Peer) -> Connection:
        before = server.served
        made.append(
            net.dialer.open(ask("a.example", server.port, tls=TlsMode.NONE), Deadline(peers.PATIENCE))
        )
        # The system has connected before the peer's thread begins, which a test may count among those that were there.
        assert peers.eventually(lambda: server.served > before)
        return made[-1]

    yield open_to
    for connection in made:
        connection.close()


class Handler:
    """Keeps what arrives, sends what is given to it, and says when its moment came."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.got = bytearray()
        self.to_send = bytearray()
        self.at: float | None = None
        self.came: list[float] = []
        self.calls = 0
        self.reads = True
        self.ended = False
        self.closed = False
        self.threads: set[str] = set()
        self.raises: dict[str, BaseException] = {}

    def wanted(self) -> int:
        if "wanted" in self.raises:
            raise self.raises["wanted"]
        reading = READABLE if self.reads and not self.ended else 0
        return reading | (WRITABLE if self.to_send else 0)

    def ready(self) -> None:
        self.calls += 1
        self.threads.add(threading.current_thread().name)
        if "ready" in self.raises:
            raise self.raises["ready"]
        if self.at is not None and time.monotonic() >= self.at:
            self.came.append(time.monotonic())
            self.at = None
        try:
            while self.to_send and (count := self.connection.send_now(self.to_send)):
                del self.to_send[:count]
            while self.reads and not self.ended and (data := self.connection.receive_now(65_536)) is not None:
                self.got += data
                self.ended = not data
        except ConnectionClosed:
            self.closed = True

    def moment(self) -> float | None:
        if "moment" in self.raises:
            raise self.raises["moment"]
        return self.at


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "zeroclaw-io"]


def test_one_thread_serves_all_and_ends_with_the_last(peer: Make, opened: Make) -> None:
    server = peer(peers.echo)
    loop = IoLoop()
    with peers.nothing_left():
        assert not threads()
        handlers = [Handler(opened(server)) for _ in range(20)]
        attachments = [loop.attach(handler.connection, handler) for handler in handlers]
        assert len(threads()) == 1
        for number, (handler, attachment) in enumerate(zip(handlers, attachments, strict=True)):
            handler.to_send += b"%d" % number
            attachment.poke()
        for number, handler in enumerate(handlers):
            assert peers.eventually(lambda handler=handler, number=number: handler.got == b"%d" % number)
            assert handler.threads == {"zeroclaw-io"}
        for handler, attachment in zip(handlers, attachments, strict=True):
            assert attachment.attached
            attachment.detach()
            attachment.detach()
            assert not attachment.attached
            handler.connection.close()
    again = Handler(opened(server))
    attachment = loop.attach(again.connection, again)
    again.to_send += b"again"
    attachment.poke()
    assert peers.eventually(lambda: again.got == b"again")
    attachment.detach()
    assert peers.eventually(lambda: not threads())


def test_more_than_the_buffers_hold_goes_both_ways(peer: Make, opened: Make) -> None:
    server = peer(peers.echo)
    handler = Handler(opened(server))
    data = bytes(range(256)) * 8192
    attachment = IoLoop().attach(handler.connection, handler)
    handler.to_send += data
    attachment.poke()
    assert peers.eventually(lambda: len(handler.got) == len(data))
    assert handler.got == data
    attachment.detach()


def test_nothing_is_read_while_nothing_is_wanted(peer: Make, opened: Make) -> None:
    server = peer(peers.say(b"early"))
    handler = Handler(opened(server))
    handler.reads = False
    attachment = IoLoop().attach(handler.connection, handler)
    assert peers.eventually(lambda: peers.readable(handler.connection.fileno()))
    assert peers.eventually(lambda: handler.calls == 1)
    attachment.poke()
    assert peers.eventually(lambda: handler.calls == 2)  # the first look and the poke, and no spinning
    assert not handler.got
    handler.reads = True
    attachment.poke()
    assert peers.eventually(lambda: handler.ended)
    assert handler.got == b"early"
    attachment.detach()


def test_a_moment_comes_and_not_before(peer: Make, opened: Make) -> None:
    server = peer(peers.hold)
    first, second = Handler(opened(server)), Handler(opened(server))
    loop = IoLoop()
    soon, later = time.monotonic() + 0.05, time.monotonic() + 0.1
    first.at, second.at = later, soon
    attachments = [loop.attach(handler.connection, handler) for handler in (first, second)]
    assert peers.eventually(lambda: bool(first.came and second.came))
    assert second.came[0] >= soon
    assert first.came[0] >= later
    calls = first.calls
    second.to_send += b"x"
    attachments[1].poke()
    assert peers.eventually(lambda: not second.to_send)
    assert first.calls == calls  # a moment that has come does not come again
    for attachment in attachments:
        attachment.detach()


class Rekeyed(socket.socket):
    """As TLS does it when the peer changed its keys: nothing is given before the answer to that is sent."""

    answered = False

    def recv(self, *arguments: Any) -> bytes:
        if not self.answered:
            try:
                self.send(b"k")
            except BlockingIOError:
                raise ssl.SSLWantWriteError from None
            self.answered = True
        return super().recv(*arguments)


def test_reading_that_has_to_send_first_waits_for_that_and_not_for_the_bytes_that_are_there(
    ask: Make,
) -> None:
    near, far = socket.socketpair()
    plain = Rekeyed(fileno=near.detach())
    plain.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            plain.send(bytes(4096))
    far.sendall(b"behind the change of keys")
    connection = Connection(
        plain,
        decision=Decision(ask("a.example", 80)),
        address=ipaddress.ip_address("192.0.2.1"),
        server_name="a.example",
        context=None,
        ended=lambda _usage: None,
    )
    handler = Handler(connection)
    attachment = IoLoop().attach(connection, handler)
    assert peers.eventually(lambda: handler.calls > 0)
    attachment.poke()
    assert peers.eventually(
        lambda: handler.calls == 2
    )  # the first look and the poke: it would spin otherwise
    attachment.poke()
    assert peers.eventually(lambda: handler.calls == 3)
    assert connection.receiving_sends
    far.setblocking(False)

    def taken() -> bool:
        with suppress(BlockingIOError):
            far.recv(65_536)
        return bool(handler.got)

    assert peers.eventually(taken)
    assert handler.got == b"behind the change of keys"
    assert not connection.receiving_sends
    attachment.detach()
    connection.close()
    far.close()


@pytest.mark.parametrize("where", ["ready", "wanted", "moment"])
@pytest.mark.parametrize("error", [RuntimeError("a fault"), SystemExit(1)], ids=["fault", "exit"])
def test_a_handler_that_raises_ends_its_own_connection_only(
    peer: Make, opened: Make, where: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    server = peer(peers.echo)
    bad, good = Handler(opened(server)), Handler(opened(server))
    loop = IoLoop()
    failing, serving = loop.attach(bad.connection, bad), loop.attach(good.connection, good)
    bad.raises[where] = error
    failing.poke()
    assert peers.eventually(lambda: bad.connection.closed)
    assert failing.error is error
    assert not failing.attached
    good.to_send += b"still here"
    serving.poke()
    assert peers.eventually(lambda: good.got == b"still here")
    assert serving.error is None
    [record] = caplog.records
    assert type(error).__name__ in record.message
    assert "a fault" not in caplog.text  # it could be somebody's secret
    serving.detach()
    assert peers.eventually(lambda: not threads())


def test_a_connection_closed_by_somebody_else_leaves_the_loop(peer: Make, opened: Make) -> None:
    server = peer(peers.hold)
    loop = IoLoop()
    with peers.nothing_left():
        handler = Handler(opened(server))
        attachment = loop.attach(handler.connection, handler)
        assert peers.eventually(lambda: handler.calls > 0)
        handler.connection.close()
        assert peers.eventually(lambda: not attachment.attached)
        assert handler.closed  # it was told, with a last call
    assert attachment.error is None


def no_more_threads(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_process_without_threads_for_the_loop_is_told_so_and_loses_nothing(
    peer: Make, opened: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = Handler(opened(peer(peers.echo)))
    loop = IoLoop()
    with peers.nothing_left():
        with monkeypatch.context() as broken:
            broken.setattr(threading.Thread, "start", no_more_threads)
            with pytest.raises(OSError, match="no thread"):
                loop.attach(handler.connection, handler)
        attachment = loop.attach(handler.connection, handler)  # and the next time it is there again
        handler.to_send += b"now"
        attachment.poke()
        assert peers.eventually(lambda: handler.got == b"now")
        attachment.detach()


def test_a_process_without_descriptors_to_wait_with_says_that_the_connection_failed(
    peer: Make, opened: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = opened(peer(peers.hold))

    def no_more() -> tuple[int, int]:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as broken:
        broken.setattr("os.pipe", no_more)
        with pytest.raises(ConnectionBroken, match="cannot be waited for: Too many open files"):
            connection.receive(1, Deadline(peers.PATIENCE))


IN_A_FORKED_CHILD = """
import ipaddress, os, socket, sys, threading
from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.decision import Decision
from zeroclaw_host.egress.io_loop import PROCESS_LOOP, READABLE
from zeroclaw_host.egress.request import EgressRequest, Transport
from zeroclaw_host.instance import InstanceIdentity

class Reader:
    def __init__(self):
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        request = EgressRequest(
            identity=InstanceIdentity.default_tool("a"), transport=Transport.SOCKETS, host="a.example", port=80
        )
        self.connection = Connection(
            self.near, decision=Decision(request), address=ipaddress.ip_address("192.0.2.1"),
            server_name="a.example", context=None, ended=lambda usage: None,
        )
        self.got = threading.Event()
        self.attachment = PROCESS_LOOP.attach(self.connection, self)

    def wanted(self): return READABLE
    def moment(self): return None
    def ready(self):
        if self.connection.receive_now(10):
            self.got.set()

    def served(self):
        self.far.send(b"x")
        return self.got.wait(60)

before = Reader()
child = os.fork()
if not child:
    os._exit(0 if Reader().served() and not before.attachment.attached else 1)
of_child = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(of_child or not before.served())
"""


def test_a_forked_child_has_a_loop_of_its_own_and_leaves_its_parents() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", IN_A_FORKED_CHILD],
        capture_output=True,
        timeout=3 * peers.PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_closed_connection_is_not_attached(peer: Make, opened: Make) -> None:
    handler = Handler(opened(peer(peers.hold)))
    handler.connection.close()
    with peers.nothing_left(), pytest.raises(ConnectionClosed):
        IoLoop().attach(handler.connection, handler)


def test_a_descriptor_that_is_used_again_belongs_to_the_new_connection(peer: Make, opened: Make) -> None:
    server = peer(peers.echo)
    loop = IoLoop()
    keeping = Handler(opened(server))
    kept = loop.attach(keeping.connection, keeping)
    seen: set[int] = set()
    for number in range(50):
        handler = Handler(opened(server))
        seen.add(handler.connection.fileno())
        attachment = loop.attach(handler.connection, handler)
        handler.to_send += b"%d" % number
        attachment.poke()
        assert peers.eventually(lambda handler=handler, number=number: handler.got == b"%d" % number)
        if number % 2:
            attachment.detach()
        handler.connection.close()
    assert len(seen) < 50  # otherwise it proves nothing
    kept.detach()


class Borrowed:
    """A connection that has lost its descriptor to another one and does not know it."""

    def __init__(self, descriptor: int) -> None:
        self.closing = Waker()
        self.closed = False
        self.receiving_sends = self.sending_receives = False
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def receive_now(self, limit: int) -> bytes | None:
        return None

    def close(self) -> None:
        self.closed = True


def test_who_takes_a_descriptor_over_is_served_and_the_loop_lives(peer: Make, opened: Make) -> None:
    handler = Handler(opened(peer(peers.echo)))
    loop = IoLoop()
    stale = Handler(Borrowed(handler.connection.fileno()))  # type: ignore[arg-type]
    before = loop.attach(stale.connection, stale)
    assert peers.eventually(lambda: stale.calls > 0)
    attachment = loop.attach(handler.connection, handler)
    handler.to_send += b"mine"
    attachment.poke()
    assert peers.eventually(lambda: handler.got == b"mine")
    before.detach()
    handler.to_send += b"still"
    attachment.poke()
    assert peers.eventually(lambda: handler.got == b"minestill")
    attachment.detach()
    assert peers.eventually(lambda: not threads())


def test_a_detached_connection_stays_open_and_can_be_attached_again(peer: Make, opened: Make) -> None:
    server = peer(peers.echo)
    loop = IoLoop()
    connection = opened(server)
    first = Handler(connection)
    loop.attach(connection, first).detach()
    connection.send(b"by hand", Deadline(peers.PATIENCE))
    assert connection.receive(20, Deadline(peers.PATIENCE)) == b"by hand"
    second = Handler(connection)
    attachment = loop.attach(connection, second)
    second.to_send += b"by the loop"
    attachment.poke()
    assert peers.eventually(lambda: second.got == b"by the loop")
    assert not first.got
    attachment.detach()
