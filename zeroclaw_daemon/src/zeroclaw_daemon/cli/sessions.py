"""``zeroclaw sessions``: the conversations that the daemon keeps."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from zeroclaw_daemon.cli.environment import JsonOption, environment
from zeroclaw_daemon.cli.output import duration, say, say_json, table
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_daemon.client import DaemonClient
    from zeroclaw_daemon.config.paths import Paths
    from zeroclaw_daemon.rpc.methods.session_reading import ListedSession, MessagesResult
    from zeroclaw_daemon.rpc.models import Result

_SHOWN = 100

app = typer.Typer(
    help="""See, end and delete the conversations that the daemon keeps.

\b
  zeroclaw sessions list                   the latest first
  zeroclaw sessions list --query 'milk'    chats in which this was said
  zeroclaw sessions show ID                what was said in one
  zeroclaw chat --resume ID                go on with it
""",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Ids = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Which ones, as `zeroclaw sessions list` shows them.")
]


@app.command("list", short_help="List the conversations that are kept.")
def list_(
    context: typer.Context,
    query: Annotated[
        str | None,
        typer.Option("--query", metavar="WORDS", help="Only chats in which one message has all these words."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the conversations that are kept, the latest first, except those that were killed.

    Each with its id, agent, mode and number of messages, for how long nothing was said (in a pipe, when something last was),
    and whether it is live.

    The mode is `acp` for those that can be gone on with after the daemon was stopped, as `zeroclaw chat` and `zeroclaw
    prompt` make them, and `chat` for the others.
    """
    import anyio

    current = environment(context)
    current.json = as_json
    found, live = anyio.run(_listed, current.paths, query)
    if as_json:
        say_json([{**row.to_json(), "mode": mode, "live": row.session_id in live} for mode, row in found])
        return
    if not found and sys.stdout.isatty():
        say("No conversation is kept. `zeroclaw chat` begins one.")
        return
    person = sys.stdout.isatty()
    table(
        ("ID", "AGENT", "MODE", "MESSAGES", "IDLE", "STATE"),
        [
            (
                row.session_id,
                row.agent_alias or "",
                mode,
                str(row.message_count),
                _idle(row.last_activity) if person else row.last_activity,
                "live" if row.session_id in live else "",
            )
            for mode, row in found
        ],
    )


@app.command("show", short_help="Show what was said in one.")
def show_(
    context: typer.Context,
    session: Annotated[str, typer.Argument(metavar="ID", help="Which one.")],
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=1000, help="How many entries, the newest ones.")
    ] = _SHOWN,
    as_json: JsonOption = False,
) -> None:
    """Show what was said in a conversation, and what the agent did for it."""
    import anyio

    from zeroclaw_daemon.cli.transcript import show
    from zeroclaw_daemon.cli.turn_view import TurnView

    current = environment(context)
    current.json = as_json
    page = anyio.run(_messages, current.paths, session, limit)
    if as_json:
        say_json(page.to_json())
    else:
        show(page, TurnView(sys.stdout, sys.stdout))


@app.command("kill")
def kill(context: typer.Context, sessions: Ids, as_json: JsonOption = False) -> None:
    """End conversations for good. A turn that runs is cancelled; what was said can still be read."""
    _each(context, sessions, "killed", lambda client, session: client.kill_session(session), as_json=as_json)


@app.command("delete")
def delete(context: typer.Context, sessions: Ids, as_json: JsonOption = False) -> None:
    """Delete conversations and all that was said in them. A turn that runs is cancelled. There is no way back."""
    _each(
        context, sessions, "deleted", lambda client, session: client.delete_session(session), as_json=as_json
    )


def _idle(since: str) -> str:
    """For how long nothing has been said, roughly."""
    return duration((datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds(), parts=1)


def _each(
    context: typer.Context,
    sessions: list[str],
    done: str,
    call: Callable[[DaemonClient, str], Awaitable[Result]],
    *,
    as_json: bool,
) -> None:
    """Do something with one session after the other, and say so of each as it is done."""
    import anyio

    from zeroclaw_daemon.cli.calling import about, daemon
    from zeroclaw_daemon.rpc.errors import RemoteError

    current = environment(context)
    current.json = as_json

    async def run() -> None:
        async with daemon(current.paths) as client:
            for session in sessions:
                try:
                    result = await call(client, session)
                except RemoteError as error:
                    raise about(error, session) from None
                if as_json:
                    say_json(result.to_json())
                else:
                    say(f"{done} {visible(session)}")

    anyio.run(run)


async def _listed(paths: Paths, query: str | None) -> tuple[list[tuple[str, ListedSession]], set[str]]:
    """Sessions of both modes with their mode, and the ids of those that are live."""
    from zeroclaw_daemon.cli.calling import daemon

    async with daemon(paths) as client:
        found = [("chat", row) for row in (await client.list_sessions(query, limit=1000)).sessions]
        if query is None:
            found += [("acp", row) for row in (await client.list_acp_sessions()).sessions]
        live = set((await client.status()).session_ids)
    return sorted(found, key=lambda each: each[1].last_activity, reverse=True), live


async def _messages(paths: Paths, session: str, limit: int) -> MessagesResult:
    from zeroclaw_daemon.cli.calling import daemon

    async with daemon(paths) as client:
        return await client.messages(session, limit=limit)
