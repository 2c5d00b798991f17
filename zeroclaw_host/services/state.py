"""Durable state that belongs to one instance, as the sandbox asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from zeroclaw_host.instance import InstanceIdentity


@dataclass(frozen=True, slots=True)
class StateEntry:
    """A value and the revision of its last write."""

    value: bytes
    revision: int


class StateFault(Exception):
    """A state operation failed; ``word`` is a case of the contract's ``state-error``."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


class StateStore(Protocol):
    """Compare-and-swap storage. Every method may raise :class:`StateFault`."""

    def get(self, instance: InstanceIdentity, key: str) -> StateEntry | None:
        """The entry under the key, or None."""
        ...

    def put(self, instance: InstanceIdentity, key: str, value: bytes, expected_revision: int | None) -> int:
        """Write if the key is at the expected revision (None: absent); the new revision."""
        ...

    def delete(self, instance: InstanceIdentity, key: str, expected_revision: int) -> None:
        """Delete if the key is at the expected revision."""
        ...


class NoState:
    """A host without durable state: every operation is ``unavailable``."""

    def get(self, instance: InstanceIdentity, key: str) -> StateEntry | None:
        """Raises :class:`StateFault` ``unavailable``."""
        raise StateFault("unavailable")

    def put(self, instance: InstanceIdentity, key: str, value: bytes, expected_revision: int | None) -> int:
        """Raises :class:`StateFault` ``unavailable``."""
        raise StateFault("unavailable")

    def delete(self, instance: InstanceIdentity, key: str, expected_revision: int) -> None:
        """Raises :class:`StateFault` ``unavailable``."""
        raise StateFault("unavailable")
