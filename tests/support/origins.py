"""Web servers on loopback that work as they should: a weather service, feeds that know their version, and whatever a test makes up.

Each keeps the requests that came. One that misbehaves is not to be found here.
"""

from __future__ import annotations

import hashlib
import json
import runpy
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Final, cast
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

import http_origins

_DOCUMENTED: Final = Path(__file__).parents[2] / "example-plugins" / "weather" / "tests" / "service.py"


@dataclass(frozen=True)
class Asked:
    """A request. Names of headers are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    """What is answered. A length is added."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


Service = Callable[[Asked], Answer]


class Origin:
    """A server on 127.0.0.1 for the time of a ``with`` block. Connections end after one answer.

    :param tls: makes it speak HTTPS.
    :param host: the name in its address.
    """

    def __init__(
        self, service: Service, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
    ) -> None:
        self.requests: list[Asked] = []
        self._service = service
        self._origin = http_origins.Origin(self._answer, tls=tls)
        self.port = self._origin.port
        self.url = f"{'http' if tls is None else 'https'}://{host}:{self.port}"

    def __enter__(self) -> Origin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._origin.close()

    def _answer(self, wire: http_origins.Asked) -> None:
        asked = _asked(wire)
        self.requests.append(asked)
        answer = self._service(asked)
        has_content = answer.status != HTTPStatus.NOT_MODIFIED
        length = {"content-length": str(len(answer.body))} if has_content else {}
        head = "".join(f"{name}: {value}\r\n" for name, value in {**answer.headers, **length}.items())
        body = answer.body if has_content and asked.method != "HEAD" else b""
        status = HTTPStatus(answer.status)
        wire.send(f"HTTP/1.1 {status.value} {status.phrase}\r\n{head}\r\n".encode() + body)


def _asked(wire: http_origins.Asked) -> Asked:
    target = urlsplit(wire.target)
    return Asked(
        wire.method,
        target.path,
        {name: values[-1] for name, values in parse_qs(target.query, keep_blank_values=True).items()},
        dict(wire.headers),
        wire.body(),
    )


def json_answer(value: object, status: int = 200) -> Answer:
    """An answer in JSON."""
    return Answer(status, {"content-type": "application/json"}, json.dumps(value).encode())


class WeatherService:
    """The service that the ``weather`` example asks, as that example documents it.

    :param key: the key it accepts. It may be set to another one at any time.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self._answer = cast("Callable[..., tuple[int, object]]", runpy.run_path(str(_DOCUMENTED))["answer"])

    def __call__(self, asked: Asked) -> Answer:
        status, value = self._answer(asked.path, asked.query, asked.headers.get("authorization"), self.key)
        return json_answer(value, status)


class FeedService:
    """An Atom feed at every path. It gives an ETag, and answers 304 to who has that version.

    :param titles: its entries, newest first. A test adds to them.
    """

    def __init__(self, *titles: str) -> None:
        self.titles = list(titles)

    def document(self) -> bytes:
        """The feed as it is now."""
        entries = "".join(
            f"<entry><id>urn:entry:{escape(title)}</id><title>{escape(title)}</title>"
            f'<link href="/{escape(title)}"/><updated>2026-12-01T04:00:00Z</updated></entry>'
            for title in self.titles
        )
        return (
            f'<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><title>News</title>{entries}</feed>'
        ).encode()

    @property
    def etag(self) -> str:
        """What the feed calls its version."""
        return f'"{hashlib.sha256(self.document()).hexdigest()[:16]}"'

    def __call__(self, asked: Asked) -> Answer:
        headers = {"etag": self.etag, "content-type": "application/atom+xml"}
        if asked.headers.get("if-none-match") == self.etag:
            return Answer(304, headers)
        return Answer(200, headers, self.document())
