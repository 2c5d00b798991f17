"""Prefixes of translators, as RFC 6052 has them."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.egress.nat64 import PREFIX_LENGTHS, Nat64Invalid, Nat64Prefix, parse_prefixes

# RFC 6052, section 2.4, table 2: 192.0.2.33 under 2001:db8::.
EXAMPLES = {
    "2001:db8::/32": "2001:db8:c000:221::",
    "2001:db8:100::/40": "2001:db8:1c0:2:21::",
    "2001:db8:122::/48": "2001:db8:122:c000:2:2100::",
    "2001:db8:122:300::/56": "2001:db8:122:3c0:0:221::",
    "2001:db8:122:344::/64": "2001:db8:122:344:c0:2:2100:0",
    "2001:db8:122:344::/96": "2001:db8:122:344::c000:221",
}
REFUSED = {
    "": "form",
    "64:ff9b::": "form",
    "64:ff9b::/": "form",
    "64:ff9b::/096": "form",
    "64:ff9b::/+96": "form",
    "64:ff9b::/96/96": "form",
    "64:ff9b::/９６": "form",
    "64:ff9b::/0": "form",
    "64:ff9b::/-96": "form",
    "64:ff9b::/128": "form",
    "64:ff9b::/33": "lengths",
    "64:ff9b::/95": "lengths",
    "64:ff9b::/97": "lengths",
    "/96": "IPv6",
    "10.0.0.0/32": "IPv6",
    "[64:ff9b::]/96": "IPv6",
    " 64:ff9b::/96": "IPv6",
    "host.example/96": "IPv6",
    "64:ff9b::1/96": "bits",
    "64:ff9b:0:1::/48": "bits",
    "64:ff9b:1:1::/48": "bits",
    "fe80::%1/64": "zone",
}


@pytest.mark.parametrize(("prefix", "address"), EXAMPLES.items())
def test_the_examples_of_the_standard_are_read_and_written(prefix: str, address: str) -> None:
    found = Nat64Prefix.parse(prefix)
    number = int(ipaddress.IPv6Address(address))
    ipv4 = int(ipaddress.IPv4Address("192.0.2.33"))
    assert found.embedded(number) == ipv4
    assert found.embed(ipv4) == number
    assert str(found) == prefix


@pytest.mark.req("PLG-226")
@pytest.mark.parametrize(("text", "reason"), REFUSED.items(), ids=ascii)
def test_anything_else_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(Nat64Invalid) as caught:
        Nat64Prefix.parse(text)
    assert reason in str(caught.value)


@pytest.mark.req("PLG-226")
def test_one_bad_text_fails_the_whole_list_and_every_bad_one_is_named() -> None:
    with pytest.raises(Nat64Invalid) as caught:
        parse_prefixes(["64:ff9b:1::/48", "nonsense", "64:ff9b::/33"])
    assert [(index, text) for index, text, _ in caught.value.faults] == [(1, "nonsense"), (2, "64:ff9b::/33")]


def test_a_list_is_sorted_and_holds_each_prefix_once() -> None:
    found = parse_prefixes(["64:ff9b:1::/48", "64:ff9b::/96", "64:FF9B:1:0::/48"])
    assert list(map(str, found)) == ["64:ff9b::/96", "64:ff9b:1::/48"]


@given(
    st.integers(0, 2**128 - 1),
    st.sampled_from(PREFIX_LENGTHS),
    st.integers(0, 2**32 - 1),
    st.integers(0, 255),
)
def test_what_was_embedded_is_found_whatever_the_ignored_octet_holds(
    base: int, length: int, ipv4: int, u_octet: int
) -> None:
    prefix = Nat64Prefix(base >> (128 - length) << (128 - length), length)
    number = prefix.embed(ipv4)
    if length <= 64:
        number = number & ~(0xFF << 56) | u_octet << 56
    assert prefix.embedded(number) == ipv4
    assert prefix.embedded(number ^ (1 << 127)) is None
    assert Nat64Prefix.parse(str(prefix)) == prefix


@given(st.text(max_size=20) | st.text("0123456789abcdef:/.%", max_size=24))
def test_a_text_is_a_prefix_or_is_refused(text: str) -> None:
    try:
        prefix = Nat64Prefix.parse(text)
    except Nat64Invalid:
        return
    assert Nat64Prefix.parse(str(prefix)) == prefix
