"""The interface's words for what kept a connection from being made: what a guest may know, and no more."""

from __future__ import annotations

from typing import Final

from zeroclaw_host.egress.decision import Reason
from zeroclaw_host.egress.failures import (
    ConnectFailed,
    ConnectionLimit,
    EgressRefused,
    ResolutionFailed,
    TimeIsUp,
    TlsConfigurationFailed,
    TlsFailed,
)
from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.imports.websocket.upgrade import UpgradeFailed

_REFUSALS: Final = {
    Reason.PERMISSION_MISSING: "access-denied",
    Reason.POLICY_UNAVAILABLE: "unavailable",
    Reason.HOST_INVALID: "invalid-options",
    Reason.PORT_INVALID: "invalid-options",
}
"""Every other refusal is ``destination-denied``: a guest does not learn which rule it was."""

_FAILURES: Final[dict[type[ZeroclawError], str]] = {
    ConnectionLimit: "connection-limit",
    TimeIsUp: "timeout",
    TlsConfigurationFailed: "tls-failed",
    TlsFailed: "tls-failed",
    ConnectFailed: "connect-failed",
}


def word_of(error: ZeroclawError) -> str | None:
    """The ``websocket-error`` that a dial's error is for the guest; None for one that is no answer to it."""
    match error:
        case EgressRefused():
            reason = error.decision.reason
            return "destination-denied" if reason is None else _REFUSALS.get(reason, "destination-denied")
        case ResolutionFailed():
            return "destination-denied" if error.empty else "dns-failed"
        case UpgradeFailed():
            return error.word
        case _:
            return next((word for kind, word in _FAILURES.items() if isinstance(error, kind)), None)
