"""Every destination of the table, with nothing granted, with the host granted, and with a private carve-out."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable

import destinations
import pytest
from destinations import ALLOWED, TABLE, Granted, Row

from zeroclaw_host.egress.decision import Check, Decision, Reason, decide
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.request import EgressRequest
from zeroclaw_host.errors import RemedyAction

Asks = Callable[..., EgressRequest]


def addresses(row: Row) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    return [ipaddress.ip_address(text) for text in row.answer]


def policy_of(row: Row, granted: Granted) -> EgressPolicy:
    entries = [row.entry] if row.entry is not None and granted is not Granted.NOTHING else []
    private = entries if granted is Granted.PRIVATE_HOST else []
    return EgressPolicy.of(entries, private, nat64_prefixes=row.nat64)


def verdict(decision: Decision) -> str:
    return ALLOWED if decision.reason is None else decision.reason.value


@pytest.mark.req("PLG-174", "PLG-177", "PLG-178", "PLG-179", "PLG-180", "PLG-183", "PAINS-16")
@pytest.mark.parametrize("row", TABLE, ids=str)
def test_a_destination_gets_its_verdict(ask: Asks, row: Row) -> None:
    order = list(Check)
    for granted in Granted:
        decision = decide(ask(row.host, row.port), policy_of(row, granted), addresses(row))
        assert verdict(decision) == row.verdicts[granted.value], granted
        assert decision.addresses == (tuple(dict.fromkeys(addresses(row))) if decision.allowed else ())
        assert [step.passed for step in decision.steps] == [
            *[True] * (len(decision.steps) - 1),
            decision.allowed,
        ]
        made = [order.index(step.check) for step in decision.steps]
        assert made == sorted(made)


@pytest.mark.req("PLG-184", "PAINS-17")
@pytest.mark.parametrize("row", TABLE, ids=str)
def test_a_remedy_is_there_where_it_helps_and_then_it_does(ask: Asks, row: Row) -> None:
    for granted in Granted:
        follow_the_remedies(ask(row.host, row.port), row, policy_of(row, granted))


def follow_the_remedies(request: EgressRequest, row: Row, policy: EgressPolicy) -> None:
    """Set what the remedies say, and the same request passes; or its addresses, unknown before, are refused by themselves."""
    decision = decide(request, policy, addresses(row))
    assert bool(decision.remedies) is (decision.reason is not None and decision.reason.configuration_helps)
    while decision.remedies:
        lists = {"egress_hosts": policy.hosts, "egress_allow_private": policy.allow_private}
        values = {name: [entry.text for entry in entries] for name, entries in lists.items()}
        for remedy in decision.remedies:
            assert remedy.action is RemedyAction.SET_CONFIG
            path, _, name = remedy.arguments["path"].rpartition(".")
            assert path == f"plugins.entries.{request.identity.key}"
            assert set(values[name]) < set(remedy.arguments["value"].split(","))
            values[name] = remedy.arguments["value"].split(",")
            # Each command leaves a policy behind, so that pasting them one after the other is never refused.
            policy = EgressPolicy.of(*values.values(), nat64_prefixes=row.nat64)
        before, decision = decision, decide(request, policy, addresses(row))
        assert decision.reason is not before.reason
        if decision.reason is not None and not decision.remedies:
            assert decision.steps[-1].check is Check.ADDRESSES


def test_the_table_is_as_large_as_promised() -> None:
    assert len({(row.host, row.answer, row.nat64, row.port) for row in TABLE}) >= 400
    assert all(len(row.verdicts) == len(Granted) for row in TABLE)


def test_every_reason_that_a_destination_can_have_is_in_the_table() -> None:
    seen = Counter(word for row in TABLE for word in row.verdicts)
    elsewhere = {
        Reason.PERMISSION_MISSING,
        Reason.POLICY_INVALID,
        Reason.POLICY_UNAVAILABLE,
        Reason.LITERAL_MISMATCH,
        *(reason for reason in Reason if reason.name.startswith("TLS_PROFILE")),
    }
    assert set(seen) == {ALLOWED, *(reason.value for reason in Reason if reason not in elsewhere)}


SET_APART_HERE_ALONE = {"192.88.99.0", "192.88.99.255", "192.0.0.8", "192.0.0.255", "168.63.129.16"}
"""What the standard library calls global: 6to4's relays, protocol assignments in older versions, and a cloud's own."""


@pytest.mark.parametrize("text", [*destinations.GLOBAL_IPV4, *destinations.GLOBAL_IPV6])
def test_what_the_table_calls_global_the_standard_library_does_not_call_private(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert not address.is_loopback
    assert not address.is_link_local
    assert not address.is_multicast
    assert not address.is_reserved
    if not text.startswith("2001:"):  # its tables set 2001::/23 apart as a whole before 3.13
        assert address.is_global


@pytest.mark.parametrize("text", [*destinations.PRIVATE_IPV4, *destinations.METADATA_IPV4])
def test_what_the_standard_library_calls_global_the_table_calls_private_only_with_a_reason(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert not address.is_global or address.is_multicast or text in SET_APART_HERE_ALONE
