"""What the store is asked with and answers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from zeroclaw_daemon.agent.events import Approval
from zeroclaw_daemon.agent.messages import Message
from zeroclaw_daemon.strict_json import JsonValue, encode
from zeroclaw_host.errors import Kind, ZeroclawError

SUPPORTED_SURFACES: Final = frozenset({None, "zerocode_code"})
"""The surfaces whose sessions can be made live again (RPC-146)."""


class RowBroken(Exception):
    """A row holds what was never written there."""


class SessionExists(ZeroclawError):
    """A durable session of this id is there already."""

    code = "session_exists"
    kind = Kind.CONFLICT

    def __init__(self) -> None:
        super().__init__("there is a durable session of this id already")


class SessionKilled(ZeroclawError):
    """The session was killed: its transcript can be read, and nothing goes on in it (RPC-153)."""

    code = "session_killed"
    kind = Kind.NOT_FOUND

    def __init__(self) -> None:
        super().__init__("the session was killed and cannot go on")


class SurfaceUnsupported(ZeroclawError):
    """The session was made by a client whose sessions this daemon cannot go on with. Its rows are as they were (RPC-147)."""

    code = "surface_unsupported"
    kind = Kind.NOT_FOUND

    def __init__(self) -> None:
        super().__init__("the session belongs to a kind of client that this daemon cannot go on for")


class TurnSuperseded(ZeroclawError):
    """The turn has no checkpoint any more, or not yet: it is over, recovered, or its session is gone, killed or in another
    turn. Nothing was written.
    """

    code = "turn_superseded"
    kind = Kind.CONFLICT

    def __init__(self) -> None:
        super().__init__("the turn is not the one that the durable session is in")


class Verdict(StrEnum):
    """How a turn ended, one for each turn."""

    COMPLETED = "complete"
    CANCELLED = "cancel"
    FAILED = "fail"
    INTERRUPTED = "interrupt"
    """Nobody wrote its end; recovery found it."""


class CallOutcome(StrEnum):
    """What became of a call."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    NOT_RUN = "not_run"
    INTERRUPTED = "interrupted"
    """Nobody wrote its end: the tool may have done its work or not."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What a receipt says of a call that is over; the rest is None where nobody wrote its end."""

    outcome: CallOutcome
    approval: Approval | None = None
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """The stored record of one tool call (D-47). It says nothing of the arguments but their SHA-256. ``settled`` is None while
    the call runs.
    """

    turn_id: str
    call_id: str
    tool: str
    arguments_sha256: str
    at: datetime
    settled: Settled | None


def digest_of(arguments: JsonValue) -> str:
    """The SHA-256, in hexadecimal, of arguments as this daemon encodes them."""
    return hashlib.sha256(encode(arguments)).hexdigest()


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session to be made durable. ``owner`` None is the shared operator."""

    id: str
    agent_alias: str
    workspace: str
    surface: str | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class StoredSession:
    """What is known of a durable session. ``message_count`` is of entries, as a client sees them; ``trimmed`` whether the model
    has forgotten some of it; ``turn_id`` the turn whose end is not written.
    """

    id: str
    agent_alias: str
    workspace: str
    surface: str | None
    owner: str | None
    token_count: int
    plan: JsonValue
    trimmed: bool
    killed: datetime | None
    created: datetime
    last_activity: datetime
    message_count: int
    turn_id: str | None

    @property
    def recoverable(self) -> bool:
        """Whether a turn has no end that was written, and the session can go on."""
        return self.turn_id is not None and self.killed is None and self.surface in SUPPORTED_SURFACES


@dataclass(frozen=True, slots=True)
class Restored:
    """A session to be made live: ``context`` is what the model is given, ``recovered`` whether a turn was broken off before."""

    session: StoredSession
    context: tuple[Message, ...]
    recovered: bool
