"""The protocol of Anthropic's messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from zeroclaw_daemon.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from zeroclaw_daemon.agent.providers.base import (
    Ending,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ThoughtDelta,
    Usage,
)
from zeroclaw_daemon.agent.providers.failures import Failure
from zeroclaw_daemon.agent.providers.reading import (
    Part,
    Tokens,
    arguments_object,
    compact,
    conclude,
    event_of,
    failure_of,
    parameters_schema,
)
from zeroclaw_daemon.agent.providers.tool_calls import NO_ARGUMENTS, check_name, check_number
from zeroclaw_daemon.strict_json import JsonValue

_VERSION: Final = "2023-06-01"
_MAX_TOKENS: Final = 8_192
"""The protocol wants a bound of the answer. No model in service writes less; a longer answer is told to be cut."""
_CUT: Final = frozenset({"max_tokens", "model_context_window_exceeded"})
_REFUSED: Final = "refusal"
_NO_ID: Final = re.compile(r"[^a-zA-Z0-9_-]")
"""What an id may not hold. Ids of other servers are in conversations that were begun with them."""

Members: TypeAlias = dict[str, object]


class _Block(Part):
    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, JsonValue] | None = None


class _Delta(Part):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _Usage(Part):
    input_tokens: Tokens = None
    cache_creation_input_tokens: Tokens = None
    cache_read_input_tokens: Tokens = None
    output_tokens: Tokens = None


class _Opening(Part):
    usage: _Usage | None = None


class _Event(Part):
    type: str
    index: int = 0
    message: _Opening | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None
    error: JsonValue = None


class Anthropic:
    """Messages, streamed."""

    @property
    def default_uri(self) -> str:
        """Where it was made."""
        return "https://api.anthropic.com"

    def path(self, base: str) -> str:
        """The base address need not hold the version."""
        return f"{base.removesuffix('/v1')}/v1/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        """The key, where there is one, and the version of the protocol."""
        return {"anthropic-version": _VERSION, **({"x-api-key": key} if key else {})}

    def body(self, request: ModelRequest) -> JsonValue:
        """The question as the protocol has it."""
        body: Members = {
            "model": request.model,
            "max_tokens": _MAX_TOKENS,
            "messages": _messages(request.messages),
            "stream": True,
        }
        if request.system_prompt:
            body["system"] = request.system_prompt
        if request.tools:
            body["tools"] = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": parameters_schema(tool.parameters),
                }
                for tool in request.tools
            ]
        if request.temperature is not None:
            # The protocol's scale ends at 1.
            body["temperature"] = min(request.temperature, 1.0)
        return body

    def reader(self) -> AnthropicReader:
        """For one answer."""
        return AnthropicReader()


class _Call:
    """A call, while its arguments come."""

    def __init__(self, block: _Block) -> None:
        self._block = block
        self.pieces: list[str] = []

    def whole(self) -> ToolCall:
        given = compact(self._block.input) if self._block.input else NO_ARGUMENTS
        return ToolCall(self._block.id or "", self._block.name or "", "".join(self.pieces) or given)


class AnthropicReader:
    """Reads the events of one answer."""

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}
        self._begun: set[int] = set()
        self._reason: str | None = None
        self._usage: Usage | None = None
        self.ended = False

    @property
    def complete(self) -> bool:
        """Whether the model said why it stopped."""
        return self._reason is not None

    def read(self, data: str) -> Iterator[ModelEvent]:
        """The text and thoughts of one event; calls are kept until the end.

        :raises Failure: it is an error, or no event.
        """
        event = event_of(data, _Event)
        match event.type:
            case "error":
                raise failure_of(event.error)
            case "message_start" if event.message is not None:
                self._count(event.message.usage)
            case "content_block_start" if event.content_block is not None:
                yield from self._begin(event.index, event.content_block)
            case "content_block_delta" if event.delta is not None:
                yield from self._go_on(event.index, event.delta)
            case "message_delta":
                self._count(event.usage)
                if event.delta is not None:
                    self._reason = event.delta.stop_reason or self._reason
            case "message_stop":
                self.ended = True
            case _:
                pass  # The protocol says that there may be other events.

    def finish(self) -> Iterator[ModelEvent]:
        """The calls, and how it ended.

        :raises Failure: it did not, or the model would not.
        """
        if self._reason == _REFUSED:
            raise Failure("refused to answer (refusal)")
        calls = [self._calls[index].whole() for index in sorted(self._calls)]
        whole = Ending.DONE if self.complete or self.ended else None
        return conclude(calls, Ending.CUT if self._reason in _CUT else whole, self._usage)

    def _begin(self, index: int, block: _Block) -> Iterator[ModelEvent]:
        if index in self._begun:
            raise Failure("began the same part of its answer twice")
        self._begun.add(index)
        if block.type == "tool_use":
            check_number(len(self._calls) + 1)
            check_name(block.name or "")
            self._calls[index] = _Call(block)
        elif block.type == "thinking" and block.thinking:
            yield ThoughtDelta(block.thinking)
        elif block.type == "text" and block.text:
            yield TextDelta(block.text)

    def _go_on(self, index: int, delta: _Delta) -> Iterator[ModelEvent]:
        if delta.type == "text_delta" and delta.text:
            yield TextDelta(delta.text)
        elif delta.type == "thinking_delta" and delta.thinking:
            yield ThoughtDelta(delta.thinking)
        elif delta.type == "input_json_delta" and delta.partial_json:
            if index in self._calls:
                self._calls[index].pieces.append(delta.partial_json)
            elif index not in self._begun:
                raise Failure("sent arguments of a tool call that it did not begin")

    def _count(self, usage: _Usage | None) -> None:
        """Take figures; later ones replace earlier ones, and what is not said stays."""
        if usage is None:
            return
        read = (usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens)
        known = self._usage or Usage()
        self._usage = Usage(
            known.input_tokens if usage.input_tokens is None else sum(number or 0 for number in read),
            known.output_tokens if usage.output_tokens is None else usage.output_tokens,
        )


def _messages(messages: Sequence[Message]) -> list[Members]:
    """The conversation: what a model called is answered in one message, and an empty one is not allowed."""
    told: list[Members] = []
    for message in messages:
        role, blocks = _blocks(message)
        if told and told[-1]["role"] == role:
            earlier = told[-1]["content"]
            assert isinstance(earlier, list)
            earlier.extend(blocks)  # pyright: ignore[reportUnknownMemberType]
        elif blocks:
            told.append({"role": role, "content": blocks})
    return told


def _blocks(message: Message) -> tuple[str, list[Members]]:
    match message:
        case UserMessage(text):
            return "user", _text_blocks(text)
        case ToolMessage():
            result: Members = {
                "type": "tool_result",
                "tool_use_id": _id(message.call_id),
                "content": message.output,
            }
            return "user", [result if message.success else {**result, "is_error": True}]
        case AssistantMessage(text, calls):
            uses: list[Members] = [
                {
                    "type": "tool_use",
                    "id": _id(call.id),
                    "name": call.name,
                    "input": arguments_object(call.arguments),
                }
                for call in calls
            ]
            return "assistant", [*_text_blocks(text), *uses]


def _text_blocks(text: str) -> list[Members]:
    return [{"type": "text", "text": text}] if text.strip() else []


def _id(call_id: str) -> str:
    return _NO_ID.sub("_", call_id)
