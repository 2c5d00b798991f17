"""Durable bytes that belong to this instance alone and outlast it.

Every write names the revision it builds on, so that two instances of one plugin do not undo each other's work::

    entry = state.get("cursor")
    state.put("cursor", b"42", entry.revision if entry else None)

Keys are 1 to 128 characters of letters, digits, ``_``, ``.`` and ``-``; a value has at most 64 KiB.
"""

from __future__ import annotations

from zeroclaw_sdk.guest.host import StateEntry, StateError, current_host

__all__ = ["StateEntry", "StateError", "delete", "get", "put"]


def get(key: str) -> StateEntry | None:
    """The entry under a key, or None. Needs the permission ``state_read``.

    :raises StateError: its ``word`` says why it cannot be read.
    """
    return current_host().state_get(key)


def put(key: str, value: bytes, expected_revision: int | None = None) -> int:
    """Write a value; its revision. Needs the permission ``state_write``.

    :param expected_revision: the revision that is there; None when the key must be absent.
    :raises StateError: ``conflict`` when something else is there; its ``word`` says what else kept it from being written.
    """
    if not isinstance(value, bytes | bytearray | memoryview):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped authors
        raise TypeError(f"state.put: a value is bytes, not {type(value).__name__}")
    return current_host().state_put(key, bytes(value), expected_revision)


def delete(key: str, expected_revision: int) -> None:
    """Delete an entry. Needs the permission ``state_write``.

    :raises StateError: ``conflict`` or ``not-found`` when something else or nothing is there; or why else not.
    """
    current_host().state_delete(key, expected_revision)
