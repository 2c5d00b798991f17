"""The host that a request names, read by the same grammar as the entries of a grant.

A grant is written by a person and has one form; a request comes from a program and may have the harmless others: letters
of either case, one final dot, IPv6 in any spelling, with or without brackets. Everything else that one reader could take
for another host than the next one does (numbers that stand for an IPv4 address, zones, escapes, look-alikes that are not
ASCII) is no host here.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from zeroclaw_host.package.hosts import MAX_NAME_LENGTH, HostFault, address_text, canonical_host

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_LONGEST: Final = MAX_NAME_LENGTH + 1
"""A name and its final dot. Nothing longer is looked at."""

MAX_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class RequestHost:
    """A host in the form that grants are compared with. ``address`` is set where the host is an address itself."""

    text: str
    address: Address | None = None

    @property
    def is_local_name(self) -> bool:
        """Whether the name means this machine or its link by definition (RFC 6761 ``localhost``, RFC 6762 ``local``)."""
        return self.text.rpartition(".")[2] in ("localhost", "local")


def parse_request_host(text: str) -> RequestHost | HostFault:
    """Read the host of a request, or say why it is none."""
    return HostFault.TOO_LONG if len(text) > _LONGEST else _parse(text)


@lru_cache(maxsize=1024)
def _parse(text: str) -> RequestHost | HostFault:
    """Kept, because a plugin asks for the same few hosts again and again."""
    if not text.isascii():
        return HostFault.NOT_ASCII
    text = text.lower()
    if ":" in text:
        return _parse_ipv6(text)
    if len(text) > 1:
        text = text.removesuffix(".")
    found = canonical_host(text)
    if isinstance(found, HostFault):
        return found
    # A canonical host that ends with a digit and parses is an address: the grammar lets no other number end a name.
    return RequestHost(found, ipaddress.IPv4Address(found) if _ends_with_number(found) else None)


def _ends_with_number(host: str) -> bool:
    return host.rpartition(".")[2].isdecimal()


def _parse_ipv6(text: str) -> RequestHost | HostFault:
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        address = ipaddress.IPv6Address(bare)
    except ValueError:
        found = canonical_host(text)
        return found if isinstance(found, HostFault) else HostFault.ADDRESS_FORM
    if address.scope_id is not None:
        return HostFault.ADDRESS_FORM
    return RequestHost(address_text(address), address)
