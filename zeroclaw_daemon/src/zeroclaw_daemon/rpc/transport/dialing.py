"""Our end of a WebSocket: reaching the daemon of another machine by its gateway (D-35)."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from anyio.abc import ByteStream
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus, InvalidURI
from websockets.protocol import OPEN
from websockets.uri import WebSocketURI, parse_uri

from zeroclaw_daemon.clock import Clock, SystemClock
from zeroclaw_daemon.rpc.transport.base import Peer, Transport
from zeroclaw_daemon.rpc.transport.secure import dialed_over
from zeroclaw_daemon.rpc.transport.sockets import SocketStream
from zeroclaw_daemon.rpc.transport.upgrade import PATH, is_local_name
from zeroclaw_daemon.rpc.transport.websocket import WebSocketLimits, WebSocketTransport
from zeroclaw_host.errors import Kind, ZeroclawError

CONNECT_SECONDS: Final = 30.0
"""For a gateway to be reached and to take a WebSocket."""


class GatewayAddressInvalid(ZeroclawError):
    """The address is none of a gateway, or one that nothing secret may be sent to. ``details`` holds ``fault``."""

    code = "gateway_address_invalid"
    kind = Kind.INVALID


class GatewayUnreachable(ZeroclawError):
    """No daemon answers at the address of its gateway. ``details`` holds ``url``."""

    code = "gateway_unreachable"
    kind = Kind.UNAVAILABLE


class GatewayNotTrusted(ZeroclawError):
    """Whoever answers at the address does not prove to be it. ``details`` holds ``url``."""

    code = "gateway_not_trusted"
    kind = Kind.REFUSED


class AuthorityFileUnusable(ZeroclawError):
    """The file of certificates to trust cannot be read. ``details`` holds ``path``."""

    code = "authority_file_unusable"
    kind = Kind.INVALID


@dataclass(frozen=True, slots=True)
class Place:
    """A gateway's address, taken apart."""

    url: str
    uri: WebSocketURI

    @classmethod
    def of(cls, url: str) -> Place:
        """:raises GatewayAddressInvalid: see there. The address is not repeated, for it may hold what it should not."""
        try:
            given = parse_uri(url)
        except (InvalidURI, ValueError):
            raise _invalid("form", "it has the form wss://HOST:PORT") from None
        if not given.host.strip("."):
            raise _invalid("form", "it names no host")
        if given.username is not None or given.query:
            # Addresses are written into histories and logs, so nothing secret may ever be in one.
            raise _invalid("parameters", "it takes no user and no parameters; a token is given apart from it")
        if given.path not in ("", "/", PATH):
            raise _invalid("path", f"its path is {PATH}")
        if not given.secure and not is_local_name(_bracketed(given.host)):
            raise _invalid("plain", "without TLS it is one of this machine; wss:// reaches others")
        uri = WebSocketURI(given.secure, given.host, given.port, PATH, "", None, None)
        scheme = "wss" if uri.secure else "ws"
        return cls(f"{scheme}://{_bracketed(uri.host)}:{uri.port}{PATH}", uri)


class DialedWebSocket(WebSocketTransport):
    """A connection to a gateway. Made by :func:`connect`."""

    _protocol: ClientProtocol

    def __init__(
        self,
        stream: SocketStream,
        place: Place,
        *,
        tls: ssl.SSLContext | None,
        clock: Clock,
        limits: WebSocketLimits,
    ) -> None:
        protocol = ClientProtocol(place.uri, max_size=limits.message_bytes)
        super().__init__(stream, Peer(place.url, local=False), protocol, clock=clock, limits=limits)
        self._place = place
        self._tls = tls

    async def open(self) -> None:
        """Negotiate.

        :raises GatewayNotTrusted: see there.
        :raises GatewayUnreachable: it is no gateway, or left.
        """
        if await self._opened():
            return
        refused = self._protocol.handshake_exc
        if isinstance(refused, InvalidStatus):
            raise _unreachable(self._place, f"it answered with the status {refused.response.status_code}")
        raise _unreachable(self._place, "it is no gateway" if refused is not None else "it hung up")

    async def _secured(self) -> ByteStream:
        return await dialed_over(self._socket, self._tls, self._place.uri.host)

    async def _negotiate(self, stream: ByteStream) -> bool:
        self._protocol.send_request(self._protocol.connect())
        async with self._sending:
            await self._write_out()
        events = await self._first_events(stream)
        self._keep(events[1:])
        return self._protocol.state is OPEN

    def _broke_off(self, error: Exception) -> None:
        if isinstance(error, ssl.SSLCertVerificationError):
            raise GatewayNotTrusted(
                f"{self._place.url} is not trusted: {error.verify_message}", details={"url": self._place.url}
            ) from error
        if isinstance(error, ssl.SSLError):
            raise _unreachable(self._place, "it speaks no TLS that is known here") from error


