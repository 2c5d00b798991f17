"""A WebSocket connection of a guest's: its resource on one side, a handler on the I/O loop on the other.

The guest only looks: nothing here waits. Two threads meet, the guest's and the loop's, each holding the lock for as long as
one call takes. Who may call when: :class:`~zeroclaw_host.egress.io_loop.IoHandler`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from websockets.client import ClientProtocol
from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.frames import CloseCode, Frame
from websockets.protocol import State

from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.failures import ConnectionBroken, ConnectionClosed
from zeroclaw_host.egress.io_loop import PROCESS_LOOP, READABLE, WRITABLE, Attachment, IoLoop
from zeroclaw_host.imports.websocket.closing import CloseFrame
from zeroclaw_host.imports.websocket.messages import Assembly
from zeroclaw_host.imports.websocket.outbox import Outbox
from zeroclaw_host.imports.websocket.refusal import Refused
from zeroclaw_host.imports.websocket.upgrade import MAX_MESSAGE_BYTES

MAX_OUTBOUND: Final = 4
"""Messages of the guest's that are not with the system yet."""
MAX_INBOUND: Final = 4
"""Events that the guest has not taken yet. With so many, the peer is left waiting."""
CLOSE_SECONDS: Final = 5.0
"""From the first close frame to the end of the connection, whatever the peer does."""

_MAX_REPLIES: Final = 16 * 1024
"""Bytes of answers that the peer does not take. With so many it is not read from: a flood of pings ends there."""

_PIECE: Final = 64 * 1024
"""Bytes read at once: no more than a socket's buffer has, as a rule."""
_SLICE: Final = 512
"""Bytes given to the parser at once. It parses all it gets, so this is how many events there may be beyond the bound: the
smallest message has two bytes."""
_SLICES: Final = 8
"""Slices parsed in a row, before other connections and the guest get their turn. Of the smallest frames, which take a parser
the longest, this is 2048."""

Event = tuple[str, object]
"""The interface's ``event`` variant."""


