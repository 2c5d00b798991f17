"""The grammar of a network destination in a manifest or a grant.

An entry is one exact host (``api.example.com``, ``10.0.0.5``, ``2001:db8::1``) or ``*.`` before a name of at least two
labels, which stands for every name below it and not for the name itself (PLG-179). Ports are not part of an entry
(PLG-180), and nothing stands for every host (PLG-181). An entry must be written in its one canonical form, so that two
readers never disagree about what it grants.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_NAME_LENGTH: Final = 253
"""Characters in a DNS name (RFC 1035, without the final dot)."""
MAX_LABEL_LENGTH: Final = 63

WILDCARD: Final = "*."
_FORBIDDEN: Final = "/@?#\\"
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_WITH_PORT: Final = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]+):[^:]*")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PLAIN: Final = re.compile(r"[a-z0-9.-]+")


class HostFault(StrEnum):
    """Why an entry is refused."""

    EMPTY = "is empty"
    WHITESPACE = "contains whitespace or a control character"
    NOT_A_HOST = "is a URL or path; write the host alone"
    NOT_ASCII = "is not ASCII; write an international name in its xn-- form"
    UPPER_CASE = "has upper-case letters; write it in lower case"
    EVERY_HOST = "would stand for every host; name the hosts"
    WILDCARD_PLACE = "may use * only as the whole first label, as in *.example.com"
    WILDCARD_ADDRESS = "puts a wildcard before an address"
    WILDCARD_TOO_WIDE = "needs at least two labels after the wildcard"
    PORT = "names a port; a host is granted on all its ports"
    TRAILING_DOT = "ends with a dot"
    ADDRESS_FORM = "is an address that is not in its canonical form"
    LABEL = "has a label that is empty, longer than 63 characters, or not made of letters, digits and inner hyphens"
    TOO_LONG = "is longer than 253 characters"


class HostsInvalid(ValueError):
    """Entries that break the grammar. ``faults`` holds the index, the entry and the reason of each."""

    def __init__(self, faults: tuple[tuple[int, str, HostFault], ...]) -> None:
        self.faults = faults
        super().__init__("; ".join(f"{quoted(entry)} {fault.value}" for _, entry, fault in faults))


def quoted(entry: str) -> str:
    """An entry as messages show it: in quotes, with escapes, and only the beginning of one that is longer than any may be."""
    return ascii(entry) if len(entry) <= MAX_NAME_LENGTH else f"{entry[:MAX_NAME_LENGTH]!a}…"


@dataclass(frozen=True, slots=True, order=True)
class HostPattern:
    """One entry in canonical form: an exact host, or a wildcard."""

    text: str

    @classmethod
    def parse(cls, entry: str) -> HostPattern:
        """Read one entry.

        :raises HostsInvalid: the entry breaks the grammar.
        """
        found = _judge(entry)
        if isinstance(found, HostFault):
            raise HostsInvalid(((0, entry, found),))
        return cls(found)

    @property
    def is_wildcard(self) -> bool:
        """Whether it stands for the names below a name."""
        return self.text.startswith(WILDCARD)

    def matches(self, host: str) -> bool:
        """Whether a canonical host (lower case, no final dot, address in canonical form) is meant by this entry."""
        if not self.is_wildcard:
            return host == self.text
        return host.endswith(self.text[1:]) and len(host) >= len(self.text) and not _is_address(host)

    def contains(self, other: HostPattern) -> bool:
        """Whether this entry means at least every host that the other one means."""
        if other.is_wildcard:
            return self.is_wildcard and (other == self or other.text[1:].endswith(self.text[1:]))
        return self.matches(other.text)


def parse_hosts(entries: Iterable[str]) -> tuple[HostPattern, ...]:
    """Read a list of entries; the result is sorted and holds each once.

    :raises HostsInvalid: one entry or more break the grammar; all are named.
    """
    patterns: set[HostPattern] = set()
    faults: list[tuple[int, str, HostFault]] = []
    for index, entry in enumerate(entries):
        found = _judge(entry)
        if isinstance(found, HostFault):
            faults.append((index, entry, found))
        else:
            patterns.add(HostPattern(found))
    if faults:
        raise HostsInvalid(tuple(faults))
    return tuple(sorted(patterns))


def canonical_host(text: str) -> str | HostFault:
    """The canonical text of one exact host, or why it has none. A wildcard is no host."""
    return _judge_characters(text) or _judge_name(text)


def address_text(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """The one form in which an address is an entry."""
    return str(address) if isinstance(address, ipaddress.IPv4Address) else _canonical_ipv6(address)


def _judge(entry: str) -> str | HostFault:
    """The canonical text of an entry, or why it has none."""
    if fault := _judge_characters(entry):
        return fault
    if entry in ("*", WILDCARD):
        return HostFault.EVERY_HOST
    name = entry.removeprefix(WILDCARD)
    found = _judge_name(name)
    if name == entry:
        return found
    if _NUMBER.fullmatch(name.rpartition(".")[2]) or (":" in name and not isinstance(found, HostFault)):
        return HostFault.WILDCARD_ADDRESS
    if isinstance(found, HostFault):
        return found
    return entry if "." in name else HostFault.WILDCARD_TOO_WIDE


def _judge_name(name: str) -> str | HostFault:
    """The canonical text of one exact host."""
    if "*" in name:
        return HostFault.WILDCARD_PLACE
    if ":" in name or "[" in name or "]" in name:
        return _judge_ipv6(name)
    if name.endswith("."):
        return HostFault.TRAILING_DOT
    labels = name.split(".")
    # A name whose last label is a number is an address to every URL parser, whatever its other labels are.
    if _NUMBER.fullmatch(labels[-1]):
        return name if _is_address(name) else HostFault.ADDRESS_FORM
    if any(len(label) > MAX_LABEL_LENGTH or not _LABEL.fullmatch(label) for label in labels):
        return HostFault.LABEL
    return HostFault.TOO_LONG if len(name) > MAX_NAME_LENGTH else name


def _judge_characters(entry: str) -> HostFault | None:
    if _PLAIN.fullmatch(entry):
        return None  # what nearly every host is, and every request asks
    if not entry:
        return HostFault.EMPTY
    if any(char.isspace() or ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in entry):
        return HostFault.WHITESPACE
    if any(char in _FORBIDDEN for char in entry):
        return HostFault.NOT_A_HOST
    if not entry.isascii():
        return HostFault.NOT_ASCII
    if entry != entry.lower():
        return HostFault.UPPER_CASE
    return None


def _judge_ipv6(name: str) -> str | HostFault:
    bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    try:
        address = ipaddress.IPv6Address(bare)
    except ValueError:
        return HostFault.PORT if _WITH_PORT.fullmatch(name) else HostFault.ADDRESS_FORM
    # A zone names an interface of one machine; no list of destinations can mean it.
    if address.scope_id is not None or bare != _canonical_ipv6(address):
        return HostFault.ADDRESS_FORM
    return bare


def _canonical_ipv6(address: ipaddress.IPv6Address) -> str:
    """RFC 5952, section 5: an IPv4-mapped address keeps its dotted form. Python prints it so only since 3.13."""
    if (mapped := address.ipv4_mapped) is not None:
        return f"::ffff:{mapped}"
    return address.compressed


def _is_address(host: str) -> bool:
    if ":" not in host and not _NUMBER.fullmatch(host.rpartition(".")[2]):
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
