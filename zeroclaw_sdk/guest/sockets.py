"""Streams over TCP, with and without TLS, for a plugin with the permission ``socket_client``. Blocking::

    with sockets.connect("mail.example.com", 143, tls="starttls") as connection:
        connection.read_line()
        connection.send(b"a starttls\\r\\n")
        if connection.read_line().startswith(b"a OK"):
            connection.start_tls()

A channel that looks for news in ``poll_message`` calls :meth:`Socket.poll`, which never waits. Any other waiting is done by
looking again and again (:func:`~zeroclaw_sdk.guest.network.looks` says how often): the interface tells nobody that something
arrived. Every piece that is sent (16 KiB at most) or looked for is one of the 1000 host calls that one call of the plugin has;
when they are used up, errors say ``host-unavailable``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Final, Literal, Self

from zeroclaw_sdk.guest.host import current_host
from zeroclaw_sdk.guest.network import (
    NO_PERMISSION,
    Ended,
    Network,
    NetworkError,
    NetworkFault,
    SocketPeer,
    explained,
    grant_hint,
    looks,
)

__all__ = ["CHUNK", "Denied", "Socket", "SocketError", "connect"]

CHUNK: Final = 16 * 1024
"""Bytes that the host takes at once."""

LINE: Final = 64 * 1024
"""Bytes that a line may have unless its reader says otherwise."""

_LARGEST_PORT: Final = 65_535
_MODES: Final = {None: "plaintext", "direct": "direct-tls", "starttls": "start-tls"}


_SAID: Final[Mapping[str, str]] = {
    "invalid-request": "the host takes no such host, or has no such TLS profile, or it is named without TLS",
    "resolution-failed": "the host's name has no address",
    "connection-limit": "the plugin holds as many connections as it may; close others before opening more",
    "connect-failed": "the host could not be connected to",
    "tls-configuration-failed": "the certificates that the TLS profile names cannot be used",
    "tls-handshake-failed": "the other side does not speak TLS, is not trusted, or is not that host",
    "tls-upgrade-failed": "TLS could not be begun",
    "io-error": "the stream broke",
    "host-closed": "the host closed the stream",
    "invalid-state": "the stream is not where this can be done",
    "closed": "the connection was closed",
    "host-unavailable": "outside the calls in which a plugin has a network, or after the 1000 host calls of this one, or because "
    "the host's grants cannot be read at the moment",
}
"""What the interface's words mean to an author."""


class SocketError(NetworkError):
    """A connection was not made, or failed. ``code`` is the interface's word, or why the connection ended."""


class Denied(SocketError):
    """The destination is not granted, or has an address that may not be reached."""


def connect(
    host: str,
    port: int,
    *,
    tls: Literal["direct", "starttls"] | None = "direct",
    tls_profile: str | None = None,
) -> Socket:
    """Open a stream.

    :param tls: ``"direct"``: TLS from the first byte; ``"starttls"``: plain until :meth:`Socket.start_tls`; None: plain.
    :param tls_profile: certificates that the operator configured under this name.
    :raises SocketError: it was not opened; ``code`` says why.
    :raises Denied: the destination is not granted.
    :raises ValueError: the port or the kind of TLS is none.
    """
    if not 0 < port <= _LARGEST_PORT:
        raise ValueError("a port is a number from 1 to 65535")
    if tls not in _MODES:
        raise ValueError('tls is "direct", "starttls" or None')
    network = current_host().network
    try:
        peer = network.socket(host, port, _MODES[tls], tls_profile)
    except NetworkFault as fault:
        raise _error_of(fault, host, port) from None
    return Socket(network, peer, host, port, plain_at_first=tls == "starttls")


