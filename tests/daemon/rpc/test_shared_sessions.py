"""Two principals in one session: what an administrator brings into the session of somebody else stays its own."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_daemon.rpc.errors import FORBIDDEN, SESSION_LIMIT
from zeroclaw_daemon.sessions.live import MAX_LIVE, MAX_OWNED

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

ADA, EVE = 4001, 4002

CONFIG = f"""schema_version = 1
security.trust_daemon_uid = false
[agents.assistant]
approval = "auto"
[agents.asky]
approval = "ask"
[permission_profiles.all]
admin = true
[permission_profiles.some]
allowed_agents = ["*"]
allowed_tools = ["*"]
grants = {{ tools = ["execute"], sessions = ["create", "execute", "update"] }}
[permission_profiles.small]
allowed_agents = ["*"]
allowed_tools = ["plan"]
grants = {{ tools = ["execute"], sessions = ["create", "execute", "update"] }}
[users.admin]
uid = {os.geteuid()}
permission_profiles = ["all"]
[users.ada]
uid = {ADA}
permission_profiles = ["some"]
[users.eve]
uid = {EVE}
permission_profiles = ["small"]
"""


async def ran(wire: Any, session: str, command: str) -> str:
    """What a command writes, in a turn of this client."""
    prompt = f"/tool bash {json.dumps({'command': command})}"
    content: str = (await wire.call("session/prompt", {"sessionId": session, "prompt": prompt}))["content"]
    return content


# What commands find around them.


@pytest.mark.req("RPC-247", "RPC-062")
@pytest.mark.parametrize("mode", ["acp", "chat"])
@pytest.mark.parametrize("way", ["session/prompt", "session/new"])
async def test_an_administrators_environment_is_in_no_turn_of_anybody_else(
    serving: Serving, way: str, mode: str
) -> None:
    async with (
        serving(config=CONFIG) as daemon,
        daemon.connect(uid=ADA) as ada,
        daemon.connect(env={"TOKEN": "x"}) as admin,
    ):
        session = await ada.new_session(chatMode=mode)
        await ada.call("session/close", {"sessionId": session})
        # The administrator makes it live again.
        if way == "session/new":
            await admin.new_session(sessionId=session, chatMode=mode)
        assert await ran(admin, session, 'echo "<$TOKEN>"') == "<x>\n"
        assert await ran(ada, session, 'echo "<$TOKEN>"') == "<>\n"
        # It is as it was made: without an environment. Whose it is goes on with it.
        await ada.new_session(sessionId=session, chatMode=mode)
        wanted = {"agentAlias": "assistant", "sessionId": session, "chatMode": mode}
        assert (await admin.fail("session/new", wanted))["code"] == FORBIDDEN
        assert await ran(admin, session, 'echo "<$TOKEN>"') == "<x>\n"


@pytest.mark.req("RPC-247")
async def test_a_turn_has_the_environment_of_whoever_asks_for_it(serving: Serving) -> None:
    """Both see every session, and the session is the first one's."""
    async with (
        serving(config=CONFIG) as daemon,
        daemon.connect(env={"TOKEN": "a"}) as first,
        daemon.connect(env={"TOKEN": "b"}) as second,
    ):
        session = await first.new_session()
        for wire, seen in ((second, "<b>\n"), (first, "<a>\n")):
            assert await ran(wire, session, 'echo "<$TOKEN>"') == seen


