"""What happens in a turn, as it happens."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from zeroclaw_daemon.agent.messages import Message
from zeroclaw_daemon.strict_json import JsonValue


@dataclass(frozen=True, slots=True)
class MessageChunk:
    """A piece of the answer. The pieces of a turn, joined in order, are its content."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtChunk:
    """A piece of the model's reasoning, which is no part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A tool is about to run. ``arguments`` is the JSON value the model sent, or its text where that is none or nests too deep."""

    call_id: str
    name: str
    arguments: JsonValue


class Approval(StrEnum):
    """Who let a tool run, or did not."""

    NOT_ASKED = "not_asked"
    ALLOWED = "allowed"
    REFUSED = "refused"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool has run, or could not; ``output`` is what the model is told.

    ``ran`` is False where the tool was not let run. ``duration_ms`` is that of its run alone, without the wait for consent.
    """

    call_id: str
    name: str
    output: str
    success: bool
    approval: Approval = Approval.NOT_ASKED
    ran: bool = True
    duration_ms: int | None = None


class PlanStatus(StrEnum):
    """How far an entry of a plan is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class PlanPriority(StrEnum):
    """How much an entry of a plan matters."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """One thing to do. ``active_form`` is how it is called while it is being done."""

    content: str
    status: PlanStatus = PlanStatus.PENDING
    priority: PlanPriority = PlanPriority.MEDIUM
    active_form: str | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """The entry as clients read it and as it is kept."""
        members: dict[str, JsonValue] = {
            "content": self.content,
            "status": self.status.value,
            "priority": self.priority.value,
        }
        if self.active_form is not None:
            members["activeForm"] = self.active_form
        return members


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """The agent has another plan, which replaces the one before as a whole."""

    entries: tuple[PlanEntry, ...]


@dataclass(frozen=True, slots=True)
class ContextUsed:
    """How full the model's memory is after one of its answers. Numbers are tokens; None where nobody says."""

    input_tokens: int | None
    max_context_tokens: int | None = None
    model_context_window: int | None = None


@dataclass(frozen=True, slots=True)
class HistoryTrimmed:
    """The model no longer hears the oldest part of the conversation (RPC-135).

    ``context`` is what it hears from now on, the finished steps of the running turn included: it covers every event so far.
    Numbers of tokens are estimates. ``unsatisfiable`` says that what had to stay is larger than the budget.
    """

    dropped_messages: int
    dropped_turns: int
    kept_turns: int
    token_budget: int
    tokens_before: int
    tokens_after: int
    context: tuple[Message, ...] = field(repr=False)
    unsatisfiable: bool = False
    reason: str = "token_budget"


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """A tool waits for a person's consent. It is shown to whoever is asked, and is no part of the turn's record."""

    request_id: str
    tool: str
    arguments_summary: str
    timeout_secs: int


TurnEvent: TypeAlias = (
    MessageChunk | ThoughtChunk | ToolCalled | ToolReturned | PlanChanged | ContextUsed | HistoryTrimmed
)
