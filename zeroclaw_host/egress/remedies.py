"""What to set so that a refused request passes. Values only: whoever talks to a person makes a command of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from zeroclaw_host.egress.addresses import AddressClass, judge_address
from zeroclaw_host.egress.hosts import RequestHost
from zeroclaw_host.egress.policy import (
    MAX_CONNECTIONS_LIMIT,
    NAT64_PATH,
    EgressPolicy,
    PolicyFault,
    PolicyField,
    PolicyInvalid,
)
from zeroclaw_host.egress.profiles import read_profiles
from zeroclaw_host.egress.request import EgressRequest, TlsMode
from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.hosts import HostPattern


def to_grant(request: EgressRequest, policy: EgressPolicy, host: str, *, local: bool) -> tuple[Remedy, ...]:
    """What grants a host. Nothing where the request would then fail by the profile it names."""
    if request.tls_profile is not None:
        then = read_profiles(policy.profiles.rows, (*policy.hosts, HostPattern(host)))
        if request.tls is TlsMode.NONE or not then.serves(request.tls_profile, host):
            return ()
    grant = to_set(PolicyField.HOSTS, request.identity, {*(entry.text for entry in policy.hosts), host})
    return (grant, to_carve_out(request.identity, policy, host)) if local else (grant,)


def to_carve_out(identity: InstanceIdentity, policy: EgressPolicy, host: str) -> Remedy:
    return to_set(
        PolicyField.ALLOW_PRIVATE, identity, {*(entry.text for entry in policy.allow_private), host}
    )


def to_mend(
    identity: InstanceIdentity, invalid: PolicyInvalid, host: RequestHost
) -> tuple[tuple[Remedy, ...], EgressPolicy]:
    """What makes a policy of a row that is none, and lets this host pass; and the policy that it makes."""
    wrong = {fault.field for fault in invalid.faults}
    hosts, private = set(invalid.accepted), set(invalid.accepted_private)
    if EgressPolicy.of(hosts).rule_for(host.text) is None:
        hosts.add(host.text)
    granted = EgressPolicy.of(hosts, nat64_prefixes=invalid.nat64_prefixes, tls_profiles=invalid.tls_profiles)
    literal = None if host.address is None else judge_address(host.address, granted.nat64).kind
    if host.is_local_name or literal is AddressClass.PRIVATE:
        private.add(host.text)
    private = {entry for entry in private if granted.reaches(HostPattern.parse(entry))}
    remedies: list[Remedy] = []
    if PolicyField.HOSTS in wrong or hosts != set(invalid.accepted):
        remedies.append(to_set(PolicyField.HOSTS, identity, hosts))
    if PolicyField.ALLOW_PRIVATE in wrong or private != set(invalid.accepted_private):
        remedies.append(to_set(PolicyField.ALLOW_PRIVATE, identity, private))
    mended = EgressPolicy.of(
        hosts, private, nat64_prefixes=invalid.nat64_prefixes, tls_profiles=invalid.tls_profiles
    )
    return tuple(remedies), mended


def to_mend_deployment(faults: Iterable[PolicyFault]) -> tuple[Remedy, ...]:
    """What makes the settings of all instances a policy again. Their values are for a person to say."""
    wrong = {fault.field for fault in faults}
    remedies: list[Remedy] = []
    if PolicyField.NAT64_PREFIXES in wrong:
        remedies.append(Remedy(RemedyAction.SET_CONFIG, {"path": NAT64_PATH}))
    if PolicyField.MAX_CONNECTIONS in wrong:
        remedies.append(Remedy(RemedyAction.RAISE_LIMIT, {"limit": MAX_CONNECTIONS_LIMIT}))
    return tuple(remedies)


def to_set(where: PolicyField, identity: InstanceIdentity, values: Collection[str]) -> Remedy:
    """What makes exactly these entries one list of the instance's row."""
    path = where.path(identity)
    if not values:
        return Remedy(RemedyAction.UNSET_CONFIG, {"path": path})
    return Remedy(RemedyAction.SET_CONFIG, {"path": path, "value": ",".join(sorted(values))})
