"""What both commands share: ending with an error, remedies in words, tables, JSON."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from getpass import getpass
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from zeroclaw_host.errors import Remedy, RemedyAction, UsageError, ZeroclawError
from zeroclaw_host.quoting import Word, line
from zeroclaw_host.visible import json_text, visible, visible_lines

out = Console(highlight=False, soft_wrap=True)
err = Console(highlight=False, soft_wrap=True, stderr=True)


UNREAD_STATUS: Final = 141
"""How a program ends whose reader went away: 128 and the number of SIGPIPE."""

_speaks_json = False
"""Whether the command of this process was asked for JSON; its error is JSON then, too."""


def _speak_json(asked: bool) -> bool:
    global _speaks_json
    _speaks_json = asked
    return asked


Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print the result as JSON, for programs.", is_eager=True, callback=_speak_json
    ),
]


def run_app(app: typer.Typer, program: str) -> int:
    """Run a typer application; an error of the host becomes words, or JSON, and an exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Letters that a standard stream cannot encode become escapes.
            stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name=program)
    except ZeroclawError as error:
        if _speaks_json:
            print(_json(_error_facts(error)), file=sys.stderr)
        else:
            print_error(error)
        return error.kind.value
    except SystemExit as end:
        # The command framework takes a broken pipe for itself and calls it an internal fault.
        if isinstance(end.__context__, BrokenPipeError) or not _all_was_taken():
            # Nothing more can be said to this reader, not even at interpreter exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return UNREAD_STATUS
        raise
    return 0


def _all_was_taken() -> bool:
    try:
        if cast("object", sys.stdout) is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        return False
    return True


def ask_passphrase(prompt: str) -> bytes:
    """A passphrase typed on the terminal, unseen.

    :raises UsageError: there is no terminal to ask on.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            "there is no terminal to ask for the passphrase on; name a file with --passphrase-file"
        )
    return getpass(prompt).encode()


_OF_THE_SYSTEM: Final = re.compile(r"^\[Errno \d+\] |: '[^']*'$")
"""What surrounds the operating system's own words in Python's errors."""


def print_error(error: ZeroclawError) -> None:
    """An error on standard error: what happened, why, what to do."""
    err.print(Text.assemble(("error: ", "bold red"), visible_lines(error.message)))
    for cause in error.causes():
        if _OF_THE_SYSTEM.sub("", cause) not in error.message:
            err.print(Text(_indented(visible_lines(cause), "  because: "), style="dim"))
    print_evidence(error, err)
    if error.remedy is not None and (words := remedy_words(error.remedy)):
        err.print(Text.assemble(("  to do: ", "bold"), words))


def print_evidence(error: ZeroclawError, console: Console) -> None:
    """What an error shows besides its message: differences, tracebacks, output of a guest."""
    for label, text in error.evidence():
        console.print(Text(f"  {label}:"))
        console.print(Text(_indented(visible_lines(text), "    "), style="dim"))


def shown(text: str) -> str:
    """One line of somebody's text, for a console that reads markup: nothing in it steers console or terminal."""
    return escape(visible(text))


def shown_lines(text: str) -> str:
    """As :func:`shown`, but line breaks stay."""
    return escape(visible_lines(text))


def print_json(value: object) -> None:
    """A value as JSON on standard output, for programs."""
    print(_json(value))


def _json(value: object) -> str:
    # Where the output has no letters for everything, JSON's own escapes stand for them.
    can_say_all = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return json_text(plain(value), indent=2, ascii_only=not can_say_all)


def _error_facts(error: ZeroclawError) -> dict[str, object]:
    """An error in the shape that ``zeroclaw`` prints with ``--json``."""
    remedy = None
    if error.remedy is not None:
        words = remedy_words(error.remedy)
        remedy = {"action": error.remedy.action, "arguments": error.remedy.arguments, "words": words}
    facts = {"kind": error.kind.name.lower(), "details": error.details, "remedy": remedy}
    return {"error": {**cast("dict[str, object]", plain(error)), **facts}}


def plain(value: object) -> object:
    """Dataclasses, paths, enums and bytes in their JSON form."""
    match value:
        case Enum():
            return value.value
        case Path():
            return str(value)
        case bytes():
            return value.hex()
        case ZeroclawError():
            return {"code": value.code, "message": value.message, "causes": list(value.causes())}
        case Mapping():
            return {str(key): plain(each) for key, each in cast("Mapping[Any, object]", value).items()}
        case list() | tuple() | set() | frozenset():
            return [plain(each) for each in cast("list[object]", list(cast(Any, value)))]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
        case _:
            return value


def remedy_words(remedy: Remedy) -> str | None:
    """What a person types or does; None for what only an operator's command can do."""
    render = _REMEDIES.get(remedy.action)
    return None if render is None else render(remedy.arguments)


def _edit(arguments: Mapping[str, str]) -> str:
    place = ":".join(arguments[key] for key in ("path", "line", "column") if key in arguments)
    return f"mend {visible(place)}"


_LIMIT_OPTIONS: Final = {"call_fuel": "--fuel", "call_timeout_ms": "--timeout-ms"}
"""Bounds of a call that ``run`` has an option for."""


def _raise_limit(arguments: Mapping[str, str]) -> str:
    limit = arguments["limit"]
    option = _LIMIT_OPTIONS.get(limit)
    if option is None:
        return f"use less of it, or have the operator raise plugins.limits.{limit}"
    return f"use less of it, or run with a larger {option}; a host's bound is plugins.limits.{limit}"


_REMEDIES: Mapping[RemedyAction, Callable[[Mapping[str, str]], str]] = {
    RemedyAction.REBUILD_PLUGIN: lambda _: "zeroclaw-plugin build",
    RemedyAction.SIGN_PLUGIN: lambda _: "zeroclaw-plugin sign --key KEYFILE",
    RemedyAction.SET_CONFIG: lambda a: f"--config {a['path'].rpartition('.')[2]}=VALUE",
    RemedyAction.UNSET_CONFIG: lambda a: f"leave out {a['path'].rpartition('.')[2]}",
    RemedyAction.ADD_TRUSTED_KEY: lambda a: f"trust the key {a.get('key', '')}".rstrip(),
    RemedyAction.EDIT_FILE: _edit,
    RemedyAction.FREE_SPACE: lambda a: f"make room on the file system of {a['path']}",
    RemedyAction.MAKE_DIRECTORY: lambda a: line("mkdir", Word("-p"), Word("-m"), Word("700"), a["path"]),
    RemedyAction.RAISE_LIMIT: _raise_limit,
    RemedyAction.RESTRICT_FILE: lambda a: line("chmod", Word("600"), a["path"]),
    RemedyAction.INSTALL_EXTRA: lambda a: line("pip", Word("install"), a["extra"]),
    RemedyAction.RUN_HELP: lambda a: f"zeroclaw-plugin {a['command']} --help",
}


def _indented(text: str, first: str) -> str:
    return first + text.replace("\n", "\n" + " " * len(first))
