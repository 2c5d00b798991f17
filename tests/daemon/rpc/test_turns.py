"""Prompts, and what is streamed while they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest

from zeroclaw_daemon.agent.messages import ToolCall
from zeroclaw_daemon.agent.providers.base import ProviderError, TextDelta, ThoughtDelta
from zeroclaw_daemon.agent.providers.scripted import Pause, ScriptedProvider
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.rpc.errors import INTERNAL, INVALID_PARAMS, SESSION_BUSY, SESSION_NOT_FOUND
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.kinds import Tool, ToolResult

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]


class Upper(Tool):
    """A tool that shouts."""

    name = "upper"
    description = "upper case"
    parameters_schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}  # noqa: RUF012

    async def execute(self, arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        return ToolResult(True, str(arguments["text"]).upper())


class Stubborn(Upper):
    """A tool that will not be cancelled."""

    name = "stubborn"

    def __init__(self) -> None:
        self.go = anyio.Event()

    async def execute(self, arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        with anyio.CancelScope(shield=True):
            await self.go.wait()
        return ToolResult(True, "late")


def types(updates: list[dict[str, Any]]) -> list[str]:
    return [update["params"]["type"] for update in updates]


def prompt_frame(session: str, prompt: str, request_id: Any = 7, **more: Any) -> dict[str, Any]:
    params = {"sessionId": session, "prompt": prompt, **more}
    return {"jsonrpc": "2.0", "method": "session/prompt", "params": params, "id": request_id}


@pytest.mark.req("RPC-121", "RPC-122", "RPC-123", "RPC-124", "RPC-254")
async def test_a_turn_is_streamed_then_completed_then_answered(serving: Serving) -> None:
    pause = Pause()
    provider = ScriptedProvider([TextDelta("Hel"), pause, TextDelta("lo")])
    async with serving(provider=provider) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        await wire.send(prompt_frame(session, "hi"))
        await pause.reached.wait()
        first = await wire.receive()
        assert first["method"] == "session/update"
        assert "id" not in first
        assert first["params"] == {"sessionId": session, "type": "agent_message_chunk", "text": "Hel"}
        await wire.assert_silent()
        pause.go.set()
        answer = await wire.answer_to(7)
        assert answer["result"] == {"sessionId": session, "stopReason": "end_turn", "content": "Hello"}
        assert types(wire.updates) == ["agent_message_chunk", "turn_complete"]
        last = wire.updates[-1]["params"]
        assert last == {
            "sessionId": session, "type": "turn_complete", "outcome": "completed", "content": "Hello", "reason": None,
        }  # fmt: skip


@pytest.mark.req("RPC-125")
async def test_thoughts_are_never_part_of_the_answer(serving: Serving) -> None:
    provider = ScriptedProvider([ThoughtDelta("hmm"), TextDelta("yes"), ThoughtDelta("well")])
    async with serving(provider=provider) as daemon, daemon.connect() as wire:
        answer = await wire.call("session/prompt", {"sessionId": await wire.new_session(), "prompt": "?"})
        assert answer["content"] == "yes"
        thoughts = [u["params"]["text"] for u in wire.updates if u["params"]["type"] == "agent_thought_chunk"]
        assert thoughts == ["hmm", "well"]


@pytest.mark.req("RPC-126", "RPC-127", "RPC-130")
async def test_a_tool_call_is_told_before_and_after_it_is_made(serving: Serving) -> None:
    async with serving(tools=ToolRegistry([Upper()])) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        answer = await wire.call(
            "session/prompt", {"sessionId": session, "prompt": '/tool upper {"text": "a"}'}
        )
        assert answer["content"] == "A"
        assert types(wire.updates) == ["tool_call", "tool_result", "agent_message_chunk", "turn_complete"]
        call, result = (update["params"] for update in wire.updates[:2])
        assert call == {
            "sessionId": session, "type": "tool_call", "toolCallId": "tc_1", "name": "upper", "rawInput": {"text": "a"},
        }  # fmt: skip
        assert result == {
            "sessionId": session, "type": "tool_result", "toolCallId": "tc_1", "name": "upper", "rawOutput": "A",
        }  # fmt: skip


@pytest.mark.req("RPC-130")
async def test_two_hundred_pieces_arrive_in_order_and_before_the_answer(serving: Serving) -> None:
    provider = ScriptedProvider([TextDelta(f"{number},") for number in range(200)])
    async with serving(provider=provider) as daemon, daemon.connect() as wire:
        answer = await wire.call("session/prompt", {"sessionId": await wire.new_session(), "prompt": "count"})
        pieces = [update["params"]["text"] for update in wire.updates[:-1]]
        assert pieces == [f"{number}," for number in range(200)]
        assert answer["content"] == "".join(pieces)


@pytest.mark.req("RPC-254", "RPC-122", "PAINS-21")
async def test_a_failed_turn_says_so_and_is_an_internal_error(serving: Serving) -> None:
    provider = ScriptedProvider([TextDelta("half"), ProviderError("the model is out")], [TextDelta("fine")])
    async with serving(provider=provider) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        error = await wire.fail(
            "session/prompt", {"sessionId": session, "prompt": "hi", "clientTurnGeneration": 3}
        )
        assert (error["code"], error["data"]["reason"], error["data"]["cause"]) == (
            INTERNAL, "turn_failed", "provider_failed",
        )  # fmt: skip
        assert wire.updates[-1]["params"] == {
            "sessionId": session, "type": "turn_complete", "outcome": "failed", "content": "the model is out",
            "reason": "provider_failed", "clientTurnGeneration": 3,
        }  # fmt: skip
        assert (await wire.call("session/prompt", {"sessionId": session, "prompt": "again"}))[
            "content"
        ] == "fine"


@pytest.mark.req("RPC-064", "RPC-122", "RPC-131", "RPC-254", "PAINS-21")
async def test_a_cancelled_turn_is_answered_with_what_it_had(serving: Serving) -> None:
    pause = Pause()
    provider = ScriptedProvider([TextDelta("half"), pause, TextDelta("never")])
    async with serving(provider=provider) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        await wire.send(prompt_frame(session, "hi"))
        await pause.reached.wait()
        assert (await wire.call("status"))["sessionIds"] == [session]
        assert (await wire.call("session/state", {"sessionId": session}))["state"] == "running"
        assert (await wire.call("session/cancel", {"sessionId": session})) == {
            "sessionId": session,
            "cancelled": True,
        }
        answer = await wire.answer_to(7)
        assert answer["result"] == {"sessionId": session, "stopReason": "cancelled", "content": "half"}
        assert wire.updates[-1]["params"] == {
            "sessionId": session, "type": "turn_complete", "outcome": "cancelled", "content": "half",
            "reason": "client_rpc",
        }  # fmt: skip
        assert provider.closed == 1


@pytest.mark.req("PAINS-21", "RPC-254")
async def test_turn_complete_has_one_shape_for_every_outcome(serving: Serving) -> None:
    pause = Pause()
    provider = ScriptedProvider([TextDelta("a")], [ProviderError("b")], [pause])
    async with serving(provider=provider) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        await wire.ask("session/prompt", {"sessionId": session, "prompt": "1"})
        await wire.ask("session/prompt", {"sessionId": session, "prompt": "2"})
        await wire.send(prompt_frame(session, "3"))
        await pause.reached.wait()
        await wire.call("session/cancel", {"sessionId": session})
        await wire.answer_to(7)
        await wire.ask("session/prompt", {"sessionId": "nowhere", "prompt": "4"})
        ends = [u["params"] for u in wire.updates if u["params"]["type"] == "turn_complete"]
        assert [end["outcome"] for end in ends] == ["completed", "failed", "cancelled", "failed"]
        assert len({frozenset(end) for end in ends}) == 1


@pytest.mark.req("RPC-241", "RPC-242", "RPC-065", "PAINS-21")
async def test_the_second_prompt_waits_for_the_first_and_cancel_hits_the_first(serving: Serving) -> None:
    pause = Pause()
    provider = ScriptedProvider([pause], [TextDelta("two")])
    async with serving(provider=provider) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        await wire.send(prompt_frame(session, "one", "a"), prompt_frame(session, "two", "b"))
        await pause.reached.wait()
        await daemon.until(lambda: daemon.server.sessions.get(session).permit.pending == 2)
        state = await wire.call("session/state", {"sessionId": session})
        running = daemon.server.sessions.get(session).running
        assert state == {
            "sessionId": session,
            "state": "running",
            "turnId": running.turn_id,
            "turnStartedAt": running.began.isoformat(),
        }
        assert len(provider.requests) == 1
        await wire.call("session/cancel", {"sessionId": session})
        assert (await wire.answer_to("a"))["result"]["stopReason"] == "cancelled"
        assert (await wire.answer_to("b"))["result"]["content"] == "two"
        state = await wire.call("session/state", {"sessionId": session})
        assert state == {"sessionId": session, "state": "idle"}


@pytest.mark.req("RPC-065")
async def test_a_prompt_that_waits_makes_a_session_busy_though_no_turn_runs(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        live = daemon.server.sessions.get(session)
        async with live.permit.held():
            await wire.send(prompt_frame(session, "hi"))
            await daemon.until(lambda: live.permit.pending == 2)
            assert live.running is None
            assert await wire.call("session/state", {"sessionId": session}) == {
                "sessionId": session,
                "state": "running",
                "turnId": live.prompts[0].turn_id,
            }
        await wire.answer_to(7)
        assert (await wire.call("session/state", {"sessionId": session}))["state"] == "idle"


@pytest.mark.req("RPC-241")
async def test_a_prompt_that_waits_too_long_is_refused_and_the_first_runs_on(serving: Serving) -> None:
    pause, clock = Pause(), ManualClock()
    provider = ScriptedProvider([pause, TextDelta("one")], [TextDelta("else")])
    async with serving(provider=provider, clock=clock) as daemon, daemon.connect() as wire:
        session, elsewhere = (
            await wire.new_session(),
            await wire.new_session(keepSiblings=True, agentAlias="other"),
        )
        await wire.send(prompt_frame(session, "one", "a"), prompt_frame(session, "two", "b"))
        await pause.reached.wait()
        await daemon.until(lambda: daemon.server.sessions.get(session).permit.pending == 2)
        clock.advance(29.9)
        await wire.assert_silent()
        assert (await wire.call("session/prompt", {"sessionId": elsewhere, "prompt": "x"}))[
            "content"
        ] == "else"
        clock.advance(0.2)
        error = (await wire.answer_to("b"))["error"]
        assert (error["code"], error["data"]["reason"]) == (SESSION_BUSY, "session_busy")
        assert wire.updates[-1]["params"]["outcome"] == "failed"
        pause.go.set()
        assert (await wire.answer_to("a"))["result"]["content"] == "one"


@pytest.mark.req("RPC-242")
async def test_cancel_without_a_running_turn_is_an_error(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        error = await wire.fail("session/cancel", {"sessionId": session})
        assert (error["code"], error["data"]["reason"]) == (SESSION_NOT_FOUND, "no_active_turn")
        await wire.call("session/prompt", {"sessionId": session, "prompt": "x"})
        assert (await wire.fail("session/cancel", {"sessionId": session}))["data"][
            "reason"
        ] == "no_active_turn"
        error = await wire.fail("session/cancel", {"sessionId": "nowhere"})
        assert (error["code"], error["data"]["reason"]) == (SESSION_NOT_FOUND, "session_not_found")


async def test_a_turn_that_will_not_stop_is_given_up_with_its_session(serving: Serving) -> None:
    clock, tool = ManualClock(), Stubborn()
    provider = ScriptedProvider([TextDelta("x"), ToolCall("1", "stubborn", '{"text": "a"}')])
    async with (
        serving(provider=provider, clock=clock, tools=ToolRegistry([tool])) as daemon,
        daemon.connect() as wire,
    ):
        session = await wire.new_session()
        await wire.send(prompt_frame(session, "hi"))
        while types(wire.updates)[-1:] != ["tool_call"]:
            wire.updates.append(await wire.receive())
        await wire.call("session/cancel", {"sessionId": session})
        clock.advance(4.9)
        await wire.assert_silent()
        clock.advance(0.2)
        assert (await wire.answer_to(7))["result"]["stopReason"] == "cancelled"
        assert (await wire.call("status"))["sessionIds"] == []
        seen = len(wire.updates)
        tool.go.set()
        await wire.assert_silent()
        assert len(wire.updates) == seen


@pytest.mark.req("RPC-032", "PAINS-23")
@pytest.mark.parametrize("socket", [False, True])
async def test_a_client_that_vanishes_takes_its_turn_with_it(serving: Serving, socket: bool) -> None:
    pause = Pause()
    provider = ScriptedProvider([TextDelta("half"), pause])
    async with serving(provider=provider, socket=socket) as daemon, daemon.connect() as other:
        async with daemon.connect() as wire:
            session = await wire.new_session()
            await wire.send(prompt_frame(session, "hi"))
            await pause.reached.wait()
            assert (await other.call("session/state", {"sessionId": session}))["state"] == "running"
        await daemon.until(lambda: daemon.server.open_connections == 1)
        assert provider.closed == 1
        assert (await other.call("session/state", {"sessionId": session}))["state"] == "idle"


@pytest.mark.req("PAINS-23")
async def test_a_client_that_vanishes_takes_its_waiting_prompts_too(serving: Serving) -> None:
    pause = Pause()
    provider = ScriptedProvider([pause, TextDelta("one")])
    async with serving(provider=provider) as daemon, daemon.connect() as other:
        session = await other.new_session()
        await other.send(prompt_frame(session, "one", "a"))
        await pause.reached.wait()
        async with daemon.connect() as wire:
            await wire.send(prompt_frame(session, "two", "b"))
            await daemon.until(lambda: daemon.server.sessions.get(session).permit.pending == 2)
        await daemon.until(lambda: daemon.server.sessions.get(session).permit.pending == 1)
        pause.go.set()
        assert (await other.answer_to("a"))["result"]["content"] == "one"
        assert len(provider.requests) == 1


@pytest.mark.req("RPC-231")
@pytest.mark.parametrize("socket", [False, True])
async def test_a_half_closed_client_gets_its_answers_but_no_more_of_its_turn(
    serving: Serving, socket: bool
) -> None:
    pause = Pause()
    provider = ScriptedProvider([TextDelta("half"), pause])
    async with serving(provider=provider, socket=socket) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        await wire.send(prompt_frame(session, "hi"))
        await pause.reached.wait()
        await wire.write(b'{"jsonrpc":"2.0","method":"status","id":8}')
        wire.transport.end()
        frames = await wire.rest()
        answers = [frame for frame in frames if "id" in frame]
        assert {frame["id"] for frame in answers} >= {8}
        assert len(answers) == len({frame["id"] for frame in answers})
        assert all(f["result"]["stopReason"] == "cancelled" for f in answers if f["id"] == 7)
        assert provider.closed == 1


@pytest.mark.req("RPC-060")
@pytest.mark.parametrize(
    "params",
    [{}, {"agentAlias": "nobody"}, {"agentAlias": ""}, {"agentAlias": None}, {"agentAlias": 1},
     {"agentAlias": "assistant", "cwd": "relative"}, {"agentAlias": "assistant", "cwd": "/no/such/directory"},
     {"agentAlias": "assistant", "sessionId": ""}, {"agentAlias": "assistant", "sessionId": "x" * 257}],
)  # fmt: skip
async def test_a_session_needs_an_agent_that_exists_and_proper_parameters(
    serving: Serving, params: Any
) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        assert (await wire.fail("session/new", params))["code"] == INVALID_PARAMS
        assert not daemon.server.sessions.ids()


@pytest.mark.req("RPC-060")
async def test_a_session_gets_an_id_unless_it_brings_one(serving: Serving, tmp_path: Any) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        made = await wire.call("session/new", {"agentAlias": "assistant"})
        assert made["agentAlias"] == "assistant"
        assert made["messageCount"] == 0
        assert made["workspaceDir"] == str(tmp_path)
        brought = await wire.call(
            "session/new", {"agent_alias": "assistant", "session_id": "mine", "cwd": "/", "nobodyKnows": 1}
        )
        assert (brought["sessionId"], brought["workspaceDir"]) == ("mine", "/")


@pytest.mark.req("RPC-240")
@pytest.mark.parametrize(
    ("params", "accepted"),
    [({}, True), ({"chatMode": "chat"}, True), ({"chatMode": "acp"}, True), ({"chatMode": "other"}, False),
     ({"chatMode": "acp", "interactionSurface": "zerocode_code"}, True),
     ({"interactionSurface": "zerocode_code"}, False)],
)  # fmt: skip
async def test_a_surface_belongs_to_the_mode_acp(serving: Serving, params: Any, accepted: bool) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        answer = await wire.ask("session/new", {"agentAlias": "assistant", **params})
        assert ("result" in answer) is accepted
        assert accepted or answer["error"]["code"] == INVALID_PARAMS


@pytest.mark.req("RPC-061")
async def test_a_live_session_is_the_same_for_whoever_opens_it_again(serving: Serving) -> None:
    provider = ScriptedProvider([TextDelta("one")], [TextDelta("two")])
    async with (
        serving(provider=provider) as daemon,
        daemon.connect() as first,
        daemon.connect() as second,
    ):
        session = await first.new_session()
        await first.call("session/prompt", {"sessionId": session, "prompt": "hello"})
        again = await second.call("session/new", {"agentAlias": "assistant", "sessionId": session})
        assert (again["sessionId"], again["messageCount"]) == (session, 2)
        error = await second.fail("session/new", {"agentAlias": "other", "sessionId": session})
        assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "session_mismatch")
        await second.call("session/prompt", {"sessionId": session, "prompt": "and?"})
        heard = [getattr(message, "text", None) for message in provider.requests[1].messages]
        assert heard == ["hello", "one", "and?"]


@pytest.mark.req("RPC-061", "RPC-063")
async def test_a_session_is_that_of_the_client_that_opened_it_last(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as first, daemon.connect() as second:
        session = await first.new_session()
        await second.new_session(sessionId=session)
        other = await first.new_session()
        assert (await first.call("status"))["sessionIds"] == [session, other]
        last = await second.new_session()
        assert (await first.call("status"))["sessionIds"] == [other, last]


@pytest.mark.req("RPC-063")
async def test_a_new_session_replaces_the_idle_ones_of_the_same_client_and_mode(serving: Serving) -> None:
    pause = Pause()
    provider = ScriptedProvider([pause])
    async with serving(provider=provider) as daemon, daemon.connect() as wire, daemon.connect() as stranger:
        foreign, other_mode = await stranger.new_session(), await wire.new_session(chatMode="acp")
        busy = await wire.new_session()
        await wire.send(prompt_frame(busy, "hi"))
        await pause.reached.wait()
        await wire.new_session()
        last = await wire.new_session()
        assert (await wire.call("status"))["sessionIds"] == [foreign, other_mode, busy, last]
        kept = await wire.new_session(keep_siblings=True)
        assert (await wire.call("status"))["sessionIds"] == [foreign, other_mode, busy, last, kept]
        pause.go.set()
        await wire.answer_to(7)


async def test_a_session_closed_in_the_middle_of_a_turn_ends_it_and_refuses_the_waiting(
    serving: Serving,
) -> None:
    pause = Pause()
    provider = ScriptedProvider([TextDelta("half"), pause])
    async with serving(provider=provider) as daemon, daemon.connect() as wire, daemon.connect() as other:
        session = await wire.new_session()
        await wire.send(prompt_frame(session, "one", "a"), prompt_frame(session, "two", "b"))
        await pause.reached.wait()
        await daemon.until(lambda: daemon.server.sessions.get(session).permit.pending == 2)
        assert (await other.call("session/close", {"sessionId": session})) == {
            "sessionId": session,
            "closed": True,
        }
        first = await wire.answer_to("a")
        assert first["result"]["stopReason"] == "cancelled"
        assert (await wire.answer_to("b"))["error"]["code"] == SESSION_NOT_FOUND
        ends = [u["params"]["reason"] for u in wire.updates if u["params"]["type"] == "turn_complete"]
        assert ends == ["session_removed", "session_not_found"]
        assert (await wire.fail("session/close", {"sessionId": session}))["code"] == SESSION_NOT_FOUND


@pytest.mark.parametrize("prompt", ["", " \n\t", None, 5])
async def test_a_prompt_must_say_something(serving: Serving, prompt: Any) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        error = await wire.fail("session/prompt", {"sessionId": await wire.new_session(), "prompt": prompt})
        assert error["code"] == INVALID_PARAMS
        assert not wire.updates


@pytest.mark.req("RPC-246")
async def test_a_sixty_fifth_session_is_refused_and_evicts_nothing(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        ids = [await wire.new_session(keepSiblings=True) for _ in range(64)]
        error = await wire.fail("session/new", {"agentAlias": "assistant"})
        assert (error["code"], error["data"]["reason"]) == (-32001, "session_limit")
        assert (await wire.call("status"))["sessionIds"] == ids
        await wire.call("session/close", {"sessionId": ids[0]})
        await wire.new_session(keepSiblings=True)


@pytest.mark.req("RPC-059", "RPC-123")
async def test_a_prompt_that_wants_no_answer_is_streamed_all_the_same(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        frame = prompt_frame(session, "hello")
        del frame["id"]
        await wire.send(frame)
        await daemon.until(lambda: len(daemon.server.sessions.get(session).history) == 2)
        await wire.ask("status")
        assert types(wire.updates) == ["agent_message_chunk", "turn_complete"]


@pytest.mark.req("PAINS-24")
async def test_a_session_left_alone_for_a_week_goes_on(serving: Serving) -> None:
    clock = ManualClock()
    provider = ScriptedProvider([TextDelta("one")], [TextDelta("two")])
    async with serving(provider=provider, clock=clock) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        await wire.call("session/prompt", {"sessionId": session, "prompt": "first"})
        clock.advance(7 * 24 * 3600)
        await wire.call("session/prompt", {"sessionId": session, "prompt": "second"})
        assert [getattr(message, "text", None) for message in provider.requests[1].messages] == [
            "first", "one", "second",
        ]  # fmt: skip


@pytest.mark.req("RPC-242", "PAINS-22")
async def test_a_cancel_sent_right_behind_a_prompt_finds_it(serving: Serving) -> None:
    async with serving(provider=ScriptedProvider([Pause()])) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        prompt = {
            "jsonrpc": "2.0",
            "method": "session/prompt",
            "params": {"sessionId": session, "prompt": "hi"},
        }
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
        state = {"jsonrpc": "2.0", "method": "session/state", "params": {"sessionId": session}}
        await wire.send({**prompt, "id": "p"}, {**state, "id": "s"}, {**cancel, "id": "c"})
        frames = [await wire.receive() for _ in range(4)]
        answers = {frame["id"]: frame.get("result") for frame in frames if "id" in frame}
        assert answers["s"]["state"] == "running"
        assert answers["s"]["turnId"]
        assert answers["c"] == {"sessionId": session, "cancelled": True}
        assert answers["p"] == {"sessionId": session, "stopReason": "cancelled", "content": ""}
