"""``zeroclaw daemon``: run the daemon in this terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from zeroclaw_daemon.cli.environment import environment


def daemon(
    context: typer.Context,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="End one second after the last client has disconnected.")
    ] = False,
) -> None:
    """Run the daemon in the foreground until it is interrupted or terminated.

    It needs no configuration: without any, there is one agent, `assistant`, which echoes. Its log is
    logs/daemon.jsonl in the data directory; warnings are shown here too.
    """
    import os

    from zeroclaw_daemon.app import run

    run(environment(context).paths, os.environ, ephemeral=ephemeral)
