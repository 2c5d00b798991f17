"""A bounded queue between tasks that costs a task switch only where somebody has to wait.

The streams of anyio switch tasks at every item. Two of them lie in the way of every call, so that they alone would be most
of the time that a small call takes.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class MailboxClosed(Exception):
    """Nothing can be put in any more."""


class Mailbox(Generic[T]):
    """Items in order, from any number of tasks to one.

    :param capacity: how many items may lie in it; whoever puts in more waits, in the order of coming.
    :param max_size: how much they may have together; one that begins below it may go beyond.
    """

    def __init__(self, capacity: int, max_size: float = math.inf) -> None:
        self._capacity = capacity
        self._max_size = max_size
        self._size = 0
        self._items: deque[tuple[T, int]] = deque()
        self._putters: deque[anyio.Event] = deque()
        self._getter: anyio.Event | None = None
        self._closed = False

    def put_nowait(self, item: T, size: int = 0) -> bool:
        """Put an item in, if there is room for it and nobody waits for that room.

        :raises MailboxClosed: it is closed, be there room or not.
        """
        if not self._closed and (self._putters or self._full):
            return False
        self._add(item, size)
        return True

    async def put(self, item: T, size: int = 0) -> None:
        """Put an item in; waits while it is full.

        :raises MailboxClosed: it is closed, or was while this waited.
        """
        if self.put_nowait(item, size):
            return
        mine = anyio.Event()
        self._putters.append(mine)
        try:
            await mine.wait()  # for room that is this putter's: nobody overtakes while somebody waits
            self._add(item, size)
        finally:
            self._putters.remove(mine)
            self._wake_putter()

    def __aiter__(self) -> Mailbox[T]:
        """The items, as they come, until it is closed and empty."""
        return self

    async def __anext__(self) -> T:
        """Take the first item out; waits while there is none."""
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            self._getter = anyio.Event()
            try:
                await self._getter.wait()
            finally:
                self._getter = None
        return self._take()

    def get_nowait(self) -> T | None:
        """Take the first item out, if there is one."""
        return self._take() if self._items else None

    @property
    def waiting(self) -> bool:
        """Whether an item lies in it."""
        return bool(self._items)

    @property
    def awaited(self) -> bool:
        """Whether somebody has taken everything out and waits for more."""
        return self._getter is not None

    def close(self) -> None:
        """Take no more items; those that are in it can still be taken out. Closing it again does nothing."""
        self._closed = True
        self._wake_getter()
        for putter in self._putters:
            putter.set()

    @property
    def _full(self) -> bool:
        return len(self._items) >= self._capacity or self._size >= self._max_size

    def _add(self, item: T, size: int) -> None:
        if self._closed:
            raise MailboxClosed
        self._items.append((item, size))
        self._size += size
        self._wake_getter()

    def _take(self) -> T:
        item, size = self._items.popleft()
        self._size -= size
        self._wake_putter()
        return item

    def _wake_getter(self) -> None:
        if self._getter is not None:
            self._getter.set()
            self._getter = None

    def _wake_putter(self) -> None:
        if self._putters and not self._full:
            self._putters[0].set()
