"""What a daemon's life ends by: a signal, and for an ephemeral one the going of its last client."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from raw_client import RawClient

from zeroclaw_daemon.agent.directory import FixedAgents
from zeroclaw_daemon.app import Daemon
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.rpc.limits import ServerLimits
from zeroclaw_daemon.rpc.server import Server
from zeroclaw_daemon.rpc.transport.memory import MemoryListener

INITIALIZE = '{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":1},"id":1}'
PATIENCE = 60


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Life:
    """A daemon's waiting for its end, over a server in memory and a clock that stands."""

    def __init__(self, home, *, ephemeral: bool) -> None:
        self.clock = ManualClock()
        self.listener = MemoryListener()
        authority = RosterAuthority(Config, None, os.geteuid())
        self.server = Server(
            self.listener, agents=FixedAgents(), authority=authority, version="1", clock=self.clock
        )
        self.daemon = Daemon(Paths.resolve(None, {"HOME": str(home.path)}), {}, ephemeral=ephemeral)
        self.signalled = anyio.Event()
        self.cause: str | None = None

    async def signals(self) -> AsyncGenerator[signal.Signals]:
        await self.signalled.wait()
        yield signal.SIGTERM

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async def wait() -> None:
            self.cause = await self.daemon._until_told(self.signals(), self.server)
            self.server.stop()

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                await tasks.start(self.server.serve)
                tasks.start_soon(wait)
                yield

    async def a_client_comes_and_goes(self) -> None:
        self.listener.connect().close()
        while not self.server.presence.arrivals or self.server.presence.count:
            await anyio.lowlevel.checkpoint()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()


@pytest.mark.anyio
@pytest.mark.req("RPC-217")
async def test_an_ephemeral_daemon_ends_for_want_of_clients(home) -> None:
    life = Life(home, ephemeral=True)
    async with life.running():
        await life.a_client_comes_and_goes()
        assert life.cause is None
        life.clock.advance(1.01)
    assert life.cause == "no_clients"


@pytest.mark.anyio
@pytest.mark.req("RPC-221")
async def test_any_other_ends_by_a_signal_alone(home) -> None:
    life = Life(home, ephemeral=False)
    async with life.running():
        await life.a_client_comes_and_goes()
        assert life.clock.waits == 0  # nothing waits for a time that could come
        life.clock.advance(1_000_000)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert life.cause is None
        life.signalled.set()
    assert life.cause == "SIGTERM"


@pytest.mark.anyio
@pytest.mark.req("RPC-220")
async def test_an_ephemeral_one_ends_by_a_signal_too(home) -> None:
    life = Life(home, ephemeral=True)
    async with life.running():
        life.signalled.set()
    assert life.cause == "SIGTERM"


def test_connections_have_the_documented_time_to_unwind() -> None:
    assert ServerLimits().drain_seconds == 5.5


@pytest.mark.realtime
@pytest.mark.req("RPC-217", "RPC-218", "RPC-219", "RPC-220")
def test_in_real_time_it_outlives_a_reconnect_and_ends_well(home, start_daemon) -> None:
    daemon = start_daemon(arguments=("--ephemeral",))
    time.sleep(2)
    assert daemon.process.poll() is None  # nobody has come yet
    with socket.socket(socket.AF_UNIX) as first:
        first.connect(str(home.socket))
        assert daemon.ask(home.socket, INITIALIZE)[0]["id"] == 1
        time.sleep(2)
        assert daemon.process.poll() is None  # the first is still there
    assert daemon.ask(home.socket, INITIALIZE)[0]["id"] == 1
    began = time.monotonic()
    assert daemon.process.wait(PATIENCE) == 0
    assert time.monotonic() - began > 0.9
    assert not home.socket.exists()
    ended = [record for record in home.log() if record["event"]["action"] == "stop"]
    assert [record["attributes"]["cause"] for record in ended] == ["no_clients"]


@pytest.mark.req("RPC-221", "RPC-254")
def test_told_to_stop_in_the_middle_of_a_turn_it_says_how_the_turn_ended(home, start_daemon) -> None:
    daemon = start_daemon()
    with RawClient(home.socket) as client, RawClient(home.socket) as other:
        client.initialize()
        other.initialize()
        session = client.call("session/new", {"agentAlias": "assistant"})["sessionId"]
        prompt = {"sessionId": session, "prompt": "/slow 3600000 never"}
        client.send("session/prompt", prompt, "turn")
        while other.call("session/state", {"sessionId": session})["state"] != "running":
            pass
        daemon.process.send_signal(signal.SIGHUP)  # changes nothing
        assert other.call("session/state", {"sessionId": session})["state"] == "running"
        daemon.process.send_signal(signal.SIGTERM)
        frames = []
        while (frame := client.receive_or_end()) is not None:
            frames.append(frame)
        assert frames[-1]["result"]["stopReason"] == "cancelled"
        assert frames[-2]["params"]["type"] == "turn_complete"
        assert frames[-2]["params"]["reason"] == "daemon_stopping"
        assert other.receive_or_end() is None
    assert daemon.process.wait(PATIENCE) == 0
    assert not home.socket.exists()


@pytest.mark.req("RPC-037", "RPC-033")
def test_the_ceiling_is_the_one_of_the_start(home, start_daemon) -> None:
    home.configure("schema_version = 1\n[rpc]\nmax_local_connections = 2\n")
    daemon = start_daemon()
    change = '{"jsonrpc":"2.0","method":"config/set","params":{"prop":"rpc.max_local_connections","value":10},"id":4}'
    reload = '{"jsonrpc":"2.0","method":"config/reload","id":2}'
    value = '{"jsonrpc":"2.0","method":"config/get","params":{"prop":"rpc.max_local_connections"},"id":3}'
    answers = daemon.ask(home.socket, INITIALIZE, change, reload, value)
    assert answers[1]["result"]["set"] is True
    assert (answers[2]["result"]["reloading"], answers[3]["result"]["value"]) == (True, "10")
    taken = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    try:
        for client in taken:
            client.settimeout(PATIENCE)
            client.connect(str(home.socket))
            client.sendall(f"{INITIALIZE}\n".encode())
            assert b'"result"' in client.recv(65_536)
        refused = daemon.ask(home.socket)
        assert [answer["error"]["data"] for answer in refused] == [{"reason": "connection_limit", "limit": 2}]
    finally:
        for client in taken:
            client.close()
