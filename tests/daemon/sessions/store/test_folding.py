"""What becomes of a turn's events: pieces, messages, and messages that every provider takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_model import safe, visible
from session_values import contexts, events, texts

from zeroclaw_daemon.agent.events import MessageChunk, ToolCalled, ToolReturned
from zeroclaw_daemon.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from zeroclaw_daemon.sessions.store.folding import Piece, fold, marker, messages_of, provider_safe
from zeroclaw_daemon.sessions.store.payloads import (
    KeptEvent,
    Prompted,
    bounded,
    dump_context,
    dump_event,
    load_context,
    load_event,
)
from zeroclaw_daemon.sessions.store.records import RowBroken

AT = "2026-01-02T03:04:05.000000Z"
CALL_A = ToolCalled("a", "bash", {"x": 1})
CALL_B = ToolCalled("b", "bash", "{no json")
RESULT_A = ToolReturned("a", "bash", "one", True)
RESULT_B = ToolReturned("b", "bash", "two", False)


def folded(*happened: KeptEvent) -> list[Piece]:
    return fold((event, AT) for event in happened)


def test_text_is_joined_and_calls_hang_on_what_was_said_before_them() -> None:
    pieces = folded(
        Prompted("hi"), MessageChunk("I "), MessageChunk("look"), CALL_A, CALL_B, RESULT_A, RESULT_B, MessageChunk("so")
    )  # fmt: skip
    assert pieces == [
        Piece("user", "hi", AT),
        Piece("assistant", "I look", AT, [CALL_A, CALL_B]),
        Piece("tool", "", AT, [], [RESULT_A, RESULT_B]),
        Piece("assistant", "so", AT),
    ]
    assert list(messages_of([*pieces, marker(AT), Piece("system", "be brief", AT)])) == [
        UserMessage("hi"),
        AssistantMessage("I look", (ToolCall("a", "bash", '{"x":1}'), ToolCall("b", "bash", "{no json"))),
        ToolMessage("a", "bash", "one", True),
        ToolMessage("b", "bash", "two", False),
        AssistantMessage("so"),
    ]


def test_text_after_a_call_without_a_result_is_a_piece_of_its_own() -> None:
    assert folded(MessageChunk("x"), CALL_A, MessageChunk("y"), MessageChunk("")) == [
        Piece("assistant", "x", AT, [CALL_A]),
        Piece("assistant", "y", AT),
    ]


def test_a_piece_is_as_old_as_its_first_part() -> None:
    pieces = fold([(MessageChunk("a"), "1"), (MessageChunk("b"), "2"), (CALL_A, "3"), (RESULT_A, "4")])
    assert [piece.at for piece in pieces] == ["1", "4"]


@given(st.lists(events, max_size=12))
def test_every_event_is_seen_once_and_in_its_place(happened: list[KeptEvent]) -> None:
    seen: list[tuple[object, ...]] = []
    for piece in folded(*happened):
        if piece.content:
            seen.append(("assistant", piece.content))
        seen += [("call", call.call_id, call.arguments) for call in piece.calls]
        seen += [("result", result.call_id, result.output) for result in piece.results]
    expected = [
        ("call", entry[3]) if entry[2] == "tool_call" else ("result", entry[3]) if entry[2] == "tool_result" else entry[:2]
        for entry in visible(happened)
    ]  # fmt: skip
    assert [row[:2] for row in seen] == expected


CALLED = AssistantMessage("said", (ToolCall("a", "bash", "{}"),))
SAID = AssistantMessage("said")
RETURNED = ToolMessage("a", "bash", "one")
TWICE = AssistantMessage(
    "", (ToolCall("a", "bash", "1"), ToolCall("a", "bash", "2"), ToolCall("b", "bash", "3"))
)
OTHER = ToolMessage("b", "bash", "two")
USER = UserMessage("hi")


@pytest.mark.req("RPC-145")
@pytest.mark.parametrize(
    ("given_messages", "expected"),
    [
        ([CALLED, RETURNED], [CALLED, RETURNED]),
        ([CALLED], [SAID]),
        ([CALLED, USER, RETURNED], [SAID, USER]),
        ([CALLED, RETURNED, RETURNED], [SAID]),
        ([RETURNED, USER], [USER]),
        ([CALLED, OTHER, RETURNED], [CALLED, RETURNED]),
        ([TWICE, RETURNED, OTHER], [AssistantMessage("", (ToolCall("b", "bash", "3"),)), OTHER]),
        ([AssistantMessage("", CALLED.tool_calls), USER], [USER]),
        ([CALLED, RETURNED, CALLED, RETURNED], [CALLED, RETURNED, CALLED, RETURNED]),
        ([], []),
    ],
)
def test_only_pairs_go_to_a_provider(given_messages: list[Message], expected: list[Message]) -> None:
    assert provider_safe(given_messages) == expected


@given(contexts)
def test_what_is_safe_is_what_it_was_said_to_be_and_stays_so(given_messages: list[Message]) -> None:
    found = provider_safe(given_messages)
    assert found == safe(given_messages)
    assert provider_safe(found) == found


@given(st.one_of(events, st.builds(Prompted, texts)))
def test_an_event_is_read_as_it_was_written(event: KeptEvent) -> None:
    if isinstance(event, ToolReturned):
        kept: KeptEvent = ToolReturned(event.call_id, event.name, bounded(event.output), event.success)
    else:
        kept = event
    assert load_event(dump_event(event, AT)) == (kept, AT)


@given(contexts)
def test_a_context_is_read_as_it_was_written(given_messages: list[Message]) -> None:
    once = load_context(dump_context(given_messages))
    assert [type(message) for message in once] == [type(message) for message in given_messages]
    assert load_context(dump_context(once)) == once


@given(
    st.text(max_size=30) | st.recursive(st.none() | st.integers() | st.text(max_size=3), st.lists).map(repr)
)
def test_rubbish_is_damage(text: str) -> None:
    for read in (load_context, load_event):
        with pytest.raises(RowBroken):
            read(text)
