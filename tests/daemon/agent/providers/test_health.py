"""What the daemon knows of how it goes with each model provider."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import peers
import pytest
from config_stores import key_of
from http_origins import Answer, Origin
from model_streams import chunk, in_turn, openai_answer, says, streamed

from zeroclaw_daemon.agent.providers.base import ProviderError, TextDelta
from zeroclaw_daemon.agent.providers.health import HealthBoard, ProviderState
from zeroclaw_daemon.agents import ModelViews
from zeroclaw_daemon.config.file import Snapshot, parse

from .conftest import KEY, REQUEST

pytestmark = pytest.mark.anyio
GOOD = streamed(*openai_answer("Hel", "lo"))
NAME = "openai.far"


def snapshot(tmp_path: Path, uri: str, model: str = "m1") -> Snapshot:
    lines = f"uri = {json.dumps(uri)}\nmodel = {json.dumps(model)}\napi_key = {json.dumps(KEY)}\n"
    text = f"schema_version = 1\n[providers.models.openai.far]\n{lines}"
    return parse(text.encode(), tmp_path / "config.toml")


@pytest.fixture
def views(tmp_path: Path) -> ModelViews:
    return ModelViews(key_of(tmp_path / "config.toml"))


@pytest.fixture
def configured(server: Callable[..., Origin], tmp_path: Path) -> Callable[[Answer], Snapshot]:
    return lambda answers: snapshot(tmp_path, f"http://127.0.0.1:{server(answers).port}")


async def asked(views: ModelViews, current: Snapshot) -> list[Any]:
    provider = views.endpoint(NAME, current).provider
    assert provider is not None
    async with aclosing(provider.stream(REQUEST)) as events:
        return [event async for event in events]


async def test_nobody_has_asked_a_provider_of_a_daemon_that_just_started(
    views: ModelViews, tmp_path: Path
) -> None:
    assert views.facts(snapshot(tmp_path, "http://127.0.0.1:1")) == [
        {
            "name": NAME,
            "model": "m1",
            "state": "untried",
            "lastSuccessAt": None,
            "lastFailureAt": None,
            "lastFailure": None,
        }
    ]


async def test_a_whole_answer_is_a_success_and_the_failure_before_it_stays_readable(
    views: ModelViews, configured: Callable[[Answer], Snapshot]
) -> None:
    current = configured(in_turn([says("401 No", {"error": {"message": f"wrong: {KEY}"}}), GOOD]))
    with pytest.raises(ProviderError):
        await asked(views, current)
    (failing,) = views.facts(current)
    assert failing["state"] == "failing"
    assert failing["lastSuccessAt"] is None
    assert failing["lastFailureAt"].endswith("Z")
    assert (
        failing["lastFailure"] == f"the model provider {NAME} did not accept the key (401): wrong: [the key]"
    )
    await asked(views, current)
    (answering,) = views.facts(current)
    assert answering["state"] == "answering"
    assert answering["lastSuccessAt"].endswith("Z")
    assert answering["lastFailure"] == failing["lastFailure"]
    assert KEY not in repr(views.facts(current))


async def test_half_an_answer_is_a_failure_and_one_that_nobody_wants_any_more_is_neither(
    views: ModelViews, configured: Callable[[Answer], Snapshot]
) -> None:
    current = configured(in_turn([GOOD, streamed(chunk(content="half"))]))
    provider = views.endpoint(NAME, current).provider
    assert provider is not None
    async with aclosing(provider.stream(REQUEST)) as events:
        assert await anext(events) == TextDelta("Hel")
    assert views.facts(current)[0]["state"] == "untried"
    with pytest.raises(ProviderError, match="broke off"):
        await asked(views, current)
    assert views.facts(current)[0]["state"] == "failing"


async def test_health_outlives_a_change_of_the_configuration(
    views: ModelViews, server: Callable[..., Origin], tmp_path: Path
) -> None:
    uri = f"http://127.0.0.1:{server(GOOD).port}"
    before, after = snapshot(tmp_path, uri), snapshot(tmp_path, uri, "m2")
    await asked(views, before)
    views.prepare(after)()
    assert [(each["model"], each["state"]) for each in views.facts(after)] == [("m2", "answering")]


async def test_who_cannot_be_reached_fails_and_who_has_no_address_is_unusable(
    views: ModelViews, tmp_path: Path
) -> None:
    gone = snapshot(tmp_path, f"http://127.0.0.1:{peers.unused_port()}")
    with pytest.raises(ProviderError):
        await asked(views, gone)
    assert views.facts(gone)[0]["lastFailure"].startswith(f"the model provider {NAME} cannot be reached")
    (told,) = views.facts(snapshot(tmp_path, "ftp://x"))
    assert told["state"] == "unusable"
    assert told["lastFailure"] == "providers.models.openai.far.uri is no http or https address with a host"


async def test_a_key_that_cannot_be_read_is_a_failure_of_the_provider(
    views: ModelViews, tmp_path: Path
) -> None:
    text = (
        'schema_version = 1\n[providers.models.openai.far]\nuri = "http://127.0.0.1:1"\nmodel = "m"\n'
        'api_key = "enc2:' + "ab" * 60 + '"\n'
    )
    current = parse(text.encode(), tmp_path / "config.toml")
    with pytest.raises(ProviderError):
        await asked(views, current)
    (told,) = views.facts(current)
    assert told["state"] == "failing"
    assert told["lastFailure"].startswith("providers.models.openai.far.api_key cannot be read")


async def test_the_board_keeps_the_newest_of_each_kind() -> None:
    board = HealthBoard()
    board.failed("a", 0.0, "first")
    board.failed("a", 1.5, "second")
    board.answered("a", 3.0)
    found = board.of("a")
    assert found.state is ProviderState.ANSWERING
    assert found.facts() == {
        "state": "answering",
        "lastSuccessAt": "1970-01-01T00:00:03.000Z",
        "lastFailureAt": "1970-01-01T00:00:01.500Z",
        "lastFailure": "second",
    }
    assert board.of("b").state is ProviderState.UNTRIED
