"""How a turn is shown: what goes where, on which line, and how much of it."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.cli.turn_view import TOOL_LINES_SHOWN, TOOL_TEXT_SHOWN, JsonView, TurnView, shortened
from zeroclaw_daemon.client.updates import Update, VerdictRefused, read_update
from zeroclaw_daemon.rpc.methods.session import PromptResult


def update(kind: str, **members: Any) -> Update:
    read = read_update({"sessionId": "s", "type": kind, **members})
    assert read is not None
    return read


def shown(*updates: Update, stop_reason: str = "end_turn") -> str:
    """What is shown of a turn where answers and the rest go to the same place."""
    screen = StringIO()
    view = TurnView(screen, screen)
    for each in updates:
        view.event(each)
    view.result(PromptResult(session_id="s", stop_reason=stop_reason, content=""))
    return screen.getvalue()


def chunk(text: str) -> Update:
    return update("agent_message_chunk", text=text)


def thought(text: str) -> Update:
    return update("agent_thought_chunk", text=text)


def test_pieces_of_an_answer_and_of_a_thought_are_one_line_each() -> None:
    told = shown(
        thought("let "),
        thought("me see"),
        chunk("Hel"),
        chunk("lo"),
        thought("hm\n"),
        thought("so"),
        chunk("!"),
    )
    assert told == "… let me see\nHello\n… hm\n… so\n!\n"


def test_tools_stand_on_lines_of_their_own() -> None:
    told = shown(
        chunk("first"),
        update("tool_call", toolCallId="1", name="ba\x1bsh", rawInput={"command": "ls\u202e"}),
        update("tool_result", toolCallId="1", name="bash", rawOutput="a\nb\x07"),
        chunk("then\n"),
    )
    assert told == 'first\n→ ba\\x1bsh {"command": "ls\\u202e"}\n← bash a\nb\\x07\nthen\n'


def test_a_decision_that_was_not_taken_is_told() -> None:
    refused = VerdictRefused(session_id="s", request_id="r", message="the tool ba\x1bsh may not run")
    assert shown(refused) == "the daemon did not take your decision: the tool ba\\x1bsh may not run\n"


def test_a_plan_and_what_is_forgotten_are_told() -> None:
    entries = [
        {"content": "one", "status": "completed"},
        {"content": "two", "status": "in_progress"},
        {"content": "three\x1b", "status": "pending"},
    ]
    told = shown(
        update("plan", entries=entries),
        update("history_trimmed", droppedMessages=4),
        update("plan", entries=[]),
    )
    assert told.splitlines() == [
        "the plan:", "[x] one", "[>] two", "[ ] three\\x1b",
        "(the agent no longer hears the 4 oldest messages of this conversation)", "the plan is empty",
    ]  # fmt: skip


def test_an_answer_that_was_cut_off_is_told() -> None:
    cut = update("turn_complete", outcome="completed", content="ha", reason="max_tokens")
    assert shown(chunk("ha"), cut) == "ha\nthe answer is cut off: the model had no room for the rest\n"
    whole = update("turn_complete", outcome="completed", content="ha", reason=None)
    assert shown(chunk("ha"), whole) == "ha\n"


def test_what_is_not_known_is_not_shown_and_a_cancelled_turn_is_told() -> None:
    assert shown(update("context_usage", inputTokens=1), update("new"), stop_reason="cancelled") == (
        "the turn was cancelled\n"
    )


def test_the_bounds_of_what_is_shown_of_a_tool() -> None:
    whole = "x" * TOOL_TEXT_SHOWN
    assert shortened(whole) == whole
    assert shortened(f"{whole}y") == f"{whole} … (1 characters more)"
    lines = "\n".join(["a"] * TOOL_LINES_SHOWN)
    assert shortened(lines) == lines
    assert shortened(f"{lines}\n") == lines
    assert shortened(f"{lines}\nb") == f"{lines} … (2 characters more)"


@given(
    st.lists(
        st.sampled_from(["agent_message_chunk", "agent_thought_chunk"]).flatmap(
            lambda kind: st.text(max_size=20).map(lambda text: (kind, text))
        )
    )
)
def test_no_text_of_others_drives_the_terminal_and_every_line_ends(pieces: list[tuple[str, str]]) -> None:
    told = shown(*(update(kind, text=text) for kind, text in pieces))
    assert not [
        letter for letter in told if (ord(letter) < 32 and letter not in "\n\t") or ord(letter) == 127
    ]
    assert told == "" or told.endswith("\n")


def test_json_has_every_update_as_it_came(capsys) -> None:
    view = JsonView()
    view.event(update("from_the_future", answer={"n": 1}, text="\x1b"))
    view.result(PromptResult(session_id="s", stop_reason="end_turn", content="a"))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert [json.loads(line) for line in out.splitlines()] == [
        {"sessionId": "s", "type": "from_the_future", "answer": {"n": 1}, "text": "\x1b"},
        {"type": "result", "sessionId": "s", "stopReason": "end_turn", "content": "a"},
    ]
