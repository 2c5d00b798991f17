"""What a decision says besides yes and no, and the refusals that no destination brings about."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.egress.decision import Authorisation, Check, Decision, Reason, authorise, decide, judge
from zeroclaw_host.egress.hosts import RequestHost, parse_request_host
from zeroclaw_host.egress.policy import EgressPolicy, PolicyInvalid, PolicyUnavailable
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.egress.request import EgressRequest, TlsMode, Transport
from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.hosts import HostFault, HostPattern, canonical_host
from zeroclaw_host.package.manifest import parse_manifest

Asks = Callable[..., EgressRequest]
PUBLIC = [ipaddress.ip_address("1.1.1.1")]
PRIVATE = [ipaddress.ip_address("10.0.0.5")]
KEY = InstanceIdentity.default_tool("weather").key
HOSTS = f"plugins.entries.{KEY}.egress_hosts"
ALLOW_PRIVATE = f"plugins.entries.{KEY}.egress_allow_private"
CORP = TlsProfile("corp", ("a.example",), custom_ca_secret="ca")


def invalid(hosts: list[str], private: list[str] | None = None, **settings: object) -> PolicyInvalid:
    with pytest.raises(PolicyInvalid) as caught:
        EgressPolicy.of(hosts, private or [], **settings)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.req("PLG-178", "PLG-369")
@pytest.mark.parametrize("transport", Transport)
def test_without_the_transports_permission_no_grant_helps(ask: Asks, transport: Transport) -> None:
    request = ask("a.example", transport=transport, permitted=False)
    decision = decide(request, EgressPolicy.of(["a.example"]), PUBLIC)
    assert decision.reason is Reason.PERMISSION_MISSING
    assert not decision.remedies


@pytest.mark.req("PLG-369")
@pytest.mark.parametrize("transport", Transport)
def test_a_request_is_permitted_by_its_own_transports_permission(transport: Transport) -> None:
    names = {one: one.permission.value for one in Transport}
    for one, name in names.items():
        manifest = parse_manifest(
            f'name = "weather"\nversion = "1"\ncapabilities = ["tool"]\nwasm_path = "p.wasm"\npermissions = ["{name}"]\n'.encode()
        )
        scope = InstanceScope.admit(InstanceIdentity.default_tool("weather"), manifest)
        assert EgressRequest.of(scope, transport, "a.example", 1).permitted is (one is transport)


def test_nothing_is_resolved_for_a_request_that_is_refused_by_itself(ask: Asks) -> None:
    assert isinstance(authorise(ask("a.example"), EgressPolicy.of([])), Decision)
    granted = authorise(ask("A.example."), EgressPolicy.of(["a.example"]))
    assert isinstance(granted, Authorisation)
    assert granted.host == RequestHost("a.example")


@pytest.mark.req("PLG-176")
def test_a_policy_that_cannot_be_read_refuses(ask: Asks) -> None:
    decision = decide(ask("a.example"), PolicyUnavailable("the configuration cannot be read"), PUBLIC)
    assert decision.reason is Reason.POLICY_UNAVAILABLE
    assert not decision.remedies


@pytest.mark.req("PLG-226")
@pytest.mark.parametrize(
    ("settings", "remedies"),
    [
        ({"nat64_prefixes": ["x"]}, [Remedy(RemedyAction.SET_CONFIG, {"path": "security.nat64_prefixes"})]),
        (
            {"max_connections": 0},
            [Remedy(RemedyAction.RAISE_LIMIT, {"limit": "max_connections_per_instance"})],
        ),
        (
            {"nat64_prefixes": ["x"], "max_connections": 0},
            [
                Remedy(RemedyAction.SET_CONFIG, {"path": "security.nat64_prefixes"}),
                Remedy(RemedyAction.RAISE_LIMIT, {"limit": "max_connections_per_instance"}),
            ],
        ),
    ],
)
def test_a_bad_deployment_refuses_and_offers_no_repair_of_the_row(
    ask: Asks, settings: dict[str, object], remedies: list[Remedy]
) -> None:
    for hosts in (["a.example"], ["*.com", "a.example"]):
        decision = decide(ask("a.example"), invalid(hosts, **settings), PUBLIC)
        assert decision.reason is Reason.POLICY_INVALID
        assert list(decision.remedies) == remedies


BEHIND = "2001:67c:2b0:db32:0:1:{}"
"""An address of a network whose NAT64 prefix is not the well-known one."""


@pytest.mark.req("PLG-183", "PLG-184", "PLG-220")
@pytest.mark.parametrize(
    ("how", "remedies"),
    [
        ({"host": BEHIND.format("a9fe:a9fe")}, {}),  # metadata
        (
            {"host": BEHIND.format("a01:203")},  # 10.1.2.3
            {HOSTS: BEHIND.format("a01:203"), ALLOW_PRIVATE: BEHIND.format("a01:203")},
        ),
        ({"host": BEHIND.format("5db8:d822")}, {HOSTS: BEHIND.format("5db8:d822")}),
        ({"host": "a.example", "port": 0}, {}),
        ({"host": "a.example", "tls_profile": "corp"}, {}),
        ({"host": "corp.example", "tls_profile": "none"}, {}),
        ({"host": "corp.example", "tls_profile": "corp"}, {HOSTS: "corp.example"}),
    ],
)
def test_a_bad_row_is_mended_only_where_the_request_passes_then(
    ask: Asks, how: dict[str, Any], remedies: dict[str, str]
) -> None:
    bad = invalid(
        ["*.com"],
        nat64_prefixes=["2001:67c:2b0:db32:0:1::/96"],
        tls_profiles=[TlsProfile("corp", ("corp.example",))],
    )
    decision = decide(ask(**how), bad, ())
    assert decision.reason is Reason.POLICY_INVALID
    found = {remedy.arguments["path"]: remedy.arguments.get("value") for remedy in decision.remedies}
    assert found == remedies


@pytest.mark.req("PLG-220", "PLG-221", "PLG-222")
@pytest.mark.parametrize(
    ("hosts", "private", "host", "remedies"),
    [
        (["*.com", "a.example"], [], "a.example", {HOSTS: "a.example"}),
        ([" a.example"], [], "a.example", {HOSTS: "a.example"}),
        (["*.com"], [], "b.example", {HOSTS: "b.example"}),
        (["a.example"], ["b.example"], "a.example", {ALLOW_PRIVATE: ""}),
        (["a.example", "c.example"], ["b.example", "c.example"], "a.example", {ALLOW_PRIVATE: "c.example"}),
        (
            ["a.example"],
            ["b.example"],
            "b.example",
            {HOSTS: "a.example,b.example", ALLOW_PRIVATE: "b.example"},
        ),
        (["*.com", "a.example"], ["x.com"], "a.example", {HOSTS: "a.example", ALLOW_PRIVATE: ""}),
        (["*.com"], [], "localhost", {HOSTS: "localhost", ALLOW_PRIVATE: "localhost"}),
        (["*.com"], [], "10.0.0.5", {HOSTS: "10.0.0.5", ALLOW_PRIVATE: "10.0.0.5"}),
        (["*.com"], [], "169.254.169.254", {}),
        (["*.com"], [], "no host", {}),
    ],
)
def test_a_bad_row_refuses_every_request_and_the_remedies_mend_it(
    ask: Asks, hosts: list[str], private: list[str], host: str, remedies: dict[str, str]
) -> None:
    decision = decide(ask(host), invalid(hosts, private), PUBLIC)
    assert decision.reason is Reason.POLICY_INVALID
    found = {remedy.arguments["path"]: remedy.arguments.get("value", "") for remedy in decision.remedies}
    assert found == remedies
    for remedy in decision.remedies:
        assert remedy.action is (
            RemedyAction.SET_CONFIG if "value" in remedy.arguments else RemedyAction.UNSET_CONFIG
        )
    if remedies:
        lists = {HOSTS: hosts, ALLOW_PRIVATE: private} | {
            path: value.split(",") if value else [] for path, value in found.items()
        }
        mended = EgressPolicy.of(lists[HOSTS], lists[ALLOW_PRIVATE])
        assert not isinstance(authorise(ask(host), mended), Decision)


@pytest.mark.parametrize(
    ("dialled", "reason"),
    [
        (["1.1.1.1"], None),
        (["1.1.1.1", "1.1.1.1"], None),
        (["8.8.8.8"], Reason.LITERAL_MISMATCH),
        (["1.1.1.1", "8.8.8.8"], Reason.LITERAL_MISMATCH),
        (["::ffff:1.1.1.1"], Reason.LITERAL_MISMATCH),
        ([], Reason.NO_ADDRESSES),
    ],
)
def test_a_host_that_is_an_address_is_that_address(
    ask: Asks, dialled: list[str], reason: Reason | None
) -> None:
    answer = [ipaddress.ip_address(text) for text in dialled]
    assert decide(ask("1.1.1.1"), EgressPolicy.of(["1.1.1.1"]), answer).reason is reason


@pytest.mark.req("PLG-360", "PLG-374")
@pytest.mark.parametrize(
    ("host", "profile", "tls", "reason"),
    [
        ("a.example", "corp", TlsMode.DIRECT, None),
        ("a.example", "corp", TlsMode.LATER, None),
        ("a.example", "corp", TlsMode.NONE, Reason.TLS_PROFILE_WITHOUT_TLS),
        ("a.example", "other", TlsMode.DIRECT, Reason.TLS_PROFILE_UNKNOWN),
        ("a.example", "", TlsMode.DIRECT, Reason.TLS_PROFILE_UNKNOWN),
        ("a.example", "broken", TlsMode.DIRECT, Reason.TLS_PROFILE_INVALID),
        ("b.example", "corp", TlsMode.DIRECT, Reason.TLS_PROFILE_HOST),
        ("c.example", "corp", TlsMode.DIRECT, Reason.HOST_NOT_GRANTED),
    ],
)
def test_a_profile_is_looked_at_after_the_grant_and_before_any_lookup(
    ask: Asks, host: str, profile: str, tls: TlsMode, reason: Reason | None
) -> None:
    broken = TlsProfile("broken", ("c.example",))
    policy = EgressPolicy.of(["a.example", "b.example"], tls_profiles=[CORP, broken])
    found = authorise(ask(host, tls=tls, tls_profile=profile), policy)
    if reason is None:
        assert isinstance(found, Authorisation)
        assert found.profile == CORP
    else:
        assert isinstance(found, Decision)
        assert found.reason is reason
        assert not found.remedies


@pytest.mark.parametrize(("hosts", "helps"), [(("c.example",), True), (("a.example",), False)])
def test_a_grant_is_offered_with_a_profile_only_where_the_profile_then_serves(
    ask: Asks, hosts: tuple[str, ...], helps: bool
) -> None:
    profile = TlsProfile("corp", hosts)
    decision = decide(
        ask("c.example", tls_profile="corp"), EgressPolicy.of(["a.example"], tls_profiles=[profile]), PUBLIC
    )
    assert decision.reason is Reason.HOST_NOT_GRANTED
    assert bool(decision.remedies) is helps


def test_an_allowed_request_tells_its_rule_and_the_checks_it_passed(ask: Asks) -> None:
    decision = decide(ask("b.a.example"), EgressPolicy.of(["*.a.example"]), PUBLIC)
    assert decision.rule == "*.a.example"
    assert [(step.check, step.by) for step in decision.steps] == [
        (Check.PERMISSION, "http_client"),
        (Check.POLICY, "the instance's row"),
        (Check.DESTINATION, "b.a.example"),
        (Check.GRANT, "*.a.example"),
        (Check.ADDRESSES, "1 global"),
    ]


def test_a_refused_address_is_named_with_what_it_is(ask: Asks) -> None:
    decision = decide(ask("a.example"), EgressPolicy.of(["a.example"]), PRIVATE)
    assert decision.rule == "a.example"
    assert decision.steps[-1].by == "10.0.0.5 is in 10.0.0.0/8 private use (RFC 1918)"


def test_the_order_of_the_resolver_is_kept_and_repetitions_are_not(ask: Asks) -> None:
    answer = [ipaddress.ip_address(text) for text in ("8.8.8.8", "1.1.1.1", "2606:4700::1", "8.8.8.8")]
    decision = decide(ask("a.example"), EgressPolicy.of(["a.example"]), answer)
    assert [str(address) for address in decision.addresses] == ["8.8.8.8", "1.1.1.1", "2606:4700::1"]


@pytest.mark.parametrize("bad", ["10.0.0.5", "169.254.169.254"])
@pytest.mark.parametrize("place", [0, 2_500, 4_999])
def test_of_thousands_of_addresses_every_one_is_judged(ask: Asks, bad: str, place: int) -> None:
    answer = [ipaddress.IPv4Address(0x08000000 + number) for number in range(5_000)]
    policy = EgressPolicy.of(["a.example"])
    assert len(decide(ask("a.example"), policy, answer).addresses) == 5_000
    answer[place] = ipaddress.IPv4Address(bad)
    assert not decide(ask("a.example"), policy, answer).allowed


CONFIGURATION_HELPS = {
    Reason.PERMISSION_MISSING: False,
    Reason.POLICY_UNAVAILABLE: False,
    Reason.POLICY_INVALID: True,
    Reason.HOST_INVALID: False,
    Reason.PORT_INVALID: False,
    Reason.HOST_NOT_GRANTED: True,
    Reason.TLS_PROFILE_WITHOUT_TLS: False,
    Reason.TLS_PROFILE_UNKNOWN: False,
    Reason.TLS_PROFILE_INVALID: False,
    Reason.TLS_PROFILE_HOST: False,
    Reason.LOCAL_NAME: True,
    Reason.LOCAL_NAME_ELSEWHERE: False,
    Reason.NO_ADDRESSES: False,
    Reason.LITERAL_MISMATCH: False,
    Reason.METADATA_ADDRESS: False,
    Reason.PRIVATE_ADDRESS: True,
    Reason.MIXED_ADDRESSES: False,
}


@pytest.mark.parametrize("reason", Reason)
def test_a_table_says_which_refusals_a_command_can_lift(reason: Reason) -> None:
    assert reason.configuration_helps is CONFIGURATION_HELPS[reason]


@given(
    st.text(max_size=300)
    | st.text("aA1.-[]:%0xf*_ ", max_size=20)
    | st.ip_addresses().map(str)
    | st.ip_addresses(v=6).map("[{}]".format)
    | st.text("é．。ⓐK", min_size=1, max_size=5)
)
def test_a_request_host_is_one_that_an_entry_can_mean_or_is_none(text: str) -> None:
    found = parse_request_host(text)
    if isinstance(found, HostFault):
        return
    assert text.isascii()
    assert canonical_host(found.text) == found.text
    assert parse_request_host(found.text) == found
    assert HostPattern.parse(found.text).matches(found.text)
    try:
        address = ipaddress.ip_address(found.text)
    except ValueError:
        assert found.address is None
    else:
        assert found.address == address


@given(st.lists(st.ip_addresses(), max_size=5), st.booleans())
def test_an_allowed_answer_is_all_global_or_carved_out_and_never_metadata(
    answer: list[ipaddress.IPv4Address | ipaddress.IPv6Address], private: bool
) -> None:
    request = EgressRequest(
        identity=InstanceIdentity.default_tool("weather"),
        transport=Transport.HTTP,
        host="a.example",
        port=443,
        permitted=True,
    )
    granted = authorise(request, EgressPolicy.of(["a.example"], ["a.example"] if private else []))
    assert isinstance(granted, Authorisation)
    decision = judge(granted, answer)
    if decision.allowed:
        # The other way round from the code: by the standard library, as far as its tables go.
        assert decision.addresses
        own = [address for address in answer if address not in ASSIGNED and address not in MAPPED]
        assert private or not any(address.is_private for address in own)
        assert not any(address.is_multicast for address in answer if not private)
        assert not any(address in ipaddress.ip_network("169.254.0.0/16") for address in answer)


MAPPED = ipaddress.ip_network("::ffff:0:0/96")
"""Judged as what it carries, here; as a whole, there."""
ASSIGNED = ipaddress.ip_network("2001::/23")
"""Some of it is global; older versions of the standard library set it apart as a whole."""
