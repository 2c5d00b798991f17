"""HTTP requests, for a plugin with the permission ``http_client``. Blocking, and one line where one line is enough::

    answer = http.get("https://api.example.com/v1/now", params={"city": "Oslo"}).raise_for_status().json()

    with http.post(url, json={"text": "hi"}, headers={"authorization": f"Bearer {key}"}, timeout=10) as response:
        for chunk in response:
            ...

    pages = http.many([http.Request("GET", url) for url in urls])

The host connects only to what the operator granted this plugin; ``[egress] hosts`` in the manifest says what it needs.
Redirects are not followed (:attr:`Response.location`), nothing is decompressed, no cookie is kept, no connection is used twice.
The time that a call of the plugin may take is over all of it; ``timeout`` can only shorten the wait.
"""

from __future__ import annotations

import json as json_module
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar, cast, overload

from zeroclaw_sdk.guest.headers import Headers, HeaderValues, encoded
from zeroclaw_sdk.guest.host import current_host
from zeroclaw_sdk.guest.http.errors import (
    BodyTooLarge,
    Broken,
    ConnectFailed,
    ConnectionLimit,
    Denied,
    HttpError,
    NameNotFound,
    RequestRefused,
    StatusError,
    TimedOut,
    TlsFailed,
)
from zeroclaw_sdk.guest.http.response import Response, asked
from zeroclaw_sdk.guest.http.target import Parameters, Target, form
from zeroclaw_sdk.guest.network import HttpRequest

__all__ = [
    "AT_ONCE",
    "BodyTooLarge",
    "Broken",
    "ConnectFailed",
    "ConnectionLimit",
    "Denied",
    "Headers",
    "HttpError",
    "NameNotFound",
    "Request",
    "RequestRefused",
    "Response",
    "StatusError",
    "TimedOut",
    "Timeout",
    "TlsFailed",
    "delete",
    "get",
    "head",
    "many",
    "patch",
    "post",
    "put",
    "request",
]

AT_ONCE: Final = 16
"""Connections that a host lets one plugin hold, unless its operator says otherwise."""

_PIECE: Final = 64 * 1024
"""Bytes of a body that are handed over at once: small enough not to be held twice, large enough to cross cheaply."""
_EXPECT_BODY: Final = frozenset({"POST", "PUT", "PATCH"})

T = TypeVar("T")

Body = bytes | str | Mapping[str, Any] | Iterable[bytes] | None
"""Bytes, a text (sent as UTF-8), the fields of a form, or pieces that are sent as they are made."""


@dataclass(frozen=True)
class Timeout:
    """Limits of time in seconds: to be connected, for the response to begin, and between two pieces of its body. None leaves
    one to the host."""

    connect: float | None = None
    first_byte: float | None = None
    between_bytes: float | None = None

    def __post_init__(self) -> None:
        for each in (self.connect, self.first_byte, self.between_bytes):
            if each is not None and not each > 0:
                raise ValueError("a limit of time is more than 0 seconds")


@dataclass(frozen=True)
class Request:
    """A request of :func:`many`. Its fields are the arguments of :func:`request`."""

    method: str
    url: str = field(repr=False)
    headers: HeaderValues | None = field(default=None, repr=False)
    params: Parameters | None = field(default=None, repr=False)
    json: Any = field(default=None, repr=False)
    data: Body = field(default=None, repr=False)
    timeout: float | Timeout | None = None


def request(
    method: str,
    url: str,
    *,
    headers: HeaderValues | None = None,
    params: Parameters | None = None,
    json: Any = None,
    data: Body = None,
    timeout: float | Timeout | None = None,
) -> Response:
    """Send a request and wait until the response begins.

    :param headers: fields by name; a list is several of one name.
    :param params: what is added to the URL's query.
    :param json: a value that becomes the body, as ``application/json``.
    :param data: the body: bytes, a text, the fields of a form, or an iterable of bytes, which is sent piece by piece.
    :param timeout: seconds for each of the three waits of :class:`Timeout`, or one of those.
    :returns: the response, whatever its status. Its body was not read yet.
    :raises HttpError: there is no response; its class and ``code`` say why.
    :raises ValueError: the URL, a header or the body cannot be sent. Nothing was.
    """
    under_way = _Sent(Request(method, url, headers, params, json, data, timeout))
    return under_way.response()


def get(
    url: str,
    *,
    headers: HeaderValues | None = None,
    params: Parameters | None = None,
    timeout: float | Timeout | None = None,
) -> Response:
    """See :func:`request`."""
    return request("GET", url, headers=headers, params=params, timeout=timeout)


def head(
    url: str,
    *,
    headers: HeaderValues | None = None,
    params: Parameters | None = None,
    timeout: float | Timeout | None = None,
) -> Response:
    """See :func:`request`. The response has no body."""
    return request("HEAD", url, headers=headers, params=params, timeout=timeout)


def post(
    url: str,
    *,
    headers: HeaderValues | None = None,
    params: Parameters | None = None,
    json: Any = None,
    data: Body = None,
    timeout: float | Timeout | None = None,
) -> Response:
    """See :func:`request`."""
    return request("POST", url, headers=headers, params=params, json=json, data=data, timeout=timeout)


def put(
    url: str,
    *,
    headers: HeaderValues | None = None,
    params: Parameters | None = None,
    json: Any = None,
    data: Body = None,
    timeout: float | Timeout | None = None,
) -> Response:
    """See :func:`request`."""
    return request("PUT", url, headers=headers, params=params, json=json, data=data, timeout=timeout)


