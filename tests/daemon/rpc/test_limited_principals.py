"""What a principal that may not do everything can do with sessions, agents and tools."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest
from rosters import InForce, config_of, grants, one_user

from zeroclaw_daemon.agent.messages import ToolCall
from zeroclaw_daemon.agent.providers.base import TextDelta
from zeroclaw_daemon.agent.providers.scripted import Pause, ScriptedProvider
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.rpc.caller import MAX_REFUSALS_RECORDED
from zeroclaw_daemon.rpc.errors import AUTHENTICATION_REQUIRED, FORBIDDEN, INVALID_PARAMS, SESSION_NOT_FOUND
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.kinds import Tool, ToolResult

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

ANN, BEN, ROOT = 5001, 5002, 5003
EVERY_VERB = grants(
    "sessions:create", "sessions:read", "sessions:update", "sessions:execute", "sessions:delete", "system:read",
    allowed_agents=["*"],
)  # fmt: skip


def two_users(profile: dict[str, Any] = EVERY_VERB) -> InForce:
    """Ann and Ben with the same limited profile, and Root, an administrator. The daemon's own user is trusted."""
    return InForce(
        config_of(
            {
                "users": {
                    "ann": {"uid": ANN, "permission_profiles": ["limited"]},
                    "ben": {"uid": BEN, "permission_profiles": ["limited"]},
                    "root": {"uid": ROOT, "permission_profiles": ["all"]},
                },
                "permission_profiles": {"limited": profile, "all": {"admin": True}},
            }
        )
    )


def judged_by(in_force: InForce) -> RosterAuthority:
    return RosterAuthority(in_force, None, os.geteuid())


