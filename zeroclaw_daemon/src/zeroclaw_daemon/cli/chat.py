"""``zeroclaw chat``: hold a conversation in a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from zeroclaw_daemon.cli.environment import environment


def chat(
    context: typer.Context,
    conversation: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="With --resume: which conversation; the latest without it."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with a conversation that is stored: that of ID, or the latest."),
    ] = False,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="Go on with, or begin, a conversation of this name."),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent", metavar="ALIAS", help="Whom to talk to. Without it, the only agent, or `assistant`."
        ),
    ] = None,
) -> None:
    """Talk with an agent of the running daemon.

    What the agent says is shown as it comes, with the tools it calls. Where a tool needs your consent, and where the
    agent has a question, you are asked. A line that begins with a slash is a command; /help lists them.

    Ctrl-C stops the turn that runs; pressed twice, or where nothing runs, it leaves. So do /quit and Ctrl-D. The
    conversation is kept by the daemon: --resume goes on with it, also after the daemon was stopped or killed.

    Away from a terminal, each line of standard input is said in turn, and nobody is asked: tools that need consent are
    refused.
    """
    import anyio

    from zeroclaw_daemon.cli.conversation import hold
    from zeroclaw_daemon.cli.whom import resumed

    current = environment(context)
    wanted = resumed(resume, session, conversation)
    status = anyio.run(lambda: hold(current, agent=agent, session=session, resume=wanted))
    if status:
        raise typer.Exit(status)
