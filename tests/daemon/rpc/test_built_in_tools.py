"""The tools that come with the daemon, and how a conversation keeps to its budget, as a client sees it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from processes import runs

from zeroclaw_daemon.agent.approval_policy import ApprovalPolicy
from zeroclaw_daemon.agent.built_in import BUILT_IN_TOOLS
from zeroclaw_daemon.agent.directory import Agent, FixedAgents
from zeroclaw_daemon.agent.messages import AssistantMessage, Message, ToolCall, UserMessage
from zeroclaw_daemon.agent.providers.base import Finished, TextDelta, ThoughtDelta, Usage
from zeroclaw_daemon.agent.providers.scripted import Line, Pause, ScriptedProvider
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.rpc.errors import FORBIDDEN, INVALID_PARAMS
from zeroclaw_daemon.rpc.methods.handshake import MAX_VARIABLES
from zeroclaw_host.errors import StorageError

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]
Frame = dict[str, Any]
PATIENCE = 60


@pytest.fixture
def scripted(serving: Serving, tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[Any]]:
    """A daemon whose agent says what is scripted, and has the built-in tools."""

    @asynccontextmanager
    async def start(*scripts: list[Line], **settings: Any) -> AsyncGenerator[tuple[Any, ScriptedProvider]]:
        provider = ScriptedProvider(*scripts)
        agent = Agent("assistant", provider, "m", tools=ToolRegistry(BUILT_IN_TOOLS), workspace=str(tmp_path))
        async with serving(agents=FixedAgents(replace(agent, **settings)), provider=provider) as daemon:
            yield daemon, provider

    return start


Scripted = Callable[..., AbstractAsyncContextManager[tuple[Any, ScriptedProvider]]]


def call(tool: str, **arguments: Any) -> list[Line]:
    return [ToolCall("c", tool, json.dumps(arguments))]


def of_type(wire: Any, kind: str) -> list[Frame]:
    return [update["params"] for update in wire.updates if update["params"]["type"] == kind]


def prompt(session: str, request_id: Any = 7) -> Frame:
    params = {"sessionId": session, "prompt": "go"}
    return {"jsonrpc": "2.0", "method": "session/prompt", "params": params, "id": request_id}


# Plans.


async def test_a_plan_is_told_as_a_whole_and_before_the_tool_has_returned(scripted: Scripted) -> None:
    entries = [
        {"content": "read", "status": "completed", "priority": "high"},
        {"content": "write", "status": "in_progress", "activeForm": "writing"},
    ]
    scripts = [call("plan", entries=entries), call("plan", entries=[]), [TextDelta("done")]]
    async with scripted(*scripts) as (daemon, provider), daemon.connect() as wire:
        session = await wire.new_session()
        await wire.call("session/prompt", {"sessionId": session, "prompt": "go"})
        assert of_type(wire, "plan") == [
            {
                "sessionId": session,
                "type": "plan",
                "entries": [
                    entries[0],
                    {
                        "content": "write",
                        "status": "in_progress",
                        "priority": "medium",
                        "activeForm": "writing",
                    },
                ],
            },
            {"sessionId": session, "type": "plan", "entries": []},
        ]
        kinds = [update["params"]["type"] for update in wire.updates[:3]]
        assert kinds == ["tool_call", "plan", "tool_result"]
        told = [m.output for m in provider.requests[-1].messages if hasattr(m, "output")]
        assert told == [
            "the plan has 2 entries, 1 of them completed", "the plan has 0 entries, 0 of them completed",
        ]  # fmt: skip


@pytest.mark.parametrize(
    "entries",
    [
        [{"content": "", "status": "pending"}],
        [{"content": "a"}],
        [{"content": "a", "status": "later"}],
        [{"content": "a", "status": "pending", "priority": "urgent"}],
        [{"content": "a", "status": "pending", "more": 1}],
        [{"content": "a" * 1001, "status": "pending"}],
        [{"content": "a", "status": "pending"}] * 101,
        "all of it",
    ],
)
async def test_a_plan_that_is_none_changes_nothing(scripted: Scripted, entries: Any) -> None:
    async with (
        scripted(call("plan", entries=entries), [TextDelta("done")]) as (daemon, _),
        daemon.connect() as wire,
    ):
        await wire.call("session/prompt", {"sessionId": await wire.new_session(), "prompt": "go"})
        assert of_type(wire, "plan") == []
        assert of_type(wire, "tool_result")[0]["rawOutput"].startswith("error: the arguments do not fit")


async def test_a_plan_at_the_bounds_is_taken(scripted: Scripted) -> None:
    entries = [{"content": "a" * 1000, "status": "pending"}] * 100
    async with (
        scripted(call("plan", entries=entries), [TextDelta("done")]) as (daemon, _),
        daemon.connect() as wire,
    ):
        await wire.call("session/prompt", {"sessionId": await wire.new_session(), "prompt": "go"})
        assert len(of_type(wire, "plan")[0]["entries"]) == 100


# Commands.


@pytest.mark.req("RPC-128")
@pytest.mark.parametrize("policy", [None, ApprovalPolicy.ASK])
async def test_bash_is_asked_about_at_every_call(
    scripted: Scripted, tmp_path: Path, policy: ApprovalPolicy | None
) -> None:
    scripts = [call("bash", command="touch one"), call("bash", command="touch two"), [TextDelta("done")]]
    async with scripted(*scripts, approval=policy) as (daemon, _), daemon.connect() as wire:
        session = await wire.new_session()
        await wire.send(prompt(session))
        for command, decision in (("touch one", "allow_once"), ("touch two", "reject")):
            asked = await wire.update_of("approval_request")
            assert asked["toolName"] == "bash"
            assert asked["argumentsSummary"] == json.dumps({"command": command})
            named = {"sessionId": session, "requestId": asked["requestId"], "decision": decision}
            await wire.call("session/approve", named)
        await wire.answer_to(7)
        assert [(tmp_path / name).exists() for name in ("one", "two")] == [True, False]


async def test_bash_runs_in_the_directory_of_the_session_unless_the_policy_wants_a_question(
    scripted: Scripted, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    scripts = [call("bash", command="pwd -L; exit 4"), [TextDelta("done")]]
    async with scripted(*scripts, approval=ApprovalPolicy.AUTO) as (daemon, _), daemon.connect() as wire:
        session = await wire.new_session(cwd=str(tmp_path / "sub"))
        await wire.call("session/prompt", {"sessionId": session, "prompt": "go"})
        assert of_type(wire, "approval_request") == []
        told = of_type(wire, "tool_result")[0]["rawOutput"]
        assert told == f"{tmp_path / 'sub'}\n\nerror: the command ended with status 4"


@pytest.mark.req("PAINS-23", "RPC-032")
@pytest.mark.parametrize("end", ["cancel", "hang_up"])
async def test_no_process_outlives_its_turn(scripted: Scripted, tmp_path: Path, end: str) -> None:
    pids = tmp_path / "pids"
    scripts = [call("bash", command="sleep 1000 & echo $$ $! > new; mv new pids; wait"), [TextDelta("no")]]
    async with scripted(*scripts, approval=ApprovalPolicy.AUTO) as (daemon, _):
        async with daemon.connect() as wire:
            session = await wire.new_session()
            await wire.send(prompt(session))
            await daemon.until(pids.exists)
            if end == "cancel":
                await wire.call("session/cancel", {"sessionId": session})
                assert (await wire.answer_to(7))["result"]["stopReason"] == "cancelled"
        group = [int(pid) for pid in pids.read_text().split()]
        await daemon.until(lambda: not any(map(runs, group)))
        await daemon.until(lambda: not daemon.server.sessions.get(session).prompts)


USERS = f"""schema_version = 1
security.trust_daemon_uid = false
[agents.assistant]
approval = "auto"
[permission_profiles.all]
admin = true
[permission_profiles.some]
allowed_agents = ["*"]
allowed_tools = ["*"]
grants = {{ tools = ["execute"], sessions = ["create", "execute"] }}
[users.admin]
uid = {os.geteuid()}
permission_profiles = ["all"]
[users.limited]
uid = 4001
permission_profiles = ["some"]
"""


def bash(command: str) -> str:
    return f"/tool bash {json.dumps({'command': command})}"


def secrets_in(directory: Path, secret: str) -> list[Path]:
    """The files that hold a secret."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if secret.encode() in path.read_bytes()]


