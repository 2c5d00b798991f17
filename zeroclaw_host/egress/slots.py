"""How many connections each instance holds: one count for all its calls, stores and transports (PLG-124)."""

from __future__ import annotations

import threading
from typing import Final

from zeroclaw_host.egress.failures import ConnectionLimit
from zeroclaw_host.instance import InstanceIdentity


class Slot:
    """One connection's place in the count. Given back once, however often that is said."""

    __slots__ = ("_identity", "_slots")

    def __init__(self, slots: ConnectionSlots, identity: InstanceIdentity) -> None:
        self._slots: ConnectionSlots | None = slots
        self._identity = identity

    def release(self) -> None:
        """Give it back. Callable from any thread, any number of times."""
        slots = self._slots
        if slots is not None:
            slots.give_back(self)

    def taken_out(self) -> InstanceIdentity | None:
        """For :class:`ConnectionSlots`, under its lock: whose it was, the first time."""
        if self._slots is None:
            return None
        self._slots = None
        return self._identity


class ConnectionSlots:
    """The counts. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[InstanceIdentity, int] = {}

    def take(self, identity: InstanceIdentity, limit: int) -> Slot:
        """Take a place for a connection.

        :param limit: how many the instance may hold, as the configuration says now.
        :raises ConnectionLimit: it holds that many already.
        """
        with self._lock:
            held = self._held.get(identity, 0)
            if held >= limit:
                raise ConnectionLimit(limit, held)
            self._held[identity] = held + 1
        return Slot(self, identity)

    def give_back(self, slot: Slot) -> None:
        """See :meth:`Slot.release`."""
        with self._lock:
            identity = slot.taken_out()
            if identity is None:
                return
            held = self._held[identity] - 1
            if held:
                self._held[identity] = held
            else:
                del self._held[identity]

    def held(self, identity: InstanceIdentity) -> int:
        """How many connections the instance holds."""
        with self._lock:
            return self._held.get(identity, 0)


PROCESS_SLOTS: Final = ConnectionSlots()
"""The counts of this process: two hosts in it share them, as they share its descriptors."""
