"""``zeroclaw plugin egress``: what a plugin declares, is granted and really used of the network, side by side."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from zeroclaw_daemon.cli.completing import complete_package
from zeroclaw_daemon.cli.egress_view import refusal_json, warn_egress
from zeroclaw_daemon.cli.environment import Environment, JsonOption, environment, usable_snapshot
from zeroclaw_daemon.cli.output import say, say_json, table, warn
from zeroclaw_daemon.cli.remedies import Place, advice_lines, advise, remedy_json
from zeroclaw_host.errors import Kind
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zeroclaw_daemon.config.egress_standing import DeploymentRefused
    from zeroclaw_daemon.config.file import Snapshot
    from zeroclaw_daemon.network.account import Destination, EgressAccount
    from zeroclaw_daemon.network.usage import UsedDestination
    from zeroclaw_daemon.network.usage_file import UsageUnavailable
    from zeroclaw_host.package.manifest import Manifest

_FIELDS: Final = (
    *("INSTANCE", "DESTINATION", "DECLARED", "GRANTED", "VIA", "OUTCOME", "TIMES"),
    *("SENT", "RECEIVED", "LAST", "ADDRESSES"),
)


def egress(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The package's name, as `plugin list` shows it.",
            autocompletion=complete_package,
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Show what each instance of a package declares, is granted and really used of the network.

    A manifest declares destinations, the row of an instance grants them (egress_hosts), and only what is granted is reached.
    DECLARED and GRANTED name the entry that covers a destination, or say yes where it is that entry itself; `private` says
    that egress_allow_private covers it as well. USED is what became of the requests: opened, failed (the destination did not
    do its part), limited (all connections of the instance were taken), or refused, with the reason. Bytes are those of
    connections that ended; addresses those that were connected to last.

    In a pipe, each line has the instance, the destination, declared, granted, transport, outcome, requests, bytes sent, bytes
    received, the last moment in UTC and the addresses, separated by tabs.

    Where less than what is granted would have sufficed for all that was used, the commands that grant just that are printed.
    They keep what TLS profiles need. A plugin that has not done everything yet may need more later.

    The daemon keeps the account, also of earlier runs; it need not be running. The exit status is 7 when it cannot be read.
    """
    from zeroclaw_daemon.config.egress_standing import deployment_refusal
    from zeroclaw_daemon.network.usage_file import UsageUnavailable
    from zeroclaw_daemon.plugins import installed

    current = environment(context)
    current.json = as_json
    snapshot = usable_snapshot(current)
    manifest = installed(snapshot, current.paths).get(name).manifest
    try:
        accounts = tuple(_accounts(current, snapshot, manifest))
        unavailable = None
    except UsageUnavailable as error:
        accounts, unavailable = tuple(_accounts(current, snapshot, manifest, read=False)), error
    refusal = deployment_refusal(snapshot.config)
    if as_json:
        told: dict[str, object] = {
            "package": manifest.name,
            "usage_known": unavailable is None,
            "usage_fault": None if unavailable is None else _fault_json(unavailable, current.place),
            "refusal": refusal_json(refusal, current.place),
            "instances": [
                _account_json(account, current.place, alone=refusal is None) for account in accounts
            ],
        }
        say_json(told)
    else:
        _say(manifest.name, accounts, refusal, current.place, known=unavailable is None)
    if unavailable is not None:
        _warn_unknown(unavailable, current.place)
        raise typer.Exit(Kind.UNAVAILABLE.value)


def _accounts(
    current: Environment, snapshot: Snapshot, manifest: Manifest, *, read: bool = True
) -> Iterable[EgressAccount]:
    """The account of each instance of the package: its tool, its bound channels, and whoever has a row.

    :param read: whether what was used is looked up.
    :raises UsageUnavailable: it cannot be.
    """
    from zeroclaw_daemon.config.instances import instances
    from zeroclaw_daemon.network.account import configured_account
    from zeroclaw_daemon.network.usage_file import read_usage

    outdated = current.config_store.is_outdated()
    for identity in instances(manifest, snapshot.config):
        used = read_usage(Path(current.paths.usage_file), identity) if read else ()
        yield configured_account(snapshot, manifest, identity, used, outdated=outdated)


