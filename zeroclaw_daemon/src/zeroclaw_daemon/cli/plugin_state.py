"""``zeroclaw plugin state``: how much plugins keep, and clearing what one instance keeps. Values are never shown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zeroclaw_daemon.cli.environment import Environment, JsonOption, environment, warned_snapshot
from zeroclaw_daemon.cli.output import say, say_json, table, warn
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, StorageError, UsageError, ZeroclawError
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_host.services.state_queries import Usage
    from zeroclaw_host.services.state_store import DurableState

app = typer.Typer(
    help="""Look at what plugins keep between their calls, and clear it.

A plugin with the permissions state_read and state_write keeps entries of its own, sealed, in the data directory. Each
belongs to one instance: a package, a capability and a binding. Updates and removals keep them. No command shows a key or
a value of an entry.

\b
  zeroclaw plugin state                    every instance that keeps something
  zeroclaw plugin state list demo          those of one package
  zeroclaw plugin state clear zpi1_...     delete what one instance keeps
""",
    rich_markup_mode=None,
)


class NoSuchState(ZeroclawError):
    """The instance keeps nothing. ``details`` holds ``key``."""

    code = "state_not_found"
    kind = Kind.NOT_FOUND


def durable_state(current: Environment) -> DurableState:
    """The state of this installation. Nothing is made before something is put."""
    from zeroclaw_host.services.state_store import DurableState

    return DurableState(Path(current.paths.state_file), current.key_file)


def kept_usage(current: Environment, package: str) -> tuple[Usage, ...]:
    """What the instances of a package keep; a store that cannot be used says so, and keeps nobody from anything."""
    try:
        usages = durable_state(current).usage()
    except StorageError as error:
        warn(error.message)
        return ()
    return tuple(usage for usage in usages.instances if usage.instance.package == package)


@app.callback(invoke_without_command=True)
def default(context: typer.Context, as_json: JsonOption = False) -> None:
    """See the module."""
    if context.invoked_subcommand is None:
        _list(context, None, as_json=as_json)


@app.command("list", short_help="List the instances that keep something.")
def list_(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A package; all of them when left out.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the instances that keep something: entries, bytes of their values, and the revision given out last.

    An instance whose package is not installed is listed as well: a package of that name has it again.
    """
    _list(context, name, as_json=as_json)


def _list(context: typer.Context, name: str | None, *, as_json: bool) -> None:
    current = environment(context)
    current.json = as_json
    usages = durable_state(current).usage()
    found = [usage for usage in usages.instances if name is None or usage.instance.package == name]
    installed = _installed(current)
    if as_json:
        say_json(
            {
                "instances": [_json(usage, installed) for usage in found],
                "unreadable_entries": usages.unreadable,
            }
        )
        return
    if not found:
        about = "no plugin keeps anything" if name is None else f"no instance of {name} keeps anything"
        say(visible(about))
    else:
        table(
            ("package", "capability", "binding", "entries", "bytes", "last revision", "", "key"),
            [
                (
                    usage.instance.package,
                    usage.instance.capability.value,
                    usage.instance.binding,
                    str(usage.entries),
                    str(usage.value_bytes),
                    str(usage.last_revision),
                    "" if usage.instance.package in installed else "not installed",
                    usage.instance.key,
                )
                for usage in found
            ],
        )
    if usages.unreadable:
        warn(
            f"{usages.unreadable} entries cannot be read: they were damaged, or sealed with another key than the present one"
        )


@app.command("clear")
def clear(
    context: typer.Context,
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="The instance's key, zpi1_..., as the list shows it.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete everything one instance keeps, for good. Its configuration and grants stay.

    A running plugin sees it at its next look. Revisions go on from where they were, so that a write that rests on what was
    there before is refused.
    """
    current = environment(context)
    current.json = as_json
    instance = InstanceIdentity.parse(key)
    state = durable_state(current)
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("nobody is there to be asked whether it may be deleted: --yes says so")
        entries = sum(usage.entries for usage in state.usage().instances if usage.instance == instance)
        about = f"{instance.package} ({instance.capability.value}, binding {instance.binding})"
        typer.confirm(f"Delete {entries} entries of {visible(about)} for good?", abort=True, err=True)
    done = state.clear(instance)
    if as_json:
        say_json({"key": instance.key, "deleted_entries": done})
    elif done:
        say(f"deleted {done} entries")
    if not done:
        raise NoSuchState(
            f"the instance keeps nothing (package {instance.package})",
            remedy=Remedy(RemedyAction.RUN_HELP, {"command": "plugin state"}),
            details={"key": instance.key},
        )


def _installed(current: Environment) -> frozenset[str]:
    from zeroclaw_daemon.plugins import installed

    found = installed(warned_snapshot(current), current.paths)
    return frozenset(package.name for package in found.packages)


def _json(usage: Usage, installed: frozenset[str]) -> dict[str, object]:
    instance = usage.instance
    return {
        "key": instance.key,
        "package": instance.package,
        "capability": instance.capability.value,
        "binding": instance.binding,
        "installed": instance.package in installed,
        "entries": usage.entries,
        "value_bytes": usage.value_bytes,
        "last_revision": usage.last_revision,
    }
