"""What Ctrl-C does while a conversation is held: it depends on what goes on at that moment.

Python raises an error wherever the program happens to be, which may be in the middle of anything. Here Ctrl-C ends the
typing of a line or calls what a block names, and is remembered where neither is going on.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """The presses of Ctrl-C. Used on the main thread, inside a running event loop."""

    def __init__(self) -> None:
        self._typing = False
        self._call: Callable[[], object] | None = None
        self._remembered = False

    @contextmanager
    def caught(self) -> Generator[None]:
        """While the block runs, Ctrl-C does what is written here."""
        # The one thing of the event loop that may be used in a handler of a signal; anyio has no name for it.
        self._soon = asyncio.get_running_loop().call_soon_threadsafe
        before = signal.signal(signal.SIGINT, self._pressed)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def ending(self) -> Generator[None]:
        """While the block runs, which waits for a person and for nothing else, Ctrl-C raises.

        :raises KeyboardInterrupt: Ctrl-C, also where it was pressed just before.
        """
        try:
            self._typing = True
            if self._remembered:
                raise KeyboardInterrupt
            yield
        finally:
            self._typing = self._remembered = False

    @contextmanager
    def calling(self, call: Callable[[], object]) -> Generator[None]:
        """While the block runs, each Ctrl-C has ``call`` called soon, also one that was pressed just before."""
        self._call = call
        if self._remembered:
            self._remembered = False
            self._soon(self._ring, call)
        try:
            yield
        finally:
            self._call = None

    def _pressed(self, number: int, frame: FrameType | None) -> None:
        if self._typing:
            raise KeyboardInterrupt
        if self._call is None:
            self._remembered = True
        else:
            self._soon(self._ring, self._call)

    def _ring(self, call: Callable[[], object]) -> None:
        if call is self._call:  # else that block was left meanwhile
            call()
