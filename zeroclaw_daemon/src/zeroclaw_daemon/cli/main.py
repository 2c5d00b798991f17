"""The command ``zeroclaw``."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

from zeroclaw_daemon.cli import (
    auth,
    chat,
    config,
    daemon,
    plugin,
    prompt,
    reload,
    rpc,
    secrets,
    sessions,
    status,
)
from zeroclaw_daemon.cli.environment import Environment
from zeroclaw_host.errors import NO_SPACE, StorageError, ZeroclawError

_HELP = """Run and manage a ZeroClaw daemon.

A first tour, with nothing configured:

\b
  zeroclaw daemon                          start it, in the foreground
  zeroclaw status                          in another terminal: is it there?
  zeroclaw prompt 'hello'                  ask the built-in agent one thing
  zeroclaw chat                            talk with it

Give it a model, of OpenAI or of a server whose address is set as providers.models.openai.main.uri:

\b
  zeroclaw config set providers.models.openai.main.api_key     asks for it
  zeroclaw config set providers.models.openai.main.model NAME
  zeroclaw config set agents.ada.provider openai.main

Add a plugin and let agents use it:

\b
  zeroclaw plugin install ./my-plugin
  zeroclaw config set plugins.enabled true
  zeroclaw config set plugins.auto_discover true

Everything lives in ~/.zeroclaw. --config-dir, or ZEROCLAW_CONFIG_DIR, names another place.

With ZEROCLAW_GATEWAY, the address of another daemon's gateway, and ZEROCLAW_AUTH_TOKEN, the commands that talk with a
daemon (status, reload, prompt, chat, rpc, sessions) talk with that one.

Exit statuses: 0 done, 1 internal fault, 2 wrong usage, 3 bad input, 4 refused by policy, 5 not found, 6 conflict,
7 unavailable, 8 a limit was reached, 9 a plugin failed.
"""

PROGRAM: Final = "zeroclaw"

app = typer.Typer(
    name=PROGRAM,
    help=_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("daemon", short_help="Run the daemon in the foreground.")(daemon.daemon)
app.command("status", short_help="Show the running daemon, and what is wrong with it.")(status.status)
app.command("reload")(reload.reload)
app.command("prompt", short_help="Say one thing to an agent and stream its answer.")(prompt.prompt)
app.command("chat")(chat.chat)
app.command("rpc", short_help="Call any method of the running daemon.")(rpc.rpc)
app.add_typer(sessions.app, name="sessions")
app.add_typer(plugin.app, name="plugin")
app.add_typer(config.app, name="config")
app.add_typer(auth.app, name="auth")
app.add_typer(secrets.app, name="secrets")


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"zeroclaw {version('zeroclaw-daemon')}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    config_dir: Annotated[
        str | None,
        typer.Option(
            "--config-dir",
            metavar="DIR",
            help="The directory of the configuration and, below it, of the data. Wins over ZEROCLAW_CONFIG_DIR.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """See the module."""
    del version
    context.obj = _environment(config_dir)


_current: Environment | None = None


def _environment(config_dir: str | None) -> Environment:
    global _current
    _current = Environment(config_dir)
    return _current


def run() -> None:
    """Run the command of this process and end with its exit status, which is the kind of its error."""
    _say_everything_somehow()
    try:
        _command()
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        _end_unwritten(error)


def _command() -> None:
    try:
        app(prog_name=PROGRAM)
    except ZeroclawError as error:
        _report(error)
        sys.exit(error.kind.value)
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as end:
        # The command framework takes a broken pipe for itself and calls it an internal fault.
        if isinstance(end.__context__, BrokenPipeError) or not _all_was_taken():
            _end_unread()
        raise


def _say_everything_somehow() -> None:
    """Letters that the standard streams cannot encode become escapes; a library's log records are not for a terminal."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # The descriptor was closed by whoever started us.
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    logging.getLogger("zeroclaw_daemon").addHandler(logging.NullHandler())


def _all_was_taken() -> bool:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return False
    return True


def _end_unread() -> NoReturn:
    """End as a program does whose reader went away."""
    _say_nothing_more()
    sys.exit(141)


def _say_nothing_more() -> None:
    """Not even what is left of it at interpreter exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end_unwritten(error: OSError) -> NoReturn:
    """End where what was to be said could not be written. Whatever else is written tells of itself."""
    unwritten = StorageError(f"standard output cannot be written: {(error.strerror or 'no room').lower()}")
    with suppress(OSError):  # it may go to the same place
        _report(unwritten)
    _say_nothing_more()
    sys.exit(unwritten.kind.value)


def _report(error: ZeroclawError) -> None:
    from zeroclaw_daemon.cli.output import report

    current = _current or Environment()
    try:
        place = current.place
    except ZeroclawError:
        place = None
    report(error, place, as_json=current.json)
