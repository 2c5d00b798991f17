"""Every text of a client that names something has a length that it may have, wherever it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from zeroclaw_daemon.rpc.description.schemas import params_schema
from zeroclaw_daemon.rpc.errors import INVALID_PARAMS
from zeroclaw_daemon.rpc.methods.handshake import MAX_VARIABLES
from zeroclaw_daemon.rpc.methods.table import TABLE
from zeroclaw_daemon.rpc.models import MAX_NAME, MAX_PATH, MAX_TOKEN

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

CONTENT = {
    ("initialize", "env{}"),
    ("session/prompt", "prompt"),
    ("file/attach", "files[].data_b64"),
    ("file/upload/chunk", "data_b64"),
}
"""Texts that name nothing: what is said, and the bytes of files. A line bounds them."""


def texts(schema: dict[str, Any], where: str = "") -> Iterator[tuple[str, bool]]:
    """Where the schema takes any text, and whether it bounds its length."""
    if schema.get("type") == "string" and "enum" not in schema:
        yield where, "maxLength" in schema
    for choice in schema.get("anyOf", ()):
        yield from texts(choice, where)
    if "items" in schema:
        yield from texts(schema["items"], f"{where}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from texts(schema["additionalProperties"], f"{where}{{}}")
    for name, member in schema.get("properties", {}).items():
        yield from texts(member, f"{where}.{name}" if where else name)


@pytest.mark.req("RPC-237")
def test_every_text_that_names_something_is_bounded() -> None:
    found = [(name, *text) for name, row in TABLE.items() for text in texts(params_schema(row.params))]
    assert {(name, where) for name, where, bounded in found if not bounded} == CONTENT
    assert len(found) > 2 * len(CONTENT)


@pytest.mark.req("RPC-237")
@pytest.mark.parametrize(
    ("method", "params", "member", "limit"),
    [
        ("session/new", {"agentAlias": "assistant"}, "cwd", MAX_PATH),
        ("session/new", {}, "agentAlias", MAX_NAME),
        ("session/new", {"agentAlias": "assistant", "chatMode": "acp"}, "interactionSurface", MAX_NAME),
        ("initialize", {}, "authProvider", MAX_NAME),
        ("initialize", {}, "authToken", MAX_TOKEN),
        ("initialize", {}, "tuiId", MAX_NAME),
        ("file/upload/begin", {"session_id": "none", "size_bytes": 1}, "filename", MAX_PATH),
        ("file/upload/begin", {"session_id": "none", "size_bytes": 1}, "sha256", MAX_NAME),
    ],
)
async def test_a_longer_text_is_refused_before_anything_looks_at_it(
    serving: Serving, method: str, params: dict[str, Any], member: str, limit: int
) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        error = await wire.fail(method, {**params, member: "/" + "a/" * (limit // 2)})
        assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "invalid_params")
        problem = error["data"]["problems"][0]["problem"]
        assert str(limit) in problem
        answer = await wire.ask(method, {**params, member: "a" * limit})
        assert "problems" not in answer.get("error", {}).get("data", {}), answer


async def test_a_member_that_the_client_named_is_told_in_bounds(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        error = await wire.fail("initialize", {"env": {"n" * 100_000: 1}})
        assert error["data"]["problems"][0]["member"] == ("env." + "n" * MAX_NAME)[:MAX_NAME]
        assert len(str(error)) < 2000


async def test_an_environment_of_too_many_variables_is_not_looked_at_one_by_one(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        error = await wire.fail("initialize", {"env": {f"n{n}": 1 for n in range(MAX_VARIABLES + 1)}})
        assert [problem["member"] for problem in error["data"]["problems"]] == ["env"]
        await wire.initialize(env={f"n{n}": "1" for n in range(MAX_VARIABLES)})
