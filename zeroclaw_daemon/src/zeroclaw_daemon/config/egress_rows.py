"""What the configuration says about the network, as the network authority takes it.

Whoever judges a grant reads it here, so that the daemon at a request and a command that reports see the same (PLG-219).
"""

from __future__ import annotations

from zeroclaw_daemon.config.plugin_schema import PluginEntry
from zeroclaw_daemon.config.schema import Config
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.egress.source import EgressRow, EgressSettings, RowPolicies
from zeroclaw_host.instance import InstanceIdentity


def egress_settings(config: Config) -> EgressSettings:
    """What holds for every instance."""
    return EgressSettings(config.security.nat64_prefixes, config.plugins.limits.max_connections_per_instance)


def egress_row(entry: PluginEntry) -> EgressRow:
    """What one row grants (PLG-175)."""
    profiles = tuple(TlsProfile(**profile.model_dump()) for profile in entry.tls_profiles)
    return EgressRow(entry.egress_hosts, entry.egress_allow_private, profiles)


def policy_of(identity: InstanceIdentity, settings: EgressSettings, row: EgressRow | None) -> EgressPolicy:
    """The policy that the runtime would make of a row, by the way it makes it.

    :raises PolicyInvalid: it would refuse every request.
    """
    return RowPolicies(lambda _: (settings, row)).policy(identity)