def patch(
    url: str,
    *,
    headers: HeaderValues | None = None,
    params: Parameters | None = None,
    json: Any = None,
    data: Body = None,
    timeout: float | Timeout | None = None,
) -> Response:
    """See :func:`request`."""
    return request("PATCH", url, headers=headers, params=params, json=json, data=data, timeout=timeout)


def delete(
    url: str,
    *,
    headers: HeaderValues | None = None,
    params: Parameters | None = None,
    timeout: float | Timeout | None = None,
) -> Response:
    """See :func:`request`."""
    return request("DELETE", url, headers=headers, params=params, timeout=timeout)


@overload
def many(
    requests: Iterable[Request], *, at_once: int = AT_ONCE, errors: Literal[False] = False
) -> list[Response]: ...
@overload
def many(
    requests: Iterable[Request], *, at_once: int = AT_ONCE, errors: Literal[True]
) -> list[Response | HttpError]: ...
def many(
    requests: Iterable[Request], *, at_once: int = AT_ONCE, errors: bool = False
) -> Sequence[Response | HttpError]:
    """Send several requests side by side; the responses, in the order of the requests, each read to its end.

    :param at_once: how many are under way at a time.
    :param errors: put a request's HttpError in its place, instead of raising the first one.
    :raises HttpError: one failed, and ``errors`` is false. The others are given up.
    :raises ValueError: one cannot be sent as it is. The others are given up.
    """
    if at_once < 1:
        raise ValueError("at least one request is under way at a time")
    under_way: deque[_Sent | HttpError] = deque()
    finished: list[Response | HttpError] = []

    def begin(each: Request) -> _Sent | HttpError:
        try:
            return _Sent(each)
        except HttpError as error:
            if not errors:
                raise
            return error

    def end(each: _Sent | HttpError) -> Response | HttpError:
        if isinstance(each, HttpError):
            return each
        try:
            response = each.response()
            response.read()
        except HttpError as error:
            if not errors:
                raise
            return error
        return response

    try:
        for each in requests:
            if len(under_way) == at_once:
                finished.append(end(under_way.popleft()))
            under_way.append(begin(each))
        while under_way:
            finished.append(end(under_way.popleft()))
    finally:
        for left in under_way:
            if isinstance(left, _Sent):
                left.close()
    return finished


class _Sent:
    """A request whose body was sent and whose response was not waited for."""

    def __init__(self, request: Request) -> None:
        self._target = Target.of(request.url, request.params)
        self._method = _method(request.method)
        fields, pieces = _content(request, self._method)
        self._exchange = self._ask(
            current_host().network.http,
            _prepared(request, self._method, self._target, fields, content=pieces is not None),
        )
        try:
            self._send(pieces or ())
        except BaseException:
            self.close()
            raise

    def response(self) -> Response:
        """Wait for it."""
        try:
            head = self._ask(self._exchange.head)
        except BaseException:
            self.close()
            raise
        return Response(self._exchange, head, self._method, self._target)

    def close(self) -> None:
        """Give up."""
        self._exchange.close()

    def _send(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            if not isinstance(piece, bytes | bytearray | memoryview):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped authors
                raise TypeError(f"a piece of a body is bytes, not {type(piece).__name__}")
            for start in range(0, len(piece), _PIECE):
                if not self._ask(self._exchange.write, bytes(piece[start : start + _PIECE])):
                    return  # an answer is there before the body was wanted
        self._ask(self._exchange.finish)

    def _ask(self, question: Callable[..., T], *arguments: object) -> T:
        return asked(question, f"{self._method} {self._target.origin}", self._target.host, *arguments)


def _method(method: str) -> str:
    if not method.isascii() or not method.isalpha():
        raise ValueError("a method is a word, such as GET")
    return method.upper()


def _content(request: Request, method: str) -> tuple[list[tuple[str, bytes]], Iterable[bytes] | None]:
    """All header fields, those of the body among them, and the body's pieces; None where there is to be no body.

    :raises ValueError: there are two bodies, or the value has no JSON form.
    """
    fields = encoded(request.headers)
    named = {name.lower() for name, _ in fields}
    if request.json is not None and request.data is not None:
        raise ValueError("a request has one body: json or data")
    body, content_type = _body(request)
    if isinstance(body, bytes):
        if (body or method in _EXPECT_BODY) and "content-length" not in named:
            fields.append(("content-length", str(len(body)).encode()))
        pieces: Iterable[bytes] | None = (body,) if body or method in _EXPECT_BODY else None
    else:
        pieces = body
    if content_type is not None and "content-type" not in named:
        fields.append(("content-type", content_type))
    return fields, pieces


def _body(request: Request) -> tuple[bytes | Iterable[bytes], bytes | None]:
    if request.json is not None:
        return json_module.dumps(request.json, allow_nan=False).encode(), b"application/json"
    data = request.data
    if data is None:
        return b"", None
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data), None
    if isinstance(data, str):
        return data.encode(), b"text/plain; charset=utf-8"
    if isinstance(data, Mapping):
        return form(cast("Parameters", data)), b"application/x-www-form-urlencoded"
    return data, None


def _prepared(
    request: Request, method: str, target: Target, fields: list[tuple[str, bytes]], *, content: bool
) -> HttpRequest:
    given = request.timeout
    limits = given if isinstance(given, Timeout) else Timeout(given, given, given)
    return HttpRequest(
        method,
        target.scheme,
        target.authority,
        target.path,
        tuple(fields),
        limits.connect,
        limits.first_byte,
        limits.between_bytes,
        content,
    )
