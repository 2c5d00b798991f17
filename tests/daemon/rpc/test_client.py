"""Our client, against a daemon that follows a script."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from zeroclaw_daemon.client import (
    Accepted,
    ApprovalRequest,
    Decision,
    Question,
    ToolResult,
    Verdict,
    open_client,
)
from zeroclaw_daemon.clock import ManualClock, SystemClock
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


async def test_whoever_listens_after_the_end_hears_it_at_once(wire_over: WireOver) -> None:
    async with scripted(wire_over) as (client, daemon):
        daemon.close()
        with anyio.fail_after(60):
            await client.ended()
            with client.notifications() as heard:
                assert [each async for each in heard] == []


async def test_whoever_stops_listening_takes_nothing_from_the_others(wire_over: WireOver) -> None:
    async with scripted(wire_over) as (client, daemon):
        with client.notifications() as bored, client.notifications() as heard:
            bored.close()
            await daemon.send({"jsonrpc": "2.0", "method": "session/update", "params": {"n": 1}})
            await daemon.ask("x")
            assert heard.receive_nowait().params == {"n": 1}


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


class LosesOneReply:
    """A connection on which one line of the daemon never arrives."""

    def __init__(self, transport: Transport, holding: bytes) -> None:
        self._transport = transport
        self._holding = holding
        self._unread = b""
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    async def receive(self, max_bytes: int) -> bytes:
        while b"\n" not in self._unread:
            data = await self._transport.receive(max_bytes)
            if not data:
                return b""
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        if not self.lost and self._holding in line:
            self.lost += 1
            return await self.receive(max_bytes)
        return line + b"\n"


@pytest.mark.parametrize("holding", [b'"received_bytes":5242880', b'"workspace_path"'])
async def test_a_file_of_ten_mebibytes_whose_reply_is_lost_lands_once(
    serving: Serving, tmp_path: Path, holding: bytes
) -> None:
    data = bytes(range(256)) * 40960
    clock = ManualClock()
    async with serving(socket=True, clock=SystemClock()) as daemon:
        lossy = LosesOneReply(await connect(daemon.path), holding)
        async with open_client(lossy, clock=clock) as client, anyio.create_task_group() as tasks:
            session = (await client.new_session("assistant")).session_id
            entries: list[Any] = []

            async def upload() -> None:
                entries.append(await client.upload(session, data, filename="large.bin"))

            tasks.start_soon(upload)
            with anyio.fail_after(60):
                while not (lossy.lost and clock.waits):
                    await anyio.lowlevel.checkpoint()
            clock.advance(30)
            with anyio.fail_after(60):
                while not entries:
                    await anyio.lowlevel.checkpoint()
            again = await client.upload(session, data)
    [stored] = (tmp_path / "uploads").iterdir()
    assert stored.read_bytes() == data
    assert entries[0].deduplicated is (holding == b'"workspace_path"')
    assert (again.deduplicated, again.ref_id) == (True, entries[0].ref_id)


async def test_the_typed_client_holds_a_conversation_with_the_daemon(serving: Serving) -> None:
    async def approve(request: ApprovalRequest) -> Verdict:
        return Verdict(Decision.ALLOW_ONCE if "40" in request.arguments_summary else Decision.REJECT)

    async def answer(question: Question) -> Accepted:
        return Accepted({"answer": question.message.upper()})

    config = "schema_version = 1\n[agents.assistant]\n"
    async with (
        serving(socket=True, config=config, clock=SystemClock()) as daemon,
        open_client(await connect(daemon.path), approve=approve, answer=answer) as client,
    ):
        assert client.introduced is not None
        assert "session/prompt" in client.introduced.capabilities
        opened = await client.new_session("assistant", session_id="s")
        assert (opened.message_count, (await client.status()).session_ids) == (0, ["s"])
        for prompt, told in (
            ('/tool bash {"command": "echo $((40 + 2))"}', "42"),
            ('/tool bash {"command": "echo $((50 + 2))"}', "rejected"),
            ('/tool ask_user {"question": "why?"}', "WHY?"),
        ):
            turn = client.prompt("s", prompt)
            results = [each async for each in turn if isinstance(each, ToolResult)]
            assert [told in each.raw_output for each in results] == [True]
            assert turn.result.stop_reason == "end_turn"
        page = await client.messages("s", limit=2)
        assert page.start is not None
        older = await client.messages("s", before_index=page.start)
        assert [entry.kind for entry in (*older.messages, *page.messages)].count("tool_result") == 3
        assert (await client.messages_page("s")).has_older is False
        assert (await client.session_state("s")).state == "idle"
        configured = await client.configure_session("s", {"model": "m", "temperature": 0.5})
        assert (configured.overrides.model, configured.overrides.temperature) == ("m", 0.5)
        assert (await client.prompt("s", "/model").finished()).content == "m"
        assert [row.session_id for row in (await client.list_acp_sessions()).sessions] == ["s"]
        assert (await client.list_sessions()).sessions == []
        assert (await client.kill_session("s")).killed
        assert (await client.delete_session("s")).deleted
        assert (await client.config_set("gateway.port", 5)).set
        assert (await client.config_get("gateway.port")).value == "5"
        assert (await client.config()).model_extra is not None
        assert (await client.config_delete("gateway.port")).deleted
        assert [each.path for each in (await client.config_list("gateway.port")).entries] == ["gateway.port"]
        assert (await client.config_validate()).valid
        await client.map_key_create("agents", "ada")
        assert (await client.map_key_rename("agents", "ada", "bob")).new == "bob"
        assert "bob" in (await client.map_keys("agents")).keys
        assert (await client.map_key_delete("agents", "bob")).deleted