@pytest.mark.req("RPC-247")
async def test_a_clients_environment_reaches_its_commands_where_it_is_an_administrators(
    serving: Serving, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "forwarded-7391"
    async with serving(config=USERS) as daemon:
        for uid, seen in ((None, len(secret)), (4001, 0)):
            async with daemon.connect(uid=uid, env={"TOKEN": secret}) as wire:
                for mode in ("chat", "acp"):
                    session = await wire.new_session(chatMode=mode)
                    asked = {"sessionId": session, "prompt": bash("echo ${#TOKEN}")}
                    assert (await wire.call("session/prompt", asked))["content"] == f"{seen}\n"
        assert secret not in repr(daemon.server.sessions.all())
    assert secret not in caplog.text
    assert not any(secret in str(vars(each)) for each in caplog.records)
    assert secrets_in(tmp_path, secret) == []


@pytest.mark.req("RPC-247")
async def test_a_client_of_another_machine_forwards_nothing(serving: Serving) -> None:
    async with serving(config=USERS) as daemon:
        token = daemon.config.tokens.pair("admin").text
        async with daemon.connect(local=False, authToken=token, env={"TOKEN": "x"}) as wire:
            asked = {"sessionId": await wire.new_session(), "prompt": bash('echo "<$TOKEN>"')}
            assert (await wire.call("session/prompt", asked))["content"] == "<>\n"


@pytest.mark.req("RPC-062")
async def test_a_session_is_not_joined_with_another_environment(serving: Serving) -> None:
    async with (
        serving(config=USERS) as daemon,
        daemon.connect(env={"TOKEN": "a"}) as first,
        daemon.connect(env={"TOKEN": "b"}) as second,
    ):
        session = await first.new_session()
        error = await second.fail("session/new", {"agentAlias": "assistant", "sessionId": session})
        assert error["code"] == FORBIDDEN
        assert "TOKEN" not in json.dumps(error)
        await second.initialize(env={"TOKEN": "a"})
        await second.new_session(sessionId=session)
        # A handshake replaces an earlier one as a whole.
        await second.initialize()
        assert (await second.fail("session/new", {"agentAlias": "assistant", "sessionId": session}))[
            "code"
        ] == FORBIDDEN
        asked = {"sessionId": session, "prompt": bash('echo "<$TOKEN>"')}
        assert (await first.call("session/prompt", asked))["content"] == "<a>\n"


@pytest.mark.req("RPC-247")
@pytest.mark.parametrize(
    "env",
    [
        {"": "x"},
        {"A=B": "x"},
        {"A\0": "x"},
        {"A": "\0"},
        {"A": 1},
        {"A": None},
        {"A": "\ud800"},
        ["A"],
        "A=1",
    ],
)
async def test_what_is_no_environment_is_refused_without_being_repeated(serving: Serving, env: Any) -> None:
    async with serving() as daemon, daemon.connect(initialize=False) as wire:
        error = await wire.fail("initialize", {"env": env})
        assert error["code"] == INVALID_PARAMS
        await wire.initialize(env={"A": "", "B": "ü\n"})


@pytest.mark.req("RPC-247")
async def test_an_environment_has_a_bounded_number_of_variables(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect(initialize=False) as wire:
        most = {f"V{number}": "" for number in range(MAX_VARIABLES)}
        await wire.initialize(env=most)
        assert (await wire.fail("initialize", {"env": {**most, "ONE": "more"}}))["code"] == INVALID_PARAMS


# What is left out, and what is never kept.


def long_turns(count: int) -> list[list[Line]]:
    """Answers of 100 characters: with a prompt of two, a turn costs 34 tokens."""
    return [[ThoughtDelta("secret-thought"), TextDelta(str(number) * 100)] for number in range(count)]


@pytest.mark.req("RPC-132", "RPC-137", "RPC-139")
async def test_a_conversation_that_grows_beyond_its_budget_loses_its_oldest_turns(scripted: Scripted) -> None:
    async with (
        scripted(*long_turns(4), max_context_tokens=73, system_prompt="secret-prompt") as (daemon, provider),
        daemon.connect() as wire,
    ):
        session = await wire.new_session()
        for _ in range(3):
            await wire.call("session/prompt", {"sessionId": session, "prompt": "go"})
        assert of_type(wire, "history_trimmed") == []
        await wire.call("session/prompt", {"sessionId": session, "prompt": "go"})
        assert of_type(wire, "history_trimmed") == [
            {
                "sessionId": session, "type": "history_trimmed", "droppedMessages": 2, "droppedTurns": 1, "keptTurns": 3,
                "reason": "token_budget", "tokenBudget": 73, "tokensBefore": 107, "tokensAfter": 73,
                "unsatisfiableFloor": False,
            }
        ]  # fmt: skip
        assert [update["params"]["type"] for update in wire.updates[-4:]] == [
            "history_trimmed", "agent_thought_chunk", "agent_message_chunk", "turn_complete",
        ]  # fmt: skip
        expected: list[Message] = []
        for number in (1, 2):
            expected += [UserMessage("go"), AssistantMessage(str(number) * 100)]
        assert list(provider.requests[-1].messages) == [*expected, UserMessage("go")]
        kept = daemon.server.sessions.get(session).history
        assert list(kept) == [*expected, UserMessage("go"), AssistantMessage("3" * 100)]
        assert "secret" not in repr(kept)


async def test_a_turn_that_grows_is_reduced_between_its_steps(scripted: Scripted) -> None:
    scripts = [[TextDelta("a" * 400)], call("plan", entries=[]), [TextDelta("done")]]
    async with scripted(*scripts, max_context_tokens=130) as (daemon, provider), daemon.connect() as wire:
        session = await wire.new_session()
        for _ in range(2):
            await wire.call("session/prompt", {"sessionId": session, "prompt": "go"})
        assert [len(request.messages) for request in provider.requests] == [1, 3, 3]
        trimmed = of_type(wire, "history_trimmed")
        assert [each["droppedMessages"] for each in trimmed] == [2]
        assert [type(message).__name__ for message in provider.requests[-1].messages] == [
            "UserMessage", "AssistantMessage", "ToolMessage",
        ]  # fmt: skip


async def test_a_turn_larger_than_the_budget_is_said_to_be_one(scripted: Scripted) -> None:
    async with (
        scripted([TextDelta("one")], [TextDelta("two")], max_context_tokens=30) as (daemon, provider),
        daemon.connect() as wire,
    ):
        session = await wire.new_session()
        await wire.call("session/prompt", {"sessionId": session, "prompt": "go"})
        await wire.call("session/prompt", {"sessionId": session, "prompt": "x" * 200})
        assert of_type(wire, "history_trimmed")[0]["unsatisfiableFloor"] is True
        assert list(provider.requests[-1].messages) == [UserMessage("x" * 200)]


@pytest.mark.req("RPC-254")
async def test_a_cancelled_turn_keeps_what_was_left_of_the_conversation(scripted: Scripted) -> None:
    pause = Pause()
    async with (
        scripted([TextDelta("a" * 400)], [pause], max_context_tokens=50) as (daemon, _),
        daemon.connect() as wire,
    ):
        session = await wire.new_session()
        await wire.call("session/prompt", {"sessionId": session, "prompt": "go"})
        await wire.send(prompt(session))
        await pause.reached.wait()
        await wire.call("session/cancel", {"sessionId": session})
        await wire.answer_to(7)
        assert daemon.server.sessions.get(session).history[0] == UserMessage("go")
        assert len(daemon.server.sessions.get(session).history) == 2


class Remembering:
    """A memory that always brings the same to mind, or fails."""

    def __init__(self, text: str | None) -> None:
        self.text = text
        self.prompts: list[str] = []

    async def recall(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if self.text is None:
            raise StorageError("the memory is broken")
        return self.text


@pytest.mark.req("RPC-138")
async def test_what_is_recalled_reaches_the_model_and_nothing_else(scripted: Scripted) -> None:
    memory = Remembering("token-4711")
    scripts = [call("plan", entries=[]), [TextDelta("one")], [TextDelta("two")]]
    async with (
        scripted(*scripts, recall=memory, system_prompt="be brief") as (daemon, provider),
        daemon.connect() as wire,
    ):
        session = await wire.new_session()
        for _ in range(2):
            await wire.call("session/prompt", {"sessionId": session, "prompt": "go"})
        assert memory.prompts == ["go", "go"]
        assert [request.system_prompt for request in provider.requests] == ["be brief\n\ntoken-4711"] * 3
        assert not any("token-4711" in repr(request.messages) for request in provider.requests)
        assert "token-4711" not in repr(daemon.server.sessions.get(session).history)
        assert b"token-4711" not in wire.raw


async def test_a_memory_that_fails_costs_no_turn(
    scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        scripted([TextDelta("one")], recall=Remembering(None), system_prompt="be brief") as (
            daemon,
            provider,
        ),
        daemon.connect() as wire,
    ):
        asked = {"sessionId": await wire.new_session(), "prompt": "go"}
        assert (await wire.call("session/prompt", asked))["content"] == "one"
        assert provider.requests[0].system_prompt == "be brief"
        assert "the memory is broken" in caplog.text


async def test_a_client_is_told_how_full_the_models_memory_is(scripted: Scripted) -> None:
    scripts = [
        [TextDelta("one"), Finished(usage=Usage(1200, 7))],
        [TextDelta("two"), Finished()],
    ]
    settings = {"max_context_tokens": 32_000, "context_window": 200_000}
    async with scripted(*scripts, **settings) as (daemon, _), daemon.connect() as wire:
        session = await wire.new_session()
        for _ in range(2):
            await wire.call("session/prompt", {"sessionId": session, "prompt": "go"})
        known = {"sessionId": session, "type": "context_usage", "maxContextTokens": 32_000}
        assert of_type(wire, "context_usage") == [
            {**known, "inputTokens": 1200, "modelContextWindow": 200_000},
            {**known, "modelContextWindow": 200_000},
        ]
