"""``zeroclaw:plugin/sockets``: TCP, TLS and STARTTLS to hosts that the operator granted (PLG-013, PLG-369).

The network authority decides about every connection and makes it. Reading and writing go on beside the guest, on the I/O
loop: a guest looks, and waits for nothing but its own sends, upgrades and connects, each bounded by its call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.failures import ConnectionClosed
from zeroclaw_host.egress.request import EgressRequest, TlsMode, Transport
from zeroclaw_host.errors import PluginError, ZeroclawError
from zeroclaw_host.imports.dialling import dial
from zeroclaw_host.imports.sockets import connection as connections
from zeroclaw_host.imports.sockets.connection import GuestConnection, Phase
from zeroclaw_host.imports.sockets.failures import CONNECT_FAILED, HOST_UNAVAILABLE, connect_error
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction, HostInterface, interface
from zeroclaw_host.sandbox.values import Err, Ok

CONNECT_SECONDS: Final = 30.0
"""What finding and connecting to a host may take, besides the time of the call. A TLS handshake has as much again."""


def _connect(frame: CallFrame, request: Mapping[str, object]) -> Ok | Err:
    if not frame.serves:
        return HOST_UNAVAILABLE
    mode = request["mode"]
    wanted = EgressRequest.of(
        frame.scope,
        Transport.SOCKETS,
        cast("str", request["host"]),
        cast("int", request["port"]),
        # The handshake has a time of its own, so it is not part of connecting: see _secure_at_once.
        tls=TlsMode.NONE if mode == "plaintext" else TlsMode.LATER,
        tls_profile=cast("str | None", request["tls-profile"]),
    )
    establish = _secure_at_once if mode == "direct-tls" else None
    try:
        opened = dial(frame, wanted, CONNECT_SECONDS, establish=establish)
    except PluginError:  # of the call itself, which ends
        raise
    except ZeroclawError as error:
        return connect_error(error)
    try:
        return Ok(GuestConnection(opened, start_tls=mode == "start-tls"))
    except ConnectionClosed:
        return CONNECT_FAILED
    except OSError:
        return HOST_UNAVAILABLE


def _secure_at_once(connection: Connection, deadline: Deadline) -> None:
    connection.start_tls(Deadline(connections.TLS_SECONDS, waker=deadline.waker))


def _send(frame: CallFrame, connection: GuestConnection, data: bytes) -> Ok | Err:
    return connection.send(frame, data, Phase.APPLICATION)


def _receive(frame: CallFrame, connection: GuestConnection) -> Ok | Err:
    return connection.receive(Phase.APPLICATION)


def _send_negotiation(frame: CallFrame, connection: GuestConnection, data: bytes) -> Ok | Err:
    return connection.send(frame, data, Phase.NEGOTIATION)


def _receive_negotiation(frame: CallFrame, connection: GuestConnection) -> Ok | Err:
    return connection.receive(Phase.NEGOTIATION)


def _pending(frame: CallFrame, connection: GuestConnection) -> Ok | Err:
    return Ok(connection.pending())


def _upgrade_tls(frame: CallFrame, connection: GuestConnection) -> Ok | Err:
    return connection.upgrade(frame)


def _close(frame: CallFrame, connection: GuestConnection) -> None:
    connection.close()


INTERFACE: Final[HostInterface] = interface(
    "zeroclaw:plugin/sockets",
    *(
        HostFunction(name, function, charged=True, exhausted=HOST_UNAVAILABLE)
        for name, function in (
            ("connect", _connect),
            ("[method]connection.send", _send),
            ("[method]connection.receive", _receive),
            ("[method]connection.send-negotiation", _send_negotiation),
            ("[method]connection.receive-negotiation", _receive_negotiation),
            ("[method]connection.pending", _pending),
            ("[method]connection.upgrade-tls", _upgrade_tls),
        )
    ),
    HostFunction("close", _close),
    resources={"connection": GuestConnection},
)
