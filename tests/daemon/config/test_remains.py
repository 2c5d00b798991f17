"""What the configuration keeps of a package that was removed."""

from __future__ import annotations

from typing import Any

import pytest

from zeroclaw_daemon.config.remains import EgressGrant, remains
from zeroclaw_daemon.config.schema import Config
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability, Manifest

TOOL = InstanceIdentity.default_tool("acme").key
OPS = InstanceIdentity("acme", Capability.CHANNEL, "ops").key
OTHER = InstanceIdentity("other", Capability.CHANNEL, "dev").key


def manifest(*permissions: str, capabilities: tuple[str, ...] = ("channel",)) -> Manifest:
    found = {
        "name": "acme",
        "version": "1",
        "capabilities": capabilities,
        "permissions": permissions,
        "wasm_path": "a.wasm",
    }
    return Manifest.model_validate(found)


def config(rows: dict[str, tuple[str, ...]]) -> Config:
    entries: list[dict[str, Any]] = [{"name": key, "egress_hosts": hosts} for key, hosts in rows.items()]
    bindings = {"ops": {"package": "acme"}, "dev": {"package": "other"}, "aaa": {"package": "acme"}}
    return Config.model_validate({"plugins": {"entries": tuple(entries)}, "channels": {"plugin": bindings}})


ROWS = {TOOL: ("tool.example",), OPS: ("ops.example",), OTHER: ("other.example",), "acme": ("old.example",)}


@pytest.mark.req("PLG-162")
def test_every_binding_of_the_name_is_told_whatever_was_removed() -> None:
    for removed in (None, manifest(), manifest(capabilities=("tool",))):
        assert remains("acme", removed, config({})).bindings == ("aaa", "ops")
    assert remains("gone", manifest(), config(ROWS)).bindings == ()


@pytest.mark.req("PLG-163", "PLG-164")
@pytest.mark.parametrize(
    ("removed", "kept"),
    [
        (manifest(), [OPS]),  # it owned no state: the row is of an earlier version
        (manifest("http_client"), [OPS]),
        (manifest(capabilities=("tool",)), []),
        (manifest("http_client", capabilities=("tool",)), [TOOL]),
        (manifest("http_client", capabilities=("tool", "channel")), [TOOL, OPS]),
        (None, []),
    ],
)
def test_the_rows_that_count_are_the_tool_s_if_it_owned_state_and_every_bound_alias_s(
    removed: Manifest | None, kept: list[str]
) -> None:
    found = remains("acme", removed, config(ROWS))
    assert list(found.rows) == kept
    assert list(found.grants) == [EgressGrant(key, ROWS[key]) for key in kept]


@pytest.mark.req("PLG-163")
def test_a_row_that_grants_nothing_is_kept_and_grants_nothing() -> None:
    found = remains("acme", manifest(), config({OPS: ()}))
    assert (found.rows, found.grants) == ((OPS,), ())
