"""Durable state that belongs to one instance, as the sandbox asks for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from zeroclaw_host.instance import InstanceIdentity

MAX_VALUE_BYTES: Final = 64 * 1024
"""Bytes of one value (PLG-158)."""

MAX_ENTRIES: Final = 1024
"""Entries of one instance (PLG-158)."""

MAX_TOTAL_BYTES: Final = 8 * 1024 * 1024
"""Bytes of all values of one instance (PLG-158)."""

_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")

Remaining = Callable[[], float]
"""Seconds a caller still has; raises what ends the caller's call when there are none, or when the caller gave up."""


def no_deadline() -> float:
    """For a caller who has time."""
    return float("inf")


def is_key(text: str) -> bool:
    """Whether a guest may use this as a key: 1 to 128 characters of ``A-Z a-z 0-9 _ . -`` (PLG-155)."""
    return _KEY.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class StateEntry:
    """A value and the revision of its last write."""

    value: bytes = field(repr=False)
    revision: int


class StateFault(Exception):
    """A state operation failed; ``word`` is a case of the contract's ``state-error``."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


class StateStore(Protocol):
    """Compare-and-swap storage. Callable from any thread. Every method may raise :class:`StateFault`.

    ``remaining`` tells how long the caller can wait for a store that others use, and may raise; what it raises is passed on.
    """

    def get(
        self, instance: InstanceIdentity, key: str, *, remaining: Remaining = no_deadline
    ) -> StateEntry | None:
        """The entry under the key, or None."""
        ...

    def put(
        self,
        instance: InstanceIdentity,
        key: str,
        value: bytes,
        expected_revision: int | None,
        *,
        remaining: Remaining = no_deadline,
    ) -> int:
        """Write if the key is at the expected revision (None: absent); the new revision (PLG-156)."""
        ...

    def delete(
        self,
        instance: InstanceIdentity,
        key: str,
        expected_revision: int,
        *,
        remaining: Remaining = no_deadline,
    ) -> None:
        """Delete if the key is at the expected revision (PLG-156)."""
        ...


class NoState:
    """A host without durable state: every operation is ``unavailable``."""

    def get(
        self, instance: InstanceIdentity, key: str, *, remaining: Remaining = no_deadline
    ) -> StateEntry | None:
        """Raises :class:`StateFault` ``unavailable``."""
        raise StateFault("unavailable")

    def put(
        self,
        instance: InstanceIdentity,
        key: str,
        value: bytes,
        expected_revision: int | None,
        *,
        remaining: Remaining = no_deadline,
    ) -> int:
        """Raises :class:`StateFault` ``unavailable``."""
        raise StateFault("unavailable")

    def delete(
        self,
        instance: InstanceIdentity,
        key: str,
        expected_revision: int,
        *,
        remaining: Remaining = no_deadline,
    ) -> None:
        """Raises :class:`StateFault` ``unavailable``."""
        raise StateFault("unavailable")
