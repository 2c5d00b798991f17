"""The content of a request on its way out, and of a response on its way in: bounded buffers between two threads.

A buffer's lock is never held while somebody is woken, so whoever is woken may look at the buffer under a lock of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum
from typing import Final

from zeroclaw_host.egress.http.message import FieldLines
from zeroclaw_host.errors import ZeroclawError

BUFFER_BYTES: Final = 256 * 1024
"""What is kept of a body in either direction: four pieces of what is read, sent or handed to a guest at once, so that
neither side waits for the other at each of them. One piece more may be there when it was read before the limit was seen."""

_GO_ON_BYTES: Final = BUFFER_BYTES // 2
"""A full buffer is filled further when no more than this is left, so that the wire is not woken for every few bytes."""

Wake = Callable[[], object]
Keep = Callable[[int], bool]
"""Asks whether so many bytes more may be kept of an exchange that has no connection any more to be counted by."""


def nobody() -> None:
    """Wakes nobody."""


def anything(size: int) -> bool:
    """Keeps as much as comes."""
    return True


class _Pipe:
    """What both directions share: bytes, a lock, and whom to wake."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buffer: bytearray = bytearray()
        self._guest: Wake = nobody
        self._wire: Wake = nobody

    def attach(self, guest: Wake, wire: Wake) -> None:
        """From here on wake these: whoever waits for the guest's side, and the thread at the wire's."""
        self._guest = guest
        self._wire = wire

    def _take(self, limit: int) -> bytes:
        data = bytes(self._buffer[:limit])
        del self._buffer[:limit]
        return data


class UploadState(Enum):
    """Where a request's content stands."""

    OPEN = "open"
    FINISHED = "finished"
    """All of it is there; some may not have left yet."""
    ABANDONED = "abandoned"
    """The guest gave it up before it was whole."""
    REFUSED = "refused"
    """Nobody takes any more of it: the exchange is over, or never came about."""


class Upload(_Pipe):
    """A request's content. The guest writes and finishes; the wire takes."""

    def __init__(self) -> None:
        super().__init__()
        self._state = UploadState.OPEN
        self._trailers: FieldLines = ()

    # --- the guest's side -------------------------------------------------------------------------------------------

    @property
    def state(self) -> UploadState:
        """Where it stands."""
        return self._state

    @property
    def room(self) -> int:
        """How many bytes :meth:`write` takes now."""
        return max(0, BUFFER_BYTES - len(self._buffer))

    def write(self, data: bytes) -> None:
        """Add bytes, no more than there is room for. What nobody takes any more is dropped."""
        with self._lock:
            if self._state is UploadState.OPEN:
                self._buffer += data
        self._wire()

    def finish(self, trailers: FieldLines = ()) -> None:
        """All of it was written."""
        with self._lock:
            if self._state is UploadState.OPEN:
                self._state = UploadState.FINISHED
                self._trailers = trailers
        self._wire()

    def abandon(self) -> bool:
        """It will not become whole; whether that was not decided before."""
        with self._lock:
            if open_still := self._state is UploadState.OPEN:
                self._state = UploadState.ABANDONED
                self._buffer.clear()
        self._wire()
        return open_still

    # --- the wire's side --------------------------------------------------------------------------------------------

    def take(self, limit: int) -> bytes:
        """The next bytes; none when none are there."""
        with self._lock:
            was_full = len(self._buffer) >= BUFFER_BYTES
            data = self._take(limit)
        if data and was_full:
            self._guest()
        return data

    @property
    def ending(self) -> UploadState | None:
        """How it ended, once all that was written is taken."""
        with self._lock:
            return None if self._buffer or self._state is UploadState.OPEN else self._state

    @property
    def trailers(self) -> FieldLines:
        """What comes after the content."""
        return self._trailers

    def refuse(self) -> None:
        """Take no more of it."""
        with self._lock:
            if self._state is UploadState.OPEN:
                self._state = UploadState.REFUSED
            self._buffer.clear()
        self._guest()


class Download(_Pipe):
    """A response's content. The wire feeds; the guest reads.

    :param drained: called when the response is whole and all of it was read, before anybody can see that it is.
    :param keep: asked for what is left to be read of a response that failed.
    """

    def __init__(self, drained: Wake, keep: Keep = anything) -> None:
        super().__init__()
        self._drained = drained
        self._keep = keep
        self._over = False
        self._whole = False
        self._discarding = False
        self._stalled = False
        self._fed = False
        self.trailers: FieldLines = ()
        """What came after the content; there when :attr:`ended`."""
        self.failure: ZeroclawError | None = None
        """Why there will be no more. What came before it can still be read."""

    # --- the wire's side --------------------------------------------------------------------------------------------

    def has_room(self) -> bool:
        """Whether more may be fed. If not, the wire is woken when it may."""
        with self._lock:
            self._stalled = len(self._buffer) >= BUFFER_BYTES
            return not self._stalled

    def feed(self, data: bytes | bytearray) -> None:
        """Add bytes; :meth:`tell` says so to the guest."""
        with self._lock:
            if not self._discarding:
                self._buffer += data
        self._fed = True

    def tell(self) -> None:
        """Wake the guest if bytes were fed: once for all of them, because waking can cost more than a small piece."""
        if self._fed:
            self._fed = False
            self._guest()

    def end(self, trailers: FieldLines) -> None:
        """The response is whole."""
        with self._lock:
            self.trailers = trailers
            self._whole = True
            if not self._buffer:
                self._drained()
            self._over = True
        self._guest()

    def fail(self, failure: ZeroclawError) -> None:
        """It will not become whole. The first failure counts."""
        # What it was raised from would keep all that was received, and nobody asks for it.
        failure.__traceback__ = failure.__cause__ = failure.__context__ = None
        with self._lock:
            if not self._over:
                if not self._keep(len(self._buffer)):
                    self._buffer.clear()
                self.failure = failure
                self._over = True
        self._guest()

    # --- the guest's side -------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether :meth:`read` gives bytes, or has none to give any more."""
        return bool(self._buffer) or self._over

    @property
    def ended(self) -> bool:
        """Whether all of it came, or nothing more will. What came may not have been read yet."""
        return self._over

    @property
    def exhausted(self) -> bool:
        """Whether :meth:`read` will never give bytes again."""
        with self._lock:
            return self._over and not self._buffer

    def read(self, limit: int) -> bytes:
        """At most so many bytes; none when none are there."""
        with self._lock:
            data = self._take(limit)
            wake = self._stalled and len(self._buffer) <= _GO_ON_BYTES
            if data and self._whole and not self._buffer:
                self._drained()
        if wake:
            self._wire()
        return data

    def discard(self) -> None:
        """Read no more: what is there and what will come is dropped; only the trailers are wanted."""
        with self._lock:
            self._discarding = True
            self._buffer.clear()
            if self._whole:
                self._drained()
        self._wire()