@pytest.mark.parametrize("mode", ["acp", "chat"])
async def test_an_administrator_moves_nobody_elses_session_to_another_directory(
    serving: Serving, mode: str, tmp_path: Path
) -> None:
    async with (
        serving(config=CONFIG) as daemon,
        daemon.connect(uid=ADA) as ada,
        daemon.connect() as admin,
    ):
        made = await ada.call("session/new", {"agentAlias": "assistant", "chatMode": mode})
        session, own = made["sessionId"], made["workspaceDir"]
        await ada.call("session/close", {"sessionId": session})
        wanted = {"agentAlias": "assistant", "sessionId": session, "chatMode": mode, "cwd": str(tmp_path)}
        assert (await admin.call("session/new", wanted))["workspaceDir"] == own
        assert await ran(ada, session, f"test . -ef {shlex.quote(own)} && echo there") == "there\n"
        # One that is the administrator's own goes where it is told to.
        mine = await admin.new_session(chatMode=mode, keepSiblings=True)
        await admin.call("session/close", {"sessionId": mine})
        moved = await admin.call("session/new", {**wanted, "sessionId": mine})
        assert moved["workspaceDir"] == str(tmp_path)


# Who lets a tool run.


def asking_for(session: str, command: str, request_id: str = "turn") -> dict[str, Any]:
    prompt = f"/tool bash {json.dumps({'command': command})}"
    params = {"sessionId": session, "prompt": prompt}
    return {"jsonrpc": "2.0", "method": "session/prompt", "params": params, "id": request_id}


def decision(asked: dict[str, Any], word: str) -> dict[str, Any]:
    edit = {"replacement": "id"} if word == "reject_with_edit" else {}
    return {"sessionId": asked["sessionId"], "requestId": asked["requestId"], "decision": word, **edit}


CONSENTING = ("allow_once", "allow_always", "reject_with_edit")


@pytest.mark.req("RPC-243")
async def test_who_may_not_use_a_tool_lets_nobody_use_it(serving: Serving) -> None:
    """Eve has no bash. She had it when she asked; what waits is decided by what holds now."""
    with_bash = CONFIG.replace('["plan"]', '["plan", "bash"]')
    async with (
        serving(config=with_bash) as daemon,
        daemon.connect(uid=EVE) as eve,
        daemon.connect() as admin,
    ):
        session = await eve.new_session(agentAlias="asky")
        await eve.send(asking_for(session, "echo ran"))
        asked = await eve.update_of("approval_request")
        daemon.config.file.write_text(CONFIG)
        for word in CONSENTING:
            error = await eve.fail("session/approve", decision(asked, word))
            assert (error["code"], error["data"]["rule"], error["data"]["tool"]) == (
                FORBIDDEN, "tool_not_allowed", "bash",
            )  # fmt: skip
        # It waits still, for somebody who may.
        assert (await admin.call("session/approve", decision(asked, "allow_once")))["acknowledged"]
        assert (await eve.answer_to("turn"))["result"]["content"] == "ran\n"


@pytest.mark.req("RPC-243", "RPC-061")
@pytest.mark.parametrize("uid", [ADA, EVE])
async def test_nobody_lets_a_tool_run_in_the_turn_of_somebody_who_may_do_more(
    serving: Serving, uid: int
) -> None:
    """Though the session is theirs, and though Ada may use the tool in turns of her own."""
    async with (
        serving(config=CONFIG) as daemon,
        daemon.connect(uid=uid) as owner,
        daemon.connect(env={"TOKEN": "x"}) as admin,
    ):
        session = await owner.new_session(agentAlias="asky")
        await admin.send(asking_for(session, "echo $TOKEN"))
        asked = await admin.update_of("approval_request")
        await owner.new_session(agentAlias="asky", sessionId=session)
        for word in CONSENTING:
            error = await owner.fail("session/approve", decision(asked, word))
            assert (error["code"], error["data"]["rule"]) == (FORBIDDEN, "turn_not_owned")
        assert owner.updates == []
        assert (await admin.call("session/approve", decision(asked, "allow_once")))["acknowledged"]
        assert (await admin.answer_to("turn"))["result"]["content"] == "x\n"
        # The turn is over, and the owner is the one that is asked.
        live = daemon.server.sessions.get(session)
        assert live.audience is not None
        await daemon.until(lambda: live.running is None)
        owner.close()
        await daemon.until(lambda: live.audience is None)


