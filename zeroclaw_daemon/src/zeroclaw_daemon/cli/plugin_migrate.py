"""``zeroclaw plugin migrate``: move packages from another directory into the plugins directory."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from zeroclaw_daemon.cli.environment import JsonOption, environment, usable_snapshot
from zeroclaw_daemon.cli.local_path import local_path
from zeroclaw_daemon.cli.output import error_json, error_lines, say, say_json
from zeroclaw_daemon.cli.progress import Activity
from zeroclaw_daemon.cli.remedies import Place
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_host.installation.migrate import Migration


def migrate(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="DIR", help="The directory that holds the packages, one in each directory."
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Move packages from another directory into the plugins directory.

    Each goes through the checks of an install, nothing is overwritten, and what does not pass stays where it is. The exit
    status is not 0 when something stayed.
    """
    from zeroclaw_daemon.config.entries import ConfigRowStore
    from zeroclaw_daemon.plugins import open_host

    current = environment(context)
    current.json = as_json
    snapshot = usable_snapshot(current)
    rows = ConfigRowStore(current.config_store)
    with (
        open_host(snapshot, current.paths, rows=rows) as host,
        Activity(f"moving what is in {visible(source)}") as activity,
    ):
        results = list(host.migrate(local_path(source), on_compile=activity.compiling))
    if as_json:
        say_json({"results": [_json(result, current.place) for result in results]})
    else:
        for result in results:
            _say(result, current.place)
        if not results:
            say(f"{visible(source)} holds no package")
    failed = next((result.error for result in results if result.error is not None), None)
    if failed is not None:
        raise typer.Exit(failed.kind.value)


def _say(result: Migration, place: Place) -> None:
    what = f"{visible(result.name or result.source.name)} {visible(result.version or '')}".rstrip()
    if result.error is None:
        say(f"moved {what}")
        return
    stays = "is in both directories now" if result.report is not None else "stays"
    print(f"{what} in {visible(str(result.source))} {stays}", file=sys.stderr)
    print("\n".join(error_lines(result.error, place)), file=sys.stderr)


def _json(result: Migration, place: Place) -> dict[str, object]:
    return {
        "source": str(result.source),
        "name": result.name,
        "version": result.version,
        "moved": result.error is None,
        "installed": result.report is not None,
        **(error_json(result.error, place) if result.error is not None else {}),
    }
