"""The protocol of OpenAI's chat completions, which most servers of models speak."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias, cast

from zeroclaw_daemon.agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
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
from zeroclaw_daemon.agent.providers.tool_calls import ToolCallPieces
from zeroclaw_daemon.strict_json import JsonValue

_DONE: Final = "[DONE]"
_CUT: Final = frozenset({"length", "max_tokens"})
_FILTERED: Final = "content_filter"
_FAILED: Final = "error"


class _Function(Part):
    name: str | None = None
    arguments: str | dict[str, JsonValue] | None = None


class _CallDelta(Part):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Content(Part):
    text: str | None = None


class _Delta(Part):
    content: str | list[_Content] | None = None
    refusal: str | None = None
    reasoning_content: JsonValue = None
    """As DeepSeek and vLLM call it."""
    reasoning: JsonValue = None
    """As OpenRouter and Ollama call it."""
    tool_calls: list[_CallDelta] | None = None


class _Choice(Part):
    index: int = 0
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Usage(Part):
    prompt_tokens: Tokens = None
    completion_tokens: Tokens = None


class _Chunk(Part):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: JsonValue = None
    # A chunk may be an error itself, as those of older vLLM.
    object: JsonValue = None
    type: JsonValue = None
    code: JsonValue = None
    message: JsonValue = None


Members: TypeAlias = dict[str, object]


class OpenAi:
    """Chat completions, streamed."""

    @property
    def default_uri(self) -> str:
        """Where it was made."""
        return "https://api.openai.com/v1"

    def path(self, base: str) -> str:
        """The base address holds the version."""
        return f"{base}/chat/completions"

    def headers(self, key: str | None) -> dict[str, str]:
        """A bearer token, where there is a key."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: ModelRequest) -> JsonValue:
        """The question as the protocol has it."""
        body: Members = {
            "model": request.model,
            "messages": [*_system(request.system_prompt), *map(_message, request.messages)],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": parameters_schema(tool.parameters),
                    },
                }
                for tool in request.tools
            ]
        if request.temperature is not None:
            body["temperature"] = request.temperature
        return body

    def reader(self) -> OpenAiReader:
        """For one answer."""
        return OpenAiReader()


class OpenAiReader:
    """Reads the chunks of one answer. Only the first choice counts; no other is asked for."""

    def __init__(self) -> None:
        self._calls = ToolCallPieces()
        self._reason: str | None = None
        self._usage: Usage | None = None
        self.ended = False

    @property
    def complete(self) -> bool:
        """Whether the model said why it stopped."""
        return self._reason is not None

    def read(self, data: str) -> Iterator[ModelEvent]:
        """The text and thoughts of one chunk; calls are kept until the end.

        :raises Failure: it is an error, or no chunk.
        """
        if data.strip() == _DONE:
            self.ended = True
            return
        chunk = event_of(data, _Chunk)
        if chunk.error is not None:
            raise failure_of(chunk.error)
        if chunk.object == _FAILED:
            raise failure_of({"type": chunk.type, "code": chunk.code, "message": chunk.message})
        if chunk.usage is not None:
            self._usage = Usage(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
        for choice in chunk.choices or ():
            if choice.index == 0:
                if choice.delta is not None:
                    yield from self._read_delta(choice.delta)
                self._reason = choice.finish_reason or self._reason

    def finish(self) -> Iterator[ModelEvent]:
        """The calls, and how it ended.

        :raises Failure: it did not, or the server withheld the rest.
        """
        if self._reason == _FILTERED:
            raise Failure("ended its answer because of what it says (content_filter)")
        if self._reason == _FAILED:
            raise Failure("failed in the middle of its answer")
        whole = Ending.DONE if self.complete or self.ended else None
        return conclude(self._calls.calls(), Ending.CUT if self._reason in _CUT else whole, self._usage)

    def _read_delta(self, delta: _Delta) -> Iterator[ModelEvent]:
        thought = delta.reasoning_content or delta.reasoning
        if isinstance(thought, str) and thought:
            yield ThoughtDelta(thought)
        if text := _text(delta.content):
            yield TextDelta(text)
        if delta.refusal:
            yield TextDelta(delta.refusal)
        for piece in delta.tool_calls or ():
            function = piece.function or _Function()
            arguments = function.arguments or ""
            self._calls.add(
                piece.index,
                piece.id or "",
                function.name or "",
                arguments if isinstance(arguments, str) else compact(arguments),
            )


def _text(content: str | list[_Content] | None) -> str:
    if isinstance(content, list):
        return "".join(part.text or "" for part in content)
    return content or ""


def _system(prompt: str) -> list[Members]:
    return [{"role": "system", "content": prompt}] if prompt else []


def _message(message: Message) -> Members:
    match message:
        case UserMessage(text):
            return {"role": "user", "content": text}
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.output}
        case AssistantMessage(text, calls):
            told: Members = {"role": "assistant", "content": text}
            if calls:
                told["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {
                            "name": call.name,
                            "arguments": compact(cast("JsonValue", arguments_object(call.arguments))),
                        },
                    }
                    for call in calls
                ]
            return told
