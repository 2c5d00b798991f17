"""Prompts as streams: what comes of them, in order, and how they end."""

from __future__ import annotations

import anyio
import pytest
from scripted_daemon import update

from zeroclaw_daemon.client import (
    AnswerChunk,
    ConnectionLost,
    HistoryTrimmed,
    OtherUpdate,
    PlanChanged,
    RemoteError,
    ToolCall,
    ToolResult,
    Turn,
    TurnComplete,
    Update,
)

pytestmark = pytest.mark.anyio

RESULT = {"sessionId": "s", "stopReason": "end_turn", "content": "Hello"}


async def taken(turn: Turn) -> list[Update]:
    """Everything that comes of a turn."""
    with anyio.fail_after(60):
        return [update async for update in turn]


@pytest.mark.req("RPC-251")
async def test_a_prompt_is_a_stream_of_typed_updates_and_then_a_result(meet) -> None:
    async with meet() as (client, daemon):
        turn = client.prompt("s", "hi")
        request = await daemon.asked("session/prompt")
        assert request["params"] == {"sessionId": "s", "prompt": "hi", "clientTurnGeneration": 1}
        await daemon.send(
            update("s", "agent_message_chunk", text="Hel"),
            update("other", "agent_message_chunk", text="not ours"),
            update("s", "tool_call", toolCallId="t", name="bash", rawInput={"command": "ls"}),
            update("s", "tool_result", toolCallId="t", name="bash", rawOutput="a\n"),
            update("s", "plan", entries=[{"content": "do", "status": "pending", "priority": "high"}]),
            update("s", "history_trimmed", droppedMessages=2, later="member"),
            update("s", "from_the_future", text="x"),
            update("s", "agent_message_chunk", text=["no", "text"]),
            update("s", "turn_complete", outcome="completed", content="Hello", clientTurnGeneration=1),
        )
        await daemon.answer(request, RESULT)
        updates = await taken(turn)
        assert [type(each) for each in updates] == [
            AnswerChunk, ToolCall, ToolResult, PlanChanged, HistoryTrimmed, OtherUpdate, OtherUpdate, TurnComplete,
        ]  # fmt: skip
        assert isinstance(updates[1], ToolCall)
        assert updates[1].raw_input == {"command": "ls"}
        assert updates[5].params == {"sessionId": "s", "type": "from_the_future", "text": "x"}
        assert (turn.result.stop_reason, turn.result.content) == ("end_turn", "Hello")


async def test_updates_are_given_as_they_come(meet) -> None:
    async with meet() as (client, daemon):
        turn = client.prompt("s", "hi")
        request = await daemon.asked("session/prompt")
        for text in ("a", "b"):
            await daemon.update("s", "agent_message_chunk", text=text)
            with anyio.fail_after(60):
                piece = await anext(turn)
            assert isinstance(piece, AnswerChunk)
            assert piece.text == text
        with pytest.raises(RuntimeError):
            _ = turn.result
        await daemon.answer(request, RESULT)
        assert await taken(turn) == []


async def test_two_prompts_of_one_session_have_each_their_own_updates(meet) -> None:
    async with meet() as (client, daemon):
        first, second = client.prompt("s", "one"), client.prompt("s", "two")
        requests = [await daemon.asked("session/prompt") for _ in range(2)]
        assert [request["params"]["clientTurnGeneration"] for request in requests] == [1, 2]
        # The second is refused while the first still runs.
        await daemon.update("s", "agent_message_chunk", text="1")
        await daemon.update("s", "turn_complete", outcome="failed", content="", clientTurnGeneration=2)
        await daemon.refuse(requests[1], -32002, "busy", reason="session_busy")
        await daemon.update("s", "agent_message_chunk", text="2")
        await daemon.update("s", "turn_complete", outcome="completed", content="12", clientTurnGeneration=1)
        await daemon.answer(requests[0], {**RESULT, "content": "12"})
        assert [type(each) for each in await taken(first)] == [AnswerChunk, AnswerChunk, TurnComplete]
        assert isinstance(await anext(second), TurnComplete)
        with pytest.raises(RemoteError) as caught:
            await anext(second)
        assert caught.value.reason == "session_busy"


async def test_what_comes_right_behind_a_refusal_belongs_to_the_next_prompt(meet) -> None:
    async with meet() as (client, daemon):
        first, second = client.prompt("s", ""), client.prompt("s", "two")
        requests = [await daemon.asked("session/prompt") for _ in range(2)]
        error = {
            "code": -32602,
            "message": "a prompt must not be blank",
            "data": {"reason": "invalid_params"},
        }
        await daemon.send(
            {"id": requests[0]["id"], "error": error},
            update("s", "agent_message_chunk", text="2"),
            update("s", "turn_complete", outcome="completed", clientTurnGeneration=2),
            {"id": requests[1]["id"], "result": RESULT},
        )
        with pytest.raises(RemoteError), anyio.fail_after(60):
            await anext(first)
        assert [type(each) for each in await taken(second)] == [AnswerChunk, TurnComplete]


