"""TLS profiles of an instance: which certificates are trusted and presented for which of its hosts.

A profile selects certificates and grants nothing (PLG-359). It holds names of secrets; their texts are read when a
connection is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from zeroclaw_host.package.hosts import HostPattern, HostsInvalid, parse_hosts

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class TlsProfile:
    """One profile as it is configured. Nothing is checked yet: :func:`read_profiles` does."""

    name: str
    hosts: tuple[str, ...]
    system_roots: bool = True
    custom_ca_secret: str | None = None
    client_certificate_secret: str | None = None
    client_private_key_secret: str | None = None

    @property
    def secret_names(self) -> frozenset[str]:
        """The secrets that only the host may read, because this profile names them (PLG-361)."""
        named = (self.custom_ca_secret, self.client_certificate_secret, self.client_private_key_secret)
        return frozenset(name for name in named if name is not None)


@dataclass(frozen=True, slots=True)
class Profiles:
    """The profiles of one instance: those that can be used, and what is wrong with each of the others."""

    usable: Mapping[str, TlsProfile] = field(default_factory=dict[str, TlsProfile])
    hosts: Mapping[str, tuple[HostPattern, ...]] = field(default_factory=dict[str, tuple[HostPattern, ...]])
    faults: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    rows: tuple[TlsProfile, ...] = ()

    def serves(self, name: str, host: str) -> bool:
        """Whether this profile can be used, and is for this canonical host."""
        return any(pattern.matches(host) for pattern in self.hosts.get(name, ()))


def read_profiles(rows: Iterable[TlsProfile], granted: Iterable[HostPattern]) -> Profiles:
    """Check an instance's profiles against what it is granted.

    A fault concerns its own profile: requests that do not name it go on. Of two profiles with one name, neither can be
    used.
    """
    patterns = tuple(granted)
    rows = tuple(rows)
    usable: dict[str, TlsProfile] = {}
    hosts: dict[str, tuple[HostPattern, ...]] = {}
    faults: dict[str, tuple[str, ...]] = {}
    seen: set[str] = set()
    for row in rows:
        found = list(_own_faults(row))
        own: tuple[HostPattern, ...] = ()
        try:
            own = parse_hosts(row.hosts)
        except HostsInvalid as error:
            found.append(f"hosts: {error}")
        for host in own:
            if not any(pattern.contains(host) for pattern in patterns):
                found.append(f"hosts: {host.text!a} is not granted by egress_hosts")
        if row.name in seen:
            found.append("another profile has the same name")
        seen.add(row.name)
        if found or row.name in faults:
            usable.pop(row.name, None)
            hosts.pop(row.name, None)
            faults[row.name] = (*faults.get(row.name, ()), *found)
        else:
            usable[row.name], hosts[row.name] = row, own
    return Profiles(usable, hosts, faults, rows)


def _own_faults(row: TlsProfile) -> Iterable[str]:
    if not _NAME.fullmatch(row.name):
        yield "name: must have 1 to 64 of a-z, 0-9, _ and -, the first a letter or digit"
    if not row.hosts:
        yield "hosts: is empty"
    if not row.system_roots and row.custom_ca_secret is None:
        yield "system_roots: is false, and custom_ca_secret names no other authority"
    if (row.client_certificate_secret is None) is not (row.client_private_key_secret is None):
        yield "client_certificate_secret and client_private_key_secret: one is of no use without the other"
