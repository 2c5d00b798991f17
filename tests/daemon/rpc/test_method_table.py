"""Every method against every kind of caller, and the page that documents them against the table that serves them."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_daemon.rpc.errors import AUTHENTICATION_REQUIRED, FORBIDDEN, INVALID_PARAMS
from zeroclaw_daemon.rpc.methods.table import TABLE, Signature
from zeroclaw_daemon.sessions.ticket import Cause

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

NEEDED: dict[str, str | None] = {
    "initialize": None,
    "status": "system:read",
    "session/new": "sessions:create",
    "session/prompt": "sessions:execute",
    "session/approve": "sessions:update",
    "session/cancel": "sessions:update",
    "session/close": "sessions:update",
    "session/kill": "sessions:delete",
    "session/delete": "sessions:delete",
    "session/state": "sessions:read",
    "session/messages": "sessions:read",
    "session/list": "sessions:read",
    "session/list-acp": "sessions:read",
    "session/configure": "sessions:update",
    "config/get": "config:read",
    "config/list": "config:read",
    "config/set": "config:update",
    "config/set-many": "config:update",
    "config/delete": "config:delete",
    "config/validate": "config:update",
    "config/reload": "config:update",
    "config/map-keys": "config:read",
    "config/map-key-create": "config:create",
    "config/map-key-delete": "config:delete",
    "config/map-key-rename": "config:update",
    "file/attach": "files:create",
    "file/upload/begin": "files:create",
    "file/upload/chunk": "files:create",
    "file/upload/commit": "files:create",
}
"""What each method needs, as it is specified and not as the table has it."""

GRANTS = sorted(
    {grant for grant in NEEDED.values() if grant} | {"config:execute", "sessions:delete", "cron:read"}
)
GATED = [method for method in NEEDED if method != "initialize"]
STRANGER = 4_000_000_000

HEAD = "schema_version = 1\nsecurity.trust_daemon_uid = false\n[agents.ada]\n[agents.eve]\n"


def file_with(profile: str) -> str:
    """The daemon's own user, not trusted, with this profile."""
    return (
        f"{HEAD}[permission_profiles.p]\n{profile}\n"
        f'[users.me]\nuid = {os.geteuid()}\npermission_profiles = ["p"]\n'
    )


def one_grant(grant: str) -> str:
    resource, verb = grant.split(":")
    return f'allowed_agents = ["*"]\nconfig_write_paths = ["*"]\ngrants.{resource} = ["{verb}"]'


EVERYTHING = (
    'grants = { config = ["create", "read", "update", "delete"], system = ["read"], files = ["create"],'
    ' sessions = ["create", "read", "update", "delete", "execute"] }'
)


@pytest.mark.req("RPC-056")
def test_the_table_has_what_is_specified() -> None:
    assert {name: str(row.grant) if row.grant else None for name, row in TABLE.items()} == NEEDED
    assert [name for name, row in TABLE.items() if row.opens] == ["initialize"]
    assert [name for name, row in TABLE.items() if row.judges] == ["file/upload/commit"]
    assert {name for name, row in TABLE.items() if row.writes} == {
        name for name, grant in NEEDED.items() if re.match("config:(create|update|delete)", grant or "")
    } - {"config/validate", "config/reload"}


async def test_a_whole_daemon_serves_the_whole_table(serving: Serving) -> None:
    async with serving(config=HEAD) as daemon:
        assert set(daemon.server.dispatcher.methods) == set(TABLE)


# How a caller reaches the daemon.


@asynccontextmanager
async def by_injected_peer(serving: Serving, text: str) -> AsyncGenerator[tuple[Any, Any]]:
    async with serving(config=text) as daemon, daemon.connect() as wire:
        yield daemon, wire


@asynccontextmanager
async def by_own_number(serving: Serving, text: str) -> AsyncGenerator[tuple[Any, Any]]:
    async with serving(config=text, socket=True) as daemon, daemon.connect() as wire:
        yield daemon, wire


@asynccontextmanager
async def by_token(serving: Serving, text: str) -> AsyncGenerator[tuple[Any, Any]]:
    """A token stands for the user; the number of the process would be somebody else's."""
    text = text.replace(f"uid = {os.geteuid()}", "uid = 77777").replace("= false", "= true", 1)
    async with serving(config=text, socket=True) as daemon:
        token = daemon.config.tokens.pair("me").text
        async with daemon.connect(authToken=token) as wire:
            yield daemon, wire


