"""The daemon's end of a WebSocket: a request is looked at, and becomes one or is refused (D-35)."""

from __future__ import annotations

import logging
import ssl
from http import HTTPStatus

from anyio.abc import ByteStream
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from zeroclaw_daemon.clock import Clock
from zeroclaw_daemon.records import Pace, record
from zeroclaw_daemon.rpc.transport.base import Peer
from zeroclaw_daemon.rpc.transport.secure import served_over
from zeroclaw_daemon.rpc.transport.sockets import SocketStream
from zeroclaw_daemon.rpc.transport.upgrade import UpgradeRequest, UpgradeRules
from zeroclaw_daemon.rpc.transport.websocket import WebSocketLimits, WebSocketTransport

logger = logging.getLogger(__name__)


class ServedWebSocket(WebSocketTransport):
    """A connection that came by the gateway.

    :param rules: which requests become a WebSocket.
    :param tls: the certificate to show; None for plain text.
    :param strangers: what the records of those count against who get no WebSocket.
    """

    _protocol: ServerProtocol

    def __init__(
        self,
        stream: SocketStream,
        peer: Peer,
        *,
        rules: UpgradeRules,
        tls: ssl.SSLContext | None,
        clock: Clock,
        limits: WebSocketLimits,
        strangers: Pace,
    ) -> None:
        protocol = ServerProtocol(max_size=min(limits.stranger_bytes, limits.message_bytes))
        super().__init__(stream, peer, protocol, clock=clock, limits=limits)
        self._rules = rules
        self._tls = tls
        self._strangers = strangers

    async def _secured(self) -> ByteStream:
        return await served_over(self._socket, self._tls)

    async def _negotiate(self, stream: ByteStream) -> bool:
        events = await self._first_events(stream)
        match events:
            case [Request() as request]:
                self._answer(request)
            case _:
                # No request, or frames before it was answered: nobody may speak ahead of the decision.
                self._lost = bool(events)
        accepted = self._protocol.state is OPEN
        async with self._sending:
            await self._write_out()
        return accepted

    def _broke_off(self, error: Exception) -> None:
        if (words := self._strangers.spend("a connection ended before it was a WebSocket")) is not None:
            record(
                logger, logging.INFO, words,
                action="upgrade_failed", peer=self._peer.label, cause=type(error).__name__,
            )  # fmt: skip

    def _answer(self, request: Request) -> None:
        headers = request.headers
        refusal = self._rules.refusal(
            UpgradeRequest(request.path, headers.get_all("Origin"), headers.get_all("Host"))
        )
        if refusal is None:
            response = self._protocol.accept(request)
        else:
            response = self._protocol.reject(refusal.status, f"{refusal.words}\n")
        self._protocol.send_response(response)
        if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            return
        if (words := self._strangers.spend("a request did not become a WebSocket")) is not None:
            record(
                logger, logging.WARNING, words,
                action="upgrade_refused", category="audit", outcome="failure", peer=self._peer.label,
                reason=refusal.reason if refusal is not None else "no_websocket", status=response.status_code,
            )  # fmt: skip
