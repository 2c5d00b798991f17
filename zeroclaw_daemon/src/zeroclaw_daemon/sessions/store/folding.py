"""From the events of a turn to the pieces of a transcript, and from pieces to what a model may be given. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from zeroclaw_daemon.agent.context_budget import tokens_of
from zeroclaw_daemon.agent.events import MessageChunk, ToolCalled, ToolReturned
from zeroclaw_daemon.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from zeroclaw_daemon.sessions.store.payloads import KeptEvent, Prompted
from zeroclaw_daemon.strict_json import JsonValue, encode

MARKER_ROLE: Final = "__zeroclaw_turn_stream_interrupted__"
"""The role of the row that says a turn was broken off. A client is shown it as ``system``; a model never is (RPC-150)."""

MARKER_TEXT: Final = "[stream interrupted]"

MAX_GIVEN_TOKENS: Final = 4_000_000
"""What a model is given at most of a transcript that has no retained context, as an estimate. More than models hold, and room for
two prompts of the longest line of the protocol.
"""

USER: Final = "user"
ASSISTANT: Final = "assistant"
TOOL: Final = "tool"


@dataclass(slots=True)
class Piece:
    """One row of a transcript with what hangs on it. ``at`` is when its first part happened."""

    role: str
    content: str
    at: str
    calls: list[ToolCalled] = field(default_factory=list[ToolCalled])
    results: list[ToolReturned] = field(default_factory=list[ToolReturned])


def marker(at: str) -> Piece:
    """The piece that says a turn was broken off here."""
    return Piece(MARKER_ROLE, MARKER_TEXT, at)


def fold(events: Iterable[tuple[KeptEvent, str]]) -> list[Piece]:
    """The pieces that events with their moments make: text that follows text is one text, the calls after it hang on it, and
    results that follow each other are one piece.
    """
    pieces: list[Piece] = []
    texts: list[str] = []

    def last(role: str, at: str) -> Piece:
        if not pieces or pieces[-1].role != role:
            finish()
            pieces.append(Piece(role, "", at))
        return pieces[-1]

    def finish() -> None:
        if texts:
            pieces[-1].content = "".join(texts)
            texts.clear()

    for event, at in events:
        match event:
            case Prompted(text):
                finish()
                pieces.append(Piece(USER, text, at))
            case MessageChunk(""):
                pass
            case MessageChunk(text):
                if pieces and pieces[-1].calls:
                    finish()
                    pieces.append(Piece(ASSISTANT, "", at))
                last(ASSISTANT, at)
                texts.append(text)
            case ToolCalled():
                last(ASSISTANT, at).calls.append(event)
            case ToolReturned():
                last(TOOL, at).results.append(event)
    finish()
    return pieces


def messages_of(pieces: Iterable[Piece]) -> Iterator[Message]:
    """The messages that pieces are; what is of no role that a model knows is left out."""
    for piece in pieces:
        if piece.role == USER:
            yield UserMessage(piece.content)
        elif piece.role == ASSISTANT and (piece.content or piece.calls):
            calls = (ToolCall(call.call_id, call.name, _text_of(call.arguments)) for call in piece.calls)
            yield AssistantMessage(piece.content, tuple(calls))
        for result in piece.results:
            yield ToolMessage(result.call_id, result.name, result.output, result.success)


def newest_turns(newest: Iterable[Piece], budget: int) -> tuple[tuple[Message, ...], bool]:
    """The messages of the newest whole turns that fit in a budget of tokens, oldest first and as every provider takes them; and
    whether there are older ones.

    :param newest: pieces, the newest first. No more of them are taken than are needed.
    """
    taken: list[list[Message]] = []
    cost = whole = 0
    for piece in newest:
        messages = list(messages_of([piece]))
        cost += tokens_of(messages)
        if cost > budget:
            break
        taken.append(messages)
        if piece.role == USER:
            whole = len(taken)
    else:
        whole = len(taken)
    given = [message for messages in reversed(taken[:whole]) for message in messages]
    return tuple(provider_safe(given)), cost > budget


def provider_safe(messages: Sequence[Message]) -> list[Message]:
    """Messages that every provider takes (RPC-145): a call stays with exactly one result among those that follow its message
    at once, if no other call of the message has its id; every other call and result goes. What was said stays.
    """
    safe: list[Message] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if isinstance(message, ToolMessage):
            continue  # one that belongs to a call was taken with it
        results: list[ToolMessage] = []
        if isinstance(message, AssistantMessage):
            while at < len(messages) and isinstance(found := messages[at], ToolMessage):
                results.append(found)
                at += 1
            message, results = _paired(message, results)
            if not message.text and not message.tool_calls:
                continue
        safe.append(message)
        safe.extend(results)
    return safe


def _paired(
    message: AssistantMessage, results: list[ToolMessage]
) -> tuple[AssistantMessage, list[ToolMessage]]:
    if not message.tool_calls:
        return message, []
    called = Counter(call.id for call in message.tool_calls)
    returned = Counter(result.call_id for result in results)
    kept = {call_id for call_id in called if called[call_id] == 1 and returned[call_id] == 1}
    calls = tuple(call for call in message.tool_calls if call.id in kept)
    return AssistantMessage(message.text, calls), [result for result in results if result.call_id in kept]


def _text_of(arguments: JsonValue) -> str:
    """The text of arguments. Text stands for itself: it is what the model sent where that was no JSON."""
    return arguments if isinstance(arguments, str) else encode(arguments).decode()