def _say(
    package: str,
    accounts: tuple[EgressAccount, ...],
    refusal: DeploymentRefused | None,
    place: Place,
    *,
    known: bool,
) -> None:
    """The table, what is wrong, and what would have sufficed.

    :param known: whether what was used could be read.
    """
    from zeroclaw_daemon.network.report import EgressReport

    if not accounts:
        say(f"there is no instance of {visible(package)}: it has no tool, and no alias is bound to it")
    elif not any(account.destinations for account in accounts):
        say(
            f"{visible(package)} declares no destination{', is granted none, and used none' if known else ', and is granted none'}"
        )
    elif sys.stdout.isatty():
        for account in accounts:
            _draw(account, known=known)
    else:
        lines = [_cells(a.standing.label, each, known=known) for a in accounts for each in a.destinations]
        table(_FIELDS, lines)
    standings = () if refusal is not None else tuple(account.standing for account in accounts)
    warn_egress(EgressReport(refusal, standings), place)
    for account in accounts:
        if account.narrowing and refusal is None:
            say(visible(f"{account.standing.label}: less would have sufficed for all that it used."))
            for line in advice_lines([advise(remedy, place) for remedy in account.narrowing], "  "):
                say(line)


def _warn_unknown(error: UsageUnavailable, place: Place) -> None:
    warn(f"what was used is not known: {error.message}")
    for line in advice_lines([advise(remedy, place) for remedy in error.remedies], "  "):
        print(line, file=sys.stderr)


def _fault_json(error: UsageUnavailable, place: Place) -> dict[str, object]:
    steps = [remedy_json(remedy, place) for remedy in error.remedies]
    return {"message": error.message, "details": dict(error.details), "steps": steps}


def _draw(account: EgressAccount, *, known: bool) -> None:
    """One instance on a terminal, where eleven columns would have no room."""
    say(visible(account.standing.label))
    rows = [(*_granting(each), _use_words(each.use, known=known)) for each in account.destinations]
    table(("DESTINATION", "DECLARED", "GRANTED", "USED"), rows)
    say()


def _use_words(use: UsedDestination | None, *, known: bool) -> str:
    if use is None:
        return _unused_word(known=known)
    outcome = use.outcome.value if use.reason is None else f"{use.outcome.value}: {use.reason}"
    words = [f"{outcome}, {use.count} {'time' if use.count == 1 else 'times'} by {use.transport}"]
    if use.bytes_sent or use.bytes_received:
        words.append(f"{use.bytes_sent} bytes sent, {use.bytes_received} received")
    words.append(f"last {use.last:%Y-%m-%d %H:%M} UTC")
    if use.addresses:
        words.append(f"at {', '.join(use.addresses)}")
    return "; ".join(words)


def _unused_word(*, known: bool) -> str:
    return "not used" if known else "not known"


def _granting(destination: Destination) -> tuple[str, str, str]:
    granted = _covered(destination.name, destination.granted)
    return (
        destination.name,
        _covered(destination.name, destination.declared),
        f"{granted}, private" if destination.private else granted,
    )


def _cells(label: str, destination: Destination, *, known: bool) -> tuple[str, ...]:
    """The fields of one line for other programs."""
    use, start = destination.use, (label, *_granting(destination))
    if use is None:
        return (*start, "", _unused_word(known=known), "", "", "", "", "")
    return (
        *start,
        use.transport,
        use.outcome.value if use.reason is None else f"{use.outcome.value}: {use.reason}",
        str(use.count),
        str(use.bytes_sent),
        str(use.bytes_received),
        f"{use.last:%Y-%m-%d %H:%M:%S}",
        ", ".join(use.addresses),
    )


def _covered(name: str, entry: str | None) -> str:
    """Whether a destination is covered, and by which entry where that is another text."""
    if entry is None:
        return "no"
    return (
        "yes"
        if name in (entry, f"others of {entry}") or name.startswith((f"{entry}:", f"[{entry}]:"))
        else entry
    )


def _account_json(account: EgressAccount, place: Place, *, alone: bool) -> dict[str, object]:
    """One instance; nothing about it is advised while the whole deployment is refused."""
    standing = account.standing
    return {
        "key": standing.identity.key,
        "label": standing.label,
        "capability": standing.identity.capability.value,
        "binding": standing.identity.binding,
        "declared": list(standing.declared),
        "granted": list(standing.granted),
        "messages": list(standing.verdict) if alone else [],
        "steps": [remedy_json(step, place) for step in standing.steps] if alone else [],
        "destinations": [_destination_json(each) for each in account.destinations],
        "minimal_grant": None if account.minimal is None else asdict(account.minimal),
        "narrowing": [remedy_json(step, place) for step in account.narrowing] if alone else [],
    }


def _destination_json(destination: Destination) -> dict[str, object]:
    use = destination.use
    return {
        "destination": destination.name,
        "declared_by": destination.declared,
        "granted_by": destination.granted,
        "private": destination.private,
        "use": None
        if use is None
        else {
            "transport": use.transport,
            "host": use.host,
            "port": use.port,
            "tls_profile": use.tls_profile,
            "outcome": use.outcome.value,
            "reason": use.reason,
            "count": use.count,
            "bytes_sent": use.bytes_sent,
            "bytes_received": use.bytes_received,
            "addresses": list(use.addresses),
            "first": use.first.isoformat(),
            "last": use.last.isoformat(),
        },
    }
