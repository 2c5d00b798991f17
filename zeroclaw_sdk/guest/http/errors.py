"""How a request can fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zeroclaw_sdk.guest.network import NO_PERMISSION, NetworkError, NetworkFault, grant_hint

DENIED_DETAIL: Final = "zeroclaw plugin egress policy: destination not permitted"
"""What the host says of every destination that it does not permit, as the text of an ``internal-error``."""


class HttpError(NetworkError):
    """A request failed. ``code`` is the word of ``wasi:http`` for it; ``detail`` is what the host says beside it, or None.

    A status such as 404 is no failure: see :meth:`Response.raise_for_status`.
    """

    def __init__(self, message: str, code: str, detail: str | None = None) -> None:
        super().__init__(message, code)
        self.detail = detail


class Denied(HttpError):
    """The destination is not granted, or has an address that may not be reached. Nothing was sent."""


class ConnectionLimit(HttpError):
    """The plugin holds as many connections as it may. Read or close responses before asking for more."""


class TimedOut(HttpError):
    """A limit of time passed: while connecting, or while waiting for the response."""


class NameNotFound(HttpError):
    """The host's name has no address."""


class ConnectFailed(HttpError):
    """No address of the host could be connected to."""


class TlsFailed(HttpError):
    """The other side is not trusted, or is not that host."""


class Broken(HttpError):
    """What came back is no HTTP, or ended in the middle."""


class RequestRefused(HttpError):
    """The request itself cannot be sent as it is."""


class StatusError(HttpError):
    """A response has a status from 400 on. ``status`` is the number; the response itself can still be read."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message, "status")
        self.status = status


class BodyTooLarge(HttpError):
    """A body is longer than its reader allows."""


_CLASSES: Final[Mapping[str, type[HttpError]]] = {
    "HTTP-request-denied": Denied,
    "destination-IP-prohibited": Denied,
    "connection-limit-reached": ConnectionLimit,
    "connection-timeout": TimedOut,
    "connection-read-timeout": TimedOut,
    "connection-write-timeout": TimedOut,
    "HTTP-response-timeout": TimedOut,
    "DNS-timeout": TimedOut,
    "DNS-error": NameNotFound,
    "destination-not-found": NameNotFound,
    "connection-refused": ConnectFailed,
    "destination-unavailable": ConnectFailed,
    "destination-IP-unroutable": ConnectFailed,
    "TLS-protocol-error": TlsFailed,
    "TLS-certificate-error": TlsFailed,
    "TLS-alert-received": TlsFailed,
    "connection-terminated": Broken,
    "HTTP-protocol-error": Broken,
    "HTTP-response-incomplete": Broken,
}

_SAID: Final[Mapping[type[HttpError], str]] = {
    ConnectionLimit: "the plugin holds as many connections as it may; read or close responses before asking for more",
    TimedOut: "a limit of time passed",
    NameNotFound: "the host's name has no address",
    ConnectFailed: "the host could not be connected to",
    TlsFailed: "the other side is not trusted, or is not that host",
    Broken: "what came back is no HTTP, or ended in the middle",
    RequestRefused: "the request cannot be sent as it is",
}


def error_of(fault: NetworkFault, what: str, host: str) -> HttpError:
    """The exception that an author sees.

    :param what: method and origin; never more of the URL.
    :param host: the host alone, as it would be declared.
    """
    code, detail = fault.code, fault.detail
    if code == "no-permission":
        return HttpError(f"{what}: {NO_PERMISSION.format(permission='http_client')}", code)
    if code in ("HTTP-request-denied", "destination-IP-prohibited") or detail == DENIED_DETAIL:
        return Denied(f"{what}: {grant_hint(host)}", code, detail)
    kind = _CLASSES.get(code, RequestRefused if code.startswith("HTTP-request-") else HttpError)
    word = code if detail is None else f"{code}: {detail}"
    said = _SAID.get(kind)
    return kind(f"{what}: {word}" if said is None else f"{what}: {said} ({word})", code, detail)