async def test_a_turn_that_is_over_has_nothing_to_cancel_and_does_not_cancel_the_next(meet) -> None:
    async with meet() as (client, daemon):
        turn = client.prompt("s", "hi")
        await daemon.answer(await daemon.asked("session/prompt"), RESULT)
        await turn.finished()
        with anyio.fail_after(60):
            await turn.cancel()
        await daemon.settle()  # it said nothing to the daemon


async def test_prompts_that_queue_take_turns(meet) -> None:
    async with meet() as (client, daemon):
        turns = [client.prompt("s", "one"), client.prompt("s", "two")]
        requests = [await daemon.asked("session/prompt") for _ in turns]
        for number, request in enumerate(requests, 1):
            await daemon.update("s", "agent_message_chunk", text=str(number))
            await daemon.update("s", "turn_complete", outcome="completed", clientTurnGeneration=number)
            await daemon.answer(request, {**RESULT, "content": str(number)})
        for number, turn in enumerate(turns, 1):
            chunk, _ = await taken(turn)
            assert chunk.params["text"] == str(number)
            assert turn.result.content == str(number)


@pytest.mark.req("RPC-251")
async def test_a_daemon_that_is_killed_in_the_middle_of_a_prompt_fails_it_at_once_and_keeps_what_came(
    meet,
) -> None:
    async with meet() as (client, daemon):
        turn = client.prompt("s", "hi")
        await daemon.asked("session/prompt")
        await daemon.update("s", "agent_message_chunk", text="part")
        daemon.hang_up()
        with anyio.fail_after(60):
            assert (await anext(turn)).params["text"] == "part"
            with pytest.raises(ConnectionLost) as caught:
                await anext(turn)
        assert "session/prompt" in caught.value.message
        with pytest.raises(ConnectionLost):
            await turn.finished()
        with pytest.raises(ConnectionLost), anyio.fail_after(60):
            await client.prompt("s", "again").finished()


async def test_the_last_words_of_a_daemon_say_why_it_ended_the_connection(meet) -> None:
    words = {"code": -32600, "message": "too long", "data": {"reason": "frame_too_large"}}
    async with meet() as (client, daemon):
        turn = client.prompt("s", "hi")
        await daemon.asked("session/prompt")
        await daemon.send({"id": None, "error": words})
        daemon.hang_up()
        with pytest.raises(ConnectionLost, match="too long") as caught:
            await turn.finished()
        assert caught.value.last_words is not None
        assert caught.value.last_words.to_json() == words


async def test_an_error_about_nothing_that_is_followed_by_something_is_no_last_word(meet) -> None:
    async with meet() as (client, daemon):
        turn = client.prompt("s", "hi")
        await daemon.asked("session/prompt")
        await daemon.send({"id": None, "error": {"code": -32600, "message": "no"}})
        await daemon.update("s", "agent_message_chunk", text="a")
        daemon.hang_up()
        with pytest.raises(ConnectionLost) as caught:
            await turn.finished()
        assert caught.value.last_words is None


async def test_cancelling_a_turn_asks_the_daemon_and_ends_with_what_there_is(meet) -> None:
    async with meet() as (client, daemon), anyio.create_task_group() as tasks:
        turn = client.prompt("s", "hi")
        prompt = await daemon.asked("session/prompt")
        tasks.start_soon(turn.cancel)
        cancel = await daemon.asked("session/cancel")
        await daemon.answer(cancel, {"sessionId": "s", "cancelled": True})
        await daemon.answer(prompt, {**RESULT, "stopReason": "cancelled", "content": "Hel"})
        result = await turn.finished()
        assert (result.stop_reason, result.content) == ("cancelled", "Hel")


async def test_what_belongs_to_no_turn_is_heard_by_whoever_asked_to(meet) -> None:
    heard: list[Update] = []
    async with meet(hear=heard.append) as (_, daemon):
        await daemon.update("s", "plan", entries=[])
        await daemon.send({"method": "session/update", "params": {"type": "plan"}})
        await daemon.send({"method": "logs/event", "params": {"sessionId": "s"}})
        await daemon.settle()
        assert [type(each) for each in heard] == [PlanChanged]


async def test_leaving_the_client_ends_the_turns_it_has(meet) -> None:
    async with meet() as (client, daemon):
        turn = client.prompt("s", "hi")
        await daemon.asked("session/prompt")
    with pytest.raises(ConnectionLost):
        await turn.finished()
