"""Sessions that are closed, killed or deleted: in which order, and what is left where the store fails on the way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from kept_houses import House
from session_model import BEGAN

from zeroclaw_daemon.agent.messages import UserMessage
from zeroclaw_daemon.agent.providers.base import TextDelta
from zeroclaw_daemon.agent.providers.scripted import Pause
from zeroclaw_daemon.rpc.errors import INTERNAL, INVALID_PARAMS, SESSION_NOT_FOUND
from zeroclaw_daemon.sessions.permit import MAX_PENDING
from zeroclaw_daemon.sessions.store.points import WritePoint

pytestmark = pytest.mark.anyio

TURN_WRITES = {WritePoint.EVENT_APPENDED, WritePoint.TURN_FINISHED, WritePoint.TURN_FAILED}


Opened = Callable[..., AbstractAsyncContextManager[House]]

ENDINGS = (("session/kill", WritePoint.SESSION_KILLED), ("session/delete", WritePoint.SESSION_DELETED))
every_ending = pytest.mark.parametrize(("method", "point"), ENDINGS, ids=["kill", "delete"])


def reasons(wire: Any) -> list[Any]:
    return [u["params"]["reason"] for u in wire.updates if u["params"]["type"] == "turn_complete"]


@pytest.mark.req("RPC-153")
async def test_a_killed_session_keeps_what_was_said_and_never_goes_on(house: Opened) -> None:
    async with house([TextDelta("yes")]) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.turn(session)
        assert await it.wire.call("session/kill", {"sessionId": session}) == {
            "sessionId": session,
            "killed": True,
        }
        assert (await it.wire.call("status"))["sessionIds"] == []
        await refuses_to_go_on(it, session)
    for _ in range(2):  # in daemons that were started later
        async with house() as it:
            await refuses_to_go_on(it, session)
            assert not it.provider.requests


async def refuses_to_go_on(it: House, session: str) -> None:
    """A killed session is read, and that is all."""
    asked = len(it.provider.requests)
    assert await it.texts(session) == [("user", "hi"), ("assistant", "yes")]
    error = await it.wire.fail("session/prompt", {"sessionId": session, "prompt": "more"})
    assert (error["code"], error["data"]["reason"]) == (SESSION_NOT_FOUND, "session_killed")
    assert it.wire.updates[-1]["params"]["outcome"] == "failed"
    error = await it.wire.fail(
        "session/new", {"agentAlias": "assistant", "sessionId": session, "chatMode": "acp"}
    )
    assert (error["code"], error["data"]["reason"]) == (SESSION_NOT_FOUND, "session_killed")
    assert await it.wire.call("session/kill", {"sessionId": session}) == {
        "sessionId": session,
        "killed": False,
    }
    assert len(it.provider.requests) == asked
    assert len(it.live) == 0


@pytest.mark.req("RPC-154", "RPC-155")
@pytest.mark.parametrize("live", [True, False], ids=["live", "not live"])
async def test_a_deleted_session_leaves_nothing(house: Opened, live: bool) -> None:
    async with house([TextDelta("yes")]) as it:
        session = await it.wire.new_session(chatMode="acp")
        other = await it.wire.new_session(chatMode="acp", keepSiblings=True)
        await it.turn(session)
        if not live:
            await it.wire.call("session/close", {"sessionId": session})
        assert await it.wire.call("session/delete", {"sessionId": session}) == {
            "sessionId": session,
            "deleted": True,
        }
        assert (await it.wire.call("status"))["sessionIds"] == [other]
        assert session not in "".join(it.dump())
        assert "yes" not in "".join(it.dump())
        error = await it.wire.fail("session/prompt", {"sessionId": session, "prompt": "more"})
        assert (error["code"], error["data"]["reason"]) == (SESSION_NOT_FOUND, "session_not_found")
        error = await it.wire.fail("session/delete", {"sessionId": session})
        assert (error["code"], error["data"]["reason"]) == (SESSION_NOT_FOUND, "session_not_found")


@pytest.mark.req("RPC-154", "RPC-155")
@pytest.mark.parametrize("live", [True, False], ids=["live", "not live"])
async def test_a_turn_that_can_be_recovered_is_deleted_with_its_session(house: Opened, live: bool) -> None:
    async with house() as it:
        session = await it.wire.new_session(chatMode="acp")
        if not live:
            await it.wire.call("session/close", {"sessionId": session})
        await it.durable.acp.write(lambda store: store.begin(session, "t", "lost", BEGAN))
        assert "lost" in "".join(it.dump())
        await it.wire.call("session/delete", {"sessionId": session})
        assert "lost" not in "".join(it.dump())


@pytest.mark.req("RPC-154", "RPC-153")
@every_ending
async def test_the_store_has_let_go_before_the_live_session_does(
    house: Opened, method: str, point: WritePoint
) -> None:
    async with house() as it:
        session = await it.wire.new_session(chatMode="acp")
        live = it.live.get(session)
        seen: list[Any] = []
        it.faults.watching[point] = lambda: seen.append((it.live.is_live(live), live.audience))
        audience = live.audience
        await it.wire.call(method, {"sessionId": session})
        assert seen == [(True, audience)]
        assert audience is not None
        assert live.audience is None
        assert not it.live.is_live(live)


@pytest.mark.req("RPC-157", "RPC-158")
@every_ending
@pytest.mark.parametrize("held", ["its own", "the turn's end"])
async def test_the_running_turn_is_told_to_stop_before_the_store_is_asked(
    house: Opened, method: str, point: WritePoint, held: str
) -> None:
    pause = Pause()
    async with house([TextDelta("half"), pause]) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.begin(session, pause)
        blocked = point if held == "its own" else WritePoint.TURN_FINISHED
        go_on = it.faults.hold(blocked)
        call = {"jsonrpc": "2.0", "method": method, "params": {"sessionId": session}, "id": "call"}
        await it.wire.send(call)
        await it.daemon.until(lambda: it.faults.arrived(blocked))
        assert it.provider.closed == 1
        if held == "its own":  # and its end is told as well
            answer = await it.wire.answer_to("turn")
            assert answer["result"]["stopReason"] == "cancelled"
            assert it.live.find(session) is not None
            go_on.set()
            assert "result" in await it.wire.answer_to("call")
        else:
            go_on.set()
            turn, ended = await it.answers("turn", "call")
            assert turn["result"]["stopReason"] == "cancelled"
            assert "result" in ended
        assert reasons(it.wire) == ["admin_kill" if method == "session/kill" else "session_removed"]
        assert it.live.find(session) is None


@pytest.mark.req("RPC-157", "RPC-158")
@every_ending
@pytest.mark.parametrize("blocked_by", ["an opening", "another ending"])
async def test_a_store_that_somebody_else_blocks_does_not_keep_a_turn_going(
    house: Opened, method: str, point: WritePoint, blocked_by: str
) -> None:
    pause = Pause()
    async with (
        house([TextDelta("half"), pause]) as it,
        it.daemon.connect() as other,
        it.daemon.connect() as ending,
    ):
        idle = await it.wire.new_session(chatMode="acp")
        session = await it.wire.new_session(chatMode="acp", keepSiblings=True)
        await it.begin(session, pause)
        if blocked_by == "an opening":
            blocked, call = (
                WritePoint.SESSION_CREATED,
                ("session/new", {"agentAlias": "assistant", "chatMode": "acp"}),
            )
        else:
            blocked, call = point, (method, {"sessionId": idle})
        go_on = it.faults.hold(blocked)
        await other.send({"jsonrpc": "2.0", "method": call[0], "params": call[1], "id": 1})
        await it.daemon.until(lambda: it.faults.arrived(blocked))
        await ending.send({"jsonrpc": "2.0", "method": method, "params": {"sessionId": session}, "id": 2})
        try:
            await it.daemon.until(lambda: it.provider.closed == 1)
        finally:
            go_on.set()
        assert (await it.wire.answer_to("turn"))["result"]["stopReason"] == "cancelled"
        assert "result" in await ending.answer_to(2)
        assert "result" in await other.answer_to(1)
        assert reasons(it.wire) == ["admin_kill" if method == "session/kill" else "session_removed"]
        assert it.live.find(session) is None


@pytest.mark.req("RPC-152", "RPC-153", "RPC-154")
@pytest.mark.parametrize("method", ["session/close", "session/kill", "session/delete"])
async def test_a_session_can_be_ended_however_many_prompts_wait(house: Opened, method: str) -> None:
    pause = Pause()
    async with house([TextDelta("half"), pause]) as it, it.daemon.connect() as other:
        session = await it.wire.new_session(chatMode="acp")
        await it.begin(session, pause)
        live, waiting = it.live.get(session), [str(number) for number in range(1, MAX_PENDING)]
        params = {"sessionId": session, "prompt": "waits"}
        await it.wire.send(
            *(
                {"jsonrpc": "2.0", "method": "session/prompt", "params": params, "id": each}
                for each in waiting
            )
        )
        await it.daemon.until(lambda: live.permit.pending == MAX_PENDING)
        assert "result" in await other.ask(method, {"sessionId": session})
        turn, *others = await it.answers("turn", *waiting)
        assert turn["result"]["stopReason"] == "cancelled"
        assert {each["error"]["code"] for each in others} == {SESSION_NOT_FOUND}
        assert not it.live.is_live(live)
        assert len(it.provider.requests) == 1


@pytest.mark.req("RPC-159", "RPC-160")
@every_ending
async def test_an_idle_session_survives_a_store_that_fails(
    house: Opened, method: str, point: WritePoint
) -> None:
    async with house([TextDelta("one")], [TextDelta("two")]) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.turn(session)
        live = it.live.get(session)
        audience = live.audience
        it.faults.failing = {point}
        before = it.dump()
        error = await it.wire.fail(method, {"sessionId": session})
        assert (error["code"], error["data"]["reason"]) == (INTERNAL, "sessions_unavailable")
        assert it.live.is_live(live)
        assert live.audience is audience
        assert audience is not None
        assert it.dump() == before
        assert (await it.turn(session))["content"] == "two"
        it.faults.failing.clear()
        await it.wire.call(method, {"sessionId": session})
        assert it.live.find(session) is None


@pytest.mark.req("RPC-161", "RPC-162")
@every_ending
async def test_an_active_session_whose_end_cannot_be_written_is_gone_and_waits_for_the_store(
    house: Opened, method: str, point: WritePoint
) -> None:
    pause = Pause()
    async with house([TextDelta("half"), pause], [TextDelta("and on")]) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.begin(session, pause)
        it.faults.failing = {point, *TURN_WRITES}
        turn, ended = await it.both(method, session)
        assert (turn["error"]["code"], turn["error"]["data"]["reason"]) == (INTERNAL, "turn_failed")
        assert (ended["error"]["code"], ended["error"]["data"]["reason"]) == (
            INTERNAL,
            "sessions_unavailable",
        )
        assert it.live.find(session) is None
        stored = await it.durable.acp.read(lambda store: store.find(session))
        assert stored is not None
        assert stored.turn_id is not None
        assert stored.killed is None

        it.faults.failing.clear()
        assert (await it.turn(session, "go on"))["content"] == "and on"
        assert await it.texts(session) == [
            ("user", "long"), ("assistant", "half"), ("system", "[stream interrupted]"), ("user", "go on"),
            ("assistant", "and on"),
        ]  # fmt: skip
        await it.wire.call(method, {"sessionId": session})
        assert it.live.find(session) is None


@pytest.mark.req("RPC-161", "RPC-162")
@every_ending
async def test_what_could_not_be_ended_can_be_ended_once_the_store_works(
    house: Opened, method: str, point: WritePoint
) -> None:
    pause = Pause()
    async with house([TextDelta("half"), pause]) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.begin(session, pause)
        it.faults.failing = {point, *TURN_WRITES}
        await it.both(method, session)
        it.faults.failing.clear()
        await it.wire.call(method, {"sessionId": session})
        stored = await it.durable.acp.read(lambda store: store.find(session))
        if method == "session/kill":
            assert stored is not None
            assert stored.killed is not None
            assert stored.turn_id is not None, "a checkpoint is kept"
        else:
            assert stored is None


@pytest.mark.req("RPC-156")
@every_ending
async def test_a_live_chat_of_the_same_id_is_ended_alone(
    house: Opened, method: str, point: WritePoint
) -> None:
    async with house([TextDelta("acp")], [TextDelta("chat")]) as it:
        session = await it.wire.new_session(sessionId="x", chatMode="acp")
        await it.turn(session)
        await it.wire.call("session/close", {"sessionId": "x"})
        await it.durable.acp.write(lambda store: store.begin("x", "t", "lost", BEGAN))
        await it.wire.new_session(sessionId="x", chatMode="chat")
        await it.turn(session)
        before = it.dump()
        await it.wire.call(method, {"sessionId": "x"})
        assert it.live.find("x") is None
        assert it.dump() == before
        chat = await it.durable.chats.read(lambda store: store.find("x"))
        assert (chat is None) is (method == "session/delete")
        assert await it.texts("x") == [("user", "hi"), ("assistant", "acp")]
        assert it.select("SELECT turn_id FROM acp_turn_checkpoints") == [("t",)]


@pytest.mark.req("RPC-255", "RPC-156")
async def test_an_id_that_both_modes_have_is_not_guessed_at(house: Opened) -> None:
    async with house() as it:
        for mode in ("acp", "chat"):
            await it.wire.new_session(sessionId="x", chatMode=mode)
            await it.wire.call("session/close", {"sessionId": "x"})
        before = it.dump(), it.dump("sessions.db")
        for method in ("session/delete", "session/prompt"):
            error = await it.wire.fail(method, {"sessionId": "x", "prompt": "?"})
            assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "session_ambiguous")
        assert (it.dump(), it.dump("sessions.db")) == before
        await it.wire.new_session(sessionId="x", chatMode="chat")
        await it.wire.call("session/delete", {"sessionId": "x"})
        await it.wire.call("session/delete", {"sessionId": "x"})
        assert "'x'" not in "".join(it.dump())
        error = await it.wire.fail("session/delete", {"sessionId": "x"})
        assert (error["code"], error["data"]["reason"]) == (SESSION_NOT_FOUND, "session_not_found")


@pytest.mark.req("RPC-152")
async def test_a_close_asks_the_store_nothing_and_ends_what_waits(house: Opened) -> None:
    pause = Pause()
    async with house([TextDelta("half"), pause], [TextDelta("again")]) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.begin(session, pause, "first")
        params = {"sessionId": session, "prompt": "waits"}
        await it.wire.send(
            {"jsonrpc": "2.0", "method": "session/prompt", "params": params, "id": "second"},
            {"jsonrpc": "2.0", "method": "session/close", "params": {"sessionId": session}, "id": "call"},
        )
        first, second, closed = await it.answers("first", "second", "call")
        assert first["result"]["stopReason"] == "cancelled"
        assert closed["result"] == {"sessionId": session, "closed": True}
        error = second["error"]
        assert (error["code"], error["data"]["reason"]) == (SESSION_NOT_FOUND, "session_not_found")
        assert it.live.find(session) is None
        assert (await it.turn(session, "go on"))["content"] == "again"
        assert it.provider.requests[-1].messages[0] == UserMessage("long")


@pytest.mark.parametrize("written", [True, False])
async def test_who_comes_while_a_session_is_being_closed_finds_it_gone(house: Opened, written: bool) -> None:
    pause = Pause()
    async with house([TextDelta("half"), pause]) as it, it.daemon.connect() as other:
        session = await it.wire.new_session(chatMode="acp")
        await it.begin(session, pause)
        live = it.live.get(session)
        go_on = it.faults.hold(WritePoint.TURN_FINISHED)
        await it.wire.send(
            {"jsonrpc": "2.0", "method": "session/close", "params": {"sessionId": session}, "id": "call"}
        )
        await it.daemon.until(lambda: it.faults.arrived(WritePoint.TURN_FINISHED))
        params = {"sessionId": session, "prompt": "late"}
        await other.send({"jsonrpc": "2.0", "method": "session/prompt", "params": params, "id": 1})
        await it.daemon.until(lambda: live.permit.pending == 3)
        if not written:
            it.faults.failing = {WritePoint.TURN_FINISHED}
        go_on.set()
        turn, closed = await it.answers("turn", "call")
        assert ("result" in turn) is written
        assert closed["result"]["closed"] is True
        assert (await other.answer_to(1))["error"]["data"]["reason"] == "session_not_found"
        assert it.live.find(session) is None
        assert len(it.provider.requests) == 1


@pytest.mark.req("RPC-153", "RPC-255")
@every_ending
@pytest.mark.parametrize("mode", ["acp", "chat"])
async def test_of_two_that_end_a_session_at_once_one_does(
    house: Opened, method: str, point: WritePoint, mode: str
) -> None:
    pause = Pause()
    async with house([TextDelta("half"), pause]) as it, it.daemon.connect() as other:
        session = await it.wire.new_session(chatMode=mode)
        await it.begin(session, pause)
        live = it.live.get(session)
        go_on = it.faults.hold(WritePoint.TURN_FINISHED)
        call = {"jsonrpc": "2.0", "method": method, "params": {"sessionId": session}, "id": "call"}
        await it.wire.send(call)
        await it.daemon.until(lambda: it.faults.arrived(WritePoint.TURN_FINISHED))
        await other.send(call)
        await it.daemon.until(lambda: live.permit.pending == 3)
        go_on.set()
        first, second = (await it.answers("turn", "call"))[1], await other.answer_to("call")
        if method == "session/kill":
            assert first["result"]["killed"] is True
        else:
            assert first["result"]["deleted"] is True
        if (method, mode) == ("session/kill", "acp"):
            assert second["result"]["killed"] is False
        else:  # there is no such session any more, or none that could be killed again
            assert second["error"]["data"]["reason"] == "session_not_found"
