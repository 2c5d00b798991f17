"""A response: its head is there, its body comes as it is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

# A component finds no module that was not imported while it was built, and these are looked up by name.
from encodings import ascii as _ascii
from encodings import cp1252 as _cp1252
from encodings import iso8859_15 as _iso8859_15
from encodings import latin_1 as _latin_1
from encodings import utf_8_sig as _utf_8_sig
from encodings import utf_16 as _utf_16
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from zeroclaw_sdk.guest.headers import Headers
from zeroclaw_sdk.guest.http.errors import BodyTooLarge, HttpError, StatusError, error_of
from zeroclaw_sdk.guest.http.target import Target
from zeroclaw_sdk.guest.network import Exchange, NetworkFault, ResponseHead

CHARSETS: Final = (_ascii, _cp1252, _iso8859_15, _latin_1, _utf_8_sig, _utf_16)
"""What a text can be in besides UTF-8."""

_FIRST_ERROR: Final = 400

T = TypeVar("T")


class Response:
    """What came back. ``status`` is its number, ``headers`` its fields, ``url`` what was asked for.

    A body is either taken whole (:meth:`read`, :attr:`text`, :meth:`json`), as often as one likes, or once in pieces, as they
    arrive: ``for chunk in response``. The connection is held until the body was read to its end or the response is closed;
    use it in a ``with`` block, or read it whole.
    """

    def __init__(self, exchange: Exchange, head: ResponseHead, method: str, target: Target) -> None:
        self.status = head.status
        self.headers = Headers(head.headers)
        self.method = method
        self.url = target.url
        self._target = target
        self._exchange = exchange
        self._body: bytes | None = None
        self._taken = False
        self._closed = False

    @property
    def ok(self) -> bool:
        """Whether the status is below 400."""
        return self.status < _FIRST_ERROR

    @property
    def location(self) -> str | None:
        """Where a redirect points, as a whole URL. Redirects are never followed: the other host may not be granted."""
        found = self.headers.get("location")
        return None if found is None else self._target.join(found)

    def raise_for_status(self) -> Self:
        """The response itself, if its status is below 400.

        :raises StatusError: it is not.
        """
        if not self.ok:
            raise StatusError(f"{self._what}: status {self.status}", self.status)
        return self

    def read(self, limit: int | None = None) -> bytes:
        """The whole body, read to its end.

        :param limit: bytes that the body may have at most.
        :raises BodyTooLarge: it has more. The response is closed.
        :raises HttpError: it cannot be read to its end.
        :raises RuntimeError: it was taken in pieces, or the response was closed before it was read.
        """
        if self._body is None:
            parts: list[bytes] = []
            size = 0
            for chunk in self:
                size += len(chunk)
                if limit is not None and size > limit:
                    self.close()
                    raise BodyTooLarge(
                        f"{self._what}: the body has more than {limit} bytes", "body-too-large"
                    )
                parts.append(chunk)
            self._body = b"".join(parts)
        return self._body

    def json(self) -> Any:
        """The body as a JSON value.

        :raises ValueError: it is none. What it says shows nothing of the body, and names the status, which often is the reason.
        :raises HttpError: it cannot be read.
        """
        body = self.read()
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            what = str(error) if isinstance(error, json.JSONDecodeError) else type(error).__name__
            raise ValueError(
                f"{self._what}: the body of this answer (status {self.status}, {len(body)} bytes) is no JSON: {what}"
            ) from None

    @property
    def text(self) -> str:
        """The body as a text, in the charset that ``content-type`` names; UTF-8 when it names none that is known here.

        What does not fit the charset becomes U+FFFD.

        :raises HttpError: it cannot be read.
        """
        body = self.read()
        try:
            return body.decode(_charset(self.headers.get("content-type", "")), "replace")
        except (LookupError, ValueError):  # not a charset, or one that turns bytes into something else
            return body.decode(errors="replace")

    def __iter__(self) -> Iterator[bytes]:
        """The body in pieces of up to 64 KiB, as they arrive.

        :raises HttpError: it cannot be read to its end.
        :raises RuntimeError: it was taken before.
        """
        if self._taken or self._closed:
            raise RuntimeError("the body was taken already, or the response was closed")
        self._taken = True
        try:
            while chunk := asked(self._exchange.read, self._what, self._target.host):
                yield chunk
                if self._closed:
                    raise RuntimeError("the response was closed while its body was read")
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the connection. What was read whole stays readable."""
        self._closed = True
        self._exchange.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Response {self.status} of {self._what}>"

    @property
    def _what(self) -> str:
        return f"{self.method} {self._target.origin}"


def asked(question: Callable[..., T], what: str, host: str, *arguments: object) -> T:
    """An answer of the network, or the exception that an author sees."""
    try:
        return question(*arguments)
    except NetworkFault as fault:
        raise error_of(fault, what, host) from None


def _charset(content_type: str) -> str:
    for part in content_type.split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'") or "utf-8"
    return "utf-8"


__all__ = ["CHARSETS", "HttpError", "Response", "asked"]