class Spy(Tool):
    """A tool that tells whether it ran."""

    name = ""
    description = "runs"
    parameters_schema = {"type": "object"}  # noqa: RUF012

    def __init__(self, name: str) -> None:
        self.name = name
        self.runs = 0

    async def execute(self, arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        self.runs += 1
        return ToolResult(True, f"{self.name} ran")


SESSION_CALLS = ("session/prompt", "session/cancel", "session/close", "session/state", "session/configure")


@pytest.mark.req("RPC-239")
@pytest.mark.parametrize("method", SESSION_CALLS)
async def test_a_strangers_session_and_one_that_is_not_there_are_the_same_to_a_limited_caller(
    serving: Serving, method: str
) -> None:
    async with (
        serving(authority=judged_by(two_users())) as daemon,
        daemon.connect(uid=ANN) as ann,
        daemon.connect(uid=BEN) as ben,
    ):
        of_ben = await ben.new_session()
        errors = [
            await ann.fail(method, {"sessionId": session, "prompt": "hi", "overrides": {}})
            for session in (of_ben, "no-such-session")
        ]
        assert errors[0] == errors[1]
        assert (errors[0]["code"], errors[0]["data"]) == (
            FORBIDDEN,
            {"reason": "forbidden", "rule": "session_not_owned"},
        )
        assert of_ben not in ann.raw.decode()
        assert not ann.updates
        assert (await ben.call("session/state", {"sessionId": of_ben}))["state"] == "idle"


async def test_whoever_sees_everything_is_told_that_a_session_is_not_there_and_uses_those_of_others(
    serving: Serving,
) -> None:
    async with (
        serving(authority=judged_by(two_users())) as daemon,
        daemon.connect(uid=ANN) as ann,
        daemon.connect(uid=ROOT) as root,
        daemon.connect() as operator,
    ):
        of_ann = await ann.new_session()
        for wire in (root, operator):
            assert (await wire.fail("session/state", {"sessionId": "none"}))["code"] == SESSION_NOT_FOUND
            assert (await wire.call("session/prompt", {"sessionId": of_ann, "prompt": "hi"}))[
                "content"
            ] == "hi"
            joined = await wire.call("session/new", {"agentAlias": "assistant", "sessionId": of_ann})
            assert joined["sessionId"] == of_ann
        # Whoever made it keeps it.
        assert (await ann.call("session/state", {"sessionId": of_ann}))["state"] == "idle"


@pytest.mark.req("RPC-066")
async def test_status_lists_the_own_sessions_of_a_limited_caller_and_all_of_whoever_sees_all(
    serving: Serving,
) -> None:
    async with (
        serving(authority=judged_by(two_users())) as daemon,
        daemon.connect(uid=ANN) as ann,
        daemon.connect(uid=BEN) as ben,
        daemon.connect() as operator,
    ):
        of_ann = await ann.new_session()
        of_ben = await ben.new_session()
        of_all = await operator.new_session()
        for wire, expected in ((ann, [of_ann]), (ben, [of_ben]), (operator, [of_ann, of_ben, of_all])):
            status = await wire.call("status")
            assert (status["sessionIds"], status["activeSessions"]) == (expected, len(expected))


@pytest.mark.parametrize("mode", ["chat", "acp"])
async def test_nobody_joins_or_replaces_a_strangers_session(serving: Serving, mode: str) -> None:
    async with (
        serving(authority=judged_by(two_users())) as daemon,
        daemon.connect(uid=ANN) as ann,
        daemon.connect(uid=BEN) as ben,
    ):
        of_ben = await ben.new_session()
        await ben.call("session/prompt", {"sessionId": of_ben, "prompt": "mine"})
        errors = [
            await ann.fail("session/new", {"agentAlias": "assistant", "sessionId": session, "chatMode": mode})
            for session in (of_ben, "no-such-session")
        ]
        assert errors[0] == errors[1]
        assert errors[0]["code"] == FORBIDDEN
        again = await ben.call("session/new", {"agentAlias": "assistant", "sessionId": of_ben})
        assert again["messageCount"] == 2


async def test_a_session_that_took_the_place_of_an_own_one_while_it_was_waited_for_is_not_replaced(
    serving: Serving,
) -> None:
    """Ann waits to replace her own session by one of the other mode; meanwhile it is closed and Ben's takes its id."""
    pause = Pause()
    provider = ScriptedProvider([TextDelta("a"), pause], [TextDelta("b")])
    async with (
        serving(authority=judged_by(two_users()), provider=provider) as daemon,
        daemon.connect(uid=ANN) as ann,
        daemon.connect(uid=ANN) as other_ann,
        daemon.connect(uid=BEN) as ben,
    ):
        x = await ann.new_session(chatMode="chat")
        live = daemon.server.sessions.get(x)
        prompt = {"jsonrpc": "2.0", "method": "session/prompt", "params": {"sessionId": x, "prompt": "1"}}
        await ann.send({**prompt, "id": 1})
        await pause.reached.wait()
        wanted = {"agentAlias": "assistant", "sessionId": x, "chatMode": "acp"}
        await other_ann.send({"jsonrpc": "2.0", "method": "session/new", "params": wanted, "id": 2})
        await daemon.until(lambda: live.permit.pending == 2)
        daemon.server.sessions.remove(live)
        of_ben = await ben.new_session(chatMode="chat")
        taken = daemon.server.sessions.get(of_ben)
        daemon.server.sessions.remove(taken)
        taken.id = x
        daemon.server.sessions.add(taken)
        pause.go.set()
        assert (await other_ann.answer_to(2))["error"]["code"] == FORBIDDEN
        assert (await ben.call("session/prompt", {"sessionId": x, "prompt": "2"}))["content"] == "b"


@pytest.mark.req("RPC-063")
async def test_who_says_to_be_another_client_evicts_no_session_of_another_principal(serving: Serving) -> None:
    async with (
        serving(authority=judged_by(two_users())) as daemon,
        daemon.connect(uid=BEN, tuiId="tui_00000001") as ben,
        daemon.connect(uid=ANN, tuiId="tui_00000001") as ann,
    ):
        of_ben = await ben.new_session()
        await ann.new_session()
        assert (await ben.call("session/state", {"sessionId": of_ben}))["state"] == "idle"


async def test_a_limited_caller_works_in_the_agents_workspace_or_below_it(
    serving: Serving, tmp_path: Path
) -> None:
    workspace, below = tmp_path, tmp_path / "below"
    below.mkdir()
    (tmp_path / "out").symlink_to("/")
    async with (
        serving(authority=judged_by(two_users())) as daemon,
        daemon.connect(uid=ANN) as ann,
        daemon.connect() as operator,
    ):
        for inside in (workspace, below):
            opened = await ann.call("session/new", {"agentAlias": "assistant", "cwd": str(inside)})
            assert opened["workspaceDir"] == str(inside)
        for outside in (tmp_path.parent, "/", tmp_path / "out", below / ".." / ".."):
            asked = {"agentAlias": "assistant", "cwd": str(outside)}
            error = await ann.fail("session/new", asked)
            assert error["code"] == FORBIDDEN
            assert error["data"] == {"reason": "forbidden", "rule": "path_outside_workspace", "member": "cwd"}
            await operator.call("session/new", asked)


@pytest.mark.req("RPC-239")
async def test_an_agent_that_is_not_allowed_opens_no_session_and_takes_no_turn_once_it_is_withdrawn(
    serving: Serving,
) -> None:
    in_force = two_users({**EVERY_VERB, "allowed_agents": ["assistant"]})
    async with serving(authority=judged_by(in_force)) as daemon, daemon.connect(uid=ANN) as ann:
        for alias in ("other", "no-such-agent"):
            error = await ann.fail("session/new", {"agentAlias": alias})
            assert (error["code"], error["data"]["agent"]) == (FORBIDDEN, alias)
        session = await ann.new_session()
        in_force.config = two_users({**EVERY_VERB, "allowed_agents": ["other"]}).config
        assert (await ann.fail("session/prompt", {"sessionId": session, "prompt": "hi"}))["code"] == FORBIDDEN
        # What needs no agent still works.
        assert (await ann.call("session/close", {"sessionId": session}))["closed"]


TOOLS = {
    "without the grant": (grants("sessions:create", "sessions:execute", allowed_tools=["*"]), []),
    "without a tool": (grants("sessions:create", "sessions:execute", "tools:execute"), []),
    "one tool": (
        grants("sessions:create", "sessions:execute", "tools:execute", allowed_tools=["one"]),
        ["one"],
    ),
    "all tools": (
        grants("sessions:create", "sessions:execute", "tools:execute", allowed_tools=["*"]),
        ["one", "two"],
    ),
    "an administrator": ({"admin": True}, ["one", "two"]),
}


@pytest.mark.parametrize("case", TOOLS)
async def test_a_tool_that_is_not_allowed_is_neither_offered_nor_run(serving: Serving, case: str) -> None:
    profile, expected = TOOLS[case]
    tools = [Spy("one"), Spy("two")]
    provider = ScriptedProvider(
        [ToolCall("c1", "one", "{}"), ToolCall("c2", "two", "{}")], [TextDelta("done")]
    )
    in_force = InForce(one_user({**profile, "allowed_agents": ["assistant"]}))
    async with (
        serving(authority=judged_by(in_force), provider=provider, tools=ToolRegistry(tools)) as daemon,
        daemon.connect() as wire,
    ):
        session = await wire.new_session()
        await wire.call("session/prompt", {"sessionId": session, "prompt": "go"})
        assert [[spec.name for spec in request.tools] for request in provider.requests] == [
            expected,
            expected,
        ]
        assert [tool.name for tool in tools if tool.runs] == expected
        told = {
            update["params"]["name"]: update["params"]["rawOutput"]
            for update in wire.updates
            if update["params"]["type"] == "tool_result"
        }
        for name in ("one", "two"):
            assert told[name] == f"{name} ran" if name in expected else "there is no tool" in told[name]


@pytest.mark.req("RPC-239")
async def test_what_is_withdrawn_is_gone_at_the_next_request_and_the_running_turn_goes_on(
    serving: Serving,
) -> None:
    pause = Pause()
    tool = Spy("one")
    call = ToolCall("c", "one", "{}")
    provider = ScriptedProvider([TextDelta("a"), pause, call], [TextDelta("b")], [call], [TextDelta("c")])
    everything = {
        **grants("sessions:create", "sessions:execute", "sessions:read", "tools:execute", "system:read"),
        "allowed_agents": ["*"],
        "allowed_tools": ["one"],
    }
    in_force = InForce(one_user(everything))
    async with (
        serving(authority=judged_by(in_force), provider=provider, tools=ToolRegistry([tool])) as daemon,
        daemon.connect() as wire,
    ):
        session = await wire.new_session()
        prompt = {
            "jsonrpc": "2.0",
            "method": "session/prompt",
            "params": {"sessionId": session, "prompt": "1"},
        }
        await wire.send({**prompt, "id": 1})
        await pause.reached.wait()
        # Everything it runs by is withdrawn while it runs.
        in_force.config = one_user(grants("sessions:read"))
        assert (await wire.fail("session/prompt", {"sessionId": session, "prompt": "2"}))["code"] == FORBIDDEN
        assert (await wire.fail("status"))["code"] == FORBIDDEN
        assert (await wire.call("session/state", {"sessionId": session}))["state"] == "running"
        pause.go.set()
        assert (await wire.answer_to(1))["result"]["content"] == "ab"
        assert tool.runs == 1
        # The next turn has what holds when it is asked for.
        in_force.config = one_user({**everything, "allowed_tools": []})
        answer = await wire.call("session/prompt", {"sessionId": session, "prompt": "3"})
        assert (answer["content"], tool.runs) == ("c", 1)
        in_force.config = one_user({"allowed_agents": ["*"], "allowed_tools": ["*"]})
        for method in ("status", "session/state", "session/prompt"):
            error = await wire.fail(method, {"sessionId": session, "prompt": "4"})
            assert error["code"] == AUTHENTICATION_REQUIRED


@pytest.mark.req("RPC-239")
async def test_a_prompt_that_waits_has_the_tools_that_held_when_it_was_asked_for(serving: Serving) -> None:
    pause = Pause()
    tool = Spy("one")
    provider = ScriptedProvider([TextDelta("a"), pause], [ToolCall("c", "one", "{}")], [TextDelta("b")])
    everything = {
        **grants("sessions:create", "sessions:execute", "tools:execute"),
        "allowed_agents": ["*"],
        "allowed_tools": ["one"],
    }
    in_force = InForce(one_user(everything))
    async with (
        serving(authority=judged_by(in_force), provider=provider, tools=ToolRegistry([tool])) as daemon,
        daemon.connect() as wire,
    ):
        session = await wire.new_session()
        prompt = {
            "jsonrpc": "2.0",
            "method": "session/prompt",
            "params": {"sessionId": session, "prompt": "1"},
        }
        await wire.send({**prompt, "id": 1}, {**prompt, "id": 2})
        await pause.reached.wait()
        live = daemon.server.sessions.get(session)
        await daemon.until(lambda: len(live.prompts) == 2)
        in_force.config = one_user({**everything, "allowed_tools": []})
        pause.go.set()
        await wire.answer_to(1)
        await wire.answer_to(2)
        assert tool.runs == 1


@pytest.mark.req("RPC-239")
async def test_an_administrator_who_is_one_no_more_sees_only_its_own_sessions(serving: Serving) -> None:
    in_force = two_users()
    async with (
        serving(authority=judged_by(in_force)) as daemon,
        daemon.connect(uid=ROOT) as root,
        daemon.connect(uid=ANN) as ann,
    ):
        of_ann = await ann.new_session()
        assert (await root.call("session/state", {"sessionId": of_ann}))["state"] == "idle"
        demoted = in_force.config.model_copy(
            update={
                "permission_profiles": {
                    **in_force.config.permission_profiles,
                    "all": in_force.config.permission_profiles["limited"],
                }
            }
        )
        in_force.config = demoted
        assert (await root.fail("session/state", {"sessionId": of_ann}))["code"] == FORBIDDEN
        assert (await root.call("status"))["sessionIds"] == []


@pytest.mark.req("RPC-052", "RPC-239")
async def test_a_limited_principal_reaches_the_real_socket(serving: Serving) -> None:
    """The daemon's own user is not trusted and is listed like any other."""
    in_force = InForce(one_user(grants("system:read")))
    async with (
        serving(socket=True, authority=judged_by(in_force)) as daemon,
        daemon.connect(initialize=False) as wire,
    ):
        assert (await wire.initialize())["principalId"] == "user:u"
        assert (await wire.call("status"))["sessionIds"] == []
        assert (await wire.fail("session/new", {"agentAlias": "assistant"}))["code"] == FORBIDDEN
        in_force.config = one_user(None)
        assert (await wire.fail("status"))["code"] == AUTHENTICATION_REQUIRED
        async with daemon.connect(initialize=False) as nobody:
            assert (await nobody.fail("initialize", {}))["code"] == AUTHENTICATION_REQUIRED
            with anyio.fail_after(60):
                assert (await nobody.fail("status"))["code"] == AUTHENTICATION_REQUIRED


async def test_one_client_cannot_fill_the_log_with_its_refusals(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    in_force = InForce(one_user(grants("sessions:read")))

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if "was refused" in record.getMessage()]

    async with serving(authority=judged_by(in_force)) as daemon:
        async with daemon.connect() as wire:
            for _ in range(MAX_REFUSALS_RECORDED + 5):
                assert (await wire.fail("status"))["code"] == FORBIDDEN
        assert len(told()) == MAX_REFUSALS_RECORDED
        assert [message for message in told() if "not recorded" in message] == told()[-1:]
        async with daemon.connect() as wire:
            assert (await wire.fail("status"))["code"] == FORBIDDEN
        assert len(told()) == MAX_REFUSALS_RECORDED + 1


UNUSABLE = {
    "a null character": "/\0",
    "half a character": "/\ud800",
    "too long": "/" + "x" * 5000,
    "a name too long": "/" + "x" * 300,
    "relative": "below",
    "a home of nobody": "~no-such-user/x",
    "no directory": "/dev/null",
    "a loop of links": "loop",
}


@pytest.mark.parametrize("uid", [ANN, None], ids=["limited", "operator"])
@pytest.mark.parametrize("case", UNUSABLE)
async def test_what_is_no_directory_is_an_error_of_the_caller(
    serving: Serving, tmp_path: Path, case: str, uid: int | None
) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    cwd = str(tmp_path / "loop") if case == "a loop of links" else UNUSABLE[case]
    async with serving(authority=judged_by(two_users())) as daemon, daemon.connect(uid=uid) as wire:
        error = await wire.fail("session/new", {"agentAlias": "assistant", "cwd": cwd})
        assert error["code"] in (INVALID_PARAMS, FORBIDDEN), error
        if uid is None:
            assert error["code"] == INVALID_PARAMS
        assert daemon.server.sessions.ids() == []
