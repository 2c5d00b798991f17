"""Ways around ``config_write_paths`` that a limited principal may try: another path for the same place, a place that moves to
another path, a name that holds more than the principal may write.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from zeroclaw_daemon.rpc.errors import FORBIDDEN, INVALID_PARAMS
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

MINE = InstanceIdentity("mine", Capability.TOOL, "main").key
OTHER = InstanceIdentity("other", Capability.TOOL, "main").key

ROWS = f"""\
schema_version = 1
security.trust_daemon_uid = false

[agents.ada]
[agents.eve]
workspace = "/srv/eve"

[[plugins.entries]]
name = "{MINE}"
egress_hosts = ["mine.example"]
config = {{ "a.b" = "plain", c = "plain" }}
[[plugins.entries.tls_profiles]]
name = "x"
hosts = ["mine.example"]

[[plugins.entries]]
name = "weather"
[[plugins.entries]]
name = "weather.more"
egress_hosts = ["weather.example"]
"""


def limited_to(*paths: str) -> str:
    """The daemon's own user may write these paths, by every method."""
    return f"""\
{ROWS}
[permission_profiles.p]
config_write_paths = {json.dumps(paths)}
allowed_agents = ["*"]
grants.config = ["create", "read", "update", "delete"]
[users.me]
uid = {os.geteuid()}
permission_profiles = ["p"]
"""


async def refused(serving: Serving, paths: tuple[str, ...], method: str, params: Any) -> Any:
    """The error of a call that must change nothing."""
    async with serving(config=limited_to(*paths), socket=True) as daemon, daemon.connect() as wire:
        before = daemon.config.file.read_bytes()
        error = await wire.fail(method, params)
        assert daemon.config.file.read_bytes() == before
        return error


MOVED = [
    (f"plugins.entries.{MINE}", OTHER),
    (f"plugins.entries.{MINE}", "weather.other"),
    ("plugins.entries.weather", OTHER),
    (f"plugins.entries.{MINE}.tls_profiles.x", "y"),
]


@pytest.mark.req("RPC-080")
@pytest.mark.parametrize("method", ["config/set", "config/set-many"])
@pytest.mark.parametrize(("row", "name"), MOVED)
async def test_a_row_does_not_become_another_by_a_new_name(
    serving: Serving, row: str, name: str, method: str
) -> None:
    """What is written below one row would count for another instance, whose path is not allowed."""
    entry = {"prop": f"{row}.name", "value": name}
    params = entry if method == "config/set" else {"sets": [entry]}
    error = await refused(serving, (f"{row}.*",), method, params)
    assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "property_value_invalid")
    assert "config/map-key-rename" in error["message"]


async def test_the_name_a_row_has_can_be_set(serving: Serving) -> None:
    prop = f"plugins.entries.{MINE}.name"
    async with serving(config=limited_to("plugins.*")) as daemon, daemon.connect() as wire:
        before = daemon.config.file.read_bytes()
        assert await wire.call("config/set", {"prop": prop, "value": MINE}) == {"prop": prop, "set": True}
        assert b"mine.example" in daemon.config.file.read_bytes()
        assert b"plain" in before


RENAMED = {"path": "plugins.entries", "from": "weather", "to": OTHER}


@pytest.mark.req("RPC-080")
@pytest.mark.parametrize(
    ("paths", "missing"),
    [
        (["plugins.entries.weather.*"], f"plugins.entries.{OTHER}"),
        (["plugins.entries.weather.*", f"plugins.entries.{OTHER}"], f"plugins.entries.{OTHER}.*"),
        ([f"plugins.entries.{OTHER}.*"], "plugins.entries.weather"),
        ([f"plugins.entries.{OTHER}.*", "plugins.entries.weather"], "plugins.entries.weather.*"),
    ],
)
async def test_a_row_is_renamed_by_whoever_may_write_all_of_both(
    serving: Serving, paths: list[str], missing: str
) -> None:
    error = await refused(serving, tuple(paths), "config/map-key-rename", RENAMED)
    assert (error["code"], error["data"]["path"]) == (FORBIDDEN, missing)
    both = ("plugins.entries.weather.*", f"plugins.entries.{OTHER}.*")
    async with serving(config=limited_to(*both)) as daemon, daemon.connect() as wire:
        assert (await wire.call("config/map-key-rename", RENAMED))["renamed"]


@pytest.mark.req("RPC-080")
@pytest.mark.parametrize(("path", "key"), [("agents", "eve"), ("plugins.entries", MINE)])
async def test_a_right_to_a_name_is_none_to_delete_what_is_below(
    serving: Serving, path: str, key: str
) -> None:
    named = f"{path}.{key}"
    error = await refused(serving, (named,), "config/map-key-delete", {"path": path, "key": key})
    assert (error["code"], error["data"]["path"]) == (FORBIDDEN, f"{named}.*")
    async with serving(config=limited_to(f"{named}.*")) as daemon, daemon.connect() as wire:
        assert (await wire.call("config/map-key-delete", {"path": path, "key": key}))["deleted"]


@pytest.mark.parametrize("key", ["a.b", "c"])
async def test_a_single_value_has_nothing_below_it(serving: Serving, key: str) -> None:
    of_values = f"plugins.entries.{MINE}.config"
    params = {"path": of_values, "key": key}
    other = "c" if key == "a.b" else "a.b"
    error = await refused(serving, (f"{of_values}.{other}",), "config/map-key-delete", params)
    assert error["code"] == FORBIDDEN
    async with serving(config=limited_to(f"{of_values}.{key}")) as daemon, daemon.connect() as wire:
        assert (await wire.call("config/map-key-delete", params))["deleted"]


