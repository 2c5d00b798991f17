"""Sessions whose agents talk to servers of models, as the configuration says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from http_origins import Answer, Asked, Origin
from model_streams import (
    anthropic_answer,
    asked_for,
    begins,
    chunk,
    in_turn,
    openai_answer,
    openai_call,
    says,
    sse,
    streamed,
)

from zeroclaw_daemon.rpc.errors import INTERNAL

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]
KEY = "sk-hunter2-0123456789"
MAIN = "providers.models.openai.main"


@pytest.fixture
def origin() -> Iterator[Callable[[Answer], Origin]]:
    made: list[Origin] = []

    def start(answers: Answer) -> Origin:
        made.append(Origin(answers))
        return made[-1]

    yield start
    for one in made:
        one.close()


def config(port: int, kind: str = "openai", **settings: str) -> str:
    lines = {"uri": f"http://127.0.0.1:{port}", "model": "m1", "api_key": KEY, **settings}
    return (
        'schema_version = 1\n[users.me]\nuid = 1\npermission_profiles = ["all"]\n[permission_profiles.all]\nadmin = true\n'
        f'[agents.ada]\nprovider = "{kind}.main"\n[providers.models.{kind}.main]\n'
        + "".join(f"{name} = {json.dumps(text)}\n" for name, text in lines.items() if text)
    )


def prompt(session: str, text: str = "hi") -> dict[str, Any]:
    return {"sessionId": session, "prompt": text}


def entries(*pairs: tuple[str, object]) -> dict[str, Any]:
    return {"sets": [{"prop": prop, "value": value} for prop, value in pairs]}


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("openai", streamed(*openai_answer("Hel", "lo"))),
        ("anthropic", streamed(*anthropic_answer("Hel", "lo"), named=True)),
    ],
)
async def test_an_agent_answers_by_the_server_it_is_configured_with(
    serving: Serving, origin: Callable[[Answer], Origin], kind: str, answer: Answer
) -> None:
    server = origin(answer)
    async with serving(config=config(server.port, kind)) as daemon, daemon.connect() as wire:
        session = await wire.new_session(agentAlias="ada")
        assert (await wire.call("session/prompt", prompt(session)))["content"] == "Hello"
        assert [update["params"].get("text") for update in wire.updates[:2]] == ["Hel", "lo"]
        (question,) = asked_for(server.asked)
        assert question["model"] == "m1"
        assert KEY in (server.asked[0].header("authorization") or server.asked[0].header("x-api-key") or "")


async def test_a_call_is_made_and_its_result_is_told_to_the_model(
    serving: Serving, origin: Callable[[Answer], Origin]
) -> None:
    server = origin(
        in_turn([streamed(*openai_call("shout", {"text": "a"})), streamed(*openai_answer("done"))])
    )
    async with serving(config=config(server.port)) as daemon, daemon.connect() as wire:
        session = await wire.new_session(agentAlias="ada")
        assert (await wire.call("session/prompt", prompt(session)))["content"] == "done"
        told = asked_for(server.asked)[1]["messages"]
        assert [message["role"] for message in told] == ["user", "assistant", "tool"]
        assert told[1]["tool_calls"][0]["id"] == told[2]["tool_call_id"] == "call_1"
        assert told[2]["content"].startswith("error: there is no tool shout")


@pytest.mark.req("RPC-122", "RPC-254")
async def test_an_answer_that_was_cut_off_says_so(
    serving: Serving, origin: Callable[[Answer], Origin]
) -> None:
    whole, cut = streamed(*openai_answer("whole")), streamed(chunk(content="ha"), chunk("length"), "[DONE]")
    server = origin(in_turn([cut, whole]))
    async with serving(config=config(server.port)) as daemon, daemon.connect() as wire:
        session = await wire.new_session(agentAlias="ada")
        told = [await wire.call("session/prompt", prompt(session)) for _ in range(2)]
        assert [(each["content"], each["stopReason"]) for each in told] == [
            ("ha", "end_turn"),
            ("whole", "end_turn"),
        ]
        ends = [u["params"] for u in wire.updates if u["params"]["type"] == "turn_complete"]
        assert [(end["outcome"], end["content"], end["reason"]) for end in ends] == [
            ("completed", "ha", "max_tokens"),
            ("completed", "whole", None),
        ]


@pytest.mark.req("RPC-084")
async def test_a_change_of_a_server_counts_from_the_next_turn_of_a_live_session(
    serving: Serving, origin: Callable[[Answer], Origin]
) -> None:
    first, second = (origin(streamed(*openai_answer(name))) for name in ("first", "second"))
    async with serving(config=config(first.port)) as daemon, daemon.connect() as wire:
        session = await wire.new_session(agentAlias="ada")
        assert (await wire.call("session/prompt", prompt(session)))["content"] == "first"
        uri = f"http://127.0.0.1:{second.port}"
        await wire.call(
            "config/set-many",
            entries((f"{MAIN}.uri", uri), (f"{MAIN}.model", "m2"), (f"{MAIN}.api_key", "sk-other")),
        )
        assert "sk-other" not in daemon.config.text
        assert (await wire.call("session/prompt", prompt(session)))["content"] == "second"
        assert len(first.asked) == 1
        assert asked_for(second.asked)[0]["model"] == "m2"
        assert second.asked[0].header("authorization") == "Bearer sk-other"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"uri": "far"}, "providers.models.openai.main.uri is no http or https address with a host"),
        ({"model": ""}, "no model is named for the model provider openai.main"),
    ],
)
async def test_a_server_that_cannot_be_asked_is_named_with_its_setting(
    serving: Serving, settings: dict[str, str], message: str
) -> None:
    async with serving(config=config(1, **settings)) as daemon, daemon.connect() as wire:
        error = await wire.fail("session/new", {"agentAlias": "ada"})
        assert (error["code"], error["data"]["reason"]) == (INTERNAL, "provider_failed")
        assert message in error["message"]
        # It is no reason to refuse a candidate, and the next one may mend it.
        await wire.call("config/set", {"prop": "agents.ada.max_steps", "value": 3})
        await wire.call(
            "config/set-many", entries((f"{MAIN}.uri", "http://127.0.0.1:1"), (f"{MAIN}.model", "m1"))
        )
        await wire.new_session(agentAlias="ada")


@pytest.mark.parametrize("key", ["enc2:00ff", "op://vault/item"])
async def test_a_key_that_cannot_be_unsealed_is_named(
    serving: Serving, origin: Callable[[Answer], Origin], key: str
) -> None:
    server = origin(streamed(*openai_answer("a")))
    async with serving(config=config(server.port, api_key=key)) as daemon, daemon.connect() as wire:
        session = await wire.new_session(agentAlias="ada")
        error = await wire.fail("session/prompt", prompt(session))
        assert f"{MAIN}.api_key cannot be read" in error["message"]
        assert server.asked == []


async def test_what_a_server_says_of_its_failure_reaches_the_client_without_the_key(
    serving: Serving, origin: Callable[[Answer], Origin]
) -> None:
    server = origin(says("400 Bad", {"error": {"message": f"no such model; you sent {KEY}\x1b[2J"}}))
    async with serving(config=config(server.port)) as daemon, daemon.connect() as wire:
        error = await wire.fail("session/prompt", prompt(await wire.new_session(agentAlias="ada")))
        assert "no such model; you sent [the key]\\x1b[2J" in error["message"]
        assert KEY not in json.dumps([error, wire.updates])


@pytest.mark.req("RPC-032", "RPC-064")
@pytest.mark.parametrize("how", ["cancel", "disconnect"])
async def test_a_turn_that_is_cancelled_ends_the_question_to_the_server(
    serving: Serving, origin: Callable[[Answer], Origin], how: str
) -> None:
    gone: list[str] = []

    def answer(asked: Asked) -> None:
        begins(sse(chunk(content="half")))(asked)
        gone.append("gone")

    server = origin(answer)
    async with serving(config=config(server.port)) as daemon, daemon.connect() as other:
        async with daemon.connect() as wire:
            session = await wire.new_session(agentAlias="ada")
            await wire.send(
                {"jsonrpc": "2.0", "method": "session/prompt", "params": prompt(session), "id": 7}
            )
            assert (await wire.receive())["params"]["text"] == "half"
            assert not gone
            if how == "cancel":
                await wire.call("session/cancel", {"sessionId": session})
                assert (await wire.answer_to(7))["result"]["stopReason"] == "cancelled"
        await daemon.until(lambda: bool(gone))
        assert other.updates == []
