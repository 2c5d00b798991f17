"""What an instance asks of the network authority."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import Permission


class Transport(StrEnum):
    """The interface a request came through."""

    HTTP = "http"
    WEBSOCKET = "websocket"
    SOCKETS = "sockets"

    @property
    def permission(self) -> Permission:
        """The manifest permission that stands for the surface."""
        return _PERMISSION[self]


_PERMISSION: Final = {
    Transport.HTTP: Permission.HTTP_CLIENT,
    Transport.WEBSOCKET: Permission.WEBSOCKET_CLIENT,
    Transport.SOCKETS: Permission.SOCKET_CLIENT,
}


class TlsMode(Enum):
    """Whether a connection is encrypted."""

    NONE = "none"
    DIRECT = "direct"
    """From the first byte."""
    LATER = "later"
    """After a negotiation in plaintext, as STARTTLS does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressRequest:
    """A connection that an instance wants.

    :param host: as the guest named it.
    :param permitted: whether the transport's permission is in force for the instance.
    """

    identity: InstanceIdentity
    transport: Transport
    host: str
    port: int
    tls: TlsMode = TlsMode.NONE
    tls_profile: str | None = None
    permitted: bool = False

    @classmethod
    def of(
        cls,
        scope: InstanceScope,
        transport: Transport,
        host: str,
        port: int,
        *,
        tls: TlsMode = TlsMode.NONE,
        tls_profile: str | None = None,
    ) -> EgressRequest:
        """A request of this instance."""
        return cls(
            identity=scope.identity,
            transport=transport,
            host=host,
            port=port,
            tls=tls,
            tls_profile=tls_profile,
            permitted=scope.grants_permission(transport.permission),
        )
