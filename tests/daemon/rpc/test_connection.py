"""A connection between two peers: both ask, both answer, and each match only what they asked."""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.rpc.connection import Connection
from zeroclaw_daemon.rpc.envelope import Envelope, Request, classify, result_line
from zeroclaw_daemon.rpc.errors import ConnectionLost, FrameTooLarge, InvalidParams, RemoteError
from zeroclaw_daemon.rpc.limits import ConnectionLimits
from zeroclaw_daemon.rpc.transport.base import Transport
from zeroclaw_daemon.rpc.transport.memory import memory_pair
from zeroclaw_host.errors import ZeroclawError

pytestmark = pytest.mark.anyio

WireOver = Callable[[Transport], Any]
OPEN_ENDED = ConnectionLimits(initialize_seconds=None)


class Answering:
    """A handler for tests: ``slow`` waits for a gate, ``beside`` does so beside the others, ``bad`` and ``broken`` fail."""

    def __init__(self) -> None:
        self.gate = anyio.Event()
        self.calls: list[str] = []

    def observe(self, notification: Request) -> bool:
        return False

    def runs_beside(self, method: str) -> bool:
        return method == "beside"

    async def handle(self, request: Request) -> Any:
        self.calls.append(request.method)
        match request.method:
            case "slow" | "beside":
                await self.gate.wait()
            case "bad":
                raise InvalidParams("no", details={"member": "x"})
            case "broken":
                raise KeyError("secret")
            case "nan":
                return float("nan")
            case "odd":
                raise InvalidParams("no", details={"secret": object()})
        return request.params


@asynccontextmanager
async def connection(
    wire_over: WireOver, **options: Any
) -> AsyncGenerator[tuple[Any, Connection, Answering]]:
    capacity = options.pop("capacity", 65536)
    near, far = memory_pair(capacity=capacity)
    handler = Answering()
    served = Connection(far, handler, **{"limits": OPEN_ENDED, "clock": ManualClock(), **options})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(served.run)
        yield wire_over(near), served, handler
        near.close()


