"""Every moment at which the store writes, by name, and the seam at which a test stops or breaks it there."""

from __future__ import annotations

import sqlite3
from enum import StrEnum
from pathlib import Path

from zeroclaw_host.private_database import connect


class WritePoint(StrEnum):
    """What a transaction is for. A connection that is not inside one of these cannot write."""

    MIGRATED = "migrated"
    """The tables of an earlier release become those of this one."""
    SESSION_CREATED = "session_created"
    SESSION_RESUMED = "session_resumed"
    """A session is made live again: what a turn left is recovered, and its surface is claimed."""
    SESSION_RECOVERED = "session_recovered"
    """What a turn left is recovered for somebody who reads."""
    TURN_BEGUN = "turn_begun"
    """Before any model is asked."""
    EVENT_APPENDED = "event_appended"
    """Before the client is told."""
    CONTEXT_REDUCED = "context_reduced"
    """Before the client is told that the model has forgotten something."""
    TURN_FINISHED = "turn_finished"
    """Before the client is told that the turn is over."""
    TURN_FAILED = "turn_failed"
    """The verdict on a turn that is left for recovery."""
    PLAN_SAVED = "plan_saved"
    TOKENS_COUNTED = "tokens_counted"
    SESSION_KILLED = "session_killed"
    SESSION_DELETED = "session_deleted"


class Phase(StrEnum):
    """How far a write has come."""

    BEGUN = "begun"
    """The transaction has the database; nothing is changed in it."""
    WRITTEN = "written"
    """Everything is changed and nothing committed."""
    COMMITTED = "committed"
    """It is there, and nobody has been told."""


class StoreSteps:
    """The steps of the store, one method each, so that a test can fail or stop at any of them."""

    def connect(self, path: Path, busy_seconds: float) -> sqlite3.Connection:
        """A connection to the database file."""
        return connect(path, busy_seconds=busy_seconds)

    def reached(self, point: WritePoint, phase: Phase) -> None:
        """A write has come this far."""
