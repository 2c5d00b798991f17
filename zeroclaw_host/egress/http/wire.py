"""One request and its response on an open connection, as the process's loop drives them.

Both directions go on at once: a response may begin, and end, while the request's content is still being sent. Nothing is
read while the guest's buffer is full, and no time counts meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

import h11

from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.failures import ConnectionBroken
from zeroclaw_host.egress.http.body import Download, Upload, UploadState
from zeroclaw_host.egress.http.message import (
    MAX_HEAD_BYTES,
    MAX_INFORMATIONAL,
    Fault,
    FieldLines,
    HttpFailed,
    HttpTimes,
    RequestHead,
    ResponseHead,
    field_lines,
)
from zeroclaw_host.egress.io_loop import READABLE, WRITABLE
from zeroclaw_host.errors import ZeroclawError

_PIECE: Final = 64 * 1024
"""Bytes read or sent at once; what a connection hands to the system in one piece."""

_STEPS_AT_ONCE: Final = 64
"""Pieces sent, and pieces or events received, before the loop serves others: a peer that never stops is not to have it alone,
and one that cuts its response into tiny chunks makes an event of each."""

_AT_ONCE: Final = 0.0
"""A moment that has come."""

_LARGEST_EVENT: Final = MAX_HEAD_BYTES + _PIECE
"""What h11 keeps of a head that has not ended. The exact limit is on its fields, and is not to depend on how they came."""


class Answer(Protocol):
    """Who is told what came. Called on the loop's thread; must not block."""

    download: Download

    def keep(self, lines: FieldLines) -> None:
        """These fields are to be kept.

        :raises HttpFailed: there is no room for them.
        """
        ...

    def begin(self, head: ResponseHead) -> None:
        """The response's head is here."""
        ...


