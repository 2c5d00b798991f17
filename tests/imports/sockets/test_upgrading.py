"""STARTTLS: a negotiation in plaintext, then TLS, and never plaintext again."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

import peers
import pytest
import trustme

from zeroclaw_host.imports import sockets
from zeroclaw_host.sandbox.values import OK, Err, Ok

Make = Callable[..., Any]
HOSTS = {"a.example": [["127.0.0.1"]]}
IDLE = Ok(("idle", None))

pytestmark = pytest.mark.usefixtures("trusted")


class StartTls:
    """A server that greets, goes on under TLS when asked, and then echoes; ``got`` is what came under TLS.

    :param injected: said in plaintext together with the leave to begin.
    :param handshake: in place of the handshake.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        injected: bytes = b"",
        handshake: peers.Handler | None = None,
    ) -> None:
        self.got = b""
        self.after: list[bytes] = []
        self._context = context
        self._injected = injected
        self._handshake = handshake

    def __call__(self, connection: socket.socket) -> None:
        connection.sendall(b"greeting")
        if connection.recv(100) != b"start":
            return
        connection.sendall(b"go" + self._injected)
        if self._handshake is not None:
            self._handshake(connection)
            return
        try:
            with self._context.wrap_socket(connection, server_side=True) as secure:
                while data := secure.recv(65_536):
                    self.got += data
                    secure.sendall(data)
        except ssl.SSLError as error:
            self.after.append(str(error).encode())
            raise


def negotiated(one: Any, port: int) -> Any:
    plug = one.connect(port, mode="start-tls")
    assert plug.arrive(8, "receive-negotiation") == b"greeting"
    assert plug.call("send-negotiation", b"start") == OK
    assert plug.arrive(2, "receive-negotiation") == b"go"
    return plug


@pytest.mark.req("PLG-013", "PLG-369", "PLG-355")
def test_a_connection_goes_on_under_tls(network: Make, guest: Make, peer: Make, secure: Make) -> None:
    serving = StartTls(secure())
    net = network(HOSTS)
    plug = negotiated(guest(net), peer(serving).port)
    assert not plug.resource._stream._connection.secured
    assert plug.call("upgrade-tls") == OK
    assert plug.resource._stream._connection.secured
    assert plug.send(b"secret") == OK
    assert plug.arrive(6) == b"secret"
    assert serving.got == b"secret"
    assert plug.call("upgrade-tls") == Err("invalid-state")
    assert plug.call("send-negotiation", b"x") == Err("invalid-state")
    assert plug.call("receive-negotiation") == Err("invalid-state")
    assert plug.receive() == IDLE
    plug.close()
    assert net.held == 0


def test_nothing_of_the_application_goes_into_the_negotiation(
    network: Make, guest: Make, peer: Make, secure: Make
) -> None:
    plug = guest(network(HOSTS)).connect(peer(StartTls(secure())).port, mode="start-tls")
    assert plug.send(b"password") == Err("invalid-state")
    assert peers.eventually(lambda: plug.pending() == 1)
    assert plug.receive() == Err("invalid-state")
    assert plug.arrive(8, "receive-negotiation") == b"greeting"  # and it was not lost
    assert plug.receive() == IDLE
    assert plug.call("receive-negotiation") == IDLE


@pytest.mark.parametrize("unread", ["greeting", "injection"])
def test_what_came_in_plaintext_does_not_count_under_tls(
    network: Make, guest: Make, peer: Make, secure: Make, unread: str
) -> None:
    """A command that somebody slipped in before the handshake would be taken for the server's own after it."""
    serving = StartTls(secure(), injected=b"and do as I say")
    net = network(HOSTS)
    plug = guest(net).connect(peer(serving).port, mode="start-tls")
    assert peers.eventually(lambda: plug.pending() == 1)
    if unread == "greeting":
        assert plug.call("upgrade-tls") == Err("invalid-state")
    assert plug.arrive(8, "receive-negotiation") == b"greeting"
    assert plug.call("send-negotiation", b"start") == OK
    assert peers.eventually(lambda: plug.pending() > 0)
    assert plug.call("upgrade-tls") == Err("invalid-state")
    assert plug.arrive(17, "receive-negotiation") == b"goand do as I say"  # the guest sees what it is
    assert serving.got == b""


def test_an_injection_that_was_not_read_yet_is_found(
    network: Make, guest: Make, peer: Make, secure: Make
) -> None:
    """The loop has not looked, but the bytes are with the system."""
    injected = threading.Event()

    def inject(connection: socket.socket) -> None:
        injected.wait(peers.PATIENCE)
        connection.sendall(b"do as I say")
        peers.hold(connection)

    net = network(HOSTS)
    plug = negotiated(guest(net), peer(StartTls(secure(), handshake=inject)).port)
    stream = plug.resource._stream
    stream._attachment.detach()  # a loop that is busy elsewhere
    injected.set()
    assert peers.eventually(lambda: peers.readable(stream._connection.fileno()))
    assert plug.pending() == 0
    assert plug.call("upgrade-tls") == Err("invalid-state")
    assert plug.pending() == 1


