"""``zeroclaw config`` for the file as a whole: patch, validate, migrate, schema."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zeroclaw_daemon.cli.config_values import from_input, note_next_start, note_refused
from zeroclaw_daemon.cli.environment import Environment, JsonOption, environment
from zeroclaw_daemon.cli.output import say, say_json, warn
from zeroclaw_host.errors import Kind, UsageError
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zeroclaw_daemon.config.file import Snapshot
    from zeroclaw_daemon.config.problems import Problem


def patch(
    context: typer.Context,
    patch: Annotated[
        str, typer.Argument(metavar="PATCH", help="The patch, as JSON. `-` reads it from standard input.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Make several changes in one step: all of them, or none.

    PATCH is a JSON Patch (RFC 6902): an array of operations, each with `op` (add, replace, remove, test), a `path` and,
    except for remove, a `value`. The path is the property's, with / between its parts. `add` makes a missing row, and with
    /- at its end adds to a list. `test` looks at the file as it was.

    \b
      zeroclaw config patch '[{"op": "add", "path": "/agents/ada", "value": {"model": "m"}},
                              {"op": "remove", "path": "/gateway/port"}]'
    """
    from zeroclaw_daemon.config.patch import apply_patch, read_patch

    current = environment(context)
    current.json = as_json
    operations = read_patch(from_input("the patch") if patch == "-" else patch)
    snapshot = current.config_store.commit(lambda draft: apply_patch(draft, operations))
    note_refused(snapshot, (operation.path for operation in operations))
    note_next_start(dict.fromkeys(operation.path for operation in operations if operation.verb != "test"))
    if as_json:
        say_json({"patched": True, "props": [operation.path for operation in operations]})
    else:
        for operation in operations:
            if operation.verb != "test":
                say(f"{visible(operation.path)}: {'removed' if operation.verb == 'remove' else 'set'}")


def validate(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The file. Without one, the configuration in use.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say everything that is wrong with a configuration file, each with line and column; nothing is changed.

    Ends with status 0 when a daemon can use the file as it is, and with 3 when it cannot. Of the configuration in use, what
    environment variables put over it is judged as well; plugin instances that do not run with it are named. So are grants that
    the plugin host refuses, with the reason.
    """
    from zeroclaw_daemon.config.file import load
    from zeroclaw_daemon.config.problems import ConfigFileInvalid

    current = environment(context)
    current.json = as_json
    path = file if file is not None else current.config_file
    if file is not None and not file.is_file():
        raise UsageError(f"there is no file {file}")
    notices: tuple[str, ...] = ()
    try:
        snapshot = load(path, os.environ if file is None else None)
        problems: Sequence[Problem] = snapshot.problems
        notices = (*snapshot.notices, *_of_layout(path), *_of_network(snapshot))
        if file is None and not problems:
            notices += _of_instances(current, snapshot)
    except ConfigFileInvalid as error:
        problems = error.problems
    if as_json:
        say_json(
            {
                "valid": not problems,
                "file": str(path),
                "problems": [_problem_json(problem) for problem in problems],
                "notices": list(notices),
            }
        )
    else:
        for notice in notices:
            warn(notice)
        for problem in problems:
            say(visible(str(problem)))
        if not problems:
            say(
                f"{visible(str(path))} is valid"
                if path.exists()
                else f"there is no {visible(str(path))}; all is at its default"
            )
    if problems:
        raise typer.Exit(Kind.INVALID.value)


def migrate(context: typer.Context, as_json: JsonOption = False) -> None:
    """Bring a file of an earlier release to the layout of this one, in one step; comments and order stay.

    Rows of plugins.entries that are named after a package or a channel get the key of its instance, and secrets are sealed.
    What cannot be told is left as it is and named. A file that is up to date is not touched.
    """
    current = environment(context)
    current.json = as_json
    done = current.config_store.migrate(_key_of(current))
    path = visible(str(current.config_file))
    if as_json:
        say_json(
            {
                "changed": done.changed,
                "from_version": done.from_version,
                "to_version": done.to_version,
                "renamed": [{"from": old, "to": new} for old, new in done.renamed],
                "left": [{"name": row.name, "reason": row.reason} for row in done.left],
                "sealed": done.sealed,
                "unreadable": list(done.unreadable),
            }
        )
        return
    say(f"{path} has the layout {done.to_version}{'' if done.changed else ' already; nothing was changed'}")
    for old, new in done.renamed:
        say(f"row {visible(old)} is now {new}")
    if done.sealed:
        say(f"{done.sealed} secret{'' if done.sealed == 1 else 's'} sealed")
    for row in done.left:
        where = (
            f"{current.config_file}:{row.place.line}:{row.place.column}: " if row.place is not None else ""
        )
        warn(f"{where}the row {row.name} was left as it is, and nobody reads it: {row.reason}")
    for name in done.unreadable:
        warn(f"{name} was left as it is: this installation's key does not open it; set it anew")


def schema() -> None:
    """Print the JSON Schema of the configuration file, for editors. Secrets are `writeOnly`."""
    from zeroclaw_daemon.config.schema import json_schema

    say_json(json_schema())


def _problem_json(problem: Problem) -> dict[str, Any]:
    return {
        "file": problem.file,
        "line": problem.place.line if problem.place is not None else None,
        "column": problem.place.column if problem.place is not None else None,
        "property": problem.property,
        "message": problem.message,
    }


def _key_of(current: Environment) -> Callable[[str], str | None]:
    """Tells the key of the one instance that a row of before 1.0 was for: a package's tool, or a channel by its alias."""
    from zeroclaw_daemon.plugins import installed
    from zeroclaw_host.installation.rows import seed_for
    from zeroclaw_host.instance import InstanceIdentity
    from zeroclaw_host.package.manifest import Capability

    snapshot = current.snapshot()
    manifests = installed(snapshot, current.paths).manifests

    def key_of(name: str) -> str | None:
        seed = seed_for(manifests[name]) if name in manifests else None
        bound = snapshot.config.channels.plugin.get(name)
        channel = InstanceIdentity(bound.package, Capability.CHANNEL, name).key if bound is not None else None
        found = [key for key in (seed.key if seed is not None else None, channel) if key is not None]
        return found[0] if len(found) == 1 else None

    return key_of


def _of_network(snapshot: Snapshot) -> tuple[str, ...]:
    """What the network authority refuses of it. The file can be used; connections are refused by it."""
    from zeroclaw_daemon.config.network import findings

    return tuple(finding.message for finding in findings(snapshot.config))


def _of_layout(path: Path) -> tuple[str, ...]:
    """That a file can be read and not be changed, because it is of an earlier release."""
    from zeroclaw_daemon.config.file import decode, read_bytes, toml_values
    from zeroclaw_daemon.config.migration import ConfigOutdated, check_version

    try:
        check_version(toml_values(decode(read_bytes(path) or b"", path), path), path)
    except ConfigOutdated as error:
        return (f"{error.message}; `zeroclaw config migrate` does that",)
    return ()


def _of_instances(current: Environment, snapshot: Snapshot) -> tuple[str, ...]:
    """What keeps single plugin instances from running. It is no fault of the file, which others can use as it is."""
    from zeroclaw_daemon.config.resolver import unfit_instances
    from zeroclaw_daemon.config.strays import strays
    from zeroclaw_daemon.plugins import installed

    manifests = installed(snapshot, current.paths).manifests
    unfit = [
        f"{error.message}; {identity.key} does not run until it does"
        for manifest in manifests.values()
        for identity, error in unfit_instances(manifest, snapshot, current.key_file)
    ]
    return (*(stray.message for stray in strays(snapshot.config, manifests)), *unfit)
