"""What the store of sessions is compared with: the same operations in plain lists, and a look at everything a store shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from zeroclaw_daemon.agent.events import MessageChunk, ToolCalled, ToolReturned
from zeroclaw_daemon.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from zeroclaw_daemon.sessions.store.acp import AcpStore
from zeroclaw_daemon.sessions.store.payloads import bounded
from zeroclaw_daemon.sessions.store.points import StoreSteps
from zeroclaw_daemon.sessions.store.records import NewSession, Settled
from zeroclaw_daemon.strict_json import encode

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
"""When every turn of a test begins."""

MARKER = ("system", "[stream interrupted]", "message", None, None, None, None)


class Ticking:
    """A clock whose moments are all different."""

    def __init__(self) -> None:
        self._at = BEGAN

    def __call__(self) -> datetime:
        self._at += timedelta(seconds=1)
        return self._at


def store_at(root: Path, *, busy_seconds: float = 60, steps: StoreSteps | None = None) -> AcpStore:
    """A store as a daemon opens it. So long a wait that only what hangs takes it."""
    path = root / "sessions" / "acp-sessions.db"
    return AcpStore(path, busy_seconds=busy_seconds, steps=steps, now=Ticking())


@dataclass
class Kept:
    """One session in plain lists."""

    agent: str
    owner: str | None
    surface: str | None
    entries: list[tuple[Any, ...]] = field(default_factory=list)
    past: list[Any] = field(default_factory=list)
    """The events of the turns that are over."""
    context: list[Message] | None = None
    events: list[Any] = field(default_factory=list)
    covered: int = 0
    turn: str | None = None
    killed: bool = False
    trimmed: bool = False
    plan: Any = None
    tokens: int = 0
    receipts: list[list[Any]] = field(default_factory=list)
    verdicts: list[tuple[str | None, str]] = field(default_factory=list)

    def close(self, verdict: str, *, marked: bool) -> None:
        """Move the events to where a client sees them."""
        self.past += self.events
        self.entries += visible(self.events)
        if marked:
            self.entries.append(MARKER)
        if self.turn not in [turn for turn, _ in self.verdicts]:
            self.verdicts.append((self.turn, verdict))
        for receipt in self.receipts:
            if receipt[0] == self.turn and receipt[3] is None:
                receipt[3] = ("interrupted", None, None)
        self.events, self.covered, self.turn = [], 0, None

    def given(self) -> list[Message]:
        """What the model is given."""
        return safe(messages(self.past)) if self.context is None else self.context


class Model:
    """Sessions by id, without a disk. What a store refuses is not to be asked of it."""

    def __init__(self) -> None:
        self.sessions: dict[str, Kept] = {}

    def create(self, session: NewSession) -> None:
        self.sessions[session.id] = Kept(session.agent_alias, session.owner, session.surface)

    def resume(self, session_id: str, surface: str | None = None) -> None:
        kept = self.sessions[session_id]
        self.recover(session_id)
        kept.surface = kept.surface or surface

    def recover(self, session_id: str) -> None:
        kept = self.sessions[session_id]
        if kept.turn is not None and not kept.killed:
            if kept.context is not None:
                kept.context = safe([*kept.context, *messages(kept.events[kept.covered :])])
            kept.close("interrupt", marked=True)

    def kill(self, session_id: str) -> None:
        self.sessions[session_id].killed = True

    def delete(self, session_id: str) -> None:
        del self.sessions[session_id]

    def begin(self, session_id: str, turn_id: str, prompt: str, began: datetime) -> None:
        kept = self.sessions[session_id]
        kept.turn, kept.events = turn_id, [prompt]

    def append(self, session_id: str, turn_id: str, event: Any, settled: Settled | None = None) -> None:
        kept = self.sessions[session_id]
        kept.events.append(event)
        if isinstance(event, ToolCalled):
            kept.receipts.append([turn_id, event.call_id, event.name, None])
        elif isinstance(event, ToolReturned) and settled is not None:
            for receipt in kept.receipts:
                if receipt[:2] == [turn_id, event.call_id] and receipt[3] is None:
                    receipt[3] = (settled.outcome.value, settled.approval, settled.duration_ms)

    def reduce(self, session_id: str, turn_id: str, context: Sequence[Message], covered: int) -> None:
        """``covered`` is how many of the turn's events."""
        kept = self.sessions[session_id]
        kept.context, kept.covered, kept.trimmed = [cut(message) for message in context], covered, True

    def finish(
        self, session_id: str, turn_id: str, context: Sequence[Message], *, cancelled: bool = False
    ) -> None:
        kept = self.sessions[session_id]
        kept.context = [cut(message) for message in context]
        kept.close("cancel" if cancelled else "complete", marked=cancelled)

    def fail(self, session_id: str, turn_id: str) -> None:
        kept = self.sessions[session_id]
        if turn_id not in [turn for turn, _ in kept.verdicts]:
            kept.verdicts.append((turn_id, "fail"))

    def save_plan(self, session_id: str, plan: Any) -> None:
        self.sessions[session_id].plan = plan

    def count_tokens(self, session_id: str, tokens: int | None) -> None:
        self.sessions[session_id].tokens = tokens or 0

    def shown(self) -> dict[str, Any]:
        """Everything :func:`shown_by` says of a store that holds the same."""
        return {
            name: {
                "agent": kept.agent, "owner": kept.owner, "surface": kept.surface, "killed": kept.killed,
                "trimmed": kept.trimmed, "plan": kept.plan, "tokens": kept.tokens, "turn": kept.turn,
                "entries": kept.entries, "count": len(kept.entries),
                "verdicts": [word for _, word in kept.verdicts],
                "receipts": [tuple(receipt) for receipt in kept.receipts],
            }
            for name, kept in self.sessions.items()
        }  # fmt: skip


