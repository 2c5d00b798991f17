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
from zeroclaw_host.egress.http.exchange import HttpClient
from zeroclaw_host.errors import Kind, PluginError
from zeroclaw_host.imports import config, http, inbound, logging, secrets, sockets, state, wasi, websocket
from zeroclaw_host.instance import InstanceScope
from zeroclaw_host.package.manifest import Capability, Permission
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostInterface
from zeroclaw_host.sandbox.linker import Surface
from zeroclaw_host.services.bundle import InstanceServices

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
        found.name: found
        for found in (
            *(module.INTERFACE for module in (logging, config, secrets, state, inbound, sockets, websocket)),
            http.TYPES,
            http.OUTGOING_HANDLER,
        )
    }
)
"""What answers a world's imports, besides WASI's."""

_HTTP: Final = (http.TYPES.name, http.OUTGOING_HANDLER.name)

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
        reason = _why_not(name, capability, grants)
        if reason is not None:
            reasons[name] = reason
        elif contract().interface(name).functions:
            interfaces[name] = _SERVICES[name]
    empty = frozenset(name for name in world.imports if not contract().interface(name).functions)
    return Surface(
        interfaces=interfaces,
        native=wasi.NATIVE,
        empty=empty,
        reasons=reasons,
        exports=world.exports,
        version_fits=_version_fits,
    )


def http_of(scope: InstanceScope, services: InstanceServices) -> HttpClient | None:
    """What carries the HTTP requests of an instance, for its call frames; None where it has no HTTP (PLG-104)."""
    if _why_not(http.OUTGOING_HANDLER.name, scope.identity.capability, scope.grants) is not None:
        return None
    return HttpClient(services.network)


def _why_not(name: str, capability: Capability, grants: frozenset[Permission]) -> str | None:
    """Why an instance does not have a transport; None where it has it, and for everything that is no transport."""
    permission = _TRANSPORTS.get(name)
    if permission is None:
        return None
    if capability is Capability.MEMORY:
        return "a memory plugin has no network"
    if permission not in grants:
        return f"the manifest does not request the permission {permission.value}"
    return None


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
