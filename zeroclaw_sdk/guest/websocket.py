"""WebSockets, for a plugin with the permission ``websocket_client``. Blocking::

    with websocket.connect("wss://chat.example.com/live", subprotocols=["chat.v2"]) as connection:
        connection.send("hello")
        for message in connection:
            ...

A channel that looks for news in ``poll_message`` calls :meth:`WebSocket.poll`, which never waits. Any other waiting is done by
looking again and again (:func:`~zeroclaw_sdk.guest.network.looks` says how often): the interface tells nobody that something
arrived. Every message that is sent or looked for is one of the 1000 host calls that one call of the plugin has; when they are
used up, errors say ``unavailable``.

A message has at most 1 MiB. The host answers pings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from zeroclaw_sdk.guest.headers import HeaderValues, encoded
from zeroclaw_sdk.guest.host import current_host
from zeroclaw_sdk.guest.network import (
    NO_PERMISSION,
    Closed,
    Network,
    NetworkError,
    NetworkFault,
    WebSocketPeer,
    explained,
    grant_hint,
    looks,
)

__all__ = ["ConnectionClosed", "Denied", "WebSocket", "WebSocketError", "connect"]

NORMAL: Final = 1000
"""The close code of an end that is no error."""

_BUDGET: Final = (
    "outside the calls in which a plugin has a network, or after the 1000 host calls of this one, or because the host cannot "
    "read its configuration at the moment"
)


_SAID: Final[Mapping[str, str]] = {
    "invalid-options": "the host does not take the URL, a header or the name of the TLS profile as it is; a URL begins with wss:// "
    "or ws://, names a host, and has no credentials, no fragment, no space and nothing beyond ASCII",
    "reserved-header": "host, connection, upgrade and sec-websocket-… are headers of the host's",
    "invalid-subprotocol": "a subprotocol is no token, is there twice, or there are more than 16",
    "invalid-close": "a plugin cannot close with this code, or the reason has more than 123 bytes",
    "dns-failed": "the host's name has no address",
    "connection-limit": "the plugin holds as many connections as it may; close others before opening more",
    "timeout": "it was not open after 30 seconds",
    "connect-failed": "the host could not be connected to",
    "tls-failed": "the other side does not speak TLS, is not trusted, or is not that host",
    "handshake-failed": "the other side does not open a WebSocket there, or none with these subprotocols",
    "payload-too-large": "a message has at most 1 MiB, and what arrives at most 256 KiB a frame",
    "protocol-error": "the other side does not keep to the protocol, or went without a word",
    "unavailable": _BUDGET,
}
"""What the interface's words mean to an author."""


class WebSocketError(NetworkError):
    """A connection was not made, or failed. ``code`` is the interface's word."""


class Denied(WebSocketError):
    """The destination is not granted, or has an address that may not be reached."""


class ConnectionClosed(WebSocketError):
    """The connection is over. ``close_code`` and ``reason`` are the other side's; ``close_code`` is None where it gave none."""

    def __init__(self, message: str, close_code: int | None, reason: str) -> None:
        super().__init__(message, "closed")
        self.close_code = close_code
        self.reason = reason


def connect(
    url: str,
    *,
    headers: HeaderValues | None = None,
    subprotocols: list[str] | tuple[str, ...] = (),
    tls_profile: str | None = None,
) -> WebSocket:
    """Open a WebSocket.

    :param url: ``wss://`` or ``ws://``; it holds no credentials.
    :param headers: further fields of the opening request. Those of WebSocket itself, ``host`` and ``connection`` are the host's.
    :param subprotocols: what the plugin can speak, the best first.
    :param tls_profile: certificates that the operator configured under this name.
    :raises WebSocketError: it was not opened; ``code`` says why.
    :raises Denied: the destination is not granted.
    :raises ValueError: a header cannot be sent.
    """
    network = current_host().network
    fields = tuple((name, value.decode()) for name, value in encoded(headers))
    origin, host = _shown(url)
    try:
        peer = network.websocket(url, fields, tuple(subprotocols), tls_profile)
    except NetworkFault as fault:
        raise _error_of(fault, origin, host, tls_profile) from None
    return WebSocket(network, peer, origin, host)


