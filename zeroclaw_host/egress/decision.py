"""The decision about one request: may it be made, to which addresses, and if not, why and what would change that.

Two steps, both pure. :func:`authorise` looks at the request alone; nothing is resolved before it agrees.
:func:`judge` looks at the addresses the host turned out to have. :func:`decide` is both in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from zeroclaw_host.egress.addresses import AddressClass, Judgement, judge_address
from zeroclaw_host.egress.hosts import MAX_PORT, Address, RequestHost, parse_request_host
from zeroclaw_host.egress.policy import EgressPolicy, PolicyInvalid, PolicyUnavailable
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.egress.remedies import to_carve_out, to_grant, to_mend, to_mend_deployment
from zeroclaw_host.egress.request import EgressRequest, TlsMode
from zeroclaw_host.errors import Remedy
from zeroclaw_host.package.hosts import HostFault, address_text


class Reason(StrEnum):
    """Why a request is refused: stable words, for records and for transports to map."""

    PERMISSION_MISSING = "permission_missing"
    POLICY_UNAVAILABLE = "policy_unavailable"
    POLICY_INVALID = "policy_invalid"
    HOST_INVALID = "host_invalid"
    PORT_INVALID = "port_invalid"
    HOST_NOT_GRANTED = "host_not_granted"
    TLS_PROFILE_WITHOUT_TLS = "tls_profile_without_tls"
    TLS_PROFILE_UNKNOWN = "tls_profile_unknown"
    TLS_PROFILE_INVALID = "tls_profile_invalid"
    TLS_PROFILE_HOST = "tls_profile_host"
    """The profile does not serve this host."""
    LOCAL_NAME = "local_name"
    """The name means this machine or its link, and has no private carve-out."""
    LOCAL_NAME_ELSEWHERE = "local_name_elsewhere"
    """A name that means this machine or its link has a global address."""
    NO_ADDRESSES = "no_addresses"
    LITERAL_MISMATCH = "literal_mismatch"
    """The host is an address, and something else was to be dialled."""
    METADATA_ADDRESS = "metadata_address"
    PRIVATE_ADDRESS = "private_address"
    """Not global, and the host has no private carve-out."""
    MIXED_ADDRESSES = "mixed_addresses"
    """Global addresses and others in one answer."""

    @property
    def configuration_helps(self) -> bool:
        """Whether a command can set what makes the same request pass. No remedy is offered for the others."""
        return self in _LIFTED_BY_CONFIGURATION


_LIFTED_BY_CONFIGURATION: Final = frozenset(
    {Reason.POLICY_INVALID, Reason.HOST_NOT_GRANTED, Reason.LOCAL_NAME, Reason.PRIVATE_ADDRESS}
)


class Check(StrEnum):
    """The checks, in the order they are made."""

    PERMISSION = "permission"
    POLICY = "policy"
    DESTINATION = "destination"
    GRANT = "grant"
    TLS_PROFILE = "tls_profile"
    LOCAL_NAME = "local_name"
    ADDRESSES = "addresses"


class Step(NamedTuple):
    """One check that was made, and what it went by."""

    check: Check
    passed: bool
    by: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The end of the matter.

    ``addresses`` may be dialled, in this order and no others; empty when refused. ``rule`` is the entry that grants the
    host. ``remedies`` make the same request pass, all together and in this order; empty where nothing does.
    """

    request: EgressRequest
    addresses: tuple[Address, ...] = ()
    reason: Reason | None = None
    rule: str | None = None
    steps: tuple[Step, ...] = ()
    remedies: tuple[Remedy, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether the connection may be made."""
        return self.reason is None


@dataclass(frozen=True, slots=True)
class Authorisation:
    """A request that may be resolved."""

    request: EgressRequest
    policy: EgressPolicy
    host: RequestHost
    rule: str
    private: bool
    profile: TlsProfile | None
    steps: tuple[Step, ...] = field(repr=False)


PolicyResult = EgressPolicy | PolicyInvalid | PolicyUnavailable


def authorise(request: EgressRequest, policy: PolicyResult) -> Authorisation | Decision:
    """Judge a request before anything is resolved.

    :param policy: the policy in force, or what was raised in its place.
    :returns: a refusal, or leave to resolve the host.
    """
    return _Judge(request).authorise(policy)


def judge(granted: Authorisation, addresses: Sequence[Address]) -> Decision:
    """Judge the addresses of an authorised host. All have to pass; whoever passes is dialled in the order given."""
    return _Judge(granted.request, granted.steps).judge(granted, addresses)


def decide(request: EgressRequest, policy: PolicyResult, addresses: Sequence[Address]) -> Decision:
    """The whole decision, where the addresses are known beforehand."""
    granted = authorise(request, policy)
    return granted if isinstance(granted, Decision) else judge(granted, addresses)


class _Judge:
    """The checks of one request, and the steps they left."""

    __slots__ = ("_request", "_steps")

    def __init__(self, request: EgressRequest, steps: tuple[Step, ...] = ()) -> None:
        self._request = request
        self._steps = list(steps)

    def authorise(self, policy: PolicyResult) -> Authorisation | Decision:
        request = self._request
        if not request.permitted:
            return self._refuse(
                Check.PERMISSION, Reason.PERMISSION_MISSING, request.transport.permission.value
            )
        self._pass(Check.PERMISSION, request.transport.permission.value)
        if isinstance(policy, PolicyUnavailable):
            return self._refuse(Check.POLICY, Reason.POLICY_UNAVAILABLE, policy.message)
        host = parse_request_host(request.host)
        if isinstance(policy, PolicyInvalid):
            return self._refuse(Check.POLICY, Reason.POLICY_INVALID, policy.message, self._mend(policy, host))
        self._pass(Check.POLICY, "the instance's row")
        if isinstance(host, HostFault):
            return self._refuse(Check.DESTINATION, Reason.HOST_INVALID, f"the host {host.value}")
        if not 0 < request.port <= MAX_PORT:
            return self._refuse(Check.DESTINATION, Reason.PORT_INVALID, f"the port {request.port}")
        self._pass(Check.DESTINATION, host.text)
        return self._grant(policy, host)

    def _mend(self, invalid: PolicyInvalid, host: RequestHost | HostFault) -> tuple[Remedy, ...]:
        """What the deployment got wrong is for a person to say, and comes alone. A row is mended where this request passes then."""
        if invalid.deployment_wide:
            return to_mend_deployment(invalid.faults)
        if isinstance(host, HostFault):
            return ()
        remedies, mended = to_mend(self._request.identity, invalid, host)
        return remedies if isinstance(authorise(self._request, mended), Authorisation) else ()

    def _grant(self, policy: EgressPolicy, host: RequestHost) -> Authorisation | Decision:
        request = self._request
        literal = None if host.address is None else judge_address(host.address, policy.nat64)
        if literal is not None and literal.kind is AddressClass.METADATA:
            # Said before the grant is looked at: no grant would help, and none is to be suggested.
            return self._refuse(Check.DESTINATION, Reason.METADATA_ADDRESS, literal.because)
        local = host.is_local_name or (literal is not None and literal.kind is not AddressClass.GLOBAL)
        rule = policy.rule_for(host.text)
        if rule is None:
            remedies = to_grant(request, policy, host.text, local=local)
            return self._refuse(Check.GRANT, Reason.HOST_NOT_GRANTED, "no entry of egress_hosts", remedies)
        self._pass(Check.GRANT, rule.text)
        if request.tls_profile is not None and (refusal := self._profile(policy, host, request.tls_profile)):
            return refusal
        private = policy.may_be_private(host.text)
        if local and not private:
            reason = Reason.LOCAL_NAME if literal is None else Reason.PRIVATE_ADDRESS
            because = "the name means this machine or its link" if literal is None else literal.because
            remedies = (to_carve_out(request.identity, policy, host.text),)
            return self._refuse(Check.LOCAL_NAME, reason, because, remedies, rule.text)
        return Authorisation(
            request=request,
            policy=policy,
            host=host,
            rule=rule.text,
            private=private,
            profile=None if request.tls_profile is None else policy.profiles.usable[request.tls_profile],
            steps=tuple(self._steps),
        )

    def _profile(self, policy: EgressPolicy, host: RequestHost, name: str) -> Decision | None:
        """Whether the request may name this profile. An unknown one is never the default one (PLG-374)."""
        profiles = policy.profiles
        check = Check.TLS_PROFILE
        if self._request.tls is TlsMode.NONE:
            return self._refuse(check, Reason.TLS_PROFILE_WITHOUT_TLS, "the connection is in plaintext")
        if name in profiles.faults:
            return self._refuse(check, Reason.TLS_PROFILE_INVALID, "; ".join(profiles.faults[name]))
        if name not in profiles.usable:
            return self._refuse(check, Reason.TLS_PROFILE_UNKNOWN, "no profile of the instance has that name")
        if not profiles.serves(name, host.text):
            return self._refuse(check, Reason.TLS_PROFILE_HOST, "no entry of the profile's hosts")
        self._pass(check, name)
        return None

    def judge(self, granted: Authorisation, addresses: Sequence[Address]) -> Decision:
        found = tuple(dict.fromkeys(addresses))
        if not found:
            return self._refuse(Check.ADDRESSES, Reason.NO_ADDRESSES, "the host has none", (), granted.rule)
        literal = granted.host.address
        if literal is not None and found != (literal,):
            return self._refuse(
                Check.ADDRESSES, Reason.LITERAL_MISMATCH, address_text(literal), (), granted.rule
            )
        judged = [(address, judge_address(address, granted.policy.nat64)) for address in found]
        if refused := self._judge_classes(granted, judged):
            return refused
        self._pass(Check.ADDRESSES, f"{len(found)} {judged[0][1].kind.value}")
        return Decision(self._request, found, rule=granted.rule, steps=tuple(self._steps))

    def _judge_classes(
        self, granted: Authorisation, judged: Sequence[tuple[Address, Judgement]]
    ) -> Decision | None:
        globals_ = 0
        private: tuple[Address, Judgement] | None = None
        for address, judgement in judged:
            if judgement.kind is AddressClass.METADATA:
                return self._refuse_address(granted, Reason.METADATA_ADDRESS, address, judgement)
            if judgement.kind is AddressClass.GLOBAL:
                globals_ += 1
            elif private is None:
                private = (address, judgement)
        if private is None:
            if granted.host.is_local_name:
                return self._refuse_address(granted, Reason.LOCAL_NAME_ELSEWHERE, *judged[0])
            return None
        if globals_:
            return self._refuse_address(granted, Reason.MIXED_ADDRESSES, *private)
        if not granted.private:
            remedies = (to_carve_out(self._request.identity, granted.policy, granted.host.text),)
            return self._refuse_address(granted, Reason.PRIVATE_ADDRESS, *private, remedies)
        return None

    def _refuse_address(
        self,
        granted: Authorisation,
        reason: Reason,
        address: Address,
        judgement: Judgement,
        remedies: tuple[Remedy, ...] = (),
    ) -> Decision:
        by = f"{address_text(address)} is in {judgement.because}"
        return self._refuse(Check.ADDRESSES, reason, by, remedies, granted.rule)

    def _pass(self, check: Check, by: str) -> None:
        self._steps.append(Step(check, True, by))

    def _refuse(
        self,
        check: Check,
        reason: Reason,
        by: str,
        remedies: tuple[Remedy, ...] = (),
        rule: str | None = None,
    ) -> Decision:
        steps = (*self._steps, Step(check, False, by))
        return Decision(self._request, reason=reason, rule=rule, steps=steps, remedies=remedies)
