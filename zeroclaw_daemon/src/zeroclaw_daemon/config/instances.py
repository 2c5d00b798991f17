"""Which instances of a package there are by the configuration: its tool, its bound channels, and whoever has a row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from zeroclaw_daemon.config.schema import Config
from zeroclaw_host.installation.rows import owns_state
from zeroclaw_host.instance import IdentityInvalid, InstanceIdentity
from zeroclaw_host.package.manifest import Capability, Manifest


def owned_instances(manifest: Manifest, config: Config) -> tuple[InstanceIdentity, ...]:
    """The instances whose keys the package owns: its tool, then one for each bound alias, by alias (PLG-136).

    Empty for a version that owns no state.
    """
    if not owns_state(manifest):
        return ()
    tool = (InstanceIdentity.default_tool(manifest.name),) if Capability.TOOL in manifest.capabilities else ()
    return (*tool, *bound_channels(manifest, config))


def bound_channels(manifest: Manifest, config: Config) -> tuple[InstanceIdentity, ...]:
    """The channel instances of a package, one for each alias bound to it, by alias."""
    if Capability.CHANNEL not in manifest.capabilities:
        return ()
    found = (
        channel_instance(manifest.name, alias)
        for alias, channel in sorted(config.channels.plugin.items())
        if channel.package == manifest.name
    )
    return tuple(identity for identity in found if identity is not None)


def channel_instance(package: str, alias: str) -> InstanceIdentity | None:
    """The instance of a channel; None for an alias that can name none, which the file is told of when it is read (PLG-278)."""
    try:
        return InstanceIdentity(package, Capability.CHANNEL, alias)
    except IdentityInvalid:
        return None


def instances(manifest: Manifest, config: Config) -> tuple[InstanceIdentity, ...]:
    """The instances of a package that the configuration knows: its tool, its bound channels, and whoever has a row.

    Sorted; a row or binding that names no instance of this package is left out.
    """
    found: set[InstanceIdentity] = set()
    if Capability.TOOL in manifest.capabilities:
        found.add(InstanceIdentity.default_tool(manifest.name))
    found.update(bound_channels(manifest, config), _with_rows(manifest, config))
    return tuple(sorted(found))


def _with_rows(manifest: Manifest, config: Config) -> Iterator[InstanceIdentity]:
    for row in config.plugins.entries:
        with suppress(IdentityInvalid):
            identity = InstanceIdentity.parse(row.name)
            if identity.package == manifest.name and identity.capability in manifest.capabilities:
                yield identity
