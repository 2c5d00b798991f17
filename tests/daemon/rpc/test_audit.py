"""What the log has of clients: who came, whom they act for, what they were refused, and what stays when they go."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
from rosters import InForce, config_of

from zeroclaw_daemon.agent.providers.base import TextDelta
from zeroclaw_daemon.agent.providers.scripted import Pause, ScriptedProvider
from zeroclaw_daemon.authority.principal import Evidence, PeerCredential, Principal
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.records import STRANGERS_RECORDED, STRANGERS_SECONDS, Pace, Ration
from zeroclaw_daemon.rpc.caller import MAX_BINDINGS_RECORDED, Caller
from zeroclaw_daemon.rpc.limits import ConnectionLimits, ServerLimits

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

ANN, BEN = 70001, 70002


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[str], list[dict[str, Any]]]:
    """The facts of every record of an action."""
    caplog.set_level(logging.INFO)

    def of(action: str) -> list[dict[str, Any]]:
        facts = [record.zeroclaw for record in caplog.records if hasattr(record, "zeroclaw")]
        return [fact for fact in facts if fact["action"] == action]

    return of


async def test_a_client_s_going_names_the_sessions_that_stay(
    serving: Serving, told: Callable[[str], list[dict[str, Any]]]
) -> None:
    async with serving() as daemon, daemon.connect() as other:
        await other.new_session(sessionId="of-another")
        async with daemon.connect() as wire:
            await wire.new_session(sessionId="stays", keepSiblings=True)
            await wire.new_session(sessionId="closed", keepSiblings=True)
            await wire.call("session/close", {"sessionId": "closed"})
        await daemon.until(lambda: daemon.server.open_connections == 1)
        assert told("disconnected") == [
            {
                "action": "disconnected", "category": "audit", "peer": "memory:client",
                "principal": "shared-operator", "sessions_retained": ["stays"],
            }
        ]  # fmt: skip
        assert (await other.call("session/state", {"sessionId": "stays"}))["state"] == "idle"


async def test_who_never_introduced_itself_goes_as_nobody(
    serving: Serving, told: Callable[[str], list[dict[str, Any]]]
) -> None:
    async with serving() as daemon:
        async with daemon.connect(initialize=False):
            pass
        await daemon.until(lambda: bool(told("disconnected")))
        assert told("disconnected") == [
            {"action": "disconnected", "category": "audit", "peer": "memory:client"}
        ]
        assert not told("principal_bound")


@pytest.mark.req("RPC-032")
async def test_the_going_is_told_after_the_turns_have_ended(
    serving: Serving, told: Callable[[str], list[dict[str, Any]]]
) -> None:
    provider = ScriptedProvider([TextDelta("half"), Pause()])
    closed_then: list[int] = []

    class Watching(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if getattr(record, "zeroclaw", {}).get("action") == "disconnected":
                closed_then.append(provider.closed)

    watching = Watching()
    logging.getLogger("zeroclaw_daemon").addHandler(watching)
    try:
        async with serving(provider=provider) as daemon:
            async with daemon.connect() as wire:
                prompt = {"sessionId": await wire.new_session(), "prompt": "x"}
                await wire.send({"jsonrpc": "2.0", "method": "session/prompt", "params": prompt, "id": 1})
                await wire.receive()
            await daemon.until(lambda: bool(told("disconnected")))
    finally:
        logging.getLogger("zeroclaw_daemon").removeHandler(watching)
    assert closed_then == [1]


@pytest.mark.req("RPC-024")
async def test_who_is_late_is_named(serving: Serving, told: Callable[[str], list[dict[str, Any]]]) -> None:
    async with serving() as daemon, daemon.connect(initialize=False) as wire:
        await daemon.until(lambda: daemon.clock.waits == 1)
        daemon.clock.advance(30)
        assert await wire.rest() == []
        assert told("initialize_timeout")[0]["peer"] == "memory:client"


async def test_to_introduce_oneself_again_as_the_same_is_nothing_new(
    serving: Serving, told: Callable[[str], list[dict[str, Any]]]
) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        for _ in range(3):
            await wire.initialize()
        assert [fact["principal"] for fact in told("principal_bound")] == ["shared-operator"]


async def test_one_connection_cannot_wash_out_the_log_by_changing_whom_it_acts_for(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    peers = cycle([PeerCredential(1, ANN), PeerCredential(1, BEN)])

    class Changing(RosterAuthority):
        """For whom every introduction is somebody else's."""

        async def authenticate(self, evidence: Evidence) -> Principal:
            return await super().authenticate(replace(evidence, credential=next(peers)))

    users = {"ann": {"uid": ANN}, "ben": {"uid": BEN}}
    profile = {"permission_profiles": {"all": {"admin": True}}}
    roster = config_of(
        {"users": {n: {**u, "permission_profiles": ["all"]} for n, u in users.items()}, **profile}
    )
    authority = Changing(InForce(roster), None, os.geteuid())
    async with serving(authority=authority) as daemon, daemon.connect() as wire:
        for _ in range(MAX_BINDINGS_RECORDED + 5):
            await wire.initialize()
    bound = [each for each in caplog.records if "bound to a principal" in each.getMessage()]
    assert len(bound) == MAX_BINDINGS_RECORDED
    assert bound[-1].getMessage().endswith("; further ones of this connection are not recorded")
    assert not any("further" in each.getMessage() for each in bound[:-1])


