"""No line of the daemon is longer than a line may be, whatever was said, and no client sends one that is."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest

from zeroclaw_daemon.agent.providers.base import TextDelta, ToolCall
from zeroclaw_daemon.rpc.client import CLIENT_LIMITS, Client, connected
from zeroclaw_daemon.rpc.errors import FrameTooLarge
from zeroclaw_daemon.rpc.framing import MAX_FRAME_BYTES
from zeroclaw_daemon.rpc.transport.memory import memory_pair
from zeroclaw_daemon.strict_json import encode

pytestmark = pytest.mark.anyio

House = Callable[..., AbstractAsyncContextManager[Any]]
WireOver = Callable[..., Any]

CUT = "…[truncated]"
LONG = "é" * (MAX_FRAME_BYTES // 2 + 1)


def longest(raw: bytes) -> int:
    """Of the lines, each with its end."""
    return max(map(len, raw.splitlines(keepends=True)))


@pytest.mark.req("RPC-251")
async def test_an_answer_that_fits_in_no_line_comes_in_pieces_and_its_end_is_cut(house: House) -> None:
    async with house([TextDelta(LONG)], [TextDelta("short")]) as it:
        session = await it.wire.new_session(chatMode="acp")
        result = await it.wire.call("session/prompt", {"sessionId": session, "prompt": "go"})
        told = [update["params"] for update in it.wire.updates]
        chunks = [update["text"] for update in told if update["type"] == "agent_message_chunk"]
        assert len(chunks) > 1
        assert "".join(chunks) == LONG
        (end,) = [update for update in told if update["type"] == "turn_complete"]
        for content in (end["content"], result["content"]):
            assert content.endswith(CUT)
            assert LONG.startswith(content.removesuffix(CUT))
            assert len(content) > 100_000
        page = await it.wire.call("session/messages", {"sessionId": session})
        while page["messages"][0]["content"] != "go":
            assert page["messages"][-1]["content"].endswith(CUT)
            page = await it.wire.call(
                "session/messages", {"sessionId": session, "beforeIndex": page["start"]}
            )
        assert longest(it.wire.raw) <= MAX_FRAME_BYTES
        # What was said before is whole for the model, and the connection goes on.
        short = await it.wire.call("session/prompt", {"sessionId": session, "prompt": "again"})
        assert short["content"] == "short"
        assert it.provider.requests[-1].messages[-2].text == LONG


@pytest.mark.req("RPC-251")
async def test_a_call_of_a_tool_that_fits_in_no_line_is_told_cut(house: House) -> None:
    arguments = json.dumps({"text": LONG}, ensure_ascii=False)
    async with house([ToolCall("1", "nothing", arguments)], [TextDelta("done")]) as it:
        session = await it.wire.new_session(chatMode="acp")
        await it.wire.call("session/prompt", {"sessionId": session, "prompt": "go"})
        (call,) = [u["params"] for u in it.wire.updates if u["params"]["type"] == "tool_call"]
        assert (call["toolCallId"], call["name"]) == ("1", "nothing")
        assert call["rawInput"].endswith(CUT)
        page = await it.wire.call("session/messages", {"sessionId": session, "limit": 1, "beforeIndex": 2})
        assert page["messages"][0]["toolInput"].endswith(CUT)
        assert longest(it.wire.raw) <= MAX_FRAME_BYTES


async def test_half_a_pair_makes_nothing_longer_but_itself() -> None:
    assert encode("é\ud800") == '"é\\ud800"'.encode()
    assert json.loads(encode(["\udfff\ud800é", {"\ud800": 1}])) == ["\udfff\ud800é", {"\ud800": 1}]


@asynccontextmanager
async def client_of(wire_over: WireOver) -> AsyncGenerator[tuple[Client, Any]]:
    near, far = memory_pair(capacity=65536)
    async with connected(near, limits=CLIENT_LIMITS) as client:
        yield client, wire_over(far)


@pytest.mark.req("RPC-251")
async def test_a_client_sends_no_line_that_is_too_long_and_stays_connected(wire_over: WireOver) -> None:
    async with client_of(wire_over) as (client, daemon):
        around = len(encode({"jsonrpc": "2.0", "method": "m", "params": {"a": ""}, "id": "zc-out-0"})) + 1
        with pytest.raises(FrameTooLarge):
            await client.call("m", {"a": "x" * (MAX_FRAME_BYTES - around + 1)})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call, "m", {"a": "x" * (MAX_FRAME_BYTES - around)})
            asked = await daemon.receive()
            assert asked["id"] == "zc-out-0"
            assert len(daemon.raw) == MAX_FRAME_BYTES
            await daemon.send({"jsonrpc": "2.0", "id": asked["id"], "result": 1})
