"""The events of messages, as servers send them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from model_streams import anthropic_answer, block, message_end, message_start, text_block, use_block

from zeroclaw_daemon.agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from zeroclaw_daemon.agent.providers.anthropic import Anthropic
from zeroclaw_daemon.agent.providers.base import (
    Ending,
    Finished,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ThoughtDelta,
    ToolSpec,
    Usage,
)
from zeroclaw_daemon.agent.providers.failures import BrokenOff, Failure
from zeroclaw_daemon.agent.providers.tool_calls import MAX_CALLS, MAX_NAME


def read(*events: Any) -> list[ModelEvent]:
    reader = Anthropic().reader()
    found: list[ModelEvent] = []
    for event in events:
        found += reader.read(event if isinstance(event, str) else json.dumps(event))
    return [*found, *reader.finish()]


def done(prompt: int | None = 9, completion: int | None = 5) -> Finished:
    return Finished(Ending.DONE, Usage(prompt, completion))


def test_an_answer_is_its_pieces_and_its_figures() -> None:
    assert read(*anthropic_answer("Hel", "lo")) == [TextDelta("Hel"), TextDelta("lo"), done()]


def test_what_was_kept_by_the_server_was_read_as_well() -> None:
    start = message_start(3, cache_creation_input_tokens=40, cache_read_input_tokens=500)
    assert read(start, *message_end()) == [done(543)]


@pytest.mark.parametrize("figure", [2**53, 10**30, -1])
def test_a_figure_that_is_none_costs_no_answer(figure: int) -> None:
    start = message_start(3, cache_read_input_tokens=figure)
    assert read(start, *message_end(output_tokens=figure)) == [done(3, 1)]


@pytest.mark.req("RPC-125")
def test_thinking_is_thought_and_never_text() -> None:
    thinking = block(
        0,
        {"type": "thinking", "thinking": "h", "signature": ""},
        {"type": "thinking_delta", "thinking": "m"},
        {"type": "thinking_delta", "thinking": "m"},
        {"type": "signature_delta", "signature": "c2lnbmVk"},
    )
    hidden = block(1, {"type": "redacted_thinking", "data": "ZGF0YQ=="})
    assert read(message_start(), *thinking, *hidden, *text_block(2, "yes"), *message_end()) == [
        ThoughtDelta("h"), ThoughtDelta("m"), ThoughtDelta("m"), TextDelta("yes"), done(),
    ]  # fmt: skip


def test_calls_come_whole_in_the_order_of_their_parts_and_after_the_text() -> None:
    first, second = use_block(2, "b", "beta", '{"n"', ": 2}"), use_block(1, "a", "alpha")
    mixed = [first[0], second[0], *first[1:], *second[1:]]
    assert read(message_start(), *text_block(0, "so"), *mixed, *message_end("tool_use")) == [
        TextDelta("so"), ToolCall("a", "alpha", "{}"), ToolCall("b", "beta", '{"n": 2}'), done(),
    ]  # fmt: skip


def test_arguments_may_come_at_the_start_and_may_be_no_json() -> None:
    given = block(0, {"type": "tool_use", "id": "a", "name": "alpha", "input": {"n": 1}})
    assert read(*given, *message_end("tool_use"))[0] == ToolCall("a", "alpha", '{"n":1}')
    assert read(*use_block(0, "a", "alpha", '{"n'), *message_end("tool_use"))[0] == ToolCall(
        "a", "alpha", '{"n'
    )


def test_the_calls_of_an_answer_and_their_names_are_bounded() -> None:
    uses = [event for number in range(MAX_CALLS) for event in use_block(number, f"c{number}", "alpha")]
    assert len(read(*uses, *message_end("tool_use"))) == MAX_CALLS + 1
    with pytest.raises(Failure, match="more than 256 tool calls"):
        read(*uses, *use_block(MAX_CALLS, "one more", "alpha"))
    assert len(read(*use_block(0, "a", "x" * MAX_NAME), *message_end("tool_use"))) == 2
    with pytest.raises(Failure, match="name is too long"):
        read(*use_block(0, "a", "x" * (MAX_NAME + 1)))


def test_what_is_not_known_is_passed_over() -> None:
    searched = block(
        0,
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "input_json_delta", "partial_json": "{}"},
    )
    cited = block(
        1, {"type": "text", "text": "a"}, {"type": "citations_delta", "citation": {"cited_text": "b"}}
    )
    assert read(
        message_start(), {"type": "weather", "delta": {"type": "text_delta", "text": "no"}}, {"type": "message_start"},
        {"type": "content_block_start", "index": 5}, {"type": "content_block_delta"}, *searched, *cited,
        {"type": "message_delta"}, *message_end(),
    ) == [TextDelta("a"), done()]  # fmt: skip


def test_thinking_and_text_may_come_at_the_start_of_their_parts() -> None:
    thought = block(0, {"type": "thinking", "thinking": "hm"})
    assert read(*thought, *message_end())[0] == ThoughtDelta("hm")


@pytest.mark.parametrize("reason", ["end_turn", "stop_sequence", "pause_turn", "tool_use"])
def test_an_end_is_an_end_by_any_name(reason: str) -> None:
    assert read(message_start(), *text_block(0, "a"), *message_end(reason)) == [TextDelta("a"), done()]


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_an_answer_that_had_no_room_says_so_and_its_calls_are_not_made(reason: str) -> None:
    assert read(message_start(), *text_block(0, "a"), *message_end(reason)) == [
        TextDelta("a"), Finished(Ending.CUT, Usage(9, 5)),
    ]  # fmt: skip
    with pytest.raises(Failure, match="no room"):
        read(message_start(), *use_block(0, "a", "alpha", "{"), *message_end(reason))


def test_a_stream_without_an_end_is_broken_off() -> None:
    with pytest.raises(BrokenOff):
        read(message_start(), *text_block(0, "a"))
    with pytest.raises(BrokenOff):
        read(message_start(), *use_block(0, "a", "alpha", "{}"))


@pytest.mark.parametrize(
    ("events", "said", "again"),
    [
        ([{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}], "failed: Overloaded", True),
        ([{"type": "error", "error": {"type": "api_error"}}], "failed: api_error", True),
        ([{"type": "error", "error": {"type": "invalid_request_error", "message": "bad"}}], "failed: bad", False),
        ([{"type": "error"}], "failed and does not say why", False),
        (message_end("refusal"), "refused to answer (refusal)", False),
        ([*use_block(0, "a", "", "{}"), *message_end()], "sent a tool call that names no tool", False),
        ([*text_block(0), *text_block(0)], "began the same part of its answer twice", False),
        (
            [{"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "{"}}],
            "sent arguments of a tool call that it did not begin", False,
        ),
        ([{"delta": {}}], "sent an event of an unknown shape (at type)", False),
        (["nonsense"], "sent an event that is not JSON", False),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_a_failure_that_says_why(events: list[Any], said: str, again: bool) -> None:
    with pytest.raises(Failure) as caught:
        read(*events)
    assert (caught.value.said, caught.value.again) == (said, again)


def test_a_question_holds_the_conversation_and_the_tools() -> None:
    request = ModelRequest(
        "m", "be brief",
        (
            UserMessage("hi"),
            AssistantMessage("so", (ToolCall("a.1", "alpha", '{"n": 1}'), ToolCall("b", "beta", "{"))),
            ToolMessage("a.1", "alpha", "one"), ToolMessage("b", "beta", "error: no JSON", False),
            AssistantMessage(""), UserMessage("go on"), AssistantMessage("done"), UserMessage(" "),
        ),
        (ToolSpec("alpha", "first", {"type": "object"}),), 1.5,
    )  # fmt: skip
    assert Anthropic().body(request) == {
        "model": "m", "max_tokens": 8192, "stream": True, "system": "be brief", "temperature": 1.0,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "so"},
                {"type": "tool_use", "id": "a_1", "name": "alpha", "input": {"n": 1}},
                {"type": "tool_use", "id": "b", "name": "beta", "input": {"invalid_arguments": "{"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a_1", "content": "one"},
                {"type": "tool_result", "tool_use_id": "b", "content": "error: no JSON", "is_error": True},
                {"type": "text", "text": "go on"},
            ]},
            {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
        ],
        "tools": [{"name": "alpha", "description": "first", "input_schema": {"type": "object"}}],
    }  # fmt: skip


def test_a_plain_question_has_nothing_that_is_not_wanted() -> None:
    body = Anthropic().body(ModelRequest("m", "", (UserMessage("hi"),)))
    assert body.keys() == {"model", "max_tokens", "messages", "stream"}
