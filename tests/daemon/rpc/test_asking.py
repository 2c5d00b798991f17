"""What a turn asks: whether a tool may run, and what the user says."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest

from zeroclaw_daemon.agent.approval_policy import ApprovalPolicy
from zeroclaw_daemon.agent.built_in import BUILT_IN_TOOLS
from zeroclaw_daemon.agent.directory import Agent, FixedAgents
from zeroclaw_daemon.agent.messages import ToolCall
from zeroclaw_daemon.agent.providers.base import TextDelta, ThoughtDelta
from zeroclaw_daemon.agent.providers.scripted import Line, Pause, ScriptedProvider
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.rpc.errors import FORBIDDEN, INVALID_PARAMS
from zeroclaw_daemon.sessions.asking import MAX_SUMMARY
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.kinds import Tool, ToolResult

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]
Frame = dict[str, Any]

ASK = ApprovalPolicy.ASK


class Upper(Tool):
    """A tool that shouts, and counts how often."""

    name = "upper"
    description = "upper case"
    parameters_schema = {"type": "object", "required": ["text"]}  # noqa: RUF012

    def __init__(self) -> None:
        self.runs = 0

    async def execute(self, arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        self.runs += 1
        return ToolResult(True, str(arguments["text"]).upper())


def calls(*arguments: Any, tool: str = "upper") -> list[list[Line]]:
    """A script of one turn: a call for each of these, and then an end."""
    return [
        *[[ToolCall(f"c{number}", tool, json.dumps(each))] for number, each in enumerate(arguments)],
        [TextDelta("done")],
    ]


class Asked:
    """A daemon with an agent that asks, and what its client saw."""

    def __init__(self, daemon: Any, tool: Upper, provider: ScriptedProvider) -> None:
        self.daemon = daemon
        self.tool = tool
        self.provider = provider

    @property
    def told(self) -> list[str]:
        """What the model was told of each call, once the turn is over."""
        messages = self.provider.requests[-1].messages
        return [message.output for message in messages if hasattr(message, "output")]


@pytest.fixture
def asking(serving: Serving, tmp_path: Any) -> Callable[..., AbstractAsyncContextManager[Asked]]:
    """A daemon whose agent says what is scripted."""

    @asynccontextmanager
    async def start(
        *scripts: list[Line], policy: ApprovalPolicy | None = None, **parts: Any
    ) -> AsyncGenerator[Asked]:
        tool = Upper()
        provider = ScriptedProvider(*scripts)
        settings = {key: parts.pop(key) for key in ("approval_seconds", "ask_seconds") if key in parts}
        agents = FixedAgents(
            *(
                Agent(
                    alias, provider, "m", tools=ToolRegistry([tool, *BUILT_IN_TOOLS]), workspace=str(tmp_path),
                    approval=policy, **settings,
                )
                for alias in ("assistant", "other")
            )
        )  # fmt: skip
        async with serving(agents=agents, provider=provider, **parts) as daemon:
            yield Asked(daemon, tool, provider)

    return start


Asking = Callable[..., AbstractAsyncContextManager[Asked]]


def prompt(session: str, request_id: Any = 7) -> Frame:
    params = {"sessionId": session, "prompt": "go"}
    return {"jsonrpc": "2.0", "method": "session/prompt", "params": params, "id": request_id}


async def next_question(wire: Any) -> Frame:
    """The next request of the daemon; updates before it are kept."""
    while True:
        frame = await wire.receive()
        if "id" in frame:
            assert frame["method"] == "elicitation/create"
            return frame
        wire.updates.append(frame)


def types(wire: Any) -> list[str]:
    return [update["params"]["type"] for update in wire.updates]


async def decide(wire: Any, asked: Frame, decision: str, **more: Any) -> Frame:
    named = {"sessionId": asked["sessionId"], "requestId": asked["requestId"], "decision": decision}
    return await wire.call("session/approve", {**named, **more})


# Approvals.


@pytest.mark.req("RPC-128", "RPC-243")
@pytest.mark.parametrize("socket", [False, True])
async def test_a_tool_waits_for_consent_and_then_runs_once(asking: Asking, socket: bool) -> None:
    async with asking(*calls({"text": "a"}), policy=ASK, socket=socket) as it, it.daemon.connect() as wire:
        session = await wire.new_session()
        await wire.send(prompt(session))
        asked = await wire.update_of("approval_request")
        assert asked == {
            "sessionId": session, "type": "approval_request", "requestId": asked["requestId"], "toolName": "upper",
            "argumentsSummary": '{"text": "a"}', "timeoutSecs": 120,
        }  # fmt: skip
        await wire.assert_silent()
        assert it.tool.runs == 0
        answer = await decide(wire, asked, "allow_once")
        assert answer == {"sessionId": session, "requestId": asked["requestId"], "acknowledged": True}
        await wire.answer_to(7)
        assert it.tool.runs == 1
        assert types(wire) == [
            "tool_call", "approval_request", "tool_result", "agent_message_chunk", "turn_complete",
        ]  # fmt: skip
        assert it.told == ["A"]


@pytest.mark.req("RPC-129")
async def test_one_turn_has_all_five_kinds_of_event_by_their_names(asking: Asking) -> None:
    script = [
        [ThoughtDelta("hm"), TextDelta("so"), ToolCall("c", "upper", '{"text": "a"}')],
        [TextDelta("!")],
    ]
    async with asking(*script, policy=ASK) as it, it.daemon.connect() as wire:
        await wire.send(prompt(await wire.new_session()))
        await decide(wire, await wire.update_of("approval_request"), "allow_once")
        await wire.answer_to(7)
        assert types(wire) == [
            "agent_thought_chunk", "agent_message_chunk", "tool_call", "approval_request", "tool_result",
            "agent_message_chunk", "turn_complete",
        ]  # fmt: skip


@pytest.mark.req("RPC-243")
async def test_what_is_allowed_for_good_is_asked_about_once_in_its_session(asking: Asking) -> None:
    scripts = [*calls({"text": "a"}, {"text": "b"}), *calls({"text": "c"}), *calls({"text": "d"})]
    async with asking(*scripts, policy=ASK) as it, it.daemon.connect() as wire:
        session = await wire.new_session()
        await wire.send(prompt(session))
        await decide(wire, await wire.update_of("approval_request"), "allow_always")
        await wire.answer_to(7)
        await wire.call("session/prompt", {"sessionId": session, "prompt": "again"})
        assert it.tool.runs == 3
        assert types(wire).count("approval_request") == 1
        await wire.send(prompt(await wire.new_session(keepSiblings=True), 8))
        await decide(wire, await wire.update_of("approval_request"), "reject")
        await wire.answer_to(8)
        assert it.tool.runs == 3


@pytest.mark.req("RPC-128", "RPC-243")
@pytest.mark.parametrize(
    ("decision", "more", "told"),
    [
        ("reject", {}, "the user rejected it"),
        ("reject_once", {}, "the user rejected it"),
        ("reject_with_edit", {"replacement": "use less"}, "wants this instead: use less"),
        ("reject_with_edit", {"replacement": {"text": "b"}}, 'wants this instead: {"text": "b"}'),
    ],
)
async def test_a_rejected_tool_is_not_run_and_the_turn_goes_on(
    asking: Asking, decision: str, more: Frame, told: str
) -> None:
    async with asking(*calls({"text": "a"}, {"text": "b"}), policy=ASK) as it, it.daemon.connect() as wire:
        await wire.send(prompt(await wire.new_session()))
        first = await wire.update_of("approval_request")
        await decide(wire, first, decision, **more)
        # The next call is asked about again, whatever was said of the first.
        second = await wire.update_of("approval_request")
        assert second["requestId"] != first["requestId"]
        await decide(wire, second, "allow_once")
        answer = await wire.answer_to(7)
        assert answer["result"]["content"] == "done"
        assert it.tool.runs == 1
        assert it.told[0].startswith("the tool was not run")
        assert it.told[0].endswith(told)
        assert it.told[1] == "B"


@pytest.mark.req("RPC-243")
@pytest.mark.parametrize(
    "wrong",
    [
        {"decision": "maybe"},
        {"decision": "ALLOW_ONCE"},
        {"decision": 1},
        {},
        {"decision": "reject_with_edit"},
        {"decision": "allow_once", "replacement": "x"},
        {"decision": "allow_once", "requestId": ""},
        {"decision": "allow_once", "request_id": "another"},
    ],
)
async def test_another_word_is_refused_and_decides_nothing(asking: Asking, wrong: Frame) -> None:
    async with asking(*calls({"text": "a"}), policy=ASK) as it, it.daemon.connect() as wire:
        session = await wire.new_session()
        await wire.send(prompt(session))
        asked = await wire.update_of("approval_request")
        error = await wire.fail(
            "session/approve", {"sessionId": session, "requestId": asked["requestId"], **wrong}
        )
        assert error["code"] == INVALID_PARAMS
        assert it.tool.runs == 0
        await decide(wire, asked, "allow_once")
        await wire.answer_to(7)
        assert it.tool.runs == 1


@pytest.mark.req("RPC-243")
async def test_a_decision_counts_for_a_request_that_waits_in_that_session_and_once(asking: Asking) -> None:
    async with asking(*calls({"text": "a"}), policy=ASK) as it, it.daemon.connect() as wire:
        session = await wire.new_session()
        other = await wire.new_session(keepSiblings=True)
        await wire.send(prompt(session))
        asked = await wire.update_of("approval_request")
        for wrong in ({"requestId": "nothing"}, {"sessionId": other}, {"sessionId": "no-session"}):
            answer = await decide(wire, {**asked, **wrong}, "allow_once")
            assert answer["acknowledged"] is False
        await wire.assert_silent()
        assert it.tool.runs == 0
        assert (await decide(wire, asked, "reject"))["acknowledged"] is True
        await wire.answer_to(7)
        assert (await decide(wire, asked, "allow_once"))["acknowledged"] is False
        assert it.tool.runs == 0


@pytest.mark.req("RPC-128", "RPC-243")
async def test_silence_is_no_consent(asking: Asking) -> None:
    script = calls({"text": "a"})
    async with asking(*script, policy=ASK, approval_seconds=9) as it, it.daemon.connect() as wire:
        await wire.send(prompt(await wire.new_session()))
        asked = await wire.update_of("approval_request")
        assert asked["timeoutSecs"] == 9
        await it.daemon.until(lambda: it.daemon.clock.waits > 0)
        it.daemon.clock.advance(8.999)
        await wire.assert_silent()
        it.daemon.clock.advance(0.001)
        answer = await wire.answer_to(7)
        assert answer["result"]["content"] == "done"
        assert it.tool.runs == 0
        assert it.told == ["the tool was not run: nobody allowed it in time"]
        assert (await decide(wire, asked, "allow_once"))["acknowledged"] is False


@pytest.mark.req("RPC-243", "RPC-061")
async def test_a_client_that_joins_is_asked_what_waits_and_can_decide(asking: Asking) -> None:
    async with (
        asking(*calls({"text": "a"}), policy=ASK) as it,
        it.daemon.connect() as first,
        it.daemon.connect() as second,
    ):
        session = await first.new_session()
        await first.send(prompt(session))
        asked = await first.update_of("approval_request")
        await second.new_session(sessionId=session)
        # It may come before the answer to session/new or after it.
        if not second.updates:
            second.updates.append(await second.receive())
        assert second.updates[0]["params"] == asked
        assert (await decide(second, asked, "allow_once"))["acknowledged"] is True
        answer = await first.answer_to(7)
        assert answer["result"]["content"] == "done"
        assert it.tool.runs == 1
        # What happens in the turn goes to whom it is for all the same.
        assert types(first)[-1] == "turn_complete"
        assert types(second) == ["approval_request"]


@pytest.mark.req("RPC-243", "RPC-160")
async def test_where_the_client_that_is_asked_goes_the_tool_is_not_run(asking: Asking) -> None:
    async with asking(*calls({"text": "a"}), policy=ASK) as it, it.daemon.connect() as first:
        session = await first.new_session()
        async with it.daemon.connect() as second:
            await first.send(prompt(session))
            await first.update_of("approval_request")
            await second.new_session(sessionId=session)
        answer = await first.answer_to(7)
        assert answer["result"]["content"] == "done"
        assert it.tool.runs == 0
        assert it.told == ["the tool was not run: nobody is there who could allow it"]


@pytest.mark.req("RPC-243", "RPC-241")
async def test_a_prompt_that_waits_does_not_take_the_questions_of_the_one_that_runs(asking: Asking) -> None:
    pause = Pause()
    scripts = [[pause, ToolCall("c", "upper", '{"text": "a"}')], [TextDelta("one")], [TextDelta("two")]]
    async with (
        asking(*scripts, policy=ASK) as it,
        it.daemon.connect() as first,
        it.daemon.connect() as second,
    ):
        session = await first.new_session()
        await first.send(prompt(session))
        await pause.reached.wait()
        await second.send(prompt(session, 8))
        await it.daemon.until(lambda: it.daemon.server.sessions.get(session).permit.pending == 2)
        pause.go.set()
        await decide(first, await first.update_of("approval_request"), "allow_once")
        assert (await first.answer_to(7))["result"]["content"] == "one"
        assert (await second.answer_to(8))["result"]["content"] == "two"
        assert types(second) == ["agent_message_chunk", "turn_complete"]


@pytest.mark.req("RPC-128", "RPC-131")
async def test_a_turn_that_waits_for_consent_can_be_cancelled(asking: Asking) -> None:
    async with asking(*calls({"text": "a"}), policy=ASK) as it, it.daemon.connect() as wire:
        session = await wire.new_session()
        await wire.send(prompt(session))
        asked = await wire.update_of("approval_request")
        await wire.call("session/cancel", {"sessionId": session})
        assert (await wire.answer_to(7))["result"]["stopReason"] == "cancelled"
        assert (await decide(wire, asked, "allow_once"))["acknowledged"] is False
        assert it.tool.runs == 0


class Stubborn(Upper):
    """A tool that will not be cancelled."""

    name = "stubborn"

    def __init__(self) -> None:
        super().__init__()
        self.began = anyio.Event()
        self.go = anyio.Event()

    async def execute(self, arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        self.began.set()
        with anyio.CancelScope(shield=True):
            await self.go.wait()
        return ToolResult(True, "late")


@pytest.mark.req("RPC-131")
@pytest.mark.parametrize("policy", [ASK, ApprovalPolicy.AUTO])
async def test_a_turn_that_was_given_up_asks_nothing_and_runs_nothing_more(
    serving: Serving, policy: ApprovalPolicy
) -> None:
    stubborn, upper = Stubborn(), Upper()
    calls_of_one_step: list[Line] = [
        ToolCall("c1", "stubborn", '{"text": ""}'), ToolCall("c2", "upper", '{"text": "a"}'),
    ]  # fmt: skip
    provider = ScriptedProvider(calls_of_one_step)
    agent = Agent("assistant", provider, "m", tools=ToolRegistry([stubborn, upper]), approval=policy)
    async with serving(agents=FixedAgents(agent)) as daemon, daemon.connect() as wire:
        session = await wire.new_session(cwd="/")
        await wire.send(prompt(session))
        if policy is ASK:
            await decide(wire, await wire.update_of("approval_request"), "allow_once")
        await stubborn.began.wait()
        await wire.call("session/cancel", {"sessionId": session})
        await daemon.until(lambda: daemon.clock.waits > 0)
        daemon.clock.advance(5)
        assert (await wire.answer_to(7))["result"]["stopReason"] == "cancelled"
        seen = len(wire.updates)
        stubborn.go.set()
        await daemon.until(lambda: provider.closed == 1)
        await anyio.wait_all_tasks_blocked()
        await wire.assert_silent()
        assert len(wire.updates) == seen
        assert upper.runs == 0


@pytest.mark.req("RPC-128")
async def test_a_person_is_shown_the_arguments_bounded_and_with_nothing_that_moves_a_terminal(
    asking: Asking,
) -> None:
    hostile = "\x1b[2J\u202egnp.exe\n\r\0"
    async with (
        asking(*calls({"text": hostile}, {"text": "x" * 10_000}), policy=ASK) as it,
        it.daemon.connect() as wire,
    ):
        await wire.send(prompt(await wire.new_session()))
        asked = await wire.update_of("approval_request")
        shown = asked["argumentsSummary"]
        assert shown.isprintable()
        assert "gnp.exe" in shown
        await decide(wire, asked, "reject")
        asked = await wire.update_of("approval_request")
        assert len(asked["argumentsSummary"]) == MAX_SUMMARY
        assert asked["argumentsSummary"].endswith("x… [cut: 10012 characters in all]")
        await decide(wire, asked, "reject")
        await wire.answer_to(7)


@pytest.mark.parametrize(
    ("policy", "ran", "asked"), [(None, 1, 0), (ApprovalPolicy.AUTO, 1, 0), (ApprovalPolicy.DENY, 0, 0)]
)
async def test_the_agents_policy_decides_whether_anybody_is_asked(
    asking: Asking, policy: ApprovalPolicy | None, ran: int, asked: int
) -> None:
    async with asking(*calls({"text": "a"}), policy=policy) as it, it.daemon.connect() as wire:
        answer = await wire.call("session/prompt", {"sessionId": await wire.new_session(), "prompt": "go"})
        assert answer["content"] == "done"
        assert it.tool.runs == ran
        assert types(wire).count("approval_request") == asked
        assert it.told == (["A"] if ran else ["the tool was not run: this agent may not run any"])


async def test_nobody_is_asked_about_a_call_that_cannot_be_made(asking: Asking) -> None:
    async with asking(*calls({}, {"text": "a"}), policy=ASK) as it, it.daemon.connect() as wire:
        await wire.send(prompt(await wire.new_session()))
        asked = await wire.update_of("approval_request")
        assert asked["argumentsSummary"] == '{"text": "a"}'
        await decide(wire, asked, "allow_once")
        await wire.answer_to(7)
        assert it.told[0].startswith("error: the arguments do not fit")


LIMITED = """schema_version = 1
security.trust_daemon_uid = false
[agents.assistant]
approval = "ask"
[permission_profiles.p]
allowed_agents = ["*"]
allowed_tools = ["ask_user", "plan"]
grants = { tools = ["execute"], sessions = ["create", "execute", "update"] }
[permission_profiles.untooled]
allowed_agents = ["*"]
allowed_tools = ["*"]
grants = { sessions = ["create", "execute", "update"] }
[users.one]
uid = 4001
permission_profiles = ["p"]
[users.two]
uid = 4002
permission_profiles = ["untooled"]
"""


@pytest.mark.req("RPC-243")
async def test_somebody_elses_session_is_not_decided_in(serving: Serving) -> None:
    async with (
        serving(config=LIMITED) as daemon,
        daemon.connect(uid=4001) as one,
        daemon.connect(uid=4002) as two,
    ):
        session = await one.new_session()
        request = {"sessionId": session, "requestId": "r", "decision": "allow_once"}
        assert (await one.call("session/approve", request))["acknowledged"] is False
        assert (await two.fail("session/approve", request))["code"] == FORBIDDEN
        assert (await two.fail("session/approve", {**request, "sessionId": "none"}))["code"] == FORBIDDEN


@pytest.mark.req("RPC-239")
@pytest.mark.parametrize(
    ("uid", "tool"), [(4001, "bash"), (4002, "bash"), (4002, "plan"), (4002, "ask_user")]
)
async def test_tools_that_a_caller_may_not_run_are_not_there(serving: Serving, uid: int, tool: str) -> None:
    async with serving(config=LIMITED) as daemon, daemon.connect(uid=uid) as wire:
        session = await wire.new_session()
        asked = f'/tool {tool} {{"command": "id", "question": "?", "entries": []}}'
        answer = await wire.call("session/prompt", {"sessionId": session, "prompt": asked})
        assert f"there is no tool {tool}" in answer["content"]
        assert "approval_request" not in types(wire)


# Questions.


@pytest.mark.req("RPC-086", "RPC-087", "RPC-089")
@pytest.mark.parametrize("socket", [False, True])
async def test_a_question_is_a_request_and_its_answer_reaches_the_tool(asking: Asking, socket: bool) -> None:
    scripts = calls({"question": "Go on?"}, {"question": "Really?"}, tool="ask_user")
    async with asking(*scripts, socket=socket) as it, it.daemon.connect() as wire:
        session = await wire.new_session()
        await wire.send(prompt(session))
        asked = await next_question(wire)
        assert asked == {
            "jsonrpc": "2.0",
            "method": "elicitation/create",
            "params": {
                "sessionId": session,
                "message": "Go on?",
                "mode": "form",
                "requestedSchema": {
                    "type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"],
                },
            },
            "id": "zc-out-0",
        }  # fmt: skip
        yes = {"action": "accept", "content": {"answer": "yes"}}
        await wire.send({"jsonrpc": "2.0", "id": "zc-out-0", "result": yes})
        asked = await next_question(wire)
        assert asked["id"] == "zc-out-1"
        indeed = {"action": "accept", "content": {"answer": "indeed", "sure": True}}
        await wire.send({"jsonrpc": "2.0", "id": "zc-out-1", "result": indeed})
        assert (await wire.answer_to(7))["result"]["content"] == "done"
        assert it.told == ["yes", '{"answer": "indeed", "sure": true}']


POLL = {"question": "Which?", "options": ["tea", "coffee", "water"]}


@pytest.mark.req("RPC-252")
@pytest.mark.parametrize(
    ("multiple", "content", "told"),
    [
        (False, {"choice": "choice-1"}, "coffee"),
        (True, {"choices": ["choice-0", "choice-2"]}, "tea\nwater"),
        (False, {"answer": "milk"}, "milk"),
        (False, {"anything": 1}, '{"anything": 1}'),
        (False, {"choice": "choice-3"}, "error: the client chose what it was not offered"),
        (True, {"choices": ["choice-0", 7]}, "error: the client chose what it was not offered"),
        (True, {"choices": []}, "error: the client chose what it was not offered"),
    ],
)
async def test_a_poll_has_the_user_choose(asking: Asking, multiple: bool, content: Any, told: str) -> None:
    scripts = calls({**POLL, "multiple": multiple}, tool="poll")
    async with asking(*scripts) as it, it.daemon.connect() as wire:
        await wire.send(prompt(await wire.new_session()))
        asked = await next_question(wire)
        titled = [{"const": f"choice-{n}", "title": title} for n, title in enumerate(POLL["options"])]
        if multiple:
            several = {"type": "array", "minItems": 1, "maxItems": 3, "items": {"anyOf": titled}}
            properties: Any = {"choices": several}
        else:
            properties = {"choice": {"type": "string", "oneOf": titled}}
        assert asked["params"]["message"] == "Which?"
        assert asked["params"]["requestedSchema"]["properties"] == properties
        assert asked["params"]["requestedSchema"]["required"] == list(properties)
        await wire.send(
            {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": content}}
        )
        await wire.answer_to(7)
        assert it.told == [told]


QUESTIONS = [("ask_user", {"question": "?"}), ("poll", POLL)]


@pytest.mark.req("RPC-252", "RPC-091", "RPC-092")
@pytest.mark.parametrize(("tool", "arguments"), QUESTIONS)
@pytest.mark.parametrize(
    ("response", "told"),
    [
        ({"result": {"action": "decline"}}, "no answer: the user declined to answer"),
        ({"result": {"action": "cancel"}}, "no answer: the user cancelled the question"),
        ({"result": {"action": "decline", "content": {"answer": "x"}}}, "no answer: the user declined to answer"),
        ({"result": None}, "the user answered without saying anything"),
        ({"result": {"action": "accept"}}, "error: the client accepted the question without an answer"),
        ({"result": {"action": "accept", "content": {}}}, "error: the client accepted the question without an answer"),
        ({"result": {"action": "accept", "content": "yes"}}, "error: the client accepted the question without an answer"),
        ({"result": {"action": "perhaps"}}, "error: the client's answer has no action that is known"),
        ({"result": "yes"}, "error: the client's answer has no action that is known"),
        ({"error": {"code": -32601, "message": "no"}}, "error: the client answered the question with an error (-32601)"),
    ],
)  # fmt: skip
async def test_every_answer_ends_the_question_at_once(
    asking: Asking, tool: str, arguments: Frame, response: Frame, told: str
) -> None:
    async with asking(*calls(arguments, tool=tool)) as it, it.daemon.connect() as wire:
        await wire.send(prompt(await wire.new_session()))
        asked = await next_question(wire)
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], **response})
        assert (await wire.answer_to(7))["result"]["content"] == "done"
        assert it.told == [told]


@pytest.mark.req("RPC-093", "RPC-094", "RPC-252")
@pytest.mark.parametrize(("tool", "arguments"), QUESTIONS)
async def test_silence_is_no_answer_and_a_late_one_is_nobodys(
    asking: Asking, tool: str, arguments: Frame
) -> None:
    async with asking(*calls(arguments, tool=tool), ask_seconds=1) as it, it.daemon.connect() as wire:
        await wire.send(prompt(await wire.new_session()))
        asked = await next_question(wire)
        await it.daemon.until(lambda: it.daemon.clock.waits > 0)
        it.daemon.clock.advance(0.999)
        await wire.assert_silent()
        it.daemon.clock.advance(0.001)
        assert (await wire.answer_to(7))["result"]["content"] == "done"
        assert it.told == ["no answer: the user said nothing for 1 seconds"]
        late = {"action": "accept", "content": {"answer": "late"}}
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": late})
        await wire.assert_silent()


def test_the_shipped_waiting_times() -> None:
    agent = Agent("a", ScriptedProvider(), "m")
    assert (agent.approval_seconds, agent.ask_seconds) == (120, 300)


@pytest.mark.req("RPC-087")
@pytest.mark.parametrize(
    ("declared", "is_asked"),
    [
        ({}, True),
        ({"clientCapabilities": {"elicitation": {}}}, True),
        ({"clientCapabilities": {"elicitation": {"form": {}}}}, True),
        ({"clientCapabilities": {"elicitation": {"url": {}}}}, False),
        ({"clientCapabilities": {}}, False),
        ({"clientCapabilities": {"elicitation": False}}, False),
    ],
)
async def test_a_client_that_declared_that_it_takes_no_questions_gets_none(
    asking: Asking, declared: Frame, is_asked: bool
) -> None:
    async with (
        asking(*calls({"question": "?"}, tool="ask_user")) as it,
        it.daemon.connect(**declared) as wire,
    ):
        await wire.send(prompt(await wire.new_session()))
        if is_asked:
            asked = await next_question(wire)
            await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})
        assert (await wire.answer_to(7))["result"]["content"] == "done"
        if not is_asked:
            assert it.told == [
                "error: the client cannot be asked: it declared its capabilities without elicitation"
            ]


@pytest.mark.req("RPC-119")
async def test_no_log_holds_what_was_asked_or_answered(
    asking: Asking, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    script = calls({"question": "secret-7391"}, {"question": "secret-7391"}, tool="ask_user")
    async with asking(*script) as it, it.daemon.connect() as wire:
        await wire.send(prompt(await wire.new_session()))
        for response in (
            {"error": {"code": 7, "message": "secret-7391", "data": "secret-7391"}},
            {"result": {"action": "secret-7391"}},
        ):
            asked = await next_question(wire)
            await wire.send({"jsonrpc": "2.0", "id": asked["id"], **response})
        await wire.answer_to(7)
    assert "a client connected" in caplog.text
    assert "ask_user" not in caplog.text, "what becomes of a question is no business of the operator"
    assert "secret-7391" not in caplog.text
    assert not any("secret-7391" in str(vars(record)) for record in caplog.records)


@pytest.mark.req("RPC-090", "RPC-095")
async def test_calls_are_served_while_a_question_waits_even_under_its_own_id(asking: Asking) -> None:
    async with asking(*calls({"question": "?"}, tool="ask_user")) as it, it.daemon.connect() as wire:
        session = await wire.new_session()
        await wire.send(prompt(session))
        asked = await next_question(wire)
        assert asked["id"] == "zc-out-0"
        await wire.send({"jsonrpc": "2.0", "method": "status", "id": "zc-out-0"})
        assert "serverVersion" in (await wire.answer_to("zc-out-0"))["result"]
        assert (await wire.call("session/state", {"sessionId": session}))["state"] == "running"
        yes = {"action": "accept", "content": {"answer": "yes"}}
        await wire.send({"jsonrpc": "2.0", "id": "zc-out-0", "result": yes})
        await wire.answer_to(7)
        assert it.told == ["yes"]


@pytest.mark.req("RPC-250")
async def test_an_answer_is_for_the_question_of_its_own_connection(asking: Asking) -> None:
    question = [ToolCall("c", "ask_user", '{"question": "?"}')]
    done: list[Line] = [TextDelta("done")]
    async with (
        asking(question, question, done, done) as it,
        it.daemon.connect() as first,
        it.daemon.connect() as second,
    ):
        for wire, alias in ((first, "assistant"), (second, "other")):
            await wire.send(prompt(await wire.new_session(agentAlias=alias)))
            assert (await next_question(wire))["id"] == "zc-out-0"
        for wire, word in ((second, "two"), (first, "one")):
            answer = {"action": "accept", "content": {"answer": word}}
            await wire.send({"jsonrpc": "2.0", "id": "zc-out-0", "result": answer})
            await wire.answer_to(7)
            assert it.told == [word]
            if wire is second:
                await first.assert_silent()


async def test_a_turn_that_waits_for_an_answer_can_be_cancelled(asking: Asking) -> None:
    async with asking(*calls({"question": "?"}, tool="ask_user")) as it, it.daemon.connect() as wire:
        session = await wire.new_session()
        await wire.send(prompt(session))
        asked = await next_question(wire)
        await wire.call("session/cancel", {"sessionId": session})
        assert (await wire.answer_to(7))["result"]["stopReason"] == "cancelled"
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": None})
        await wire.assert_silent()
        assert it.daemon.server.sessions.get(session).running is None


async def test_questions_to_the_person_are_asked_without_asking_whether_they_may_be(asking: Asking) -> None:
    async with (
        asking(*calls({"question": "?"}, tool="ask_user"), policy=ASK) as it,
        it.daemon.connect() as wire,
    ):
        await wire.send(prompt(await wire.new_session()))
        asked = await next_question(wire)
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": None})
        await wire.answer_to(7)
        assert types(wire) == ["tool_call", "tool_result", "agent_message_chunk", "turn_complete"]
