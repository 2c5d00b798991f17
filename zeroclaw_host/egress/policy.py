"""What one instance may reach, made from its row and the deployment's settings.

:meth:`EgressPolicy.of` is the only way to a policy. The request path, listings, installs, bindings and the validation of
a configuration all call it, so none of them can find a row good that another one refuses (PLG-219). It takes a list whole
or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Final, Protocol

from zeroclaw_host.egress.nat64 import Nat64Invalid, Nat64Prefix, parse_prefixes
from zeroclaw_host.egress.profiles import Profiles, TlsProfile, read_profiles
from zeroclaw_host.errors import Kind, ZeroclawError
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.hosts import HostPattern, HostsInvalid, parse_hosts, quoted

DEFAULT_MAX_CONNECTIONS: Final = 16
"""Connections one instance may hold when nothing else is said (PLG-124)."""

NAT64_PATH: Final = "security.nat64_prefixes"
MAX_CONNECTIONS_LIMIT: Final = "max_connections_per_instance"
MAX_CONNECTIONS_PATH: Final = f"plugins.limits.{MAX_CONNECTIONS_LIMIT}"


class PolicyField(Enum):
    """Where a fault of a policy is written."""

    HOSTS = "egress_hosts"
    ALLOW_PRIVATE = "egress_allow_private"
    NAT64_PREFIXES = NAT64_PATH
    MAX_CONNECTIONS = MAX_CONNECTIONS_PATH

    @property
    def deployment_wide(self) -> bool:
        """Whether the fault refuses every instance and not only the one whose row it is (PLG-226)."""
        return self in (PolicyField.NAT64_PREFIXES, PolicyField.MAX_CONNECTIONS)

    def path(self, identity: InstanceIdentity) -> str:
        """The dotted configuration path of the field, for this instance."""
        return self.value if self.deployment_wide else f"plugins.entries.{identity.key}.{self.value}"


@dataclass(frozen=True, slots=True)
class PolicyFault:
    """One thing that refuses a whole policy: the field, the entry, and why."""

    field: PolicyField
    entry: str
    reason: str

    def __str__(self) -> str:
        return f"{self.field.value}: {quoted(self.entry)} {self.reason}"


class PolicyInvalid(ZeroclawError):
    """The lists of a row or of the deployment cannot be a policy: every request is refused.

    ``faults`` holds each reason; ``accepted`` and ``accepted_private`` the entries of the row that are good by themselves;
    ``nat64_prefixes`` and ``tls_profiles`` what else the policy was to be made of.
    """

    code = "egress_policy_invalid"
    kind = Kind.INVALID

    def __init__(
        self,
        faults: tuple[PolicyFault, ...],
        *,
        accepted: tuple[str, ...] = (),
        accepted_private: tuple[str, ...] = (),
        nat64_prefixes: tuple[str, ...] = (),
        tls_profiles: tuple[TlsProfile, ...] = (),
    ) -> None:
        self.faults = faults
        self.accepted = accepted
        self.accepted_private = accepted_private
        self.nat64_prefixes = nat64_prefixes
        self.tls_profiles = tls_profiles
        super().__init__(
            "; ".join(map(str, faults)), details={"fields": tuple(fault.field.value for fault in faults)}
        )

    @property
    def deployment_wide(self) -> bool:
        """Whether every instance is refused, whatever its row says."""
        return any(fault.field.deployment_wide for fault in self.faults)


class PolicyUnavailable(ZeroclawError):
    """The configuration that holds the policy cannot be read at the moment: every request is refused."""

    code = "egress_policy_unavailable"
    kind = Kind.UNAVAILABLE


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """A policy in force. Immutable; what it was made from is asked for again at every request (PLG-176)."""

    hosts: tuple[HostPattern, ...]
    allow_private: tuple[HostPattern, ...]
    nat64: tuple[Nat64Prefix, ...]
    max_connections: int
    profiles: Profiles
    _exact: Mapping[str, HostPattern] = field(repr=False)
    _wildcards: tuple[HostPattern, ...] = field(repr=False)

    @classmethod
    def of(
        cls,
        hosts: Iterable[str],
        allow_private: Iterable[str] = (),
        *,
        nat64_prefixes: Iterable[str] = (),
        max_connections: int = DEFAULT_MAX_CONNECTIONS,
        tls_profiles: Iterable[TlsProfile] = (),
    ) -> EgressPolicy:
        """The policy of a row under a deployment's settings.

        :param hosts: the row's ``egress_hosts``.
        :param allow_private: the row's ``egress_allow_private``: granted hosts that may have private addresses.
        :param nat64_prefixes: the deployment's ``security.nat64_prefixes``.
        :param max_connections: the deployment's ``plugins.limits.max_connections_per_instance``.
        :param tls_profiles: the row's profiles. A fault in one of them refuses the requests that name it, and only those.
        :raises PolicyInvalid: an entry breaks the grammar, no granted host covers a carve-out, a prefix is malformed, or no
            connection is allowed.
        """
        return _build(
            tuple(hosts), tuple(allow_private), tuple(nat64_prefixes), max_connections, tuple(tls_profiles)
        )

    def rule_for(self, host: str) -> HostPattern | None:
        """The entry that grants a canonical host, an exact one before a wildcard."""
        if exact := self._exact.get(host):
            return exact
        for pattern in self._wildcards:
            if pattern.matches(host):
                return pattern
        return None

    def may_be_private(self, host: str) -> bool:
        """Whether a canonical host may have private addresses."""
        return any(pattern.matches(host) for pattern in self.allow_private)

    def reaches(self, pattern: HostPattern) -> bool:
        """Whether every host that the entry means is granted: grants are compared by what they reach (PLG-191)."""
        return any(own.contains(pattern) for own in self.hosts)

    def not_granted(self, declared: Iterable[HostPattern]) -> tuple[HostPattern, ...]:
        """The declared destinations that this policy does not reach."""
        return tuple(pattern for pattern in declared if not self.reaches(pattern))

    def not_declared(self, declared: Iterable[HostPattern]) -> tuple[HostPattern, ...]:
        """The granted destinations that no declared one covers."""
        wanted = tuple(declared)
        return tuple(own for own in self.hosts if not any(pattern.contains(own) for pattern in wanted))


class PolicySource(Protocol):
    """Finds the policy that is in force for an instance. Asked anew for every request; callable from any thread."""

    def policy(self, identity: InstanceIdentity) -> EgressPolicy:
        """The policy of this instance; one that grants nothing where it has no row.

        :raises PolicyInvalid: the configuration is there and cannot be a policy.
        :raises PolicyUnavailable: the configuration cannot be read.
        """
        ...


def deployment_faults(nat64_prefixes: Iterable[str], max_connections: int) -> tuple[PolicyFault, ...]:
    """What refuses every instance of a deployment at once, to be reported once and alone (PLG-226)."""
    return _read_deployment(nat64_prefixes, max_connections)[1]


@lru_cache(maxsize=512)
def _build(
    hosts: tuple[str, ...],
    allow_private: tuple[str, ...],
    nat64_prefixes: tuple[str, ...],
    max_connections: int,
    tls_profiles: tuple[TlsProfile, ...],
) -> EgressPolicy:
    """The policy of these values. Kept, because the same row is asked for at every request."""
    prefixes, deployment = _read_deployment(nat64_prefixes, max_connections)
    faults = list(deployment)
    granted = _read(PolicyField.HOSTS, hosts, faults)
    private = _read(PolicyField.ALLOW_PRIVATE, allow_private, faults)
    uncovered = [entry for entry in private if not any(own.contains(entry) for own in granted)]
    faults += (
        PolicyFault(PolicyField.ALLOW_PRIVATE, entry.text, "is covered by no granted host")
        for entry in uncovered
    )
    if faults:
        raise PolicyInvalid(
            tuple(faults),
            accepted=tuple(entry.text for entry in granted),
            accepted_private=tuple(entry.text for entry in private),
            nat64_prefixes=nat64_prefixes,
            tls_profiles=tls_profiles,
        )
    return EgressPolicy(
        hosts=granted,
        allow_private=private,
        nat64=prefixes,
        max_connections=max_connections,
        profiles=read_profiles(tls_profiles, granted),
        _exact={entry.text: entry for entry in granted if not entry.is_wildcard},
        _wildcards=tuple(entry for entry in granted if entry.is_wildcard),
    )


def _read(where: PolicyField, entries: Iterable[str], faults: list[PolicyFault]) -> tuple[HostPattern, ...]:
    """The good entries of a list; what is wrong with the others is added to ``faults``."""
    found = tuple(entries)
    try:
        return parse_hosts(found)
    except HostsInvalid as error:
        faults += (PolicyFault(where, entry, fault.value) for _, entry, fault in error.faults)
        bad = {index for index, _, _ in error.faults}
        return parse_hosts(entry for index, entry in enumerate(found) if index not in bad)


def _read_deployment(
    nat64_prefixes: Iterable[str], max_connections: int
) -> tuple[tuple[Nat64Prefix, ...], tuple[PolicyFault, ...]]:
    prefixes: tuple[Nat64Prefix, ...] = ()
    faults: list[PolicyFault] = []
    try:
        prefixes = parse_prefixes(nat64_prefixes)
    except Nat64Invalid as error:
        faults += (PolicyFault(PolicyField.NAT64_PREFIXES, text, reason) for _, text, reason in error.faults)
    if max_connections < 1:
        faults.append(PolicyFault(PolicyField.MAX_CONNECTIONS, str(max_connections), "allows no connection"))
    return prefixes, tuple(faults)
