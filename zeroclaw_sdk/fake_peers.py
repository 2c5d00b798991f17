"""The far ends of WebSockets and streams, for an author's tests: what they send, as a test wrote it down, and what they saw."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from zeroclaw_sdk.guest.headers import Headers
from zeroclaw_sdk.guest.network import Closed, Ended, NetworkFault

PATIENCE: Final = 600.0
"""Seconds of the network's own time that a plugin may wait for what no script holds. No call of a plugin takes as long."""

_SOCKET_CHUNK: Final = 16 * 1024
_MESSAGE: Final = 1024 * 1024
"""Bytes that a host takes at once, on a stream and on a WebSocket."""


class Unscripted(AssertionError):
    """A plugin asked for something that the test did not write down, or waits for something that never comes."""


@dataclass(frozen=True)
class Failure:
    """What the host fails with: the interface's word, such as ``connection-refused`` or ``access-denied``."""

    code: str
    detail: str | None = None


@dataclass(frozen=True)
class Nothing:
    """In what a peer sends: nothing arrives for this many seconds."""

    seconds: float


class Passing(Protocol):
    """What a far end knows of the network that it is in: its time, and how much the plugin holds of it."""

    now: float
    open: int


@dataclass
class FakeWebSocket:
    """The other side of a WebSocket, and what it saw.

    ``incoming`` is what it sends: texts, bytes, :class:`Nothing`, a :class:`Failure`, and :class:`Closed` at the end. ``answer``
    is asked for more with each message of the plugin. ``error`` refuses the connection, ``busy`` is how often it takes no message.
    """

    url: str
    incoming: Iterable[str | bytes | Nothing | Failure | Closed] = ()
    answer: Callable[[str | bytes], Iterable[str | bytes | Nothing | Failure | Closed]] | None = None
    subprotocol: str | None = None
    error: str | None = None
    busy: int = 0
    sent: list[str | bytes] = field(default_factory=list[str | bytes], init=False)
    closed: Closed | None = field(default=None, init=False)
    """The plugin's goodbye."""
    headers: Headers = field(default_factory=lambda: Headers(()), init=False)
    subprotocols: tuple[str, ...] = field(default=(), init=False)
    tls_profile: str | None = field(default=None, init=False)


@dataclass
class FakeSocket:
    """The other side of a stream, and what it saw.

    ``incoming`` is what it sends: bytes, :class:`Nothing`, :class:`Ended` at the end. ``answer`` is asked for more with everything
    that the plugin sends. ``error`` refuses the connection, ``tls_error`` the change to TLS; ``busy`` is how often it takes nothing.
    """

    host: str
    port: int
    incoming: Iterable[bytes | Nothing | Failure | Ended] = ()
    answer: Callable[[bytes], Iterable[bytes | Nothing | Failure | Ended]] | None = None
    error: str | None = None
    tls_error: str | None = None
    busy: int = 0
    sent: list[bytes] = field(default_factory=list[bytes], init=False)
    mode: str = field(default="", init=False)
    upgraded_after: int | None = field(default=None, init=False)
    """How many pieces had been sent in plain text when TLS began."""
    tls_profile: str | None = field(default=None, init=False)


class _Peer:
    """What both kinds of peers do alike: send what is in their script, and take what the plugin sends."""

    def __init__(self, network: Passing, script: Iterable[Any], busy: int) -> None:
        self._network = network
        self._script: deque[Any] = deque(script)
        self._busy = busy
        self._quiet_until: float | None = None
        self._idle_since: float | None = None
        self._open = True
        network.open += 1

    def next(self, what: str) -> Any:
        """What has arrived by now, None if nothing has."""
        now = self._network.now
        if self._script and isinstance(self._script[0], Nothing):
            if self._quiet_until is None:
                self._quiet_until = now + self._script[0].seconds
            if now < self._quiet_until:
                return None
            self._quiet_until = None
            self._script.popleft()
            return self.next(what)
        if not self._script:
            self._idle_since = now if self._idle_since is None else self._idle_since
            if now - self._idle_since > PATIENCE:
                raise Unscripted(f"{what}: the plugin waits, and nothing more is scripted")
            return None
        self._idle_since = None
        event = self._script[0] if isinstance(self._script[0], Closed | Ended) else self._script.popleft()
        if isinstance(event, Failure):
            raise NetworkFault(event.code, event.detail)
        return event

    def refuse_while_busy(self, word: str) -> None:
        """Take nothing as often as the test says."""
        if self._busy:
            self._busy -= 1
            raise NetworkFault(word)

    def drop(self) -> None:
        """The plugin is done with it."""
        self._network.open -= self._open
        self._open = False


class WebSocketEnd(_Peer):
    """A :class:`~zeroclaw_sdk.guest.network.WebSocketPeer` that follows a script."""

    def __init__(self, network: Passing, seen: FakeWebSocket) -> None:
        super().__init__(network, seen.incoming, seen.busy)
        self._seen = seen

    def send(self, message: str | bytes) -> None:
        if len(message if isinstance(message, bytes) else message.encode()) > _MESSAGE:
            raise NetworkFault("payload-too-large")
        self.refuse_while_busy("queue-full")
        self._seen.sent.append(message)
        if self._seen.answer is not None:
            self._script.extend(self._seen.answer(message))

    def receive(self) -> str | bytes | Closed | None:
        return self.next(self._seen.url)

    def close(self, code: int | None, reason: str) -> None:
        self._seen.closed = Closed(code, reason)
        self._script = deque([self._seen.closed])

    def subprotocol(self) -> str | None:
        return self._seen.subprotocol


class SocketEnd(_Peer):
    """A :class:`~zeroclaw_sdk.guest.network.SocketPeer` that follows a script."""

    def __init__(self, network: Passing, seen: FakeSocket) -> None:
        super().__init__(network, seen.incoming, seen.busy)
        self._seen = seen

    def send(self, data: bytes) -> None:
        if len(data) > _SOCKET_CHUNK:
            raise NetworkFault("chunk-too-large")
        self.refuse_while_busy("backpressure")
        self._seen.sent.append(data)
        if self._seen.answer is not None:
            self._script.extend(self._seen.answer(data))

    def receive(self) -> bytes | Ended | None:
        return self.next(f"{self._seen.host}:{self._seen.port}")

    def upgrade(self) -> None:
        if self._seen.tls_error is not None:
            raise NetworkFault(self._seen.tls_error)
        self._seen.upgraded_after = len(self._seen.sent)
