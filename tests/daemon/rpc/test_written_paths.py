"""Whatever a limited principal sends: every value of the file that is another one afterwards has a path it may write."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any

import pytest

from zeroclaw_daemon.authority.rights import covers
from zeroclaw_daemon.config.document.mentions import written_key
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

ONE, TWO, NONE = (InstanceIdentity(name, Capability.TOOL, "main").key for name in ("one", "two", "none"))

FILE = f"""\
schema_version = 1
security.trust_daemon_uid = false
secrets.encrypt = false

[agents.ada]
model = "m"
[agents.eve]
workspace = "/srv/eve"
tools = ["a", "b"]

[providers.models.echo.house]
model = "h"
api_key = "hunter2"

[channels.plugin.chat]
package = "chat"

[[plugins.entries]]
name = "{ONE}"
egress_hosts = ["one.example"]
config = {{ "a.b" = "hunter2", name = "hunter2" }}
[[plugins.entries.tls_profiles]]
name = "x"
hosts = ["one.example"]
[[plugins.entries.tls_profiles]]
name = "x.y"
hosts = ["one.example"]

[[plugins.entries]]
name = "{TWO}"
egress_hosts = ["two.example"]

[[plugins.entries]]
name = "{ONE}.more"
[[plugins.entries]]
name = "weather"
egress_hosts = ["weather.example"]
"""

MAPS = (
    "agents", "providers.models", "providers.models.echo", "channels.plugin", "users", "permission_profiles",
    "permission_profiles.p.grants", "plugins.entries", f"plugins.entries.{ONE}.config",
    f"plugins.entries.{ONE}.tls_profiles", "plugins", "agents.ada",
)  # fmt: skip
KEYS = (
    "ada", "eve", "new", "echo", "house", "chat", "me", "p", "q", "config", ONE, TWO, NONE, f"{ONE}.more", "weather",
    "a.b", "name", "x", "y", "x.y", "entries",
)  # fmt: skip
PROPERTIES = (
    "agents.ada.model", "agents.ada.tools", "agents.eve.workspace", "agents.new.model", "agents.ada", "agents",
    "providers.models.echo.house.api_key", "providers.models.echo.new.model", "channels.plugin.chat.package",
    "rpc.max_local_connections", "memory.backend", "security.trust_daemon_uid", "schema_version",
    "users.me.uid", "users.me.permission_profiles", "users.new.uid", "permission_profiles.p.admin",
    "permission_profiles.p.grants", "permission_profiles.p.grants.config", "permission_profiles.p.config_write_paths",
    "plugins.plugins_dir", f"plugins.entries.{ONE}.name", f"plugins.entries.{ONE}.egress_hosts",
    f"plugins.entries.{TWO}.egress_hosts", f"plugins.entries.{NONE}.egress_hosts", "plugins.entries.weather.name",
    f"plugins.entries.{ONE}.more.egress_hosts", f"plugins.entries.{ONE}.config.a.b", f"plugins.entries.{ONE}.config.name",
    f"plugins.entries.{ONE}.config.x", f"plugins.entries.{ONE}.tls_profiles", f"plugins.entries.{ONE}.tls_profiles.x.name",
    f"plugins.entries.{ONE}.tls_profiles.x.hosts", f"plugins.entries.{ONE}.tls_profiles.x.y.hosts",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    "m", "", None, True, 7, "7", ["p"], ["one.example"], [], "echo.house", ONE, TWO, NONE, "y", "x.y", "weather.more",
    {"config": ["read"]}, [{"name": "z", "hosts": ["one.example"]}], [{"name": "x", "hosts": ["h"]}], {"admin": True},
)  # fmt: skip
PATTERNS = (
    *PROPERTIES, *(f"{path}.*" for path in PROPERTIES), *(f"{path}.*" for path in MAPS),
    *(f"{path}.{key}" for path in MAPS for key in KEYS[:12]), *(f"{path}.{key}.*" for path in MAPS for key in KEYS), "*",
)  # fmt: skip


def file_for(patterns: list[str]) -> str:
    return f"""\
{FILE}
[users.me]
uid = {os.geteuid()}
permission_profiles = ["p"]
[permission_profiles.p]
config_write_paths = {json.dumps(patterns)}
grants.config = ["create", "read", "update", "delete"]
"""


def values(node: Any, path: str = "", *, one_name: bool = False) -> dict[str, Any]:
    """Every value by its path, and every table that is empty. A name with dots is quoted, but below a map of values."""
    if isinstance(node, list) and node and all(isinstance(row, dict) for row in node):
        node = {row["name"]: row for row in node}
    if not isinstance(node, dict):
        return {path: node}
    found: dict[str, Any] = {} if node else {path: {}}
    for key, inner in node.items():
        written = key if one_name or "." not in key else written_key(key)
        found |= values(inner, f"{path}.{written}".lstrip("."), one_name=key in ("config", "grants"))
    return found


def changed(before: str, after: str) -> set[str]:
    """The paths of all values that differ, leaving out tables that were emptied or filled by another change."""
    old, new = values(tomllib.loads(before)), values(tomllib.loads(after))
    differ = {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}
    return {path for path in differ if not any(other.startswith(f"{path}.") for other in differ)}


def may_write(pattern: str, path: str) -> bool:
    """Whether the pattern covers the path, or the object or array that it is part of and that is set as one."""
    wholes = re.match(r"permission_profiles\.p\.grants|plugins\.entries\.\w+\.tls_profiles", path)
    return covers(pattern, path) or (wholes is not None and covers(pattern, wholes[0]))


def call(random: Random) -> tuple[str, dict[str, Any]]:
    prop, value, path, key = map(random.choice, (PROPERTIES, VALUES, MAPS, KEYS))
    match random.randrange(7):
        case 0 | 1:
            return "config/set", {"prop": prop, "value": value}
        case 2:
            more = [{"prop": random.choice(PROPERTIES), "value": random.choice(VALUES)} for _ in range(2)]
            return "config/set-many", {"sets": [{"prop": prop, "value": value}, *more]}
        case 3:
            return "config/delete", {"prop": prop}
        case 4:
            return "config/map-key-create", {"path": path, "key": key}
        case 5:
            return "config/map-key-delete", {"path": path, "key": key}
        case _:
            return "config/map-key-rename", {"path": path, "from": key, "to": random.choice(KEYS)}


@pytest.mark.req("RPC-080", "RPC-081")
@pytest.mark.parametrize("seed", range(8))
async def test_what_is_another_value_afterwards_may_be_written(serving: Serving, seed: int) -> None:
    random = Random(seed)
    written = 0
    async with serving(config=file_for([])) as daemon, daemon.connect() as wire:
        for _ in range(120):
            # Mostly the narrow patterns that a call needs, now and then others.
            method, params = call(random)
            named = [params.get("prop"), *(entry["prop"] for entry in params.get("sets", ()))]
            if "path" in params:
                keys = [params.get("key"), params.get("from"), params.get("to")]
                named += [f"{params['path']}.{key}" for key in keys if key]
            near = [
                form for path in named if path for form in (path, f"{path}.*", f"{path.rpartition('.')[0]}.*")
            ]
            patterns = random.sample(PATTERNS, 2) + [each for each in near if random.random() < 0.6]
            before = file_for(patterns)
            daemon.config.file.write_text(before)
            answer = await wire.ask(method, params)
            after = daemon.config.text
            differ = changed(before, after)
            assert not differ or "result" in answer, (method, params, answer)
            beyond = {path for path in differ if not any(may_write(each, path) for each in patterns)}
            assert not beyond, (method, params, patterns)
            written += bool(differ)
        assert b"hunter2" not in wire.raw
    assert written > 10  # what is compared is worth something
