"""An HTTP request of an instance, from its authorisation to the end of its response (PLG-124, PLG-176).

Every request is authorised anew, goes over a connection of its own, and follows no redirect and no proxy. The connection
is opened on a thread of the exchange's and then handed to the process's loop, so a guest waits for nothing but its frame.
"""

from __future__ import annotations

import threading
from typing import Final

from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.failures import ConnectionClosed
from zeroclaw_host.egress.http.body import Download, Keep, Upload, Wake, anything
from zeroclaw_host.egress.http.message import (
    Fault,
    FieldLines,
    HttpFailed,
    HttpTimes,
    RequestHead,
    ResponseHead,
    kept_size,
)
from zeroclaw_host.egress.http.wire import Wire
from zeroclaw_host.egress.io_loop import PROCESS_LOOP, Attachment
from zeroclaw_host.egress.request import EgressRequest
from zeroclaw_host.egress.slots import ConnectionSlots, Slot
from zeroclaw_host.errors import ZeroclawError

MAX_OPENING: Final = 128
"""Requests of one instance whose connections are being opened, each on a thread. Open connections have their own limit
(``max_connections_per_instance``); this one is for names and addresses that do not answer."""

_PARTING_SECONDS: Final = 1.0
"""How long whoever closes an exchange waits for its thread, which stops at once. Longer only where something of the
embedder's, as the source of its policies, keeps it."""


class _Parting:
    """The wait for the threads of a call's exchanges at their end. Where one does not stop, the others are not waited for:
    what keeps one keeps all, and a call is not to end later by the number of its requests."""

    def __init__(self) -> None:
        self._seconds = _PARTING_SECONDS

    def wait_for(self, thread: threading.Thread) -> None:
        thread.join(self._seconds)
        if thread.is_alive():
            self._seconds = 0.0


class Exchange:
    """One request and its response. Usable from any thread; made by :class:`HttpClient`.

    :param wake: called when something changed that a guest may be waiting for.
    :param keep: asked before anything is kept that stays when the connection has ended.
    """

    def __init__(
        self,
        dialer: Dialer,
        request: EgressRequest,
        head: RequestHead,
        upload: Upload | None,
        times: HttpTimes,
        wake: Wake,
        keep: Keep,
        place: Slot,
        parting: _Parting,
    ) -> None:
        self.head: ResponseHead | None = None
        """The response's head, once it is there."""
        self.download = Download(self._drained, keep)
        """The response's content, and what went wrong."""
        self._dialer = dialer
        self._upload = upload
        self._times = times
        self._wake = wake
        self._keep = keep
        self._place = place
        self._parting = parting
        self._lock = threading.Lock()
        self._closed = False
        self._wire: Wire | None = None
        self._connection: Connection | None = None
        self._attachment: Attachment | None = None
        self._deadline = Deadline(times.connect)
        # The thread alone has the request, and keeps it no longer than it takes.
        self._thread = threading.Thread(
            target=self._open, args=(request, head), name="zeroclaw-http", daemon=True
        )
        self.download.attach(wake, self._poke)
        if upload is not None:
            upload.attach(wake, self._poke)

    def start(self) -> None:
        """Begin to authorise and to connect.

        :raises HttpFailed: no thread can be started for it.
        """
        try:
            self._thread.start()
        except RuntimeError as error:
            self._place.release()
            raise HttpFailed(Fault.HOST, "no thread could be started for the request") from error

    @property
    def answered(self) -> bool:
        """Whether there is a response, or will be none."""
        return self.head is not None or self.download.failure is not None

    def close(self) -> None:
        """End it, at once and on any path: nothing of it stays open, and its slot is free. Callable any number of times."""
        with self._lock:
            self._closed = True
            wire = self._wire
        self._deadline.cancel()
        if wire is not None:
            wire.stop()
        elif self._thread.ident is not None:
            self._parting.wait_for(self._thread)
        if self._upload is not None:
            self._upload.refuse()
        self.download.discard()
        self.download.fail(ConnectionClosed("the exchange was closed"))

    # --- for its wire -----------------------------------------------------------------------------------------------

    def keep(self, lines: FieldLines) -> None:
        """See :meth:`Answer.keep`."""
        if not self._keep(kept_size(lines)):
            raise HttpFailed(Fault.HOST, "the instance has the host keep as much as it may")

    def begin(self, head: ResponseHead) -> None:
        """See :meth:`Answer.begin`."""
        self.head = head
        self._wake()

    # --- inside -----------------------------------------------------------------------------------------------------

    def _open(self, request: EgressRequest, head: RequestHead) -> None:
        try:
            connection = self._dialer.open(request, self._deadline)
        except ZeroclawError as error:
            self._fail(error)
            return
        except BaseException:
            self._fail(HttpFailed(Fault.HOST, "the connection could not be opened"))
            raise
        finally:
            self._place.release()
        wire = Wire(connection, head, self._upload, self, self._times)
        with self._lock:
            self._connection, self._wire = connection, wire
            closed = self._closed
        if closed:
            wire.stop()
            return
        try:
            self._attachment = PROCESS_LOOP.attach(connection, wire)
            self._poke()  # for what the guest wrote before the line above was done
        except ConnectionClosed:
            """Closed in between; whoever did says so to the guest."""
        except (OSError, RuntimeError) as error:
            wire.stop()
            self._fail(HttpFailed(Fault.HOST, f"the connection cannot be served: {error}"))

    def _fail(self, error: ZeroclawError) -> None:
        if self._upload is not None:
            self._upload.refuse()
        self.download.fail(error)

    def _drained(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _poke(self) -> None:
        attachment = self._attachment
        if attachment is not None:
            attachment.poke()


class HttpClient:
    """Carries the HTTP requests of instances. Thread-safe, and costs nothing to make.

    :param dialer: makes the connections.
    """

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._parting = _Parting()

    def begin(
        self,
        request: EgressRequest,
        head: RequestHead,
        upload: Upload | None,
        times: HttpTimes,
        wake: Wake,
        keep: Keep = anything,
    ) -> Exchange:
        """Begin a request. Whether it is permitted is decided on its thread; the exchange says so.

        :raises ~zeroclaw_host.egress.failures.ConnectionLimit: too many of the instance's requests are being opened.
        :raises HttpFailed: no thread can be started for it.
        """
        place = _OPENING.take(request.identity, MAX_OPENING)
        made = Exchange(self._dialer, request, head, upload, times, wake, keep, place, self._parting)
        made.start()
        return made


_OPENING: Final = ConnectionSlots()
"""How many requests each instance has that are being opened, in this process."""
