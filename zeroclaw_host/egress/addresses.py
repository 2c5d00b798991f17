"""What kind of address an address is: global, not global, or one that answers with a machine's credentials.

The tables are data, each row with the document that sets it apart. An IPv6 address is judged together with every IPv4
address it stands for, in whichever way it carries one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

from zeroclaw_host.egress.hosts import Address
from zeroclaw_host.egress.nat64 import WELL_KNOWN, Nat64Prefix


class AddressClass(Enum):
    """What may be done with an address."""

    GLOBAL = "global"
    """Anybody's on the internet: a granted host may have it."""
    PRIVATE = "private"
    """Not global: a granted host may have it only with a private carve-out."""
    METADATA = "metadata"
    """Where clouds hand out a machine's credentials: never."""


@dataclass(frozen=True, slots=True)
class Block:
    """A range of addresses with one class. ``first`` and ``last`` are numbers; ``source`` names the document."""

    text: str
    first: int
    last: int
    kind: AddressClass
    purpose: str
    source: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """The class of an address, and the block and form that decided it."""

    kind: AddressClass
    because: str


def _blocks(kind: AddressClass, rows: Sequence[tuple[str, str, str]]) -> tuple[Block, ...]:
    found: list[Block] = []
    for text, purpose, source in rows:
        network = ipaddress.ip_network(text)
        found.append(
            Block(text, int(network.network_address), int(network.broadcast_address), kind, purpose, source)
        )
    return tuple(found)


PRIVATE_IPV4: Final = _blocks(
    AddressClass.PRIVATE,
    [
        ("0.0.0.0/8", "this network", "RFC 791, section 3.2"),
        ("10.0.0.0/8", "private use", "RFC 1918"),
        ("100.64.0.0/10", "shared by a carrier's customers", "RFC 6598"),
        ("127.0.0.0/8", "loopback", "RFC 1122, section 3.2.1.3"),
        ("169.254.0.0/16", "link local", "RFC 3927"),
        ("172.16.0.0/12", "private use", "RFC 1918"),
        ("192.0.0.0/24", "protocol assignments", "RFC 6890"),
        ("192.0.2.0/24", "documentation", "RFC 5737"),
        ("192.88.99.0/24", "6to4 relays", "RFC 7526"),
        ("192.168.0.0/16", "private use", "RFC 1918"),
        ("198.18.0.0/15", "benchmarking", "RFC 2544"),
        ("198.51.100.0/24", "documentation", "RFC 5737"),
        ("203.0.113.0/24", "documentation", "RFC 5737"),
        ("224.0.0.0/4", "multicast", "RFC 5771"),
        ("240.0.0.0/4", "reserved, and the limited broadcast", "RFC 1112, section 4; RFC 919"),
    ],
)

GLOBAL_IPV6: Final = _blocks(
    AddressClass.GLOBAL,
    [
        ("2001:1::1/128", "port control anycast", "RFC 7723"),
        ("2001:1::2/128", "TURN anycast", "RFC 8155"),
        ("2001:1::3/128", "DNS-SD registration anycast", "RFC 9665"),
        ("2001:3::/32", "automatic multicast tunnelling", "RFC 7450"),
        ("2001:4:112::/48", "AS112", "RFC 7535"),
        ("2001:20::/27", "ORCHIDv2 and drone identifiers", "RFC 7343; RFC 9374"),
    ],
)
"""Global although they are inside a block of :data:`PRIVATE_IPV6`."""

PRIVATE_IPV6: Final = _blocks(
    AddressClass.PRIVATE,
    [
        ("2001::/23", "protocol assignments, Teredo among them", "RFC 2928; RFC 4380"),
        ("2001:db8::/32", "documentation", "RFC 3849"),
        ("2002::/16", "6to4", "RFC 3056"),
        ("3fff::/20", "documentation", "RFC 9637"),
    ],
)
"""Not global although they are inside ``2000::/3``, global unicast (RFC 4291). Everything outside that is not global:
unspecified, loopback, local, multicast and what nobody has assigned."""

METADATA_IPV4: Final = _blocks(
    AddressClass.METADATA,
    [
        ("169.254.0.0/16", "link local, where clouds serve metadata", "RFC 3927"),
        ("100.100.100.200/32", "Alibaba Cloud metadata", "RFC 6598"),
        ("168.63.129.16/32", "Azure host services", "vendor"),
    ],
)

