"""What servers of models send, in the shapes they send it, and servers on loopback that send it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import peers
from http_origins import Answer, Asked, reply

STREAM = {"content-type": "text/event-stream; charset=utf-8"}


def sse(*events: object, named: bool = False) -> bytes:
    """A stream of these events: values are sent as JSON, texts as they are."""
    lines: list[str] = []
    for event in events:
        if named and isinstance(event, dict):
            lines.append(f"event: {event['type']}\n")
        lines.append(
            f"data: {event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)}\n\n"
        )
    return "".join(lines).encode()


def chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    """One chunk of chat completions, with what a server puts around it."""
    return {
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": "gpt-test",
        "system_fingerprint": "fp_1", "service_tier": "default",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}],
    }  # fmt: skip


def usage_chunk(prompt: int, completion: int) -> dict[str, Any]:
    """The chunk that comes last, without a choice."""
    details = {"prompt_tokens_details": {"cached_tokens": 0}}
    return {
        **chunk(), "choices": [],
        "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **details},
    }  # fmt: skip


def call_piece(
    index: int | None, call_id: str | None = None, name: str | None = None, arguments: Any = ""
) -> Any:
    """One piece of a tool call."""
    piece: dict[str, Any] = {"function": {"arguments": arguments}}
    if index is not None:
        piece["index"] = index
    if call_id is not None:
        piece |= {"id": call_id, "type": "function"}
    if name is not None:
        piece["function"]["name"] = name
    return piece


def openai_answer(*texts: str) -> list[object]:
    """A whole answer of chat completions."""
    return [
        chunk(role="assistant", content=""),
        *(chunk(content=text) for text in texts),
        chunk("stop"),
        usage_chunk(9, len(texts)),
        "[DONE]",
    ]


def openai_call(name: str, arguments: Mapping[str, object], call_id: str = "call_1") -> list[object]:
    """An answer of chat completions that calls a tool."""
    text = json.dumps(arguments)
    return [
        chunk(role="assistant", content=None, tool_calls=[call_piece(0, call_id, name)]),
        *(chunk(tool_calls=[call_piece(0, arguments=text[at : at + 3])]) for at in range(0, len(text), 3)),
        chunk("tool_calls"),
        usage_chunk(20, 7),
        "[DONE]",
    ]


def message_start(input_tokens: int = 9, **usage: int) -> dict[str, Any]:
    """How an answer of messages begins."""
    return {
        "type": "message_start",
        "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude-test",
            "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": input_tokens, "output_tokens": 1, **usage},
        },
    }  # fmt: skip


def block(index: int, kind: Mapping[str, object], *deltas: Mapping[str, object]) -> list[object]:
    """A part of an answer of messages, from its start to its end."""
    return [
        {"type": "content_block_start", "index": index, "content_block": kind},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text_block(index: int, *texts: str) -> list[object]:
    return block(
        index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": text} for text in texts)
    )


def use_block(index: int, call_id: str, name: str, *pieces: str) -> list[object]:
    kind = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return block(index, kind, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def message_end(stop_reason: str | None = "end_turn", output_tokens: int = 5) -> list[object]:
    """How an answer of messages ends."""
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": output_tokens}},
        {"type": "message_stop"},
    ]


def anthropic_answer(*texts: str) -> list[object]:
    """A whole answer of messages."""
    return [message_start(), {"type": "ping"}, *text_block(0, *texts), *message_end()]


def streamed(*events: object, named: bool = False) -> Answer:
    """Answers with these events."""
    return reply(sse(*events, named=named), headers=STREAM)


def says(status: str, body: object, **headers: str) -> Answer:
    """Answers with something that is no stream."""
    kind = {
        "content-type": "application/json",
        **{name.replace("_", "-"): text for name, text in headers.items()},
    }
    return reply(body if isinstance(body, bytes) else json.dumps(body).encode(), status=status, headers=kind)


def begins(data: bytes) -> Answer:
    """Begins a stream with these bytes, and says nothing more until the other side goes."""

    def handle(asked: Asked) -> None:
        asked.body()
        asked.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + data)
        peers.hold(asked.connection)

    return handle


def in_turn(answers: Iterable[Answer]) -> Answer:
    """Answers each request with the next of these."""
    left = iter(answers)
    return lambda asked: next(left)(asked)


def asked_for(requests: Sequence[Asked]) -> list[Any]:
    """The questions that came."""
    return [json.loads(request.body()) for request in requests]
