"""Reading the configuration over RPC: every property, no secret."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import property_cases
import pytest

from zeroclaw_daemon.config.coercion import MASK
from zeroclaw_daemon.config.properties import UNSET
from zeroclaw_daemon.rpc.errors import INVALID_PARAMS

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

SECRET = property_cases.SECRET
ROW = f"plugins.entries.{property_cases.ROW}"
PLANTED = "hunter2"


@pytest.mark.req("RPC-245")
async def test_a_property_is_shown_as_a_person_reads_it(serving: Serving) -> None:
    shown = {
        "plugins.enabled": "true",
        "plugins.limits.call_fuel": "7",
        "agents.ada.model": "m",
        "agents.ada.workspace": UNSET,
        "agents.ada.tools": '["*"]',
        f"{ROW}.egress_hosts": '["a.example"]',
        SECRET: MASK,
        f"{ROW}.config.token": MASK,
        "users.eve.uid": "1001",
    }
    async with serving(config=property_cases.FULL) as daemon, daemon.connect() as wire:
        for prop, value in shown.items():
            assert await wire.call("config/get", {"prop": prop}) == {"prop": prop, "value": value}
        for prop in ("plugins", "agents.nobody.model", "plugins.enabld", "a" * 1000):
            error = await wire.fail("config/get", {"prop": prop})
            assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "unknown_property")
            assert isinstance(error["data"]["suggestions"], list)
        for prop in ("", 5, "a" * 2000):
            assert (await wire.fail("config/get", {"prop": prop}))["data"]["reason"] == "invalid_params"
        assert PLANTED.encode() not in wire.raw


@pytest.mark.req("RPC-245")
async def test_without_a_property_everything_is_shown_and_secrets_are_masked(serving: Serving) -> None:
    async with serving(config=property_cases.FULL) as daemon, daemon.connect() as wire:
        whole = await wire.call("config/get")
        assert whole["plugins"]["enabled"] is True
        assert whole["plugins"]["entries"][0]["config"] == {"token": MASK}
        assert whole["providers"]["models"]["openai"]["main"]["api_key"] == MASK
        assert whole["agents"]["ada"]["workspace"] is None
        assert whole["users"]["eve"] == {"uid": 1001, "permission_profiles": ["op"], "principal_id": None}
        assert whole["permission_profiles"]["op"]["grants"] == {"config": ["read", "update"]}
        assert whole["gateway"]["port"] == 42617
        assert PLANTED.encode() not in wire.raw


@pytest.mark.req("RPC-245")
async def test_what_list_shows_can_be_got_and_set(serving: Serving) -> None:
    """Every listed value is written back as it was listed, and nothing changes for anybody."""
    async with serving(config=property_cases.FULL) as daemon, daemon.connect() as wire:
        listed = (await wire.call("config/list"))["entries"]
        before = await wire.call("config/get")
        paths = [entry["path"] for entry in listed]
        assert len(set(paths)) == len(paths) > 60
        settable: list[dict[str, Any]] = []
        for entry in listed:
            got = await wire.call("config/get", {"prop": entry["path"]})
            assert got["prop"] == entry["path"]
            assert (got["value"] == UNSET) is (
                "value" not in entry and not (entry["is_secret"] and got["value"] == MASK)
            )
            if entry["path"] == "schema_version":
                continue  # only `zeroclaw config migrate` writes it
            value = "a new secret" if entry["is_secret"] else entry.get("value")
            settable.append({"prop": entry["path"], "value": value})
        for entry in settable:
            assert (await wire.call("config/set", entry))["set"] is True, entry
        after = await wire.call("config/get")
        assert json.dumps(after, sort_keys=True) == json.dumps(before, sort_keys=True).replace(
            '"api_key": null', f'"api_key": "{MASK}"'
        )
        assert PLANTED.encode() not in wire.raw


@pytest.mark.req("RPC-245")
async def test_an_entry_says_what_a_property_is(serving: Serving) -> None:
    config = property_cases.FULL
    async with (
        serving(config=config, env={"ZEROCLAW_gateway__port": "4711"}) as daemon,
        daemon.connect() as wire,
    ):
        entries = {entry["path"]: entry for entry in (await wire.call("config/list"))["entries"]}
        assert entries[SECRET] == {
            "path": SECRET, "category": "providers", "section": "providers.models.openai.main", "kind": "secret",
            "type_hint": "secret, optional", "populated": True, "is_secret": True, "is_env_overridden": False,
            "description": entries[SECRET]["description"],
        }  # fmt: skip
        assert entries[SECRET]["description"]
        mode = entries["plugins.security.signature_mode"]
        assert mode["enum_variants"] == ["disabled", "permissive", "strict"]
        assert (mode["value"], mode["populated"], mode["kind"]) == ("disabled", False, "enum")
        assert mode["type_hint"] == "disabled | permissive | strict"
        port = entries["gateway.port"]
        assert (port["value"], port["is_env_overridden"], port["kind"]) == (4711, True, "integer")
        assert "value" not in entries["agents.ada.workspace"]
        assert not [path for path, entry in entries.items() if entry["is_secret"] and "value" in entry]
        assert PLANTED.encode() not in wire.raw


@pytest.mark.req("RPC-245")
async def test_a_prefix_lists_what_is_at_or_below_it(serving: Serving) -> None:
    async with serving(config=property_cases.FULL) as daemon, daemon.connect() as wire:

        async def paths(prefix: str) -> list[str]:
            return [
                entry["path"] for entry in (await wire.call("config/list", {"prefix": prefix}))["entries"]
            ]

        assert await paths("gateway.port") == ["gateway.port"]
        assert len(await paths("gateway")) == len(await paths("gateway.")) > 3
        assert all(path.startswith("gateway.") for path in await paths("gateway"))
        assert await paths("") == [entry["path"] for entry in (await wire.call("config/list"))["entries"]]
        assert await paths("agents.nobody.model") == []
        for prefix in ("gate", "gateway.por", "nonsense"):
            error = await wire.fail("config/list", {"prefix": prefix})
            assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "unknown_property")


@pytest.mark.req("RPC-245")
async def test_validate_finds_what_is_wrong_with_the_file_and_where(serving: Serving) -> None:
    inner = "[plugins.entries.config]\nurl"
    text = property_cases.FULL.replace(inner, f'egress_hosts = ["a.example"]\n{inner}')
    async with serving(config=text) as daemon, daemon.connect() as wire:
        assert await wire.call("config/validate") == {"valid": True}
        before = daemon.config.source.current().revision
        daemon.config.file.write_text(text.replace("uid = 1001", "uid = -1") + "\n[gateway]\nprot = 1\n")
        verdict = await wire.call("config/validate")
        assert verdict["valid"] is False
        line = text[: text.index("uid = 1001")].count("\n") + 1
        assert verdict["problems"][0].startswith(f"{daemon.config.file}:{line}:")
        assert "users.eve.uid" in verdict["problems"][0]
        assert "gateway.prot" in verdict["problems"][1]
        assert verdict["error"] == verdict["problems"][0]
        # Nothing is in force by being validated.
        assert daemon.config.source.current().revision == before
        daemon.config.file.write_text(text.replace("[plugins.limits]", "[plugins.limitz]"))
        verdict = await wire.call("config/validate")
        assert (verdict["valid"], len(verdict["problems"])) == (False, 1)
        daemon.config.file.unlink()
        assert await wire.call("config/validate") == {"valid": True}


@pytest.mark.req("PLG-359", "PLG-220")
async def test_validate_says_which_grants_refuse_everything_in_a_file_that_can_be_used(
    serving: Serving,
) -> None:
    row = '[[plugins.entries]]\nname = "zpi1_x"\negress_hosts = ["a.example"]\n'
    profile = '[[plugins.entries.tls_profiles]]\nname = "inner"\nhosts = ["b.example"]\n'
    async with serving(config=f"schema_version = 1\n{row}{profile}") as daemon, daemon.connect() as wire:
        verdict = await wire.call("config/validate")
        assert verdict["valid"] is True
        [notice] = verdict["notices"]
        assert notice.startswith(
            "plugins.entries.zpi1_x.tls_profiles: inner: hosts: 'b.example' is not granted"
        )


async def test_reload_asks_the_daemon_and_hands_its_answer_on(serving: Serving) -> None:
    async with serving(config=property_cases.FULL) as daemon, daemon.connect() as wire:
        assert await wire.call("config/reload") == {"reloading": True, "changes": ["one"]}
        assert daemon.config.reloads == 1


@pytest.mark.req("RPC-236")
async def test_the_family_is_spelled_in_snake_case_and_takes_both_spellings(serving: Serving) -> None:
    async with serving(config=property_cases.FULL) as daemon, daemon.connect() as wire:
        await wire.call("config/list")
        await wire.call("config/get", {"prop": "gateway.port"})
        await wire.call("config/map-keys", {"path": "agents"})
        for line in wire.raw.splitlines()[1:]:  # after the handshake
            for member in members(json.loads(line)):
                assert member == member.lower()
        assert tomllib.loads(daemon.config.text) == tomllib.loads(property_cases.FULL)


def members(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(members(child) for child in value.values()))
    return set().union(*(members(child) for child in value)) if isinstance(value, list) else set()
