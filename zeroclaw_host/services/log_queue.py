"""A bounded queue in front of where guest records go.

Plugins may talk faster than a disk writes. Whoever emits a record never waits for it: records stand in a queue that is
bounded in number and in bytes, a thread of its own writes them, and what does not fit is dropped, counted and reported.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from zeroclaw_host.services.logging import MAX_RECORD_BYTES

MAX_QUEUED_RECORDS: Final = 1024
"""Records that may wait, over all plugins."""

MAX_QUEUED_BYTES: Final = 8 * 1024 * 1024
"""Bytes of guest text that may wait, over all plugins."""

REPORT_SECONDS: Final = 2.0
"""Time between two reports of dropped records while more are being written; also how soon an idle queue reports."""

CLOSE_SECONDS: Final = 5.0
"""How long closing waits for what is still to be written: enough for a full queue and a slow disk, and no process stays
for one that takes nothing any more."""


@dataclass(frozen=True, slots=True)
class Drops:
    """How many records were dropped since the last report, and how many in all."""

    newly_dropped: int
    total_dropped: int


class DropCount:
    """Counts dropped records and says when that is to be reported. Not for two threads at once.

    :param clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = 0
        self._reported = 0
        self._next_report = 0.0
        self._clock = clock

    def add(self) -> None:
        """One more was dropped."""
        if self.total == self._reported:
            self._next_report = self._clock() + REPORT_SECONDS
        self.total += 1

    def seconds_left(self) -> float | None:
        """Time until a report is due, zero if it is; None while there is nothing to report."""
        if self.total == self._reported:
            return None
        return max(0.0, self._next_report - self._clock())

    def take(self) -> Drops | None:
        """What there is to report, from here on reported."""
        newly = self.total - self._reported
        self._reported = self.total
        return Drops(newly, self.total) if newly else None


class Weighed(Protocol):
    """A record that knows how large it is."""

    @property
    def size(self) -> int:
        """Bytes of the texts that a guest wrote."""
        ...


R = TypeVar("R", bound=Weighed)


class LogQueue(Generic[R]):
    """A :class:`~zeroclaw_host.services.logging.LogSink`, or its like for other records, that never blocks. Thread-safe.

    What waits when the program ends without :meth:`close` is written then. A forked process begins with an empty queue;
    what waited belongs to the other.

    A drop is reported as soon as everything that waited is written, and every :data:`REPORT_SECONDS` before that.

    :param write: takes one record, on this queue's thread; the ``emit`` of any other sink will do. The record's bytes
        count as waiting until it returns.
    :param report: told of dropped records, on this queue's thread.
    :param capacity: records that may wait.
    :param capacity_bytes: bytes of guest text that may wait.
    :param clock: seconds that only grow.
    """

    def __init__(
        self,
        write: Callable[[R], None],
        report: Callable[[Drops], None],
        *,
        capacity: int = MAX_QUEUED_RECORDS,
        capacity_bytes: int = MAX_QUEUED_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._report = report
        self._capacity = capacity
        self._capacity_bytes = capacity_bytes
        self._drops = DropCount(clock)
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._waiting: deque[tuple[R, int]] = deque()
        self._waiting_records = 0
        self._waiting_bytes = 0
        self._writer: threading.Thread | None = None

    @property
    def dropped(self) -> int:
        """Records dropped so far."""
        return self._drops.total

    def emit(self, record: R) -> None:
        """Take one record, or drop it when it is too large, too much is waiting, or the queue is closed."""
        size = record.size
        with self._own():
            fits = (
                size <= MAX_RECORD_BYTES
                and self._waiting_records < self._capacity
                and self._waiting_bytes + size <= self._capacity_bytes
            )
            if not fits or self._closed:
                self._drop()
                return
            self._waiting.append((record, size))
            self._waiting_records += 1
            self._waiting_bytes += size
            self._wake()

    def drop(self) -> None:
        """Count a record that was dropped before it came here."""
        with self._own():
            self._drop()

    def close(self, *, seconds: float = CLOSE_SECONDS) -> None:
        """Take no more, write what is waiting, report what was dropped. May be called twice.

        :param seconds: how long to wait for that. A writer that is stuck even then is left to itself, and with it what
            waits.
        """
        atexit.unregister(self.close)
        with self._own():
            self._closed = True
            self._changed.notify()
        end = time.monotonic() + seconds
        while (writer := self._writer) is not None and writer is not threading.current_thread():
            left = end - time.monotonic()
            if left <= 0 or not writer.is_alive():
                return
            writer.join(left)

    def _own(self) -> threading.Condition:
        """The lock. After a fork it is a new one, since the other's may be held by a thread that stayed behind."""
        if self._process != os.getpid():
            self._begin()
        return self._changed

    def _drop(self) -> None:
        self._drops.add()
        if not self._closed:
            self._wake()

    def _wake(self) -> None:
        """Have a thread that writes: the first record starts it."""
        if self._writer is None:
            atexit.register(self.close)
            self._start()
        self._changed.notify()

    def _start(self) -> None:
        writer = threading.Thread(target=self._run, name="zeroclaw-log", daemon=True)
        writer.start()
        self._writer = writer  # now, since closing takes one that does not live for one that is done

    def _run(self) -> None:
        finished = False
        try:
            self._drain()
            finished = True
        finally:
            if not finished:  # it dies of its writer, and another one goes on
                with self._changed:
                    self._start()

    def _drain(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed and self._drops.seconds_left() != 0:
                    self._changed.wait(self._drops.seconds_left())
                item = self._waiting.popleft() if self._waiting else None
            if item is not None:
                try:
                    self._write(item[0])
                finally:
                    with self._changed:
                        self._waiting_records -= 1
                        self._waiting_bytes -= item[1]
            self._report_drops(idle=item is None)
            if item is None and self._closed:
                return

    def _report_drops(self, *, idle: bool) -> None:
        with self._changed:
            due = idle or not self._waiting or self._drops.seconds_left() == 0
            drops = self._drops.take() if due else None
        if drops is not None:
            self._report(drops)


def warn_of_drops(drops: Drops) -> None:
    """The report of a program that brings none of its own: a warning of the logger ``zeroclaw.plugin``."""
    logging.getLogger("zeroclaw.plugin").warning(
        "log records of plugins were dropped: %d now, %d in all",
        drops.newly_dropped,
        drops.total_dropped,
        extra={"newly_dropped": drops.newly_dropped, "total_dropped": drops.total_dropped},
    )
