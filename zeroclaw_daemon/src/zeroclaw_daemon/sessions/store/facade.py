"""The stores of sessions from the event loop, which never waits for a disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import anyio
import anyio.to_thread

from zeroclaw_daemon.sessions.store.acp import AcpStore
from zeroclaw_daemon.sessions.store.base import AnyStore
from zeroclaw_daemon.sessions.store.chat import ChatStore

MAX_READERS: Final = 4
"""Looks at the database that are taken at once. They wait for no writer."""

Result = TypeVar("Result")
Store = TypeVar("Store", bound=AnyStore, covariant=True)


class Sessions(Generic[Store]):
    """One store for the tasks of one event loop.

    What is cancelled while its work runs on a thread waits for the end of that: the work is done then. What is cancelled before is
    not done; what has to be, is written in a shielded scope.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._writer = anyio.CapacityLimiter(1)
        self._readers = anyio.CapacityLimiter(MAX_READERS)

    async def write(self, work: Callable[[Store], Result]) -> Result:
        """Do something that writes; one at a time, in the order they came."""
        return await anyio.to_thread.run_sync(work, self._store, limiter=self._writer)

    async def read(self, work: Callable[[Store], Result]) -> Result:
        """Do something that reads."""
        return await anyio.to_thread.run_sync(work, self._store, limiter=self._readers)


class AcpSessions(Sessions[AcpStore]):
    """The durable sessions of the mode ``acp``."""


class ChatSessions(Sessions[ChatStore]):
    """The durable sessions of the mode ``chat``."""
