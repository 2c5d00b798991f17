"""What was said in sessions and which there are, as their clients read it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from rosters import InForce, config_of, grants

from zeroclaw_daemon.agent.directory import Agent, FixedAgents
from zeroclaw_daemon.agent.events import MessageChunk
from zeroclaw_daemon.agent.messages import ToolCall
from zeroclaw_daemon.agent.providers.base import ModelEvent, ModelRequest, TextDelta
from zeroclaw_daemon.agent.providers.echo import EchoProvider
from zeroclaw_daemon.agent.providers.scripted import Pause, ScriptedProvider
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.rpc.errors import FORBIDDEN, INTERNAL, INVALID_PARAMS, SESSION_NOT_FOUND
from zeroclaw_daemon.rpc.methods import session_reading
from zeroclaw_daemon.sessions.durable import DurableSessions
from zeroclaw_daemon.sessions.store.acp import MAX_LISTED, AcpStore
from zeroclaw_daemon.sessions.store.chat import ChatStore
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.kinds import Tool, ToolResult

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

MODES = ("acp", "chat")
every_mode = pytest.mark.parametrize("mode", MODES)
PATIENCE = 60
ANN, BEN, ROOT = 5001, 5002, 5003


class Weather(Tool):
    """Answers at once."""

    name = "weather"
    description = "tells the weather"
    parameters_schema = {"type": "object"}  # noqa: RUF012

    async def execute(self, arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        return ToolResult(True, "rain")


class Overheard:
    """An echo that keeps what it was asked."""

    def __init__(self) -> None:
        self._echo = EchoProvider(ManualClock())
        self.requests: list[ModelRequest] = []

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        return self._echo.stream(request)


@pytest.fixture
def reading(serving: Serving, tmp_path: Path) -> Serving:
    """A daemon whose sessions are kept, and whose agent forgets what is over its budget, if it has one."""

    @asynccontextmanager
    async def serve(*, budget: int = 0, **parts: Any) -> AsyncGenerator[Any]:
        clock = ManualClock()
        agent = Agent(
            "assistant", parts.pop("provider", None) or EchoProvider(clock), "echo-1", "be brief",
            ToolRegistry([Weather()]), workspace=str(tmp_path), max_context_tokens=budget,
        )  # fmt: skip
        durable = DurableSessions.at(tmp_path / "sessions")
        try:
            async with serving(agents=FixedAgents(agent), clock=clock, durable=durable, **parts) as daemon:
                yield daemon
        finally:
            durable.close()

    return serve


@pytest.fixture
def acp(tmp_path: Path) -> AcpStore:
    """The store behind the daemon's back."""
    return AcpStore(tmp_path / "sessions" / "acp-sessions.db")


def said(answer: Any) -> list[tuple[str, str]]:
    return [(entry["role"], entry["content"]) for entry in answer["messages"]]


def rows_of(root: Path, mode: str) -> list[Any]:
    """The rows of the only transcript there is, with their numbers."""
    name, table = ("acp-sessions.db", "acp_messages") if mode == "acp" else ("sessions.db", "sessions")
    with closing(sqlite3.connect(root / "sessions" / name)) as raw:
        return raw.execute(f"SELECT id, role, content, created_at FROM {table} ORDER BY id").fetchall()


async def talk(wire: Any, session: str, *prompts: str) -> None:
    for prompt in prompts:
        await wire.call("session/prompt", {"sessionId": session, "prompt": prompt})


@every_mode
@pytest.mark.req("RPC-244")
async def test_an_entry_is_what_a_client_saw(reading: Serving, mode: str) -> None:
    async with reading() as daemon, daemon.connect() as wire:
        session = await wire.new_session(chatMode=mode)
        await talk(wire, session, '/tool weather {"city":null}')
        answer = await wire.call("session/messages", {"sessionId": session})
    entries = answer["messages"]
    assert {"sessionId": session, "total": len(entries), "start": 0} == {
        name: value for name, value in answer.items() if name != "messages"
    }
    assert all(entry.pop("createdAt").endswith("Z") for entry in entries)
    assert entries[0] == {"role": "user", "content": '/tool weather {"city":null}', "kind": "message"}
    call = next(entry for entry in entries if entry["kind"] == "tool_call")
    result = next(entry for entry in entries if entry["kind"] == "tool_result")
    assert call == {
        "role": "assistant", "content": "", "kind": "tool_call", "toolCallId": call["toolCallId"],
        "toolName": "weather", "toolInput": {"city": None},
    }  # fmt: skip
    assert result == {
        "role": "tool", "content": "", "kind": "tool_result", "toolCallId": call["toolCallId"],
        "toolName": "weather", "toolOutput": "rain",
    }  # fmt: skip
    assert entries[-1]["role"] == "assistant"


