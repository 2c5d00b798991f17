"""IPv4 addresses inside IPv6 addresses, as translators write and read them (RFC 6052)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

PREFIX_LENGTHS: Final = (32, 40, 48, 56, 64, 96)
"""The lengths RFC 6052, section 2.2, has a layout for."""

_U_OCTET: Final = 8
_LENGTH: Final = re.compile(r"[1-9][0-9]?")


class Nat64Invalid(ValueError):
    """Texts that are no prefixes. ``faults`` holds the index, the text and the reason of each."""

    def __init__(self, faults: tuple[tuple[int, str, str], ...]) -> None:
        self.faults = faults
        super().__init__("; ".join(f"{text!a} {reason}" for _, text, reason in faults))


@dataclass(frozen=True, slots=True, order=True)
class Nat64Prefix:
    """One prefix, under which a translator embeds IPv4 addresses."""

    base: int
    length: int

    @classmethod
    def parse(cls, text: str) -> Nat64Prefix:
        """Read ``<ipv6>/<length>``.

        :raises Nat64Invalid: it is something else, or bits beyond the length are set.
        """
        found = _judge(text)
        if isinstance(found, str):
            raise Nat64Invalid(((0, text, found),))
        return found

    def embedded(self, address: int) -> int | None:
        """The IPv4 address in an IPv6 one, both as numbers; None for an address outside the prefix.

        Octet 8 holds no part of it and its value is ignored (RFC 6052, section 2.2).
        """
        if (address ^ self.base) >> (128 - self.length):
            return None
        octets = address.to_bytes(16, "big")
        places = (place for place in range(self.length // 8, 16) if place != _U_OCTET)
        return int.from_bytes(bytes(octets[place] for place, _ in zip(places, range(4), strict=False)), "big")

    def embed(self, ipv4: int) -> int:
        """The IPv6 address that stands for an IPv4 one, both as numbers."""
        octets = bytearray(self.base.to_bytes(16, "big"))
        places = (place for place in range(self.length // 8, 16) if place != _U_OCTET)
        for place, octet in zip(places, ipv4.to_bytes(4, "big"), strict=False):
            octets[place] = octet
        return int.from_bytes(octets, "big")

    def __str__(self) -> str:
        return f"{ipaddress.IPv6Address(self.base)}/{self.length}"


WELL_KNOWN: Final = Nat64Prefix(int(ipaddress.IPv6Address("64:ff9b::")), 96)
"""The prefix of RFC 6052, section 2.1, that needs no configuration."""


def parse_prefixes(texts: Iterable[str]) -> tuple[Nat64Prefix, ...]:
    """Read a list of prefixes; the result is sorted and holds each once.

    :raises Nat64Invalid: one text or more is none; all are named, and nothing of the list counts.
    """
    found: set[Nat64Prefix] = set()
    faults: list[tuple[int, str, str]] = []
    for index, text in enumerate(texts):
        judged = _judge(text)
        if isinstance(judged, str):
            faults.append((index, text, judged))
        else:
            found.add(judged)
    if faults:
        raise Nat64Invalid(tuple(faults))
    return tuple(sorted(found))


def _judge(text: str) -> Nat64Prefix | str:
    address, slash, length = text.partition("/")
    if not slash or not _LENGTH.fullmatch(length):
        return "is not of the form <ipv6>/<length>"
    if int(length) not in PREFIX_LENGTHS:
        return f"has none of the lengths {', '.join(map(str, PREFIX_LENGTHS))}"
    try:
        parsed = ipaddress.IPv6Address(address)
    except ValueError:
        return "does not start with an IPv6 address"
    if parsed.scope_id is not None:
        return "names a zone"
    base = int(parsed)
    if base & ((1 << (128 - int(length))) - 1):
        return "has bits set beyond its length"
    return Nat64Prefix(base, int(length))
