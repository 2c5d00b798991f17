"""No exception of a host function reaches wasmtime, and each caller gets its own."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from zeroclaw_host.errors import DeadlineExceeded, GuestFailure
from zeroclaw_host.sandbox import raw
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.gate import HostFunctionFailed
from zeroclaw_host.sandbox.interface import HostFunction, HostInterface, interface
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.sandbox.values import Err, Ok

SECRETS = '(import "zeroclaw:plugin/secrets@0.1.0" "get" (func $get (param i32 i32 i32)))'
ASK = """
  ;; result<string, enum>: the case at 512, the payload at 516
  (call $get (local.get 0) (local.get 1) (i32.const 512))
  (call $answer (i32.load (i32.const 516)) (i32.load (i32.const 520)))
"""


def secrets_of(implementation: Callable[..., object], **more: object) -> HostInterface:
    return interface("zeroclaw:plugin/secrets", HostFunction("get", implementation, **more))  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def asking(embed: Callable[..., bytes], tool_core: Callable[..., str]) -> bytes:
    """A tool that asks for the secret its arguments name and answers with it."""
    return embed(tool_core(ASK, imports=SECRETS))


def test_a_host_function_gets_the_arguments_and_its_answer_arrives(asking, surface, execute):
    def get(frame: CallFrame, name: str) -> Ok:
        return Ok(f"secret of {name}")

    answer = execute(asking, surface(secrets_of(get)), arguments="ünï")
    assert answer == Ok({"success": True, "output": "secret of ünï", "error": None})


@pytest.mark.req("PAINS-1")
@pytest.mark.parametrize(
    "kind", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, Exception, MemoryError]
)
def test_whatever_a_host_function_raises_reaches_the_caller_and_the_process_lives(
    kind, asking, surface, execute
):
    def get(frame: CallFrame, name: str) -> Ok:
        raise kind("from the host function")

    with pytest.raises(HostFunctionFailed) as caught:
        execute(asking, surface(secrets_of(get)))
    assert caught.value.details["function"] == "zeroclaw:plugin/secrets.get"
    assert type(caught.value.__cause__) is kind
    assert isinstance(execute(asking, surface(secrets_of(lambda frame, name: Ok("alive")))), Ok)


def test_an_error_about_the_plugin_arrives_as_it_is(asking, surface, execute):
    error = GuestFailure("asked for too much")

    def get(frame: CallFrame, name: str) -> Ok:
        raise error

    with pytest.raises(GuestFailure) as caught:
        execute(asking, surface(secrets_of(get)))
    assert caught.value is error


@pytest.mark.req("PAINS-1")
def test_a_destructor_that_is_interrupted_leaves_the_process_alive(embed, tool_core, surface, execute):
    class Interrupted:
        def close(self) -> None:
            raise KeyboardInterrupt

    component = embed(
        tool_core(
            f"{CONNECT} (call $drop (i32.load (i32.const 516))) (call $answer (local.get 0) (local.get 1))",
            imports=SOCKETS,
        )
    )
    with pytest.raises(HostFunctionFailed) as caught:
        execute(component, surface(sockets_of(Interrupted())))
    assert type(caught.value.__cause__) is KeyboardInterrupt


@pytest.mark.req("PAINS-2")
def test_two_threads_that_fail_at_once_each_get_their_own_error(asking, surface, sandbox, new_frame):
    both = threading.Barrier(2)

    def get(frame: CallFrame, name: str) -> Ok:
        if sandbox.conversion.name == "compiled":
            both.wait(20)  # on the stock path only one guest runs at a time
        raise ValueError(name)

    linked = sandbox.load(asking, surface(secrets_of(get)))

    def call(name: str) -> str:
        frame = new_frame()
        with sandbox.guest(linked, frame) as guest, pytest.raises(HostFunctionFailed) as caught:
            guest.call(frame, "zeroclaw:plugin/tool", "execute", name)
        return str(caught.value.__cause__)

    with ThreadPoolExecutor(2) as pool:
        for turn in range(200):
            names = [f"{turn}-a", f"{turn}-b"]
            assert list(pool.map(call, names)) == names


def test_an_error_of_an_earlier_call_never_replaces_a_trap(asking, surface, execute, embed, tool_core):
    def get(frame: CallFrame, name: str) -> Ok:
        raise ValueError("stale")

    with pytest.raises(HostFunctionFailed):
        execute(asking, surface(secrets_of(get)))
    with pytest.raises(Exception, match="aborted"):
        execute(embed(tool_core("unreachable")), surface())


def test_a_result_of_the_wrong_type_is_the_hosts_fault_and_says_where(asking, surface, execute):
    with pytest.raises(HostFunctionFailed, match=r"secrets\.get"):
        execute(asking, surface(secrets_of(lambda frame, name: Ok(17))))
    with pytest.raises(HostFunctionFailed, match=r"secrets\.get"):
        execute(asking, surface(secrets_of(lambda frame, name: "no result at all")))


@pytest.mark.req("PLG-024")
def test_charged_calls_beyond_the_budget_are_answered_without_asking(
    embed, tool_core, surface, execute, new_frame
):
    component = embed(
        tool_core(
            """(local $turn i32)
               (loop $again
                 (call $get (local.get 0) (local.get 1) (i32.const 512))
                 (local.set $turn (i32.add (local.get $turn) (i32.const 1)))
                 (br_if $again (i32.lt_u (local.get $turn) (i32.const 1001))))
               ;; the error case of the last answer as a digit
               (i32.store8 (i32.const 600) (i32.add (i32.const 48) (i32.load8_u (i32.const 516))))
               (call $answer (i32.const 600) (i32.const 1))""",
            imports=SECRETS,
        )
    )
    asked: list[str] = []

    def get(frame: CallFrame, name: str) -> Err:
        asked.append(name)
        return Err("not-found")

    answer = execute(component, surface(secrets_of(get, charged=True, exhausted=Err("unavailable"))))
    assert len(asked) == 1000
    assert answer == Ok({"success": True, "output": "2", "error": None}), "the last answer was `unavailable`"
    asked.clear()
    execute(component, surface(secrets_of(get)))
    assert len(asked) == 1001, "functions that are not charged have no budget"


@pytest.mark.req("PLG-018", "PAINS-3")
@pytest.mark.realtime
def test_a_wait_in_a_host_function_ends_at_the_deadline_and_says_what_it_waited_for(
    asking, surface, execute, new_frame
):
    def get(frame: CallFrame, name: str) -> Ok:
        frame.wait(lambda: False, "something that never comes")
        return Ok("late")

    with pytest.raises(DeadlineExceeded, match="something that never comes") as caught:
        execute(asking, surface(secrets_of(get)), frame=new_frame(Limits(call_timeout_ms=2000)))
    details = caught.value.details
    assert details["timeout_ms"] == 2000
    assert details["waited_for"] == "something that never comes"
    assert details["host_ms"] > 0
    assert details["guest_ms"] + details["host_ms"] >= 1999


def test_no_host_function_stays_behind_when_its_linkers_are_gone(sandbox, asking, surface, execute):

    gc.collect()
    before = raw.live_callbacks()
    for _ in range(5):
        execute(asking, surface(secrets_of(lambda frame, name: Ok("x"))))
    gc.collect()
    assert raw.live_callbacks() <= before


@pytest.mark.req("PAINS-7")
def test_ten_thousand_fresh_calls_leave_memory_descriptors_and_threads_as_they_were(
    asking, surface, sandbox, new_frame
):
    linked = sandbox.load(asking, surface(secrets_of(lambda frame, name: Ok(name))))

    def call(times: int) -> None:
        for _ in range(times):
            frame = new_frame()
            with sandbox.guest(linked, frame) as guest:
                guest.call(frame, "zeroclaw:plugin/tool", "execute", "x" * 1000)

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])

    def counted() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), len(list(Path("/proc/self/task").iterdir()))

    work = new_frame()
    sandbox.threads.run(work, lambda: call(1000))
    pages, before = resident(), counted()
    sandbox.threads.run(work, lambda: call(10_000 if sandbox.conversion.name == "compiled" else 1000))
    assert resident() < 1.05 * pages
    assert all(now <= then for now, then in zip(counted(), before, strict=True))


# --- resources ----------------------------------------------------------------------------------------------------------

SOCKETS = """
  (import "zeroclaw:plugin/sockets@0.1.0" "connect" (func $connect (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "zeroclaw:plugin/sockets@0.1.0" "[method]connection.pending" (func $pending (param i32 i32)))
  (import "zeroclaw:plugin/sockets@0.1.0" "close" (func $close (param i32)))
  (import "zeroclaw:plugin/sockets@0.1.0" "[resource-drop]connection" (func $drop (param i32)))
"""
CONNECT = """
  (call $connect (i32.const 64) (i32.const 4) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 512))
"""


class Connection:
    """A resource that counts how often it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def sockets_of(connection: object, closed: list[object] | None = None) -> HostInterface:
    def pending(frame: CallFrame, found: object) -> Ok:
        assert found is connection
        return Ok(7)

    def close(frame: CallFrame, found: object) -> None:
        assert found is connection
        if closed is not None:
            closed.append(found)

    return interface(
        "zeroclaw:plugin/sockets",
        HostFunction("connect", lambda frame, request: Ok(connection)),
        HostFunction("[method]connection.pending", pending),
        HostFunction("close", close),
        resources={"connection": type(connection)},
    )


def test_a_borrowed_resource_is_given_back_so_that_the_call_can_return(embed, tool_core, surface, execute):
    connection = Connection()
    component = embed(
        tool_core(
            f"""{CONNECT}
            (call $pending (i32.load (i32.const 516)) (i32.const 528))
            (call $drop (i32.load (i32.const 516)))
            (call $answer (local.get 0) (local.get 1))""",
            imports=SOCKETS,
        )
    )
    assert isinstance(execute(component, surface(sockets_of(connection))), Ok)
    assert connection.closed == 1


def test_an_owned_resource_handed_over_is_the_hosts_and_is_not_closed_behind_its_back(
    embed, tool_core, surface, execute
):
    connection, closed = Connection(), []
    component = embed(
        tool_core(
            f"{CONNECT} (call $close (i32.load (i32.const 516))) (call $answer (local.get 0) (local.get 1))",
            imports=SOCKETS,
        )
    )
    assert isinstance(execute(component, surface(sockets_of(connection, closed))), Ok)
    assert closed == [connection]
    assert connection.closed == 0


@pytest.mark.parametrize("end", ["unreachable", "(call $answer (local.get 0) (local.get 1))"])
def test_what_a_guest_still_holds_when_it_ends_is_closed(end, embed, tool_core, surface, execute):
    connection = Connection()
    component = embed(tool_core(f"{CONNECT} {end}", imports=SOCKETS))
    try:
        execute(component, surface(sockets_of(connection)))
    except Exception:  # noqa: BLE001 - one of the two ends is a trap
        assert end == "unreachable"
    assert connection.closed == 1


@pytest.mark.req("PLG-102")
def test_two_guests_share_no_handles(embed, tool_core, surface, sandbox: Sandbox, new_frame):
    connection = Connection()
    component = embed(tool_core(f"{CONNECT} (call $answer (local.get 0) (local.get 1))", imports=SOCKETS))
    linked = sandbox.load(component, surface(sockets_of(connection)))
    first, second = new_frame(), new_frame()

    def work() -> tuple[int, int]:
        with sandbox.guest(linked, first) as one, sandbox.guest(linked, second):
            one.call(first, "zeroclaw:plugin/tool", "execute", "{}")
            return len(first.table), len(second.table)

    assert sandbox.threads.run(first, work) == (1, 0)
