"""What a configuration makes of the remedies of a refusal.

The network authority judges rows and knows none: to it an instance without a row is one that is granted nothing. A command
that sets a list finds only rows that are there (PLG-217), so what it says is fitted to the file before a person is told.
"""

from __future__ import annotations

from collections.abc import Iterable

from zeroclaw_daemon.config.egress_rows import egress_row
from zeroclaw_daemon.config.egress_standing import (
    alias_refusal,
    former_row,
    to_create_row,
    to_rename_row,
    to_rename_table,
)
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.schema import SCHEMA_VERSION
from zeroclaw_host.egress.policy import EgressPolicy, PolicyField, PolicyInvalid
from zeroclaw_host.egress.remedies import to_set
from zeroclaw_host.egress.source import EgressRow
from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.hosts import HostPattern


def fit_remedies(
    remedies: Iterable[Remedy], identity: InstanceIdentity, snapshot: Snapshot
) -> tuple[Remedy, ...]:
    """What to do about a refusal, all together and in this order, with the file as it is.

    A row that is missing is made with its grant (PLG-206); one that has the name of before 1.0 is renamed first, and keeps
    what it granted (PLG-216). Where the instance's alias can have no row, only its table can be renamed (PLG-211). A file of
    an earlier release is migrated before anything is written to it (PLG-368).

    :param remedies: what the network authority said of a request of this instance.
    """
    given = tuple(remedies)
    hosts = _wanted(given, PolicyField.HOSTS, identity)
    former = former_row(identity, snapshot.config)
    if not hosts or snapshot.config.plugins.entry(identity.key) is not None:
        fitted = given
    elif alias_refusal(identity) is not None:
        return (to_rename_table(identity, snapshot.path),)
    elif former is None:
        path = PolicyField.HOSTS.path(identity)
        others = (remedy for remedy in given if remedy.arguments.get("path") != path)
        fitted = (to_create_row(identity, hosts), *others)
    else:
        private = _wanted(given, PolicyField.ALLOW_PRIVATE, identity)
        granting = _granting(identity, egress_row(former), hosts, private)
        # A migration gives the row its name, unless an alias of the same name makes it doubtful whose it is.
        migrated = _is_outdated(snapshot) and identity.package not in snapshot.config.channels.plugin
        fitted = granting if migrated else (to_rename_row(identity, former, snapshot.path), *granting)
    return (Remedy(RemedyAction.MIGRATE_CONFIG), *fitted) if given and _is_outdated(snapshot) else fitted


def _is_outdated(snapshot: Snapshot) -> bool:
    """Whether the file, which was read, has an earlier layout: one that does not say has the first."""
    config = snapshot.config
    return snapshot.exists and (
        "schema_version" not in config.model_fields_set or config.schema_version < SCHEMA_VERSION
    )


def _wanted(remedies: Iterable[Remedy], field: PolicyField, identity: InstanceIdentity) -> tuple[str, ...]:
    """What one list of the row is to hold; empty where none of the remedies sets it."""
    path = field.path(identity)
    for remedy in remedies:
        if remedy.action is RemedyAction.SET_CONFIG and remedy.arguments.get("path") == path:
            return tuple(remedy.arguments.get("value", "").split(","))
    return ()


def _granting(
    identity: InstanceIdentity, row: EgressRow, hosts: Iterable[str], private: Iterable[str]
) -> tuple[Remedy, ...]:
    """What the lists of a row are to be, where they change: what is good of them, and what is wanted besides."""
    try:
        policy = EgressPolicy.of(row.hosts, row.allow_private)
    except PolicyInvalid as error:
        accepted, accepted_private = error.accepted, error.accepted_private
    else:
        accepted = tuple(entry.text for entry in policy.hosts)
        accepted_private = tuple(entry.text for entry in policy.allow_private)
    all_hosts = _with(accepted, hosts)
    granted = EgressPolicy.of(all_hosts)
    covered = [entry for entry in accepted_private if granted.reaches(HostPattern(entry))]
    changes = (
        (PolicyField.HOSTS, all_hosts, row.hosts),
        (PolicyField.ALLOW_PRIVATE, _with(covered, private), row.allow_private),
    )
    return tuple(to_set(field, identity, wanted) for field, wanted, now in changes if wanted != set(now))


def _with(entries: Iterable[str], wanted: Iterable[str]) -> set[str]:
    """The entries, and what is wanted and none of them covers."""
    patterns = tuple(map(HostPattern, entries))
    missing = (text for text in wanted if not any(entry.contains(HostPattern(text)) for entry in patterns))
    return {*(entry.text for entry in patterns), *missing}
