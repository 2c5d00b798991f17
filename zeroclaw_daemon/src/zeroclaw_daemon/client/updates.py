"""What the daemon tells of a turn while it runs, typed: ``session/update`` as a client reads it (RPC-123…129, RPC-254).

Reading is tolerant: a type that is not known here, or one whose members do not fit, is an :class:`OtherUpdate`, because a
newer daemon may tell more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from zeroclaw_daemon.strict_json import JsonValue


class Update(BaseModel):
    """Something that happened in a session. ``params`` is the notification as it came."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")

    session_id: str
    params: dict[str, Any] = Field(default_factory=dict, exclude=True, repr=False)


class AnswerChunk(Update):
    """A piece of the answer."""

    text: str


class ThoughtChunk(Update):
    """A piece of the model's reasoning, which is no part of the answer."""

    text: str


class ToolCall(Update):
    """A tool is called. ``raw_input`` is any JSON value."""

    tool_call_id: str
    name: str
    raw_input: JsonValue = None


class ToolResult(Update):
    """What a tool gave back."""

    tool_call_id: str
    name: str
    raw_output: str


class ApprovalRequest(Update):
    """A tool waits for consent. ``timeout_secs`` is how long it waits; without an answer it is not run (D-33)."""

    request_id: str
    tool_name: str
    arguments_summary: str
    timeout_secs: float


class PlanEntry(BaseModel):
    """One step of a plan."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")

    content: str
    status: str
    priority: str = "medium"
    active_form: str | None = None


class PlanChanged(Update):
    """What the agent means to do, as a whole."""

    entries: tuple[PlanEntry, ...]


class ContextUsage(Update):
    """How much of the model's context a turn takes, in tokens."""

    input_tokens: int | None = None
    max_context_tokens: int | None = None
    model_context_window: int | None = None


class HistoryTrimmed(Update):
    """Old turns are no longer told to the model. The transcript keeps them."""

    dropped_messages: int
    dropped_turns: int | None = None
    kept_turns: int | None = None
    reason: str | None = None


class TurnComplete(Update):
    """The turn is over; nothing of it follows (D-02). ``reason`` is ``max_tokens`` where the model had no room for the rest of an
    answer that counts as complete.
    """

    outcome: Literal["completed", "cancelled", "failed"]
    content: str = ""
    reason: str | None = None
    client_turn_generation: int | None = None


class VerdictRefused(Update):
    """The daemon did not take a decision of this client about a tool, which waits on for one. Said by the client itself, in the
    place where the updates of the daemon come.

    ``reason`` is the stable word of the error, where there is one.
    """

    request_id: str
    message: str
    reason: str | None = None


class OtherUpdate(Update):
    """Something this release does not know."""

    type: str = ""


TYPES: Final[Mapping[str, type[Update]]] = {
    "agent_message_chunk": AnswerChunk,
    "agent_thought_chunk": ThoughtChunk,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "approval_request": ApprovalRequest,
    "plan": PlanChanged,
    "context_usage": ContextUsage,
    "history_trimmed": HistoryTrimmed,
    "turn_complete": TurnComplete,
}
"""Every type that is known, by its word on the wire."""


def read_update(params: JsonValue) -> Update | None:
    """An update from the parameters of its notification; None where they belong to no session."""
    match params:
        case {"sessionId": str() as session_id}:
            pass
        case _:
            return None
    word = params.get("type")
    model = TYPES.get(word) if isinstance(word, str) else None
    if model is not None:
        try:
            return model.model_validate({**params, "params": params})
        except ValidationError:
            pass
    return OtherUpdate(session_id=session_id, type=str(word or ""), params=params)
