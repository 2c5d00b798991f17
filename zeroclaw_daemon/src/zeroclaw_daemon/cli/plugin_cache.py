"""``zeroclaw plugin cache``: what is kept of compiled plugins."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from zeroclaw_daemon.cli.environment import Environment, JsonOption, environment, warned_snapshot
from zeroclaw_daemon.cli.output import say, say_json, table, warn
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_daemon.config.file import Snapshot
    from zeroclaw_host.installation.compiled import OwnedArtifact
    from zeroclaw_host.sandbox.compiling.shelf import Pruned, Shelf

app = typer.Typer(
    help="""Look at the compiled plugins that are kept, and make room.

A plugin is compiled once, when it is installed or first loaded, and what comes out is kept: a Python plugin takes ten
seconds and 40 MB. All of it can be made again, so nothing is lost by removing it but the time of the next load.

There are three forms. `whole` is a plugin compiled as it was delivered. `shared` is one without the modules it has in
common with others, which serves until the whole form is there. `module` is such a module, compiled once for all.

Room is bounded by plugins.compile.cache_max_mb: when something is added, stale artifacts go first (made by another
release, or for another processor), then those that were not used for longest. Those in use stay. All commands work
beside a running daemon; it goes on with what it has loaded.
""",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_FORMS: Final = {"component": "whole", "shared": "shared", "module": "module"}


@app.command("list", short_help="List what is kept.")
def list_(context: typer.Context, as_json: JsonOption = False) -> None:
    """List what is kept: for which packages, in which form, how large, when it was last used, exact to an hour.

    The order is the one in which room is made. A package named - is none that is installed: it was removed or updated,
    or is one you develop.
    """
    current, snapshot = _begin(context, as_json)
    shelf = _shelf(current)
    found = _owned(shelf, snapshot, current)
    if as_json:
        say_json(
            {
                "directory": str(shelf.directory),
                "bytes": sum(each.artifact.size for each in found),
                "maximum_bytes": snapshot.config.plugins.compile.cache_max_bytes,
                "artifacts": _json(found),
            }
        )
        return
    table(("PACKAGES", "FORM", "SIZE", "LAST USED", "STATE", "SHA256"), [_row(each) for each in found])
    if sys.stdout.isatty():
        total = _size(sum(each.artifact.size for each in found))
        bound = _size(snapshot.config.plugins.compile.cache_max_bytes)
        say(f"\n{total} of at most {bound}, in {visible(str(shelf.directory))}")


@app.command("prune", short_help="Remove what is stale or above the bound.")
def prune(
    context: typer.Context,
    max_mb: Annotated[
        int | None,
        typer.Option(
            "--max-mb",
            metavar="N",
            min=0,
            help="Keep at most so much, instead of plugins.compile.cache_max_mb.",
        ),
    ] = None,
    unowned: Annotated[
        bool, typer.Option("--unowned", help="Also remove what belongs to no installed package.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove stale artifacts, what was never finished, and the least recently used until the bound is kept.

    What a running process uses stays. The next load of anything else compiles it again.
    """
    current, snapshot = _begin(context, as_json)
    shelf = _shelf(current)
    found = _owned(shelf, snapshot, current)
    unwanted = [each.artifact for each in found if each.artifact.stale or (unowned and not each.packages)]
    bound = snapshot.config.plugins.compile.cache_max_bytes if max_mb is None else max_mb * 1024**2
    _report(shelf.prune(bound, also=unwanted), found, as_json=as_json)


@app.command("clear")
def clear(context: typer.Context, as_json: JsonOption = False) -> None:
    """Remove every artifact, in use or not. Each plugin is compiled again when it is next loaded."""
    current, snapshot = _begin(context, as_json)
    shelf = _shelf(current)
    found = _owned(shelf, snapshot, current)
    _report(shelf.clear(), found, as_json=as_json)


def _begin(context: typer.Context, as_json: bool) -> tuple[Environment, Snapshot]:
    current = environment(context)
    current.json = as_json
    return current, warned_snapshot(current)


def _shelf(current: Environment) -> Shelf:
    from zeroclaw_host.sandbox.compiling.shelf import Shelf
    from zeroclaw_host.sandbox.engine import fingerprint

    return Shelf(Path(current.paths.cache_dir), fingerprint())


def _owned(shelf: Shelf, snapshot: Snapshot, current: Environment) -> tuple[OwnedArtifact, ...]:
    from zeroclaw_daemon.plugins import installed
    from zeroclaw_host.installation.compiled import owned

    return owned(shelf.stored(), installed(snapshot, current.paths).packages)


def _report(pruned: Pruned, before: Sequence[OwnedArtifact], *, as_json: bool) -> None:
    gone = {artifact.path for artifact in pruned.removed}
    removed = [each for each in before if each.artifact.path in gone]
    if as_json:
        say_json(
            {
                "freed_bytes": pruned.freed_bytes,
                "kept_bytes": pruned.kept_bytes,
                "removed": _json(removed),
            }
        )
        return
    for each in removed:
        say(
            f"removed {_FORMS.get(_kind(each), _kind(each))} of {_packages(each)}, {_size(each.artifact.size)}"
        )
    say(f"freed {_size(pruned.freed_bytes)}; {_size(pruned.kept_bytes)} are kept")
    if any(artifact.in_use for artifact in pruned.removed):
        warn("a running process goes on with some of it, and frees the room when it ends")


def _json(found: Sequence[OwnedArtifact]) -> list[dict[str, object]]:
    return [
        {
            "path": str(each.artifact.path),
            "form": _FORMS.get(_kind(each), _kind(each)),
            "sha256": None if each.artifact.name is None else each.artifact.name.digest,
            "bytes": each.artifact.size,
            "last_used": datetime.fromtimestamp(each.artifact.last_used, UTC).isoformat(timespec="seconds"),
            "stale": each.artifact.stale,
            "in_use": each.artifact.in_use,
            "packages": list(each.packages),
        }
        for each in found
    ]


def _row(each: OwnedArtifact) -> tuple[str, ...]:
    artifact = each.artifact
    return (
        _packages(each),
        _FORMS.get(_kind(each), _kind(each)),
        _size(artifact.size),
        f"{datetime.fromtimestamp(artifact.last_used):%Y-%m-%d %H:%M}",
        "in use" if artifact.in_use else "stale" if artifact.stale else "kept",
        "-" if artifact.name is None else artifact.name.digest[:12],
    )


def _kind(each: OwnedArtifact) -> str:
    return "unknown" if each.artifact.name is None else each.artifact.name.kind


def _packages(each: OwnedArtifact) -> str:
    return ", ".join(each.packages) or "-"


def _size(count: int) -> str:
    return f"{count / 1024**2:.1f} MiB"
