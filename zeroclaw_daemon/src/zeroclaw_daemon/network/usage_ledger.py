"""The ledger of what plugin instances used of the network, as a running daemon keeps it: never in a call's way.

Whoever notes something adds it to what is waiting, in memory; a thread of its own writes that to the file. What waits is counted
together, so that a disk that takes nothing makes no memory grow and nothing is lost while the daemon lives.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from zeroclaw_daemon.network.usage import Key, Outcome, Tally, added_up
from zeroclaw_daemon.network.usage_file import UsageFile, UsageUnavailable

MAX_WAITING: Final = 256
"""Destinations of one instance and outcome that wait singly to be written; the others are added up already then."""

RETRY_SECONDS: Final = 30.0
"""Time between two attempts to write to a file that could not be written."""

CLOSE_SECONDS: Final = 5.0
"""How long closing waits for what is still to be written."""


class UsageLedger:
    """Counts what instances use. Thread-safe; noting never waits for the disk.

    :param path: the file, see :class:`~zeroclaw_daemon.network.usage_file.UsageFile`.
    :param report: told, on a thread of the ledger's, that the file cannot be used: once, until it can be again.
    :param retry_seconds: time between two attempts at a file that could not be written.
    """

    def __init__(
        self,
        path: Path,
        *,
        report: Callable[[UsageUnavailable], object],
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._file = UsageFile(path)
        self._report = report
        self._retry_seconds = retry_seconds
        self._changed = threading.Condition()
        self._waiting = _Waiting()
        self._noted = 0
        self._written = 0
        self._failing = False
        self._closed = False
        self._writer: threading.Thread | None = None

    def note(self, key: Key, tally: Tally) -> None:
        """Count something in. After :meth:`close` nothing is."""
        with self._changed:
            if self._closed:
                return
            self._waiting.add(key, tally)
            self._noted += 1
            if self._writer is None:
                self._writer = threading.Thread(target=self._run, name="zeroclaw-usage", daemon=True)
                self._writer.start()
            self._changed.notify_all()

    def settle(self, seconds: float) -> bool:
        """Wait until what was noted before is in the file.

        :returns: whether it is; False when the file cannot be written, or that takes longer than these seconds.
        """
        with self._changed:
            noted = self._noted
            self._changed.wait_for(lambda: self._written >= noted or self._failing, seconds)
            return self._written >= noted

    def close(self, *, seconds: float = CLOSE_SECONDS) -> None:
        """Take no more, and write what waits. May be called twice.

        :param seconds: how long to wait for that; a writer that is stuck even then is left to itself.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._writer is not None:
            self._writer.join(seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._failing:
                    self._changed.wait_for(lambda: self._closed, self._retry_seconds)
                self._changed.wait_for(lambda: bool(self._waiting) or self._closed)
                batch, self._waiting = self._waiting, _Waiting()
                noted, last = self._noted, self._closed
            if batch:
                self._write(batch, noted)
            if last:
                self._file.close()
                return

    def _write(self, batch: _Waiting, noted: int) -> None:
        failure: UsageUnavailable | None = None
        try:
            self._file.add(batch.tallies)
        except UsageUnavailable as error:
            failure = error
        if failure is not None and not self._failing:
            self._report(failure)  # before anybody who waits goes on
        with self._changed:
            self._failing = failure is not None
            if failure is None:
                self._written = noted
            else:
                for key, tally in self._waiting.tallies.items():
                    batch.add(key, tally)
                self._waiting = batch
            self._changed.notify_all()


class _Waiting:
    """What is to be written, bounded for each instance and outcome."""

    def __init__(self) -> None:
        self.tallies: dict[Key, Tally] = {}
        self._single: dict[tuple[str, Outcome], int] = {}

    def __bool__(self) -> bool:
        return bool(self.tallies)

    def add(self, key: Key, tally: Tally) -> None:
        """Count something in: singly while there is room."""
        found = self.tallies.get(key)
        if found is None:
            whose = key.instance, key.outcome
            held = self._single.get(whose, 0)
            if held < MAX_WAITING:
                self._single[whose] = held + 1
            else:
                key = added_up(key, tally)
                found = self.tallies.get(key)
        if found is None:
            self.tallies[key] = tally
        else:
            found.add(tally)
