"""``zeroclaw config``: read and change the configuration, property by property."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from zeroclaw_daemon.cli import config_file
from zeroclaw_daemon.cli.completing import complete_path, complete_value
from zeroclaw_daemon.cli.config_values import (
    asked,
    from_input,
    is_no_secret,
    note_next_start,
    note_refused,
    note_unchecked,
    warn_visible,
)
from zeroclaw_daemon.cli.environment import Environment, JsonOption, environment, warned_snapshot
from zeroclaw_daemon.cli.output import say, say_json, warn
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_daemon.config.file import Snapshot
    from zeroclaw_daemon.config.overrides import Override
    from zeroclaw_daemon.config.properties import Property

app = typer.Typer(
    help="""Read and change the configuration.

A property has a dotted path: plugins.enabled, agents.ada.model, plugins.entries.KEY.egress_hosts.
`zeroclaw config list` shows all there are. The file is edited in place: comments and order stay.
A running daemon sees the change at its next use; what it reads when it starts is named.
""",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("patch")(config_file.patch)
app.command("validate", short_help="Say everything that is wrong with the file.")(config_file.validate)
app.command("migrate", short_help="Bring a file of an earlier release to this layout.")(config_file.migrate)
app.command("schema")(config_file.schema)


PathArgument = Annotated[
    str,
    typer.Argument(metavar="PATH", help="The property, e.g. plugins.enabled.", autocompletion=complete_path),
]


@app.command("get")
def get(
    context: typer.Context,
    path: PathArgument,
    as_json: JsonOption = False,
) -> None:
    """Print one property. A secret is masked; `<unset>` means there is no value.

    Where an environment variable overrides the file, its value is printed, and what the file says beside it.
    """
    from zeroclaw_daemon.config.properties import get_property

    current = environment(context)
    current.json = as_json
    shown = _Shown(current, warned_snapshot(current))
    found = get_property(shown.snapshot.config, path)
    if as_json:
        say_json(shown.as_json(found))
    else:
        say(visible(found.shown))
        if (words := shown.override_words(found)) is not None:
            warn(words)


@app.command("list")
def list_(
    context: typer.Context,
    prefix: Annotated[
        str,
        typer.Argument(
            metavar="PREFIX", help="Only what is at or below this path.", autocompletion=complete_path
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """List properties with their values and what they are for. Secrets are masked.

    On a terminal each is `path = value` with its description below; in a pipe, one line of path, value and description,
    separated by tabs. `--json` tells the kind, the default and where the value is from as well.
    """
    from zeroclaw_daemon.config.properties import list_properties, node_at
    from zeroclaw_daemon.config.unnamed import unnamed

    current = environment(context)
    current.json = as_json
    shown = _Shown(current, warned_snapshot(current))
    found = list(list_properties(shown.snapshot.config, prefix))
    if prefix and not found:
        node_at(prefix.rstrip("."), shown.snapshot.config)
    for path, name in unnamed(shown.snapshot.config):
        warn(
            f"{path}: {name!r} is not listed, for no path can name it; look at it, and change it, in the file"
        )
    if as_json:
        say_json([shown.as_json(each) for each in found])
        return
    for each in found:
        if sys.stdout.isatty():
            say(f"{visible(each.path)} = {visible(each.shown)}")
            for words in (each.type.description, shown.override_words(each)):
                if words:
                    say(_wrapped(visible(words)))
        else:
            say("\t".join(map(visible, (each.path, each.shown, each.type.description))))


@app.command("set")
def set_(
    context: typer.Context,
    path: PathArgument,
    value: Annotated[
        str | None,
        typer.Argument(
            metavar="VALUE",
            help="The value. Lists are separated by commas, or are a JSON array. `-` reads it from standard input. Without "
            "one, a person is asked; a secret is not echoed.",
            autocompletion=complete_value,
        ),
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add to a list instead of replacing it.")] = False,
    no_interactive: Annotated[bool, typer.Option("--no-interactive", help="Never ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Set one property in the file. The empty value unsets an optional one; `delete` unsets any.

    A property of a plugin instance is checked against the schema of the installed package.
    """
    from zeroclaw_daemon.config.map_keys import NAME, row_named_by
    from zeroclaw_daemon.config.properties import find_value

    current = environment(context)
    current.json = as_json
    found = find_value(path)
    if value is None:
        text = asked(current, path, found, no_interactive=no_interactive)
    elif value == "-":
        text = from_input(path)
    else:
        text = value
        warn_visible(current, path, found)
    store = current.config_store
    snapshot = store.commit(lambda draft: draft.append(path, text) if append else draft.set(path, text))
    note_unchecked(current, path)
    if (row := row_named_by(path)) is not None:  # the row is found by its new name now
        path = f"{row.map_path}.{text}.{NAME}"
    note_refused(snapshot, [path])
    given = text if is_no_secret(current, path) else None
    _say_changed(current, snapshot, path, "set", given, as_json=as_json)