class Asking:
    """A question of the daemon, asked in the background."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.error: ZeroclawError | None = None
        self.over = anyio.Event()

    async def ask(self, served: Connection) -> None:
        try:
            self.answer = await served.request("elicitation/create", {"message": "?"})
        except ZeroclawError as error:
            self.error = error
        self.over.set()


@pytest.mark.req("RPC-086", "RPC-089", "RPC-087")
async def test_questions_are_numbered_from_zero_and_never_twice(wire_over: WireOver) -> None:
    async with connection(wire_over) as (wire, served, _), anyio.create_task_group() as tasks:
        for number in range(3):
            asked = Asking()
            tasks.start_soon(asked.ask, served)
            question = await wire.receive()
            assert question["id"] == f"zc-out-{number}"
            assert question["method"] == "elicitation/create"
            await wire.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})
            await asked.over.wait()
            assert asked.answer == {"action": "accept"}


@pytest.mark.req("RPC-090", "RPC-095")
async def test_the_same_id_may_be_on_its_way_in_both_directions(wire_over: WireOver) -> None:
    async with connection(wire_over) as (wire, served, _), anyio.create_task_group() as tasks:
        asked = Asking()
        tasks.start_soon(asked.ask, served)
        assert (await wire.receive())["id"] == "zc-out-0"
        await wire.send({"jsonrpc": "2.0", "method": "echo", "params": [1], "id": "zc-out-0"})
        assert await wire.receive() == {"jsonrpc": "2.0", "result": [1], "id": "zc-out-0"}
        assert not asked.over.is_set()
        await wire.send({"jsonrpc": "2.0", "id": "zc-out-0", "result": "mine"})
        await asked.over.wait()
        assert asked.answer == "mine"


@pytest.mark.req("RPC-091")
async def test_a_null_result_is_an_answer(wire_over: WireOver) -> None:
    async with connection(wire_over) as (wire, served, _), anyio.create_task_group() as tasks:
        asked = Asking()
        tasks.start_soon(asked.ask, served)
        await wire.receive()
        await wire.send({"jsonrpc": "2.0", "id": "zc-out-0", "result": None})
        await asked.over.wait()
        assert (asked.answer, asked.error) == (None, None)


@pytest.mark.req("RPC-092")
async def test_an_error_is_a_failure(wire_over: WireOver) -> None:
    async with connection(wire_over) as (wire, served, _), anyio.create_task_group() as tasks:
        asked = Asking()
        tasks.start_soon(asked.ask, served)
        await wire.receive()
        await wire.send({"jsonrpc": "2.0", "id": "zc-out-0", "error": {"code": -32601, "message": "no"}})
        await asked.over.wait()
        assert isinstance(asked.error, RemoteError)
        assert asked.error.error.code == -32601


@pytest.mark.req("RPC-093", "RPC-094")
async def test_an_answer_that_comes_too_late_is_ignored(wire_over: WireOver) -> None:
    async with connection(wire_over) as (wire, served, _):
        with anyio.move_on_after(0):
            await served.request("elicitation/create", {})
        assert (await wire.receive())["id"] == "zc-out-0"
        await wire.send({"jsonrpc": "2.0", "id": "zc-out-0", "result": 1})
        await wire.assert_silent()


MALFORMED = [
    '{"id":"zc-out-0","result":"TOKEN"}',
    '{"jsonrpc":"1.0","id":"zc-out-0","result":"TOKEN"}',
    '{"jsonrpc":"2.0","result":"TOKEN"}',
    '{"jsonrpc":"2.0","id":{"TOKEN":5},"result":1}',
    '{"jsonrpc":"2.0","id":"zc-out-0","result":"TOKEN","error":{"code":1,"message":"TOKEN"}}',
    '{"jsonrpc":"2.0","id":"zc-out-0","result":true,"error":null,"TOKEN":1}',
    '{"jsonrpc":"2.0","id":"zc-out-0","result":true,"params":{"TOKEN":1}}',
    '{"jsonrpc":"2.0","id":"zc-out-0","error":{"code":"TOKEN","message":"x"}}',
    '{"jsonrpc":"2.0","id":"zc-out-0","error":{"message":"TOKEN","data":"TOKEN"}}',
]
UNKNOWN = [
    '{"jsonrpc":"2.0","id":"TOKEN","result":1}',
    '{"jsonrpc":"2.0","id":42,"result":"TOKEN"}',
    '{"jsonrpc":"2.0","id":null,"result":"TOKEN"}',
    '{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"TOKEN","data":"TOKEN"}}',
]
ANSWERED = ['{"TOKEN', '{"jsonrpc":"2.0","method":"TOKEN","id":{"TOKEN":1}}', '["TOKEN"]', '{"TOKEN":1}']


@pytest.mark.req("RPC-110", "RPC-111", "RPC-112", "RPC-113", "RPC-114", "RPC-115", "RPC-116", "RPC-117", "RPC-118",
                 "RPC-119", "RPC-120")  # fmt: skip
@pytest.mark.parametrize("template", [*MALFORMED, *UNKNOWN, *ANSWERED])
async def test_a_bad_response_is_one_record_without_content_and_nothing_else(
    wire_over: WireOver, caplog: pytest.LogCaptureFixture, template: str
) -> None:
    token = f"tok{secrets.token_hex(6)}"
    caplog.set_level(logging.DEBUG)
    async with connection(wire_over) as (wire, served, _), anyio.create_task_group() as tasks:
        asked = Asking()
        tasks.start_soon(asked.ask, served)
        await wire.receive()
        await wire.send(template.replace("TOKEN", token).encode())
        if template in ANSWERED:
            assert token not in json.dumps((await wire.receive())["error"])
        await wire.ask("echo")
        assert not asked.over.is_set()
        facts = [record for record in caplog.records if hasattr(record, "zeroclaw")]
        assert len(facts) == 1
        assert token not in repr([record.__dict__ for record in caplog.records])
        await wire.send({"jsonrpc": "2.0", "id": "zc-out-0", "result": "right"})
        await asked.over.wait()
        assert asked.answer == "right"


@pytest.mark.req("RPC-250")
async def test_an_answer_on_one_connection_is_nothing_to_another(wire_over: WireOver) -> None:
    async with (
        connection(wire_over) as (first_wire, first, _),
        connection(wire_over) as (second_wire, second, _),
        anyio.create_task_group() as tasks,
    ):
        one, two = Asking(), Asking()
        tasks.start_soon(one.ask, first)
        tasks.start_soon(two.ask, second)
        assert (await first_wire.receive())["id"] == (await second_wire.receive())["id"] == "zc-out-0"
        await second_wire.send({"jsonrpc": "2.0", "id": "zc-out-0", "result": 2})
        await two.over.wait()
        assert not one.over.is_set()
        await first_wire.send({"jsonrpc": "2.0", "id": "zc-out-0", "result": 1})
        await one.over.wait()
        assert (one.answer, two.answer) == (1, 2)


async def test_a_question_to_a_peer_that_hangs_up_fails_at_once(wire_over: WireOver) -> None:
    async with connection(wire_over) as (wire, served, _), anyio.create_task_group() as tasks:
        asked = Asking()
        tasks.start_soon(asked.ask, served)
        await wire.receive()
        wire.close()
        await asked.over.wait()
        assert isinstance(asked.error, ConnectionLost)


async def test_calls_are_answered_in_order_except_those_that_run_beside(wire_over: WireOver) -> None:
    async with connection(wire_over) as (wire, _, handler):
        await wire.send({"jsonrpc": "2.0", "method": "beside", "params": [1], "id": 1})
        await wire.send({"jsonrpc": "2.0", "method": "slow", "params": [2], "id": 2})
        await wire.send({"jsonrpc": "2.0", "method": "echo", "params": [3], "id": 3}, b"{")
        while handler.calls != ["slow", "beside"] and handler.calls != ["beside", "slow"]:
            await anyio.lowlevel.checkpoint()
        handler.gate.set()
        ids = [(await wire.receive())["id"] for _ in range(4)]
        assert [request_id for request_id in ids if request_id != 1] == [2, 3, None]
        assert set(ids) == {1, 2, 3, None}


@pytest.mark.req("RPC-237")
async def test_a_fault_of_ours_is_an_internal_error_without_its_words(wire_over: WireOver) -> None:
    async with connection(wire_over) as (wire, _, _handler):
        for method in ("broken", "nan", "odd"):
            answer = await wire.ask(method)
            assert answer["error"]["code"] == -32603
            assert "secret" not in json.dumps(answer)
        assert (await wire.fail("bad"))["data"] == {"member": "x", "reason": "invalid_params"}


@pytest.mark.req("RPC-059")
async def test_a_notification_is_served_and_never_answered(wire_over: WireOver) -> None:
    async with connection(wire_over) as (wire, _, handler):
        for method in ("echo", "bad", "broken"):
            await wire.send({"jsonrpc": "2.0", "method": method})
        await wire.assert_silent()
        assert handler.calls[:3] == ["echo", "bad", "broken"]


@pytest.mark.req("RPC-231", "RPC-223")
async def test_after_a_half_close_slow_answers_still_come_and_then_the_end(wire_over: WireOver) -> None:
    async with connection(wire_over) as (wire, _, handler):
        await wire.send({"jsonrpc": "2.0", "method": "slow", "params": [1], "id": 1})
        await wire.send({"jsonrpc": "2.0", "method": "beside", "params": [2], "id": 2})
        await wire.write(b'{"jsonrpc":"2.0","method":"echo","params":[3],"id":3}')
        wire.transport.end()
        await settle()
        assert not wire.transport._incoming.bytes
        handler.gate.set()
        assert sorted(frame["id"] for frame in await wire.rest()) == [1, 2, 3]


# Limits.


@pytest.mark.req("RPC-021", "RPC-022", "RPC-234", "PAINS-20")
async def test_a_line_too_long_gets_one_error_and_the_end_and_is_not_read_on(wire_over: WireOver) -> None:
    limits = ConnectionLimits(frame_bytes=100, initialize_seconds=None)
    clock = ManualClock()
    async with connection(wire_over, limits=limits, clock=clock, capacity=1 << 20) as (wire, _, handler):
        await wire.send({"jsonrpc": "2.0", "method": "echo", "params": [1], "id": 1})
        await wire.receive()
        await wire.write(b"x" * 200_000 + b'\n{"jsonrpc":"2.0","method":"late","id":2}\n')
        frames = await wire.rest()
        assert frames == [
            {"jsonrpc": "2.0", "id": None, "error": {
                "code": -32600, "message": frames[0]["error"]["message"],
                "data": {"reason": "frame_too_large", "limit_bytes": 100}}}
        ]  # fmt: skip
        assert handler.calls == ["echo"]
        unread = wire.transport._outgoing.bytes
        assert len(unread) > 200_000 - 100 - 65536


@pytest.mark.req("RPC-021", "RPC-234")
async def test_what_was_asked_before_a_line_too_long_is_still_answered(wire_over: WireOver) -> None:
    limits = ConnectionLimits(frame_bytes=100, initialize_seconds=None)
    async with connection(wire_over, limits=limits) as (wire, _, _handler):
        await wire.write(b'{"jsonrpc":"2.0","method":"echo","params":[],"id":1}\n' + b"x" * 101)
        frames = await wire.rest()
        assert [frame["id"] for frame in frames] == [1, None]


@pytest.mark.req("RPC-021", "RPC-234")
async def test_a_slow_answer_comes_before_the_last_error(wire_over: WireOver) -> None:
    limits = ConnectionLimits(frame_bytes=100, initialize_seconds=None)
    async with connection(wire_over, limits=limits) as (wire, _, handler):
        await wire.write(b'{"jsonrpc":"2.0","method":"slow","params":[],"id":1}\n' + b"x" * 101)
        await wait_for(lambda: handler.calls == ["slow"] and not wire.transport._outgoing.bytes)
        await settle()
        assert not wire.transport._incoming.bytes
        handler.gate.set()
        assert [frame["id"] for frame in await wire.rest()] == [1, None]


@pytest.mark.req("RPC-234")
async def test_after_its_last_word_the_daemon_stays_for_a_second_at_most(wire_over: WireOver) -> None:
    limits = ConnectionLimits(frame_bytes=100, initialize_seconds=None)
    clock = ManualClock()
    async with connection(wire_over, limits=limits, clock=clock) as (wire, _, _handler):
        await wire.write(b"x" * 101)
        await wire.rest()
        await wait_for(lambda: clock.waits == 1)
        clock.advance(0.9)
        await settle()
        assert not closed(wire.transport)
        clock.advance(0.2)
        await wait_for(lambda: closed(wire.transport))


async def test_what_is_told_after_the_end_of_a_peer_that_read_nothing_waits_for_nobody(
    wire_over: WireOver,
) -> None:
    limits = ConnectionLimits(frame_bytes=100, initialize_seconds=None, outbound_frames=1)
    clock = ManualClock()
    async with connection(wire_over, limits=limits, clock=clock, capacity=16) as (wire, served, _handler):
        for _ in range(2):  # one that is being written, and one that waits
            await served.notify("m", [])
        await wire.write(b"x" * 101)
        for seconds in (5.1, 1.1):  # for its last word to be taken, and for the socket to be closed
            await wait_for(lambda: served.hung_up and clock.waits > 0)
            await settle()
            clock.advance(seconds)
        await wait_for(lambda: closed(wire.transport))
        with anyio.fail_after(60):
            await served.notify("m", [])


@pytest.mark.req("RPC-234")
async def test_a_last_word_that_nobody_takes_is_waited_for_five_seconds(wire_over: WireOver) -> None:
    limits = ConnectionLimits(frame_bytes=100, initialize_seconds=None)
    clock = ManualClock()
    async with connection(wire_over, limits=limits, clock=clock, capacity=16) as (wire, _, _handler):
        await wire.write(b"x" * 101)
        await wait_for(lambda: len(wire.transport._incoming.bytes) == 16)
        clock.advance(4.9)
        await settle()
        assert not wire.transport._incoming.writer_ended
        clock.advance(0.2)
        await wait_for(lambda: wire.transport._incoming.writer_ended)
        await wait_for(lambda: clock.waits == 1)
        clock.advance(1.1)
        await wait_for(lambda: closed(wire.transport))


@pytest.mark.req("RPC-027", "RPC-028")
async def test_a_line_must_end_in_time_however_it_trickles(wire_over: WireOver) -> None:
    clock = ManualClock()
    async with connection(wire_over, clock=clock) as (wire, served, _):
        served.mark_ready()
        for _ in range(29):
            await wire.write(b"x")
            await wait_for(lambda: clock.waits >= 1 and not wire.transport._outgoing.bytes)
            await settle()
            clock.advance(1)
        await settle()
        assert not wire.transport._incoming.bytes
        clock.advance(1.1)
        frames = await wire.rest()
        assert [frame["error"]["data"] for frame in frames] == [
            {"reason": "frame_timeout", "limit_ms": 30_000}
        ]
        assert frames[0]["error"]["code"] == -32600


@pytest.mark.req("RPC-029")
async def test_between_lines_a_client_may_be_silent_for_ever(wire_over: WireOver) -> None:
    clock = ManualClock()
    async with connection(wire_over, clock=clock) as (wire, served, _):
        served.mark_ready()
        await wire.ask("echo")
        clock.advance(1_000_000)
        await wire.ask("echo")


@pytest.mark.req("RPC-027")
async def test_the_time_of_a_line_is_its_own(wire_over: WireOver) -> None:
    """What one line took is not charged to the next, even when one read brings the end of one and the start of another."""
    clock = ManualClock()
    async with connection(wire_over, clock=clock) as (wire, served, _):
        served.mark_ready()
        line = b'{"jsonrpc":"2.0","method":"echo","params":[],"id":1}'
        await wire.write(line[:5])
        for _ in range(3):
            await wait_for(lambda: clock.waits == 1 and not wire.transport._outgoing.bytes)
            await settle()
            clock.advance(20)
            await wire.write(line[5:] + b"\n" + line[:5])
            await wire.answer_to(1)


@pytest.mark.req("RPC-024", "RPC-025", "RPC-027")
@pytest.mark.parametrize("traffic", [b"", b"{", b'{"jsonrpc":"2.0","method":"bad","id":1}\n'])
async def test_without_a_handshake_the_connection_ends_in_silence(
    wire_over: WireOver, traffic: bytes
) -> None:
    clock = ManualClock()
    async with connection(wire_over, limits=ConnectionLimits(), clock=clock) as (wire, _, _handler):
        await wait_for(lambda: clock.waits >= 1)
        for _ in range(5):
            await wire.write(traffic)
            if traffic.endswith(b"\n"):
                await wire.answer_to(1)
            await settle()
            clock.advance(5)
        await settle()
        assert not wire.transport._incoming.writer_ended
        clock.advance(5.1)
        assert await wire.rest() == []


@pytest.mark.req("RPC-027", "RPC-024")
async def test_before_the_handshake_its_deadline_alone_counts(wire_over: WireOver) -> None:
    clock = ManualClock()
    limits = ConnectionLimits(initialize_seconds=30, frame_seconds=10)
    async with connection(wire_over, limits=limits, clock=clock) as (wire, _, _handler):
        await wire.write(b"{")
        await wait_for(lambda: clock.waits == 2)  # the handshake's time and the line's
        for _ in range(2):
            clock.advance(14.9)
            await settle()
        assert not wire.transport._incoming.bytes
        assert not wire.transport._incoming.writer_ended
        clock.advance(0.3)
        assert await wire.rest() == []


@pytest.mark.req("RPC-026")
async def test_a_handshake_that_takes_too_long_is_not_accepted_late(wire_over: WireOver) -> None:
    clock = ManualClock()
    async with connection(wire_over, limits=ConnectionLimits(), clock=clock) as (wire, _, handler):
        await wire.send({"jsonrpc": "2.0", "method": "slow", "params": [], "id": 1})
        await wait_for(lambda: handler.calls == ["slow"] and clock.waits >= 1)
        clock.advance(30.1)
        assert await wire.rest() == []
        handler.gate.set()


@pytest.mark.req("RPC-030")
async def test_a_client_that_takes_no_bytes_is_disconnected_and_hears_no_more(wire_over: WireOver) -> None:
    clock = ManualClock()
    near, far = memory_pair(capacity=64)
    served = Connection(far, Answering(), limits=OPEN_ENDED, clock=clock)
    told: list[str] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(served.run)
        with served.at_hang_up(lambda: told.append("gone")):
            for _ in range(10):
                await served.notify("x", {"text": "y" * 30})
            await wait_for(lambda: clock.waits == 1)
            clock.advance(29.9)
            await settle()
            assert not told
            clock.advance(0.2)
            await wait_for(lambda: told == ["gone"])
        await served.notify("x", {})
        await wait_for(lambda: closed(near))


@pytest.mark.req("RPC-030")
async def test_a_slow_reader_that_takes_each_frame_in_time_stays(wire_over: WireOver) -> None:
    clock = ManualClock()
    async with connection(wire_over, clock=clock, capacity=40) as (wire, served, _):
        for number in range(5):
            await served.notify("x", {"n": number})
        for number in range(5):
            await wait_for(
                lambda: (
                    len(wire.transport._incoming.bytes) == 40
                    or wire.transport._incoming.bytes.endswith(b"\n")
                )
            )
            clock.advance(20)
            await settle()
            assert (await wire.receive())["params"] == {"n": number}


async def test_a_full_queue_makes_whoever_fills_it_wait(wire_over: WireOver) -> None:
    limits = ConnectionLimits(initialize_seconds=None, outbound_frames=2)
    async with (
        connection(wire_over, limits=limits, capacity=16) as (wire, served, _),
        anyio.create_task_group() as tasks,
    ):
        sent: list[int] = []

        async def flood() -> None:
            for number in range(20):
                await served.notify("x", {"n": number})
                sent.append(number)

        tasks.start_soon(flood)
        await settle(200)
        assert len(sent) < 8
        for number in range(20):
            assert (await wire.receive())["params"] == {"n": number}


def test_the_shipped_limits_are_those_of_the_specification() -> None:
    limits = ConnectionLimits()
    assert (limits.frame_bytes, limits.initialize_seconds, limits.frame_seconds) == (8_388_608, 30, 30)
    assert (limits.write_seconds, limits.outbound_frames, limits.linger_seconds) == (30, 64, 1)
    assert limits.terminal_seconds == 5


def closed(transport: Any) -> bool:
    """Whether the other end of this transport was closed."""
    return transport._outgoing.reader_closed


async def settle(rounds: int = 20) -> None:
    """Let everything that can run, run."""
    for _ in range(rounds):
        await anyio.lowlevel.checkpoint()


async def wait_for(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not holds():
            await anyio.lowlevel.checkpoint()


async def test_a_handshake_that_succeeds_in_the_moment_of_its_deadline_counts(wire_over: WireOver) -> None:
    clock = ManualClock()
    async with connection(wire_over, limits=ConnectionLimits(), clock=clock) as (wire, served, _):
        await wait_for(lambda: clock.waits == 1)
        clock.advance(30.1)
        served.mark_ready()  # before the deadline had its turn
        assert (await wire.ask("echo"))["result"] == {}


@pytest.mark.req("RPC-032", "PAINS-23")
async def test_a_client_that_goes_is_missed_though_nothing_more_is_read(wire_over: WireOver) -> None:
    limits = ConnectionLimits(initialize_seconds=None, inbound_requests=2)
    async with connection(wire_over, limits=limits) as (wire, served, handler):
        gone = anyio.Event()
        with served.at_hang_up(gone.set):
            for number in range(9):  # the first is being served, two wait, and the next ones stop the reading
                await wire.send({"jsonrpc": "2.0", "method": "slow", "id": number})
            await anyio.wait_all_tasks_blocked()
            assert not gone.is_set()
            wire.close()
            with anyio.fail_after(60):
                await gone.wait()
        handler.gate.set()


@pytest.mark.req("RPC-031")
async def test_what_waits_of_one_client_is_bounded_by_what_it_holds_and_nothing_is_lost(
    wire_over: WireOver,
) -> None:
    limits = ConnectionLimits(initialize_seconds=None, inbound_bytes=2000)
    async with connection(wire_over, limits=limits, capacity=1000) as (wire, _, handler):
        taken: list[int] = []

        async def ask() -> None:
            for number in range(12):
                params = [number, "x" * 900] if number else []
                await wire.send({"jsonrpc": "2.0", "method": "slow", "params": params, "id": number})
                taken.append(number)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            # The first is being served, two wait; one is read and finds no room, one lies in the transport.
            assert taken == [0, 1, 2, 3, 4]
            handler.gate.set()
            for number in range(12):
                assert (await wire.receive())["id"] == number


@pytest.mark.req("RPC-030", "RPC-031")
async def test_what_waits_for_one_client_is_bounded_by_its_bytes_and_nothing_is_lost(
    wire_over: WireOver,
) -> None:
    limits = ConnectionLimits(initialize_seconds=None, outbound_bytes=2000)
    async with connection(wire_over, limits=limits, capacity=1000) as (wire, served, _handler):
        told: list[int] = []

        async def tell() -> None:
            for number in range(12):
                await served.notify("m", [number, "x" * 900])
                told.append(number)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tell)
            await anyio.wait_all_tasks_blocked()
            # Of what the writer has not taken three wait, the last of them beyond the bound. Without it, all would be told.
            assert told == list(range(len(told)))
            assert 3 <= len(told) <= 8
            for number in range(12):
                assert (await wire.receive())["params"][0] == number


async def test_a_line_that_weighs_more_than_may_wait_is_served_all_the_same(wire_over: WireOver) -> None:
    limits = ConnectionLimits(initialize_seconds=None, inbound_bytes=10)
    async with connection(wire_over, limits=limits) as (wire, _, _handler):
        for number in range(3):
            await wire.send({"jsonrpc": "2.0", "method": "m", "params": [number] * 50, "id": number})
        for number in range(3):
            assert (await wire.receive())["result"] == [number] * 50


@pytest.mark.req("RPC-031", "RPC-233")
async def test_a_long_line_is_parsed_in_a_thread_and_keeps_its_place(
    wire_over: WireOver, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, bool]] = []

    def noted(line: bytes, max_values: int | None) -> Envelope:
        seen.append((len(line), threading.current_thread() is threading.main_thread()))
        return classify(line, max_values)

    monkeypatch.setattr("zeroclaw_daemon.rpc.connection.classify", noted)
    frames = [
        json.dumps({"jsonrpc": "2.0", "method": "m", "params": ["x" * pad], "id": 1}).encode()
        for pad in (100, 0, 101, 0)
    ]
    short, at, long = len(frames[1]), len(frames[0]), len(frames[2])
    limits = ConnectionLimits(initialize_seconds=None, inline_bytes=at)
    async with connection(wire_over, limits=limits) as (wire, _, _handler):
        await wire.send(*frames)
        answers = [(await wire.receive())["result"] for _ in frames]
    assert [len(answer[0]) for answer in answers] == [100, 0, 101, 0]
    assert seen == [(at, True), (short, True), (long, False), (short, True)]


@pytest.mark.req("RPC-233")
async def test_a_line_of_too_many_values_is_refused_and_the_connection_stays(wire_over: WireOver) -> None:
    limits = ConnectionLimits(initialize_seconds=None, frame_values=20)
    async with connection(wire_over, limits=limits) as (wire, _, _handler):
        await wire.send({"jsonrpc": "2.0", "method": "m", "params": [0] * 20, "id": 1})
        refused = await wire.receive()
        assert (refused["id"], refused["error"]["code"]) == (None, -32700)
        assert refused["error"]["data"] == {"reason": "parse_error", "limit_values": 20}
        await wire.send({"jsonrpc": "2.0", "method": "m", "params": [0], "id": 2})
        assert (await wire.receive())["result"] == [0]


@pytest.mark.req("RPC-251")
async def test_an_answer_that_does_not_fit_in_a_line_is_an_error_and_one_that_just_does_is_sent(
    wire_over: WireOver, caplog: pytest.LogCaptureFixture
) -> None:
    params = ["x" * 900]
    fits = len(result_line(params, 1))
    for limit, expected in ((fits, {"result": params}), (fits - 1, None)):
        limits = ConnectionLimits(initialize_seconds=None, sent_bytes=limit)
        async with connection(wire_over, limits=limits) as (wire, _, _handler):
            await wire.send({"jsonrpc": "2.0", "method": "m", "params": params, "id": 1})
            answer = await wire.receive()
            if expected is None:
                assert answer["error"]["code"] == -32603
                assert answer["error"]["data"] == {"reason": "answer_too_large", "limit_bytes": limit}
            else:
                assert answer["result"] == params
            await wire.send({"jsonrpc": "2.0", "method": "m", "params": params})  # nobody waits for it
            await wire.send({"jsonrpc": "2.0", "method": "m", "params": [1], "id": 2})
            assert (await wire.receive())["result"] == [1]
    assert [r.getMessage() for r in caplog.records] == ["an answer does not fit in a line"]


@pytest.mark.req("RPC-251")
async def test_what_is_told_or_asked_and_does_not_fit_in_a_line_is_not_sent(wire_over: WireOver) -> None:
    limits = ConnectionLimits(initialize_seconds=None, sent_bytes=200)
    async with connection(wire_over, limits=limits) as (wire, served, _handler):
        with pytest.raises(FrameTooLarge):
            await served.notify("m", ["x" * 200])
        with pytest.raises(FrameTooLarge):
            await served.request("m", ["x" * 200])
        await served.notify("m", [1])
        assert (await wire.receive())["params"] == [1]


async def test_one_client_cannot_fill_the_log_with_its_faults(
    wire_over: WireOver, caplog: pytest.LogCaptureFixture
) -> None:
    async with connection(wire_over) as (wire, _, _handler):
        for _ in range(20):
            await wire.send(
                *[b"{"] * 5, b'{"jsonrpc":"2.0","id":1,"result":1}', b'{"jsonrpc":"1.0","result":1}'
            )
            for _ in range(5):
                await wire.receive()
    faults = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(faults) == 20
    assert "further ones of this connection are not recorded" in faults[-1].getMessage()
