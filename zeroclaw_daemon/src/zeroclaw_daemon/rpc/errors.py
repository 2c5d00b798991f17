"""What goes wrong, as JSON-RPC says it: one table from code words and kinds to error codes.

A code word is the ``data.reason`` that clients key on; it has exactly one JSON-RPC code (RPC-237). The table below names
every word that does not follow from its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_host.errors import Kind, Remedy, ZeroclawError

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
UNKNOWN_METHOD: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL: Final = -32603
SESSION_NOT_FOUND: Final = -32000
SESSION_LIMIT: Final = -32001
SESSION_BUSY: Final = -32002
CONNECTION_LIMIT: Final = -32004
AUTHENTICATION_REQUIRED: Final = -32010
PROTOCOL_MISMATCH: Final = -32011
FORBIDDEN: Final = -32012

CODES: Final[Mapping[str, int]] = {
    "parse_error": PARSE_ERROR,
    "invalid_request": INVALID_REQUEST,
    "frame_too_large": INVALID_REQUEST,
    "frame_timeout": INVALID_REQUEST,
    "unknown_method": UNKNOWN_METHOD,
    "invalid_params": INVALID_PARAMS,
    "conflicting_spelling": INVALID_PARAMS,
    "agent_not_found": INVALID_PARAMS,
    "session_mismatch": INVALID_PARAMS,
    "map_key_exists": INVALID_PARAMS,
    # The file on disk is at fault there, and not what the caller sent.
    "config_invalid": INTERNAL,
    "config_syntax_invalid": INTERNAL,
    "session_not_found": SESSION_NOT_FOUND,
    "no_active_turn": SESSION_NOT_FOUND,
    "session_killed": SESSION_NOT_FOUND,
    "surface_unsupported": SESSION_NOT_FOUND,
    "session_limit": SESSION_LIMIT,
    "session_busy": SESSION_BUSY,
    "upload_limit": INVALID_PARAMS,
    "upload_budget_spent": INVALID_PARAMS,
    "connection_limit": CONNECTION_LIMIT,
    "initialize_required": AUTHENTICATION_REQUIRED,
    "authentication_failed": AUTHENTICATION_REQUIRED,
    "protocol_mismatch": PROTOCOL_MISMATCH,
    "forbidden": FORBIDDEN,
    "internal": INTERNAL,
    "turn_failed": INTERNAL,
}
"""Code words with a JSON-RPC code of their own."""

KIND_CODES: Final[Mapping[Kind, int]] = {
    Kind.USAGE: INVALID_PARAMS,
    Kind.INVALID: INVALID_PARAMS,
    Kind.REFUSED: FORBIDDEN,
    Kind.NOT_FOUND: INVALID_PARAMS,
    Kind.CONFLICT: INTERNAL,
    Kind.UNAVAILABLE: INTERNAL,
    Kind.LIMIT: INTERNAL,
    Kind.PLUGIN: INTERNAL,
    Kind.INTERNAL: INTERNAL,
}
"""The JSON-RPC code of every other code word."""


class ParseError(ZeroclawError):
    """A line is not JSON that can be held. Never says what the line holds. ``details`` has ``limit_values`` where it holds more."""

    code = "parse_error"
    kind = Kind.INVALID

    def __init__(self, limit_values: int | None = None) -> None:
        if limit_values is None:
            super().__init__("the line is not acceptable JSON")
        else:
            super().__init__(f"a line may hold {limit_values} values", details={"limit_values": limit_values})


class InvalidRequest(ZeroclawError):
    """A line is JSON but no JSON-RPC message. ``details`` holds ``fault``, a word for the rule it breaks."""

    code = "invalid_request"
    kind = Kind.INVALID

    def __init__(self, fault: str, message: str) -> None:
        super().__init__(message, details={"fault": fault})


class FrameTooLarge(ZeroclawError):
    """A line is longer than a line may be (RPC-021). ``details`` holds ``limit_bytes``."""

    code = "frame_too_large"
    kind = Kind.LIMIT

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"a line may have {limit_bytes} bytes, its end included", details={"limit_bytes": limit_bytes}
        )


class AnswerTooLarge(ZeroclawError):
    """An answer does not fit in a line of the protocol. ``details`` holds ``limit_bytes``."""

    code = "answer_too_large"
    kind = Kind.LIMIT

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"the answer does not fit in a line, which may have {limit_bytes} bytes",
            details={"limit_bytes": limit_bytes},
        )


class FrameTimeout(ZeroclawError):
    """A line was begun and not ended in time (RPC-027). ``details`` holds ``limit_ms``."""

    code = "frame_timeout"
    kind = Kind.LIMIT

    def __init__(self, limit_ms: int) -> None:
        super().__init__(
            f"a line must be complete {limit_ms} ms after its first byte", details={"limit_ms": limit_ms}
        )


class ConnectionLimit(ZeroclawError):
    """The daemon serves as many connections as it may (RPC-034). ``details`` holds ``limit``."""

    code = "connection_limit"
    kind = Kind.LIMIT

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the daemon serves {limit} connections at once, and they are taken", details={"limit": limit}
        )


class UnknownMethod(ZeroclawError):
    """No method of that name is served in this direction."""

    code = "unknown_method"
    kind = Kind.NOT_FOUND

    def __init__(self) -> None:
        super().__init__("no such method is served here")


class InvalidParams(ZeroclawError):
    """The parameters of a call do not fit its method. ``details`` names members and rules, never values."""

    code = "invalid_params"
    kind = Kind.INVALID


class ConflictingSpelling(InvalidParams):
    """One parameter came in both spellings with different values (D-01)."""

    code = "conflicting_spelling"


class InitializeRequired(ZeroclawError):
    """The first call on a connection must be ``initialize`` (RPC-040)."""

    code = "initialize_required"
    kind = Kind.REFUSED

    def __init__(self) -> None:
        super().__init__("the first call on a connection must be initialize")


class ProtocolMismatch(ZeroclawError):
    """The client speaks another protocol version (RPC-042). ``details`` holds ``supported``."""

    code = "protocol_mismatch"
    kind = Kind.INVALID

    def __init__(self, supported: int) -> None:
        super().__init__(
            f"this daemon speaks protocol version {supported}", details={"supported": [supported]}
        )


class PeerSilent(ZeroclawError):
    """The peer did not answer in time."""

    code = "peer_silent"
    kind = Kind.UNAVAILABLE


@dataclass(frozen=True, slots=True)
class ErrorObject:
    """The ``error`` member of a response. ``data`` is None where the member is absent."""

    code: int
    message: str
    data: JsonValue = None

    def to_json(self) -> dict[str, JsonValue]:
        """The member as it is written."""
        written: dict[str, JsonValue] = {"code": self.code, "message": self.message}
        if self.data is not None:
            written["data"] = self.data
        return written


class ConnectionLost(ZeroclawError):
    """The connection ended before the answer came. ``last_words`` is the error with which the peer ended it, about no call
    in particular, where it said one (RPC-234).
    """

    code = "connection_lost"
    kind = Kind.UNAVAILABLE

    def __init__(self, message: str, last_words: ErrorObject | None = None) -> None:
        super().__init__(message if last_words is None else f"{message}: {last_words.message}")
        self.last_words = last_words


class RemoteError(ZeroclawError):
    """The peer answered with an error. ``error`` is what it said; ``reason`` its stable word, where it sent one."""

    code = "remote_error"
    kind = Kind.UNAVAILABLE

    def __init__(self, error: ErrorObject) -> None:
        super().__init__(error.message, details={"code": error.code})
        self.error = error

    @property
    def reason(self) -> str | None:
        """``data.reason``, where the peer sent one."""
        match self.error.data:
            case {"reason": str() as reason}:
                return reason
            case _:
                return None


def code_of(error: ZeroclawError | type[ZeroclawError]) -> int:
    """The JSON-RPC code of an error, or of every error of a class."""
    return CODES.get(error.code, KIND_CODES[error.kind])


def error_object(error: ZeroclawError) -> ErrorObject:
    """An error as a client reads it: code, message, and ``data`` with ``reason``, the details and the remedy (RPC-237).

    Where several things are to be done, ``remedies`` holds them all in their order, and ``remedy`` the first.
    """
    data: dict[str, JsonValue] = {**error.details, "reason": error.code}
    if error.remedies:
        found: list[JsonValue] = [_remedy(each) for each in error.remedies]
        data["remedy"] = found[0]
        if len(found) > 1:
            data["remedies"] = found
    return ErrorObject(code_of(error), error.message, data)


def _remedy(remedy: Remedy) -> JsonValue:
    return {"action": remedy.action.value, "arguments": dict(remedy.arguments)}
