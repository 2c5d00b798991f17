"""The narrowest grant that would have sufficed for what an instance used."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from zeroclaw_daemon.network.usage import UsedDestination
from zeroclaw_host.egress.profiles import read_profiles
from zeroclaw_host.egress.source import EgressRow
from zeroclaw_host.package.hosts import HostPattern, HostsInvalid


@dataclass(frozen=True, slots=True)
class MinimalGrant:
    """Both lists of a row, sorted. Neither reaches anything that the row does not."""

    egress_hosts: tuple[str, ...]
    egress_allow_private: tuple[str, ...]


def minimal_grant(row: EgressRow, used: Iterable[UsedDestination]) -> MinimalGrant:
    """The least that the row could grant, and everything permitted that was used would pass all the same.

    What the row does not grant any more is left out. A TLS profile that was used keeps all its hosts, for it is of no use
    with less (PLG-359). An entry that was used for more hosts than are kept singly stays as it is.
    """
    permitted = [destination for destination in used if destination.outcome.permitted]
    profiles = read_profiles(row.tls_profiles, patterns(row.hosts))
    wanted = {_pattern(destination) for destination in permitted}
    private = {_pattern(destination) for destination in permitted if destination.private}
    for name, served in profiles.hosts.items():
        if any(
            destination.tls_profile == name and _overlap(_pattern(destination), served)
            for destination in permitted
        ):
            wanted |= set(served)
    return MinimalGrant(_least(row.hosts, wanted), _least(row.allow_private, private))


def _least(granted: Iterable[str], wanted: set[HostPattern]) -> tuple[str, ...]:
    """What of the granted entries is wanted: the smaller one of two that overlap, each once."""
    own = set(patterns(granted))
    needed = {pattern for pattern in wanted if any(entry.contains(pattern) for entry in own)}
    # A wildcard that is wanted stands for hosts nobody knows singly: what is granted below it may be among them.
    needed |= {entry for entry in own if any(pattern.contains(entry) for pattern in wanted)}
    return outermost(needed)


def _pattern(destination: UsedDestination) -> HostPattern:
    """The entry for just this destination. What was permitted is a host, or an entry that permitted several."""
    assert destination.host is not None, "what was permitted has a rule"
    return HostPattern(destination.host)


def _overlap(pattern: HostPattern, others: Iterable[HostPattern]) -> bool:
    return any(other.contains(pattern) or pattern.contains(other) for other in others)


def outermost(patterns: Collection[HostPattern]) -> tuple[str, ...]:
    """The entries that no other of them contains, sorted."""
    return tuple(
        sorted(
            pattern.text
            for pattern in patterns
            if not any(other != pattern and other.contains(pattern) for other in patterns)
        )
    )


def patterns(entries: Iterable[str]) -> Iterator[HostPattern]:
    """The entries that are any."""
    for entry in entries:
        with suppress(HostsInvalid):
            yield HostPattern.parse(entry)