@pytest.mark.req("RPC-080")
@pytest.mark.parametrize("method", ["config/map-key-delete", "config/map-key-rename"])
async def test_a_row_with_a_dot_in_its_name_is_not_below_another(serving: Serving, method: str) -> None:
    params = {"path": "plugins.entries", "key": "weather.more", "from": "weather.more", "to": OTHER}
    paths = ("plugins.entries.weather.*", f"plugins.entries.{OTHER}.*")
    error = await refused(serving, paths, method, params)
    assert (error["code"], error["data"]["path"]) == (FORBIDDEN, 'plugins.entries."weather.more"')
    async with serving(config=limited_to("plugins.entries.*")) as daemon, daemon.connect() as wire:
        await wire.call(method, params)


NAMED_ONLY = ["users", "users.me", "users.me.permission_profiles", "permission_profiles.p.admin", "security"]
SPELLINGS = ["{}", '"{}"', " {}", "{} ", "{}.", ".{}", "{}\u200b", "{}\0"]


@pytest.mark.req("RPC-080")
@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_no_spelling_of_a_path_makes_an_administrator(serving: Serving, spelling: str) -> None:
    """With ``*``, by every method that writes and every section that decides who may do what."""
    async with serving(config=limited_to("*"), socket=True) as daemon, daemon.connect() as wire:
        before = daemon.config.file.read_bytes()
        for path in NAMED_ONLY:
            first, _, rest = path.partition(".")
            written = spelling.format(first) + (f".{rest}" if rest else "")
            map_path, _, key = written.rpartition(".")
            calls: list[tuple[str, Any]] = [
                ("config/delete", {"prop": written}),
                ("config/map-key-create", {"path": map_path or "users", "key": key or "x"}),
                ("config/map-key-delete", {"path": map_path or "users", "key": key or "x"}),
                ("config/map-key-rename", {"path": map_path or "users", "from": key or "x", "to": "y"}),
            ]
            for value in (True, "p", ["p"], {"p": {"admin": True}}, None):
                calls += [
                    ("config/set", {"prop": written, "value": value}),
                    ("config/set-many", {"sets": [{"prop": written, "value": value}]}),
                ]
            for method, params in calls:
                error = await wire.fail(method, params)
                assert error["code"] in (FORBIDDEN, INVALID_PARAMS), (method, params)
        assert daemon.config.file.read_bytes() == before


@pytest.mark.req("RPC-059", "RPC-079", "RPC-080")
async def test_a_call_that_waits_for_no_answer_is_judged_all_the_same(serving: Serving) -> None:
    async with serving(config=limited_to("agents.ada.*"), socket=True) as daemon, daemon.connect() as wire:
        before = daemon.config.file.read_bytes()
        write = {"jsonrpc": "2.0", "method": "config/set"}
        await wire.send({**write, "params": {"prop": "agents.eve.model", "value": "m"}})
        await wire.assert_silent()
        assert daemon.config.file.read_bytes() == before
        await wire.send({"jsonrpc": "2.0", "method": "session/new", "params": {"agentAlias": "ada"}})
        await wire.assert_silent()
        assert daemon.server.sessions.ids() == []
        await wire.send({**write, "params": {"prop": "agents.ada.model", "value": "m"}})
        await wire.assert_silent()
        assert (await wire.call("config/get", {"prop": "agents.ada.model"}))["value"] == "m"


@pytest.mark.req("RPC-080", "RPC-082")
async def test_what_the_environment_says_judges_too_and_under_the_lock_as_well(serving: Serving) -> None:
    """By the file alone the caller would be the operator, or could write something else."""
    text = limited_to("agents.eve.*").replace("security.trust_daemon_uid = false\n", "")
    env = {
        "ZEROCLAW_security__trust_daemon_uid": "false",
        "ZEROCLAW_permission_profiles__p__config_write_paths": "agents.ada.*",
    }
    async with serving(config=text, env=env, socket=True) as daemon, daemon.connect() as wire:
        for prop in ("agents.eve.model", "rpc.max_local_connections", "security.trust_daemon_uid"):
            error = await wire.fail("config/set", {"prop": prop, "value": "7"})
            assert (error["code"], error["data"]["path"]) == (FORBIDDEN, prop)
        assert daemon.config.text == text
        await wire.call("config/set", {"prop": "agents.ada.model", "value": "m"})
        assert "trust_daemon_uid" not in daemon.config.text
        assert 'config_write_paths = ["agents.eve.*"]' in daemon.config.text


@pytest.mark.req("RPC-239")
async def test_an_edit_of_the_same_size_and_time_counts_at_the_next_request(serving: Serving) -> None:
    async with serving(config=limited_to("agents.ada.*"), socket=True) as daemon, daemon.connect() as wire:
        for allowed, other in [("ada", "eve"), ("eve", "ada")] * 3:
            status = daemon.config.file.stat()
            daemon.config.file.write_text(limited_to(f"agents.{allowed}.*"))
            os.utime(daemon.config.file, ns=(status.st_atime_ns, status.st_mtime_ns))
            for name, code in ((allowed, None), (other, FORBIDDEN)):
                answer = await wire.ask("config/delete", {"prop": f"agents.{name}.model"})
                assert answer.get("error", {"code": None})["code"] == code
