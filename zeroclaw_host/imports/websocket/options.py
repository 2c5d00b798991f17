"""What a guest wants to connect to, and how: checked before anything is asked of the network.

A URL, headers and subprotocols come from a program that nobody trusts, and become lines of a request. What could be read
in two ways, or could end a line, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import urlsplit

from zeroclaw_host.egress.hosts import MAX_PORT, RequestHost, parse_request_host
from zeroclaw_host.imports.websocket.refusal import Refused

MAX_URL_BYTES: Final = 4096
MAX_HEADERS: Final = 32
MAX_HEADER_BYTES: Final = 16 * 1024
"""Names and values of all headers together."""
MAX_SUBPROTOCOLS: Final = 16
MAX_SUBPROTOCOL_BYTES: Final = 4096
"""All subprotocols as one header's value, joined with :data:`SUBPROTOCOL_SEPARATOR`."""
SUBPROTOCOL_SEPARATOR: Final = ", "

_DEFAULT_PORT: Final = {"ws": 80, "wss": 443}

_PRINTABLE: Final = re.compile(r"[!-~]*")
"""What may be in the request line. Others are to be percent-encoded by whoever makes the URL."""

_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?")
"""A host, and perhaps a port. No userinfo: its ``@`` is in no host."""

_TOKEN: Final = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
"""RFC 9110, section 5.6.2."""

_HEADER_VALUE: Final = re.compile(r"[\t -~]*")

_RESERVED: Final = frozenset({"host", "connection", "upgrade"})
_RESERVED_PREFIX: Final = "sec-websocket-"

_BODY_HEADERS: Final = frozenset({"content-length", "transfer-encoding"})
"""They announce a body. An upgrade has none, and a peer that believed them would take frames for it."""


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """Options that can be used as they are.

    ``host`` is canonical and without brackets, ``query`` without its question mark.
    """

    secure: bool
    host: str
    port: int
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    subprotocols: tuple[str, ...]
    tls_profile: str | None

    @classmethod
    def read(cls, record: Mapping[str, object]) -> ConnectOptions:
        """Read a ``connect-options`` record (PLG-369).

        :raises Refused: ``invalid-options``, ``reserved-header`` or ``invalid-subprotocol``.
        """
        url = cast("str", record["url"])
        if not 0 < len(url) <= MAX_URL_BYTES:  # characters that take several bytes are refused below
            raise Refused("invalid-options")
        headers = _read_headers(cast("Sequence[Mapping[str, str]]", record["headers"]))
        subprotocols = _read_subprotocols(cast("Sequence[str]", record["subprotocols"]))
        secure, host, port, path, query = _read_url(url)
        return cls(
            secure=secure,
            host=host,
            port=port,
            path=path,
            query=query,
            headers=headers,
            subprotocols=subprotocols,
            tls_profile=cast("str | None", record["tls-profile"]),
        )


def _read_url(url: str) -> tuple[bool, str, int, str, str]:
    if not _PRINTABLE.fullmatch(url) or "#" in url:
        raise Refused("invalid-options")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise Refused("invalid-options") from None
    default = _DEFAULT_PORT.get(parts.scheme)
    authority = _AUTHORITY.fullmatch(parts.netloc)
    if default is None or authority is None:
        raise Refused("invalid-options")
    host = parse_request_host(authority[1])
    port = int(authority[2]) if authority[2] else default
    if not isinstance(host, RequestHost) or not 0 < port <= MAX_PORT:
        raise Refused("invalid-options")
    return parts.scheme == "wss", host.text, port, parts.path, parts.query


def _read_headers(headers: Sequence[Mapping[str, str]]) -> tuple[tuple[str, str], ...]:
    if len(headers) > MAX_HEADERS:
        raise Refused("invalid-options")
    found = tuple((header["name"], header["value"]) for header in headers)
    left = MAX_HEADER_BYTES
    for name, value in found:
        left -= len(name) + len(value)
        if left < 0 or not _TOKEN.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise Refused("invalid-options")
        lower = name.lower()
        if lower in _RESERVED or lower.startswith(_RESERVED_PREFIX):
            raise Refused("reserved-header")
        if lower in _BODY_HEADERS:
            raise Refused("invalid-options")
    return found


def _read_subprotocols(subprotocols: Sequence[str]) -> tuple[str, ...]:
    found = tuple(subprotocols)
    size = sum(map(len, found)) + len(SUBPROTOCOL_SEPARATOR) * (len(found) - 1)
    if len(found) > MAX_SUBPROTOCOLS or size > MAX_SUBPROTOCOL_BYTES or len(set(found)) != len(found):
        raise Refused("invalid-subprotocol")
    if not all(_TOKEN.fullmatch(subprotocol) for subprotocol in found):
        raise Refused("invalid-subprotocol")
    return found
