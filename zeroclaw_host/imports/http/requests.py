"""``outgoing-request``: what a guest wants to send, checked as it is set."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from zeroclaw_host.egress.hosts import MAX_PORT
from zeroclaw_host.egress.http.body import Upload
from zeroclaw_host.egress.http.message import HttpFailed, RequestHead
from zeroclaw_host.imports.http.bodies import OutgoingBody
from zeroclaw_host.imports.http.error_codes import PROTOCOL_ERROR, URI_INVALID, ErrorCode, body_size, code_of
from zeroclaw_host.imports.http.fields import Fields
from zeroclaw_host.imports.http.rules import too_much_held
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.holdings import Holding
from zeroclaw_host.sandbox.interface import HostFunction
from zeroclaw_host.sandbox.values import OK, Err, Ok

Method = tuple[str, str | None]
Scheme = tuple[str, str | None]

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
_TARGET: Final = re.compile(r"\*|[/?][\x21\x22\x24-\x7e]*|")
"""Visible ASCII without the sign of a fragment, which is never sent."""

_AUTHORITY: Final = re.compile(r"[A-Za-z0-9\-._~%!$&'()*+,;=:@\[\]]+")
_BRACKETED: Final = re.compile(r"\[[^\[\]]*:[^\[\]]*\](:[0-9]*)?")
"""An IPv6 address and nothing else but a port. The standard library looks at what is between brackets, wherever they are."""

_DIGITS: Final = re.compile(r"[0-9]{1,19}")

MAX_PATH_BYTES: Final = 64 * 1024
"""Longest path with its query: longer than any server takes a request line."""

MAX_WORD_BYTES: Final = 1024
"""Longest method, scheme or authority. A host has 253 bytes at most; a longer one is left for the policy to refuse."""

_DEFAULT_PORTS: Final = {"HTTP": 80, "HTTPS": 443}


class RequestRefused(Exception):
    """The request cannot be sent.

    :param code: what the guest is told.
    """

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code[0])
        self.code = code


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that can be sent, and where."""

    host: str
    port: int
    secure: bool
    head: RequestHead
    upload: Upload | None


class OutgoingRequest:
    """A request before it is sent.

    :param headers: the guest's, from here on the request's.
    :param holding: counts its path; its content has another one.
    """

    def __init__(self, headers: Fields, holding: Holding) -> None:
        self.headers = headers.copy(immutable=True)
        self.method: Method = ("get", None)
        self.path: str | None = None
        self.scheme: Scheme | None = None
        self.authority: str | None = None
        self.body: OutgoingBody | None = None
        self.holding = holding
        self._upload: Upload | None = None

    def open_body(self) -> OutgoingBody | None:
        """The content, once; None if it was opened before or its length is no number."""
        try:
            declared = self._declared_length()
        except ValueError:
            return None
        if self._upload is not None:
            return None
        self._upload = Upload()
        self.body = OutgoingBody(self._upload, declared, self.holding.another())
        return self.body

    def prepare(self) -> Prepared:
        """The request as it is sent.

        :raises RequestRefused: it cannot be.
        """
        scheme = ("HTTPS", None) if self.scheme is None else self.scheme
        if scheme[0] not in _DEFAULT_PORTS:
            raise RequestRefused(PROTOCOL_ERROR)
        host, port = self._destination(_DEFAULT_PORTS[scheme[0]])
        try:
            if self._upload is None and self._declared_length():
                raise RequestRefused(body_size(0))
            head = RequestHead.of(
                self._method().encode("ascii"),
                self._target().encode("ascii"),
                (self.authority or "").encode("ascii"),
                self.headers.as_sent(),
                content=self._upload is not None,
            )
        except ValueError as error:
            raise RequestRefused(PROTOCOL_ERROR) from error
        except HttpFailed as failure:
            raise RequestRefused(code_of(failure)) from failure
        if self._upload is not None and self._upload.trailers and not head.chunked:
            raise RequestRefused(PROTOCOL_ERROR)
        if self.body is not None:
            self.body.holding = None
            self.body.chunked = head.chunked
            if not head.chunked and self.body.declared is None:
                self.body.declared = 0
        return Prepared(host, port, scheme[0] == "HTTPS", head, self._upload)

    def close(self) -> None:
        """Never sent: nobody takes its content."""
        if self._upload is not None:
            self._upload.refuse()

    def _declared_length(self) -> int | None:
        """What ``content-length`` says.

        :raises ValueError: it is no number, or several.
        """
        values = set(self.headers.get("content-length"))
        if not values:
            return None
        if len(values) > 1:
            raise ValueError("several lengths")
        text = values.pop().decode("latin-1")
        if _DIGITS.fullmatch(text) is None:
            raise ValueError("no length")
        return int(text)

    def _method(self) -> str:
        name, other = self.method
        return other if other is not None else name.upper()

    def _target(self) -> str:
        path = self.path or "/"
        return f"/{path}" if path.startswith("?") else path

    def _destination(self, default_port: int) -> tuple[str, int]:
        """Host and port of the authority. Whether the host is one is the policy's question."""
        if self.authority is None or "@" in self.authority:
            raise RequestRefused(URI_INVALID)
        if not {"[", "]"}.isdisjoint(self.authority) and _BRACKETED.fullmatch(self.authority) is None:
            raise RequestRefused(URI_INVALID)
        try:
            parts = urlsplit(f"//{self.authority}")
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise RequestRefused(URI_INVALID) from error
        port = default_port if port is None else port
        if not host or host.endswith(".") or not 0 < port <= MAX_PORT:
            raise RequestRefused(URI_INVALID)
        return host, port


