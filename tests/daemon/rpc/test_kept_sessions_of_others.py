"""Kept sessions, and callers that may not use every one of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from itertools import product
from typing import Any

import anyio
import pytest
from kept_houses import House
from rosters import InForce, config_of, grants
from session_model import BEGAN

from zeroclaw_daemon.agent.messages import ToolCall
from zeroclaw_daemon.agent.providers.base import TextDelta
from zeroclaw_daemon.agent.providers.scripted import Pause
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.rpc.errors import FORBIDDEN, INTERNAL
from zeroclaw_daemon.sessions.store.points import WritePoint
from zeroclaw_daemon.sessions.turns import CANCEL_GRACE_SECONDS
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.kinds import Tool, ToolResult

pytestmark = pytest.mark.anyio

Opened = Callable[..., AbstractAsyncContextManager[House]]

ANN, BEN = 5001, 5002
VERBS = ("create", "read", "update", "execute", "delete")


def two_users(*agents: str) -> InForce:
    """Ann and Ben, who may do everything with these agents and their own sessions."""
    profile = grants(
        *(f"sessions:{verb}" for verb in VERBS), "system:read", "files:create", allowed_agents=list(agents)
    )
    return InForce(
        config_of(
            {
                "users": {
                    "ann": {"uid": ANN, "permission_profiles": ["limited"]},
                    "ben": {"uid": BEN, "permission_profiles": ["limited"]},
                },
                "permission_profiles": {"limited": profile},
            }
        )
    )


def judged_by(in_force: InForce) -> RosterAuthority:
    return RosterAuthority(in_force, None, os.geteuid())


@pytest.mark.req("RPC-239", "RPC-146")
@pytest.mark.parametrize("mode", ["acp", "chat"])
@pytest.mark.parametrize("method", ["session/prompt", "session/kill", "session/delete", "session/new"])
async def test_a_strangers_kept_session_and_one_that_is_not_there_are_the_same(
    house: Opened, method: str, mode: str
) -> None:
    authority = judged_by(two_users("*"))
    async with (
        house([TextDelta("yes")], [TextDelta("more")], authority=authority) as it,
        it.daemon.connect(uid=ANN) as ann,
        it.daemon.connect(uid=BEN) as ben,
    ):
        of_ben = await ben.new_session(chatMode=mode)
        await ben.call("session/prompt", {"sessionId": of_ben, "prompt": "hi"})
        await ben.call("session/close", {"sessionId": of_ben})
        store = "acp-sessions.db" if mode == "acp" else "sessions.db"
        before = it.dump(store)
        errors = [
            await ann.fail(
                method, {"agentAlias": "assistant", "sessionId": session, "prompt": "?", "chatMode": mode}
            )
            for session in (of_ben, "none")
        ]
        assert errors[0] == errors[1]
        assert (errors[0]["code"], errors[0]["data"]["reason"]) == (FORBIDDEN, "forbidden")
        assert not ann.updates
        assert it.dump(store) == before
        # Whoever made it goes on with it, and so does the operator, without taking it over.
        assert (await ben.call("session/prompt", {"sessionId": of_ben, "prompt": "2"}))["content"] == "more"
        await ben.call("session/close", {"sessionId": of_ben})
        await it.wire.call("session/new", {"agentAlias": "assistant", "sessionId": of_ben, "chatMode": mode})
        assert it.live.get(of_ben).owner == "user:ben"
        assert await ben.call("session/delete", {"sessionId": of_ben}) == {
            "sessionId": of_ben,
            "deleted": True,
        }


_NEW = {"agentAlias": "assistant"}
_FILE = {"data_b64": "YQ==", "filename": "a"}
_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "a prompt": ("session/prompt", {"prompt": "?"}),
    "a prompt with a file": ("session/prompt", {"prompt": "?", "attachments": [{"ref_id": "sha256:a"}]}),
    "opening it": ("session/new", _NEW),
    "opening it elsewhere": ("session/new", {**_NEW, "cwd": "/"}),
    "opening it nowhere": ("session/new", {**_NEW, "cwd": "no/directory"}),
    "opening it on a surface": ("session/new", {**_NEW, "interactionSurface": "zerocode_code"}),
    "opening it on an unknown surface": ("session/new", {**_NEW, "interactionSurface": "unheard-of"}),
    "a decision": ("session/approve", {"requestId": "r", "decision": "allow_once"}),
    "configuring it": ("session/configure", {"overrides": {"model": "m"}}),
    "its state": ("session/state", {}),
    "its transcript": ("session/messages", {}),
    "cancelling": ("session/cancel", {}),
    "closing it": ("session/close", {}),
    "killing it": ("session/kill", {}),
    "deleting it": ("session/delete", {}),
    "a file": ("file/attach", {"files": [_FILE]}),
    "a file that is none": ("file/attach", {"files": [{"data_b64": "?"}]}),
    "an upload": ("file/upload/begin", {"size_bytes": 1}),
    "an upload that is too large": ("file/upload/begin", {"size_bytes": 2**40}),
}


@pytest.mark.req("RPC-239")
@pytest.mark.parametrize("call", _CALLS)
async def test_no_call_tells_a_live_session_of_somebody_else_from_none(house: Opened, call: str) -> None:
    """Live, kept or never made: whoever may not use it is told the same, though the daemon has room for no more."""
    method, params = _CALLS[call]
    modes = ("acp",) if "interactionSurface" in params else ("acp", "chat")
    async with (
        house(authority=judged_by(two_users("*"))) as it,
        it.daemon.connect(uid=ANN) as ann,
        it.daemon.connect(uid=BEN) as ben,
    ):
        told: list[Any] = []
        for mode in modes:
            kept = await ben.new_session(chatMode=mode)
            await ben.call("session/close", {"sessionId": kept})
            live = await ben.new_session(chatMode=mode, keepSiblings=True)
            for session, room in product((live, kept, "none"), (1, 0)):
                it.live._limit = len(it.live) + room
                for wanted in modes if method == "session/new" else ("",):
                    chosen = {"chatMode": wanted} if wanted else {}
                    told.append(await ann.fail(method, {**params, **chosen, "sessionId": session}))
            it.live._limit = len(it.live) + 2
        assert told == [told[0]] * len(told)
        assert (told[0]["code"], told[0]["data"].get("rule")) == (FORBIDDEN, "session_not_owned")
        assert not ann.updates
        assert len(it.live) == len(modes)


@pytest.mark.parametrize("mode", ["acp", "chat"])
async def test_of_an_own_session_each_fault_is_told(house: Opened, mode: str) -> None:
    """What hides the sessions of others does not hide what is wrong with a call for an own one."""
    async with house(authority=judged_by(two_users("*"))) as it, it.daemon.connect(uid=ANN) as ann:
        session = await ann.new_session(chatMode=mode)
        await ann.call("session/close", {"sessionId": session})
        asked = {"sessionId": session, "prompt": "?", "attachments": [{"ref_id": "sha256:a"}]}
        assert (await ann.fail("session/prompt", asked))["data"]["reason"] == "attachment_not_found"
        wanted = {"agentAlias": "assistant", "sessionId": session, "chatMode": mode}
        assert (await ann.fail("session/new", {**wanted, "cwd": "/"}))["data"]["member"] == "cwd"
        it.live._limit = 0
        assert (await ann.fail("session/new", wanted))["data"]["reason"] == "session_limit"
        assert (await it.wire.fail("session/prompt", {**asked, "sessionId": "none"}))["data"] == {
            "reason": "session_not_found"
        }


@pytest.mark.req("RPC-239", "RPC-146")
async def test_a_kept_session_is_not_gone_on_with_once_its_agent_was_withdrawn(house: Opened) -> None:
    in_force = two_users("assistant", "other")
    async with (
        house([TextDelta("yes")], authority=judged_by(in_force)) as it,
        it.daemon.connect(uid=ANN) as ann,
    ):
        session = await ann.new_session(chatMode="acp")
        await ann.call("session/prompt", {"sessionId": session, "prompt": "hi"})
        await ann.call("session/close", {"sessionId": session})
        in_force.config = two_users("other").config
        error = await ann.fail("session/prompt", {"sessionId": session, "prompt": "more"})
        assert error["code"] == FORBIDDEN
        assert len(it.live) == 0
        assert len(it.provider.requests) == 1


@pytest.mark.req("RPC-147", "RPC-146")
@pytest.mark.parametrize("mode", ["acp", "chat"])
async def test_a_prompt_that_is_refused_for_its_agent_recovers_nothing(house: Opened, mode: str) -> None:
    in_force = two_users("assistant", "other")
    async with (
        house([TextDelta("on")], authority=judged_by(in_force)) as it,
        it.daemon.connect(uid=ANN) as ann,
    ):
        session = await ann.new_session(chatMode=mode)
        await ann.call("session/close", {"sessionId": session})
        kept, store = (
            (it.durable.acp, "acp-sessions.db") if mode == "acp" else (it.durable.chats, "sessions.db")
        )
        await kept.write(lambda rows: rows.begin(session, "t", "lost", BEGAN))
        before = it.dump(store)
        in_force.config = two_users("other").config
        error = await ann.fail("session/prompt", {"sessionId": session, "prompt": "more"})
        assert error["code"] == FORBIDDEN
        assert it.dump(store) == before
        in_force.config = two_users("assistant").config
        assert (await ann.call("session/prompt", {"sessionId": session, "prompt": "more"}))["content"] == "on"
        assert it.dump(store) != before


async def test_a_session_that_cannot_be_kept_is_not_opened(house: Opened) -> None:
    async with house() as it:
        for point, params in (
            (WritePoint.SESSION_CREATED, {}),
            (WritePoint.SESSION_CREATED, {"sessionId": "x"}),
            (WritePoint.SESSION_RESUMED, {"sessionId": "old"}),
        ):
            if point is WritePoint.SESSION_RESUMED:
                it.faults.failing.clear()
                await it.wire.new_session(sessionId="old", chatMode="acp")
                await it.wire.call("session/close", {"sessionId": "old"})
            it.faults.failing = {point}
            error = await it.wire.fail(
                "session/new", {"agentAlias": "assistant", "chatMode": "acp", **params}
            )
            assert (error["code"], error["data"]["reason"]) == (INTERNAL, "sessions_unavailable")
            assert len(it.live) == 0


class Stubborn(Tool):
    """A tool that will not be cancelled."""

    name = "stubborn"
    description = "stays"
    parameters_schema = {"type": "object"}  # noqa: RUF012

    def __init__(self) -> None:
        self.reached, self.go = anyio.Event(), anyio.Event()

    async def execute(self, arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        with anyio.CancelScope(shield=True):
            self.reached.set()
            await self.go.wait()
        return ToolResult(True, "late")


@pytest.mark.req("RPC-141", "RPC-161")
@pytest.mark.parametrize("method", ["session/cancel", "session/close", "session/kill", "session/delete"])
async def test_a_turn_that_does_not_stop_is_given_up_with_its_live_session_and_recovered(
    house: Opened, method: str
) -> None:
    tool = Stubborn()
    scripts = ([TextDelta("a"), ToolCall("1", "stubborn", "{}")], [TextDelta("b")])
    async with house(*scripts, tools=ToolRegistry([tool])) as it:
        session = await it.wire.new_session(chatMode="acp")
        params = {"sessionId": session, "prompt": "hi"}
        await it.wire.send({"jsonrpc": "2.0", "method": "session/prompt", "params": params, "id": "turn"})
        await tool.reached.wait()
        await it.wire.send(
            {"jsonrpc": "2.0", "method": method, "params": {"sessionId": session}, "id": "call"}
        )
        live = it.live.get(session)
        await it.daemon.until(lambda: live.prompts[0].cause is not None)
        await anyio.wait_all_tasks_blocked()
        it.daemon.clock.advance(CANCEL_GRACE_SECONDS)
        turn, ended = await it.answers("turn", "call")
        assert turn["result"]["stopReason"] == "cancelled"
        assert "result" in ended
        assert it.live.find(session) is None

        tool.go.set()  # what comes of it now is told to nobody
        await anyio.wait_all_tasks_blocked()
        await it.wire.assert_silent()
        if method == "session/delete":
            assert await it.durable.acp.read(lambda store: store.find(session)) is None
            return
        assert await it.texts(session) == []
        if method != "session/kill":
            assert (await it.turn(session, "go on"))["content"] == "b"
            assert [text for _, text in await it.texts(session) if text] == [
                "hi", "a", "[stream interrupted]", "go on", "b",
            ]  # fmt: skip


@pytest.mark.req("RPC-160", "RPC-061")
async def test_who_opens_a_session_or_has_a_turn_in_it_is_the_one_that_is_asked(house: Opened) -> None:
    pause = Pause()
    async with house([pause], [TextDelta("two")]) as it, it.daemon.connect() as other:
        session = await it.wire.new_session(chatMode="acp", keepSiblings=True)
        live = it.live.get(session)
        first = live.audience
        await it.begin(session, pause)
        params = {"sessionId": session, "prompt": "waits"}
        await other.send({"jsonrpc": "2.0", "method": "session/prompt", "params": params, "id": 1})
        await it.daemon.until(lambda: live.permit.pending == 2)
        assert live.audience == first, "whoever waits is not asked what another turn wants to know"
        pause.go.set()
        await other.answer_to(1)
        assert live.audience != first
        await it.wire.answer_to("turn")
        await it.wire.call(
            "session/new", {"agentAlias": "assistant", "sessionId": session, "chatMode": "acp"}
        )
        assert live.audience == first
