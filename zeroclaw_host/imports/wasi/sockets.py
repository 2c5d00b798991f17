"""``wasi:sockets``: every socket and every lookup is refused (PLG-015).

A plugin's connections go through interfaces that ask the egress policy; these do not.
"""

from __future__ import annotations

from typing import Final

from zeroclaw_host.imports.wasi.refusal import refusing
from zeroclaw_host.imports.wasi.streams import IoError
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction, interface

REFUSAL: Final = "access-denied"


class Network:
    """The token that stands for a network. It opens nothing."""


class TcpSocket:
    """A TCP socket. There is never one."""


class UdpSocket:
    """A UDP socket. There is never one."""


class IncomingDatagramStream:
    """Arriving datagrams. There are never any."""


class OutgoingDatagramStream:
    """Leaving datagrams. There are never any."""


class ResolveAddressStream:
    """Found addresses. There are never any."""


def _instance_network(frame: CallFrame) -> Network:
    return Network()


def _network_error_code(frame: CallFrame, error: IoError) -> None:
    return None  # no stream of this host comes from a socket of this interface


NETWORK: Final = interface(
    "wasi:sockets/network",
    HostFunction("network-error-code", _network_error_code),
    resources={"network": Network},
)

INSTANCE_NETWORK: Final = interface(
    "wasi:sockets/instance-network", HostFunction("instance-network", _instance_network)
)

TCP: Final = refusing("wasi:sockets/tcp", error=REFUSAL, resources={"tcp-socket": TcpSocket})
TCP_CREATE_SOCKET: Final = refusing("wasi:sockets/tcp-create-socket", error=REFUSAL)

UDP: Final = refusing(
    "wasi:sockets/udp",
    error=REFUSAL,
    resources={
        "udp-socket": UdpSocket,
        "incoming-datagram-stream": IncomingDatagramStream,
        "outgoing-datagram-stream": OutgoingDatagramStream,
    },
)
UDP_CREATE_SOCKET: Final = refusing("wasi:sockets/udp-create-socket", error=REFUSAL)

IP_NAME_LOOKUP: Final = refusing(
    "wasi:sockets/ip-name-lookup",
    error=REFUSAL,
    resources={"resolve-address-stream": ResolveAddressStream},
)
