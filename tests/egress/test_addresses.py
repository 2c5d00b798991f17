"""Classes of addresses, and every way an IPv6 address carries an IPv4 one."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from itertools import pairwise

import destinations
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zeroclaw_host.egress import addresses
from zeroclaw_host.egress.addresses import AddressClass, judge_address
from zeroclaw_host.egress.nat64 import PREFIX_LENGTHS, Nat64Prefix

IPv4 = ipaddress.IPv4Address
IPv6 = ipaddress.IPv6Address

blocks = [*addresses.PRIVATE_IPV4, *addresses.METADATA_IPV4]
refused_ipv4 = st.sampled_from(blocks).flatmap(lambda block: st.integers(block.first, block.last)).map(IPv4)
metadata_ipv4 = (
    st.sampled_from(addresses.METADATA_IPV4).flatmap(lambda b: st.integers(b.first, b.last)).map(IPv4)
)
EMBEDDINGS: dict[str, Callable[[str], str]] = {
    "mapped": destinations.mapped,
    "compatible": destinations.compatible,
    "6to4": destinations.six_to_four,
    "NAT64": destinations.well_known,
    "Teredo client": destinations.teredo_client,
    "Teredo server": destinations.teredo_server,
}


@st.composite
def own_prefixes(draw: st.DrawFn) -> Nat64Prefix:
    length = draw(st.sampled_from(PREFIX_LENGTHS))
    inside = draw(st.integers(0x2000 << 112, (0x4000 << 112) - 1) | st.integers(0, 2**128 - 1))
    return Nat64Prefix(inside >> (128 - length) << (128 - length), length)


@pytest.mark.req("PLG-183", "PAINS-16")
@pytest.mark.parametrize("form", EMBEDDINGS)
@given(ipv4=refused_ipv4)
def test_an_address_that_carries_a_refused_one_is_not_global(form: str, ipv4: IPv4) -> None:
    found = judge_address(IPv6(EMBEDDINGS[form](str(ipv4))))
    assert found.kind is not AddressClass.GLOBAL


@pytest.mark.req("PLG-183", "PAINS-16")
@pytest.mark.parametrize("form", EMBEDDINGS)
@given(ipv4=metadata_ipv4)
def test_an_address_that_carries_a_metadata_one_is_one(form: str, ipv4: IPv4) -> None:
    found = judge_address(IPv6(EMBEDDINGS[form](str(ipv4))))
    assert found.kind is AddressClass.METADATA
    assert "RFC" in found.because


@pytest.mark.req("PLG-183", "PAINS-16")
@given(own_prefixes(), refused_ipv4, st.integers(0, 255), st.lists(own_prefixes(), max_size=3))
def test_an_address_under_an_own_prefix_is_judged_by_what_it_carries(
    prefix: Nat64Prefix, ipv4: IPv4, u_octet: int, others: list[Nat64Prefix]
) -> None:
    number = prefix.embed(int(ipv4))
    if prefix.length <= 64:
        number = number & ~(0xFF << 56) | u_octet << 56
    found = judge_address(IPv6(number), [*others, prefix])
    assert found.kind is not AddressClass.GLOBAL
    if judge_address(ipv4).kind is AddressClass.METADATA:
        assert found.kind is AddressClass.METADATA


@given(st.ip_addresses(v=6), st.lists(own_prefixes(), max_size=3))
def test_a_prefix_never_makes_an_address_better(address: IPv6, prefixes: list[Nat64Prefix]) -> None:
    order = list(AddressClass)
    assert order.index(judge_address(address, prefixes).kind) >= order.index(judge_address(address).kind)


@given(st.ip_addresses(v=4))
@example(IPv4("192.0.0.9"))
@example(IPv4("192.88.99.1"))
def test_an_ipv4_address_is_global_only_where_the_standard_library_agrees(address: IPv4) -> None:
    found = judge_address(address)
    if found.kind is AddressClass.GLOBAL:
        assert address.is_global
        assert not address.is_multicast
    elif address.is_global and not address.is_multicast:
        # Set apart here and not there: two anycast addresses, relays that are gone, and a cloud's own.
        assert any(block in found.because for block in ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16"))


@given(st.ip_addresses(v=6))
def test_an_ipv6_address_is_global_only_inside_global_unicast_or_as_an_ipv4_one(address: IPv6) -> None:
    if judge_address(address).kind is AddressClass.GLOBAL:
        carried = list(addresses.embedded_addresses(int(address)))
        assert address in ipaddress.IPv6Network("2000::/3") or carried
        assert all(judge_address(IPv4(number)).kind is AddressClass.GLOBAL for _, number in carried)


@pytest.mark.parametrize(
    ("form", "carried"),
    [
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", ["65.54.227.120", "192.0.2.45"]),  # RFC 4380, section 4
        ("2002:c000:204::1", ["192.0.2.4"]),
        ("64:ff9b::192.0.2.33", ["192.0.2.33"]),
        ("64:ff9b:0:0:0:1:c000:221", []),
        ("::ffff:192.0.2.33", ["192.0.2.33"]),
        ("::192.0.2.33", ["192.0.2.33"]),
        ("2606:4700::1", []),
    ],
)
def test_the_addresses_that_documents_give_as_examples_are_read(form: str, carried: list[str]) -> None:
    found = [str(IPv4(number)) for _, number in addresses.embedded_addresses(int(IPv6(form)))]
    assert found == carried


def test_every_block_names_a_document_and_overlaps_no_other_of_its_table() -> None:
    for table in (
        addresses.PRIVATE_IPV4,
        addresses.GLOBAL_IPV6,
        addresses.PRIVATE_IPV6,
        addresses.METADATA_IPV4,
        addresses.METADATA_IPV6,
    ):
        ordered = sorted(table, key=lambda block: block.first)
        assert all(a.last < b.first for a, b in pairwise(ordered))
        assert all(block.source and block.purpose and block.first <= block.last for block in table)