@pytest.mark.req("RPC-243")
async def test_an_owner_stops_a_tool_in_its_session_whosever_turn_it_is(serving: Serving) -> None:
    async with (
        serving(config=CONFIG) as daemon,
        daemon.connect(uid=EVE) as eve,
        daemon.connect() as admin,
    ):
        session = await eve.new_session(agentAlias="asky")
        await admin.send(asking_for(session, "echo ran"))
        asked = await admin.update_of("approval_request")
        assert (await eve.call("session/approve", decision(asked, "reject")))["acknowledged"]
        assert "rejected" in (await admin.answer_to("turn"))["result"]["content"]


@pytest.mark.req("RPC-243")
async def test_what_somebody_allowed_for_good_is_asked_about_in_the_turns_of_others(serving: Serving) -> None:
    async with (
        serving(config=CONFIG) as daemon,
        daemon.connect(uid=ADA) as ada,
        daemon.connect() as admin,
    ):
        session = await ada.new_session(agentAlias="asky")
        await ada.send(asking_for(session, "echo ada"))
        await ada.call("session/approve", decision(await ada.update_of("approval_request"), "allow_always"))
        assert (await ada.answer_to("turn"))["result"]["content"] == "ada\n"
        await admin.send(asking_for(session, "echo admin"))
        await admin.call("session/approve", decision(await admin.update_of("approval_request"), "allow_once"))
        assert (await admin.answer_to("turn"))["result"]["content"] == "admin\n"
        assert await ran(ada, session, "echo again") == "again\n"


# Who takes how much room.


@pytest.mark.req("RPC-246")
@pytest.mark.parametrize("mode", ["acp", "chat"])
async def test_one_principal_leaves_room_for_others(serving: Serving, mode: str) -> None:
    async with (
        serving(config=CONFIG) as daemon,
        daemon.connect(uid=ADA) as ada,
        daemon.connect(uid=ADA) as again,
        daemon.connect(uid=EVE) as eve,
        daemon.connect() as admin,
    ):
        kept = await ada.new_session(chatMode=mode)
        await ada.call("session/close", {"sessionId": kept})
        ids = [await ada.new_session(chatMode=mode, keepSiblings=True) for _ in range(MAX_OWNED)]
        # With another connection, in the other mode, with an id of its own, or by a prompt: it has no more.
        new = {"agentAlias": "assistant", "chatMode": mode, "keepSiblings": True}
        other = "chat" if mode == "acp" else "acp"
        for method, params in (
            ("session/new", new),
            ("session/new", {**new, "chatMode": other}),
            ("session/new", {**new, "sessionId": kept}),
            ("session/prompt", {"sessionId": kept, "prompt": "hi"}),
        ):
            error = await again.fail(method, params)
            assert (error["code"], error["data"]) == (
                SESSION_LIMIT, {"reason": "session_limit", "limit": MAX_OWNED},
            )  # fmt: skip
        # It joins its own, and replaces one by another of its id.
        await again.call("session/new", {**new, "sessionId": ids[0]})
        await again.call("session/new", {**new, "sessionId": ids[0], "chatMode": other})
        # Everybody else has room, up to what the daemon has in all.
        await eve.new_session(keepSiblings=True)
        await admin.call("session/prompt", {"sessionId": kept, "prompt": "hi"})
        for _ in range(MAX_LIVE - MAX_OWNED - 2):
            await admin.new_session(keepSiblings=True)
        error = await admin.fail("session/new", {**new})
        assert (error["code"], error["data"]) == (
            SESSION_LIMIT,
            {"reason": "session_limit", "limit": MAX_LIVE},
        )
        # It makes room itself: what an administrator took up for it counts as well.
        await admin.call("session/close", {"sessionId": kept})
        await ada.call("session/close", {"sessionId": ids[1]})
        await ada.call("session/prompt", {"sessionId": kept, "prompt": "hi"})