class IncomingRequest:
    """A request to a guest. There is never one."""


def _fits(pattern: re.Pattern[str], text: str | None, most: int = MAX_WORD_BYTES) -> bool:
    return text is None or (len(text) <= most and pattern.fullmatch(text) is not None)


def _new(frame: CallFrame, headers: Fields) -> OutgoingRequest:
    return OutgoingRequest(headers, frame.table.holdings.open())


def _body(frame: CallFrame, request: OutgoingRequest) -> Ok | Err:
    body = request.open_body()
    return Err() if body is None else Ok(body)


def _method(frame: CallFrame, request: OutgoingRequest) -> Method:
    return request.method


def _set_method(frame: CallFrame, request: OutgoingRequest, method: Method) -> Ok | Err:
    if not _fits(_TOKEN, method[1]):
        return Err()
    request.method = method
    return OK


def _path(frame: CallFrame, request: OutgoingRequest) -> str | None:
    return request.path


def _set_path(frame: CallFrame, request: OutgoingRequest, path: str | None) -> Ok | Err:
    if not _fits(_TARGET, path, MAX_PATH_BYTES):
        return Err()
    if not request.holding.resize(len(path or "")):
        raise too_much_held()
    request.path = path
    return OK


def _scheme(frame: CallFrame, request: OutgoingRequest) -> Scheme | None:
    return request.scheme


def _set_scheme(frame: CallFrame, request: OutgoingRequest, scheme: Scheme | None) -> Ok | Err:
    if scheme is not None and not _fits(_SCHEME, scheme[1]):
        return Err()
    request.scheme = scheme
    return OK


def _authority(frame: CallFrame, request: OutgoingRequest) -> str | None:
    return request.authority


def _set_authority(frame: CallFrame, request: OutgoingRequest, authority: str | None) -> Ok | Err:
    if not _fits(_AUTHORITY, authority):
        return Err()
    request.authority = authority
    return OK


def _headers(frame: CallFrame, request: OutgoingRequest) -> Fields:
    return request.headers.copy(immutable=True)


FUNCTIONS: Final = (
    HostFunction("[constructor]outgoing-request", _new),
    HostFunction("[method]outgoing-request.body", _body),
    HostFunction("[method]outgoing-request.method", _method),
    HostFunction("[method]outgoing-request.set-method", _set_method),
    HostFunction("[method]outgoing-request.path-with-query", _path),
    HostFunction("[method]outgoing-request.set-path-with-query", _set_path),
    HostFunction("[method]outgoing-request.scheme", _scheme),
    HostFunction("[method]outgoing-request.set-scheme", _set_scheme),
    HostFunction("[method]outgoing-request.authority", _authority),
    HostFunction("[method]outgoing-request.set-authority", _set_authority),
    HostFunction("[method]outgoing-request.headers", _headers),
)
