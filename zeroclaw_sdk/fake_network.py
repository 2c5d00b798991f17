"""A network for an author's tests: answers that a test wrote down, and a record of what was asked. No time passes in it.

network = FakeNetwork(
    http=[reply("GET", "https://api.example.com/now", json={"degrees": 7}), deny("other.example.com")],
    websockets=[FakeWebSocket("wss://chat.example.com/live", incoming=["hello", Closed(1000)])],
    sockets=[FakeSocket("mail.example.com", 143, incoming=[b"* OK ready\\r\\n"])],
)
answer = call(Weather, {"city": "Oslo"}, network=network)
assert network.requests[0].headers["authorization"] == "Bearer key"
"""

from __future__ import annotations

import json as json_module
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from zeroclaw_sdk.fake_peers import (
    Failure,
    FakeSocket,
    FakeWebSocket,
    Nothing,
    SocketEnd,
    Unscripted,
    WebSocketEnd,
)
from zeroclaw_sdk.guest.headers import Headers, HeaderValues, encoded
from zeroclaw_sdk.guest.http.errors import DENIED_DETAIL
from zeroclaw_sdk.guest.http.target import Target
from zeroclaw_sdk.guest.network import (
    Closed,
    Ended,
    Exchange,
    HttpRequest,
    NetworkFault,
    ResponseHead,
    SocketPeer,
    WebSocketPeer,
)

__all__ = [
    "Closed",
    "Ended",
    "Failure",
    "FakeNetwork",
    "FakeSocket",
    "FakeWebSocket",
    "Nothing",
    "Reply",
    "Route",
    "SentRequest",
    "Unscripted",
    "deny",
    "fail",
    "reply",
]


@dataclass(frozen=True)
class SentRequest:
    """A request that a plugin sent. ``body`` is all of it; ``timeouts`` are connect, first byte, between bytes."""

    method: str
    url: str
    headers: Headers
    body: bytes
    timeouts: tuple[float | None, float | None, float | None]

    @property
    def json(self) -> Any:
        """The body as a JSON value."""
        return json_module.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """A response. ``body`` in several pieces arrives in them; one that ends in a :class:`Failure` breaks there."""

    status: int = 200
    headers: HeaderValues = ()
    body: bytes | str | Sequence[bytes | Failure] = b""
    json: Any = None
    """A value that becomes the body."""


Answer = Reply | Failure


@dataclass(frozen=True)
class Route:
    """An answer and what it answers. Made by :func:`reply`, :func:`fail` and :func:`deny`."""

    method: str | None
    url: str
    """A whole URL; without a query it stands for any query; ``host:…`` for everything of a host."""
    answer: Answer

    def fits(self, request: SentRequest, host: str) -> bool:
        """Whether this answers it."""
        if self.method not in (None, request.method):
            return False
        if self.url.startswith(_HOST):
            return self.url == _HOST + host
        return request.url == self.url or ("?" not in self.url and request.url.partition("?")[0] == self.url)


_HOST: Final = "host:"


def reply(
    method: str,
    url: str,
    status: int = 200,
    *,
    headers: HeaderValues = (),
    body: bytes | str | Sequence[bytes | Failure] = b"",
    json: Any = None,
) -> Route:
    """The response to a request.

    :param url: without a query it stands for any query.
    """
    return Route(method.upper(), _normal(url), Reply(status, headers, body, json))


def fail(method: str, url: str, code: str, detail: str | None = None) -> Route:
    """A request that fails with a word of ``wasi:http``, such as ``connection-timeout``."""
    return Route(method.upper(), _normal(url), Failure(code, detail))


def deny(host: str) -> Route:
    """A host that is not granted: every request to it is refused."""
    return Route(None, _HOST + host, Failure("internal-error", DENIED_DETAIL))