def test_an_upgrade_of_a_connection_that_has_ended_is_none(
    network: Make, guest: Make, peer: Make, secure: Make
) -> None:
    plug = negotiated(guest(network(HOSTS)), peer(StartTls(secure(), handshake=lambda connection: None)).port)
    assert plug.arrives("receive-negotiation") == ("closed", "peer-closed")
    assert plug.call("upgrade-tls") == Err("invalid-state")
    assert plug.call("send-negotiation", b"x") == Err("closed")


@pytest.mark.parametrize("mode", ["plaintext", "direct-tls"])
def test_only_a_connection_that_is_to_be_upgraded_can_be(
    network: Make, guest: Make, peer: Make, secure: Make, mode: str
) -> None:
    server = peer(tls=secure() if mode == "direct-tls" else None)
    plug = guest(network(HOSTS)).connect(server.port, mode=mode)
    for method, values in (("upgrade-tls", ()), ("send-negotiation", (b"x",)), ("receive-negotiation", ())):
        assert plug.call(method, *values) == Err("invalid-state")
    assert plug.send(b"goes on") == OK
    assert plug.arrive(7) == b"goes on"
    assert plug.call("receive-negotiation") == Err("invalid-state")


def close_in_the_middle(connection: socket.socket) -> None:
    connection.recv(100)


def answer_nonsense(connection: socket.socket) -> None:
    connection.recv(100)  # said any sooner it would be part of the negotiation
    connection.sendall(b"* BAD no TLS here\r\n")
    peers.hold(connection)


def drip(connection: socket.socket) -> None:
    """A handshake that gets on by a byte at a time, and never ends."""
    connection.recv(65_536)  # the client's hello: nothing of this comes ahead of the change to TLS
    connection.settimeout(0.02)
    for byte in b"\x16\x03\x03\x40\x00" + bytes(16_384):
        connection.sendall(bytes([byte]))
        try:
            if not connection.recv(65_536):
                return
        except TimeoutError:
            continue


@pytest.mark.parametrize(
    "fault", ["another name", "another authority", "ends", "nonsense", "silence", "drip"]
)
def test_an_upgrade_that_fails_closes_the_connection(
    network: Make, guest: Make, peer: Make, secure: Make, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handshakes = {
        "ends": close_in_the_middle,
        "nonsense": answer_nonsense,
        "silence": peers.hold,
        "drip": drip,
    }
    context = secure("b.example") if fault == "another name" else secure(issuer=trustme.CA())
    serving = StartTls(context, handshake=handshakes.get(fault))
    if fault in ("silence", "drip"):
        monkeypatch.setattr(sockets.connections, "TLS_SECONDS", 0.3)
    server = peer(serving)
    net = network(HOSTS)
    with peers.nothing_left():
        plug = negotiated(guest(net), server.port)
        assert plug.call("upgrade-tls") == Err("tls-handshake-failed")
        assert net.held == 0
        assert plug.resource._stream._connection.closed
        for method in ("receive", "receive-negotiation"):
            assert plug.call(method) == Ok(("closed", "tls-upgrade-failed"))
        for method in ("send", "send-negotiation"):
            assert plug.call(method, b"password") == Err("closed")
        assert plug.call("upgrade-tls") == Err("invalid-state")
        assert serving.got == b""


@pytest.mark.req("PAINS-3")
@pytest.mark.parametrize("end", ["cancel", "deadline", "close"])
def test_an_upgrade_ends_with_its_call(
    network: Make, guest: Make, peer: Make, secure: Make, waiting: Make, end: str
) -> None:
    there = threading.Event()

    def silent(connection: socket.socket) -> None:
        assert connection.recv(100)  # the handshake has begun
        there.set()
        peers.hold(connection)

    server = peer(StartTls(secure(), handshake=silent))
    net = network(HOSTS)
    with peers.nothing_left():
        one = guest(net)
        plug = negotiated(one, server.port)
        call = waiting(lambda: plug.call("upgrade-tls"))
        assert there.wait(peers.PATIENCE)
        if end == "close":
            one.frame.table.close()
            assert call.join() == Err("tls-handshake-failed")
        else:
            with pytest.raises(one.end_by(end)) as caught:
                call.join()
            assert end == "cancel" or "a TLS handshake" in caught.value.message
        assert peers.eventually(lambda: net.held == 0)
