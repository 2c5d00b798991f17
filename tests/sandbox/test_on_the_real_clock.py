"""What is promised in milliseconds. Each is tried several times: a busy machine spoils some, a fault of ours spoils all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

from zeroclaw_host.errors import DeadlineExceeded, PluginError
from zeroclaw_host.sandbox.conversion import StockConversion
from zeroclaw_host.sandbox.frame import CallCancelled, CallFrame
from zeroclaw_host.sandbox.interface import HostFunction, interface
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.linker import LinkedComponent
from zeroclaw_host.sandbox.values import Err

pytestmark = pytest.mark.realtime

ENDLESS = "(loop $again (br $again)) unreachable"
TIMEOUT_MS = 100
FUEL = 20_000_000_000
"""For some ten seconds: more than any of these guests should have, and an end for one that nothing else ends."""
ATTEMPTS = 40
NEVER_BY_ITSELF = Limits(call_fuel=FUEL, call_timeout_ms=600_000)


def best_of(attempts: int, measure: Callable[[], float], good: float) -> float:
    """The smallest of several measurements, as soon as one is good."""
    found = measure()
    for _ in range(attempts - 1):
        if found <= good:
            break
        found = min(found, measure())
    return found


@pytest.fixture
def overshoot_ms(embed, tool_core, surface, execute, new_frame):
    """Measures by how much an endless guest outlives its deadline."""
    component = embed(tool_core(ENDLESS))

    def measure() -> float:
        frame = new_frame(Limits(call_fuel=FUEL, call_timeout_ms=TIMEOUT_MS))
        with pytest.raises(DeadlineExceeded):
            execute(component, surface(), frame=frame)
        return (frame.now() - frame.deadline) * 1000

    measure()  # whatever loads once has loaded
    return measure


@pytest.fixture
def busy_thread():
    """A Python thread that never stops computing."""
    over = threading.Event()

    def compute() -> None:
        while not over.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.req("PLG-018", "PLG-019")
def test_a_guest_outlives_its_deadline_by_no_more_than_twenty_milliseconds(overshoot_ms):
    found = best_of(ATTEMPTS, overshoot_ms, 20)
    assert 0 <= found <= 20


@pytest.mark.req("PLG-018", "PLG-019")
@pytest.mark.usefixtures("busy_thread")
def test_beside_a_busy_thread_it_is_no_more_than_fifty(overshoot_ms):
    found = best_of(ATTEMPTS, overshoot_ms, 50)
    assert 0 <= found <= 50


@pytest.mark.parametrize("where", ["guest code", "a host function"])
def test_a_cancelled_caller_waits_no_longer_than_the_next_tick(
    where, embed, tool_core, surface, sandbox, new_frame
):
    """Cancelled are the task, and with it the guest, which is gone when the task goes on."""
    waiting = threading.Event()

    def wait(frame: CallFrame, name: str) -> object:
        waiting.set()
        frame.wait(lambda: False, "nothing at all")
        raise AssertionError("it does not come")

    secrets = interface("zeroclaw:plugin/secrets", HostFunction("get", wait))
    imports = '(import "zeroclaw:plugin/secrets@0.1.0" "get" (func $get (param i32 i32 i32)))'
    ask = "(call $get (local.get 0) (local.get 1) (i32.const 512)) unreachable"
    component = embed(tool_core(ENDLESS)) if where == "guest code" else embed(tool_core(ask, imports=imports))
    linked = sandbox.load(component, surface(secrets))

    def measure() -> float:
        waiting.clear()
        frame = new_frame(NEVER_BY_ITSELF)
        ended: list[PluginError] = []

        def work() -> None:
            if where == "guest code":
                waiting.set()
            try:
                with sandbox.guest(linked, frame) as guest:
                    guest.call(frame, "zeroclaw:plugin/tool", "execute", "{}")
            except PluginError as error:
                ended.append(error)
                raise

        async def main() -> float:
            async with anyio.create_task_group() as group:
                group.start_soon(sandbox.threads.run_async, frame, work)
                await anyio.to_thread.run_sync(waiting.wait)
                await anyio.sleep(0.02)
                started = time.monotonic()
                group.cancel_scope.cancel()
            return (time.monotonic() - started) * 1000

        took = anyio.run(main)
        assert [type(error) for error in ended] == [CallCancelled]
        return took

    assert best_of(ATTEMPTS, measure, 20) <= 20


def test_a_guest_works_while_another_one_does(embed, tool_core, surface, sandbox, new_frame):
    """How much is gained by it is for the benchmarks to say: here it is seen that neither waits for the other's end."""
    if isinstance(sandbox.conversion, StockConversion):
        pytest.skip("the library's own conversion allows one guest at a time")
    begun = threading.Event()

    def get(frame: CallFrame, name: str) -> Err:
        begun.set()
        return Err("not-found")

    surface_of_both = surface(interface("zeroclaw:plugin/secrets", HostFunction("get", get)))
    imports = '(import "zeroclaw:plugin/secrets@0.1.0" "get" (func $get (param i32 i32 i32)))'
    ask = f"(call $get (local.get 0) (local.get 1) (i32.const 512)) {ENDLESS}"
    endless = sandbox.load(embed(tool_core(ask, imports=imports)), surface_of_both)
    short = sandbox.load(embed(tool_core()), surface_of_both)

    def call(linked: LinkedComponent, frame: CallFrame) -> object:
        def work() -> object:
            with sandbox.guest(linked, frame) as guest:
                return guest.call(frame, "zeroclaw:plugin/tool", "execute", "{}")

        return sandbox.threads.run(frame, work)

    # An end for it, should it be the only one that works: by then the other call has come to nothing.
    frame = new_frame(Limits(call_fuel=10**15, call_timeout_ms=60_000))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(call, endless, frame)
        assert begun.wait(60)
        for _ in range(20):
            call(short, new_frame())
        assert not running.done()
        frame.cancel()
        with pytest.raises(CallCancelled):
            running.result(60)