@every_mode
@pytest.mark.req("RPC-132", "RPC-133", "RPC-134", "RPC-244")
async def test_after_a_reduction_the_transcript_is_complete(
    reading: Serving, mode: str, tmp_path: Path
) -> None:
    prompts = [f"{number} " + "word " * 40 for number in range(6)]
    provider = Overheard()
    async with reading(budget=200, provider=provider) as daemon, daemon.connect() as wire:
        session = await wire.new_session(chatMode=mode)
        rows: list[Any] = []
        for prompt in prompts:
            await talk(wire, session, prompt)
            before, rows = rows, rows_of(tmp_path, mode)
            assert len(rows) > len(before)
            assert rows[: len(before)] == before
        forgotten = [u for u in wire.updates if u["params"]["type"] == "history_trimmed"]
        assert forgotten, "nothing was forgotten"
        heard = [message.text for message in provider.requests[-1].messages]
        assert heard[-1] == prompts[-1]
        assert prompts[0] not in heard
        assert len(heard) < 2 * len(prompts) - 1
        for _ in range(2):
            answer = await wire.call("session/messages", {"sessionId": session})
            assert [text for role, text in said(answer) if role == "user"] == prompts
            assert answer["total"] == 2 * len(prompts)
            await wire.call(
                "session/new", {"agentAlias": "assistant", "sessionId": session, "chatMode": mode}
            )


@every_mode
@pytest.mark.req("RPC-244")
async def test_three_pages_joined_are_the_whole(reading: Serving, mode: str) -> None:
    async with reading() as daemon, daemon.connect() as wire:
        session = await wire.new_session(chatMode=mode)
        await talk(wire, session, *"abcd")
        whole = said(await wire.call("session/messages", {"sessionId": session}))
        assert len(whole) == 8

        joined: list[Any] = []
        before: int | None = None
        for size in (3, 3, 2):
            page = {"sessionId": session, "limit": 3}
            answer = await wire.call(
                "session/messages", page if before is None else {**page, "beforeIndex": before}
            )
            assert len(answer["messages"]) == size
            assert "hasOlder" not in answer
            joined = said(answer) + joined
            before = answer["start"]
            assert answer["total"] == 8
        assert (joined, before) == (whole, 0)

        joined, cursor = [], None
        for size, older in ((3, True), (3, True), (2, False)):
            answer = await wire.call("session/messages", {"sessionId": session, "limit": 3, "cursor": cursor})
            assert (len(answer["messages"]), answer["hasOlder"]) == (size, older)
            assert "total" not in answer
            assert ("nextCursor" in answer) is older
            joined = said(answer) + joined
            cursor = answer.get("nextCursor")
            await talk(wire, session, "meanwhile")  # the page stays where it is
        assert joined == whole


@every_mode
@pytest.mark.req("RPC-244")
@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_pages_may_end_between_what_was_said_and_what_was_done(
    reading: Serving, mode: str, limit: int
) -> None:
    step = [TextDelta("so"), *(ToolCall(name, "weather", '{"city":1}') for name in "abc")]
    provider = ScriptedProvider(step, step, [TextDelta("rain")])
    async with reading(provider=provider) as daemon, daemon.connect() as wire:
        session = await wire.new_session(chatMode=mode)
        await talk(wire, session, "weather")
        whole = (await wire.call("session/messages", {"sessionId": session}))["messages"]
        kinds = [entry["kind"] for entry in whole]
        assert [kinds.count(kind) for kind in ("message", "tool_call", "tool_result")] == [4, 6, 6]

        joined: list[Any] = []
        before = len(whole)
        while before:
            page = {"sessionId": session, "limit": limit, "beforeIndex": before}
            answer = await wire.call("session/messages", page)
            joined, before = answer["messages"] + joined, answer["start"]
        assert joined == whole

        joined, cursor, older = [], None, True
        while older:
            page = {"sessionId": session, "limit": limit, "cursor": cursor}
            answer = await wire.call("session/messages", page)
            joined, cursor, older = answer["messages"] + joined, answer.get("nextCursor"), answer["hasOlder"]
        assert joined == whole