class FakeNetwork:
    """A network that knows what it was told, and keeps what it was asked.

    :param http: answers, looked up by method and URL; several for one request are given one after the other, the last of them
        again and again. Or a function from the request to its answer.
    :param websockets, sockets: peers by URL, and by host and port; each is connected to once.
    """

    def __init__(
        self,
        http: Iterable[Route] | Callable[[SentRequest], Answer] = (),
        websockets: Iterable[FakeWebSocket] = (),
        sockets: Iterable[FakeSocket] = (),
    ) -> None:
        self.requests: list[SentRequest] = []
        """Every request, in the order in which they were sent."""
        self.open = 0
        """Exchanges and peers that the plugin holds at the moment."""
        self.now = 0.0
        """Seconds that were waited so far."""
        self._answer = http if callable(http) else _Routes(http)
        self.looked = 0
        self._websockets = list(websockets)
        self._sockets = list(sockets)

    def http(self, request: HttpRequest) -> Exchange:
        """See :meth:`~zeroclaw_sdk.guest.network.Network.http`."""
        return _FakeExchange(self, request, self._answer)

    def websocket(
        self,
        url: str,
        headers: tuple[tuple[str, str], ...],
        subprotocols: tuple[str, ...],
        tls_profile: str | None,
    ) -> WebSocketPeer:
        """See :meth:`~zeroclaw_sdk.guest.network.Network.websocket`."""
        for peer in self._websockets:
            if peer.url == url:
                self._websockets.remove(peer)
                peer.headers = Headers((name, value.encode()) for name, value in headers)
                peer.subprotocols, peer.tls_profile = subprotocols, tls_profile
                if peer.error is not None:
                    raise NetworkFault(peer.error)
                return WebSocketEnd(self, peer)
        raise Unscripted(f"no WebSocket is scripted for {url}")

    def socket(self, host: str, port: int, mode: str, tls_profile: str | None) -> SocketPeer:
        """See :meth:`~zeroclaw_sdk.guest.network.Network.socket`."""
        for peer in self._sockets:
            if (peer.host, peer.port) == (host, port):
                self._sockets.remove(peer)
                peer.mode, peer.tls_profile = mode, tls_profile
                if peer.error is not None:
                    raise NetworkFault(peer.error)
                return SocketEnd(self, peer)
        raise Unscripted(f"no socket is scripted for {host}:{port}")

    def monotonic(self) -> float:
        """See :meth:`~zeroclaw_sdk.guest.network.Network.monotonic`."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass, at once."""
        self.now += seconds


class _Routes:
    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = list(routes)

    def __call__(self, request: SentRequest) -> Answer:
        host = Target.of(request.url).host
        fitting = [each for each in self._routes if each.fits(request, host)]
        if not fitting:
            known = ", ".join(f"{each.method or 'anything to'} {each.url}" for each in self._routes)
            raise Unscripted(
                f"no answer is scripted for {request.method} {request.url}; there is {known or 'none'}"
            )
        if len(fitting) > 1:
            self._routes.remove(fitting[0])
        return fitting[0].answer


class _FakeExchange:
    def __init__(
        self, network: FakeNetwork, request: HttpRequest, answer: Callable[[SentRequest], Answer]
    ) -> None:
        self._network = network
        self._request = request
        self._answer = answer
        self._body = bytearray()
        self._pieces: Iterator[bytes | Failure] = iter(())
        self._open = True
        network.open += 1

    def write(self, data: bytes) -> bool:
        self._body += data
        return True

    def finish(self) -> None:
        pass

    def head(self) -> ResponseHead:
        request = self._request
        sent = SentRequest(
            request.method,
            f"{request.scheme}://{request.authority}{request.target}",
            Headers(request.headers),
            bytes(self._body),
            (request.connect_timeout, request.first_byte_timeout, request.between_bytes_timeout),
        )
        self._network.requests.append(sent)
        answer = self._answer(sent)
        if isinstance(answer, Failure):
            raise NetworkFault(answer.code, answer.detail)
        headers = encoded(answer.headers)
        self._pieces = iter(_pieces(answer, headers))
        return ResponseHead(answer.status, tuple(headers))

    def read(self) -> bytes:
        for piece in self._pieces:
            if isinstance(piece, Failure):
                raise NetworkFault(piece.code, piece.detail)
            if piece:
                return piece
        return b""

    def close(self) -> None:
        self._network.open -= self._open
        self._open = False


def _pieces(answer: Reply, headers: list[tuple[str, bytes]]) -> Sequence[bytes | Failure]:
    if answer.json is not None:
        headers.append(("content-type", b"application/json"))
        return [json_module.dumps(answer.json).encode()]
    if isinstance(answer.body, str):
        return [answer.body.encode()]
    return [answer.body] if isinstance(answer.body, bytes) else answer.body


def _normal(url: str) -> str:
    """As requests are written down: a URL without a path has the path ``/``."""
    return Target.of(url).url
