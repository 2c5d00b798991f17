"""``zeroclaw config``: read and change single properties."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from zeroclaw_daemon.cli.environment import environment, warned_snapshot
from zeroclaw_daemon.cli.output import say, say_json, table, warn
from zeroclaw_host.errors import Remedy, RemedyAction, UsageError
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_daemon.config.file import Snapshot
    from zeroclaw_daemon.config.properties import Property

app = typer.Typer(
    help="""Read and change the configuration.

A property has a dotted path: plugins.enabled, agents.ada.model, plugins.entries.KEY.egress_hosts.
`zeroclaw config list` shows all there are. The file is edited in place: comments and order stay.
A running daemon sees the change at its next use.
""",
    no_args_is_help=True,
    rich_markup_mode=None,
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("get")
def get(
    context: typer.Context,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The property, e.g. plugins.enabled.")],
    as_json: JsonOption = False,
) -> None:
    """Print one property. A secret is masked; `<unset>` means there is no value."""
    from zeroclaw_daemon.config.properties import get_property

    current = environment(context)
    current.json = as_json
    snapshot = warned_snapshot(current)
    found = get_property(snapshot.config, path)
    if as_json:
        say_json(_as_json(found, snapshot))
    else:
        say(visible(found.shown))


@app.command("list")
def list_(
    context: typer.Context,
    prefix: Annotated[
        str, typer.Argument(metavar="[PREFIX]", help="Only what is at or below this path.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """List properties with their values. Secrets are masked."""
    from zeroclaw_daemon.config.properties import find_value, list_properties

    current = environment(context)
    current.json = as_json
    snapshot = warned_snapshot(current)
    found = list(list_properties(snapshot.config, prefix))
    if prefix and not found:
        find_value(prefix.split("."))
    if as_json:
        say_json([_as_json(each, snapshot) for each in found])
    else:
        table(("PROPERTY", "VALUE", "WHAT IT IS FOR"), [(p.path, p.shown, p.type.description) for p in found])


@app.command("set")
def set_(
    context: typer.Context,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The property, e.g. plugins.enabled.")],
    value: Annotated[
        str | None,
        typer.Argument(
            metavar="[VALUE]",
            help="The value. Lists are separated by commas. Without one, a person is asked; a secret is not echoed.",
        ),
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add to a list instead of replacing it.")] = False,
    no_interactive: Annotated[bool, typer.Option("--no-interactive", help="Never ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Set one property in the file. The empty value unsets an optional one; `unset` unsets any."""
    from zeroclaw_daemon.config.writing import append_property, set_properties

    current = environment(context)
    current.json = as_json
    if value is None:
        value = _asked(path, no_interactive=no_interactive)
    if append:
        snapshot = append_property(current.config_file, path, value)
    else:
        snapshot = set_properties(current.config_file, [(path, value)])
    _say_changed(snapshot, path, "set", as_json=as_json)


@app.command("unset")
def unset(
    context: typer.Context,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The property, e.g. plugins.registry_url.")],
    as_json: JsonOption = False,
) -> None:
    """Take one property out of the file, so that its default counts; a secret, too."""
    from zeroclaw_daemon.config.writing import unset_property

    current = environment(context)
    current.json = as_json
    _say_changed(unset_property(current.config_file, path), path, "unset", as_json=as_json)


def _say_changed(snapshot: Snapshot, path: str, done: str, *, as_json: bool) -> None:
    from zeroclaw_daemon.config.overrides import overrides_in

    shown = _shown(snapshot, path)
    overridden = path in {override.property for override in overrides_in(os.environ)}
    if overridden:
        warn(f"{path} is set by an environment variable too, which wins over the file")
    if as_json:
        say_json({"prop": path, done: True, "value": shown, "is_env_overridden": overridden})
    else:
        say(f"{visible(path)} = {visible(shown)}")


def _asked(path: str, *, no_interactive: bool) -> str:
    """The value a person types; a secret without echo."""
    from zeroclaw_daemon.config.properties import find_value
    from zeroclaw_daemon.config.shape import ValueKind

    found = find_value(path.split("."))
    if no_interactive or not sys.stdin.isatty():
        raise UsageError(
            f"a value for {path} is missing", remedy=Remedy(RemedyAction.RUN_HELP, {"command": "config set"})
        )
    hidden = found.kind is ValueKind.SECRET
    return str(typer.prompt(visible(path), hide_input=hidden, confirmation_prompt=hidden, err=True))


def _shown(snapshot: Snapshot, path: str) -> str:
    from zeroclaw_daemon.config.properties import UNSET, list_properties

    return next((each.shown for each in list_properties(snapshot.config) if each.path == path), UNSET)


def _as_json(found: Property, snapshot: Snapshot) -> dict[str, object]:
    from zeroclaw_daemon.config.shape import ValueKind

    secret = found.type.kind is ValueKind.SECRET
    entry: dict[str, object] = {
        "path": found.path,
        "kind": found.type.kind.value,
        "description": found.type.description,
        "populated": found.populated,
        "is_secret": secret,
        "is_env_overridden": found.path in snapshot.overridden,
    }
    if found.type.choices:
        entry["enum_variants"] = list(found.type.choices)
    if not secret:
        entry["value"] = found.value
    return entry
