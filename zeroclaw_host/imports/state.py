"""``zeroclaw:plugin/state``: durable bytes that belong to this instance alone (PLG-009)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zeroclaw_host.package.manifest import Permission
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction, HostInterface, interface
from zeroclaw_host.sandbox.values import Err, Ok
from zeroclaw_host.services.state import Remaining, StateFault, is_key

_UNAVAILABLE: Final = Err("unavailable")


def _answer(frame: CallFrame, permission: Permission, key: str, operation: Callable[[], object]) -> Ok | Err:
    """What every operation checks, in this order: phase, grant, key; then the operation itself."""
    if not frame.serves:
        return _UNAVAILABLE
    if not frame.scope.grants_permission(permission):
        return Err("access-denied")
    if not is_key(key):
        return Err("invalid-key")
    try:
        return Ok(operation())
    except StateFault as fault:
        return Err(fault.word)


def _time_of(frame: CallFrame) -> Remaining:
    return lambda: frame.remaining("its state, which another program is using")


def _get(frame: CallFrame, key: str) -> Ok | Err:
    def read() -> object:
        entry = frame.services.state.get(frame.scope.identity, key, remaining=_time_of(frame))
        return None if entry is None else {"value": entry.value, "revision": entry.revision}

    return _answer(frame, Permission.STATE_READ, key, read)


def _put(frame: CallFrame, key: str, value: bytes, expected_revision: int | None) -> Ok | Err:
    def write() -> object:
        return frame.services.state.put(
            frame.scope.identity, key, value, expected_revision, remaining=_time_of(frame)
        )

    return _answer(frame, Permission.STATE_WRITE, key, write)


def _delete(frame: CallFrame, key: str, expected_revision: int) -> Ok | Err:
    def remove() -> object:
        frame.services.state.delete(frame.scope.identity, key, expected_revision, remaining=_time_of(frame))
        return None

    return _answer(frame, Permission.STATE_WRITE, key, remove)


INTERFACE: Final[HostInterface] = interface(
    "zeroclaw:plugin/state",
    *(
        HostFunction(name, function, charged=True, exhausted=_UNAVAILABLE)
        for name, function in (("get", _get), ("put", _put), ("delete", _delete))
    ),
)
