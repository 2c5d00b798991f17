"""What a guest does with an open connection: bytes, limits, back-pressure, and the end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import peers
import pytest

from zeroclaw_host.egress.stream import CHUNK_BYTES, MAX_CHUNKS, MAX_WRITES, WritesWaiting
from zeroclaw_host.sandbox.frame import MAX_HOST_CALLS, Phase
from zeroclaw_host.sandbox.resources import ResourceTable
from zeroclaw_host.sandbox.values import OK, Err, Ok

Make = Callable[..., Any]
HOSTS = {"a.example": [["127.0.0.1"]]}
IDLE = Ok(("idle", None))


class Told:
    """A peer that does what a test tells it to, step by step."""

    def __init__(self) -> None:
        self.socket: socket.socket | None = None
        self._there = threading.Event()
        self._over = threading.Event()

    def __call__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._there.set()
        self._over.wait(peers.PATIENCE)

    def there(self) -> socket.socket:
        assert self._there.wait(peers.PATIENCE)
        assert self.socket is not None
        return self.socket

    def go(self) -> None:
        self._over.set()


@pytest.fixture
def told() -> Any:
    made = Told()
    yield made
    made.go()


@pytest.mark.req("PLG-013", "PLG-369")
def test_bytes_go_both_ways_in_plaintext(network: Make, guest: Make, peer: Make) -> None:
    net = network(HOSTS)
    plug = guest(net).connect(peer().port)
    assert plug.receive() == IDLE
    assert plug.pending() == 0
    assert plug.send(b"hello") == OK
    assert plug.arrive(5) == b"hello"
    assert plug.send(b"") == OK
    assert plug.receive() == IDLE
    assert net.held == 1
    plug.close()
    assert net.held == 0


@pytest.mark.req("PLG-369")
@pytest.mark.usefixtures("trusted")
def test_bytes_go_both_ways_under_tls(network: Make, guest: Make, peer: Make, secure: Make) -> None:
    server = peer(tls=secure())
    plug = guest(network(HOSTS)).connect(server.port, mode="direct-tls")
    data = bytes(range(256)) * (CHUNK_BYTES // 256)
    for _ in range(3):
        assert plug.send(data) == OK
    assert plug.arrive(3 * len(data)) == data * 3
    assert plug.call("upgrade-tls") == Err("invalid-state")


def test_a_send_takes_a_chunk_and_not_one_byte_more(network: Make, guest: Make, peer: Make) -> None:
    plug = guest(network(HOSTS)).connect(peer().port)
    assert CHUNK_BYTES == 16_384
    assert plug.send(bytes(CHUNK_BYTES + 1)) == Err("chunk-too-large")
    assert plug.send(bytes(CHUNK_BYTES)) == OK
    assert plug.arrive(CHUNK_BYTES) == bytes(CHUNK_BYTES)
    assert plug.receive() == IDLE


def test_a_read_gives_a_chunk_at_most(network: Make, guest: Make, peer: Make, told: Told) -> None:
    plug = guest(network(HOSTS)).connect(peer(told).port)
    told.there().sendall(bytes(3 * CHUNK_BYTES))
    got = 0
    while got < 3 * CHUNK_BYTES:
        word, data = plug.arrives()
        assert word == "data"
        assert 0 < len(data) <= CHUNK_BYTES
        got += len(data)


def test_a_peer_that_says_too_much_has_to_wait(network: Make, guest: Make, peer: Make) -> None:
    """At 64 chunks nothing more is read: the peer's own sends stand still until the guest takes one."""
    total = 24 * 1024 * 1024  # more than all buffers on the way hold
    sent: list[int] = []

    def flood(connection: socket.socket) -> None:
        data = bytes(65_536)
        for _ in range(total // len(data)):
            connection.sendall(data)
            sent.append(len(data))

    plug = guest(network(HOSTS)).connect(peer(flood).port)
    assert peers.eventually(lambda: plug.pending() == MAX_CHUNKS == 64)
    assert sum(sent) < total
    assert plug.arrive(total) == bytes(total)
    assert plug.arrives() == ("closed", "peer-closed")


def test_64_writes_wait_and_the_next_is_refused(network: Make, guest: Make, peer: Make, told: Told) -> None:
    """A peer that takes nothing: the guest's send waits as long as its call may, and a queue beyond that is refused."""
    net = network(HOSTS)
    one = guest(net)
    plug = one.connect(peer(told).port)
    stream = plug.resource._stream
    writes: list[Any] = []

    def fill() -> None:
        while True:
            writes.append(stream.send(bytes(CHUNK_BYTES)))

    with pytest.raises(WritesWaiting):
        fill()
    assert peers.eventually(lambda: len(stream._writes) in (MAX_WRITES, MAX_WRITES - 1))
    while len(stream._writes) < MAX_WRITES:
        writes.append(stream.send(bytes(CHUNK_BYTES)))
    assert MAX_WRITES == 64
    assert plug.send(b"x") == Err("backpressure")
    reader = threading.Thread(target=lambda: drain(told.there(), len(writes) * CHUNK_BYTES))
    reader.start()
    assert peers.eventually(lambda: all(write.sent for write in writes))
    assert plug.send(b"x") == OK
    reader.join(peers.PATIENCE)


def drain(connection: socket.socket, size: int) -> None:
    while size > 0:
        size -= len(connection.recv(65_536))


@pytest.mark.req("PAINS-3")
@pytest.mark.parametrize("end", ["cancel", "deadline"])
def test_a_send_to_a_peer_that_takes_nothing_ends_with_the_call(
    network: Make, guest: Make, peer: Make, told: Told, waiting: Make, end: str
) -> None:
    net = network(HOSTS)
    server = peer(told)
    with peers.nothing_left():
        one = guest(net)
        plug = one.connect(server.port)
        counts: list[int] = []

        def fill() -> None:
            while plug.send(bytes(CHUNK_BYTES)) == OK:
                counts.append(CHUNK_BYTES)

        call = waiting(fill)
        stands = Standstill(lambda: len(counts))
        assert peers.eventually(lambda: stands() and bool(plug.resource._stream._writes))
        with pytest.raises(one.end_by(end)) as caught:
            call.join()
        assert end == "cancel" or "waiting for a peer to take what is sent" in caught.value.message
        one.frame.table.close()
        assert net.held == 0
        told.go()


class Standstill:
    """Whether a count is as it was at the last look."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._before = -1

    def __call__(self) -> bool:
        before, self._before = self._before, self._count()
        return before == self._before


@pytest.mark.parametrize("mode", ["plaintext", "direct-tls"])
@pytest.mark.usefixtures("trusted")
def test_what_arrived_is_read_before_the_end(
    network: Make, guest: Make, peer: Make, secure: Make, mode: str
) -> None:
    server = peer(peers.say(b"bye"), tls=secure() if mode == "direct-tls" else None)
    net = network(HOSTS)
    plug = guest(net).connect(server.port, mode=mode)
    assert peers.eventually(lambda: plug.resource._stream.end is not None)
    assert net.held == 0  # the connection is over, whether or not the guest has looked
    assert plug.send(b"x") == Err("closed")
    assert plug.pending() == 1
    assert plug.receive() == Ok(("data", b"bye"))
    for _ in range(2):
        assert plug.receive() == Ok(("closed", "peer-closed"))
        assert plug.call("receive-negotiation") == Ok(("closed", "peer-closed"))
    assert plug.pending() == 0


def test_a_broken_connection_is_an_io_error_and_what_came_before_is_read(
    network: Make, guest: Make, peer: Make, told: Told
) -> None:
    plug = guest(network(HOSTS)).connect(peer(told).port)
    there = told.there()
    there.sendall(b"last words")
    assert peers.eventually(lambda: plug.pending() == 1)
    there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close with a reset
    there.close()
    assert peers.eventually(lambda: plug.resource._stream.end is not None)
    assert plug.send(b"x") == Err("closed")
    assert plug.receive() == Ok(("data", b"last words"))
    assert plug.receive() == Ok(("closed", "io-error"))


def test_what_a_peer_said_is_read_though_nothing_can_be_sent_to_it_any_more(
    network: Make, guest: Make, peer: Make, told: Told
) -> None:
    """The buffer is full, so the end was not read yet, when a send fails."""
    net = network(HOSTS)
    plug = guest(net).connect(peer(told).port)
    there = told.there()
    data, sent = memoryview(bytes(range(251)) * 50_000), 0
    there.setblocking(False)

    def full() -> bool:
        nonlocal sent
        with suppress(BlockingIOError):
            sent += there.send(data[sent:])
        return plug.pending() == MAX_CHUNKS

    assert peers.eventually(full)
    there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    there.close()
    assert peers.eventually(lambda: plug.send(b"x") == Err("closed"))
    assert plug.send(b"x") == Err("closed")
    got = b""
    while (event := plug.arrives())[0] == "data":
        got += event[1]
    assert event == ("closed", "io-error")
    assert len(got) > MAX_CHUNKS  # the buffer, and what the system had behind it
    assert got == data[: len(got)]
    assert net.held == 0


@pytest.mark.parametrize("mode", ["plaintext", "direct-tls"])
@pytest.mark.usefixtures("trusted")
def test_crumbs_wait_in_one_chunk_and_cost_one_look(
    network: Make, guest: Make, peer: Make, secure: Make, told: Told, mode: str
) -> None:
    """A call has 1000 looks: whatever pieces a network makes, a mebibyte that waits takes at most 128 of them."""
    plug = guest(network(HOSTS)).connect(
        peer(told, tls=secure() if mode == "direct-tls" else None).port, mode=mode
    )
    there, arrived = told.there(), plug.resource._stream._arrived
    for number in range(100):
        there.sendall(b"%02d" % number)
        assert peers.eventually(lambda number=number: sum(map(len, arrived)) == 2 * (number + 1))
    assert plug.pending() == 1
    there.sendall(bytes(CHUNK_BYTES))
    assert peers.eventually(lambda: sum(map(len, arrived)) == 200 + CHUNK_BYTES)
    assert plug.pending() == 2
    got = [plug.receive().value[1] for _ in range(2)]
    assert b"".join(got) == b"".join(b"%02d" % number for number in range(100)) + bytes(CHUNK_BYTES)
    assert max(map(len, got)) <= CHUNK_BYTES
    assert plug.receive() == IDLE


@pytest.mark.req("PLG-124")
def test_who_sees_the_end_may_connect_again(
    network: Make, guest: Make, peer: Make, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place in the count is free before the guest can know, or its next connection would be one too many."""
    net = network(HOSTS, max_connections=1)
    plug = guest(net).connect(peer(told).port)
    seen: list[object] = []
    give_back = net.slots.give_back

    def note(identity: object) -> None:
        seen.append(plug.resource._stream.end)
        give_back(identity)

    monkeypatch.setattr(net.slots, "give_back", note)
    told.go()
    assert plug.arrives() == ("closed", "peer-closed")
    assert seen == [None]


def test_a_connection_that_the_host_closes_says_so(network: Make, guest: Make, peer: Make) -> None:
    plug = guest(network(HOSTS)).connect(peer(peers.hold).port)
    plug.resource._stream._connection.close()
    assert plug.arrives() == ("closed", "host-closed")
    assert plug.send(b"x") == Err("closed")


def test_connections_without_number_leave_nothing(network: Make, guest: Make, peer: Make) -> None:
    net = network(HOSTS)
    server = peer()
    one = guest(net)
    with peers.nothing_left():
        for number in range(300):
            plug = one.connect(server.port, mode="start-tls" if number % 2 else "plaintext")
            if number % 3:
                plug.close()
            else:
                one.frame.table.close()
            assert net.held == 0


@pytest.mark.req("PLG-024")
def test_the_budget_of_host_calls_covers_all_but_close(network: Make, guest: Make, peer: Make) -> None:
    net = network(HOSTS)
    server = peer()
    one = guest(net)
    plug = one.connect(server.port, mode="start-tls")
    methods = ("send", "receive", "send-negotiation", "receive-negotiation", "pending", "upgrade-tls")
    one.frame.host_calls = MAX_HOST_CALLS - 1
    assert one.gated("[method]connection.pending", plug.resource) == Ok(0)  # the last one covered
    for number, method in enumerate(methods, 1):
        values = [b"x"] if method.startswith("send") else []
        assert one.gated(f"[method]connection.{method}", plug.resource, *values) == Err("host-unavailable")
        assert one.frame.host_calls == MAX_HOST_CALLS + number
    assert one.gated("connect", one.request(server.port)) == Err("host-unavailable")
    assert net.resolver.asked == ["a.example"]  # by the first connection
    calls = one.frame.host_calls
    assert one.gated("close", plug.resource) is None
    assert one.frame.host_calls == calls
    assert net.held == 0


def test_nothing_is_connected_outside_a_call_that_serves(network: Make, guest: Make, peer: Make) -> None:
    net = network(HOSTS)
    server = peer()
    for phase in (Phase.STANDARD, Phase.CHANNEL_SERVICE):  # a tool has no channel's phase
        assert guest(net, phase=phase).try_connect(server.port) == Err("host-unavailable")
    assert server.accepted == 0
    assert net.resolver.asked == []


def test_a_connection_lives_on_in_the_next_call_of_a_warm_instance(
    network: Make, guest: Make, peer: Make
) -> None:
    net = network(HOSTS)
    table = ResourceTable()
    first = guest(net, table=table)
    plug = first.connect(peer().port)
    assert plug.send(b"between calls") == OK
    plug.guest = guest(net, table=table, phase=Phase.STANDARD)  # even one in which nothing could be connected
    assert plug.arrive(13) == b"between calls"
    assert plug.send(b"again") == OK
    assert plug.arrive(5) == b"again"
    table.close()
    assert net.held == 0


def test_a_connection_that_no_handle_is_left_for_is_closed(
    network: Make, guest: Make, peer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zeroclaw_host.sandbox.resources.MAX_HANDLES", 1)
    net = network(HOSTS)
    one = guest(net)
    server = peer()
    one.connect(server.port)
    with pytest.raises(Exception, match="holds 1 host resources"):
        one.connect(server.port)
    assert net.held == 1
