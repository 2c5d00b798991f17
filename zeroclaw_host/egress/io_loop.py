"""The thread on which open connections are read and written, while the guests they belong to only look.

One thread serves all of a process. It begins with the first connection that is attached and ends when none is. What is to
be done with a connection is its handler's matter; the loop knows when.
"""

from __future__ import annotations

import errno
import logging
import os
import selectors
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Final, Protocol

from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.failures import ConnectionClosed

_logger = logging.getLogger(__name__)

READABLE: Final = selectors.EVENT_READ
WRITABLE: Final = selectors.EVENT_WRITE

_LONGEST_PAUSE: Final = 3600.0
"""One wait of the system's. A later moment is waited for in several."""

_DRAINED_AT_ONCE: Final = 4096
"""Bytes read from the wake-up pipe at once. There is one at most, unless a signal handler writes too."""


class IoHandler(Protocol):
    """What is done with an attached connection. All of it is called on the loop's thread, and must not block or raise."""

    def wanted(self) -> int:
        """What to wait for now: :data:`READABLE`, :data:`WRITABLE`, both, or 0 for nothing."""
        ...

    def ready(self) -> None:
        """Something may have come of it: the descriptor is ready or broken, somebody poked, or the moment has come.

        It may be called without any of that, and once more after the connection was closed.
        """
        ...

    def moment(self) -> float | None:
        """When :meth:`ready` is to be called in any case, on :func:`time.monotonic`'s scale; None is never."""
        ...


class Attachment:
    """A connection's place on the loop, until :meth:`detach`. Made by :meth:`IoLoop.attach`."""

    def __init__(self, loop: IoLoop, connection: Connection, handler: IoHandler) -> None:
        self.connection = connection
        self.handler = handler
        self.error: BaseException | None = None
        """What the handler raised, though it must not. Its connection was closed for it."""
        self._loop = loop
        self._watch = ExitStack()

    @property
    def attached(self) -> bool:
        """Whether the loop still serves it."""
        return self._loop.holds(self)

    def poke(self) -> None:
        """Have the loop call ``ready()`` and ask anew what is wanted, soon. From any thread; nothing after a detach."""
        self._loop.poke(self)

    def detach(self) -> None:
        """Leave the loop. From any thread, any number of times.

        The handler is called no more, except that a call that is running goes on to its end. The connection stays open.
        """
        if self._loop.remove(self):  # one caller's matter, of several at once
            self._watch.close()

    def watch(self) -> None:
        """For the loop: have it look when somebody closes the connection."""
        self._watch.enter_context(self.connection.closing.calling(self.poke))

    def fail(self, error: BaseException) -> None:
        """For the loop: the handler raised."""
        self.error = error
        # Its kind and place only: its text may hold what a guest sent or a peer said.
        place = traceback.extract_tb(error.__traceback__)[-1]
        _logger.error(
            "a plugin's connection was closed, for the host failed at it: %s at %s:%s",
            type(error).__name__, place.filename, place.lineno,
        )  # fmt: skip
        self.detach()
        self.connection.close()


