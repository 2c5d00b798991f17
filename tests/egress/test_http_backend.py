"""The dialer under an HTTP client: one destination, streamed bodies, and the slot free when the response ends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import httpcore
import peers
import pytest

from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.failures import (
    ConnectFailed,
    DialCancelled,
    EgressRefused,
    ResolutionFailed,
    Stage,
    TimeIsUp,
    TlsFailed,
)
from zeroclaw_host.egress.http_backend import PinnedBackend, pinned_pool
from zeroclaw_host.egress.request import TlsMode

Make = Callable[..., Any]


def soon() -> Deadline:
    return Deadline(peers.PATIENCE)


def read_head(connection: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        data = connection.recv(65_536)
        if not data:
            break
        head += data
    return head


def answer(body: bytes) -> peers.Handler:
    def handle(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        peers.hold(connection)

    return handle


@pytest.mark.req("PLG-124", "PLG-353")
@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_response_is_read_and_its_slot_is_free_when_it_ends(
    ask: Make, network: Make, peer: Make, secure: Make, scheme: str
) -> None:
    body = bytes(range(256)) * 4096
    server = peer(answer(body), tls=secure() if scheme == "https" else None)
    net = network({"a.example": [["127.0.0.1"]]})
    request = ask("a.example", server.port, tls=TlsMode.DIRECT if scheme == "https" else TlsMode.NONE)
    backend = PinnedBackend(net.dialer, request, soon())
    url = f"{scheme}://a.example:{server.port}/x"
    with pinned_pool(backend) as pool, pool.stream("GET", url) as response:
        assert net.slots.held(request.identity) == 1
        assert response.status == 200
        assert b"".join(response.iter_stream()) == body
        response.close()
        # Without another request coming, the connection is not kept.
        assert net.slots.held(request.identity) == 0
    assert backend.error is None


@pytest.mark.req("PLG-124")
def test_a_response_that_is_dropped_frees_its_slot(ask: Make, network: Make, peer: Make) -> None:
    server = peer(answer(bytes(2**24)))
    net = network({"a.example": [["127.0.0.1"]]})
    request = ask("a.example", server.port, tls=TlsMode.NONE)
    with peers.nothing_left():
        backend = PinnedBackend(net.dialer, request, soon())
        with pinned_pool(backend) as pool, pool.stream("GET", f"http://a.example:{server.port}/") as response:
            assert response.status == 200
        assert net.slots.held(request.identity) == 0


def test_a_client_that_wants_another_host_or_a_second_connection_gets_none(
    ask: Make, network: Make, peer: Make
) -> None:
    server = peer(answer(b""))
    net = network({"a.example": [["127.0.0.1"]], "b.example": [["127.0.0.1"]]})
    request = ask("a.example", server.port, tls=TlsMode.NONE)
    for host, port in (
        ("b.example", server.port),
        ("a.example", server.port + 1),
        ("127.0.0.1", server.port),
    ):
        with pytest.raises(httpcore.ConnectError):
            PinnedBackend(net.dialer, request, soon()).connect_tcp(host, port)
    backend = PinnedBackend(net.dialer, request, soon())
    backend.connect_tcp("A.example.", server.port).close()
    with pytest.raises(httpcore.ConnectError):
        backend.connect_tcp("a.example", server.port)
    with pytest.raises(httpcore.ConnectError):
        backend.connect_unix_socket("/run/anything")


def test_a_request_that_was_authorised_in_plaintext_does_not_become_one_under_tls(
    ask: Make, network: Make, peer: Make
) -> None:
    server = peer()
    net = network({"a.example": [["127.0.0.1"]]})
    backend = PinnedBackend(net.dialer, ask("a.example", server.port, tls=TlsMode.NONE), soon())
    with pinned_pool(backend) as pool, pytest.raises(httpcore.ConnectError):
        pool.request("GET", f"https://a.example:{server.port}/")
    assert isinstance(backend.error, TlsFailed)


@pytest.mark.parametrize(
    ("host", "error"),
    [("other.example", EgressRefused), ("empty.example", ResolutionFailed), ("a.example", ConnectFailed)],
)
def test_the_error_behind_the_clients_error_is_kept(
    ask: Make, network: Make, host: str, error: type[Exception]
) -> None:
    net = network({"a.example": [["127.0.0.1"]], "empty.example": [[]]})
    port = peers.unused_port()
    backend = PinnedBackend(net.dialer, ask(host, port, tls=TlsMode.NONE), soon())
    with pinned_pool(backend) as pool, pytest.raises(httpcore.ConnectError):
        pool.request("GET", f"http://{host}:{port}/")
    assert isinstance(backend.error, error)


@pytest.mark.parametrize("where", ["backend", "client"])
def test_a_connect_time_covers_everything_until_the_connection_stands(
    ask: Make, network: Make, peer: Make, where: str
) -> None:
    server = peer(peers.hold)  # accepts, and says nothing in the handshake
    net = network({"a.example": [["127.0.0.1"]]})
    net.anchors.context()
    how: dict[str, Any] = {"connect_seconds": 0.2} if where == "backend" else {}
    backend = PinnedBackend(net.dialer, ask("a.example", server.port), soon(), **how)
    with pinned_pool(backend) as pool, pytest.raises(httpcore.ConnectTimeout):
        pool.request(
            "GET",
            f"https://a.example:{server.port}/",
            extensions={"timeout": {"connect": 0.2}} if where == "client" else {},
        )
    assert isinstance(backend.error, TimeIsUp)


@pytest.mark.parametrize("how", ["deadline", "read timeout", "cancel", "close"])
def test_a_response_that_never_begins_ends(ask: Make, network: Make, peer: Make, how: str) -> None:
    deadline = Deadline(0.3 if how == "deadline" else peers.PATIENCE)
    net = network({"a.example": [["127.0.0.1"]]})
    backends: list[PinnedBackend] = []

    def stall(connection: socket.socket) -> None:
        read_head(connection)
        if how == "cancel":
            deadline.cancel()
        if how == "close":
            opened = backends[0].connection
            assert opened is not None
            opened.close()
        peers.hold(connection)

    server = peer(stall)
    request = ask("a.example", server.port, tls=TlsMode.NONE)
    backends.append(PinnedBackend(net.dialer, request, deadline))
    timeouts = {"read": 0.2} if how == "read timeout" else {}
    times_out = how in ("deadline", "read timeout")
    expected = (httpcore.ReadTimeout, httpcore.ConnectTimeout) if times_out else httpcore.ReadError
    with pinned_pool(backends[0]) as pool, pytest.raises(expected):
        pool.request("GET", f"http://a.example:{server.port}/", extensions={"timeout": timeouts})
    error = backends[0].error
    if how == "cancel":
        assert isinstance(error, DialCancelled)
        assert error.stage is Stage.RECEIVE
    assert net.slots.held(request.identity) == 0


def test_bytes_that_drip_do_not_outlive_the_deadline(ask: Make, network: Make, peer: Make) -> None:
    """Each read succeeds within its own timeout; the deadline is over all of them (PAINS 3)."""

    def drip(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
        while True:
            connection.sendall(b"x")

    server = peer(drip)
    net = network({"a.example": [["127.0.0.1"]]})
    request = ask("a.example", server.port, tls=TlsMode.NONE)
    backend = PinnedBackend(net.dialer, request, Deadline(0.5))
    with pinned_pool(backend) as pool, pytest.raises((httpcore.ReadTimeout, httpcore.ConnectTimeout)):
        pool.request("GET", f"http://a.example:{server.port}/", extensions={"timeout": {"read": 30.0}})
    assert isinstance(backend.error, TimeIsUp)


def test_a_body_is_sent_and_a_peer_that_takes_none_of_it_times_out(
    ask: Make, network: Make, peer: Make
) -> None:
    stop = threading.Event()
    server = peer(lambda connection: stop.wait(peers.PATIENCE))
    net = network({"a.example": [["127.0.0.1"]]})
    request = ask("a.example", server.port, tls=TlsMode.NONE)
    backend = PinnedBackend(net.dialer, request, Deadline(1.0))
    with pinned_pool(backend) as pool, pytest.raises((httpcore.WriteTimeout, httpcore.ConnectTimeout)):
        pool.request("POST", f"http://a.example:{server.port}/", content=bytes(2**26))
    stop.set()
    assert isinstance(backend.error, TimeIsUp)
    assert net.slots.held(request.identity) == 0
