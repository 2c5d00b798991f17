"""The world a plugin is built against: what its capabilities export, and only the imports its permissions grant (D-51).

An import that the host does not grant would keep the component from loading even if the plugin never calls it. So
each build writes a world of its own from the manifest, beside the contract it draws from.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from zeroclaw_host.contract import PLUGIN_VERSION, contract, ungated_wit, wit_directory
from zeroclaw_host.package.manifest import Capability, Permission
from zeroclaw_sdk.errors import ProjectInvalid

WORLD_NAME: Final = "plugin"
"""The generated world. No module of a plugin may be called ``wit_world``; this name is free."""

_WORLDS: Final[Mapping[Capability, str]] = {
    Capability.TOOL: "tool-plugin",
    Capability.CHANNEL: "channel-plugin",
    Capability.MEMORY: "memory-plugin",
}

_GRANTED: Final[Mapping[str, Permission]] = {
    "zeroclaw:plugin/sockets": Permission.SOCKET_CLIENT,
    "zeroclaw:plugin/websocket": Permission.WEBSOCKET_CLIENT,
}
"""Imports of the contract's worlds that exist only under a permission."""

_GUEST_MODULES: Final[Mapping[str, tuple[str, Permission]]] = {
    "zeroclaw_sdk.guest.http": ("wasi:http/types", Permission.HTTP_CLIENT),
    "zeroclaw_sdk.guest.websocket": ("zeroclaw:plugin/websocket", Permission.WEBSOCKET_CLIENT),
    "zeroclaw_sdk.guest.sockets": ("zeroclaw:plugin/sockets", Permission.SOCKET_CLIENT),
}
"""Modules of the SDK that are of use only over one interface, and its permission."""

_HTTP: Final = ("wasi:http/types", "wasi:http/outgoing-handler")
_WASI_VERSION: Final = "0.2.12"


def code_capabilities(capabilities: Collection[Capability]) -> list[Capability]:
    """The capabilities that are built from code.

    :raises ProjectInvalid: there are none.
    """
    found = [each for each in capabilities if each in _WORLDS]
    if not found:
        raise ProjectInvalid(
            "the manifest names no capability that is built from code: tool, channel or memory"
        )
    return found


def world_interfaces(
    capabilities: Collection[Capability], permissions: Collection[Permission]
) -> tuple[list[str], list[str]]:
    """The interfaces a plugin imports and exports, by name without version.

    A component that is several things is loaded as each of them, and each may import only what its own world has. So such
    a component imports what all its worlds share.

    :raises ProjectInvalid: no capability of the package is code.
    """
    kinds = code_capabilities(capabilities)
    worlds = [contract().world(_WORLDS[each]) for each in kinds]
    imports = [
        name
        for name in worlds[0].imports
        if all(name in world.imports for world in worlds)
        and (name not in _GRANTED or _GRANTED[name] in permissions)
    ]
    # The memory world never has HTTP (PLG-008).
    if Permission.HTTP_CLIENT in permissions and Capability.MEMORY not in kinds:
        imports += _HTTP
    return imports, list(dict.fromkeys(name for world in worlds for name in world.exports))


def withheld_modules(
    capabilities: Collection[Capability], permissions: Collection[Permission]
) -> dict[str, str]:
    """The SDK's modules that a plugin of these cannot use, and what its author is told.

    :raises ProjectInvalid: no capability of the package is code.
    """
    imports, _ = world_interfaces(capabilities, permissions)
    return {
        module: f"needs the permission {permission.value}; add it to permissions in manifest.toml"
        if permission not in permissions
        else "a memory has no network, nor has a package that is a memory among other things"
        for module, (interface, permission) in _GUEST_MODULES.items()
        if interface not in imports
    }


def write_world(
    directory: Path, capabilities: Collection[Capability], permissions: Collection[Permission]
) -> None:
    """Write a WIT directory whose root package holds the one world :data:`WORLD_NAME`.

    :raises ProjectInvalid: no capability of the package is code.
    """
    imports, exports = world_interfaces(capabilities, permissions)
    deps = directory / "deps"
    deps.mkdir(parents=True)
    (deps / "plugin").mkdir()
    shutil.copyfile(ungated_wit() / "plugin.wit", deps / "plugin" / "plugin.wit")
    if set(_HTTP) & set(imports):
        for name in ("io", "clocks", "http"):
            shutil.copytree(wit_directory() / "deps" / name, deps / name)
    lines = [f"    import {_versioned(name)};" for name in imports]
    lines += [f"    export {_versioned(name)};" for name in exports]
    text = "\n".join(["package zeroclaw:build;", "", f"world {WORLD_NAME} {{", *lines, "}", ""])
    (directory / "world.wit").write_text(text, encoding="utf-8")


def _versioned(name: str) -> str:
    return f"{name}@{PLUGIN_VERSION if name.startswith('zeroclaw:plugin/') else _WASI_VERSION}"
