"""As many clients as the daemon admits, and nearly as many turns as it has sessions, over real sockets."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import anyio
import pytest

from zeroclaw_daemon.agent.providers.base import ModelEvent, ModelRequest, TextDelta
from zeroclaw_daemon.clock import SystemClock
from zeroclaw_daemon.rpc.limits import ConnectionLimits, ServerLimits

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

Serving = Callable[..., AbstractAsyncContextManager[Any]]

CONNECTIONS = 512
TURNS = 60
PIECES = 100
DEAF = "deaf"
PIECE = "x" * 4096
PATIENCE = 240
"""Seconds for everything, far above what it takes; a single call beside all of it has those that every answer has."""


@pytest.fixture(autouse=True)
def descriptors() -> Iterator[None]:
    """Both ends of every connection are in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Flood:
    """A model that says much, as fast as it is heard; how much, by the prompt."""

    def __init__(self) -> None:
        self.told: Counter[str] = Counter()
        self.begun = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        prompt = request.messages[-1].text
        self.begun += 1
        for _ in range(PIECES if prompt != DEAF else 1_000_000):
            yield TextDelta(PIECE)
            self.told[prompt] += 1


@pytest.mark.req("RPC-033", "RPC-036")
async def test_512_clients_are_served_and_the_next_is_told_why_not(serving: Serving) -> None:
    async with serving(socket=True, clock=SystemClock()) as daemon, AsyncExitStack() as stack:
        wires: list[Any] = []
        answered: list[int] = []

        async def arrive() -> None:
            wire = await stack.enter_async_context(daemon.connect_raw())
            wires.append(wire)
            await wire.initialize()

        async def ask(wire: Any) -> None:
            for _ in range(5):
                assert (await wire.call("status"))["connections"] == CONNECTIONS
                answered.append(1)

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for _ in range(CONNECTIONS):
                    tasks.start_soon(arrive)
            async with daemon.connect_raw() as refused:
                assert (await refused.rest())[0]["error"]["data"]["limit"] == CONNECTIONS
            async with anyio.create_task_group() as tasks:
                for wire in wires:
                    tasks.start_soon(ask, wire)
            assert len(answered) == CONNECTIONS * 5
            wires[0].close()
            await daemon.until(lambda: daemon.server.open_connections < CONNECTIONS)
            async with daemon.connect() as another:
                assert (await another.call("status"))["connections"] == CONNECTIONS


@pytest.mark.req("RPC-030", "RPC-031", "RPC-246")
async def test_sixty_turns_stream_beside_one_who_does_not_read(serving: Serving) -> None:
    flood = Flood()
    answered = 0
    whole = len(PIECE) * PIECES
    # Who does not read is to be there to the end, however slow the machine is.
    limits = ServerLimits(connection=ConnectionLimits(write_seconds=10 * PATIENCE))
    async with (
        serving(socket=True, provider=flood, clock=SystemClock(), limits=limits) as daemon,
        AsyncExitStack() as stack,
    ):
        heard: Counter[str] = Counter()
        over = anyio.Event()

        async def listen(name: str) -> None:
            wire = await stack.enter_async_context(daemon.connect())
            session = await wire.new_session(keepSiblings=True)
            await wire.send(prompt(session, name))
            while "result" not in (frame := await wire.receive()):
                heard[name] += len(frame["params"].get("text", ""))
            assert len(frame["result"]["content"]) == whole

        async def look() -> None:
            nonlocal answered
            wire = await stack.enter_async_context(daemon.connect())
            while not over.is_set():
                await wire.call("status")
                answered += 1

        def prompt(session: str, text: str) -> dict[str, Any]:
            params = {"sessionId": session, "prompt": text}
            return {"jsonrpc": "2.0", "method": "session/prompt", "params": params, "id": 7}

        with anyio.fail_after(PATIENCE):
            deaf = await stack.enter_async_context(daemon.connect())
            session = await deaf.new_session(keepSiblings=True)
            await deaf.send(prompt(session, DEAF))
            async with anyio.create_task_group() as watch:
                watch.start_soon(look)
                async with anyio.create_task_group() as tasks:
                    for number in range(TURNS - 1):
                        tasks.start_soon(listen, f"turn {number}")
                over.set()
            other = await stack.enter_async_context(daemon.connect())
            assert (await other.call("session/state", {"sessionId": session}))["state"] == "running"
        assert flood.begun == TURNS
        assert set(heard.values()) == {whole}
        assert answered > 10
        # What waits for the one who does not read is bounded: the daemon's queue, what lies in the socket, what is on its way.
        assert flood.told[DEAF] < 64 + 200