@every_mode
@pytest.mark.req("RPC-244")
async def test_a_page_has_from_one_to_a_thousand_entries_and_a_hundred_unless_told(
    reading: Serving, mode: str
) -> None:
    async with reading() as daemon, daemon.connect() as wire:
        session = await wire.new_session(chatMode=mode)
        await talk(wire, session, "/chunks 1 a", *["b"] * 50)
        for way in ({}, {"cursor": None}):
            for limit, size in ((1, 1), (1000, 102), (None, 100)):
                page = {"sessionId": session, **way, **({} if limit is None else {"limit": limit})}
                assert len((await wire.call("session/messages", page))["messages"]) == size
            for limit in (0, 1001, -1, "5", 1.5, True, None):
                error = await wire.fail("session/messages", {"sessionId": session, "limit": limit, **way})
                assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "invalid_params"), limit


@every_mode
@pytest.mark.req("RPC-244")
@pytest.mark.parametrize(
    "page",
    [
        {"cursor": None, "beforeIndex": 1},
        {"cursor": "1.0", "before_index": 0},
        {"beforeIndex": -1},
        {"beforeIndex": 2**63},
        {"cursor": ""},
        {"cursor": "1"},
        {"cursor": "-1.0"},
        {"cursor": "01.0"},
        {"cursor": "1.0\n"},
        {"cursor": "９.0"},
        {"cursor": f"{2**63}.0"},
        {"cursor": "1.1234567890"},
        {"cursor": "x" * 65},
        {"cursor": 1},
        {"chatMode": "other"},
    ],
    ids=repr,
)
async def test_a_page_that_is_none_is_refused(reading: Serving, mode: str, page: dict[str, Any]) -> None:
    async with reading() as daemon, daemon.connect() as wire:
        session = await wire.new_session(chatMode=mode)
        error = await wire.fail("session/messages", {"sessionId": session, **page})
        assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "invalid_params")
        for fits in (
            {"cursor": f"{2**63 - 1}.0"},
            {"beforeIndex": 2**63 - 1},
            {"cursor": None, "beforeIndex": None},
        ):
            assert (await wire.call("session/messages", {"sessionId": session, **fits}))["messages"] == []


@pytest.mark.req("RPC-153", "RPC-244")
async def test_a_killed_session_leaves_the_list_and_can_be_read(reading: Serving) -> None:
    async with reading() as daemon, daemon.connect() as wire:
        first, second = [await wire.new_session(chatMode="acp", keepSiblings=True) for _ in range(2)]
        for session in (second, first):
            await talk(wire, session, "hello")
        listed = (await wire.call("session/list-acp"))["sessions"]
        assert [session["sessionId"] for session in listed] == [first, second]
        assert {**listed[0], "createdAt": "", "lastActivity": ""} == {
            "sessionId": first, "sessionKey": first, "createdAt": "", "lastActivity": "", "messageCount": 2,
            "agentAlias": "assistant",
        }  # fmt: skip
        assert (await wire.call("session/list"))["sessions"] == []
        await wire.call("session/kill", {"sessionId": first})
        assert [s["sessionId"] for s in (await wire.call("session/list-acp"))["sessions"]] == [second]
        for way in ({}, {"cursor": None}):
            answer = await wire.call("session/messages", {"sessionId": first, **way})
            assert said(answer) == [("user", "hello"), ("assistant", "hello")]


@pytest.mark.req("RPC-240", "RPC-244")
async def test_chats_are_listed_and_found_by_their_words(reading: Serving) -> None:
    async with reading() as daemon, daemon.connect() as wire:
        first, second = [await wire.new_session(keepSiblings=True) for _ in range(2)]
        await talk(wire, second, "crème brûlée")
        await talk(wire, first, "weather report")
        listed = (await wire.call("session/list", {}))["sessions"]
        assert [session["sessionId"] for session in listed] == [first, second]
        assert listed[0]["sessionKey"] == f"rpc_{first}"
        assert (listed[0]["messageCount"], listed[0]["agentAlias"]) == (2, "assistant")
        assert (await wire.call("session/list-acp"))["sessions"] == []
        for params, found in (
            ({"query": "creme"}, [second]),
            ({"query": "weather rep"}, [first]),
            ({"query": '" OR * NEAR('}, []),
            ({"query": "  "}, [first, second]),
            ({"query": None, "limit": 1}, [first]),
        ):
            sessions = (await wire.call("session/list", params))["sessions"]
            assert [session["sessionId"] for session in sessions] == found, params
        await wire.call("session/delete", {"sessionId": second})
        assert (await wire.call("session/list", {"query": "creme"}))["sessions"] == []