class IoLoop:
    """Waits for all attached connections at once. Thread-safe."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._attached: set[Attachment] = set()
        self._turn: _Turn | None = None

    def attach(self, connection: Connection, handler: IoHandler) -> Attachment:
        """Serve a connection from here on; ``handler.ready()`` is called soon, a first time.

        :raises ConnectionClosed: it is closed already.
        :raises OSError: the thread has to begin, and the process has no descriptors or no thread left for it.
        """
        made = Attachment(self, connection, handler)
        with self._lock:
            if self._turn is None:
                turn = _Turn(self, self._clock)
                turn.start()
                self._turn = turn
            self._attached.add(made)
            self._turn.look_at(made)
        made.watch()
        if connection.closed:
            made.detach()
            raise ConnectionClosed("the connection was closed")
        return made

    def holds(self, attachment: Attachment) -> bool:
        """Whether it is attached."""
        return attachment in self._attached

    def poke(self, attachment: Attachment) -> None:
        """For :meth:`Attachment.poke`."""
        with self._lock:
            if self._turn is not None and attachment in self._attached:
                self._turn.look_at(attachment)

    def remove(self, attachment: Attachment) -> bool:
        """For :meth:`Attachment.detach`: whether it was attached."""
        with self._lock:
            if attachment not in self._attached:
                return False
            self._attached.remove(attachment)
            assert self._turn is not None, "what is attached has a thread"
            self._turn.look_at(attachment)
            return True

    def begin_anew(self) -> None:
        """For a child that was forked off: it has no thread of its parent's, and what is attached is its parent's."""
        turn, self._turn = self._turn, None
        self._lock = threading.Lock()
        self._attached = set()
        if turn is not None:
            turn.close()

    def take(self, turn: _Turn) -> list[Attachment] | None:
        """For the thread: what to look at. None when nothing is attached and the thread is to end."""
        with self._lock:
            if not self._attached:
                self._turn = None
                return None
            return turn.taken()


class _Turn:
    """One life of the thread, with the descriptors it needs.

    ``look_at`` and ``taken`` are called under the loop's lock; everything else happens on the thread.
    """

    def __init__(self, loop: IoLoop, clock: Callable[[], float]) -> None:
        self._loop = loop
        self._clock = clock
        self._reader, self._writer = os.pipe()
        try:
            self._selector = selectors.DefaultSelector()
        except OSError:
            os.close(self._reader)
            os.close(self._writer)
            raise
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._selector.register(self._reader, READABLE)
        self._pending: dict[Attachment, None] = {}
        self._awake = False
        self._waiting: dict[Attachment, tuple[int, int]] = {}
        self._moments: dict[Attachment, float] = {}

    def start(self) -> None:
        try:
            threading.Thread(target=self._run, name="zeroclaw-io", daemon=True).start()
        except RuntimeError as error:
            self.close()
            raise OSError(errno.EAGAIN, "no thread can be had") from error

    def look_at(self, attachment: Attachment) -> None:
        self._pending[attachment] = None
        if not self._awake:
            self._awake = True
            with suppress(BlockingIOError):
                os.write(self._writer, b"x")

    def taken(self) -> list[Attachment]:
        found = list(self._pending)
        self._pending.clear()
        self._awake = False
        return found

    def _run(self) -> None:
        try:
            while (poked := self._loop.take(self)) is not None:
                for attachment in poked:
                    self._serve(attachment)
                for attachment in self._wait():
                    self._serve(attachment)
        finally:
            self.close()

    def close(self) -> None:
        """Give the descriptors back. In a forked child these are copies, and the parent's thread goes on with its own."""
        self._selector.close()
        os.close(self._reader)
        os.close(self._writer)

    def _wait(self) -> list[Attachment]:
        """Those whose descriptors are ready, and those whose moment has come."""
        now = self._clock()
        pause = min(self._moments.values(), default=now + _LONGEST_PAUSE) - now
        found: dict[Attachment, None] = {}
        for key, _ in self._selector.select(min(max(pause, 0.0), _LONGEST_PAUSE)):
            if isinstance(key.data, Attachment):
                found[key.data] = None
            else:
                with suppress(BlockingIOError):
                    os.read(self._reader, _DRAINED_AT_ONCE)
        now = self._clock()
        found.update((attachment, None) for attachment, moment in self._moments.items() if moment <= now)
        return list(found)

    def _serve(self, attachment: Attachment) -> None:
        handler = attachment.handler
        wanted, moment = 0, None
        if attachment.attached:
            try:
                handler.ready()
                wanted, moment = handler.wanted(), handler.moment()
            except BaseException as error:  # noqa: BLE001 - one handler's fault is not to end the others' connections
                attachment.fail(error)
        if attachment.connection.closed:
            attachment.detach()
        if not attachment.attached:
            wanted, moment = 0, None
        self._await(attachment, wanted)
        if moment is None:
            self._moments.pop(attachment, None)
        else:
            self._moments[attachment] = moment

    def _await(self, attachment: Attachment, wanted: int) -> None:
        """Wait for this and nothing else of the connection."""
        descriptor = attachment.connection.fileno() if wanted else -1
        after = None if descriptor < 0 else (descriptor, _needed(attachment.connection, wanted))
        before = self._waiting.get(attachment)
        if before == after:
            return
        if before is not None:
            del self._waiting[attachment]
            self._forget(before[0], attachment)
        if after is not None:
            # A connection that was closed since it was last looked at may have had the descriptor.
            self._forget(descriptor, None)
            with suppress(OSError, ValueError):  # closed this very moment, which has the loop look again
                self._selector.register(*after, attachment)
                self._waiting[attachment] = after

    def _forget(self, descriptor: int, attachment: Attachment | None) -> None:
        """Wait no more for a descriptor, if it is waited for on behalf of this connection; None is any."""
        key = self._selector.get_map().get(descriptor)
        if key is not None and (attachment is None or key.data is attachment):
            self._selector.unregister(descriptor)


def _needed(connection: Connection, wanted: int) -> int:
    """What of a descriptor makes this possible. TLS has matters of its own: waiting for bytes that are there already, where it
    has to send first, would be no waiting at all."""
    reading = WRITABLE if connection.receiving_sends else READABLE
    writing = READABLE if connection.sending_receives else WRITABLE
    return (reading if wanted & READABLE else 0) | (writing if wanted & WRITABLE else 0)


PROCESS_LOOP: Final = IoLoop()
"""The loop of this process."""
os.register_at_fork(after_in_child=PROCESS_LOOP.begin_anew)
