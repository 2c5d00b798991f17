"""A store ends, with whoever is in it or waits for it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from plugin_parts import Config, Waiting, scope_of
from warm_guests import call, forget, spend_free_rebuilds, waits

from zeroclaw_host.errors import (
    PluginError,
    PluginUnavailable,
)
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.sandbox.frame import CallCancelled, Phase, current_frame
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.worlds.rebuild import RebuildPace
from zeroclaw_host.worlds.surface import surface_of
from zeroclaw_host.worlds.warm import WarmStore


def test_closing_ends_the_running_call_and_turns_away_those_that_wait(new_store, sink, queued):
    store = new_store(limits=Limits(call_fuel=10**15, call_timeout_ms=24 * 3600 * 1000), clock=time.monotonic)
    entered = threading.Semaphore(0)
    sink.hook = entered.release
    running = Waiting(lambda: call(store, "health-check"))
    waits(entered)
    forget(queued)
    waiting = Waiting(lambda: call(store))
    waits(queued)
    store.close()
    for each in (running, waiting):
        with pytest.raises(PluginUnavailable):
            each.join()
    for begin in (lambda: call(store), store.start_sync):
        with pytest.raises(PluginUnavailable):
            begin()
    assert not store.alive
    store.close()


def test_closing_ends_the_wait_for_a_rebuild_at_once(new_store, clock, queued):
    store = new_store()
    spend_free_rebuilds(store)
    store._pace = RebuildPace((clock.seconds,), 60.0)
    waiting = Waiting(lambda: call(store))
    for _ in range(5):
        waits(queued)
    store.close()
    with pytest.raises(PluginUnavailable):
        waiting.join()


def test_closing_lets_go_of_what_the_guest_held(store):
    call(store, "purge-namespace", "x")
    table = store._instance._table
    anyio.run(store.aclose)
    assert len(table) == 0


def test_a_task_can_close_while_its_own_loop_has_a_call_running(new_store, sink):
    store = new_store(limits=Limits(call_fuel=10**15, call_timeout_ms=24 * 3600 * 1000), clock=time.monotonic)
    entered = threading.Semaphore(0)
    sink.hook = entered.release

    async def main() -> list[type[PluginError]]:
        ended = list[type[PluginError]]()

        async def run() -> None:
            try:
                await store.call("health-check", phase=Phase.STANDARD)
            except PluginError as error:
                ended.append(type(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await anyio.to_thread.run_sync(waits, entered)
            store.close()  # blocks the loop until the guest has left, and comes back
        return ended

    assert anyio.run(main) == [PluginUnavailable]


def test_a_store_of_a_sandbox_that_is_closed_says_so(component, sink):
    with Sandbox(Path(__file__).parents[3] / ".cache" / "compiled", threads=1) as gone:
        scope = scope_of(Capability.MEMORY)
        store = WarmStore(
            gone,
            gone.load(component, surface_of(Capability.MEMORY, scope.grants)),
            scope,
            InstanceServices(config=Config(), log=sink),
            Limits(),
            interface="zeroclaw:plugin/memory",
            start=lambda ask: None,
            self_healing=True,
        )
        store.start_sync()
    with pytest.raises(PluginUnavailable, match="closed"):
        call(store)
    store.close()


def test_a_cancelled_call_is_told_as_such_where_nobody_closed_anything(store, sink):
    sink.hook = lambda: current_frame().cancel()
    with pytest.raises(CallCancelled):
        call(store, "health-check")
    assert not store.alive
