"""What can go wrong with a session."""

from __future__ import annotations

from zeroclaw_host.errors import Kind, ZeroclawError


class SessionNotFound(ZeroclawError):
    """There is no session of this id: none that is live, where a live one is wanted, and else none that is kept either."""

    code = "session_not_found"
    kind = Kind.NOT_FOUND

    def __init__(self) -> None:
        super().__init__("there is no such session")


class SessionLimit(ZeroclawError):
    """As many sessions are live as may be, or as many of the caller's (RPC-246). ``details`` holds ``limit``."""

    code = "session_limit"
    kind = Kind.LIMIT

    def __init__(self, limit: int, *, own: bool = False) -> None:
        whose = " of yours" if own else ""
        super().__init__(
            f"{limit} sessions{whose} are live, and no more may be; session/close makes room",
            details={"limit": limit},
        )


class SessionBusy(ZeroclawError):
    """The session could not take this up: others were before it for too long, too many of them wait, or too long ones, or the caller
    left while it waited.
    """

    code = "session_busy"
    kind = Kind.LIMIT


class SessionMismatch(ZeroclawError):
    """The session of this id is not the one that was asked for. ``details`` holds ``member``."""

    code = "session_mismatch"
    kind = Kind.CONFLICT


class NoActiveTurn(ZeroclawError):
    """Nothing runs in this session that could be cancelled (RPC-242)."""

    code = "no_active_turn"
    kind = Kind.NOT_FOUND

    def __init__(self) -> None:
        super().__init__("no turn is running in this session")


class TurnFailed(ZeroclawError):
    """A turn did not end with an answer. The message says why; the cause is chained."""

    code = "turn_failed"
    kind = Kind.INTERNAL


class SessionAmbiguous(ZeroclawError):
    """Two sessions of different modes have this id, and none is live that would say which one is meant (RPC-255)."""

    code = "session_ambiguous"
    kind = Kind.INVALID

    def __init__(self) -> None:
        super().__init__("a chat and an acp session have this id; open the one that is meant first")
