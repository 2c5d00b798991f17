"""What one plugin instance declares, is granted and really used of the network, side by side, and the grant that would do.

Pure: what is configured and what the ledger holds in, values out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from zeroclaw_daemon.config.egress_remedies import fit_remedies
from zeroclaw_daemon.config.egress_rows import egress_row, egress_settings, policy_of
from zeroclaw_daemon.config.egress_standing import EgressStanding, standing_of
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.network.minimal_grant import MinimalGrant, minimal_grant, outermost, patterns
from zeroclaw_daemon.network.usage import UsedDestination
from zeroclaw_host.egress.hosts import RequestHost, parse_request_host
from zeroclaw_host.egress.policy import EgressPolicy, PolicyField, PolicyInvalid
from zeroclaw_host.egress.remedies import to_set
from zeroclaw_host.egress.source import EgressRow
from zeroclaw_host.errors import Remedy
from zeroclaw_host.installation.rows import declaration_of
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.hosts import HostPattern
from zeroclaw_host.package.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """One line of the account: an entry that nothing used, or one use of one destination."""

    name: str
    """The entry, or the host with its port."""
    declared: str | None
    """The entry of the manifest that covers it."""
    granted: str | None
    """The entry in force that covers it."""
    private: bool
    """Whether it may have private addresses."""
    use: UsedDestination | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressAccount:
    """Everything about one instance.

    ``destinations`` holds what was used, then the entries nothing used, then what was refused. ``minimal`` is the least
    grant that would have sufficed where that is less than what is granted, and ``narrowing`` what sets it, in order.
    """

    standing: EgressStanding
    destinations: tuple[Destination, ...]
    minimal: MinimalGrant | None = None
    narrowing: tuple[Remedy, ...] = ()


def configured_account(
    snapshot: Snapshot,
    manifest: Manifest,
    identity: InstanceIdentity,
    used: tuple[UsedDestination, ...],
    *,
    outdated: bool,
) -> EgressAccount:
    """The account of an instance of a package as it is configured now, with steps that the file can take.

    :param outdated: whether the file has the layout of an earlier release.
    """
    entry = snapshot.config.plugins.entry(identity.key)
    row = EgressRow() if entry is None else egress_row(entry)
    try:
        policy = policy_of(identity, egress_settings(snapshot.config), row)
    except PolicyInvalid:
        policy = None
    standing = standing_of(
        identity, declaration_of(manifest, identity.capability), snapshot, outdated=outdated
    )
    account = account_of(standing, manifest.egress.hosts, row, policy, used)
    return replace(account, narrowing=fit_remedies(account.narrowing, identity, snapshot))


def account_of(
    standing: EgressStanding,
    declared: Iterable[str],
    row: EgressRow,
    policy: EgressPolicy | None,
    used: tuple[UsedDestination, ...],
) -> EgressAccount:
    """The account of an instance.

    :param declared: every destination of the manifest, whether or not the instance has a transport for it.
    :param row: what is granted, as it is written.
    :param policy: what is in force; None where every request is refused, and then nothing narrower is thought of.
    """
    entries = _Entries(tuple(map(HostPattern, declared)), policy)
    permitted = sorted((each for each in used if each.outcome.permitted), key=_order)
    refused = sorted((each for each in used if not each.outcome.permitted), key=_order)
    minimal = narrower_grant(row, policy, used) if policy is not None else None
    return EgressAccount(
        standing=standing,
        destinations=(
            *(entries.of_use(each) for each in permitted),
            *entries.unused(permitted),
            *(entries.of_use(each) for each in refused),
        ),
        minimal=minimal,
        narrowing=_narrowing(standing.identity, row, minimal),
    )


def narrower_grant(
    row: EgressRow, policy: EgressPolicy, used: Iterable[UsedDestination]
) -> MinimalGrant | None:
    """The least grant that would have sufficed, where it is less than the row grants and anything was used at all.

    Every profile keeps the hosts that it has, even where nothing named it yet: without one of them it would refuse every
    request that names it, or have one fault more (PLG-359).
    """
    used = tuple(used)
    if not any(each.outcome.permitted for each in used):
        return None
    least = minimal_grant(row, used)
    named = {entry for profile in row.tls_profiles for entry in profile.hosts}
    kept = {pattern for pattern in patterns(named) if policy.reaches(pattern)}
    found = MinimalGrant(
        outermost({*map(HostPattern, least.egress_hosts), *kept}), least.egress_allow_private
    )
    now = MinimalGrant(outermost({*policy.hosts}), outermost({*policy.allow_private}))
    return None if found == now else found


def _narrowing(
    identity: InstanceIdentity, row: EgressRow, minimal: MinimalGrant | None
) -> tuple[Remedy, ...]:
    """The lists that change. Carve-outs go first, so that the row is a policy between the two commands as well."""
    if minimal is None:
        return ()
    changes = (
        (PolicyField.ALLOW_PRIVATE, minimal.egress_allow_private, row.allow_private),
        (PolicyField.HOSTS, minimal.egress_hosts, row.hosts),
    )
    return tuple(to_set(field, identity, least) for field, least, now in changes if set(least) != set(now))


def _order(used: UsedDestination) -> tuple[str, int, str, str]:
    return used.host or "", used.port or 0, used.transport, used.outcome


class _Entries:
    """The entries that are declared, and those in force."""

    def __init__(self, declared: tuple[HostPattern, ...], policy: EgressPolicy | None) -> None:
        self._declared = declared
        self._granted = policy.hosts if policy is not None else ()
        self._private = policy.allow_private if policy is not None else ()

    def of_use(self, used: UsedDestination) -> Destination:
        """The line of something that was used, or refused."""
        if used.host is None:
            return Destination(name="others", declared=None, granted=None, private=False, use=used)
        if used.port is None:  # the uses of one entry together
            line = self._of_entry(HostPattern(used.host))
            return Destination(
                name=f"others of {used.host}",
                declared=line.declared,
                granted=line.granted,
                private=line.private,
                use=used,
            )
        host = parse_request_host(used.host)
        canonical = host.text if isinstance(host, RequestHost) else None
        return Destination(
            name=f"[{used.host}]:{used.port}" if ":" in used.host else f"{used.host}:{used.port}",
            declared=_matching(self._declared, canonical),
            granted=_matching(self._granted, canonical),
            private=_matching(self._private, canonical) is not None,
            use=used,
        )

    def unused(self, used: Iterable[UsedDestination]) -> Iterator[Destination]:
        """The entries that let nothing of this pass, sorted, each once."""
        hosts = [each.host for each in used if each.host is not None]
        canonical = [host.text for each in hosts if isinstance(host := parse_request_host(each), RequestHost)]
        for entry in sorted({*self._declared, *self._granted}, key=lambda entry: entry.text):
            if entry.text not in hosts and not any(entry.matches(host) for host in canonical):
                yield self._of_entry(entry)

    def _of_entry(self, entry: HostPattern) -> Destination:
        return Destination(
            name=entry.text,
            declared=_containing(self._declared, entry),
            granted=_containing(self._granted, entry),
            private=_containing(self._private, entry) is not None,
        )


def _matching(entries: Iterable[HostPattern], host: str | None) -> str | None:
    if host is None:
        return None
    return next((entry.text for entry in entries if entry.matches(host)), None)


def _containing(entries: Iterable[HostPattern], wanted: HostPattern) -> str | None:
    return next((entry.text for entry in entries if entry.contains(wanted)), None)
