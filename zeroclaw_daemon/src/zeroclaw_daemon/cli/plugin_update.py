"""``zeroclaw plugin update``: replace installed packages by other versions of themselves."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, cast

import typer

from zeroclaw_daemon.cli.egress_view import egress_json, report_of, say_egress
from zeroclaw_daemon.cli.environment import Environment, JsonOption, environment, usable_snapshot
from zeroclaw_daemon.cli.local_path import local_path
from zeroclaw_daemon.cli.output import error_json, error_lines, say, say_json, warn
from zeroclaw_daemon.cli.progress import Activity
from zeroclaw_daemon.cli.registry import registry_client
from zeroclaw_daemon.cli.remedies import Place, advise
from zeroclaw_host.errors import Remedy, RemedyAction, UsageError
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_daemon.config.file import Snapshot
    from zeroclaw_host.installation.displaced import Displaced, Survey
    from zeroclaw_host.installation.offers import Offer, UpdateSpec
    from zeroclaw_host.installation.update import Updater, UpdateResult
    from zeroclaw_host.services.sealing import KeyFile


def update(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME[@VERSION]",
            help="Installed packages; with @VERSION, the version to take, newer or older.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Update every installed package.")] = False,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="DIR", help="Take the new version of one package from a directory or archive."
        ),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option("--registry", metavar="URL", help="The registry; see `plugin install --help`."),
    ] = None,
    allow: Annotated[
        str | None,
        typer.Option(
            "--allow", metavar="ITEM,...", help="As --allow-token, several items with commas between."
        ),
    ] = None,
    allow_token: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-token",
            metavar="ITEM",
            help="Accept what the new version wants beyond the installed one: permission:NAME, capability:NAME, "
            "provides:ID, publisher:KEY or publisher:unsigned. Repeat it for each. One package at a time, with @VERSION.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Update installed packages. Configuration, grants, secrets and stored state stay.

    The new version passes the same checks as at an install before anything changes. A version that wants more than the
    installed one has is refused until you allow it. A package that an interrupted update had moved aside is put back
    first, without any network. The exit status is not 0 when a package was not updated or needs your approval.
    """
    from zeroclaw_daemon.config.entries import ConfigRowStore
    from zeroclaw_daemon.plugins import open_host
    from zeroclaw_host.installation.offers import DirectoryOffer, RegistryOffer

    current = environment(context)
    current.json = as_json
    specs = _specs(names or [], everything, source, registry)
    accepted = _accepted(specs, everything, source, allow, allow_token or [])
    snapshot = usable_snapshot(current)
    what = "every package" if everything else ", ".join(visible(spec.name) for spec in specs)
    with (
        open_host(snapshot, current.paths, rows=ConfigRowStore(current.config_store, installed=True)) as host,
        Activity(f"updating {what}") as activity,
    ):
        offer: Offer = (
            DirectoryOffer(local_path(source))
            if source is not None
            else RegistryOffer(
                registry_client(current, registry, snapshot),
                named=registry is not None,
                progress=activity.downloaded,
            )
        )
        updater = host.updater(on_compile=activity.compiling)
        results = list(_results(updater, specs, everything, offer, accepted))
    _tell(results, current, as_json=as_json)


def _results(
    updater: Updater, specs: list[UpdateSpec], everything: bool, offer: Offer, accepted: frozenset[str]
) -> Iterator[UpdateResult]:
    if everything:
        yield from updater.update_all(offer)
    for spec in specs:
        yield updater.update(spec, offer, accepted)


def _specs(names: list[str], everything: bool, source: str | None, registry: str | None) -> list[UpdateSpec]:
    from zeroclaw_host.installation.offers import UpdateSpec

    if everything == bool(names):
        raise _usage("name the packages to update, or pass --all")
    if source is not None and (everything or len(names) != 1):
        raise _usage("--from replaces one package, named beside it")
    if source is not None and registry is not None:
        raise _usage("a new version comes from --from or from --registry, not from both")
    return list(dict.fromkeys(map(UpdateSpec.parse, names)))


def _accepted(
    specs: list[UpdateSpec], everything: bool, source: str | None, allow: str | None, tokens: list[str]
) -> frozenset[str]:
    """What was accepted; only ever for one package, and for the version that was looked at (PLG-321)."""
    from zeroclaw_host.installation.authority import parse_items, split_items

    items = [*tokens, *(split_items(allow) if allow is not None else [])]
    if items and (everything or len(specs) != 1):
        raise _usage("what is allowed is allowed to one package: name it alone")
    if items and source is None and specs[0].version is None:
        raise _usage("what is allowed is allowed to one version of a package: write NAME@VERSION")
    return parse_items(items)


def _usage(message: str) -> UsageError:
    return UsageError(message, remedy=Remedy(RemedyAction.RUN_HELP, {"command": "plugin update"}))