ROADS = {"an injected peer": by_injected_peer, "the real socket": by_own_number, "a token": by_token}


async def gate(wire: Any, method: str) -> int | None:
    """The code with which the gate refuses a call, or None where it lets it pass.

    Parameters are wrong wherever the method has required ones, so a call that passes the gate does nothing.
    """
    answer = await wire.ask(method, {})
    if "result" in answer:
        return None
    code = answer["error"]["code"]
    assert code in (AUTHENTICATION_REQUIRED, FORBIDDEN, INVALID_PARAMS)
    return None if code == INVALID_PARAMS else code


@pytest.mark.req("RPC-052", "RPC-079", "RPC-239")
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("grant", GRANTS)
async def test_one_grant_opens_its_methods_and_no_other(serving: Serving, road: str, grant: str) -> None:
    async with ROADS[road](serving, file_with(one_grant(grant))) as (_, wire):
        for method in GATED:
            assert await gate(wire, method) == (None if NEEDED[method] == grant else FORBIDDEN), method


@pytest.mark.req("RPC-052", "RPC-056")
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("profile", ["admin = true", EVERYTHING], ids=["an administrator", "every grant"])
async def test_whoever_has_every_grant_passes_every_gate(serving: Serving, road: str, profile: str) -> None:
    async with ROADS[road](serving, file_with(profile)) as (_, wire):
        assert [method for method in GATED if await gate(wire, method) is not None] == []


@pytest.mark.req("RPC-052")
@pytest.mark.parametrize("socket", [False, True], ids=["memory", "socket"])
async def test_the_shared_operator_passes_every_gate(serving: Serving, socket: bool) -> None:
    async with serving(config="", socket=socket) as daemon, daemon.connect() as wire:
        assert (await wire.initialize())["principalId"] == "shared-operator"
        assert [method for method in GATED if await gate(wire, method) is not None] == []


@pytest.mark.req("RPC-040")
async def test_before_the_handshake_no_gate_is_open(serving: Serving) -> None:
    async with serving(config="") as daemon, daemon.connect(initialize=False) as wire:
        for method in GATED:
            error = await wire.fail(method, {})
            assert (error["code"], error["data"]["reason"]) == (
                AUTHENTICATION_REQUIRED,
                "initialize_required",
            )


NOBODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "a number that nobody has": (file_with(EVERYTHING), {"uid": STRANGER}),
    "root": (file_with(EVERYTHING), {"uid": 0}),
    "a user without a grant": (
        file_with('allowed_agents = ["*"]\nallowed_tools = ["*"]\nconfig_write_paths = ["*"]'),
        {},
    ),
    "a grant without a verb": (file_with("grants.system = []"), {}),
    "a token that is none": (file_with(EVERYTHING), {"authToken": "zct_none"}),
    "a provider that is none": (file_with(EVERYTHING), {"authProvider": "oidc.house"}),
    "the daemon's own number, not trusted and not listed": (HEAD, {}),
}


@pytest.mark.req("RPC-052")
@pytest.mark.parametrize("who", NOBODIES)
async def test_nobody_is_not_let_in_and_calls_nothing(serving: Serving, who: str) -> None:
    text, params = NOBODIES[who]
    uid = params.get("uid")
    if uid == os.geteuid():
        text = text.replace(f"uid = {uid}", "uid = 77777")
    shown = {name: value for name, value in params.items() if name != "uid"}
    async with serving(config=text) as daemon, daemon.connect(initialize=False, uid=uid) as wire:
        error = await wire.fail("initialize", {"protocolVersion": 1, **shown})
        assert (error["code"], error["data"]["reason"]) == (AUTHENTICATION_REQUIRED, "authentication_failed")
        for method in GATED:
            assert await gate(wire, method) == AUTHENTICATION_REQUIRED, method


@pytest.mark.req("RPC-238", "RPC-239")
async def test_who_was_unpaired_is_nobody_at_every_method(serving: Serving) -> None:
    async with by_token(serving, file_with(EVERYTHING)) as (daemon, wire):
        assert await gate(wire, "status") is None
        daemon.config.tokens.unpair(daemon.config.tokens.list()[0].id)
        for method in GATED:
            assert await gate(wire, method) == AUTHENTICATION_REQUIRED, method


CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "config/set": ({"prop": "agents.ada.model", "value": "m"}, "agents.ada.model"),
    "config/set-many": ({"sets": [{"prop": "agents.ada.model", "value": "m"}]}, "agents.ada.model"),
    "config/delete": ({"prop": "agents.ada.model"}, "agents.ada.model"),
    "config/map-key-create": ({"path": "agents", "key": "ben"}, "agents.ben"),
    "config/map-key-rename": ({"path": "agents", "from": "ada", "to": "ben"}, "agents.ada"),
    "config/map-key-delete": ({"path": "agents", "key": "ada"}, "agents.ada"),
}


@pytest.mark.req("RPC-080")
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("method", [name for name, row in TABLE.items() if row.writes])
async def test_whoever_is_limited_in_paths_writes_those_alone(
    serving: Serving, road: str, method: str
) -> None:
    params, path = CALLS[method]
    allowed = f'{EVERYTHING}\nconfig_write_paths = ["agents.*"]'
    for profile in (EVERYTHING, f'{EVERYTHING}\nconfig_write_paths = ["rpc.*", "agents.eve.*"]'):
        async with ROADS[road](serving, file_with(profile)) as (daemon, wire):
            text = daemon.config.text
            error = await wire.fail(method, params)
            assert (error["code"], error["data"]["path"]) == (FORBIDDEN, path)
            assert daemon.config.text == text
    async with ROADS[road](serving, file_with(allowed)) as (_, wire):
        await wire.call(method, params)


@pytest.mark.parametrize("road", ROADS)
async def test_whoever_is_limited_in_agents_talks_to_those_alone(serving: Serving, road: str) -> None:
    async with ROADS[road](serving, file_with(f'{EVERYTHING}\nallowed_agents = ["ada"]')) as (_, wire):
        await wire.call("session/new", {"agentAlias": "ada"})
        for alias in ("eve", "nobody"):
            error = await wire.fail("session/new", {"agentAlias": alias})
            assert (error["code"], error["data"]["agent"]) == (FORBIDDEN, alias)


# The page.

PAGE = Path(__file__).parents[3] / "docs" / "rpc.md"


def table_rows() -> list[list[str]]:
    """The cells of every row of every table on the page."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def documented() -> dict[str, list[str]]:
    """Grant, parameters and result of each method as the page has them."""
    rows = {cells[0].strip("`"): cells[1:] for cells in table_rows() if len(cells) == 4}
    return {name: cells for name, cells in rows.items() if name in TABLE}


def results(row: Signature) -> set[str]:
    fields = row.result.model_fields
    aliases = row.result.model_config.get("alias_generator")
    return {field.alias or (aliases(name) if callable(aliases) else name) for name, field in fields.items()}


def test_the_page_has_every_method_with_its_grant_its_parameters_and_its_result() -> None:
    page = documented()
    assert list(page) == list(TABLE)
    for name, row in TABLE.items():
        grant, params, result = page[name]
        assert grant == (f"`{row.grant}`" if row.grant else ""), name
        bare = re.sub(r"\([^)]*\)", "", params)
        written = re.findall(r"(\*\*)?`(\w+)`", bare)
        assert [(member, bool(stars)) for stars, member in written] == list(row.members.items()), name
        answered = set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", result)))
        if row.result.model_config.get("extra") == "allow":
            assert results(row) <= answered, name
        elif name != "config/get":
            assert answered == results(row), name


@pytest.mark.req("RPC-254")
def test_the_page_has_every_reason_for_which_a_turn_is_cancelled() -> None:
    [said] = re.findall(
        r"The `reason` of a cancelled one is (.*?); of a completed one", PAGE.read_text(), re.DOTALL
    )
    assert re.findall(r"`(\w+)`", said) == [cause.value for cause in Cause]


@pytest.mark.req("RPC-237")
def test_the_page_says_which_code_a_refusal_of_the_configuration_has() -> None:
    reference = (PAGE.parent / "reference" / "errors.md").read_text()
    codes = dict(re.findall(r"^\| `(\w+)` \|.*?\| (-\d+) \|", reference, re.MULTILINE))
    rows = [cells for cells in table_rows() if len(cells) == 4 and cells[1].startswith("-32")]
    assert len(rows) >= 10
    for words, code, _, _ in rows:
        for word in re.findall(r"`(\w+)`", words):
            assert codes[word] == code, word
