"""What a configuration grants of the network, in the network authority's own terms, and what it would refuse of it.

The file may hold a row that grants nothing at all: an entry that breaks the grammar, a carve-out without a granted host. That
makes no file invalid (PLG-220 to PLG-222); whoever looks is told, by the same judgement that the requests get (PLG-219).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zeroclaw_daemon.config.egress_rows import egress_row, egress_settings
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.plugin_schema import PluginEntry
from zeroclaw_daemon.config.schema import Config
from zeroclaw_host.egress.policy import (
    EgressPolicy,
    PolicyInvalid,
    PolicyUnavailable,
    deployment_faults,
)
from zeroclaw_host.egress.source import EgressRow, EgressSettings
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.hosts import quoted
from zeroclaw_host.visible import visible


def granted(snapshot: Snapshot, identity: InstanceIdentity) -> tuple[EgressSettings, EgressRow | None]:
    """What this revision of the configuration says of one instance. Only the row under its own key counts (PLG-171, PLG-214).

    :raises PolicyUnavailable: ``[plugins]`` cannot be read, so nobody knows what was granted (D-17).
    """
    if snapshot.plugins_dropped:
        raise PolicyUnavailable(f"{snapshot.path}: the section [plugins] cannot be read")
    entry = snapshot.config.plugins.entry(identity.key)
    return egress_settings(snapshot.config), None if entry is None else egress_row(entry)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a file that can be used, because of which connections are refused."""

    path: str
    """The dotted path of the property."""
    reason: str
    refuses: str
    """What is refused, in words."""

    @property
    def message(self) -> str:
        """All of it in one sentence."""
        return f"{self.path}: {self.reason}; {self.refuses}"


def findings(config: Config) -> tuple[Finding, ...]:
    """Everything that the network authority refuses about this configuration, in the order of the file.

    What refuses every instance is told first, and does not hide what is wrong with a single row.
    """
    settings = egress_settings(config)
    deployment = deployment_faults(settings.nat64_prefixes, settings.max_connections)
    return (
        *(
            Finding(
                fault.field.value,
                f"{quoted(fault.entry)} {fault.reason}",
                "every plugin's connections are refused",
            )
            for fault in deployment
        ),
        *(found for entry in config.plugins.entries if not entry.legacy for found in _of_row(entry)),
    )


def _of_row(entry: PluginEntry) -> Iterator[Finding]:
    """What is wrong with a row by itself, under settings that are in order."""
    path = f"plugins.entries.{entry.name}"
    row = egress_row(entry)
    try:
        read = EgressPolicy.of(row.hosts, row.allow_private, tls_profiles=row.tls_profiles).profiles
    except PolicyInvalid as error:
        for fault in error.faults:
            yield Finding(
                f"{path}.{fault.field.value}",
                f"{quoted(fault.entry)} {fault.reason}",
                "every connection of the instance is refused",
            )
        # The profiles are judged by what would be granted without the entries that refuse it all.
        read = EgressPolicy.of(error.accepted, tls_profiles=row.tls_profiles).profiles
    for name, faults in read.faults.items():
        for fault in faults:
            yield Finding(
                f"{path}.tls_profiles",
                f"{visible(name)}: {fault}",
                "every connection that names this profile is refused",
            )
