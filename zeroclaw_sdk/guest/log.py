"""Structured log records.

    from zeroclaw_sdk.guest import log

    log.info("masked the text", action=log.Action.COMPLETE, outcome=log.Outcome.SUCCESS, attrs={"matches": 3})

A record lands in the host's log under the host's own attribution. The host drops records beyond its limits and never
answers with an error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import TypedDict, Unpack

from zeroclaw_sdk.guest.host import LogEvent, current_host


class Level(StrEnum):
    """How much a record matters."""

    TRACE = "trace"
    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class Outcome(StrEnum):
    """How the thing ended that the record is about."""

    SUCCESS = "success"
    FAILURE = "failure"


class Action(StrEnum):
    """What the plugin was doing, in the contract's words."""

    START = "start"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"
    SKIP = "skip"
    TIMEOUT = "timeout"
    RETRY = "retry"
    INBOUND = "inbound"
    OUTBOUND = "outbound"
    SEND = "send"
    RECEIVE = "receive"
    CONNECT = "connect"
    DISCONNECT = "disconnect"
    RECONNECT = "reconnect"
    SPAWN = "spawn"
    KILL = "kill"
    TICK = "tick"
    TRIGGER = "trigger"
    SCHEDULE = "schedule"
    APPROVE = "approve"
    REJECT = "reject"
    DEFER = "defer"
    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    LIST_ACTION = "list-action"
    QUERY = "query"
    INVOKE = "invoke"
    DISPATCH = "dispatch"
    RESOLVE = "resolve"
    REGISTER = "register"
    UNREGISTER = "unregister"
    LOAD = "load"
    SAVE = "save"
    MIGRATE = "migrate"
    VALIDATE = "validate"
    NOTE = "note"
    MEMORY_AUDIT = "memory-audit"


class Facts(TypedDict, total=False):
    """What a record may say besides its message."""

    action: Action
    """``note`` when left out."""
    outcome: Outcome
    duration_ms: int
    """Whole milliseconds, not negative."""
    attrs: Mapping[str, object]
    """Further facts; a value without a JSON form is written as its ``repr``."""
    function: str
    """The function that speaks; the caller's own name when left out."""


def record(level: Level, message: str, **facts: Unpack[Facts]) -> None:
    """Write one record.

    :raises ValueError: ``level``, ``action`` or ``outcome`` is no word of the contract.
    """
    outcome = facts.get("outcome")
    duration = facts.get("duration_ms")
    attrs = facts.get("attrs")
    event = LogEvent(
        level=Level(level).value,
        function=facts.get("function") or _caller(),
        action=Action(facts.get("action", Action.NOTE)).value,
        message=message,
        outcome=None if outcome is None else Outcome(outcome).value,
        duration_ms=None if duration is None else max(0, duration),
        attrs=None if attrs is None else json.dumps(dict(attrs), default=repr),
    )
    current_host().log(event)


def trace(message: str, **facts: Unpack[Facts]) -> None:
    """:func:`record` at level ``trace``."""
    record(Level.TRACE, message, **facts)


def debug(message: str, **facts: Unpack[Facts]) -> None:
    """:func:`record` at level ``debug``."""
    record(Level.DEBUG, message, **facts)


def info(message: str, **facts: Unpack[Facts]) -> None:
    """:func:`record` at level ``info``."""
    record(Level.INFO, message, **facts)


def warn(message: str, **facts: Unpack[Facts]) -> None:
    """:func:`record` at level ``warn``."""
    record(Level.WARN, message, **facts)


def error(message: str, **facts: Unpack[Facts]) -> None:
    """:func:`record` at level ``error``."""
    record(Level.ERROR, message, **facts)


def _caller() -> str:
    """The name of the innermost function outside this module."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # inspect.stack reads source files; there are none
    while frame.f_globals.get("__name__") == __name__ and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_qualname
