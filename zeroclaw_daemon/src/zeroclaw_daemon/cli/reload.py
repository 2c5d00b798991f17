"""``zeroclaw reload``: let the running daemon decide again which plugin instances run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from zeroclaw_daemon.cli.environment import environment
from zeroclaw_daemon.cli.output import say, say_json, warn
from zeroclaw_host.errors import Kind
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_daemon.config.paths import Paths


def reload(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print the daemon's answer as JSON.")] = False,
) -> None:
    """Let the running daemon decide again which plugin instances run.

    Values of the configuration are live: an edit counts from the next use on. Which channels of plugins run is decided
    when the daemon starts and by this command, and at no other time. Calls and turns that run go on. A configuration that
    cannot be used changes nothing, and the error names file, line and column.

    Exit status 7 when no daemon is running, 3 when [plugins] cannot be read and plugins are off for it.
    """
    import anyio

    current = environment(context)
    current.json = as_json
    answer = anyio.run(_ask, current.paths)
    problems = [str(problem) for problem in answer.get("problems", [])]
    if as_json:
        say_json(answer)
    else:
        changes = [str(change) for change in answer.get("changes", [])]
        say("reloaded" if changes else "reloaded: the same instances run as before")
        for change in changes:
            say(f"  {visible(change)}")
        for problem in problems:
            warn(f"{problem}; the whole [plugins] section is not in force, and plugins are off")
    if problems:
        raise typer.Exit(Kind.INVALID.value)


async def _ask(paths: Paths) -> dict[str, Any]:
    from zeroclaw_daemon.cli.calling import daemon

    async with daemon(paths) as client:
        return await client.call("config/reload", {})
