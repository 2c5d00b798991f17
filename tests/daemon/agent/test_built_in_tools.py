"""The built-in tools: the bounds of their arguments, and every answer a client could think of."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zeroclaw_daemon.agent.asking import Answer, Answered, AnswerUnusable, Consent, Unanswered
from zeroclaw_daemon.agent.built_in import BUILT_IN_TOOLS
from zeroclaw_daemon.agent.built_in.bash import MAX_COMMAND_CHARACTERS
from zeroclaw_daemon.agent.built_in.questions import (
    MAX_OPTION_CHARACTERS,
    MAX_OPTIONS,
    MAX_QUESTION_CHARACTERS,
    Poll,
)
from zeroclaw_daemon.agent.events import Approval, ApprovalRequested
from zeroclaw_daemon.agent.messages import ToolCall
from zeroclaw_daemon.agent.surroundings import Surroundings, TurnSite
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.sessions.asking import Asking
from zeroclaw_host.worlds.kinds import ToolResult

REGISTRY = ToolRegistry(BUILT_IN_TOOLS)


def options(count: int) -> list[str]:
    return [f"option {number}" for number in range(count)]


BOUNDS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("ask_user", {"question": "?"}, {"question": ""}),
    (
        "ask_user",
        {"question": "?" * MAX_QUESTION_CHARACTERS},
        {"question": "?" * (MAX_QUESTION_CHARACTERS + 1)},
    ),
    ("ask_user", {"question": "?"}, {"question": "?", "more": 1}),
    ("ask_user", {"question": "?"}, {}),
    ("poll", {"question": "?", "options": options(2)}, {"question": "?", "options": options(1)}),
    (
        "poll",
        {"question": "?", "options": options(MAX_OPTIONS)},
        {"question": "?", "options": options(MAX_OPTIONS + 1)},
    ),
    (
        "poll",
        {"question": "?", "options": ["a", "b" * MAX_OPTION_CHARACTERS]},
        {"question": "?", "options": ["a", "b" * (MAX_OPTION_CHARACTERS + 1)]},
    ),
    ("poll", {"question": "?", "options": ["a", "b"]}, {"question": "?", "options": ["a", "a"]}),
    ("poll", {"question": "?", "options": ["a", "b"]}, {"question": "?", "options": ["a", ""]}),
    ("bash", {"command": "x"}, {"command": ""}),
    ("bash", {"command": "x" * MAX_COMMAND_CHARACTERS}, {"command": "x" * (MAX_COMMAND_CHARACTERS + 1)}),
    ("bash", {"command": "x", "timeout_secs": 600}, {"command": "x", "timeout_secs": 601}),
    ("bash", {"command": "x", "timeout_secs": 1}, {"command": "x", "timeout_secs": 0}),
    ("bash", {"command": "x", "timeout_secs": 1}, {"command": "x", "timeout_secs": 1.5}),
]


@pytest.mark.parametrize(("tool", "fits", "does_not"), BOUNDS)
def test_arguments_at_their_bound_fit_and_one_past_it_do_not(
    tool: str, fits: dict[str, Any], does_not: dict[str, Any]
) -> None:
    def checked(arguments: dict[str, Any]) -> object:
        return REGISTRY.checked(ToolCall("c", tool, json.dumps(arguments)))

    assert not isinstance(checked(fits), ToolResult)
    refused = checked(does_not)
    assert isinstance(refused, ToolResult)
    assert (refused.error or "").startswith("the arguments do not fit")


class Says:
    """An interlocutor that gives one answer to everything."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    async def consent(self, tool: str, arguments: Any, seconds: int) -> Consent:
        return Consent(Approval.ALLOWED)

    async def ask(self, message: str, schema: Any, seconds: int) -> Answer:
        return self.answer


class Client:
    """An audience that answers every question with the same result."""

    gone = False
    takes_questions = True

    def __init__(self, result: Any) -> None:
        self.result = result

    async def show(self, request: ApprovalRequested) -> None:
        raise AssertionError("nothing needs consent")

    async def elicit(self, message: str, schema: Any) -> Any:
        return self.result

    def at_hang_up(self, call: Any) -> Any:
        raise AssertionError("nothing needs consent")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["choice-0", "choice-1", "choice-2", "choice--1", "choice-", "tea"])
CONTENT = st.one_of(
    JSON,
    st.fixed_dictionaries({"choice": KEYS | JSON}),
    st.fixed_dictionaries({"choices": st.lists(KEYS | JSON, max_size=3) | JSON}),
    st.fixed_dictionaries({"answer": JSON}),
)


def polled(answer: Answer, *, multiple: bool = False) -> ToolResult:
    site = TurnSite({}, Surroundings(Says(answer)))
    arguments = {"question": "?", "options": ["tea", "coffee"], "multiple": multiple}

    async def ask() -> ToolResult:
        return await Poll().execute(arguments, call_site=site)

    return anyio.run(ask)


@pytest.mark.req("RPC-252")
@given(content=CONTENT.filter(bool), multiple=st.booleans())
@example({"choices": ["choice-0", "choice-1"]}, False)
@example({"choices": ["choice-0", "choice-0"]}, True)
@example({"choices": ["choice-1", "choice-0"]}, True)
def test_whatever_is_chosen_is_told_or_refused(content: Any, multiple: bool) -> None:
    offered = {"choice-0": "tea", "choice-1": "coffee"}
    chosen: Any = None
    if isinstance(content, dict) and isinstance(content.get("choice"), str):
        chosen = [content["choice"]]
    elif isinstance(content, dict) and isinstance(content.get("choices"), list):
        chosen = content["choices"]
    different = [key for key in offered if chosen is not None and key in chosen]
    if chosen is not None and (
        any(key not in different for key in chosen) or not 1 <= len(different) <= 1 + multiple
    ):
        with pytest.raises(AnswerUnusable):
            polled(Answered(content), multiple=multiple)
        return
    result = polled(Answered(content), multiple=multiple)
    assert result.success
    if chosen is not None:
        assert result.output == "\n".join(offered[key] for key in sorted(different, key=chosen.index))
    elif isinstance(content, dict) and list(content) == ["answer"] and isinstance(content["answer"], str):
        assert result.output == content["answer"]
    else:
        assert json.loads(result.output) == content


@pytest.mark.req("RPC-252")
@given(
    result=JSON
    | st.fixed_dictionaries(
        {"action": st.sampled_from(["accept", "decline", "cancel", "other"]) | JSON},
        optional={"content": CONTENT},
    )
)
def test_whatever_a_client_answers_is_an_answer_or_is_refused(result: Any) -> None:
    asking = Asking(ManualClock())
    asking.audience = Client(result)

    async def ask() -> Answer:
        return await asking.ask("?", {}, 5)

    action = result.get("action") if isinstance(result, dict) else None
    content = result.get("content") if isinstance(result, dict) else None
    if result is None:
        assert anyio.run(ask) == Answered(None)
    elif action == "accept" and isinstance(content, dict) and content:
        assert anyio.run(ask) == Answered(content)
    elif action in ("decline", "cancel"):
        assert anyio.run(ask) is Unanswered(action)
    else:
        with pytest.raises(AnswerUnusable):
            anyio.run(ask)
