"""Bytes that the host keeps for the guest of one store, beside what is in the guest's own memory."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

MAX_HELD_BYTES: Final = 32 * 1024 * 1024
"""Kept bytes of one store: an eighth of the memory that a plugin may use itself. Handles are counted apart; without this one
many of them could each stand for the most that one thing may hold."""


class Holding:
    """Some of them. Given back when nothing refers to it any more: whoever keeps the bytes keeps this."""

    __slots__ = ("_holdings", "size")

    def __init__(self, holdings: Holdings) -> None:
        self.size = 0
        self._holdings = holdings

    def resize(self, size: int) -> bool:
        """Hold so many bytes from here on; whether there is room for them. If not, nothing was changed."""
        return self._holdings.change(self, size)

    def grow(self, more: int) -> bool:
        """Hold so many bytes more; as :meth:`resize`."""
        return self.resize(self.size + more)

    def another(self) -> Holding:
        """One of the same store's, of nothing yet."""
        return Holding(self._holdings)

    def __del__(self) -> None:
        self._holdings.give_back(self.size)


class Holdings:
    """The sum of a store's. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total = 0
        # They come back without the lock: a finaliser may run at any point of a thread, even of one that holds it.
        self._returned: deque[int] = deque()

    def open(self) -> Holding:
        """A holding of nothing yet."""
        return Holding(self)

    @property
    def total(self) -> int:
        """How many bytes are held."""
        with self._lock:
            self._settle()
            return self._total

    def change(self, holding: Holding, size: int) -> bool:
        """For :meth:`Holding.resize`."""
        with self._lock:
            self._settle()
            total = self._total + size - holding.size
            if size > holding.size and total > MAX_HELD_BYTES:
                return False
            self._total, holding.size = total, size
            return True

    def give_back(self, size: int) -> None:
        """For a holding that is gone."""
        if size:
            self._returned.append(size)

    def _settle(self) -> None:
        while self._returned:
            self._total -= self._returned.popleft()
