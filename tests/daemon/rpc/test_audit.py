"""What the log has of clients: who came, whom they act for, what they were refused, and what stays when they go."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from zeroclaw_daemon.agent.providers.base import TextDelta
from zeroclaw_daemon.agent.providers.scripted import Pause, ScriptedProvider

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]


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
