"""What happens in a turn, as ``session/update`` tells it: the one place that knows the names of its members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from zeroclaw_daemon.agent.events import (
    ApprovalRequested,
    ContextUsed,
    HistoryTrimmed,
    MessageChunk,
    PlanChanged,
    ThoughtChunk,
    ToolCalled,
    ToolReturned,
)
from zeroclaw_daemon.agent.messages import AssistantMessage, Message, UserMessage
from zeroclaw_daemon.rpc.caller import Link
from zeroclaw_daemon.rpc.errors import FrameTooLarge
from zeroclaw_daemon.rpc.framing import MAX_FRAME_BYTES
from zeroclaw_daemon.sessions.store.payloads import TRUNCATED
from zeroclaw_daemon.sessions.ticket import SessionEvent, TurnEnded
from zeroclaw_daemon.strict_json import JsonValue, encode

UPDATE: Final = "session/update"
"""The notification that carries what happens in a turn."""

MAX_VALUE_BYTES: Final = MAX_FRAME_BYTES - 256 * 1024
"""Of one value in a line, as JSON; what is around it, the id of a request among it, has room in the rest."""

PIECE_CHARACTERS: Final = 256 * 1024
"""Of a text that does not fit in a line. As JSON, six bytes each at most: four such texts fit in one."""

_CHARACTER_BYTES: Final = 6

Told: TypeAlias = SessionEvent | ApprovalRequested
"""What a client may be told of."""


def members(event: Told) -> dict[str, JsonValue]:
    """An event as clients read it (RPC-124…129, RPC-254)."""
    match event:
        case MessageChunk(text):
            return {"type": "agent_message_chunk", "text": text}
        case ThoughtChunk(text):
            return {"type": "agent_thought_chunk", "text": text}
        case ToolCalled(call_id, name, arguments):
            return {"type": "tool_call", "toolCallId": call_id, "name": name, "rawInput": arguments}
        case ToolReturned(call_id, name, output):
            return {"type": "tool_result", "toolCallId": call_id, "name": name, "rawOutput": output}
        case ApprovalRequested(request_id, tool, arguments_summary, timeout_secs):
            return {
                "type": "approval_request",
                "requestId": request_id,
                "toolName": tool,
                "argumentsSummary": arguments_summary,
                "timeoutSecs": timeout_secs,
            }
        case PlanChanged(entries):
            return {"type": "plan", "entries": [entry.to_json() for entry in entries]}
        case ContextUsed(input_tokens, max_context_tokens, model_context_window):
            numbers = {
                "inputTokens": input_tokens,
                "maxContextTokens": max_context_tokens,
                "modelContextWindow": model_context_window,
            }
            return {
                "type": "context_usage",
                **{name: number for name, number in numbers.items() if number is not None},
            }
        case HistoryTrimmed():
            return {
                "type": "history_trimmed",
                "droppedMessages": event.dropped_messages,
                "droppedTurns": event.dropped_turns,
                "keptTurns": event.kept_turns,
                "reason": event.reason,
                "tokenBudget": event.token_budget,
                "tokensBefore": event.tokens_before,
                "tokensAfter": event.tokens_after,
                "unsatisfiableFloor": event.unsatisfiable,
            }
        case TurnEnded(outcome, content, reason):
            return {
                "type": "turn_complete",
                "outcome": outcome.value,
                "content": fitting(content),
                "reason": reason,
            }


async def tell(link: Link, update: Mapping[str, JsonValue]) -> None:
    """Send an update; as several, or cut, where it does not fit in a line."""
    try:
        await link.notify(UPDATE, update)
    except FrameTooLarge:
        for piece in _pieces(update):
            await link.notify(UPDATE, piece)


def fitting(value: JsonValue) -> JsonValue:
    """The value, if it fits in a line beside what is small; else the beginning of its text."""
    if isinstance(value, str) and len(value) * _CHARACTER_BYTES <= MAX_VALUE_BYTES:
        return value
    return value if len(encode(value)) <= MAX_VALUE_BYTES else _beginning(value)


def _pieces(update: Mapping[str, JsonValue]) -> Iterator[dict[str, JsonValue]]:
    text = update.get("text")
    if isinstance(text, str):
        for start in range(0, len(text), PIECE_CHARACTERS):
            yield {**update, "text": text[start : start + PIECE_CHARACTERS]}
    else:
        yield {name: _beginning(value) for name, value in update.items()}


def _beginning(value: JsonValue) -> JsonValue:
    text = value if isinstance(value, str) else encode(value).decode()
    return value if len(text) <= PIECE_CHARACTERS else text[:PIECE_CHARACTERS] + TRUNCATED


def trimmed_before(history: Sequence[Message], shown: int) -> dict[str, JsonValue]:
    """What a client that opens a session again is told where the model had forgotten some of it before. How much that was is
    not known exactly any more; ``droppedMessages`` is of entries of the transcript.

    :param shown: how many entries the transcript has.
    """
    turns = sum(isinstance(message, UserMessage) for message in history)
    return {
        "type": "history_trimmed",
        "droppedMessages": max(1, shown - sum(map(_entries, history))),
        "keptTurns": turns,
        "reason": "before_this_opening",
    }


def _entries(message: Message) -> int:
    """How many entries a transcript has of a message."""
    return bool(message.text) + len(message.tool_calls) if isinstance(message, AssistantMessage) else 1
