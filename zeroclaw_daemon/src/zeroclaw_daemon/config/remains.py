"""What a removed package leaves in the configuration: bindings, rows, and the grants in them.

Nothing of it is taken away with the package, because it belongs to the instances. Whatever is installed under the name later
has all of it (PLG-161 to PLG-165).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zeroclaw_daemon.config.instances import channel_instance
from zeroclaw_daemon.config.schema import Config
from zeroclaw_host.installation.rows import owns_state
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability, Manifest


@dataclass(frozen=True, slots=True)
class EgressGrant:
    """A kept row that still grants destinations."""

    key: str
    egress_hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left of one package."""

    bindings: tuple[str, ...]
    """Aliases that are still bound to the name."""
    rows: tuple[str, ...]
    """Keys of the rows that its instances had."""
    grants: tuple[EgressGrant, ...]


def remains(name: str, manifest: Manifest | None, config: Config) -> Remains:
    """What the configuration keeps for a package that was just removed.

    :param manifest: the removed version's; None where what was removed was no package.
    """
    aliases = tuple(
        alias for alias, channel in sorted(config.channels.plugin.items()) if channel.package == name
    )
    found = [
        entry for key in _keys(name, manifest, aliases) if (entry := config.plugins.entry(key)) is not None
    ]
    return Remains(
        bindings=aliases,
        rows=tuple(entry.name for entry in found),
        grants=tuple(EgressGrant(entry.name, entry.egress_hosts) for entry in found if entry.egress_hosts),
    )


def _keys(name: str, manifest: Manifest | None, aliases: tuple[str, ...]) -> Iterator[str]:
    if manifest is None:
        return
    if Capability.TOOL in manifest.capabilities and owns_state(manifest):
        yield InstanceIdentity.default_tool(name).key
    if Capability.CHANNEL in manifest.capabilities:
        # Also where this version owns no state: an earlier one may have, and a later one would find the row (PLG-163).
        for alias in aliases:
            if (identity := channel_instance(name, alias)) is not None:
                yield identity.key
