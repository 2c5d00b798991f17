"""What the daemon says to whoever started it, on standard error.

Nobody may be reading there: the terminal is gone, the reader of a pipe has ended, or it holds the pipe and reads nothing.
None of that may stop a daemon, or let a client stop it by causing warnings. So a thread of its own writes, texts wait for
it in a bounded queue, and what does not fit is dropped and counted.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Iterable, Mapping
from typing import Final

from zeroclaw_daemon.cli.remedies import Place, advice_lines, advise
from zeroclaw_daemon.records import ATTRIBUTE, remedies_of
from zeroclaw_host.errors import Remedy
from zeroclaw_host.visible import visible

STANDARD_ERROR: Final = 2
QUEUE_TEXTS: Final = 256
"""Texts that may wait for a slow reader."""
CLOSE_SECONDS: Final = 1.0
"""How long the end of the daemon waits for what was said last to be taken."""


class Terminal:
    """Texts on a descriptor that may be slow, stuck or broken. Saying something never waits and never fails."""

    def __init__(self, descriptor: int = STANDARD_ERROR, *, capacity: int = QUEUE_TEXTS) -> None:
        self._descriptor = descriptor
        self._queue: queue.Queue[str | None] = queue.Queue(capacity)
        self._dropped = 0
        self._closed = False
        # A daemon thread, because it may be stuck in a write when everything else has ended.
        self._writer = threading.Thread(target=self._write, name="terminal", daemon=True)
        self._writer.start()

    def say(self, text: str) -> None:
        """Write a text and a line end, soon, unless too much is waiting."""
        if self._closed:
            return
        try:
            self._queue.put_nowait(text)
        except queue.Full:
            self._dropped += 1

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Give what is waiting some time to be read; take nothing more."""
        self._closed = True
        try:
            self._queue.put(None, timeout=seconds)
        except queue.Full:
            return
        self._writer.join(seconds)

    def _write(self) -> None:
        broken = False
        while (text := self._queue.get()) is not None:
            if broken:
                continue
            dropped, self._dropped = self._dropped, 0
            if dropped:
                text = f"({dropped} messages were dropped here: nobody took them)\n{text}"
            broken = not self._put(text)

    def _put(self, text: str) -> bool:
        """Write it all; False once the descriptor takes nothing any more."""
        # A path may hold bytes that are no text.
        rest = memoryview(f"{text}\n".encode(errors="backslashreplace"))
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            return False
        return True


class TerminalHandler(logging.Handler):
    """Shows warnings and errors, with what to do about them."""

    def __init__(self, terminal: Terminal, place: Place) -> None:
        super().__init__(logging.WARNING)
        self._terminal = terminal
        self._place = place

    def emit(self, record: logging.LogRecord) -> None:
        """Say one record."""
        facts: Mapping[str, object] = getattr(record, ATTRIBUTE, {})
        self._terminal.say(
            told(record.levelname.lower(), record.getMessage(), remedies_of(facts), self._place)
        )


def told(level: str, message: str, remedies: Iterable[Remedy], place: Place) -> str:
    """One record in words, with what to do about it."""
    lines = [f"{level}: {visible(message)}"]
    lines += advice_lines([advise(remedy, place) for remedy in remedies], "  ")
    return "\n".join(lines)