class Socket:
    """An open stream, until :meth:`close` or the end of a ``with`` block.

    Reading waits for the other side. Every reading function takes ``timeout``, in seconds; None waits as long as the call may
    take. When they pass, TimeoutError is raised, nothing that arrived is lost, and the connection goes on.
    """

    def __init__(
        self, network: Network, peer: SocketPeer, host: str, port: int, *, plain_at_first: bool
    ) -> None:
        self._network = network
        self._peer = peer
        self._host = host
        self._port = port
        self._plain_at_first = plain_at_first
        self._read = bytearray()
        """What has arrived and was not asked for yet."""
        self._over = False
        self._broken: NetworkFault | None = None
        """Why every later call fails."""

    def send(self, data: bytes, timeout: float | None = None) -> None:
        """Write all of it.

        :raises TimeoutError: the other side takes no more. A part of it may have been written: there is nothing to go on with.
        :raises SocketError: it cannot be written.
        """
        self._usable()
        view = memoryview(data)
        for start in range(0, len(view), CHUNK):
            self._send_chunk(bytes(view[start : start + CHUNK]), timeout)

    def poll(self) -> bytes | None:
        """What has arrived: None if nothing has, nothing (``b""``) if the other side ended the stream. Costs one host call.

        :raises SocketError: the stream broke.
        """
        if self._read:
            return self._take(len(self._read))
        return self._look()

    def receive(self, timeout: float | None = None) -> bytes:
        """Wait for bytes, at most 16 KiB; ``b""`` when the other side ended the stream.

        :raises SocketError: the stream broke.
        """
        for _ in looks(self._network, timeout):
            if (data := self.poll()) is not None:
                return data
        raise self._late()

    def read_until(self, end: bytes, timeout: float | None = None, *, limit: int = LINE) -> bytes:
        """Everything up to and with ``end``. At the end of the stream: what is left, which then does not end with it.

        :param limit: bytes that may come before it ends.
        :raises SocketError: the stream broke; ``too-long`` when more than ``limit`` bytes came.
        """
        if not end:
            raise ValueError("something ends what is read")
        searched = 0
        for _ in looks(self._network, timeout):
            while True:
                found = self._read.find(end, max(searched - len(end) + 1, 0), limit + len(end))
                if found >= 0:
                    return self._take(found + len(end))
                searched = len(self._read)
                if searched >= limit + len(end):
                    raise SocketError(
                        f"{self._name}: more than {limit} bytes came before the end", "too-long"
                    )
                data = self._look()
                if data is None:
                    break
                if not data:
                    return self._take(len(self._read))
                self._read += data
        raise self._late()

    def read_line(self, timeout: float | None = None, *, limit: int = LINE) -> bytes:
        """One line without its end, LF or CR LF. ``b""`` for an empty line.

        :param limit: bytes that it may have.
        :raises EOFError: the stream is over, and there is no line left.
        :raises SocketError: the stream broke; ``too-long`` when the line has more than ``limit`` bytes.
        """
        line = self.read_until(b"\n", timeout, limit=limit)
        if not line:
            raise EOFError(f"{self._name}: the other side ended the stream")
        return line.removesuffix(b"\n").removesuffix(b"\r")

    def read_exactly(self, size: int, timeout: float | None = None) -> bytes:
        """Exactly so many bytes.

        :raises EOFError: the stream ended before. What came can still be read.
        :raises SocketError: the stream broke.
        """
        for _ in looks(self._network, timeout):
            while len(self._read) < size:
                data = self._look()
                if data is None:
                    break
                if not data:
                    raise EOFError(
                        f"{self._name}: the other side ended the stream after {len(self._read)} bytes"
                    )
                self._read += data
            else:
                return self._take(size)
        raise self._late()

    def start_tls(self) -> None:
        """Go on under TLS, once the other side has agreed to it in plain text.

        :raises SocketError: ``invalid-state`` when the stream was not opened with ``tls="starttls"``, or something came in plain
            text after what was read: whoever sent it could be anybody, and it must not be taken for what comes under TLS.
            ``tls-handshake-failed`` when the other side is not trusted or is not that host; the stream is over then.
        """
        self._usable()
        if not self._plain_at_first:
            raise SocketError(f'{self._name}: the stream was not opened with tls="starttls"', "invalid-state")
        if self._read:
            raise SocketError(
                f"{self._name}: something came in plain text after the agreement on TLS", "invalid-state"
            )
        try:
            self._peer.upgrade()
        except NetworkFault as fault:
            raise self._failed(fault) from None
        self._plain_at_first = False

    def close(self) -> None:
        """Let go of the connection. May be called more than once."""
        self._broken = self._broken or NetworkFault("closed")
        self._peer.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Socket {self._name}>"

    @property
    def _name(self) -> str:
        return f"{self._host}:{self._port}"

    def _send_chunk(self, chunk: bytes, timeout: float | None) -> None:
        for _ in looks(self._network, timeout):
            try:
                self._peer.send(chunk)
            except NetworkFault as fault:
                if fault.code != "backpressure":
                    raise self._failed(fault) from None
            else:
                return
        raise TimeoutError(f"{self._name}: the other side takes no more")

    def _look(self) -> bytes | None:
        """One look; nothing at the end."""
        if self._over:
            return b""
        self._usable()
        try:
            event = self._peer.receive()
        except NetworkFault as fault:
            raise self._failed(fault) from None
        if isinstance(event, Ended):
            if event.reason != "peer-closed":
                raise self._failed(NetworkFault(event.reason))
            self._over = True
            return b""
        return event

    def _take(self, size: int) -> bytes:
        taken = bytes(self._read[:size])
        del self._read[:size]
        return taken

    def _late(self) -> TimeoutError:
        return TimeoutError(f"{self._name}: nothing arrived in time")

    def _usable(self) -> None:
        if self._broken is not None:
            raise _error_of(self._broken, self._host, self._port)

    def _failed(self, fault: NetworkFault) -> SocketError:
        if fault.code != "host-unavailable":  # the next call of the plugin may find it well again
            self._broken = fault
        return _error_of(fault, self._host, self._port)


def _error_of(fault: NetworkFault, host: str, port: int) -> SocketError:
    where = f"{host}:{port}"
    match fault.code:
        case "no-permission":
            said = NO_PERMISSION.format(permission="socket_client")
        case "access-denied":
            return Denied(f"{where}: {grant_hint(host)}", fault.code)
        case word:
            said = explained(word, _SAID)
    return SocketError(f"{where}: {said}", fault.code)
