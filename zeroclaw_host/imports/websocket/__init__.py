"""``zeroclaw:plugin/websocket``: WebSocket clients to granted hosts (PLG-369).

The network authority makes the connection; the ``websockets`` library speaks the protocol; this room is what lies between
them and a guest. Only ``connect`` waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zeroclaw_host.egress.request import EgressRequest, TlsMode, Transport
from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.imports.dialling import dial
from zeroclaw_host.imports.websocket.closing import CloseFrame
from zeroclaw_host.imports.websocket.connection import WebSocketConnection
from zeroclaw_host.imports.websocket.failures import word_of
from zeroclaw_host.imports.websocket.messages import Message
from zeroclaw_host.imports.websocket.options import ConnectOptions
from zeroclaw_host.imports.websocket.refusal import Refused
from zeroclaw_host.imports.websocket.upgrade import Upgrade
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction, HostInterface, interface
from zeroclaw_host.sandbox.values import OK, Err, Ok

CONNECT_SECONDS: Final = 30.0
"""For the policy, the lookup, every address, TLS and the upgrade together."""

_UNAVAILABLE: Final = Err("unavailable")


def _connect(frame: CallFrame, record: Mapping[str, object]) -> Ok | Err:
    if not frame.serves:
        return _UNAVAILABLE
    if not frame.scope.grants_permission(Transport.WEBSOCKET.permission):
        return Err("access-denied")
    try:
        options = ConnectOptions.read(record)
    except Refused as refused:
        return Err(refused.word)
    upgrade = Upgrade(options)
    try:
        opened = dial(frame, _request(frame, options), CONNECT_SECONDS, establish=upgrade)
    except ZeroclawError as error:
        word = word_of(error)
        if word is None:  # of the call itself, which ends
            raise
        return Err(word)
    connection = WebSocketConnection(opened, upgrade.protocol, upgrade.rest)
    try:
        connection.start()
    except OSError:
        return _UNAVAILABLE
    return Ok(connection)


def _request(frame: CallFrame, options: ConnectOptions) -> EgressRequest:
    return EgressRequest.of(
        frame.scope,
        Transport.WEBSOCKET,
        options.host,
        options.port,
        tls=TlsMode.DIRECT if options.secure else TlsMode.NONE,
        tls_profile=options.tls_profile,
    )


def _send(frame: CallFrame, connection: WebSocketConnection, message: Message) -> Ok | Err:
    try:
        connection.send(*message)
    except Refused as refused:
        return Err(refused.word)
    return OK


def _receive(frame: CallFrame, connection: WebSocketConnection) -> Ok | Err:
    try:
        return Ok(connection.receive())
    except Refused as refused:
        return Err(refused.word)


def _close(
    frame: CallFrame, connection: WebSocketConnection, record: Mapping[str, object] | None
) -> Ok | Err:
    try:
        connection.finish(None if record is None else CloseFrame.read(record))
    except Refused as refused:
        return Err(refused.word)
    return OK


def _negotiated_subprotocol(frame: CallFrame, connection: WebSocketConnection) -> Ok | Err:
    return Ok(connection.subprotocol)


INTERFACE: Final[HostInterface] = interface(
    "zeroclaw:plugin/websocket",
    *(
        HostFunction(name, function, charged=True, exhausted=_UNAVAILABLE)
        for name, function in (
            ("connect", _connect),
            ("[method]connection.send", _send),
            ("[method]connection.receive", _receive),
            ("[method]connection.close", _close),
            ("[method]connection.negotiated-subprotocol", _negotiated_subprotocol),
        )
    ),
    resources={"connection": WebSocketConnection},
)