async def connect(
    url: str,
    *,
    authority: Path | None = None,
    clock: Clock | None = None,
    limits: WebSocketLimits | None = None,
    seconds: float = CONNECT_SECONDS,
) -> Transport:
    """Connect to the gateway of a daemon, which then wants a token of whoever introduces itself.

    :param url: its address, as its ``status`` names it: ``wss://HOST:PORT``, or ``ws://`` for one of this machine.
    :param authority: a PEM file with the certificates to trust; left out, those that the system trusts.
    :param seconds: how long it may take.
    :raises GatewayAddressInvalid: the address is none.
    :raises AuthorityFileUnusable: the file cannot be used.
    :raises GatewayNotTrusted: its certificate is not trusted, or is another host's.
    :raises GatewayUnreachable: nothing answers there, or what answers is no gateway.
    """
    place = Place.of(url)
    clock = clock or SystemClock()
    tls = await anyio.to_thread.run_sync(_trusting, authority) if place.uri.secure else None
    with clock.move_on_after(seconds), ExitStack() as undo:
        stream = SocketStream(await _dialed(place), whole=True)
        transport = DialedWebSocket(stream, place, tls=tls, clock=clock, limits=limits or WebSocketLimits())
        undo.callback(transport.close)
        await transport.open()
        undo.pop_all()
        return transport
    raise _unreachable(place, f"it did not answer within {seconds:g} seconds")


async def _dialed(place: Place) -> socket.socket:
    """A connection to one of the host's addresses, tried in their order."""
    try:
        found = await anyio.getaddrinfo(place.uri.host, place.uri.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # a name that is none, or that nobody has
        raise _unreachable(place, "there is no such host") from error
    outcome = errno.EADDRNOTAVAIL
    for family, kind, protocol, _, address in found:
        with ExitStack() as undo:
            try:
                dialed = undo.enter_context(socket.socket(family, kind, protocol))
                dialed.setblocking(False)
                outcome = dialed.connect_ex(address)
                if outcome == errno.EINPROGRESS:
                    await anyio.wait_writable(dialed)
                    outcome = dialed.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if outcome == 0:
                    dialed.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    undo.pop_all()
                    return dialed
            except OSError as error:
                outcome = error.errno or outcome
    raise _unreachable(place, os.strerror(outcome))


def _trusting(authority: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=authority)
    except (ssl.SSLError, ValueError) as error:
        raise _unusable(authority, "it holds none") from error
    except OSError as error:
        raise _unusable(authority, os.strerror(error.errno or 0)) from error


def _unusable(authority: Path | None, why: str) -> AuthorityFileUnusable:
    return AuthorityFileUnusable(
        f"the certificates to trust cannot be read from {authority}: {why}", details={"path": str(authority)}
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _invalid(fault: str, words: str) -> GatewayAddressInvalid:
    return GatewayAddressInvalid(f"this is no address of a gateway: {words}", details={"fault": fault})


def _unreachable(place: Place, why: str) -> GatewayUnreachable:
    return GatewayUnreachable(f"no daemon answers at {place.url}: {why}", details={"url": place.url})
