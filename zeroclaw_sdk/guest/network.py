"""What a host does for a plugin's network code, below :mod:`~zeroclaw_sdk.guest.http`, ``websocket`` and ``sockets``.

A built component asks the real host (:mod:`zeroclaw_sdk.guest.wit_http`, ``wit_streams``); an author's tests script a
network of their own (:mod:`zeroclaw_sdk.fake_network`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn, Protocol


class NetworkError(Exception):
    """A request or a connection failed. ``code`` is the word of the interface for it."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class NetworkFault(Exception):
    """What a :class:`Network` fails with: the interface's word, and what it says beside it. Authors see a NetworkError."""

    def __init__(self, code: str, detail: str | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


@dataclass(frozen=True)
class HttpRequest:
    """One request, ready to be sent. The limits of time are in seconds; None leaves them to the host.

    What it is sent to and with may be secret, so that its repr shows neither path nor headers.
    """

    method: str
    scheme: str
    authority: str
    target: str = field(repr=False)
    """Path and query."""
    headers: tuple[tuple[str, bytes], ...] = field(repr=False)
    connect_timeout: float | None = None
    first_byte_timeout: float | None = None
    between_bytes_timeout: float | None = None
    content: bool = True
    """Whether a body may follow. Without one nothing is written."""


@dataclass(frozen=True)
class ResponseHead:
    """The beginning of a response."""

    status: int
    headers: tuple[tuple[str, bytes], ...]


class Exchange(Protocol):
    """A request under way and its response. Everything but :meth:`close` can raise :class:`NetworkFault`."""

    def write(self, data: bytes) -> bool:
        """Send a piece of the body, and wait until it is taken. False: the other side wants no more of it."""
        ...

    def finish(self) -> None:
        """The body is complete."""
        ...

    def head(self) -> ResponseHead:
        """Wait for the response."""
        ...

    def read(self) -> bytes:
        """Wait for a piece of the response's body; nothing at its end."""
        ...

    def close(self) -> None:
        """Let go of everything. May be called more than once."""
        ...


@dataclass(frozen=True)
class Closed:
    """The other side ended a WebSocket: with a code and a reason, or with None where it just went."""

    code: int | None = None
    reason: str = ""


class WebSocketPeer(Protocol):
    """An open WebSocket. Each call is one look; none waits for the other side. All can raise :class:`NetworkFault`."""

    def send(self, message: str | bytes) -> None:
        """Queue a message."""
        ...

    def receive(self) -> str | bytes | Closed | None:
        """The next message or the end; None when nothing has arrived."""
        ...

    def close(self, code: int | None, reason: str) -> None:
        """Begin to close."""
        ...

    def subprotocol(self) -> str | None:
        """What was agreed on."""
        ...

    def drop(self) -> None:
        """Let go of it at once."""
        ...


@dataclass(frozen=True)
class Ended:
    """A stream is over; ``reason`` is the interface's word."""

    reason: str


class SocketPeer(Protocol):
    """An open stream. Only sending waits, until the bytes are written. All but the last can raise :class:`NetworkFault`."""

    def send(self, data: bytes) -> None:
        """Write at most 16 KiB."""
        ...

    def receive(self) -> bytes | Ended | None:
        """What has arrived; None when nothing has."""
        ...

    def upgrade(self) -> None:
        """Begin TLS on a stream that was opened for it."""
        ...

    def drop(self) -> None:
        """Close it."""
        ...


class Network(Protocol):
    """Where a plugin's connections come from."""

    looked: int
    """Looks that the running call has made; :func:`looks` counts them."""

    def http(self, request: HttpRequest) -> Exchange:
        """Begin a request.

        :raises NetworkFault: it was not begun.
        """
        ...

    def websocket(
        self,
        url: str,
        headers: tuple[tuple[str, str], ...],
        subprotocols: tuple[str, ...],
        tls_profile: str | None,
    ) -> WebSocketPeer:
        """Open a WebSocket.

        :raises NetworkFault: it was not opened.
        """
        ...

    def socket(self, host: str, port: int, mode: str, tls_profile: str | None) -> SocketPeer:
        """Open a stream. ``mode`` is the interface's word: ``plaintext``, ``direct-tls``, ``start-tls``.

        :raises NetworkFault: it was not opened.
        """
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that does not go back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class NoNetwork:
    """The network of a plugin whose manifest asks for none."""

    looked = 0

    def http(self, request: HttpRequest) -> NoReturn:
        """Fails."""
        raise NetworkFault("no-permission")

    def websocket(
        self,
        url: str,
        headers: tuple[tuple[str, str], ...],
        subprotocols: tuple[str, ...],
        tls_profile: str | None,
    ) -> NoReturn:
        """Fails."""
        raise NetworkFault("no-permission")

    def socket(self, host: str, port: int, mode: str, tls_profile: str | None) -> NoReturn:
        """Fails."""
        raise NetworkFault("no-permission")

    def monotonic(self) -> float:
        """See :meth:`Network.monotonic`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """See :meth:`Network.sleep`."""
        time.sleep(seconds)


LEAST_PAUSE: Final = 0.001
LONGEST_PAUSE: Final = 0.25
_SHARE: Final = 4
_DOUBLING: Final = 100
_DOUBLINGS: Final = 8
"""After so many looks of a call, and after so many more, a pause is twice as long at least: their last one is the longest pause.
Something that nobody waits for may come all the time, and each of it has the waiting begin anew; so pauses alone would use up
the looks of a call of 30 seconds, which they do in 75 now."""


def looks(network: Network, timeout: float | None) -> Iterator[float]:
    """The moments at which a waiting function looks again, the first at once; it sleeps between them.

    A host tells nobody that something arrived, and each look is one of the 1000 host calls that one call of a plugin has.
    So a pause is a quarter of the time waited already, from 1 ms to 250 ms: an answer after 20 ms costs a dozen looks, one
    after 30 seconds some 150, and what has arrived is seen at most a quarter later than it could have been. A call that has
    looked hundreds of times pauses longer.

    :param timeout: seconds after which the last look is made; None never ends.
    """
    started = network.monotonic()
    while True:
        waited = network.monotonic() - started
        network.looked += 1
        yield waited
        least = LEAST_PAUSE * 2 ** min(network.looked // _DOUBLING, _DOUBLINGS)
        pause = min(max(waited / _SHARE, least), LONGEST_PAUSE)
        if timeout is not None:
            left = timeout - (network.monotonic() - started)
            if left <= 0:
                return
            pause = min(pause, left)
        network.sleep(pause)


NO_PERMISSION: Final = (
    "the plugin was built without the permission {permission}: add it to permissions in manifest.toml"
)
"""What an author is told where the interface is not there."""


def explained(word: str, meanings: Mapping[str, str]) -> str:
    """An interface's word with what it means; the word alone where nobody knows that."""
    meaning = meanings.get(word)
    return word if meaning is None else f"{meaning} ({word})"


def grant_hint(host: str) -> str:
    """What an author is told of a refusal. The host gives no reason, so that a plugin cannot find its way around by asking."""
    return (
        f"the host does not permit it, and says no more. An operator grants the hosts that a plugin may reach; declare this one, "
        f'and the install offers it: [egress] hosts = ["{host}"] in manifest.toml'
    )
