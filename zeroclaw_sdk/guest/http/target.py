"""Where a request goes: a URL taken apart as the interface wants it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast
from urllib.parse import quote, urlencode, urljoin, urlsplit

from zeroclaw_sdk.guest.headers import items_of

ParameterValue = str | int | float | bool | None
Parameters = Mapping[str, ParameterValue | Iterable[ParameterValue]] | Iterable[tuple[str, ParameterValue]]
"""Parameters of a query. A value that is None is left out; a list is the same name once for each."""

_CONTROL: Final = re.compile(r"[\x00-\x20\x7f\\]")
"""What has no place in a URL, and what parsers are known to disagree about."""
_AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?")
_LARGEST_PORT: Final = 65_535
_KEPT: Final = "/%:@!$&'()*+,;=~-._?"
"""Characters of a path or query that stay as they are; what is not ASCII is written as percent and UTF-8."""


@dataclass(frozen=True)
class Target:
    """A URL that can be requested. Only its origin is ever shown: a path or a query may hold a key."""

    scheme: str
    authority: str
    path: str = field(repr=False)
    """Path and query, as they go over the wire."""

    @classmethod
    def of(cls, url: str, params: Parameters | None = None) -> Target:
        """Read a URL; ``params`` come after what it has of a query already. A fragment is left out.

        :raises ValueError: it is no http or https URL that can be requested. The message does not quote it.
        """
        if _CONTROL.search(url):
            raise ValueError(
                "a URL has no spaces, control characters or backslashes; write them percent-encoded"
            )
        try:
            parts = urlsplit(url)
        except ValueError:
            raise ValueError("the URL cannot be read") from None
        if parts.scheme not in ("http", "https"):
            raise ValueError("a URL begins with https:// or http://")
        if "@" in parts.netloc:
            raise ValueError("a URL names no user; credentials go into the header Authorization")
        authority = _AUTHORITY.fullmatch(parts.netloc)
        if authority is None:
            raise ValueError("the URL's host is not written in ASCII letters, digits, dots and hyphens")
        if authority["port"] is not None and not 0 < int(authority["port"]) <= _LARGEST_PORT:
            raise ValueError("the URL's port is not from 1 to 65535")
        try:
            query = "&".join(filter(None, (quote(parts.query, safe=_KEPT), urlencode(_pairs(params)))))
            path = quote(parts.path, safe=_KEPT) or "/"
        except UnicodeEncodeError:
            raise ValueError("the URL holds half of a character") from None
        return cls(parts.scheme, parts.netloc, f"{path}?{query}" if query else path)

    @property
    def origin(self) -> str:
        """What may be shown."""
        return f"{self.scheme}://{self.authority}"

    @property
    def host(self) -> str:
        """The host alone, as it is declared and granted."""
        found = _AUTHORITY.fullmatch(self.authority)
        assert found is not None
        return found["host"].strip("[]").lower()

    @property
    def url(self) -> str:
        """The whole."""
        return f"{self.origin}{self.path}"

    def join(self, reference: str) -> str:
        """A reference of a response, such as a redirect's, as a whole URL."""
        return urljoin(self.url, reference)


def form(values: Parameters) -> bytes:
    """Fields of a form as a body."""
    return urlencode(_pairs(values)).encode()


def _pairs(values: Parameters | None) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    given = cast("Iterable[tuple[str, ParameterValue | Iterable[ParameterValue]]]", items_of(values))
    for name, value in given:
        several = (value,) if value is None or isinstance(value, str | int | float) else value
        pairs += [(name, _text(each)) for each in several if each is not None]
    return pairs


def _text(value: str | float) -> str:
    """Booleans as JSON writes them, which is what APIs read."""
    return str(value).lower() if isinstance(value, bool) else str(value)
