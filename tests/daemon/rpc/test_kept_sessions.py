"""Sessions that are not live any more, and what is there of them when somebody comes back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

import pytest
from kept_houses import House
from session_model import BEGAN

from zeroclaw_daemon.agent.directory import Agent, FixedAgents
from zeroclaw_daemon.agent.events import MessageChunk, PlanChanged, PlanEntry, ToolCalled
from zeroclaw_daemon.agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from zeroclaw_daemon.agent.providers.base import ProviderError, TextDelta, ThoughtDelta
from zeroclaw_daemon.agent.providers.scripted import Pause, ScriptedProvider
from zeroclaw_daemon.agent.surroundings import TurnSite
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.agent.turn import INTERRUPTED
from zeroclaw_daemon.rpc.errors import FORBIDDEN, INTERNAL, INVALID_PARAMS, SESSION_LIMIT, SESSION_NOT_FOUND
from zeroclaw_daemon.sessions.idling import LOOK_SECONDS
from zeroclaw_daemon.sessions.store.points import WritePoint
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.kinds import Tool, ToolResult

pytestmark = pytest.mark.anyio

Opened = Callable[..., AbstractAsyncContextManager[House]]

OLD = [UserMessage("hi"), AssistantMessage("yes")]


class Loud(Tool):
    """A tool that prints a lot, and makes a plan."""

    name = "loud"
    description = "prints"
    parameters_schema = {"type": "object"}  # noqa: RUF012

    async def execute(self, arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        assert isinstance(call_site, TurnSite)
        call_site.events.append(PlanChanged((PlanEntry("print"),)))
        return ToolResult(True, "é" * 50_000)


def again(session: str, **more: Any) -> dict[str, Any]:
    return {"agentAlias": "assistant", "sessionId": session, "chatMode": "acp", **more}


def small(provider: ScriptedProvider, **parts: Any) -> FixedAgents:
    """An agent whose model is given two short turns at most."""
    return FixedAgents(Agent("assistant", provider, "m", workspace="/", max_context_tokens=20, **parts))


# --- coming back --------------------------------------------------------------------------------------------------------


@pytest.mark.req("RPC-146", "RPC-152")
@pytest.mark.parametrize("mode", ["acp", "chat"])
@pytest.mark.parametrize("way", ["close", "evicted", "restart"])
@pytest.mark.parametrize("back", ["session/prompt", "session/new"])
async def test_a_session_goes_on_where_it_was_however_it_left_memory(
    house: Opened, mode: str, way: str, back: str
) -> None:
    async with house([TextDelta("yes")], [TextDelta("more")]) as it:
        session = await it.wire.new_session(chatMode=mode)
        await it.turn(session)
        if way == "close":
            await it.wire.call("session/close", {"sessionId": session})
        elif way == "evicted":
            other = await it.wire.new_session(chatMode=mode)
            assert it.live.ids() == [other]
        if way != "restart":
            await comes_back(it, session, mode, back)
    if way == "restart":
        async with house([TextDelta("more")]) as it:
            await comes_back(it, session, mode, back)


async def comes_back(it: House, session: str, mode: str, back: str) -> None:
    assert session not in it.live.ids()
    if back == "session/new":
        assert (await it.wire.call(back, again(session, chatMode=mode)))["messageCount"] == 2
    assert (await it.turn(session, "and?"))["content"] == "more"
    assert it.asked() == [*OLD, UserMessage("and?")]
    assert session in it.live.ids()
    assert it.live.get(session).audience is not None
    assert (await it.wire.call("session/new", again(session, chatMode=mode)))["messageCount"] == 4


@pytest.mark.req("RPC-152", "RPC-240")
async def test_the_modes_have_stores_of_their_own(house: Opened) -> None:
    async with house() as it:
        acp = await it.wire.new_session(chatMode="acp", interactionSurface="zerocode_code")
        chat = await it.wire.new_session()
        for session, modes in ((acp, (True, False)), (chat, (False, True))):
            found = (
                await it.durable.acp.read(lambda store, name=session: store.find(name)),
                await it.durable.chats.read(lambda store, name=session: store.find(name)),
            )
            assert tuple(each is not None for each in found) == modes


@pytest.mark.req("RPC-146")
async def test_a_session_keeps_its_directory_its_agent_and_its_surface(house: Opened, tmp_path: Path) -> None:
    async with house() as it:
        session = await it.wire.new_session(chatMode="acp", cwd="/usr")
        await it.wire.call("session/close", {"sessionId": session})
        error = await it.wire.fail("session/new", again(session, agentAlias="other"))
        assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "session_mismatch")
        assert (await it.wire.call("session/new", again(session)))["workspaceDir"] == "/usr"
        await it.wire.call("session/close", {"sessionId": session})
        # The first client that says what it is claims a session that nobody has claimed.
        await it.wire.call("session/new", again(session, interactionSurface="zerocode_code"))
        assert it.columns(session, "interaction_surface") == ("zerocode_code",)
        await it.wire.call("session/close", {"sessionId": session})
        opened = await it.wire.call("session/new", again(session, cwd=str(tmp_path)))
        assert opened["workspaceDir"] == str(tmp_path)
        error = await it.wire.fail("session/new", again("new", interactionSurface="unheard_of"))
        assert error["code"] == INVALID_PARAMS
        assert it.live.ids() == [session]


@pytest.mark.req("RPC-146")
@pytest.mark.parametrize("mode", ["acp", "chat"])
async def test_a_session_stays_in_the_directory_that_it_was_last_opened_in(
    house: Opened, mode: str, tmp_path: Path
) -> None:
    async with house([TextDelta("yes")]) as it:
        session = await it.wire.new_session(chatMode=mode, cwd="/usr")
        await it.wire.call("session/close", {"sessionId": session})
        await it.wire.call("session/new", again(session, chatMode=mode, cwd=str(tmp_path)))
        await it.wire.call("session/close", {"sessionId": session})
        await it.turn(session)
        assert it.live.get(session).workspace == str(tmp_path)
    async with house() as it:
        opened = await it.wire.call("session/new", again(session, chatMode=mode))
        assert opened["workspaceDir"] == str(tmp_path)


@pytest.mark.parametrize("back", ["session/prompt", "session/new"])
async def test_a_chat_that_was_kept_without_a_directory_works_in_its_agent_s(
    house: Opened, tmp_path: Path, back: str
) -> None:
    async with house([TextDelta("yes")], [TextDelta("more")]) as it:
        session = await it.wire.new_session()
        await it.turn(session)
        await it.wire.call("session/close", {"sessionId": session})
        with closing(sqlite3.connect(it.root / "sessions" / "sessions.db")) as raw, raw:
            raw.execute("UPDATE session_metadata SET workspace_dir = NULL")  # as another release leaves it
        await comes_back(it, session, "chat", back)
        assert it.live.get(session).workspace == str(tmp_path)


@pytest.mark.req("RPC-146")
@pytest.mark.parametrize("back", ["session/prompt", "session/new"])
async def test_a_session_of_an_editor_goes_on_with_what_was_said(house: Opened, back: str) -> None:
    async with house([TextDelta("yes")], [TextDelta("more")]) as it:
        session = await it.wire.new_session(chatMode="acp", interactionSurface="zerocode_code")
        await it.turn(session)
        await it.wire.call("session/close", {"sessionId": session})
        await comes_back(it, session, "acp", back)
        assert it.columns(session, "interaction_surface") == ("zerocode_code",)


@pytest.mark.req("RPC-147", "RPC-148")
async def test_a_session_of_a_strange_surface_is_not_gone_on_with_and_not_touched(house: Opened) -> None:
    async with house([TextDelta("more")]) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.wire.call("session/close", {"sessionId": session})
        await it.durable.acp.write(lambda store: store.begin(session, "t", "hi", BEGAN))
        await it.durable.acp.write(lambda store: store.append(session, "t", MessageChunk("half")))
        surface = "UPDATE acp_sessions SET interaction_surface = ? WHERE session_uuid = ?"
        it.change(surface, "bogus", session)
        before = it.dump()

        error = await it.wire.fail("session/prompt", {"sessionId": session, "prompt": "?"})
        assert (error["code"], error["data"]["reason"]) == (SESSION_NOT_FOUND, "surface_unsupported")
        assert [end["outcome"] for end in it.updates("turn_complete")] == ["failed"]
        error = await it.wire.fail("session/new", again(session))
        assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "session_mismatch")
        assert error["data"]["member"] == "interactionSurface"
        assert it.dump() == before
        assert not it.provider.requests

        it.change(surface, None, session)
        await it.turn(session, "go on")
        assert it.asked() == [UserMessage("hi"), AssistantMessage("half"), UserMessage("go on")]
        assert ("system", "[stream interrupted]") in await it.texts(session)


@pytest.mark.req("RPC-143", "RPC-144", "RPC-145")
async def test_what_the_model_is_given_is_the_snapshot_even_an_empty_one_or_else_the_transcript(
    house: Opened,
) -> None:
    scripts = ([TextDelta("yes")], [TextDelta("1")], [TextDelta("2")])
    async with house(*scripts) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.turn(session)
        for context, expected in (
            ('{"messages": []}', []),
            (None, [*OLD, UserMessage("and?"), AssistantMessage("1")]),
        ):
            await it.wire.call("session/close", {"sessionId": session})
            it.change("UPDATE acp_sessions SET retained_context_json = ?", context)
            await it.turn(session, "and?")
            assert it.asked() == [*expected, UserMessage("and?")]
        assert len(await it.texts(session)) == 6


@pytest.mark.req("RPC-145", "RPC-149", "RPC-150")
async def test_a_call_without_a_result_is_shown_and_not_repeated_to_the_model(house: Opened) -> None:
    async with house([TextDelta("more")]) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.wire.call("session/close", {"sessionId": session})
        for work in (
            lambda store: store.begin(session, "t", "hi", BEGAN),
            lambda store: store.append(session, "t", MessageChunk("I look")),
            lambda store: store.append(session, "t", ToolCalled("a", "look", {})),
        ):
            await it.durable.acp.write(work)
        for _ in range(2):
            assert (await it.wire.call("session/new", again(session)))["messageCount"] == 4
            await it.wire.call("session/close", {"sessionId": session})
        await it.turn(session, "go on")
        assert it.asked() == [UserMessage("hi"), AssistantMessage("I look"), UserMessage("go on")]


@pytest.mark.req("RPC-146")
async def test_prompts_that_wake_a_session_run_in_the_order_they_came(house: Opened) -> None:
    async with house([TextDelta("yes")], [TextDelta("1")], [TextDelta("2")], [TextDelta("3")]) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.turn(session)
        await it.wire.call("session/close", {"sessionId": session})
        go_on = it.faults.hold(WritePoint.SESSION_RESUMED)
        for number in ("1", "2", "3"):
            params = {"sessionId": session, "prompt": number}
            await it.wire.send({"jsonrpc": "2.0", "method": "session/prompt", "params": params, "id": number})
        await it.daemon.until(lambda: it.faults.arrived(WritePoint.SESSION_RESUMED))
        go_on.set()
        answers = await it.answers("1", "2", "3")
        assert [answer["result"]["content"] for answer in answers] == ["1", "2", "3"]
        assert [request.messages[-1] for request in it.provider.requests[1:]] == list(map(UserMessage, "123"))


@pytest.mark.req("RPC-141", "RPC-149")
async def test_a_daemon_that_stops_writes_the_ends_of_its_turns(house: Opened) -> None:
    pause = Pause()
    async with house([TextDelta("half"), pause]) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.begin(session, pause)
    async with house([TextDelta("more")]) as it:
        stored = await it.durable.acp.read(lambda store: store.find(session))
        assert stored is not None
        assert stored.turn_id is None
        assert await it.texts(session) == [
            ("user", "long"), ("assistant", "half"), ("system", "[stream interrupted]"),
        ]  # fmt: skip
        await it.turn(session, "go on")
        assert it.asked() == [
            UserMessage("long"), AssistantMessage(f"half\n{INTERRUPTED}"), UserMessage("go on"),
        ]  # fmt: skip


# --- what is written ----------------------------------------------------------------------------------------------------


@pytest.mark.req("RPC-132", "RPC-133", "RPC-134", "RPC-135")
async def test_the_model_forgets_and_the_transcript_does_not(house: Opened) -> None:
    pause = Pause()
    provider = ScriptedProvider([TextDelta("yes")], [pause, TextDelta("more")], [TextDelta("last")])
    async with house(agents=small(provider)) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.turn(session, "h" * 40)
        rows = "SELECT id, role, content FROM acp_messages"
        before = it.select(rows)
        assert len(before) == 2
        await it.begin(session, pause)
        while not it.updates("history_trimmed"):
            it.wire.updates.append(await it.wire.receive())
        context, frontier, trimmed = it.columns(
            session, "retained_context_json", "retained_context_frontier", "trim_breadcrumb"
        )
        assert json.loads(context) == {"messages": [{"role": "user", "text": "long"}]}
        assert it.select("SELECT id FROM acp_turn_checkpoint_events") == [(frontier,)]
        assert trimmed == 1
        assert it.select(rows) == before
        pause.go.set()
        await it.wire.answer_to("turn")
        assert it.select(rows)[:2] == before
        del it.wire.updates[:]
        await it.wire.call("session/close", {"sessionId": session})
        await it.wire.call("session/new", again(session))
        assert it.updates("history_trimmed") == [
            {
                "sessionId": session, "type": "history_trimmed", "droppedMessages": 2, "keptTurns": 1,
                "reason": "before_this_opening",
            }
        ]  # fmt: skip
        assert [text for _, text in await it.texts(session)] == ["h" * 40, "yes", "long", "more"]
        await it.turn(session, "go on")
        assert list(provider.requests[-1].messages) == [
            UserMessage("long"), AssistantMessage("more"), UserMessage("go on"),
        ]  # fmt: skip


@pytest.mark.req("RPC-136", "RPC-256")
@pytest.mark.parametrize(
    "point", [WritePoint.CONTEXT_REDUCED, WritePoint.EVENT_APPENDED, WritePoint.TURN_FINISHED]
)
async def test_a_turn_that_cannot_be_written_fails_and_is_taken_up_again(
    house: Opened, point: WritePoint
) -> None:
    provider = ScriptedProvider([TextDelta("yes")], [TextDelta("lost")], [TextDelta("last")])
    async with house(agents=small(provider)) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.turn(session, "h" * 40)
        it.faults.failing = {point}
        error = await it.wire.fail("session/prompt", {"sessionId": session, "prompt": "long"})
        assert (error["code"], error["data"]["reason"]) == (INTERNAL, "turn_failed")
        assert error["data"]["cause"] == "sessions_unavailable"
        assert [end["outcome"] for end in it.updates("turn_complete")] == ["completed", "failed"]
        assert len(it.updates("history_trimmed")) == (point is not WritePoint.CONTEXT_REDUCED)
        assert [chunk["text"] for chunk in it.updates("agent_message_chunk")] == (
            ["yes", "lost"] if point is WritePoint.TURN_FINISHED else ["yes"]
        )
        assert it.live.find(session) is None
        (turn_id,) = it.select("SELECT turn_id FROM acp_turn_checkpoints")
        assert turn_id
        if point is WritePoint.CONTEXT_REDUCED:
            assert it.columns(session, "retained_context_frontier") == (0,)

        it.faults.failing.clear()
        last = "lost" if point is WritePoint.CONTEXT_REDUCED else "last"
        assert (await it.turn(session, "go on"))["content"] == last
        said = [("assistant", "lost")] if point is WritePoint.TURN_FINISHED else []
        assert await it.texts(session) == [
            ("user", "h" * 40), ("assistant", "yes"), ("user", "long"), *said, ("system", "[stream interrupted]"),
            ("user", "go on"), ("assistant", last),
        ]  # fmt: skip


@pytest.mark.req("RPC-256")
@pytest.mark.parametrize("mode", ["acp", "chat"])
async def test_prompts_behind_a_turn_that_was_lost_have_their_turns(house: Opened, mode: str) -> None:
    pause = Pause()
    async with house([TextDelta("one"), pause], [TextDelta("two")], [TextDelta("three")]) as it:
        session = await it.wire.new_session(chatMode=mode)
        await it.begin(session, pause, "first")
        for number in ("second", "third"):
            params = {"sessionId": session, "prompt": number}
            await it.wire.send({"jsonrpc": "2.0", "method": "session/prompt", "params": params, "id": number})
        await it.daemon.until(lambda: it.live.get(session).permit.pending == 3)
        first = it.live.get(session)
        it.faults.watching[WritePoint.SESSION_RESUMED] = lambda: it.faults.failing.clear()
        it.faults.failing = {WritePoint.TURN_FINISHED}
        pause.go.set()
        answers = await it.answers("first", "second", "third")
        assert answers[0]["error"]["data"]["reason"] == "turn_failed"
        assert [answer["result"]["content"] for answer in answers[1:]] == ["two", "three"]
        assert it.live.get(session) is not first
        assert [type(m).__name__ for m in it.asked()][-3:] == [
            "UserMessage",
            "AssistantMessage",
            "UserMessage",
        ]
        assert not it.live.get(session).busy
        assert not first.prompts


async def test_a_turn_whose_begin_cannot_be_written_asks_no_model(house: Opened) -> None:
    async with house([TextDelta("fine")]) as it:
        session = await it.wire.new_session(chatMode="acp")
        it.faults.failing = {WritePoint.TURN_BEGUN}
        error = await it.wire.fail("session/prompt", {"sessionId": session, "prompt": "hi"})
        assert (error["code"], error["data"]["reason"]) == (INTERNAL, "turn_failed")
        assert not it.provider.requests
        it.faults.failing.clear()
        assert (await it.turn(session))["content"] == "fine"
        assert it.asked() == [UserMessage("hi")]


async def test_a_model_that_fails_leaves_the_session_live_and_says_what_was_heard(house: Opened) -> None:
    failing = [TextDelta("half"), ProviderError("the model is out")]
    async with house(failing, [TextDelta("fine")]) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.wire.fail("session/prompt", {"sessionId": session, "prompt": "hi"})
        assert it.live.ids() == [session]
        await it.turn(session, "again")
        assert await it.texts(session) == [
            ("user", "hi"), ("assistant", "half"), ("system", "[stream interrupted]"), ("user", "again"),
            ("assistant", "fine"),
        ]  # fmt: skip
        verdicts = await it.durable.acp.read(lambda store: store.verdicts(session))
        assert [verdict.value for verdict in verdicts] == ["fail", "complete"]


@pytest.mark.req("RPC-137", "RPC-139")
async def test_neither_instructions_nor_thoughts_are_written(house: Opened) -> None:
    provider = ScriptedProvider(
        [ThoughtDelta("a thought of 4711"), TextDelta("yes")],
        [ThoughtDelta("another thought of 4711"), TextDelta("more")],
    )
    agents = small(provider, system_prompt="instructions of 4711")
    async with house(agents=agents) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.turn(session, "h" * 40)
        await it.turn(session, "reduced")
        assert len(it.updates("history_trimmed")) == 1
        assert len(it.updates("agent_thought_chunk")) == 2
        assert provider.requests[0].system_prompt == "instructions of 4711"
        files = list((it.root / "sessions").iterdir())
        assert len(files) >= 2
        for file in files:
            assert b"4711" not in file.read_bytes()


@pytest.mark.req("RPC-065")
@pytest.mark.parametrize("mode", ["acp", "chat"])
async def test_a_plan_outlives_the_daemon_that_it_was_made_in(house: Opened, mode: str) -> None:
    calls = [ToolCall("a", "loud", "{}")]
    async with house(calls, [TextDelta("yes")], tools=ToolRegistry([Loud()])) as it:
        session = await it.wire.new_session(chatMode=mode)
        await it.turn(session)
        (told,) = it.updates("plan")
    async with house() as it:
        await it.wire.call("session/new", again(session, chatMode=mode))
        assert it.updates("plan") == [told]
        assert (await it.wire.call("session/state", {"sessionId": session}))["plan"] == told["entries"]


@pytest.mark.req("RPC-065", "RPC-151", "PLG-027")
async def test_a_tool_call_leaves_a_bounded_output_and_a_receipt(house: Opened) -> None:
    pause = Pause()
    scripts = ([ToolCall("a", "loud", '{"x": 1}')], [TextDelta("half"), pause])
    async with house(*scripts, tools=ToolRegistry([Loud()])) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.begin(session, pause)
        await it.wire.send({"jsonrpc": "2.0", "method": "status", "id": "now"})
        await it.wire.answer_to("now")
        assert len(it.updates("tool_result")[0]["rawOutput"]) == 50_000
        assert it.updates("plan")[0]["entries"][0]["content"] == "print"
        (payload,) = it.select(
            "SELECT payload FROM acp_turn_checkpoint_events WHERE payload LIKE '%\"result\"%'"
        )
        assert len(payload[0].encode()) < 17_000
        (receipt,) = await it.durable.acp.read(lambda store: store.receipts(session))
        assert (receipt.tool, receipt.call_id) == ("loud", "a")
        assert receipt.settled is not None
        assert (receipt.settled.outcome, receipt.settled.approval) == ("succeeded", "not_asked")
        assert receipt.settled.duration_ms is not None
        # The daemon is gone without a word: what it left is a turn that nobody ended.
        it.faults.failing = {WritePoint.TURN_FINISHED}
        pause.go.set()
        assert (await it.wire.answer_to("turn"))["error"]["data"]["reason"] == "turn_failed"
        it.faults.failing.clear()
        del it.wire.updates[:]
        assert (await it.wire.call("session/new", again(session)))["messageCount"] == 5
        assert [update["entries"][0]["content"] for update in it.updates("plan")] == ["print"]
        assert (await it.wire.call("session/state", {"sessionId": session}))["plan"][0]["content"] == "print"
        entries = await it.durable.acp.read(lambda store: store.entries(session))
        (output,) = [entry.tool_output for entry in entries if entry.tool_output is not None]
        assert output.endswith("…[truncated]")
        assert len(output.removesuffix("…[truncated]").encode()) == 16_384
        (result,) = [m for m in it.live.get(session).history if isinstance(m, ToolMessage)]
        assert result.output == output


async def test_the_ids_of_tool_calls_are_told_apart_in_the_whole_session(house: Opened) -> None:
    calls = ([ToolCall("tc_1", "loud", "{}")], [TextDelta("x")])
    async with house(*calls, *calls, *calls, tools=ToolRegistry([Loud()])) as it:
        for mode in ("acp",):
            session = await it.wire.new_session(chatMode=mode)
            await it.turn(session)
            await it.turn(session)
            await it.wire.call("session/close", {"sessionId": session})
            await it.turn(session)
            ids = [update["toolCallId"] for update in it.updates("tool_call")]
            assert ids == ["tc_1", "tc_1_2", "tc_1_3"]


# --- who may come back --------------------------------------------------------------------------------------------------


@pytest.mark.req("RPC-065", "RPC-244")
@pytest.mark.parametrize("mode", ["acp", "chat"])
async def test_a_prompt_that_waited_is_dated_after_the_answer_above_it(house: Opened, mode: str) -> None:
    pause = Pause()
    async with house([pause, TextDelta("one")], [TextDelta("two")]) as it:
        session = await it.wire.new_session(chatMode=mode)
        await it.begin(session, pause)
        params = {"sessionId": session, "prompt": "second"}
        await it.wire.send({"jsonrpc": "2.0", "method": "session/prompt", "params": params, "id": "second"})
        await it.daemon.until(lambda: it.live.get(session).permit.pending == 2)
        pause.go.set()
        await it.answers("turn", "second")
        kept = it.durable.acp if mode == "acp" else it.durable.chats
        entries = await kept.read(lambda store: store.entries(session))
        assert [entry.content for entry in entries] == ["long", "one", "second", "two"]
        assert [entry.created_at for entry in entries] == sorted(entry.created_at for entry in entries)


@pytest.mark.req("RPC-063")
@pytest.mark.parametrize("mode", ["acp", "chat"])
async def test_of_two_sessions_that_a_client_opens_at_once_one_stays(house: Opened, mode: str) -> None:
    me = {"tuiId": "tui_00000001"}
    async with house() as it, it.daemon.connect(**me) as one, it.daemon.connect(**me) as two:
        go_on = it.faults.hold(WritePoint.SESSION_CREATED)
        params = {"agentAlias": "assistant", "chatMode": mode}
        new = {"jsonrpc": "2.0", "method": "session/new", "params": params, "id": 1}
        await one.send(new)
        await it.daemon.until(lambda: it.faults.arrived(WritePoint.SESSION_CREATED))
        await two.send(new)
        await it.daemon.until(lambda: it.live.lock.statistics().tasks_waiting == 1)
        go_on.set()
        opened = [(await wire.answer_to(1))["result"]["sessionId"] for wire in (one, two)]
        assert it.live.ids() == opened[1:]


@pytest.mark.req("RPC-062")
async def test_a_session_is_not_joined_with_another_environment(house: Opened) -> None:
    async with house([TextDelta("yes")]) as it, it.daemon.connect(env={"A": "2"}) as other:
        await it.wire.initialize(env={"A": "1"})
        session = await it.wire.new_session()
        await it.turn(session)
        error = await other.fail("session/new", {"agentAlias": "assistant", "sessionId": session})
        assert (error["code"], error["data"]) == (
            FORBIDDEN,
            {"reason": "forbidden", "rule": "environment_differs"},
        )
        again = await it.wire.call("session/new", {"agentAlias": "assistant", "sessionId": session})
        assert again["messageCount"] == 2
        await other.initialize(env={"A": "1"})
        await other.call("session/new", {"agentAlias": "assistant", "sessionId": session})


@pytest.mark.req("RPC-246", "RPC-146", "PAINS-24")
@pytest.mark.parametrize("mode", ["acp", "chat"])
async def test_sessions_of_clients_that_are_gone_do_not_fill_the_daemon(house: Opened, mode: str) -> None:
    async with house([TextDelta("yes")], [TextDelta("more")]) as it:
        async with it.daemon.connect() as client:
            session = await client.new_session(chatMode=mode)
            await client.call("session/prompt", {"sessionId": session, "prompt": "hi"})
        mine = await it.wire.new_session(chatMode=mode)
        await it.daemon.until(lambda: it.live.get(session).audience is None)
        for _ in range(11):
            assert session in it.live.ids()
            await it.daemon.until(lambda: it.daemon.clock.waits > 0)  # it waits to look again
            it.daemon.clock.advance(LOOK_SECONDS)
        await it.daemon.until(lambda: it.live.ids() == [mine])
        assert (await it.turn(session, "and?"))["content"] == "more"
        assert it.asked() == [*OLD, UserMessage("and?")]


@pytest.mark.req("RPC-246")
async def test_a_session_for_which_there_is_no_room_leaves_nothing(house: Opened) -> None:
    async with house([TextDelta("yes")]) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.wire.call("session/close", {"sessionId": session})
        it.live._limit = 1
        await it.wire.new_session(chatMode="acp")
        await it.durable.acp.write(lambda store: store.begin(session, "t", "hi", BEGAN))
        before = it.dump()
        for params in ({}, {"sessionId": "new"}, {"sessionId": session}):
            wanted = {"agentAlias": "assistant", "chatMode": "acp", "keepSiblings": True, **params}
            error = await it.wire.fail("session/new", wanted)
            assert (error["code"], error["data"]["reason"]) == (SESSION_LIMIT, "session_limit")
        error = await it.wire.fail("session/prompt", {"sessionId": session, "prompt": "more"})
        assert (error["code"], error["data"]["reason"]) == (SESSION_LIMIT, "session_limit")
        assert it.dump() == before
