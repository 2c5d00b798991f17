"""The grammar of network destinations (PAINS 18)."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.package.hosts import HostFault, HostPattern, HostsInvalid, parse_hosts

LABEL = "a" * 63
NAME_OF_253 = ".".join([LABEL, LABEL, LABEL, "a" * 61])

ACCEPTED = {
    "api.example.com": "api.example.com",
    "localhost": "localhost",
    "xn--bcher-kva.example": "xn--bcher-kva.example",
    "a-b.c--d.example": "a-b.c--d.example",
    "1and1.example": "1and1.example",
    "3.example.x1": "3.example.x1",
    LABEL: LABEL,
    NAME_OF_253: NAME_OF_253,
    "*.example.com": "*.example.com",
    "*.co.uk": "*.co.uk",
    "10.0.0.5": "10.0.0.5",
    "255.255.255.255": "255.255.255.255",
    "::1": "::1",
    "2001:db8::1": "2001:db8::1",
    "[2001:db8::1]": "2001:db8::1",
    "::ffff:10.0.0.5": "::ffff:10.0.0.5",
}

REFUSED = {
    "": HostFault.EMPTY,
    " ": HostFault.WHITESPACE,
    " a.example": HostFault.WHITESPACE,
    "a.example\n": HostFault.WHITESPACE,
    "a b.example": HostFault.WHITESPACE,
    "a\u00a0b.example": HostFault.WHITESPACE,
    "a\0b.example": HostFault.WHITESPACE,
    "https://a.example": HostFault.NOT_A_HOST,
    "a.example/path": HostFault.NOT_A_HOST,
    "user@a.example": HostFault.NOT_A_HOST,
    "a.example?q": HostFault.NOT_A_HOST,
    "a.example#f": HostFault.NOT_A_HOST,
    "a\\b.example": HostFault.NOT_A_HOST,
    "bücher.example": HostFault.NOT_ASCII,
    "ａ.example": HostFault.NOT_ASCII,
    "A.example": HostFault.UPPER_CASE,
    "2001:DB8::1": HostFault.UPPER_CASE,
    "*": HostFault.EVERY_HOST,
    "*.": HostFault.EVERY_HOST,
    "a.*.example": HostFault.WILDCARD_PLACE,
    "*a.example": HostFault.WILDCARD_PLACE,
    "**.example.com": HostFault.WILDCARD_PLACE,
    "*.*.example": HostFault.WILDCARD_PLACE,
    "a.example.*": HostFault.WILDCARD_PLACE,
    "*.com": HostFault.WILDCARD_TOO_WIDE,
    "*.localhost": HostFault.WILDCARD_TOO_WIDE,
    "*.10.0.0.5": HostFault.WILDCARD_ADDRESS,
    "*.0.0.5": HostFault.WILDCARD_ADDRESS,
    "*.::1": HostFault.WILDCARD_ADDRESS,
    "*.[::1]": HostFault.WILDCARD_ADDRESS,
    "a.example:443": HostFault.PORT,
    "10.0.0.5:80": HostFault.PORT,
    "[::1]:80": HostFault.PORT,
    "a.example:": HostFault.PORT,
    "a.example.": HostFault.TRAILING_DOT,
    "10.0.0.5.": HostFault.TRAILING_DOT,
    "2001:db8:0:0::1": HostFault.ADDRESS_FORM,
    "2001:0db8::1": HostFault.ADDRESS_FORM,
    "::ffff:a00:5": HostFault.ADDRESS_FORM,
    "::10.0.0.5": HostFault.ADDRESS_FORM,
    "fe80::1%eth0": HostFault.ADDRESS_FORM,
    "2001:db8::g": HostFault.ADDRESS_FORM,
    "[2001:db8::1": HostFault.ADDRESS_FORM,
    "10.0.0.05": HostFault.ADDRESS_FORM,
    "010.0.0.5": HostFault.ADDRESS_FORM,
    "10.0.5": HostFault.ADDRESS_FORM,
    "167772165": HostFault.ADDRESS_FORM,
    "0x0a000005": HostFault.ADDRESS_FORM,
    "0x7f.1": HostFault.ADDRESS_FORM,
    "127.0.0.0x1": HostFault.ADDRESS_FORM,
    "10.0.0.256": HostFault.ADDRESS_FORM,
    "a.example.7": HostFault.ADDRESS_FORM,
    "a..example": HostFault.LABEL,
    ".a.example": HostFault.LABEL,
    "-a.example": HostFault.LABEL,
    "a-.example": HostFault.LABEL,
    "a_b.example": HostFault.LABEL,
    f"{LABEL}a.example": HostFault.LABEL,
    f"{NAME_OF_253}a": HostFault.TOO_LONG,
    "a.example,b.example": HostFault.LABEL,
}


@pytest.mark.req("PLG-179", "PAINS-18")
@pytest.mark.parametrize(("entry", "canonical"), ACCEPTED.items(), ids=ascii)
def test_an_entry_in_its_canonical_form_is_accepted(entry: str, canonical: str) -> None:
    assert HostPattern.parse(entry).text == canonical


@pytest.mark.req("PLG-180", "PLG-181", "PAINS-18")
@pytest.mark.parametrize(("entry", "fault"), REFUSED.items(), ids=ascii)
def test_every_other_entry_is_refused_with_its_reason(entry: str, fault: HostFault) -> None:
    with pytest.raises(HostsInvalid) as caught:
        HostPattern.parse(entry)
    assert caught.value.faults == ((0, entry, fault),)
    assert fault.value in str(caught.value)


def test_every_reason_appears_in_the_table() -> None:
    assert set(REFUSED.values()) == set(HostFault)


def test_a_list_is_sorted_and_holds_each_entry_once() -> None:
    found = parse_hosts(["b.example", "[::1]", "a.example", "::1", "b.example"])
    assert [pattern.text for pattern in found] == ["::1", "a.example", "b.example"]


def test_one_bad_entry_fails_the_whole_list_and_every_bad_one_is_named() -> None:
    with pytest.raises(HostsInvalid) as caught:
        parse_hosts(["good.example", "*", "good.example:1"])
    assert [(index, fault) for index, _, fault in caught.value.faults] == [
        (1, HostFault.EVERY_HOST),
        (2, HostFault.PORT),
    ]
    assert str(caught.value).count("; ") >= 1


@pytest.mark.req("PLG-179")
@pytest.mark.parametrize(
    ("entry", "host", "matches"),
    [
        ("a.example", "a.example", True),
        ("a.example", "b.a.example", False),
        ("*.a.example", "a.example", False),
        ("*.a.example", ".a.example", False),
        ("*.a.example", "b.a.example", True),
        ("*.a.example", "c.b.a.example", True),
        ("*.a.example", "ba.example", False),
        ("*.a.example", "b.a.example.evil", False),
        ("10.0.0.5", "10.0.0.5", True),
        ("10.0.0.5", "10.0.0.50", False),
    ],
)
def test_a_wildcard_matches_the_names_below_and_not_the_name_itself(
    entry: str, host: str, matches: bool
) -> None:
    assert HostPattern.parse(entry).matches(host) is matches


@pytest.mark.parametrize(
    ("outer", "inner", "contains"),
    [
        ("a.example", "a.example", True),
        ("*.a.example", "b.a.example", True),
        ("*.a.example", "*.a.example", True),
        ("*.a.example", "*.b.a.example", True),
        ("*.b.a.example", "*.a.example", False),
        ("*.a.example", "a.example", False),
        ("*.a.example", "*.ba.example", False),
        ("b.a.example", "*.b.a.example", False),
        ("::1", "::1", True),
    ],
)
def test_an_entry_contains_what_it_means_at_least(outer: str, inner: str, contains: bool) -> None:
    assert HostPattern.parse(outer).contains(HostPattern.parse(inner)) is contains


@given(st.text() | st.text("a1-.*:[]x0", max_size=12) | st.ip_addresses().map(str))
def test_an_accepted_entry_is_accepted_again_as_it_was_written(entry: str) -> None:
    try:
        pattern = HostPattern.parse(entry)
    except HostsInvalid:
        return
    assert HostPattern.parse(pattern.text) == pattern
    assert pattern.text.isascii()
    assert pattern.contains(pattern)
    assert pattern.text.strip("*.")


@given(st.ip_addresses())
def test_every_address_has_one_accepted_form(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    text = str(address)
    mapped = getattr(address, "ipv4_mapped", None)
    assert HostPattern.parse(f"::ffff:{mapped}" if mapped else text).matches(
        f"::ffff:{mapped}" if mapped else text
    )


@given(
    st.lists(st.text("abc", min_size=1, max_size=2), min_size=2, max_size=4).map(".".join),
    st.text("ab.", max_size=6),
)
def test_what_one_entry_contains_another_one_matches_too(name: str, prefix: str) -> None:
    wide = HostPattern.parse(f"*.{name}")
    for narrow in (f"{prefix}.{name}", f"*.{prefix}.{name}"):
        try:
            pattern = HostPattern.parse(narrow)
        except HostsInvalid:
            continue
        assert wide.contains(pattern)
        host = pattern.text.replace("*", "x")
        assert pattern.matches(host)
        assert wide.matches(host)


@pytest.mark.parametrize("character", ["_", "\u202e", "\x1b", "'", "\ud800"])
def test_a_message_has_no_more_of_an_entry_than_one_may_be_long(character: str) -> None:
    for length, cut in ((253, ""), (254, "\u2026"), (65_536, "\u2026")):
        with pytest.raises(HostsInvalid) as caught:
            HostPattern.parse(character * length)
        assert str(caught.value).startswith(f"{character * 253!a}{cut} ")
