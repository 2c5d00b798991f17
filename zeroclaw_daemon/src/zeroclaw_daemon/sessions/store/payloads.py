"""What the columns of JSON hold: the events of a turn, and the conversation as the model is given it.

Output of tools is kept to a bound wherever it is kept (RPC-151). Thoughts and system prompts have no form here (RPC-137, RPC-139).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from zeroclaw_daemon.agent.events import MessageChunk, ToolCalled, ToolReturned
from zeroclaw_daemon.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from zeroclaw_daemon.sessions.store.records import RowBroken
from zeroclaw_daemon.strict_json import JsonValue, NotJson, encode, parse

MAX_OUTPUT_BYTES: Final = 16_384
"""Bytes of one tool's output that are kept."""

TRUNCATED: Final = "…[truncated]"
"""Follows output that was longer."""


@dataclass(frozen=True, slots=True)
class Prompted:
    """The user's prompt, which is the first event of its turn."""

    text: str


KeptEvent: TypeAlias = Prompted | MessageChunk | ToolCalled | ToolReturned
"""What of a turn is kept while it runs."""


def bounded(output: str) -> str:
    """Output of a tool as it is kept: at most :data:`MAX_OUTPUT_BYTES`, cut between characters, then :data:`TRUNCATED`."""
    if len(output) * 4 <= MAX_OUTPUT_BYTES:
        return output
    data = output.encode(errors="surrogatepass")
    if len(data) <= MAX_OUTPUT_BYTES:
        return output
    end = MAX_OUTPUT_BYTES
    while data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end].decode(errors="surrogatepass") + TRUNCATED


def dump_event(event: KeptEvent, at: str) -> str:
    """An event and its moment, as a column holds it."""
    match event:
        case Prompted(text):
            members: dict[str, JsonValue] = {"type": "prompt", "text": text}
        case MessageChunk(text):
            members = {"type": "text", "text": text}
        case ToolCalled(call_id, name, arguments):
            # As a text of its own: inside, it would nest deeper than what may be read again.
            members = {"type": "call", "id": call_id, "name": name, "arguments": dump(arguments)}
        case ToolReturned(call_id, name, output, success):
            members = {
                "type": "result",
                "id": call_id,
                "name": name,
                "output": bounded(output),
                "success": success,
            }
    return dump({**members, "at": at})


def load_event(text: str) -> tuple[KeptEvent, str]:
    """An event and its moment.

    :raises RowBroken: the text was never written by :func:`dump_event`.
    """
    match load(text):
        case {"type": "prompt", "text": str() as said, "at": str() as at}:
            return Prompted(said), at
        case {"type": "text", "text": str() as said, "at": str() as at}:
            return MessageChunk(said), at
        case {
            "type": "call",
            "id": str() as call_id,
            "name": str() as name,
            "arguments": str() as arguments,
            "at": str() as at,
        }:
            return ToolCalled(call_id, name, load(arguments)), at
        case {
            "type": "result", "id": str() as call_id, "name": str() as name, "output": str() as output,
            "success": bool() as success, "at": str() as at,
        }:  # fmt: skip
            return ToolReturned(call_id, name, output, success), at
        case _:
            raise RowBroken


def dump_context(messages: Iterable[Message]) -> str:
    """A conversation as the model is given it. No messages at all is a conversation as well (RPC-143)."""
    return dump({"messages": [_dump_message(message) for message in messages]})


def load_context(text: str) -> tuple[Message, ...]:
    """A conversation.

    :raises RowBroken: the text was never written by :func:`dump_context`.
    """
    match load(text):
        case {"messages": messages}:
            return tuple(_load_message(message) for message in _list(messages))
        case _:
            raise RowBroken


def _dump_message(message: Message) -> JsonValue:
    match message:
        case UserMessage(text):
            return {"role": "user", "text": text}
        case AssistantMessage(text, calls):
            named = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
            return {"role": "assistant", "text": text, **({"calls": named} if named else {})}
        case ToolMessage(call_id, name, output, success):
            return {
                "role": "tool",
                "id": call_id,
                "name": name,
                "output": bounded(output),
                "success": success,
            }


def _load_message(value: JsonValue) -> Message:
    # A long conversation is made of thousands of these, so the usual ones are told apart by two looks.
    members = cast("dict[str, JsonValue]", value) if isinstance(value, dict) else {}
    role, text = members.get("role"), members.get("text")
    if role == "user" and isinstance(text, str):
        return UserMessage(text)
    if role == "assistant" and isinstance(text, str):
        return AssistantMessage(text, tuple(map(_load_call, _list(members.get("calls", [])))))
    match members:
        case {
            "role": "tool", "id": str() as call_id, "name": str() as name, "output": str() as output,
            "success": bool() as success,
        }:  # fmt: skip
            return ToolMessage(call_id, name, output, success)
        case _:
            raise RowBroken


def _load_call(value: JsonValue) -> ToolCall:
    match value:
        case {"id": str() as call_id, "name": str() as name, "arguments": str() as arguments}:
            return ToolCall(call_id, name, arguments)
        case _:
            raise RowBroken


def _list(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise RowBroken
    return cast("list[JsonValue]", value)


def dump(value: JsonValue) -> str:
    """One JSON text that a column can hold."""
    return encode(value).decode()


def load(text: object) -> JsonValue:
    """The value of a column of JSON.

    :raises RowBroken: it holds something else.
    """
    if not isinstance(text, str):
        raise RowBroken
    try:
        return parse(text, max_values=None)  # as many as were kept
    except NotJson as error:
        raise RowBroken from error