@pytest.mark.req("RPC-244")
@pytest.mark.parametrize(
    ("fits", "too_much"),
    [
        ({"limit": 1000}, {"limit": 1001}),
        ({"limit": 1}, {"limit": 0}),
        ({"query": "q" * 1024}, {"query": "q" * 1025}),
        ({"query": "q " * 32}, {"query": "q " * 33}),
        ({"query": "1"}, {"query": 1}),
        ({"query": "\ufffd"}, {"query": "\ud800"}),
    ],
    ids=repr,
)
async def test_a_list_is_as_long_as_it_may_be(
    reading: Serving, fits: dict[str, Any], too_much: dict[str, Any]
) -> None:
    async with reading() as daemon, daemon.connect() as wire:
        assert (await wire.call("session/list", fits))["sessions"] == []
        assert (await wire.fail("session/list", too_much))["code"] == INVALID_PARAMS


@every_mode
@pytest.mark.req("RPC-244")
async def test_a_list_has_no_more_bytes_than_it_may(
    reading: Serving, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (session_reading.MAX_LIST_BYTES, MAX_LISTED) == (4 * 1024 * 1024, 10_000)
    method = "session/list-acp" if mode == "acp" else "session/list"
    async with reading() as daemon, daemon.connect() as wire:
        for _ in range(3):
            await wire.new_session(chatMode=mode, keepSiblings=True)
        whole = (await wire.call(method, {}))["sessions"]
        sizes = [len(json.dumps(session, separators=(",", ":"))) for session in whole]
        for bytes_, fit in ((sizes[0] - 1, 0), (sizes[0], 1), (sum(sizes) - 1, 2), (sum(sizes), 3)):
            monkeypatch.setattr(session_reading, "MAX_LIST_BYTES", bytes_)
            assert (await wire.call(method, {}))["sessions"] == whole[:fit]


# --- whose it is --------------------------------------------------------------------------------------------------------


def three_users() -> RosterAuthority:
    """Ann and Ben with their own sessions, and Root, an administrator."""
    verbs = ("create", "read", "update", "execute", "delete")
    limited = grants(*(f"sessions:{verb}" for verb in verbs), allowed_agents=["*"])
    names = {"ann": (ANN, "limited"), "ben": (BEN, "limited"), "root": (ROOT, "all")}
    config = config_of(
        {
            "users": {
                name: {"uid": uid, "permission_profiles": [profile]} for name, (uid, profile) in names.items()
            },
            "permission_profiles": {"limited": limited, "all": {"admin": True}},
        }
    )
    return RosterAuthority(InForce(config), None, os.geteuid())


@every_mode
@pytest.mark.req("RPC-239", "RPC-244")
async def test_another_principal_s_rows_are_absent(reading: Serving, mode: str) -> None:
    listing = "session/list-acp" if mode == "acp" else "session/list"
    async with (
        reading(authority=three_users()) as daemon,
        daemon.connect(uid=ANN) as ann,
        daemon.connect(uid=BEN) as ben,
        daemon.connect(uid=ROOT) as root,
    ):
        hers = await ann.new_session(chatMode=mode)
        await talk(ann, hers, "secretword")
        for state in ("live", "closed"):
            if state == "closed":
                await ann.call("session/close", {"sessionId": hers})
            refusals = [
                await ben.fail("session/messages", {"sessionId": session, **way, **how})
                for session in (hers, "no-such-session")
                for way in ({}, {"cursor": None})
                for how in ({}, {"chatMode": "acp"}, {"chatMode": "chat"})
            ]
            assert all(refusal == refusals[0] for refusal in refusals)
            assert (refusals[0]["code"], refusals[0]["data"]["reason"]) == (FORBIDDEN, "forbidden")
            assert (await ben.call(listing, {}))["sessions"] == []
            assert (await ben.call("session/list", {"query": "secretword"}))["sessions"] == []
            for wire in (ann, root):
                assert [s["sessionId"] for s in (await wire.call(listing, {}))["sessions"]] == [hers]
                assert len((await wire.call("session/messages", {"sessionId": hers}))["messages"]) == 2
        error = await root.fail("session/messages", {"sessionId": "no-such-session"})
        assert (error["code"], error["data"]["reason"]) == (SESSION_NOT_FOUND, "session_not_found")


@pytest.mark.req("RPC-156")
async def test_of_two_sessions_of_one_id_the_live_one_is_read_and_otherwise_the_one_that_is_named(
    reading: Serving,
) -> None:
    async with reading() as daemon, daemon.connect() as wire:
        session = await wire.new_session(chatMode="acp")
        await talk(wire, session, "of acp")
        await wire.call("session/close", {"sessionId": session})
        await wire.new_session(sessionId=session, chatMode="chat")
        await talk(wire, session, "of chat")
        params = {"sessionId": session}
        assert said(await wire.call("session/messages", params))[0] == ("user", "of chat")
        for mode in MODES:
            named = await wire.call("session/messages", {**params, "chatMode": mode})
            assert said(named)[0] == ("user", f"of {mode}")
        await wire.call("session/close", params)
        error = await wire.fail("session/messages", params)
        assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "session_ambiguous")
        for mode in MODES:
            named = await wire.call("session/messages", {**params, "chatMode": mode})
            assert said(named)[0] == ("user", f"of {mode}")


