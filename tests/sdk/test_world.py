"""The world a plugin is built against is what its manifest asks for, and nothing more."""

from __future__ import annotations

from pathlib import Path

import pytest
from componentize_py import script  # noqa: F401  # the builder reads what is written here

from zeroclaw_host.contract import contract
from zeroclaw_host.package.manifest import Capability, Permission
from zeroclaw_sdk.errors import ProjectInvalid
from zeroclaw_sdk.world import withheld_modules, world_interfaces, write_world

BASE = {"zeroclaw:plugin/logging", "zeroclaw:plugin/secrets", "zeroclaw:plugin/state"}


def imports(*permissions: Permission, capabilities: tuple[Capability, ...] = (Capability.TOOL,)) -> set[str]:
    return {
        name for name in world_interfaces(capabilities, permissions)[0] if name != "zeroclaw:plugin/types"
    }


def test_a_tool_without_permissions_has_the_base_world():
    assert imports() == BASE
    assert set(world_interfaces([Capability.TOOL], [])[1]) == {
        "zeroclaw:plugin/plugin-info",
        "zeroclaw:plugin/tool",
    }


@pytest.mark.parametrize(
    ("permission", "added"),
    [
        (Permission.SOCKET_CLIENT, {"zeroclaw:plugin/sockets"}),
        (Permission.WEBSOCKET_CLIENT, {"zeroclaw:plugin/websocket"}),
        (Permission.HTTP_CLIENT, {"wasi:http/types", "wasi:http/outgoing-handler"}),
        (Permission.CONFIG_READ, set()),
        (Permission.STATE_READ, set()),
        (Permission.FILE_READ, set()),
        (Permission.MEMORY_WRITE, set()),
    ],
)
def test_a_permission_adds_its_imports_and_no_others(permission: Permission, added: set[str]):
    assert imports(permission) == BASE | added


def test_every_gated_import_of_the_contract_needs_a_permission():
    everything = set(contract().world("tool-plugin").imports) - {"zeroclaw:plugin/types"}
    assert imports(Permission.SOCKET_CLIENT, Permission.WEBSOCKET_CLIENT) == everything


@pytest.mark.req("PLG-008")
def test_a_memory_plugin_never_has_http():
    assert imports(Permission.HTTP_CLIENT, capabilities=(Capability.MEMORY,)) == {"zeroclaw:plugin/logging"}


def test_two_capabilities_are_one_world():
    names = world_interfaces([Capability.TOOL, Capability.CHANNEL], [])[1]
    assert set(names) == {"zeroclaw:plugin/plugin-info", "zeroclaw:plugin/tool", "zeroclaw:plugin/channel"}


@pytest.mark.parametrize(
    ("capabilities", "shared"),
    [
        ((Capability.TOOL, Capability.CHANNEL), BASE),
        ((Capability.CHANNEL, Capability.TOOL), BASE),
        ((Capability.TOOL, Capability.MEMORY), {"zeroclaw:plugin/logging"}),
        ((Capability.CHANNEL,), BASE | {"zeroclaw:plugin/config", "zeroclaw:plugin/inbound"}),
    ],
)
def test_a_component_that_is_loaded_as_two_things_imports_what_both_may(
    capabilities: tuple[Capability, ...], shared: set[str]
):
    assert imports(capabilities=capabilities) == shared


@pytest.mark.parametrize("capabilities", [[], [Capability.SKILL], [Capability.OBSERVER]])
def test_what_is_no_code_has_no_world(capabilities: list[Capability]):
    with pytest.raises(ProjectInvalid):
        world_interfaces(capabilities, [])


@pytest.mark.parametrize("permissions", [[], [Permission.HTTP_CLIENT, Permission.SOCKET_CLIENT]])
def test_the_written_world_is_wit_a_tool_can_read(
    tmp_path: Path, permissions: list[Permission], wit_bindings: object
):
    write_world(tmp_path / "wit", [Capability.TOOL], permissions)
    modules = wit_bindings(tmp_path / "wit")
    assert {"logging", "secrets", "state"} <= modules
    assert ("sockets" in modules) == bool(permissions)
    assert ("outgoing_handler" in modules) == bool(permissions)


NETWORK = {f"zeroclaw_sdk.guest.{name}" for name in ("http", "websocket", "sockets")}


@pytest.mark.parametrize(
    ("permissions", "withheld"),
    [
        ([], NETWORK),
        ([Permission.HTTP_CLIENT], NETWORK - {"zeroclaw_sdk.guest.http"}),
        ([Permission.WEBSOCKET_CLIENT], NETWORK - {"zeroclaw_sdk.guest.websocket"}),
        ([Permission.SOCKET_CLIENT], NETWORK - {"zeroclaw_sdk.guest.sockets"}),
        ([Permission.HTTP_CLIENT, Permission.WEBSOCKET_CLIENT, Permission.SOCKET_CLIENT], set()),
    ],
)
def test_a_module_without_its_permission_is_withheld_with_its_name(
    permissions: list[Permission], withheld: set[str]
):
    found = withheld_modules([Capability.TOOL], permissions)
    assert set(found) == withheld
    for module, why in found.items():
        assert f"permission {PERMISSION_OF[module]}" in why


PERMISSION_OF = {
    "zeroclaw_sdk.guest.http": "http_client",
    "zeroclaw_sdk.guest.websocket": "websocket_client",
    "zeroclaw_sdk.guest.sockets": "socket_client",
}


@pytest.mark.req("PLG-008")
@pytest.mark.parametrize("capabilities", [[Capability.MEMORY], [Capability.TOOL, Capability.MEMORY]])
def test_no_permission_gives_a_memory_a_network_module(capabilities: list[Capability]):
    found = withheld_modules(
        capabilities, [Permission.HTTP_CLIENT, Permission.WEBSOCKET_CLIENT, Permission.SOCKET_CLIENT]
    )
    assert set(found) == NETWORK
    assert all("a memory has no network" in why for why in found.values())
