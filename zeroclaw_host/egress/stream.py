"""Bytes that come and go while nobody waits for them: an open connection on the I/O loop, between two bounded buffers.

What arrives is kept in chunks until it is taken, small pieces of it together; once so many wait that no more are read, the
peer has to wait too. What is to be sent stands in a queue. When the connection has ended, what had arrived before can still be taken.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final

from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.failures import ConnectionBroken, ConnectionClosed
from zeroclaw_host.egress.io_loop import PROCESS_LOOP, READABLE, WRITABLE, Attachment, IoLoop
from zeroclaw_host.errors import Kind, ZeroclawError

CHUNK_BYTES: Final = 16 * 1024
"""Most bytes of one chunk that arrived, and of one read."""

MAX_CHUNKS: Final = 64
"""Chunks that wait to be taken. At this many, nothing more is read."""

MAX_WRITES: Final = 64
"""Writes that wait to be sent."""

_STEPS_AT_ONCE: Final = 2 * MAX_CHUNKS
"""Reads and writes before the loop serves others."""


class StreamEnd(Enum):
    """Why nothing more comes of a stream."""

    PEER = "peer"
    """The peer sends no more."""
    FAILED = "failed"
    """Reading or writing failed."""
    HERE = "here"
    """It was closed on this side."""
    TLS = "tls"
    """It was to go on under TLS and could not."""


class WritesWaiting(ZeroclawError):
    """As many writes wait to be sent as may."""

    code = "writes_waiting"
    kind = Kind.LIMIT


class StreamOver(ZeroclawError):
    """The stream has ended; nothing can be sent."""

    code = "stream_over"
    kind = Kind.UNAVAILABLE


class PlaintextWaiting(ZeroclawError):
    """Bytes wait to be taken or sent, which are in plaintext and would count as if they were under TLS."""

    code = "plaintext_waiting"
    kind = Kind.REFUSED


class Write:
    """Bytes on their way out. ``sent`` is None while they wait, then whether all are with the system."""

    __slots__ = ("left", "sent")

    def __init__(self, data: bytes) -> None:
        self.left = memoryview(data)
        self.sent: bool | None = None


class BufferedStream:
    """A connection that is read and written by the loop. Methods may be called from any thread; none of them waits.

    :param connection: open; the stream closes it.
    :param changed: told when something arrived, was sent, or the stream ended. Called without any lock of the stream's.
    :raises ConnectionClosed: it is closed.
    :raises OSError: the process has no descriptors left.
    """

    def __init__(
        self, connection: Connection, changed: Callable[[], object], *, loop: IoLoop = PROCESS_LOOP
    ) -> None:
        self._connection = connection
        self._changed = changed
        self._loop = loop
        self._lock = threading.Lock()
        self._arrived: deque[bytearray] = deque()
        self._writes: deque[Write] = deque()
        self._end: StreamEnd | None = None
        self._broken = False
        self._securing = False
        try:
            with self._lock:  # the loop's first look may come before there is an attachment
                self._attachment: Attachment = loop.attach(connection, self)
        except BaseException:
            connection.close()
            raise

    # --- for whoever uses it ----------------------------------------------------------------------------------------

    @property
    def end(self) -> StreamEnd | None:
        """Why it ended; None while it has not. What arrived before can still be taken."""
        return self._end

    @property
    def pending(self) -> int:
        """Chunks that arrived and were not taken."""
        return len(self._arrived)

    def take(self) -> bytes | None:
        """The next chunk, of at most :data:`CHUNK_BYTES`; None when there is none now."""
        with self._lock:
            full = len(self._arrived) >= MAX_CHUNKS
            taken = bytes(self._arrived.popleft()) if self._arrived else None
        if full:
            self._attachment.poke()
        return taken

    def send(self, data: bytes) -> Write:
        """Have bytes sent after those that wait already.

        :raises StreamOver: it has ended, or could not send before.
        :raises WritesWaiting: too many wait.
        """
        write = Write(data)
        with self._lock:
            if self._end is not None or self._broken or self._securing:
                raise StreamOver("the stream has ended")
            if len(self._writes) >= MAX_WRITES:
                raise WritesWaiting(f"{MAX_WRITES} writes wait to be sent")
            self._writes.append(write)
        self._attachment.poke()
        return write

    def secure(self, deadline: Deadline, done: Callable[[ZeroclawError | None], object]) -> None:
        """Go on under TLS, where nothing has come or waits in plaintext. If that fails, the stream has ended.

        :param deadline: for the handshake, which happens on a thread of its own.
        :param done: told on that thread, once, of success or of what :meth:`Connection.start_tls` raised.
        :raises PlaintextWaiting: bytes wait to be taken or sent; the stream is as before.
        :raises StreamOver: it has ended.
        """
        with self._lock:
            if self._end is None and not self._broken:
                # What is with the system and was not read yet came in plaintext, too.
                self._read()
            if self._arrived or self._writes:
                raise PlaintextWaiting("bytes in plaintext wait to be taken or sent")
            if self._end is not None or self._broken or self._securing:
                raise StreamOver("the stream has ended")
            self._securing = True
        self._attachment.detach()
        work = threading.Thread(target=self._secure, args=(deadline, done), name="zeroclaw-tls", daemon=True)
        try:
            work.start()
        except RuntimeError as error:
            with self._lock:
                self._finish(StreamEnd.TLS)
            raise StreamOver("no thread could be had for the handshake") from error

    def close(self) -> None:
        """End it now, whatever waits. What arrived before can still be taken. Callable any number of times."""
        with self._lock:
            self._finish(StreamEnd.HERE)
        self._changed()

    # --- for the loop -----------------------------------------------------------------------------------------------

    def wanted(self) -> int:
        """See :class:`~zeroclaw_host.egress.io_loop.IoHandler`."""
        with self._lock:
            if self._end is not None or self._securing:
                return 0
            reading = READABLE if len(self._arrived) < MAX_CHUNKS else 0
            return reading | (WRITABLE if self._writes else 0)

    def ready(self) -> None:
        """See :class:`~zeroclaw_host.egress.io_loop.IoHandler`."""
        moved = False
        for _ in range(_STEPS_AT_ONCE):
            with self._lock:
                if self._end is not None or self._securing:
                    break
                step = self._read()
                step = self._write() or step
                if self._broken and not step and len(self._arrived) < MAX_CHUNKS:
                    self._finish(StreamEnd.FAILED)
                    step = True
            moved = moved or step
            if not step:
                break
        else:
            self._attachment.poke()
        if moved:
            self._changed()

    def moment(self) -> float | None:
        """See :class:`~zeroclaw_host.egress.io_loop.IoHandler`."""
        return None

    # --- inside; the lock is held, except by _secure ----------------------------------------------------------------

    def _read(self) -> bool:
        """Read one chunk; whether anything came of it."""
        if len(self._arrived) >= MAX_CHUNKS:
            return False
        try:
            data = self._connection.receive_now(CHUNK_BYTES)
        except ConnectionClosed:
            self._finish(StreamEnd.HERE)
            return True
        except ConnectionBroken:
            self._finish(StreamEnd.FAILED)
            return True
        if data is None:
            return False
        if not data:
            self._finish(StreamEnd.FAILED if self._broken else StreamEnd.PEER)
        elif self._arrived and len(self._arrived[-1]) + len(data) <= CHUNK_BYTES:
            # Whoever takes it may have few looks, and a peer or a network that sends it in crumbs is not to use them up.
            self._arrived[-1] += data
        else:
            self._arrived.append(bytearray(data))
        return True

    def _write(self) -> bool:
        """Send some of the first write; whether anything came of it."""
        if not self._writes:
            return False
        write = self._writes[0]
        try:
            count = self._connection.send_now(write.left) if write.left else 0
        except (ConnectionBroken, ConnectionClosed):
            # What the peer said before it went may still be there: the stream ends when that is read.
            self._broken = True
            self._fail_writes()
            return True
        write.left = write.left[count:]
        if not write.left:
            self._writes.popleft()
            write.sent = True
            return True
        return count > 0

    def _fail_writes(self) -> None:
        for write in self._writes:
            write.sent = False
        self._writes.clear()

    def _finish(self, end: StreamEnd) -> None:
        if self._end is not None:
            return
        self._attachment.detach()
        self._connection.close()
        self._fail_writes()
        self._end = end  # last: who sees it may count on the slot being free

    def _secure(self, deadline: Deadline, done: Callable[[ZeroclawError | None], object]) -> None:
        error: ZeroclawError | None = None
        try:
            self._connection.start_tls(deadline)
            self._go_on()
        except ZeroclawError as failure:
            error = failure
        except OSError as failure:
            error = ConnectionBroken(f"the connection cannot be served: {failure.strerror}")
        finally:
            with self._lock:
                self._securing = False
                if error is not None:
                    self._finish(StreamEnd.TLS)
            done(error)

    def _go_on(self) -> None:
        with self._lock:
            if self._end is None:
                self._securing = False
                self._attachment = self._loop.attach(self._connection, self)
