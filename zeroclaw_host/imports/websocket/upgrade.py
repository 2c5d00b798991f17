"""The opening handshake: from a fresh connection to one that speaks WebSocket, as one attempt of the dialer."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from websockets.client import ClientProtocol
from websockets.datastructures import Headers
from websockets.exceptions import InvalidHeader, NegotiationError
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.failures import AttemptFailed, ConnectionBroken, TlsBroken
from zeroclaw_host.imports.websocket.options import ConnectOptions

MAX_MESSAGE_BYTES: Final = 1024 * 1024
"""A message, in either direction."""
MAX_FRAME_BYTES: Final = 256 * 1024
"""A frame of the peer's. Ours carry a message each."""

MAX_RESPONSE_BYTES: Final = 64 * 1024
"""The head of the peer's answer. Servers bound what they take of a client to a quarter of it or less."""

_PIECE: Final = 4096
"""Bytes read at once: an answer fits in one, as a rule."""

_HEAD_END: Final = b"\r\n\r\n"

_PROTOCOL_HEADER: Final = "Sec-WebSocket-Protocol"
_EXTENSIONS_HEADER: Final = "Sec-WebSocket-Extensions"

# The library's own logger would tell headers, which hold secrets, to whoever listens for debugging.
_SILENT: Final = logging.Logger("websocket", logging.CRITICAL + 1)


class UpgradeFailed(AttemptFailed):
    """The peer does not go on as a WebSocket. ``word`` is the interface's error."""

    code = "upgrade_failed"

    def __init__(self, word: str, why: str) -> None:
        self.word = word
        super().__init__(f"the upgrade failed: {why}", details={"word": word})


class Upgrade:
    """What the dialer does with each address's fresh connection. Afterwards it holds what the last attempt came to."""

    def __init__(self, options: ConnectOptions) -> None:
        self._options = options
        self.protocol = _protocol(options)
        """The library's state of the connection that was upgraded."""
        self.rest = b""
        """What the peer sent behind its answer: the first bytes of its frames."""

    def __call__(self, connection: Connection, deadline: Deadline) -> None:
        """Ask for the upgrade and read the answer's head. Nothing is followed, a redirect no more than anything else.

        :raises UpgradeFailed: the peer said no, or what it said is no answer.
        :raises TimeIsUp: the deadline passed, however many bytes came until then.
        :raises DialCancelled: the deadline was cancelled.
        """
        self.protocol = _protocol(self._options)  # each attempt with a key of its own
        self.protocol.send_request(request_of(self.protocol, self._options))
        try:
            with suppress(ConnectionBroken):  # a peer that takes nothing more may have said why
                connection.send(b"".join(self.protocol.data_to_send()), deadline)
            self.rest = self._read_head(connection, deadline)
        except ConnectionBroken as error:
            word = "tls-failed" if isinstance(error, TlsBroken) else "handshake-failed"
            raise UpgradeFailed(word, error.message) from error
        if self.protocol.state is not State.OPEN:
            raise self._failed()
        self.protocol.events_received()

    def _read_head(self, connection: Connection, deadline: Deadline) -> bytes:
        """Give the library the answer until its head is over or cannot be one any more; what came behind it.

        The library would read the body of a refusal as well, for as long as that takes. Nobody wants it.
        """
        seen = bytearray()
        while self.protocol.handshake_exc is None:
            data = connection.receive(_PIECE, deadline)
            if not data:
                raise UpgradeFailed("handshake-failed", "the peer ended the connection")
            begin = max(len(seen) - len(_HEAD_END) + 1, 0)
            fed = len(seen)
            seen += data
            end = seen.find(_HEAD_END, begin)
            head = len(seen) if end < 0 else end + len(_HEAD_END)
            if head > MAX_RESPONSE_BYTES:
                raise UpgradeFailed(
                    "handshake-failed", f"the answer's head has more than {MAX_RESPONSE_BYTES} bytes"
                )
            self.protocol.receive_data(bytes(seen[fed:head]))
            if end >= 0:
                return bytes(seen[head:])
        return b""

    def _failed(self) -> UpgradeFailed:
        """Why the answer is none. Only its shape is told, never its text."""
        error = self.protocol.handshake_exc
        answers = [event for event in self.protocol.events_received() if isinstance(event, Response)]
        headers = answers[0].headers if answers else Headers()
        chosen = isinstance(error, NegotiationError) and _EXTENSIONS_HEADER not in headers
        if chosen or (isinstance(error, InvalidHeader) and error.name == _PROTOCOL_HEADER):
            return UpgradeFailed("invalid-subprotocol", "the peer chose a subprotocol that was not offered")
        if answers:
            return UpgradeFailed(
                "handshake-failed", f"the peer answered with status {answers[0].status_code}"
            )
        return UpgradeFailed("handshake-failed", "the peer's answer is no upgrade")


def _protocol(options: ConnectOptions) -> ClientProtocol:
    """Without extensions: what a compressed frame unpacks to could not be bounded before it is."""
    uri = WebSocketURI(options.secure, options.host, options.port, options.path, options.query)
    return ClientProtocol(
        uri,
        subprotocols=[Subprotocol(name) for name in options.subprotocols] or None,
        max_size=(MAX_MESSAGE_BYTES, MAX_FRAME_BYTES),
        logger=_SILENT,
    )


def request_of(protocol: ClientProtocol, options: ConnectOptions) -> Request:
    """The request that asks for the upgrade: the library's own headers, then the guest's."""
    request = protocol.connect()
    for name, value in options.headers:
        request.headers[name] = value  # one more of that name, where there is one already
    return request