@app.command("delete", short_help="Take a property out of the file.")
def delete(
    context: typer.Context,
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A property, e.g. plugins.registry_url, or agents.ada as a whole.",
            autocompletion=complete_path,
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Take one property out of the file, so that its default counts; a secret, too.

    The path of something that was named by an operator, such as agents.ada or plugins.entries.KEY, takes it out with all
    that is below it.
    """
    from zeroclaw_daemon.config.patch import take_out

    current = environment(context)
    current.json = as_json
    snapshot = current.config_store.commit(lambda draft: take_out(draft, path))
    note_refused(snapshot, [path])
    _say_changed(current, snapshot, path, "deleted", as_json=as_json)


def _wrapped(text: str) -> str:
    """The text below a line of its own, within the terminal."""
    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width=max(width, 40), initial_indent="    ", subsequent_indent="    ")


def _say_changed(
    current: Environment, snapshot: Snapshot, path: str, done: str, given: str | None = None, *, as_json: bool
) -> None:
    """What the file says now. An override is told of, and its value stays out of the line that repeats what was written.

    :param given: what was written, where the file seals it and it may be repeated all the same.
    """
    from zeroclaw_daemon.config.properties import UNSET

    note_next_start([path])
    shown = _Shown(current, snapshot)
    written = shown.in_file(path)
    text = given or (written.shown if written is not None else UNSET)
    override = shown.override(path)
    if override is not None:
        warn(f"{path}: the environment variable {override.variable} wins over the file while it is set")
    if as_json:
        say_json({"prop": path, done: True, "value": text, "is_env_overridden": override is not None})
    else:
        say(f"{visible(path)} = {visible(text)}")


class _Shown:
    """A snapshot with what the file alone says, which is looked up only where a variable says otherwise."""

    def __init__(self, current: Environment, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._current = current
        self._file: dict[str, Property] | None = None
        self._overrides: dict[str, Override] | None = None

    def override(self, path: str) -> Override | None:
        """The environment variable that sets this property."""
        from zeroclaw_daemon.config.overrides import overrides_in

        if self._overrides is None:
            self._overrides = {each.property: each for each in overrides_in(os.environ)}
        return self._overrides.get(path)

    def in_file(self, path: str) -> Property | None:
        """The property as the file has it; None where it has none, or cannot be used without the variables."""
        from zeroclaw_daemon.config.file import load
        from zeroclaw_daemon.config.problems import ConfigFileInvalid
        from zeroclaw_daemon.config.properties import list_properties

        if self._file is None:
            try:
                config = load(self._current.config_file).config
            except ConfigFileInvalid:
                self._file = {}
            else:
                self._file = {each.path: each for each in list_properties(config)}
        return self._file.get(path)

    def override_words(self, found: Property) -> str | None:
        """That a variable sets the property, and what the file says."""
        override = self.override(found.path)
        if override is None:
            return None
        written = self.in_file(found.path)
        without = f"it would be {written.shown}" if written is not None else "there would be none"
        return f"set by the environment variable {override.variable}; without it, {without}"

    def as_json(self, found: Property) -> dict[str, object]:
        """One property as an object. A secret has no value."""
        from zeroclaw_daemon.config.shape import ValueKind

        secret = found.type.kind is ValueKind.SECRET
        override = self.override(found.path)
        entry: dict[str, object] = {
            "path": found.path,
            "kind": found.type.kind.value,
            "description": found.type.description,
            "populated": found.populated,
            "is_secret": secret,
            "is_env_overridden": override is not None,
        }
        if found.type.choices:
            entry["enum_variants"] = list(found.type.choices)
        if not secret:
            entry["value"] = found.value
            entry["default"] = found.type.default
        if override is not None:
            entry["env_variable"] = override.variable
            written = self.in_file(found.path)
            if not secret:
                entry["file_value"] = written.value if written is not None else None
        return entry
