"""``session/configure``: one live session talks to another model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from zeroclaw_daemon.agent.providers.base import TextDelta
from zeroclaw_daemon.agent.providers.scripted import Pause, ScriptedProvider
from zeroclaw_daemon.rpc.errors import INTERNAL, INVALID_PARAMS, SESSION_NOT_FOUND

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

FILE = """\
schema_version = 1

[agents.ada]
model = "m1"

[providers.models.echo.house]
model = "h1"

[providers.models.echo.bare]

[providers.models.openai.far]
uri = "far"
model = "o1"
"""


async def model_of(wire: Any, session: str) -> str:
    return str((await wire.call("session/prompt", {"sessionId": session, "prompt": "/model"}))["content"])


async def configure(wire: Any, session: str, **overrides: Any) -> Any:
    result = await wire.call("session/configure", {"sessionId": session, "overrides": overrides})
    assert result["sessionId"] == session
    return result["overrides"]


@pytest.mark.req("RPC-245")
async def test_one_live_session_has_another_model_and_no_byte_is_written(serving: Serving) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        before = daemon.config.file.read_bytes()
        session = await wire.new_session(agentAlias="ada")
        other = await wire.new_session(agentAlias="ada", keep_siblings=True)
        assert await configure(wire, session, model="m2") == {"model": "m2"}
        assert await model_of(wire, session) == "m2"
        assert await model_of(wire, other) == "m1"
        later = await wire.new_session(agentAlias="ada", keep_siblings=True)
        assert await model_of(wire, later) == "m1"
        assert daemon.config.file.read_bytes() == before
        assert daemon.config.left_over == []
        # Joining it again changes nothing.
        await wire.call("session/new", {"agentAlias": "ada", "sessionId": session, "keep_siblings": True})
        assert await model_of(wire, session) == "m2"


@pytest.mark.req("RPC-245")
async def test_overrides_add_up_and_null_takes_one_back(serving: Serving) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        session = await wire.new_session(agentAlias="ada")
        for given, merged, model in (
            ({"temperature": 0.5}, {"temperature": 0.5}, "m1"),
            ({"model": "m2"}, {"model": "m2", "temperature": 0.5}, "m2"),
            ({}, {"model": "m2", "temperature": 0.5}, "m2"),
            ({"modelProvider": "echo.house"}, {"modelProvider": "echo.house", "temperature": 0.5}, "h1"),
            ({"model": "h2"}, {"modelProvider": "echo.house", "model": "h2", "temperature": 0.5}, "h2"),
            ({"model_provider": "echo.house"}, {"modelProvider": "echo.house", "model": "h2", "temperature": 0.5}, "h2"),
            ({"modelProvider": "echo.bare"}, {"modelProvider": "echo.bare", "temperature": 0.5}, "echo"),
            ({"modelProvider": "echo.house", "model": "h3"}, {"modelProvider": "echo.house", "model": "h3", "temperature": 0.5}, "h3"),
            ({"model": None}, {"modelProvider": "echo.house", "temperature": 0.5}, "h1"),
            ({"modelProvider": None, "temperature": None}, {}, "m1"),
        ):  # fmt: skip
            assert await configure(wire, session, **given) == merged
            assert await model_of(wire, session) == model
        # The configuration stays live below the overrides.
        await configure(wire, session, temperature=0)
        await wire.call("config/set", {"prop": "agents.ada.model", "value": "m9"})
        assert await model_of(wire, session) == "m9"


@pytest.mark.parametrize(
    ("overrides", "code", "reason"),
    [
        ({"modelProvider": "echo.none"}, INVALID_PARAMS, "provider_not_found"),
        ({"modelProvider": "openai.far"}, INTERNAL, "provider_failed"),
        ({"modelProvider": ""}, INVALID_PARAMS, "invalid_params"),
        ({"modelProvider": "echo", "model_provider": "echo.house"}, INVALID_PARAMS, "conflicting_spelling"),
        ({"model": ""}, INVALID_PARAMS, "invalid_params"),
        ({"model": 5}, INVALID_PARAMS, "invalid_params"),
        ({"temperature": -0.1}, INVALID_PARAMS, "invalid_params"),
        ({"temperature": 2.1}, INVALID_PARAMS, "invalid_params"),
        ({"temperature": "1"}, INVALID_PARAMS, "invalid_params"),
        ({"temperature": True}, INVALID_PARAMS, "invalid_params"),
        (None, INVALID_PARAMS, "invalid_params"),
        ([], INVALID_PARAMS, "invalid_params"),
    ],
)
async def test_overrides_that_cannot_be_leave_the_session_as_it_was(
    serving: Serving, overrides: Any, code: int, reason: str
) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        session = await wire.new_session(agentAlias="ada")
        await configure(wire, session, model="m2")
        error = await wire.fail("session/configure", {"sessionId": session, "overrides": overrides})
        assert (error["code"], error["data"]["reason"]) == (code, reason)
        assert await model_of(wire, session) == "m2"


async def test_a_session_that_is_not_there_cannot_be_configured(serving: Serving) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        error = await wire.fail("session/configure", {"sessionId": "none", "overrides": {}})
        assert error["code"] == SESSION_NOT_FOUND


async def test_a_provider_that_is_taken_out_later_fails_the_turn_that_wants_it(serving: Serving) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        session = await wire.new_session(agentAlias="ada")
        await configure(wire, session, modelProvider="echo.house")
        await wire.call("config/map-key-delete", {"path": "providers.models.echo", "key": "house"})
        error = await wire.fail("session/prompt", {"sessionId": session, "prompt": "hi"})
        assert (error["code"], error["data"]["cause"]) == (INTERNAL, "provider_not_found")
        await configure(wire, session, modelProvider=None)
        assert await model_of(wire, session) == "m1"


@pytest.mark.req("RPC-245")
async def test_a_running_turn_goes_on_with_its_model_and_the_next_is_told_everything(
    serving: Serving,
) -> None:
    pause = Pause()
    provider = ScriptedProvider([TextDelta("a"), pause], [TextDelta("b")])
    async with serving(provider=provider) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        prompt = {
            "jsonrpc": "2.0",
            "method": "session/prompt",
            "params": {"sessionId": session, "prompt": "1"},
        }
        await wire.send({**prompt, "id": 1})
        await pause.reached.wait()
        await configure(wire, session, model="m2", temperature=0.25)
        pause.go.set()
        await wire.answer_to(1)
        await wire.call("session/prompt", {"sessionId": session, "prompt": "2"})
        asked = [(request.model, request.temperature) for request in provider.requests]
        assert asked == [("echo-1", None), ("m2", 0.25)]