class WebSocketConnection:
    """The resource ``connection``.

    :param connection: upgraded, and this object's from now on.
    :param rest: what was read of it behind the upgrade's answer.
    :param clock: seconds that only grow, on the loop's scale.
    """

    def __init__(
        self,
        connection: Connection,
        protocol: ClientProtocol,
        rest: bytes = b"",
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._protocol = protocol
        self._unread = memoryview(rest)
        self._clock = clock
        self._lock = threading.Lock()
        self._attachment: Attachment | None = None
        self._assembly = Assembly()
        self._inbound: deque[Event] = deque()
        self._outbox = Outbox()
        self._expires: float | None = None
        self._more = False
        self._over = False
        self._terminal: Event | None = None

    def start(self, loop: IoLoop = PROCESS_LOOP) -> None:
        """Have the loop read and write from here on.

        :raises OSError: the loop cannot begin. The connection is closed.
        """
        try:
            with suppress(
                ConnectionClosed
            ):  # it came to an end already: what there is to say of it waits to be taken
                self._attachment = loop.attach(self._connection, self)
        except OSError:
            self.close()
            raise

    # --- the guest's side -------------------------------------------------------------------------------------------

    @property
    def subprotocol(self) -> str | None:
        """What the peer chose of the subprotocols that were offered."""
        return self._protocol.subprotocol

    def send(self, kind: str, content: str | bytes) -> None:
        """Queue a message.

        :raises Refused: ``payload-too-large``; ``closed`` once either side began to close; ``queue-full``.
        """
        if len(content) > MAX_MESSAGE_BYTES:
            raise Refused("payload-too-large")
        data = content.encode() if isinstance(content, str) else content
        if len(data) > MAX_MESSAGE_BYTES:
            raise Refused("payload-too-large")
        with self._lock:
            if not self._open:
                raise Refused("closed")
            if self._outbox.messages >= MAX_OUTBOUND:
                raise Refused("queue-full")
            if kind == "text":
                self._protocol.send_text(data)
            else:
                self._protocol.send_binary(data)
            self._outbox.add_message(self._protocol.data_to_send())
        self._poke()

    def receive(self) -> Event | None:
        """The next event, or None. The last one says how the connection ended.

        :raises Refused: ``closed``: that one was taken.
        """
        with self._lock:
            if self._connection.closed and not self._over:
                # The loop closes a connection whose handler failed. Nobody is to wait for events that cannot come.
                self._end(("failed", "unavailable"))
            paused = len(self._inbound) >= MAX_INBOUND
            if self._inbound:
                event = self._inbound.popleft()
            elif self._terminal is not None:
                event, self._terminal = self._terminal, None
            elif self._over:
                raise Refused("closed")
            else:
                return None
        if paused:
            self._poke()
        return event

    def finish(self, frame: CloseFrame | None) -> None:
        """Begin the closing handshake, behind the messages that are queued. How it ends is the last event.

        :param frame: what to say; None says nothing.
        :raises Refused: ``closed``: either side has begun to close before.
        """
        with self._lock:
            if not self._open:
                raise Refused("closed")
            if frame is None:
                self._protocol.send_close()
            else:
                self._protocol.send_close(frame.code, frame.reason)
            self._outbox.add_replies(self._protocol.data_to_send())
            self._expires = self._clock() + CLOSE_SECONDS
        self._poke()

    def close(self) -> None:
        """The handle was dropped: end it at once, without a word to the peer."""
        with self._lock:
            self._terminal = None
            self._end(None)

    # --- the loop's side --------------------------------------------------------------------------------------------

    def wanted(self) -> int:
        """See :class:`~zeroclaw_host.egress.io_loop.IoHandler`."""
        with self._lock:
            if self._over:
                return 0
            return (READABLE if self._hungry else 0) | (WRITABLE if self._outbox else 0)

    def moment(self) -> float | None:
        """See :class:`~zeroclaw_host.egress.io_loop.IoHandler`."""
        with self._lock:
            if self._over:
                return None
            return self._clock() if self._more else self._expires

    def ready(self) -> None:
        """See :class:`~zeroclaw_host.egress.io_loop.IoHandler`."""
        with self._lock:
            if self._over:
                return
            try:
                self._read()
                full = not self._hungry
                self._write()
                if full and self._hungry:
                    self._more = True  # room for what was read before, or waits inside TLS: the descriptor tells of neither
            except ConnectionBroken:
                self._end(self._broken_off("unavailable"))
            except ConnectionClosed:
                self._end(("failed", "unavailable"))
            if not self._over and self._expires is not None and self._clock() >= self._expires:
                self._end(self._closed())

    # --- inside, under the lock -------------------------------------------------------------------------------------

    @property
    def _open(self) -> bool:
        """Neither side has begun to close it."""
        return not self._connection.closed and self._protocol.state is State.OPEN

    @property
    def _hungry(self) -> bool:
        """Whether more of the peer's bytes are wanted."""
        return (
            not self._over
            and self._protocol.close_rcvd is None
            and len(self._inbound) < MAX_INBOUND
            and self._outbox.replies < _MAX_REPLIES
        )

    def _read(self) -> None:
        self._more = False
        for _ in range(_SLICES):
            if not self._hungry:
                return
            if not self._unread:
                data = self._connection.receive_now(_PIECE)
                if data is None:
                    return
                if not data:
                    self._end(self._broken_off("protocol-error"))
                    return
                self._unread = memoryview(data)
            self._parse()
        self._more = self._hungry

    def _parse(self) -> None:
        """Give the parser a slice of what was read."""
        piece, self._unread = bytes(self._unread[:_SLICE]), self._unread[_SLICE:]
        self._protocol.receive_data(piece)
        fault = self._take(self._protocol.events_received())
        closed = self._protocol.close_rcvd is not None
        if not closed:  # a close frame between two fragments is no fault, whatever the library says
            fault = fault or _fault_of(self._protocol.parser_exc)
        self._outbox.add_replies(self._protocol.data_to_send())
        if fault is not None:
            self._fail(fault)
        elif closed and self._expires is None:
            self._expires = self._clock() + CLOSE_SECONDS

    def _take(self, events: Sequence[object]) -> str | None:
        """Queue the messages that these frames complete; the word for what is wrong with one of them."""
        for frame in events:
            if not isinstance(frame, Frame):
                continue
            try:
                message = self._assembly.add(frame)
            except UnicodeDecodeError:
                self._protocol.fail(CloseCode.INVALID_DATA)
                return "protocol-error"
            if message is not None:
                self._inbound.append(("message", message))
        return None

    def _write(self) -> None:
        if self._over:
            return
        self._outbox.flush(self._connection.send_now)
        if not self._outbox and self._protocol.close_rcvd is not None:
            self._end(self._closed())  # both have said all they have to say

    def _fail(self, word: str) -> None:
        """The peer broke the rules. It is told as far as it listens, and that is the end of it."""
        with suppress(ConnectionBroken, ConnectionClosed):
            self._outbox.flush(self._connection.send_now)
        self._end(("failed", word))

    def _broken_off(self, word: str) -> Event:
        """The connection ended without a close frame: what that is depends on whether anybody wanted it to end."""
        return ("failed", word) if self._expires is None else self._closed()

    def _closed(self) -> Event:
        """The peer's own close frame, where it sent one with a code."""
        received = self._protocol.close_rcvd
        if received is None or received.code == CloseCode.NO_STATUS_RCVD:
            return ("closed", None)
        return ("closed", CloseFrame(received.code, received.reason).record())

    def _end(self, event: Event | None) -> None:
        """Let everything go but the events that wait to be taken. The slot is free from here on."""
        if not self._over:
            self._over = True
            self._terminal = event
        if event is None:
            self._inbound.clear()
        self._outbox.clear()
        self._unread = memoryview(b"")
        self._assembly = Assembly()
        self._connection.close()
        if self._attachment is not None:
            self._attachment.detach()

    def _poke(self) -> None:
        if self._attachment is not None:
            self._attachment.poke()


def _fault_of(error: Exception | None) -> str | None:
    """The interface's word for what stopped the parser."""
    match error:
        case None:
            return None
        case PayloadTooBig():
            return "payload-too-large"
        case ProtocolError() | UnicodeDecodeError():
            return "protocol-error"
        case _:
            return "unavailable"
