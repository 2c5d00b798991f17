"""One HTTP request and its response as values, and what can go wrong with them.

The fields of a message are pairs of bytes, names in lower case. HTTP/1.1's grammar is h11's; nothing is parsed here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import h11

from zeroclaw_host.errors import Kind, ZeroclawError

FieldLines = tuple[tuple[bytes, bytes], ...]

MAX_HEAD_BYTES: Final = 128 * 1024
"""Most bytes of a response's fields, and of its trailers: names, values and four for each line. wasi:http's usual bound."""

LINE_OVERHEAD: Final = 32
"""What a field line counts beside its name and value where it is kept, as in HTTP/2 (RFC 9113, 6.5.2)."""

MAX_RESPONSE_FIELDS: Final = 256
"""Most field lines of a response. Each costs far more on its way into a guest than on the wire; real ones have dozens."""

MAX_INFORMATIONAL: Final = 16
"""Most interim (1xx) responses before the final one, so that a peer cannot send them for ever."""

DEFAULT_SECONDS: Final = 600.0
"""How long a request may take to connect, to the response's head, and between two pieces of its body, unless it says."""

_EMPTY_IS_SAID: Final = frozenset({b"POST", b"PUT", b"PATCH"})
"""Methods whose requests say that they have no content (RFC 9110, 8.6)."""

_WITHOUT_CONTENT: Final = frozenset({b"GET", b"HEAD"})
"""Methods whose requests have content only when its length is declared: peers do not look for any otherwise."""


class Fault(StrEnum):
    """What went wrong with a message, not with its connection."""

    PROTOCOL = "protocol"
    """It is not HTTP/1.1, or not a request that can be sent."""
    METHOD = "method"
    """The method would make the connection something else than one for a request."""
    REQUEST_SIZE = "request_size"
    """The content is not as long as declared."""
    HEAD_SIZE = "head_size"
    """The response's fields are too long or too many."""
    TRAILER_SIZE = "trailer_size"
    """The response's trailers are."""
    INCOMPLETE = "incomplete"
    """The peer sent no more before the response was whole."""
    LATE = "late"
    """The response did not begin, or did not go on, in time."""
    ABANDONED = "abandoned"
    """The content of the request was given up before it was whole."""
    HOST = "host"
    """This machine cannot carry it: it has no thread or descriptor left."""


class HttpFailed(ZeroclawError):
    """A request or its response failed as HTTP. ``fault`` says how; ``size`` how long what was too long was."""

    code = "http_failed"
    kind = Kind.UNAVAILABLE

    def __init__(self, fault: Fault, message: str, *, size: int | None = None) -> None:
        self.fault = fault
        self.size = size
        super().__init__(message, details={"fault": fault.value})


@dataclass(frozen=True, slots=True)
class HttpTimes:
    """Seconds that the stages of an exchange may take.

    ``connect`` is for the policy, the lookup, the connection and TLS together.
    """

    connect: float = DEFAULT_SECONDS
    first_byte: float = DEFAULT_SECONDS
    between_bytes: float = DEFAULT_SECONDS


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What is sent before a request's content, checked: it can be sent.

    ``chunked`` says that the content's length is not declared; only then may it have trailers.
    """

    event: h11.Request
    chunked: bool

    @classmethod
    def of(
        cls,
        method: bytes,
        target: bytes,
        authority: bytes,
        fields: FieldLines,
        *,
        content: bool,
    ) -> RequestHead:
        """The head of a request on a connection of its own.

        :param target: path and query.
        :param authority: goes into the field ``host`` unless there is one.
        :param content: whether content will follow.
        :raises HttpFailed: it cannot be sent.
        """
        if method.upper() == b"CONNECT":
            raise HttpFailed(Fault.METHOD, "a request cannot become a tunnel")
        lines = [(name, value.strip(b" \t")) for name, value in fields]
        names = {name for name, _ in lines}
        if b"host" not in names:
            lines.insert(0, (b"host", authority))
        chunked = content and b"content-length" not in names and method not in _WITHOUT_CONTENT
        if chunked:
            lines.append((b"transfer-encoding", b"chunked"))
        elif not content and b"content-length" not in names and method in _EMPTY_IS_SAID:
            lines.append((b"content-length", b"0"))
        lines.append((b"connection", b"close"))
        try:
            event = h11.Request(method=method, target=target, headers=lines)
        except h11.LocalProtocolError as error:
            raise HttpFailed(Fault.PROTOCOL, f"the request cannot be sent: {error}") from error
        return cls(event, chunked)


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What came before a response's content."""

    status: int
    fields: FieldLines


def kept_size(lines: FieldLines) -> int:
    """About how much memory fields take."""
    return sum(len(name) + len(value) + LINE_OVERHEAD for name, value in lines)


def field_lines(headers: Iterable[tuple[bytes, bytes]], fault: Fault) -> FieldLines:
    """The fields of a received message.

    :raises HttpFailed: they are too long or too many, with this fault.
    """
    lines = tuple(headers)
    size = sum(len(name) + len(value) + 4 for name, value in lines)
    if size > MAX_HEAD_BYTES:
        raise HttpFailed(fault, f"the response's fields are longer than {MAX_HEAD_BYTES} bytes", size=size)
    if len(lines) > MAX_RESPONSE_FIELDS:
        raise HttpFailed(fault, f"the response has more than {MAX_RESPONSE_FIELDS} fields", size=size)
    return lines
