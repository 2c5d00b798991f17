"""When an ephemeral daemon ends: after its last client, and never before its first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest

from zeroclaw_daemon.agent.providers.base import TextDelta
from zeroclaw_daemon.agent.providers.scripted import ScriptedProvider
from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.rpc.limits import ConnectionLimits, ServerLimits
from zeroclaw_daemon.rpc.presence import GRACE_SECONDS, Presence

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]


class Watch:
    """Whether the daemon would have ended by now."""

    def __init__(self, clock: ManualClock) -> None:
        self.over = False
        self._clock = clock

    async def settled(self) -> None:
        """Let everything happen that is due."""
        for _ in range(50):
            await anyio.lowlevel.checkpoint()

    async def after(self, seconds: float) -> bool:
        """Whether it has ended once this much time has passed."""
        await self.settled()
        self._clock.advance(seconds)
        await self.settled()
        return self.over


@asynccontextmanager
async def watched(daemon: Any) -> AsyncGenerator[Watch]:
    watch = Watch(daemon.clock)

    async def until_deserted() -> None:
        await daemon.server.deserted()
        watch.over = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(until_deserted)
        yield watch
        tasks.cancel_scope.cancel()


def test_the_shipped_grace_is_one_second() -> None:
    assert GRACE_SECONDS == 1.0


@pytest.mark.req("RPC-217", "RPC-262")
@pytest.mark.parametrize("initialize", [True, False])
async def test_it_ends_one_second_after_the_last_client_however_short_that_was(
    serving: Serving, initialize: bool
) -> None:
    async with serving() as daemon, watched(daemon) as watch:
        async with daemon.connect(initialize=initialize):
            pass
        await daemon.until(lambda: daemon.server.presence.arrivals == 1 and not daemon.server.presence.count)
        assert not await watch.after(0.99)
        assert await watch.after(0.02)


@pytest.mark.req("RPC-218")
async def test_a_client_within_the_grace_period_takes_it_back(serving: Serving) -> None:
    async with serving() as daemon, watched(daemon) as watch:
        async with daemon.connect():
            pass
        await daemon.until(lambda: not daemon.server.presence.count)
        assert not await watch.after(0.5)
        async with daemon.connect() as wire:
            assert not await watch.after(5)
            await wire.call("status")
        await daemon.until(lambda: not daemon.server.presence.count)
        assert not await watch.after(0.99)
        assert await watch.after(0.02)


@pytest.mark.req("RPC-218", "RPC-262")
async def test_a_client_that_came_and_went_within_the_grace_period_begins_it_anew(serving: Serving) -> None:
    async with serving() as daemon, watched(daemon) as watch:
        async with daemon.connect():
            pass
        await daemon.until(lambda: not daemon.server.presence.count)
        assert not await watch.after(0.9)
        async with daemon.connect(initialize=False):
            pass
        await daemon.until(lambda: daemon.server.presence.arrivals == 2 and not daemon.server.presence.count)
        assert not await watch.after(0.9)
        assert await watch.after(0.2)


@pytest.mark.req("RPC-218")
async def test_time_and_a_client_that_come_together_are_a_client() -> None:
    clock, presence = ManualClock(), Presence()
    over = anyio.Event()

    async def until_deserted() -> None:
        await presence.deserted(clock)
        over.set()

    async with anyio.create_task_group() as tasks:
        with presence.counted():
            tasks.start_soon(until_deserted)
            await anyio.lowlevel.checkpoint()
        while not clock.waits:
            await anyio.lowlevel.checkpoint()
        clock.advance(1)
        with presence.counted():
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
            assert not over.is_set()
        while not clock.waits:
            await anyio.lowlevel.checkpoint()
        clock.advance(1)
        await over.wait()


@pytest.mark.req("RPC-218", "RPC-262")
async def test_no_client_is_too_quick_to_be_seen() -> None:
    clock, presence = ManualClock(), Presence()
    watch = Watch(clock)

    async def until_deserted() -> None:
        await presence.deserted(clock)
        watch.over = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(until_deserted)
        await watch.settled()
        for _ in range(3):
            with presence.counted():
                pass  # nothing else runs meanwhile
            assert not await watch.after(0.9)
        assert await watch.after(0.2)


@pytest.mark.req("RPC-219")
async def test_it_goes_on_while_one_of_several_clients_is_there(serving: Serving) -> None:
    async with serving() as daemon, watched(daemon) as watch, daemon.connect():
        async with daemon.connect():
            pass
        await daemon.until(lambda: daemon.server.presence.count == 1)
        assert not await watch.after(5)


@pytest.mark.req("RPC-220")
async def test_it_never_ends_before_a_first_client(serving: Serving) -> None:
    async with serving() as daemon, watched(daemon) as watch:
        assert not await watch.after(1_000_000)


@pytest.mark.req("RPC-222")
async def test_a_client_that_is_refused_counts_for_nothing(serving: Serving) -> None:
    async with serving(limits=ServerLimits(max_connections=1)) as daemon, watched(daemon) as watch:
        async with daemon.connect(), daemon.connect_raw() as refused:
            assert (await refused.receive())["error"]["code"] == -32004
            assert daemon.server.presence.count == 1
        await daemon.until(lambda: not daemon.server.presence.count)
        assert daemon.server.presence.arrivals == 1
        assert await watch.after(1.01)


@pytest.mark.req("RPC-222")
async def test_a_refused_client_that_stays_does_not_keep_it(serving: Serving) -> None:
    async with serving(limits=ServerLimits(max_connections=1)) as daemon, watched(daemon) as watch:
        first = daemon.connect()
        await first.__aenter__()
        async with daemon.connect_raw() as refused:
            assert (await refused.receive())["error"]["code"] == -32004
            await first.__aexit__(None, None, None)
            await daemon.until(lambda: not daemon.server.presence.count)
            assert await watch.after(1.01)


@pytest.mark.req("RPC-262")
async def test_a_turn_that_winds_down_counts_until_its_end(serving: Serving) -> None:
    """The client broke a limit, so its connection ends at once, and its turn a little later."""
    winding, go = anyio.Event(), anyio.Event()

    class Slow(ScriptedProvider):
        async def stream(self, *arguments: Any, **options: Any) -> Any:
            try:
                yield TextDelta("half")
                await anyio.sleep_forever()
            finally:
                winding.set()
                with anyio.CancelScope(shield=True):
                    await go.wait()

    limits = ServerLimits(connection=ConnectionLimits(frame_bytes=1000, terminal_seconds=0.5))
    async with serving(provider=Slow([]), limits=limits) as daemon, watched(daemon) as watch:
        async with daemon.connect() as wire:
            session = await wire.new_session()
            prompt = {"sessionId": session, "prompt": "x"}
            await wire.send({"jsonrpc": "2.0", "method": "session/prompt", "params": prompt, "id": 1})
            assert (await wire.receive())["params"]["type"] == "agent_message_chunk"
            await wire.write(b"x" * 1001)
            await winding.wait()
            await watch.settled()
            daemon.clock.advance(0.6)  # the prompt's answer is not waited for any longer
            assert (await wire.receive())["error"]["data"]["reason"] == "frame_too_large"
        await daemon.until(lambda: not daemon.server.open_connections)
        ended_before_the_turn = await watch.after(2)
        go.set()
        assert not ended_before_the_turn
        await daemon.until(lambda: not daemon.server.presence.count)
        assert not await watch.after(0.99)
        assert await watch.after(0.02)