async def test_nothing_is_kept_of_what_a_client_declares_but_whether_it_takes_questions(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    callers: list[Caller] = []
    behind = Caller.bind

    def bind(caller: Caller, *bound: Any, **named: Any) -> None:
        callers.append(caller)
        behind(caller, *bound, **named)

    monkeypatch.setattr(Caller, "bind", bind)
    declared = {"elicitation": {"form": {"planted": []}, "planted": [[]]}, "planted": [[], []]}
    async with serving() as daemon, daemon.connect(clientCapabilities=declared):
        (caller,) = callers
        assert caller.takes_questions
        assert "planted" not in repr(vars(caller))


# Strangers of other machines, who may come as often as they like.


def test_what_strangers_do_is_recorded_at_a_pace_that_they_share() -> None:
    now = 0.0
    pace = Pace(lambda: now, limit=2, seconds=10)
    first, second = Ration(3, lambda: pace), Ration(3, lambda: pace)
    assert first.spend("a") == "a"
    assert second.spend("b") == "b; what strangers do is not recorded for some minutes"
    assert first.spend("c") is None
    assert second.spend("d") is None
    now = 9.9
    assert first.spend("e") is None
    now = 10.0  # a new period, and what was not recorded has cost nothing
    assert first.spend("f") == "f"
    assert first.spend("g") == (
        "g; what strangers do is not recorded for some minutes; further ones of this connection are not recorded"
    )
    now = 20.0
    assert first.spend("h") is None
    assert second.spend("i") == "i"


def test_the_shipped_pace() -> None:
    assert (STRANGERS_RECORDED, STRANGERS_SECONDS) == (60, 600.0)


@pytest.mark.req("RPC-053")
async def test_strangers_of_other_machines_cannot_wash_out_the_log(
    serving: Serving, told: Callable[[str], list[dict[str, Any]]], caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as daemon, daemon.connect() as operator:
        caplog.clear()
        for _ in range(STRANGERS_RECORDED):
            async with daemon.connect(initialize=False, local=False) as wire:
                await wire.fail("initialize", {"authToken": "zct_guessed"})
                await wire.send(b"{")
                await wire.receive()
            await daemon.until(lambda: daemon.server.open_connections == 1)
        recorded = [record.zeroclaw for record in caplog.records]
        assert len(recorded) == STRANGERS_RECORDED
        assert {fact["action"] for fact in recorded} == {"denied", "parse_error"}
        assert "for some minutes" in caplog.records[-1].getMessage()
        # Nobody else is unheard for it: not whoever is of this machine, and not after some minutes.
        await operator.fail("initialize", {"authToken": "zct_guessed"})
        async with daemon.connect():
            pass
        daemon.clock.advance(STRANGERS_SECONDS)
        async with daemon.connect(initialize=False, local=False) as wire:
            await wire.fail("initialize", {"authToken": "zct_guessed"})
        assert len(told("denied")) == STRANGERS_RECORDED // 2 + 2
        assert len(told("connected")) == 1


async def test_strangers_who_come_too_late_or_too_long_are_recorded_at_that_pace_too(
    serving: Serving, told: Callable[[str], list[dict[str, Any]]]
) -> None:
    limits = ServerLimits(max_connections=2 * STRANGERS_RECORDED, connection=ConnectionLimits(frame_bytes=10))
    async with serving(limits=limits) as daemon, AsyncExitStack() as peers:
        for number in range(STRANGERS_RECORDED + 10):
            wire = await peers.enter_async_context(daemon.connect_raw(None, False))
            if number % 2:
                await wire.write(b"x" * 11)
                await wire.rest()
        late = (STRANGERS_RECORDED + 10) // 2
        await daemon.until(lambda: daemon.clock.waits >= late)
        daemon.clock.advance(30.1)
        await daemon.until(lambda: daemon.server.open_connections == 0)
        assert len(told("frame_too_large")) == late
        assert len(told("initialize_timeout")) == STRANGERS_RECORDED - late
        assert told("connected") == told("disconnected") == []
