"""Our client, against a daemon that follows a script."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest

from zeroclaw_daemon.rpc.client import Client, connected
from zeroclaw_daemon.rpc.errors import ConnectionLost, RemoteError
from zeroclaw_daemon.rpc.transport.base import Transport
from zeroclaw_daemon.rpc.transport.memory import memory_pair
from zeroclaw_daemon.rpc.transport.unix import connect

pytestmark = pytest.mark.anyio

WireOver = Callable[[Transport], Any]
Serving = Callable[..., AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def scripted(wire_over: WireOver) -> AsyncGenerator[tuple[Client, Any]]:
    near, far = memory_pair()
    async with connected(near) as client:
        yield client, wire_over(far)


async def calling(client: Client, outcome: list[Any]) -> None:
    try:
        outcome.append(await client.call("status"))
    except (RemoteError, ConnectionLost) as error:
        outcome.append(error)


@pytest.mark.req("RPC-251")
async def test_the_client_counts_its_own_questions(wire_over: WireOver) -> None:
    async with scripted(wire_over) as (client, daemon), anyio.create_task_group() as tasks:
        for number in range(2):
            outcome: list[Any] = []
            tasks.start_soon(calling, client, outcome)
            question = await daemon.receive()
            assert question == {"jsonrpc": "2.0", "method": "status", "params": {}, "id": f"zc-out-{number}"}
            await daemon.send({"jsonrpc": "2.0", "id": question["id"], "result": {"n": number}})
            await daemon.ask("x")
            assert outcome == [{"n": number}]


@pytest.mark.req("RPC-251", "RPC-090", "RPC-088")
async def test_the_same_id_in_both_directions_resolves_both(wire_over: WireOver) -> None:
    async with scripted(wire_over) as (client, daemon), anyio.create_task_group() as tasks:
        outcome: list[Any] = []
        tasks.start_soon(calling, client, outcome)
        assert (await daemon.receive())["id"] == "zc-out-0"
        await daemon.send({"jsonrpc": "2.0", "method": "elicitation/create", "params": {}, "id": "zc-out-0"})
        answer = await daemon.receive()
        assert answer["id"] == "zc-out-0"
        assert answer["error"]["code"] == -32601
        assert outcome == []
        await daemon.send({"jsonrpc": "2.0", "id": "zc-out-0", "result": None})
        await daemon.ask("x")
        assert outcome == [None]


@pytest.mark.req("RPC-251")
async def test_a_malformed_answer_is_dropped_and_the_call_goes_on(wire_over: WireOver) -> None:
    async with scripted(wire_over) as (client, daemon), anyio.create_task_group() as tasks:
        outcome: list[Any] = []
        tasks.start_soon(calling, client, outcome)
        await daemon.receive()
        await daemon.send({"jsonrpc": "2.0", "id": "zc-out-0", "result": 1, "error": None})
        await daemon.ask("x")
        assert outcome == []
        await daemon.send({"jsonrpc": "2.0", "id": "zc-out-0", "error": {"code": 5, "message": "no"}})
        await daemon.ask("x")
        assert isinstance(outcome[0], RemoteError)
        assert (outcome[0].error.code, outcome[0].reason) == (5, None)


@pytest.mark.req("RPC-251")
async def test_calls_fail_at_once_when_the_daemon_is_gone(wire_over: WireOver) -> None:
    async with scripted(wire_over) as (client, daemon):
        async with anyio.create_task_group() as tasks:
            outcome: list[Any] = []
            tasks.start_soon(calling, client, outcome)
            await daemon.receive()
            daemon.close()
        assert isinstance(outcome[0], ConnectionLost)
        with pytest.raises(ConnectionLost), anyio.fail_after(60):
            await client.call("status")


async def test_what_was_said_before_an_answer_is_there_when_the_call_returns(wire_over: WireOver) -> None:
    async with scripted(wire_over) as (client, daemon), anyio.create_task_group() as tasks:
        with client.notifications() as heard:
            outcome: list[Any] = []
            tasks.start_soon(calling, client, outcome)
            await daemon.receive()
            await daemon.send(
                *({"jsonrpc": "2.0", "method": "session/update", "params": {"n": n}} for n in range(100)),
                {"jsonrpc": "2.0", "id": "zc-out-0", "result": 1},
            )
            while not outcome:
                await anyio.lowlevel.checkpoint()
            assert [heard.receive_nowait().params["n"] for _ in range(100)] == list(range(100))
            daemon.close()
            with anyio.fail_after(60), pytest.raises(anyio.EndOfStream):
                await heard.receive()


async def test_the_client_and_the_daemon_understand_each_other(serving: Serving) -> None:
    async with serving(socket=True) as daemon, connected(await connect(daemon.path)) as client:
        assert (await client.initialize())["protocolVersion"] == 1
        session = (await client.call("session/new", {"agentAlias": "assistant"}))["sessionId"]
        with client.notifications() as heard:
            result = await client.call("session/prompt", {"sessionId": session, "prompt": "hello world"})
            assert result["content"] == "hello world"
            texts = [heard.receive_nowait().params.get("text") for _ in range(2)]
            assert texts == ["hello ", "world"]
        with pytest.raises(RemoteError) as caught:
            await client.call("session/new", {"agentAlias": "nobody"})
        assert caught.value.reason == "agent_not_found"