def shown_by(store: AcpStore, names: Sequence[str]) -> dict[str, Any]:
    """What the store shows of the sessions of these names that it has; nothing is recovered."""
    found: dict[str, Any] = {}
    for name in names:
        session = store.find(name)
        if session is not None:
            found[name] = {
                "agent": session.agent_alias, "owner": session.owner, "surface": session.surface,
                "killed": session.killed is not None, "trimmed": session.trimmed, "plan": session.plan,
                "tokens": session.token_count, "turn": session.turn_id,
                "entries": [entry_tuple(entry) for entry in store.entries(name)],
                "count": session.message_count,
                "verdicts": [verdict.value for verdict in store.verdicts(name)],
                "receipts": [receipt_tuple(receipt) for receipt in store.receipts(name)],
            }  # fmt: skip
    return found


def entry_tuple(entry: Any) -> tuple[Any, ...]:
    """An entry without its moment."""
    return (
        entry.role, entry.content, entry.kind.value, entry.tool_call_id, entry.tool_name,
        None if entry.tool_input is None else encode(entry.tool_input), entry.tool_output,
    )  # fmt: skip


def receipt_tuple(receipt: Any) -> tuple[Any, ...]:
    """A receipt without its moment."""
    settled = receipt.settled
    told = None if settled is None else (settled.outcome.value, settled.approval, settled.duration_ms)
    return (receipt.turn_id, receipt.call_id, receipt.tool, told)


def visible(events: Sequence[Any]) -> list[tuple[Any, ...]]:
    """What a client sees of events: each of them once, and text that follows text as one."""
    found: list[tuple[Any, ...]] = []
    for event in events:
        match event:
            case str():
                found.append(("user", event, "message", None, None, None, None))
            case MessageChunk(""):
                pass
            case MessageChunk(text):
                if found and found[-1][:1] == ("assistant",) and found[-1][2] == "message":
                    text = found.pop()[1] + text
                found.append(("assistant", text, "message", None, None, None, None))
            case ToolCalled(call_id, name, arguments):
                told = None if arguments is None else encode(arguments)
                found.append(("assistant", "", "tool_call", call_id, name, told, None))
            case ToolReturned(call_id, name, output):
                found.append(("tool", "", "tool_result", call_id, name, None, bounded(output)))
    return found


def messages(events: Sequence[Any]) -> list[Message]:
    """The messages that events are."""
    found: list[Message] = []
    for event in events:
        last = found[-1] if found else None
        match event:
            case str():
                found.append(UserMessage(event))
            case MessageChunk(""):
                pass
            case MessageChunk(text):
                if isinstance(last, AssistantMessage) and not last.tool_calls:
                    text = last.text + text
                    found.pop()
                found.append(AssistantMessage(text))
            case ToolCalled(call_id, name, arguments):
                words = arguments if isinstance(arguments, str) else encode(arguments).decode()
                call = ToolCall(call_id, name, words)
                if isinstance(last, AssistantMessage):
                    found[-1] = AssistantMessage(last.text, (*last.tool_calls, call))
                else:
                    found.append(AssistantMessage("", (call,)))
            case ToolReturned(call_id, name, output, success):
                found.append(ToolMessage(call_id, name, bounded(output), success))
    return found


def safe(given: Sequence[Message]) -> list[Message]:
    """Messages that every provider takes, said without a loop over pairs: a call counts if it is the only one of its id in
    its message, and exactly one result of that id stands in the unbroken row of results behind it.
    """

    def behind(at: int) -> list[ToolMessage]:
        row: list[ToolMessage] = []
        for message in given[at + 1 :]:
            if not isinstance(message, ToolMessage):
                break
            row.append(message)
        return row

    def counts(at: int, call_id: str) -> bool:
        message = given[at]
        if not isinstance(message, AssistantMessage):
            return False
        called = [call.id for call in message.tool_calls].count(call_id)
        return called == 1 and [result.call_id for result in behind(at)].count(call_id) == 1

    def caller(at: int) -> int:
        while at >= 0 and isinstance(given[at], ToolMessage):
            at -= 1
        return at

    found: list[Message] = []
    for at, message in enumerate(given):
        match message:
            case ToolMessage(call_id):
                if caller(at) >= 0 and counts(caller(at), call_id):
                    found.append(message)
            case AssistantMessage(text, calls):
                kept = tuple(call for call in calls if counts(at, call.id))
                if text or kept:
                    found.append(AssistantMessage(text, kept))
            case _:
                found.append(message)
    return found


def cut(message: Message) -> Message:
    """A message as it is kept."""
    if isinstance(message, ToolMessage):
        return ToolMessage(message.call_id, message.name, bounded(message.output), message.success)
    return message