def _tell(results: list[UpdateResult], current: Environment, *, as_json: bool) -> None:
    # The rows may have been written just now.
    snapshot = current.snapshot()
    updated = [result.manifest for result in results if result.manifest is not None]
    egress = report_of(updated, snapshot, current.config_store)
    if as_json:
        say_json(
            {
                "results": [_json(result, current.place) for result in results],
                "egress": egress_json(egress, current.place),
            }
        )
    for result in results:
        if not as_json:
            _say(result, current.place)
        for text in (*_warnings(result), *_unfit(result, snapshot, current.key_file)):
            warn(text)
    if not as_json:
        say_egress(egress, current.place)
    failed = next((result for result in results if result.failed), None)
    if failed is not None:
        raise typer.Exit(failed.error.kind.value if failed.error is not None else 1)


def _say(result: UpdateResult, place: Place) -> None:
    from zeroclaw_host.installation.update import Outcome

    name, installed = visible(result.name), visible(result.installed or "")
    version = visible(result.version or "")
    if result.put_back:
        say(f"put {name} back, which an interrupted update had moved aside")
    match result.outcome:
        case Outcome.UPDATED if result.older:
            say(f"replaced {name} {installed} by the older version {version}")
        case Outcome.UPDATED:
            say(f"updated {name} {installed} to {version}")
        case Outcome.UP_TO_DATE:
            say(f"{name} {installed} is already up to date")
        case Outcome.SKIPPED:
            say(f"skipped {name}: {result.skipped}")
        case Outcome.NEEDS_APPROVAL:
            print("\n".join(approval_lines(result, place)), file=sys.stderr)
        case Outcome.NOT_UPDATED:
            stays = f"; {installed} stays" if installed else ""
            print(f"{name} was not updated{stays}", file=sys.stderr)
            if result.error is not None:
                print("\n".join(error_lines(result.error, place)), file=sys.stderr)
    if result.row_created:
        say(f"  instance {result.key}: its row in plugins.entries was made, and grants nothing")


def approval_lines(result: UpdateResult, place: Place) -> list[str]:
    """What a version wants in addition, and the command that accepts exactly that (PLG-318)."""
    error = result.error
    remedy = error.remedy if error is not None else None
    wanted = cast("list[str]", error.details.get("authority", ())) if error is not None else []
    items = [f"  + {visible(item)}" for item in wanted]
    advice = advise(remedy, place) if remedy is not None else None
    end = "Nothing was changed."
    if advice is not None and advice.command is not None:
        end = f"Nothing was changed. To accept it and update, run: {advice.command}"
    elif advice is not None:
        end = f"Nothing was changed. {advice.words}"
    head = f"'{result.name}' {visible(result.version or '')} requests authority the installed version does not have:"
    return [head, *items, end]


def _warnings(result: UpdateResult) -> Iterator[str]:
    for notice in result.notices:
        yield notice.message
    if result.leftover is not None:
        path = result.leftover.path
        if result.leftover.marked:
            yield f"the replaced version could not be deleted: {path}; the next update of {result.name} deletes it"
        else:
            yield (
                f"the replaced version could be neither deleted nor marked as deleted: delete {path} by hand, because "
                f"once {result.name} is removed, an update by its name would put it back"
            )
    if result.staging_leftover is not None:
        yield f"what could not be cleared away is in {result.staging_leftover} and does no harm"


def _unfit(result: UpdateResult, snapshot: Snapshot, key_file: KeyFile) -> Iterator[str]:
    """Instances that the new version's schema leaves without a configuration that fits (PLG-326)."""
    from zeroclaw_daemon.config.resolver import unfit_instances

    if result.manifest is None:
        return
    for identity, error in unfit_instances(result.manifest, snapshot, key_file):
        which = f"the {identity.capability.value} {identity.binding} of {identity.package} ({identity.key})"
        yield f"{which} does not load until its configuration fits: {error.message}"


def _json(result: UpdateResult, place: Place) -> dict[str, object]:
    leftover = result.leftover
    return {
        "name": result.name,
        "outcome": result.outcome.value,
        "installed": result.installed,
        "version": result.version,
        "older": result.older,
        "skipped": result.skipped and result.skipped.name.lower(),
        "put_back": result.put_back,
        "key": result.key,
        "row_created": result.row_created,
        "leftover": leftover and {"path": str(leftover.path), "marked": leftover.marked},
        "notices": [notice.message for notice in result.notices],
        **(error_json(result.error, place) if result.error is not None else {}),
    }


def say_displaced(found: Survey, place: Place) -> None:
    """Packages that should be installed, and how they come back (PLG-336)."""
    for each in found.displaced:
        places = ", ".join(map(str, each.locations))
        warn(f"{each.name} is not installed: an interrupted update left it moved aside, in {places}")
        advice = advise(_remedy(each), place)
        print(f"  to do: {visible(advice.words)}", file=sys.stderr)
        if advice.command is not None:
            print(f"    {advice.command}", file=sys.stderr)


def displaced_json(found: Survey, place: Place) -> list[dict[str, object]]:
    """The same for programs."""
    return [
        {
            "name": each.name,
            "locations": [str(location) for location in each.locations],
            "remedy": {"words": advice.words, "command": advice.command},
        }
        for each in found.displaced
        for advice in (advise(_remedy(each), place),)
    ]


def _remedy(displaced: Displaced) -> Remedy:
    if len(displaced.locations) > 1:
        return Remedy(RemedyAction.CLEAR_BY_HAND, {"path": str(displaced.locations[0])})
    return Remedy(RemedyAction.UPDATE_PLUGIN, {"name": displaced.name})