METADATA_IPV6: Final = _blocks(
    AddressClass.METADATA,
    [
        ("fd00:ec2::/64", "Amazon EC2 metadata", "RFC 4193; vendor"),
        ("fd20:ce::254/128", "Google Cloud metadata", "RFC 4193; vendor"),
    ],
)

_UNICAST: Final = 0b001
"""The first three bits of global unicast, ``2000::/3``."""
_MAPPED: Final = 0xFFFF
_TEREDO: Final = 0x20010000
_SIX_TO_FOUR: Final = 0x2002
_IPV4: Final = 0xFFFFFFFF

_GLOBAL_ADDRESS: Final = Judgement(AddressClass.GLOBAL, "global unicast")


def judge_address(address: Address, nat64: Sequence[Nat64Prefix] = ()) -> Judgement:
    """The class of an address.

    An IPv6 address that a translator of this network turns into an IPv4 one has to pass as both.

    :param nat64: the network's own prefixes. The well-known one needs no mention; no other is guessed.
    """
    return _judge(int(address), isinstance(address, ipaddress.IPv4Address), tuple(nat64))


@lru_cache(maxsize=4096)
def _judge(number: int, is_ipv4: bool, nat64: tuple[Nat64Prefix, ...]) -> Judgement:
    """Kept, because the same few hosts have the same addresses at every request."""
    if is_ipv4:
        return _judge_ipv4(number)
    carried = list(embedded_addresses(number, nat64))
    for form, ipv4 in carried:
        if block := _find(METADATA_IPV4, ipv4):
            return _judged(block, form)
    if block := _find(METADATA_IPV6, number):
        return _judged(block)
    own = _judge_ipv6(number)
    if own.kind is AddressClass.GLOBAL:
        for form, ipv4 in carried:
            if block := _find(PRIVATE_IPV4, ipv4):
                return _judged(block, form)
    return own


def embedded_addresses(number: int, nat64: Sequence[Nat64Prefix] = ()) -> Iterator[tuple[str, int]]:
    """Every IPv4 address that an IPv6 one carries, as numbers, each with the form it is carried in."""
    high = number >> 32
    if high == _MAPPED:
        yield "IPv4-mapped (RFC 4291)", number & _IPV4
    elif high == 0:
        yield "IPv4-compatible (RFC 4291)", number & _IPV4
    elif number >> 112 == _SIX_TO_FOUR:
        yield "6to4 (RFC 3056)", number >> 80 & _IPV4
    elif number >> 96 == _TEREDO:
        yield "Teredo server (RFC 4380)", number >> 64 & _IPV4
        yield "Teredo client (RFC 4380)", ~number & _IPV4
    elif (ipv4 := WELL_KNOWN.embedded(number)) is not None:
        yield "NAT64 (RFC 6052)", ipv4
    for prefix in nat64:
        if (ipv4 := prefix.embedded(number)) is not None:
            yield f"NAT64 under {prefix}", ipv4


def _judge_ipv4(number: int) -> Judgement:
    block = _find(METADATA_IPV4, number) or _find(PRIVATE_IPV4, number)
    return _judged(block) if block else _GLOBAL_ADDRESS


def _judge_ipv6(number: int) -> Judgement:
    """The class of the address itself. A mapped one and one under the well-known prefix are what they carry."""
    if number >> 32 in (_MAPPED, WELL_KNOWN.base >> 32):
        return _GLOBAL_ADDRESS
    if number >> 125 != _UNICAST:
        return Judgement(AddressClass.PRIVATE, "outside 2000::/3 (RFC 4291)")
    block = _find(GLOBAL_IPV6, number) or _find(PRIVATE_IPV6, number)
    return _judged(block) if block else _GLOBAL_ADDRESS


def _find(blocks: Sequence[Block], number: int) -> Block | None:
    for block in blocks:
        if block.first <= number <= block.last:
            return block
    return None


def _judged(block: Block, form: str = "") -> Judgement:
    inside = f" as {form}" if form else ""
    return Judgement(block.kind, f"{block.text} {block.purpose} ({block.source}){inside}")
