"""How many connections each instance holds: one count for all its calls, stores and transports (PLG-124)."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import Final

from zeroclaw_host.egress.failures import ConnectionLimit
from zeroclaw_host.instance import InstanceIdentity


class Slot:
    """One connection's place in the count. Given back once, however often that is said."""

    __slots__ = ("_slots",)

    def __init__(self, slots: ConnectionSlots, identity: InstanceIdentity) -> None:
        self._slots = [(slots, identity)]

    def release(self) -> None:
        """Give it back. Callable from any thread, any number of times, and from a finaliser."""
        with suppress(IndexError):  # taking the last item out of a list is one step: one caller gets it
            slots, identity = self._slots.pop()
            slots.give_back(identity)


class ConnectionSlots:
    """The counts. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[InstanceIdentity, int] = {}
        # Slots come back without the lock: a finaliser may run at any point of a thread, even of one that holds it.
        self._returned: deque[InstanceIdentity] = deque()

    def take(self, identity: InstanceIdentity, limit: int) -> Slot:
        """Take a place for a connection.

        :param limit: how many the instance may hold, as the configuration says now.
        :raises ConnectionLimit: it holds that many already.
        """
        with self._lock:
            self._settle()
            held = self._held.get(identity, 0)
            if held < limit:
                self._held[identity] = held + 1
        if held >= limit:
            raise ConnectionLimit(limit, held)
        return Slot(self, identity)

    def give_back(self, identity: InstanceIdentity) -> None:
        """For :meth:`Slot.release`: one place fewer."""
        self._returned.append(identity)

    def held(self, identity: InstanceIdentity) -> int:
        """How many connections the instance holds."""
        with self._lock:
            self._settle()
            return self._held.get(identity, 0)

    def _settle(self) -> None:
        """Count what came back."""
        while self._returned:
            identity = self._returned.popleft()
            held = self._held[identity] - 1
            if held:
                self._held[identity] = held
            else:
                del self._held[identity]


PROCESS_SLOTS: Final = ConnectionSlots()
"""The counts of this process: two hosts in it share them, as they share its descriptors."""
