"""Where clients of other machines connect: TCP, with TLS where a certificate is configured (D-35)."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Generator
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, cast

import anyio
import anyio.to_thread

from zeroclaw_daemon.clock import Clock, SystemClock
from zeroclaw_daemon.records import Pace
from zeroclaw_daemon.rpc.transport.base import Peer, Transport
from zeroclaw_daemon.rpc.transport.served import ServedWebSocket
from zeroclaw_daemon.rpc.transport.sockets import SocketStream, accepted
from zeroclaw_daemon.rpc.transport.upgrade import PATH, UpgradeRules
from zeroclaw_daemon.rpc.transport.websocket import WebSocketLimits
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, ZeroclawError

_LOCALHOST: Final = "127.0.0.1"


class GatewayUnavailable(ZeroclawError):
    """The gateway cannot listen. ``details`` holds ``host`` and ``port``, and ``errno`` where the system refused."""

    code = "gateway_unavailable"
    kind = Kind.UNAVAILABLE


class GatewayCertificateUnusable(ZeroclawError):
    """The gateway's certificate or key cannot be used. ``details`` holds ``certificate`` and ``private_key``, their paths."""

    code = "gateway_certificate_unusable"
    kind = Kind.INVALID


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Where and how to listen. ``certificate`` and ``private_key`` are paths of PEM files, both or neither."""

    host: str = _LOCALHOST
    port: int = 0
    certificate: str | None = None
    private_key: str | None = None
    allowed_origins: tuple[str, ...] = ()

    @property
    def secured(self) -> bool:
        """Whether TLS is wanted."""
        return self.certificate is not None or self.private_key is not None


class WssListener:
    """A TCP port that WebSockets come by."""

    def __init__(
        self, settings: GatewaySettings, *, clock: Clock | None = None, limits: WebSocketLimits | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._limits = limits or WebSocketLimits()
        self._strangers = Pace(self._clock.now)
        self._rules = UpgradeRules(frozenset(settings.allowed_origins), not settings.secured)
        self._tls: ssl.SSLContext | None = None
        self._socket: socket.socket | None = None
        self._port = settings.port

    @property
    def endpoint(self) -> str:
        """The address, as a client is given it."""
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        scheme = "wss" if self._settings.secured else "ws"
        return f"{scheme}://{host}:{self._port}{PATH}"

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Hold the port.

        :raises GatewayUnavailable: it cannot be had.
        :raises GatewayCertificateUnusable: the certificate, or its key, cannot be read or do not belong together.
        """
        return self._opened()

    async def accept(self) -> Transport:
        """The next connection; it is negotiated by whoever reads from it first."""
        assert self._socket is not None, "the listener is not open"
        connected, address = await accepted(self._socket)
        with suppress(OSError):  # it is gone already, which is seen when it is read from
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return ServedWebSocket(
            SocketStream(connected, whole=True),
            Peer(_label(address), local=False),
            rules=self._rules,
            tls=self._tls,
            clock=self._clock,
            limits=self._limits,
            strangers=self._strangers,
        )

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[None]:
        self._tls = await anyio.to_thread.run_sync(_context, self._settings)
        with self._listening() as self._socket:
            self._port = self._socket.getsockname()[1]
            try:
                yield
            finally:
                anyio.notify_closing(self._socket)

    @contextmanager
    def _listening(self) -> Generator[socket.socket]:
        address = ip_address(_LOCALHOST if self._settings.host == "localhost" else self._settings.host)
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        with ExitStack() as held:
            try:
                listening = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
                listening.setblocking(False)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind((str(address), self._settings.port))
                listening.listen(socket.SOMAXCONN)
            except OSError as error:
                raise self._unavailable(error) from error
            yield listening

    def _unavailable(self, error: OSError) -> GatewayUnavailable:
        taken = error.errno == errno.EADDRINUSE
        return GatewayUnavailable(
            f"the gateway cannot listen on port {self._settings.port} of {self._settings.host}: "
            f"{os.strerror(error.errno or 0)}",
            remedy=Remedy(RemedyAction.MEND_CONFIG, {"path": "gateway.port" if taken else "gateway.host"}),
            details={"host": self._settings.host, "port": self._settings.port, "errno": error.errno},
        )


def _context(settings: GatewaySettings) -> ssl.SSLContext | None:
    if settings.certificate is None and settings.private_key is None:
        return None
    if settings.certificate is None or settings.private_key is None:
        missing = "certificate" if settings.certificate is None else "private_key"
        raise GatewayCertificateUnusable(
            "the gateway has one of certificate and key, and needs both for TLS or none for plain text",
            remedy=Remedy(RemedyAction.SET_CONFIG, {"path": f"gateway.{missing}"}),
            details={"certificate": settings.certificate, "private_key": settings.private_key},
        )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # Nobody is there to be asked for a password: a key that has one is a key that cannot be read.
        context.load_cert_chain(settings.certificate, settings.private_key, password=lambda: b"")
    except (OSError, ValueError) as error:  # what TLS objects to is an OSError too
        cause = (
            error.strerror if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else error
        )
        raise GatewayCertificateUnusable(
            f"the gateway's certificate {settings.certificate} and key {settings.private_key} cannot be used: {cause}",
            remedy=Remedy(RemedyAction.MEND_CONFIG, {"path": "gateway.certificate"}),
            details={"certificate": settings.certificate, "private_key": settings.private_key},
        ) from error
    return context


def _label(address: object) -> str:
    host, port = cast("tuple[str, int]", address)[:2]
    return f"tcp:[{host}]:{port}" if ":" in host else f"tcp:{host}:{port}"
