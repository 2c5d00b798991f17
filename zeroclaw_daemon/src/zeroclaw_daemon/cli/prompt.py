"""``zeroclaw prompt``: say something to an agent and watch it answer."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zeroclaw_daemon.cli.config_values import from_input
from zeroclaw_daemon.cli.environment import environment
from zeroclaw_daemon.cli.whom import LATEST, close_conversation, open_conversation
from zeroclaw_host.errors import UsageError
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from zeroclaw_daemon.cli.turn_view import View
    from zeroclaw_daemon.client import DaemonClient
    from zeroclaw_daemon.config.paths import Paths
    from zeroclaw_daemon.rpc.methods.session import NewResult


def prompt(
    context: typer.Context,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What to say. `-` reads it from standard input.")
    ],
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent", metavar="ALIAS", help="Whom to ask. Without it, the only agent, or `assistant`."
        ),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="Go on with, or begin, a conversation of this name."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the conversation that was spoken in last.")
    ] = False,
    attach: Annotated[
        list[Path] | None,
        typer.Option("--attach", metavar="PATH", help="Send a file with it. May be given several times."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every event, then the result, as one JSON object a line.")
    ] = False,
) -> None:
    """Send a prompt to an agent of the running daemon and stream the answer.

    The answer goes to standard output; tool calls, their results and thoughts go to standard error. Every conversation
    is kept: --resume goes on with the latest, --session with the one of that name.

    On a terminal you are asked where a tool needs your consent and where the agent has a question. Elsewhere, and with
    --json, nobody is asked: such a tool is not run, which is said on standard error, and the agent is told so.
    """
    import anyio

    from zeroclaw_daemon.cli.turn_view import JsonView, TurnView

    current = environment(context)
    current.json = as_json
    if resume and session is not None:
        raise UsageError("--session names a conversation already; leave --resume out")
    said = from_input("the prompt") if text == "-" else text
    if not said.strip():
        raise UsageError("there is nothing to say: the prompt is blank")
    view = JsonView() if as_json else TurnView()
    opening = partial(open_conversation, agent=agent, session=session, resume=LATEST if resume else None)
    keep = resume or session is not None
    anyio.run(lambda: _converse(current.paths, said, attach or [], opening, view, keep=keep))


async def _converse(
    paths: Paths,
    said: str,
    files: list[Path],
    opening: Callable[[DaemonClient], Awaitable[NewResult]],
    view: View,
    *,
    keep: bool,
) -> None:
    """Take one turn; without ``keep``, the session lives no longer than that."""
    from zeroclaw_daemon.cli.calling import daemon
    from zeroclaw_daemon.cli.person import Person, refusing
    from zeroclaw_daemon.cli.turn_view import TurnView

    person = Person(view) if isinstance(view, TurnView) and Person.is_there() else None
    async with daemon(
        paths,
        approve=person.approve if person else refusing(_say),
        answer=person.answer if person else None,
        hear=view.event,
    ) as client:
        session = (await opening(client)).session_id
        try:
            sent = [await client.upload_file(session, path) for path in files]
            async for update in (turn := client.prompt(session, said, attachments=sent)):
                view.event(update)
            view.result(turn.result)
        finally:
            if not keep:
                await close_conversation(client, session)
            if isinstance(view, TurnView):
                view.end_line()


def _say(text: str) -> None:
    print(visible(text), file=sys.stderr, flush=True)