class WebSocket:
    """An open connection, until :meth:`close` or the end of a ``with`` block."""

    def __init__(self, network: Network, peer: WebSocketPeer, origin: str, host: str) -> None:
        self._network = network
        self._peer = peer
        self._origin = origin
        self._host = host
        self._end: Closed | NetworkFault | None = None
        """Why every later call fails, from the moment the end was seen."""

    @property
    def subprotocol(self) -> str | None:
        """What both sides agreed to speak; None when the server chose nothing.

        :raises WebSocketError: the host cannot say.
        """
        try:
            return self._peer.subprotocol()
        except NetworkFault as fault:
            raise _error_of(fault, self._origin, self._host) from None

    def send(self, message: str | bytes, timeout: float | None = None) -> None:
        """Send a text or bytes. While the other side takes nothing, this waits.

        :param timeout: seconds to wait; None waits as long as the call may take.
        :raises TimeoutError: they passed. The message was not sent, and the connection goes on.
        :raises ConnectionClosed: the connection is over.
        :raises WebSocketError: it cannot be sent; ``payload-too-large`` when it has more than 1 MiB.
        """
        self._usable()
        if not isinstance(message, str | bytes | bytearray | memoryview):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped authors
            raise TypeError(f"a message is a text or bytes, not {type(message).__name__}")
        whole = message if isinstance(message, str) else bytes(message)
        for _ in looks(self._network, timeout):
            try:
                self._peer.send(whole)
            except NetworkFault as fault:
                if fault.code != "queue-full":
                    raise self._failed(fault) from None
            else:
                return
        raise TimeoutError(f"{self._origin}: the other side takes no message")

    def poll(self) -> str | bytes | None:
        """The next message if one has arrived; None otherwise. Does not wait, and costs one host call.

        :raises ConnectionClosed: the connection is over, and every message was taken.
        :raises WebSocketError: it failed.
        """
        self._usable()
        try:
            event = self._peer.receive()
        except NetworkFault as fault:
            raise self._failed(fault) from None
        if isinstance(event, Closed):
            self._end = event
            raise _closed(self._origin, event)
        return event

    def receive(self, timeout: float | None = None) -> str | bytes:
        """Wait for the next message.

        :param timeout: seconds to wait; None waits as long as the call may take.
        :raises TimeoutError: they passed. The connection goes on.
        :raises ConnectionClosed: the connection is over, and every message was taken.
        :raises WebSocketError: it failed.
        """
        for _ in looks(self._network, timeout):
            if (message := self.poll()) is not None:
                return message
        raise TimeoutError(f"{self._origin}: no message arrived")

    def __iter__(self) -> Iterator[str | bytes]:
        """Messages until the other side ends the connection without an error.

        :raises ConnectionClosed: it ended with another code than 1000 or 1001, or without one.
        :raises WebSocketError: it failed.
        """
        while True:
            try:
                message = self.receive()
            except ConnectionClosed as closed:
                if closed.close_code in (NORMAL, 1001):
                    return
                raise
            yield message

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Say goodbye and let go of the connection. Does nothing when it is over already.

        :param code: 1000, another registered code that an application may send, or 3000 to 4999.
        :param reason: at most 123 bytes.
        :raises WebSocketError: ``invalid-close``; the connection goes on.
        """
        if self._end is not None:
            self._peer.drop()
            return
        try:
            self._peer.close(code, reason)
            # Dropping at once would keep the goodbye from being sent: the answer to it is waited for, the host says how long.
            for _ in looks(self._network, CLOSE_SECONDS):
                if isinstance(self._peer.receive(), Closed):
                    break
        except NetworkFault as fault:
            if fault.code == "invalid-close":
                raise _error_of(fault, self._origin, self._host) from None
        self._end = Closed(code, reason)
        self._peer.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:  # the plugin is in trouble: no more waiting
            self._end = self._end or Closed()
            self._peer.drop()

    def __repr__(self) -> str:
        return f"<WebSocket {self._origin}>"

    def _usable(self) -> None:
        if isinstance(self._end, Closed):
            raise _closed(self._origin, self._end)
        if self._end is not None:
            raise _error_of(self._end, self._origin, self._host)

    def _failed(self, fault: NetworkFault) -> WebSocketError:
        if fault.code not in ("payload-too-large", "unavailable"):  # neither of these ends the connection
            self._end = fault
        return _error_of(fault, self._origin, self._host)


CLOSE_SECONDS: Final = 5.0
"""Seconds the other side has to answer a goodbye; the host gives up then as well."""


def _shown(url: str) -> tuple[str, str]:
    """Origin and host of a URL, which is all that an error may show of it."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "the WebSocket", ""
    authority = parts.netloc.rpartition("@")[2]
    return (f"{parts.scheme}://{authority}" if parts.scheme in ("ws", "wss") else "the WebSocket"), host


def _closed(origin: str, end: Closed) -> ConnectionClosed:
    how = "without a word" if end.code is None else f"with code {end.code}"
    return ConnectionClosed(f"{origin}: the connection ended {how}", end.code, end.reason)


def _error_of(fault: NetworkFault, origin: str, host: str, tls_profile: str | None = None) -> WebSocketError:
    match fault.code:
        case "no-permission":
            said = NO_PERMISSION.format(permission="websocket_client")
        case "destination-denied" | "access-denied":
            hint = grant_hint(host)
            if tls_profile is not None:
                hint += f". It may also have no TLS profile {tls_profile!r} for this host"
            return Denied(f"{origin}: {hint}", fault.code)
        case "closed":
            return _closed(origin, Closed())
        case word:
            said = explained(word, _SAID)
    return WebSocketError(f"{origin}: {said}", fault.code)