@pytest.mark.req("RPC-156", "RPC-239")
async def test_somebody_else_s_live_session_does_not_stand_before_one_s_own(reading: Serving) -> None:
    async with (
        reading(authority=three_users()) as daemon,
        daemon.connect(uid=ANN) as ann,
        daemon.connect(uid=ROOT) as root,
    ):
        session = await ann.new_session(chatMode="acp")
        await talk(ann, session, "of ann")
        await ann.call("session/close", {"sessionId": session})
        await root.new_session(sessionId=session, chatMode="chat")
        await talk(root, session, "of root")
        for wire, first in ((ann, "of ann"), (root, "of root")):
            answer = await wire.call("session/messages", {"sessionId": session})
            assert said(answer)[0] == ("user", first)


# --- turns that have no end ---------------------------------------------------------------------------------------------


@pytest.mark.req("RPC-141", "RPC-149", "RPC-244")
async def test_what_a_turn_left_is_in_the_transcript_once_somebody_reads_it(
    reading: Serving, acp: AcpStore, tmp_path: Path
) -> None:
    async with reading() as daemon, daemon.connect() as wire:
        session = await wire.new_session(chatMode="acp")
        chat = await wire.new_session(chatMode="chat")
        for each in (session, chat):
            await wire.call("session/close", {"sessionId": each})
        live = daemon.server.sessions.ids()
        began = acp.find(session)
        assert began is not None
        # As a daemon leaves it that was killed in the middle of a turn.
        acp.begin(session, "t", "prompt", began.created)
        acp.append(session, "t", MessageChunk("par"))
        acp.append(session, "t", MessageChunk("tly"))
        chats = ChatStore(tmp_path / "sessions" / "sessions.db")
        chats.begin(chat, "t", "prompt", began.created)
        marker = ("system", "[stream interrupted]")
        for _ in range(2):
            answer = await wire.call("session/messages", {"sessionId": session})
            assert said(answer) == [("user", "prompt"), ("assistant", "partly"), marker]
            assert said(await wire.call("session/messages", {"sessionId": chat})) == [
                ("user", "prompt"),
                marker,
            ]
        assert daemon.server.sessions.ids() == live
        acp.close()
        chats.close()


@every_mode
@pytest.mark.req("RPC-244")
async def test_reading_a_session_whose_turn_runs_leaves_the_turn_alone(reading: Serving, mode: str) -> None:
    pause = Pause()
    provider = ScriptedProvider([pause, TextDelta("the answer")])
    async with reading(provider=provider) as daemon, daemon.connect() as wire, daemon.connect() as other:
        session = await wire.new_session(chatMode=mode)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talk, wire, session, "prompt")
            with anyio.fail_after(PATIENCE):
                await pause.reached.wait()
            shown = said(await other.call("session/messages", {"sessionId": session}))
            assert ("system", "[stream interrupted]") not in shown
            pause.go.set()
        answer = await other.call("session/messages", {"sessionId": session})
        assert said(answer) == [("user", "prompt"), ("assistant", "the answer")]


@every_mode
async def test_a_store_that_cannot_be_read_is_an_internal_error_without_what_it_holds(
    reading: Serving, mode: str, tmp_path: Path
) -> None:
    async with reading() as daemon, daemon.connect() as wire:
        session = await wire.new_session(chatMode=mode)
        await talk(wire, session, "secretword")
        name = "acp-sessions.db" if mode == "acp" else "sessions.db"
        (tmp_path / "sessions" / name).chmod(0o644)
        listing = "session/list-acp" if mode == "acp" else "session/list"
        for method, params in (("session/messages", {"sessionId": session}), (listing, {})):
            error = await wire.fail(method, params)
            assert (error["code"], error["data"]["reason"]) == (INTERNAL, "sessions_unavailable")
            assert "secretword" not in json.dumps(error)
        (tmp_path / "sessions" / name).chmod(0o600)
        assert len((await wire.call("session/messages", {"sessionId": session}))["messages"]) == 2
