"""Rows that nothing reads, and what is said of them."""

from __future__ import annotations

from typing import Any

import pytest

from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.config.strays import strays
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Manifest

KEY = InstanceIdentity.default_tool("weather").key


def config(*names: str, hosts: tuple[str, ...] = ()) -> Config:
    rows: list[dict[str, Any]] = [{"name": name, "egress_hosts": hosts} for name in names]
    return Config.model_validate({"plugins": {"entries": tuple(rows)}})


def manifest(name: str, *permissions: str, capability: str = "tool") -> dict[str, Manifest]:
    found = {
        "name": name,
        "version": "1",
        "capabilities": (capability,),
        "permissions": permissions,
        "wasm_path": "a.wasm",
    }
    return {name: Manifest.model_validate(found)}


@pytest.mark.req("PLG-171")
def test_every_row_whose_name_is_no_key_is_told_in_the_file_s_order() -> None:
    found = strays(config("weather", KEY, "operations", "zpi1_other"))
    assert [stray.name for stray in found] == ["weather", "operations", "zpi1_other"]
    for stray in found:
        assert stray.name in stray.message
        assert "not in force" in stray.message
    assert "before 1.0" in found[0].message
    assert "no instance's key" in found[2].message


@pytest.mark.req("PLG-171", "PLG-172", "PLG-218")
def test_only_a_row_named_after_an_installed_tool_that_owns_state_is_told_its_key() -> None:
    rows = config("weather", "operations")
    [weather, operations] = strays(rows, manifest("weather", "http_client"))
    assert weather.key == KEY
    assert weather.message.endswith(f"; rename it to {KEY}")
    assert operations.key is None
    assert "rename" not in operations.message
    for other in ({}, manifest("weather"), manifest("weather", "http_client", capability="channel")):
        assert [stray.key for stray in strays(rows, other)] == [None, None]


def test_a_grant_that_is_not_in_force_is_said() -> None:
    [granting] = strays(config("weather", hosts=("a.example",)))
    [plain] = strays(config("weather"))
    assert granting.grants
    assert "grants" in granting.message
    assert "grants" not in plain.message
    assert granting.facts()["message"] == granting.message
