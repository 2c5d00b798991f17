"""Policies made from rows and settings that a host keeps, asked for anew at every request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zeroclaw_host.egress.policy import DEFAULT_MAX_CONNECTIONS, EgressPolicy
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.instance import InstanceIdentity


@dataclass(frozen=True, slots=True)
class EgressRow:
    """What an operator granted one instance, as it is written (PLG-175)."""

    hosts: tuple[str, ...] = ()
    allow_private: tuple[str, ...] = ()
    tls_profiles: tuple[TlsProfile, ...] = ()


@dataclass(frozen=True, slots=True)
class EgressSettings:
    """What holds for all instances of a deployment, as it is written."""

    nat64_prefixes: tuple[str, ...] = ()
    max_connections: int = DEFAULT_MAX_CONNECTIONS


class RowPolicies:
    """The :class:`~zeroclaw_host.egress.policy.PolicySource` of a host that keeps rows. Keeps nothing itself.

    Thread-safe where the two functions are.

    :param read: the settings and, where there is one, the row of an instance, of one revision of the configuration. Raises
        :class:`~zeroclaw_host.egress.policy.PolicyUnavailable` where the configuration cannot be read.
    """

    def __init__(self, read: Callable[[InstanceIdentity], tuple[EgressSettings, EgressRow | None]]) -> None:
        self._read = read

    def policy(self, identity: InstanceIdentity) -> EgressPolicy:
        """See :meth:`~zeroclaw_host.egress.policy.PolicySource.policy`. An instance without a row is granted nothing."""
        settings, found = self._read(identity)
        row = EgressRow() if found is None else found
        return EgressPolicy.of(
            row.hosts,
            row.allow_private,
            nat64_prefixes=settings.nat64_prefixes,
            max_connections=settings.max_connections,
            tls_profiles=row.tls_profiles,
        )
