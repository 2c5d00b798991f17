"""How a row and a deployment's settings become a policy, or are refused whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.egress.policy import (
    DEFAULT_MAX_CONNECTIONS,
    MAX_CONNECTIONS_PATH,
    NAT64_PATH,
    EgressPolicy,
    PolicyField,
    PolicyInvalid,
    deployment_faults,
)
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.hosts import HostPattern, parse_hosts

KEY = InstanceIdentity.default_tool("weather").key


def faults_of(*lists: list[str], **settings: object) -> list[tuple[PolicyField, str]]:
    with pytest.raises(PolicyInvalid) as caught:
        EgressPolicy.of(*lists, **settings)  # type: ignore[arg-type]
    return [(fault.field, fault.entry) for fault in caught.value.faults]


@pytest.mark.req("PLG-178")
def test_an_empty_row_grants_nothing() -> None:
    policy = EgressPolicy.of([])
    assert policy.rule_for("a.example") is None
    assert not policy.may_be_private("a.example")
    assert policy.max_connections == DEFAULT_MAX_CONNECTIONS == 16


@pytest.mark.req("PLG-179")
def test_the_rule_that_grants_a_host_is_the_exact_one_before_a_wildcard() -> None:
    policy = EgressPolicy.of(["*.a.example", "b.a.example", "*.b.a.example"])
    assert policy.rule_for("b.a.example") == HostPattern("b.a.example")
    assert policy.rule_for("c.a.example") == HostPattern("*.a.example")
    assert policy.rule_for("a.example") is None


@pytest.mark.req("PLG-220", "PLG-221", "PLG-180", "PLG-181")
@pytest.mark.parametrize(
    "entry", ["*.com", " a.example", "a.example ", "*", "a.example:443", "A.example", ""]
)
def test_one_bad_entry_refuses_the_whole_row(entry: str) -> None:
    assert faults_of(["good.example", entry]) == [(PolicyField.HOSTS, entry)]
    with pytest.raises(PolicyInvalid) as caught:
        EgressPolicy.of(["good.example", entry])
    assert caught.value.accepted == ("good.example",)
    assert not caught.value.deployment_wide


@pytest.mark.req("PLG-222", "PLG-183")
@pytest.mark.parametrize(
    ("hosts", "private", "covered"),
    [
        (["a.example"], "a.example", True),
        (["*.a.example"], "b.a.example", True),
        (["*.a.example"], "*.b.a.example", True),
        (["*.a.example"], "*.a.example", True),
        (["a.example"], "b.example", False),
        (["a.example"], "*.a.example", False),
        (["*.a.example"], "a.example", False),
        (["*.b.a.example"], "*.a.example", False),
        ([], "10.0.0.5", False),
        (["10.0.0.5"], "10.0.0.5", True),
    ],
)
def test_a_carve_out_stands_only_under_a_grant(hosts: list[str], private: str, covered: bool) -> None:
    if covered:
        assert EgressPolicy.of(hosts, [private]).allow_private == (HostPattern(private),)
    else:
        assert faults_of(hosts, [private]) == [(PolicyField.ALLOW_PRIVATE, private)]


@pytest.mark.req("PLG-226")
@pytest.mark.parametrize(("prefixes", "connections"), [(["nonsense"], 16), ([], 0), ([], -1), (["::/0"], 0)])
def test_a_bad_setting_of_the_deployment_refuses_every_row(prefixes: list[str], connections: int) -> None:
    known = deployment_faults(prefixes, connections)
    assert known
    assert all(fault.field.deployment_wide for fault in known)
    for hosts in ([], ["a.example"]):
        with pytest.raises(PolicyInvalid) as caught:
            EgressPolicy.of(hosts, nat64_prefixes=prefixes, max_connections=connections)
        assert caught.value.deployment_wide
        assert caught.value.faults == known


def test_the_smallest_limit_and_a_good_prefix_are_no_fault() -> None:
    assert deployment_faults(["64:ff9b:1::/48"], 1) == ()
    assert EgressPolicy.of([], max_connections=1).max_connections == 1


def test_every_fault_is_named_with_the_path_where_it_is_written() -> None:
    identity = InstanceIdentity.default_tool("weather")
    found = faults_of(["*.com"], ["b.example"], nat64_prefixes=["x"], max_connections=0)
    assert [field.path(identity) for field, _ in found] == [
        NAT64_PATH,
        MAX_CONNECTIONS_PATH,
        f"plugins.entries.{KEY}.egress_hosts",
        f"plugins.entries.{KEY}.egress_allow_private",
    ]


@pytest.mark.req("PLG-191")
@pytest.mark.parametrize(
    ("granted", "declared", "missing", "surplus"),
    [
        (["*.a.example"], ["api.a.example"], [], ["*.a.example"]),
        (["a.example"], ["a.example", "b.example"], ["b.example"], []),
        (["a.example", "b.example"], [], [], ["a.example", "b.example"]),
        ([], ["*.a.example"], ["*.a.example"], []),
        (["b.a.example"], ["*.a.example"], ["*.a.example"], []),
    ],
)
def test_a_grant_and_a_declaration_are_compared_by_what_they_reach(
    granted: list[str], declared: list[str], missing: list[str], surplus: list[str]
) -> None:
    policy, wanted = EgressPolicy.of(granted), parse_hosts(declared)
    assert [entry.text for entry in policy.not_granted(wanted)] == missing
    assert [entry.text for entry in policy.not_declared(wanted)] == surplus


@pytest.mark.req("PLG-219")
def test_the_same_values_are_the_same_policy() -> None:
    assert EgressPolicy.of(["a.example"]) is EgressPolicy.of(("a.example",))
    assert EgressPolicy.of(["a.example"]) != EgressPolicy.of(["a.example"], max_connections=1)


@given(
    st.lists(st.text(max_size=6) | st.sampled_from(["a.example", "*.a.example"])),
    st.lists(st.text("*.ax", max_size=9)),
)
def test_any_lists_are_a_policy_or_are_refused_with_reasons(hosts: list[str], private: list[str]) -> None:
    try:
        policy = EgressPolicy.of(hosts, private)
    except PolicyInvalid as error:
        EgressPolicy.of(error.accepted)  # what is called good by itself is good
        return
    assert all(policy.reaches(entry) for entry in policy.allow_private)
