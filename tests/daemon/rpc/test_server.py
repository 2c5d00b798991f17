"""A server as a whole: its table, its ceiling, its end."""

from __future__ import annotations

import importlib
import json
import logging
import pkgutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from itertools import pairwise
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zeroclaw_daemon
import zeroclaw_host
from zeroclaw_daemon.agent.providers.base import TextDelta
from zeroclaw_daemon.agent.providers.scripted import Pause, ScriptedProvider
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.rpc.dispatch import Dispatcher
from zeroclaw_daemon.rpc.errors import CODES, KIND_CODES, code_of, error_object
from zeroclaw_daemon.rpc.limits import ConnectionLimits, ServerLimits
from zeroclaw_daemon.rpc.methods.handshake import Handshake
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, UsageError, ZeroclawError

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.mark.req("RPC-224")
async def test_memory_and_socket_carry_the_same_bytes(serving: Serving) -> None:
    transcript: list[bytes] = []
    for socket in (False, True):
        async with serving(socket=socket) as daemon, daemon.connect_raw() as wire:
            await wire.send(
                b'{"jsonrpc":"2.0","method":"initialize","params":{"tuiId":"tui_0000000a"},"id":1}'
            )
            await wire.send(
                b'{"jsonrpc":"2.0","method":"session/new","params":{"agentAlias":"assistant","sessionId":"s"},"id":2}'
            )
            await wire.answer_to(1)
            await wire.answer_to(2)
            await wire.send(
                b'{"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"s","prompt":"/think a"},"id":3}'
            )
            await wire.answer_to(3)
            await wire.send(b"{", b"[]", b'{"jsonrpc":"2.0","method":"no","id":4}')
            for _ in range(3):
                await wire.receive()
            transcript.append(wire.raw)
    assert transcript[0] == transcript[1]


@pytest.mark.req("RPC-031")
async def test_many_who_connect_at_once_keep_nobody_waiting(serving: Serving) -> None:
    async with serving() as daemon, AsyncExitStack() as stack:
        for _ in range(50):
            await stack.enter_async_context(daemon.connect_raw())
        served = [daemon.server.open_connections]
        while served[-1] < 50:
            await anyio.lowlevel.checkpoint()
            served.append(daemon.server.open_connections)
        # Between two of them everybody else has a turn.
        assert max(later - earlier for earlier, later in pairwise(served)) == 1


