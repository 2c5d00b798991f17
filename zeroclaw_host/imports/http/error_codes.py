"""The ``error-code`` of ``wasi:http`` for everything that can end an exchange: one table.

A guest learns what its own interface has a word for, and nothing of the policy: every refusal reads the same (PLG-184).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zeroclaw_host.egress.failures import (
    AttemptFailed,
    ConnectionBroken,
    ConnectionClosed,
    ConnectionLimit,
    DialCancelled,
    EgressRefused,
    ResolutionFailed,
    TimeIsUp,
    TlsBroken,
    TlsConfigurationFailed,
    TlsFailed,
)
from zeroclaw_host.egress.http.message import Fault, HttpFailed
from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.imports.wasi.streams import IoError

ErrorCode = tuple[str, object]
"""A case of the variant and its payload."""

NOT_PERMITTED: Final[ErrorCode] = (
    "internal-error",
    "zeroclaw plugin egress policy: destination not permitted",
)
"""What a guest gets for any refusal of the policy, whatever the reason."""

PROTOCOL_ERROR: Final[ErrorCode] = ("HTTP-protocol-error", None)
URI_INVALID: Final[ErrorCode] = ("HTTP-request-URI-invalid", None)
LIMIT_REACHED: Final[ErrorCode] = ("connection-limit-reached", None)
TERMINATED: Final[ErrorCode] = ("connection-terminated", None)
FAILED: Final[ErrorCode] = ("internal-error", None)
"""The host's own fault, about which a guest can do nothing."""

_OF_FAILURES: Final[tuple[tuple[type[ZeroclawError], ErrorCode], ...]] = (
    (EgressRefused, NOT_PERMITTED),
    (ResolutionFailed, ("DNS-error", {"rcode": "address not available", "info-code": 0})),
    (ConnectionLimit, LIMIT_REACHED),
    (TimeIsUp, ("connection-timeout", None)),
    (TlsFailed, ("TLS-protocol-error", None)),
    (TlsConfigurationFailed, ("TLS-protocol-error", None)),
    (AttemptFailed, ("connection-refused", None)),
    (TlsBroken, ("TLS-protocol-error", None)),
    (ConnectionBroken, TERMINATED),
    (ConnectionClosed, TERMINATED),
    (DialCancelled, TERMINATED),
)
"""The first that fits."""

_OF_FAULTS: Final[dict[Fault, Callable[[int | None], ErrorCode]]] = {
    Fault.PROTOCOL: lambda size: PROTOCOL_ERROR,
    Fault.METHOD: lambda size: ("HTTP-request-method-invalid", None),
    Fault.REQUEST_SIZE: lambda size: ("HTTP-request-body-size", size),
    Fault.HEAD_SIZE: lambda size: ("HTTP-response-header-section-size", size),
    Fault.TRAILER_SIZE: lambda size: ("HTTP-response-trailer-section-size", size),
    Fault.INCOMPLETE: lambda size: ("HTTP-response-incomplete", None),
    Fault.LATE: lambda size: ("connection-read-timeout", None),
    Fault.ABANDONED: lambda size: PROTOCOL_ERROR,
    Fault.HOST: lambda size: FAILED,
}


def code_of(failure: ZeroclawError) -> ErrorCode:
    """What a guest is told of a failure."""
    if isinstance(failure, HttpFailed):
        return _OF_FAULTS[failure.fault](failure.size)
    return next((code for kind, code in _OF_FAILURES if isinstance(failure, kind)), FAILED)


def body_size(written: int) -> ErrorCode:
    """The content is not as long as its ``content-length``."""
    return ("HTTP-request-body-size", written)


def stream_error(code: ErrorCode) -> IoError:
    """The error of a body's stream, from which ``http-error-code`` reads the code back."""
    return IoError(code[0], HttpErrorCode(code))


class HttpErrorCode:
    """Marks the code of a stream's error as one of this interface."""

    __slots__ = ("code",)

    def __init__(self, code: ErrorCode) -> None:
        self.code = code
