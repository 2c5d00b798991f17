"""What a plugin is told of a connection that could not be made: one word of its interface for each failure.

The host's log has the rest. Of what the policy knows, the guest learns no more than that it was denied.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from zeroclaw_host.egress.decision import Reason
from zeroclaw_host.egress.failures import (
    ConnectionLimit,
    EgressRefused,
    ResolutionFailed,
    Stage,
    TimeIsUp,
    TlsConfigurationFailed,
    TlsFailed,
)
from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.sandbox.values import Err

ACCESS_DENIED: Final = Err("access-denied")
INVALID_REQUEST: Final = Err("invalid-request")
CONNECT_FAILED: Final = Err("connect-failed")
TLS_HANDSHAKE_FAILED: Final = Err("tls-handshake-failed")
INVALID_STATE: Final = Err("invalid-state")
CLOSED: Final = Err("closed")
BACKPRESSURE: Final = Err("backpressure")
CHUNK_TOO_LARGE: Final = Err("chunk-too-large")
HOST_UNAVAILABLE: Final = Err("host-unavailable")

REFUSALS: Final[Mapping[Reason, Err]] = MappingProxyType(
    {
        **dict.fromkeys(Reason, ACCESS_DENIED),
        Reason.HOST_INVALID: INVALID_REQUEST,
        Reason.PORT_INVALID: INVALID_REQUEST,
        Reason.TLS_PROFILE_WITHOUT_TLS: INVALID_REQUEST,
        Reason.TLS_PROFILE_UNKNOWN: INVALID_REQUEST,
        Reason.TLS_PROFILE_INVALID: INVALID_REQUEST,
        Reason.POLICY_INVALID: HOST_UNAVAILABLE,
        Reason.POLICY_UNAVAILABLE: HOST_UNAVAILABLE,
        Reason.NO_ADDRESSES: Err("resolution-failed"),
    }
)
"""The word for each reason of the policy's."""

_OTHERS: Final[Mapping[type[ZeroclawError], Err]] = MappingProxyType(
    {
        ResolutionFailed: Err("resolution-failed"),
        ConnectionLimit: Err("connection-limit"),
        TlsConfigurationFailed: Err("tls-configuration-failed"),
        TlsFailed: TLS_HANDSHAKE_FAILED,
    }
)


def connect_error(error: ZeroclawError) -> Err:
    """The word for what the network authority raised."""
    if isinstance(error, EgressRefused) and error.decision.reason is not None:
        return REFUSALS[error.decision.reason]
    if isinstance(error, TimeIsUp):
        return TLS_HANDSHAKE_FAILED if error.stage is Stage.TLS else CONNECT_FAILED
    return next((word for kind, word in _OTHERS.items() if isinstance(error, kind)), CONNECT_FAILED)
