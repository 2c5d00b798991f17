"""Which imports and exports each kind of plugin has (PLG-016, PLG-103).

The table of this module is the whole of it: what is not listed for a world and its permissions is not linked, and a
component that imports it does not load.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from zeroclaw_host.contract import PLUGIN_VERSION, contract
from zeroclaw_host.errors import Kind, PluginError
from zeroclaw_host.imports import config, inbound, logging, secrets, sockets, state, wasi, websocket
from zeroclaw_host.package.manifest import Capability, Permission
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostInterface
from zeroclaw_host.sandbox.linker import Surface

_PLUGIN: Final = "zeroclaw:plugin/"

WORLDS: Final[Mapping[Capability, str]] = MappingProxyType(
    {
        Capability.TOOL: "tool-plugin",
        Capability.CHANNEL: "channel-plugin",
        Capability.MEMORY: "memory-plugin",
    }
)
"""The world of each capability that runs code (PLG-003)."""

_SERVICES: Final[Mapping[str, HostInterface]] = MappingProxyType(
    {
        module.INTERFACE.name: module.INTERFACE
        for module in (logging, config, secrets, state, inbound, sockets, websocket)
    }
)
"""The plugin interfaces this host implements. A world's other imports are refused by name until they are here."""

_HTTP: Final = ("wasi:http/types", "wasi:http/outgoing-handler")

_TRANSPORTS: Final[Mapping[str, Permission]] = MappingProxyType(
    {
        **dict.fromkeys(_HTTP, Permission.HTTP_CLIENT),
        f"{_PLUGIN}sockets": Permission.SOCKET_CLIENT,
        f"{_PLUGIN}websocket": Permission.WEBSOCKET_CLIENT,
    }
)
"""Interfaces that additionally need a permission of the manifest."""


class HttpIncoherent(PluginError):
    """A linker offers HTTP where the call's frame has none, or the other way round: a fault of the host, and closed."""

    code = "http_incoherent"
    kind = Kind.INTERNAL


_WASI_VERSION: Final = re.compile(r"0\.2\.(0|[1-9][0-9]*)")


def surface_of(capability: Capability, grants: frozenset[Permission]) -> Surface:
    """What an instance of this capability with these grants may import and must export.

    :raises KeyError: the capability runs no code.
    """
    world = contract().world(WORLDS[capability])
    interfaces: dict[str, HostInterface] = dict(wasi.INTERFACES)
    reasons: dict[str, str] = {}
    for name in (*world.imports, *_HTTP):
        permission = _TRANSPORTS.get(name)
        if permission is not None and capability is Capability.MEMORY:
            reasons[name] = "a memory plugin has no network"
        elif permission is not None and permission not in grants:
            reasons[name] = f"the manifest does not request the permission {permission.value}"
        elif name in _SERVICES:
            interfaces[name] = _SERVICES[name]
        elif contract().interface(name).functions:
            reasons[name] = "this version of the host does not implement it"
    empty = frozenset(name for name in world.imports if not contract().interface(name).functions)
    return Surface(
        interfaces=interfaces,
        native=wasi.NATIVE,
        empty=empty,
        reasons=reasons,
        exports=world.exports,
        version_fits=_version_fits,
    )


def ensure_http_coherent(surface: Surface, frame: CallFrame) -> None:
    """Check that the linker and the frame agree about HTTP, before any code of the guest runs (PLG-104).

    Both follow from the same scope, on two ways. A guest must neither find HTTP linked that nobody answers for, nor get
    what its linker was not to have.

    :raises HttpIncoherent: they do not agree.
    """
    linked = any(name in surface.interfaces for name in _HTTP)
    if linked != (frame.http is not None):
        package = frame.scope.identity.package
        raise HttpIncoherent(
            f"package {package} is linked {'with' if linked else 'without'} HTTP, "
            f"and its call frame is made {'without' if linked else 'with'} it"
        )


def _version_fits(interface: str, version: str) -> bool:
    """WASI is answered at any 0.2.x (D-10); the plugin package is unfrozen and has one version."""
    if interface.startswith(_PLUGIN):
        return version == PLUGIN_VERSION
    return _WASI_VERSION.fullmatch(version) is not None