@pytest.mark.req("RPC-236")
async def test_sessions_speak_camel_case_alone(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        await wire.ask(
            "session/prompt", {"sessionId": session, "prompt": "/tool x {}", "client_turn_generation": 1}
        )
        for method in ("session/state", "session/cancel", "session/close"):
            await wire.ask(method, {"sessionId": session})
        await wire.ask("status")

        def members(value: Any) -> set[str]:
            if isinstance(value, dict):
                return set(value).union(*(members(child) for child in value.values()))
            return set().union(*(members(child) for child in value)) if isinstance(value, list) else set()

        for line in wire.raw.splitlines():
            assert not [member for member in members(json.loads(line)) if "_" in member]


def every_error() -> list[type[ZeroclawError]]:
    """Every class of error that host and daemon can raise, whatever was imported before."""
    for package in (zeroclaw_host, zeroclaw_daemon):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    found: list[type[ZeroclawError]] = []
    rooms = [ZeroclawError]
    while rooms:
        kind = rooms.pop()
        found.append(kind)
        rooms.extend(kind.__subclasses__())
    return found


@pytest.mark.req("RPC-237")
def test_every_error_has_exactly_one_code() -> None:
    assert set(KIND_CODES) == set(Kind)
    words = {error.code for error in every_error()}
    assert set(CODES) <= words | {"internal"}
    by_word: dict[str, set[int]] = {}
    for error in every_error():
        by_word.setdefault(error.code, set()).add(CODES.get(error.code, KIND_CODES[error.kind]))
    assert not {word: codes for word, codes in by_word.items() if len(codes) > 1}


@pytest.mark.req("RPC-237")
def test_an_error_carries_its_word_its_details_and_its_remedy() -> None:
    error = UsageError(
        "no", remedy=Remedy(RemedyAction.STOP_DAEMON, {"pid": "7"}), details={"path": "/x", "reason": "other"}
    )
    written = error_object(error).to_json()
    assert written["code"] == code_of(error) == -32602
    assert written["data"] == {
        "path": "/x", "reason": "usage", "remedy": {"action": "stop_daemon", "arguments": {"pid": "7"}},
    }  # fmt: skip


async def test_a_handler_without_a_row_in_the_table_is_not_served() -> None:
    handshake = Handshake(RosterAuthority(Config, None, 0), "1")
    with pytest.raises(KeyError, match="no/such"):
        Dispatcher({"no/such": handshake.initialize}, RosterAuthority(Config, None, 0))


@pytest.mark.req("RPC-056")
async def test_every_announced_method_is_served(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        announced = (await wire.initialize())["capabilities"]
        assert {
            "initialize",
            "status",
            "session/new",
            "session/prompt",
            "session/cancel",
            "session/close",
        } <= set(announced)
        for method in announced:
            answer = await wire.ask(method, {})
            assert "result" in answer or answer["error"]["code"] != -32601


@pytest.mark.req("RPC-253")
@pytest.mark.parametrize(
    "line",
    [
        '[{"jsonrpc":"2.0","method":"session/new","params":PARAMS,"id":1}]',
        '{"method":"session/new","params":PARAMS,"id":1}',
        '{"jsonrpc":"1.0","method":"session/new","params":PARAMS,"id":1}',
        '{"jsonrpc":"2.0","method":"session/new","params":PARAMS,"id":{}}',
        '{"jsonrpc":"2.0","method":"session/new","params":PARAMS,"id":1,"result":1}',
        '{"jsonrpc":"2.0","method":["session/new"],"params":PARAMS,"id":1}',
        '{"jsonrpc":"2.0","method":"session/new","params":PARAMS,"id":1}}',
        '{"jsonrpc":"2.0","method":"session/new","params":PARAMS,"id":NaN}',
    ],
)
async def test_a_frame_that_is_answered_as_malformed_has_no_effect(serving: Serving, line: str) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        await wire.send(line.replace("PARAMS", '{"agentAlias":"assistant"}').encode())
        assert (await wire.receive())["error"]["code"] in (-32700, -32600)
        assert (await wire.call("status"))["sessionIds"] == []


IDS = st.one_of(st.none(), st.integers(-5, 5), st.text(max_size=3))
PARAMS = st.one_of(
    st.just({}),
    st.just({"agentAlias": "assistant", "keepSiblings": True, "sessionId": "s"}),
    st.just({"sessionId": "s", "prompt": "/chunks 3 abc"}),
    st.just({"sessionId": "s"}),
    st.dictionaries(
        st.sampled_from(["sessionId", "session_id", "prompt"]),
        st.one_of(st.none(), st.text(max_size=2), st.integers()),
    ),
)
METHODS = st.sampled_from(
    [
        "initialize",
        "status",
        "session/new",
        "session/prompt",
        "session/cancel",
        "session/close",
        "session/state",
        "no/such",
    ]
)
CALLS = st.lists(st.tuples(METHODS, PARAMS, st.one_of(st.just("none"), IDS)), max_size=12)


@pytest.mark.req("PAINS-22", "RPC-121", "RPC-059")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=CALLS, at_once=st.booleans(), half_close=st.booleans())
async def test_every_request_is_answered_exactly_once_and_no_notification_is(
    serving: Serving, calls: list[tuple[str, Any, Any]], at_once: bool, half_close: bool
) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        frames: list[dict[str, Any]] = []
        wanted: list[str] = []
        for number, (method, params, request_id) in enumerate(calls):
            frame = {"jsonrpc": "2.0", "method": method, "params": params}
            if request_id != "none":
                frame["id"] = unique = f"{number}:{request_id}"
                wanted.append(unique)
            frames.append(frame)
        if at_once:
            await wire.send(*frames)
        else:
            for frame in frames:
                await wire.send(frame)
        if half_close:
            wire.transport.end()
            answered = [frame["id"] for frame in await wire.rest() if "id" in frame]
        else:
            answered = []
            while len(answered) < len(wanted):
                frame = await wire.receive()
                answered.extend([frame["id"]] if "id" in frame else [])
        assert sorted(answered) == sorted(wanted)


# The ceiling.


@pytest.mark.req("RPC-035", "RPC-036", "RPC-222")
async def test_the_ceiling_is_one_warning_until_somebody_is_served_again(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings() -> int:
        return sum(getattr(r, "zeroclaw", {}).get("action") == "connection_limit" for r in caplog.records)

    caplog.set_level(logging.WARNING)
    async with serving(limits=ServerLimits(max_connections=1)) as daemon:
        async with daemon.connect():
            for _ in range(5):
                async with daemon.connect_raw() as refused:
                    assert (await refused.rest())[0]["error"]["data"] == {
                        "reason": "connection_limit",
                        "limit": 1,
                    }
            assert daemon.server.open_connections == 1
            assert warnings() == 1
        await daemon.until(lambda: daemon.server.open_connections == 0)
        async with daemon.connect(), daemon.connect_raw() as refused:
            await refused.rest()
        assert warnings() == 2


@pytest.mark.req("RPC-034")
async def test_a_flood_of_refusals_is_cut_short(serving: Serving) -> None:
    limits = ServerLimits(max_connections=1, refusal_notices=1)
    async with (
        serving(limits=limits) as daemon,
        daemon.connect(),
        daemon.connect_raw() as first,
        daemon.connect_raw() as second,
    ):
        assert len(await first.rest()) == 1
        assert await second.rest() == []


def test_the_shipped_ceiling_is_512() -> None:
    limits = ServerLimits()
    assert (limits.max_connections, limits.refusal_notices) == (512, 16)
    with pytest.raises(ValueError, match="at least one"):
        ServerLimits(max_connections=0)
    with pytest.raises(ValueError, match="positive"):
        ConnectionLimits(write_seconds=0)


@pytest.mark.req("RPC-031")
async def test_a_client_that_takes_no_bytes_holds_up_nobody_else(serving: Serving) -> None:
    provider = ScriptedProvider([TextDelta("x" * 1000) for _ in range(1000)])
    async with (
        serving(provider=provider, capacity=2000) as daemon,
        daemon.connect() as stalled,
        daemon.connect() as other,
    ):
        session = await stalled.new_session()
        await stalled.send(
            {
                "jsonrpc": "2.0",
                "method": "session/prompt",
                "params": {"sessionId": session, "prompt": "x"},
                "id": 1,
            }
        )
        await daemon.until(lambda: len(provider.requests) == 1)
        for _ in range(50):
            await other.call("status")
        assert (await other.call("session/state", {"sessionId": session}))["state"] == "running"
        await daemon.until(lambda: daemon.clock.waits > 0)
        daemon.clock.advance(30.1)
        await daemon.until(lambda: daemon.server.open_connections == 1)
        assert provider.closed == 1
        assert (await other.call("session/state", {"sessionId": session}))["state"] == "idle"


async def test_a_fault_of_ours_in_one_connection_ends_that_one_alone(
    serving: Serving, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving() as daemon, daemon.connect() as other:
        async with daemon.connect_raw() as wire:
            await daemon.until(lambda: daemon.server.open_connections == 2)

            def broken(*_: object) -> None:
                raise KeyError("secret")

            with monkeypatch.context() as patched:
                patched.setattr("zeroclaw_daemon.rpc.connection.classify", broken)
                await wire.write(b"{}\n")
                assert await wire.rest() == []
        await daemon.until(lambda: daemon.server.open_connections == 1)
        assert (await other.call("status"))["connections"] == 1
    faults = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [(each.getMessage(), each.exc_info is not None) for each in faults] == [
        ("the connection of memory:client ended by a fault of the daemon", True)
    ]


# The end.


@pytest.mark.req("PAINS-23")
async def test_stopping_answers_what_was_asked_and_leaves_nothing_behind(serving: Serving) -> None:
    pause = Pause()
    provider = ScriptedProvider([TextDelta("half"), pause])
    async with serving(provider=provider) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        await wire.send(
            {
                "jsonrpc": "2.0",
                "method": "session/prompt",
                "params": {"sessionId": session, "prompt": "x"},
                "id": 1,
            }
        )
        await pause.reached.wait()
        daemon.server.stop()
        frames = await wire.rest()
        assert frames[-1]["result"]["stopReason"] == "cancelled"
        ended = frames[-2]["params"]
        assert (ended["type"], ended["content"], ended["reason"]) == (
            "turn_complete",
            "half",
            "daemon_stopping",
        )
        assert provider.closed == 1
        assert daemon.server.open_connections == 0


@pytest.mark.req("RPC-034", "RPC-234")
async def test_who_was_refused_is_waited_for_a_second_and_then_the_next_is_told(serving: Serving) -> None:
    limits = ServerLimits(max_connections=1, refusal_notices=1)
    async with serving(limits=limits) as daemon, daemon.connect(), daemon.connect_raw() as first:
        assert len(await first.rest()) == 1
        async with daemon.connect_raw() as second:
            assert await second.rest() == []
        daemon.clock.advance(0.9)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert not first.transport._outgoing.reader_closed
        daemon.clock.advance(0.2)
        await daemon.until(lambda: first.transport._outgoing.reader_closed)
        async with daemon.connect_raw() as third:
            assert (await third.rest())[0]["error"]["code"] == -32004


async def test_a_client_that_reads_nothing_does_not_hold_up_the_end(serving: Serving) -> None:
    clock = ManualClock()
    provider = ScriptedProvider([TextDelta("x" * 1000) for _ in range(1000)])
    async with serving(provider=provider, clock=clock, capacity=2000) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        await wire.send(
            {
                "jsonrpc": "2.0",
                "method": "session/prompt",
                "params": {"sessionId": session, "prompt": "x"},
                "id": 1,
            }
        )
        await daemon.until(lambda: clock.waits > 0)
        waits = clock.waits
        daemon.server.stop()
        await daemon.until(lambda: clock.waits > waits)
        clock.advance(5.6)
        await daemon.until(lambda: daemon.server.open_connections == 0)
