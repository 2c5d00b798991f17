"""``zeroclaw plugin bind``: give a package's channel an alias, under which it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zeroclaw_daemon.cli.completing import complete_package
from zeroclaw_daemon.cli.egress_view import egress_json, report_of, say_egress, say_seeded
from zeroclaw_daemon.cli.environment import Environment, JsonOption, environment, usable_snapshot
from zeroclaw_daemon.cli.output import say, say_json
from zeroclaw_daemon.cli.remedies import Place
from zeroclaw_host.errors import Remedy, RemedyAction, UsageError, ZeroclawError
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_daemon.config.bindings import Bound, Egress
    from zeroclaw_host.package.manifest import Manifest

AliasOption = Annotated[
    str | None,
    typer.Option(
        "--channel-alias",
        metavar="ALIAS",
        help="The name the channel gets: 1 to 63 lower-case letters, digits and single underscores. An agent lists it "
        "as plugin.ALIAS in its channels.",
    ),
]
EgressOption = Annotated[
    str | None,
    typer.Option(
        "--egress",
        metavar="declared|none",
        help="What the channel's new row grants: the hosts its package declares, or nothing. Needed when a row is made "
        "for a package that declares some; a row that is there is never changed.",
    ),
]


def bind(
    context: typer.Context,
    package: Annotated[
        str,
        typer.Argument(
            metavar="PACKAGE", help="An installed package with a channel.", autocompletion=complete_package
        ),
    ],
    channel_alias: AliasOption = None,
    egress: EgressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bind the channel of an installed package to an alias: make channels.plugin.ALIAS, and the row of the instance.

    Both are written in one save, and what is there already stays as it is, so the command may be repeated. Another alias makes
    another instance, with a configuration of its own. Whether plugins are on, and which agent answers on the channel, stays
    as it is; the report says what is still missing.
    """
    from zeroclaw_daemon.cli.readiness_view import readiness_json, readiness_of, say_readiness, say_reload
    from zeroclaw_daemon.config import bindings
    from zeroclaw_daemon.plugins import installed

    current = environment(context)
    current.json = as_json
    if channel_alias is None:
        raise _usage("plugin bind", "say under which name: pass --channel-alias ALIAS")
    decision = egress_of(egress, "plugin bind")
    _refuse_ahead_of_the_file(current, package, channel_alias)
    snapshot = usable_snapshot(current)
    found = installed(snapshot, current.paths)
    manifest = found.get(package).manifest
    bound = bindings.bind(current.config_store, manifest, channel_alias, decision)
    snapshot = current.snapshot()
    [report] = [
        report
        for report in readiness_of(manifest, found, snapshot, current.key_file, tool=False)
        if report.identity == bound.identity
    ]
    grants = report_of([manifest], snapshot, current.config_store)
    grants = grants.only([bound.identity] if bound.row is None else [])
    if as_json:
        say_json(
            {
                **bound_json(bound),
                "egress": egress_json(grants, current.place),
                "readiness": readiness_json(report, current.place),
            }
        )
        return
    say_bound(bound, current.place)
    say_egress(grants, current.place)
    say_readiness(report, current.place, gap=False)
    say_reload(current.place)


def egress_of(text: str | None, command: str) -> Egress | None:
    """The decision an option names.

    :raises UsageError: it names none.
    """
    from zeroclaw_daemon.config.bindings import Egress

    if text is None:
        return None
    try:
        return Egress(text)
    except ValueError:
        raise _usage(command, f"--egress is declared or none, not {text!r}") from None


def _usage(command: str, message: str) -> UsageError:
    return UsageError(message, remedy=Remedy(RemedyAction.RUN_HELP, {"command": command}))


def _refuse_ahead_of_the_file(current: Environment, package: str, alias: str) -> None:
    """The refusals that come before a file that cannot be read (PLG-237, PLG-238).

    Where the file says that packages are then nobody knows, so that one is looked for in the default place.
    """
    from zeroclaw_daemon.config.bindings import require_alias, require_channel, require_written_now
    from zeroclaw_daemon.config.problems import ConfigFileInvalid

    require_written_now(current.config_store)
    try:
        readable = not current.snapshot().problems
    except ConfigFileInvalid:
        readable = False
    if not readable:
        manifest = _in_default_place(current, package)
        if manifest is not None:
            require_channel(manifest)
        require_alias(alias)


def _in_default_place(current: Environment, package: str) -> Manifest | None:
    from zeroclaw_host.installation.discovery import discover
    from zeroclaw_host.package.signature import SignaturePolicy

    try:
        return (
            discover(Path(current.paths.plugins_dir_default), SignaturePolicy(), only=package)
            .get(package)
            .manifest
        )
    except ZeroclawError:
        return None


def say_bound(bound: Bound, place: Place) -> None:
    """What was written, and how what the instance may reach is changed later (PLG-243 to PLG-249)."""
    identity = bound.identity
    alias = visible(identity.binding)
    if bound.binding_created:
        say(f"bound channels.plugin.{alias} to {visible(identity.package)}")
    else:
        say(f"channels.plugin.{alias} is bound to {visible(identity.package)} already, and stays as it is")
    if bound.row is not None:
        say(f"  instance {identity.key}: its row in plugins.entries was made")
    elif bound.owns_row:
        say(f"  instance {identity.key}: its row was there and stays as it is")
    _say_egress(bound, place)


def _say_egress(bound: Bound, place: Place) -> None:
    if bound.egress_not_applied:
        why = "the row is there already" if bound.owns_row else "the instance has no row"
        say(f"  --egress was not applied: {why}")
    if bound.row is not None:
        say_seeded(bound.row, place)


def bound_json(bound: Bound) -> dict[str, object]:
    """The same for programs."""
    return {
        "package": bound.identity.package,
        "alias": bound.identity.binding,
        "key": bound.identity.key if bound.owns_row else None,
        "binding_created": bound.binding_created,
        "row_created": bound.row is not None,
        "egress_hosts": list(bound.row.egress_hosts) if bound.row is not None else [],
        "declared": list(bound.declared),
        "egress_not_applied": bound.egress_not_applied,
    }