class Wire:
    """The :class:`~zeroclaw_host.egress.io_loop.IoHandler` of one exchange. The connection is closed at its end.

    A response that came whole keeps its connection until it was read (PLG-124); whoever reads closes it.

    :param clock: the loop's.
    """

    def __init__(
        self,
        connection: Connection,
        head: RequestHead,
        upload: Upload | None,
        answer: Answer,
        times: HttpTimes,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._upload = upload
        self._answer = answer
        self._times = times
        self._clock = clock
        self._busy = threading.Lock()
        self._over = False
        self._machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LARGEST_EVENT)
        self._leaving = memoryview(self._machine.send(head.event) or b"")
        self._sending = True
        self._receiving = True
        self._begun = False
        self._interim = 0
        self._at_end = False
        self._more_leaves = self._more_came = False
        self._limit = clock() + times.first_byte

    # --- for the loop -----------------------------------------------------------------------------------------------

    def wanted(self) -> int:
        """See :meth:`IoHandler.wanted`."""
        if self._over:
            return 0
        return (READABLE if self._receiving else 0) | (WRITABLE if self._leaving else 0)

    def moment(self) -> float | None:
        """When the response is late; at once where there is more to do."""
        if self._over:
            return None
        if self._more_leaves or self._more_came:
            return _AT_ONCE
        return self._limit if self._receiving else None

    def ready(self) -> None:
        """Send and receive what can be without waiting."""
        with self._busy:
            if self._over:
                return
            self._more_leaves = self._more_came = False
            try:
                self._send()
                self._receive()
                self._look_at_the_time()
            except ZeroclawError as error:
                self._fail(error)
            except BaseException:
                self._fail(HttpFailed(Fault.HOST, "the exchange could not be carried on"))
                raise
            finally:
                self._answer.download.tell()

    def stop(self) -> None:
        """End it from any thread. The connection is closed, and its slot free, when this returns."""
        self._over = True  # whatever the loop does for it now goes no further
        with self._busy:  # the loop does not use the connection now, so closing it takes effect at once
            self._finish_reading()
            self._connection.close()

    # --- out --------------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        try:
            for _ in range(_STEPS_AT_ONCE):
                if not self._next_piece():
                    return
                count = self._connection.send_now(self._leaving)
                if not count:
                    return
                self._leaving = self._leaving[count:]
            self._more_leaves = True
        except ConnectionBroken:
            # A peer may answer before it read everything, and read no more. What it answered is still to be read.
            self._stop_sending()

    def _next_piece(self) -> bool:
        """Whether something is to leave."""
        if not self._leaving and self._sending:
            self._leaving = memoryview(self._from_upload())
        return bool(self._leaving)

    def _from_upload(self) -> bytes:
        if self._upload is None:
            return self._finish(())
        if piece := self._upload.take(_PIECE):
            return self._made(h11.Data(data=piece))
        ending = self._upload.ending
        if ending is UploadState.FINISHED:
            return self._finish(self._upload.trailers)
        if ending is not None:
            raise HttpFailed(Fault.ABANDONED, "the request's content was given up before it was whole")
        return b""

    def _finish(self, trailers: tuple[tuple[bytes, bytes], ...]) -> bytes:
        self._sending = False
        return self._made(h11.EndOfMessage(headers=[(name, value.strip(b" \t")) for name, value in trailers]))

    def _made(self, event: h11.Data | h11.EndOfMessage) -> bytes:
        try:
            return self._machine.send(event) or b""
        except h11.LocalProtocolError as error:
            raise HttpFailed(Fault.REQUEST_SIZE, f"the request's content cannot be sent: {error}") from error

    def _stop_sending(self) -> None:
        self._sending = False
        self._leaving = memoryview(b"")
        if self._upload is not None:
            self._upload.refuse()

    # --- in ---------------------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        for _ in range(_STEPS_AT_ONCE):
            if self._over or not self._receive_something():
                return
        self._more_came = True

    def _receive_something(self) -> bool:
        """One event, or what is needed for one; whether there may be more."""
        waited = not self._receiving
        self._receiving = self._answer.download.has_room()
        if not self._receiving:
            return False
        if waited:
            self._go_on_until_late()
        event = self._next_event()
        if event is h11.NEED_DATA:
            return self._read()
        self._take(event)
        return True

    def _read(self) -> bool:
        data = self._connection.receive_now(_PIECE)
        if data is None:
            return False
        self._at_end = not data
        self._machine.receive_data(data)
        if self._begun:
            self._go_on_until_late()
        return True

    def _next_event(self) -> object:
        try:
            return self._machine.next_event()
        except h11.RemoteProtocolError as error:
            if self._at_end:
                raise HttpFailed(Fault.INCOMPLETE, "the peer ended before its response was whole") from error
            if error.error_status_hint == _TOO_LONG:
                raise HttpFailed(
                    Fault.TRAILER_SIZE if self._begun else Fault.HEAD_SIZE,
                    f"the response's fields are longer than {MAX_HEAD_BYTES} bytes",
                ) from error
            raise HttpFailed(Fault.PROTOCOL, f"the response is not HTTP/1.1: {error}") from error

    def _take(self, event: object) -> None:
        if isinstance(event, h11.Data):
            self._answer.download.feed(event.data)
        elif isinstance(event, h11.Response) and event.http_version in _VERSIONS:
            head = ResponseHead(event.status_code, field_lines(event.headers, Fault.HEAD_SIZE))
            self._answer.keep(head.fields)
            self._begun = True
            self._go_on_until_late()
            self._answer.begin(head)
        elif isinstance(event, h11.EndOfMessage):
            trailers = field_lines(event.headers, Fault.TRAILER_SIZE)
            self._answer.keep(trailers)
            self._finish_reading()
            self._stop_sending()
            self._answer.download.end(trailers)
        elif isinstance(event, h11.InformationalResponse) and self._interim < MAX_INFORMATIONAL:
            self._interim += 1
        elif isinstance(event, h11.ConnectionClosed):
            raise HttpFailed(Fault.INCOMPLETE, "the peer ended before it answered")
        else:
            raise HttpFailed(Fault.PROTOCOL, "the peer sent something else than a response")

    # --- time and end -----------------------------------------------------------------------------------------------

    def _go_on_until_late(self) -> None:
        if self._begun:
            self._limit = self._clock() + self._times.between_bytes

    def _look_at_the_time(self) -> None:
        if self._over or self._more_came or not self._receiving:  # what is here already is not late
            return
        if self._clock() >= self._limit:
            what = "go on" if self._begun else "begin"
            raise HttpFailed(Fault.LATE, f"the response did not {what} in time")

    def _finish_reading(self) -> None:
        self._over = True
        self._machine = h11.Connection(h11.CLIENT)  # the other one keeps what it received

    def _fail(self, error: ZeroclawError) -> None:
        self._finish_reading()
        self._connection.close()
        self._stop_sending()
        self._answer.download.fail(error)


_VERSIONS: Final = (b"1.1", b"1.0")
"""What h11 can read; it takes any version's digits."""

_TOO_LONG: Final = 431
"""The status by which h11 says that a head is too long (RFC 6585)."""
