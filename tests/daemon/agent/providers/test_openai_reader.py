"""The chunks of chat completions, as servers send them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from model_streams import call_piece, chunk, openai_answer, openai_call, usage_chunk

from zeroclaw_daemon.agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
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
from zeroclaw_daemon.agent.providers.openai import OpenAi
from zeroclaw_daemon.agent.providers.tool_calls import MAX_CALLS, MAX_NAME


def read(*events: Any) -> list[ModelEvent]:
    reader = OpenAi().reader()
    found: list[ModelEvent] = []
    for event in events:
        found += reader.read(event if isinstance(event, str) else json.dumps(event))
    return [*found, *reader.finish()]


def done(prompt: int | None = None, completion: int | None = None) -> Finished:
    return Finished(Ending.DONE, None if prompt is None else Usage(prompt, completion))


def test_an_answer_is_its_pieces_and_its_figures() -> None:
    assert read(*openai_answer("Hel", "lo")) == [TextDelta("Hel"), TextDelta("lo"), done(9, 2)]


def test_a_call_comes_whole_and_after_the_text() -> None:
    assert read(chunk(content="so: "), *openai_call("upper", {"text": "ä"})) == [
        TextDelta("so: "),
        ToolCall("call_1", "upper", json.dumps({"text": "ä"})),
        done(20, 7),
    ]


@pytest.mark.req("RPC-125")
@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_thought_and_never_text(name: str) -> None:
    assert read(chunk(**{name: "hmm"}), chunk(content="yes", **{name: None}), chunk("stop")) == [
        ThoughtDelta("hmm"),
        TextDelta("yes"),
        done(),
    ]


def test_reasoning_under_both_names_is_told_once() -> None:
    assert read(chunk(reasoning="a", reasoning_content="a"), chunk("stop")) == [ThoughtDelta("a"), done()]


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        # Two calls, mixed, with a gap, the later one first.
        (
            [
                call_piece(4, "b", "beta", '{"n":'),
                call_piece(1, "a", "alpha"),
                call_piece(4, arguments="2}"),
                call_piece(1, arguments="{}"),
            ],
            [ToolCall("a", "alpha", "{}"), ToolCall("b", "beta", '{"n":2}')],
        ),
        # Each call has the index 0 and comes whole.
        (
            [call_piece(0, "a", "alpha", "{}"), call_piece(0, "b", "beta", '{"n":1}')],
            [ToolCall("a", "alpha", "{}"), ToolCall("b", "beta", '{"n":1}')],
        ),
        # No index at all.
        (
            [
                call_piece(None, "a", "alpha", "{"),
                call_piece(None, arguments="}"),
                call_piece(None, "b", "beta"),
            ],
            [ToolCall("a", "alpha", "{}"), ToolCall("b", "beta", "{}")],
        ),
        # The name and the id again with each piece.
        (
            [call_piece(0, "a", "alpha", "{"), call_piece(0, "a", "alpha", "}")],
            [ToolCall("a", "alpha", "{}")],
        ),
        # The id late, the name in two, no id at all.
        ([call_piece(0, None, "al"), call_piece(0, "a", "pha", "{}")], [ToolCall("a", "alpha", "{}")]),
        ([call_piece(0, None, "alpha", "{}")], [ToolCall("", "alpha", "{}")]),
        ([call_piece(0, "", "alpha", None)], [ToolCall("", "alpha", "{}")]),
        # Arguments as a value, and some that are no JSON, which the model is to be told of.
        ([call_piece(0, "a", "alpha", {"n": [1]})], [ToolCall("a", "alpha", '{"n":[1]}')]),
        ([call_piece(0, "a", "alpha", '{"n": ')], [ToolCall("a", "alpha", '{"n": ')]),
    ],
)
def test_calls_are_put_together_whatever_their_pieces_say_of_themselves(
    pieces: list[Any], calls: list[ToolCall]
) -> None:
    assert read(*(chunk(tool_calls=[piece]) for piece in pieces), chunk("tool_calls")) == [*calls, done()]


def test_the_calls_of_an_answer_and_their_names_are_bounded() -> None:
    pieces = [call_piece(number, f"c{number}", "alpha", "{}") for number in range(MAX_CALLS + 1)]
    assert len(read(chunk(tool_calls=pieces[:-1]), chunk("tool_calls"))) == MAX_CALLS + 1
    with pytest.raises(Failure, match="more than 256 tool calls"):
        read(chunk(tool_calls=pieces))
    halves = [call_piece(0, "a", "x" * (MAX_NAME - 1)), call_piece(0, "a", "y")]
    (call, _) = read(chunk(tool_calls=halves), chunk("tool_calls"))
    assert isinstance(call, ToolCall)
    assert len(call.name) == MAX_NAME
    with pytest.raises(Failure, match="name is too long"):
        read(chunk(tool_calls=[*halves, call_piece(0, "a", "z")]))


def test_what_is_not_known_or_empty_is_passed_over() -> None:
    other = chunk(content="another choice")
    other["choices"][0]["index"] = 1
    assert read(
        {"id": "x"}, {"choices": []}, {"choices": None, "error": None}, other, chunk(audio={"id": 1}),
        {"choices": [{"finish_reason": None}]}, chunk(content=[{"type": "text", "text": "a"}, {"type": "image"}]),
        chunk(refusal="no"), chunk("stop", content=None, tool_calls=None),
    ) == [TextDelta("a"), TextDelta("no"), done()]  # fmt: skip


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "function_call", "eos", "stop_sequence"])
def test_an_end_is_an_end_by_any_name(reason: str) -> None:
    assert read(chunk(content="a"), chunk(reason)) == [TextDelta("a"), done()]


@pytest.mark.parametrize("reason", ["length", "max_tokens"])
def test_an_answer_that_had_no_room_says_so_and_its_calls_are_not_made(reason: str) -> None:
    assert read(chunk(content="a"), chunk(reason)) == [TextDelta("a"), Finished(Ending.CUT)]
    with pytest.raises(Failure, match="no room"):
        read(chunk(tool_calls=[call_piece(0, "a", "alpha", "{}")]), chunk(reason))


def test_a_stream_may_end_by_its_mark_alone() -> None:
    assert read(chunk(content="a"), "[DONE]") == [TextDelta("a"), done()]


def test_figures_may_come_with_the_end_or_in_part() -> None:
    both = {**chunk("stop"), "usage": {"prompt_tokens": 3}}
    assert read(chunk(content="a"), both) == [TextDelta("a"), done(3, None)]


@pytest.mark.parametrize("figure", [2**53, 10**30, -1, 1.5, True, "9", None, [], {}])
def test_a_figure_that_is_none_costs_no_answer(figure: object) -> None:
    end = {**chunk("stop"), "usage": {"prompt_tokens": figure, "completion_tokens": 2**53 - 1}}
    text = json.dumps(end, allow_nan=False)
    assert read(chunk(content="a"), text) == [
        TextDelta("a"),
        Finished(Ending.DONE, Usage(None, 2**53 - 1)),
    ]


def test_a_whole_figure_may_be_written_with_a_point() -> None:
    assert read({**chunk("stop"), "usage": {"prompt_tokens": 9.0, "completion_tokens": 0}}) == [done(9, 0)]


def test_a_stream_without_an_end_is_broken_off() -> None:
    with pytest.raises(BrokenOff):
        read(chunk(content="a"))
    with pytest.raises(BrokenOff):
        read(chunk(tool_calls=[call_piece(0, "a", "alpha", "{}")]))


@pytest.mark.parametrize(
    ("events", "said", "again"),
    [
        ([{"error": {"message": "too long", "type": "invalid_request_error", "code": 400}}], "failed: too long", False),
        ([{"error": {"message": "full", "code": 429}}], "failed: full", True),
        ([{"error": {"message": "down", "code": 503}}], "failed: down", True),
        ([{"error": {"message": "odd", "code": True}}], "failed: odd", False),
        ([{"error": {"message": "oops", "type": "server_error"}}], "failed: oops", True),
        ([{"error": "plain words"}], "failed: plain words", False),
        ([{"error": {}}], "failed and does not say why", False),
        ([{"object": "error", "message": "full", "type": "TooMany", "code": 429}], "failed: full", True),
        ([{"object": "error", "message": "no such model", "code": 404}], "failed: no such model", False),
        ([chunk("content_filter")], "ended its answer because of what it says (content_filter)", False),
        ([chunk("error")], "failed in the middle of its answer", False),
        ([chunk(tool_calls=[call_piece(0, "a", None, "{}")]), chunk("stop")], "sent a tool call that names no tool", False),
        (["{"], "sent an event that is not JSON", False),
        (['{"choices": NaN}'], "sent an event that is not JSON", False),
        (["[]"], "sent an event of an unknown shape", False),
        ([{"choices": [{"delta": {"content": 5}}]}], "sent an event of an unknown shape (at choices.0.delta.content.str)", False),
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
            AssistantMessage("", (ToolCall("a", "alpha", '{"n": 1}'), ToolCall("b", "beta", "{"))),
            ToolMessage("a", "alpha", "one"), ToolMessage("b", "beta", "error: no JSON", False),
            AssistantMessage("done"), UserMessage("\ud83d"),
        ),
        (ToolSpec("alpha", "first", {"properties": {"n": {}}}),), 0.5,
    )  # fmt: skip
    assert OpenAi().body(request) == {
        "model": "m", "stream": True, "stream_options": {"include_usage": True}, "temperature": 0.5,
        "messages": [
            {"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "alpha", "arguments": '{"n":1}'}},
                {"id": "b", "type": "function", "function": {"name": "beta", "arguments": '{"invalid_arguments":"{"}'}},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "one"},
            {"role": "tool", "tool_call_id": "b", "content": "error: no JSON"},
            {"role": "assistant", "content": "done"}, {"role": "user", "content": "\ud83d"},
        ],
        "tools": [{"type": "function", "function": {
            "name": "alpha", "description": "first", "parameters": {"type": "object", "properties": {"n": {}}},
        }}],
    }  # fmt: skip


def test_a_plain_question_has_nothing_that_is_not_wanted() -> None:
    body = OpenAi().body(ModelRequest("m", "", (UserMessage("hi"),)))
    assert body.keys() == {"model", "messages", "stream", "stream_options"}
    assert body["messages"] == [{"role": "user", "content": "hi"}]


def test_a_figure_chunk_alone_is_no_end() -> None:
    with pytest.raises(BrokenOff):
        read(chunk(content="a"), usage_chunk(1, 1))
