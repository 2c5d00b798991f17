"""Where the value of ``zeroclaw config set`` comes from: an argument, standard input, or a person who is asked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import typer

from zeroclaw_daemon.cli.output import warn
from zeroclaw_host.errors import Remedy, RemedyAction, UsageError
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zeroclaw_daemon.cli.environment import Environment
    from zeroclaw_daemon.config.file import Snapshot
    from zeroclaw_daemon.config.shape import Value
    from zeroclaw_host.package.config_schema import ConfigProperty

MAX_INPUT_BYTES: Final = 16 * 1024 * 1024
"""No value and no patch is longer than the whole file may be."""


def asked(current: Environment, path: str, found: Value, *, no_interactive: bool) -> str:
    """The value a person types, after being told what is wanted; a secret without echo.

    :raises UsageError: nobody is there, or nobody may be asked.
    :raises UnknownProperty: the installed package has no such property.
    """
    if no_interactive or not sys.stdin.isatty():
        raise UsageError(
            f"a value for {path} is missing", remedy=Remedy(RemedyAction.RUN_HELP, {"command": "config set"})
        )
    declared = _declared(current, path)
    typer.echo(visible(_told(found, declared)), err=True)
    hidden = _is_secret(found, declared)
    return str(typer.prompt(visible(path), hide_input=hidden, confirmation_prompt=hidden, err=True))


def from_input(what: str) -> str:
    """Standard input, without the line end that a shell's `echo` puts behind it.

    :raises UsageError: it is too long, or no UTF-8.
    """
    raw = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
    if len(raw) > MAX_INPUT_BYTES:
        raise UsageError(f"{what}: standard input holds more than {MAX_INPUT_BYTES} bytes")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        # Without its cause: that error holds everything that was read.
        raise UsageError(f"{what}: standard input is not UTF-8") from None
    return text.removesuffix("\n").removesuffix("\r")


def warn_visible(current: Environment, path: str, found: Value) -> None:
    """Say that a secret which is an argument was seen by others."""
    if _is_secret(found, _declared(current, path)):
        warn(
            f"{path} is a secret: as an argument it stands in the list of processes and in the shell's history; leave it out "
            "to be asked for it, or pass - to read it from standard input"
        )


def is_no_secret(current: Environment, path: str) -> bool:
    """Whether an installed package says that an instance's property may be seen, though the configuration seals all of them."""
    declared = _declared(current, path)
    return declared is not None and not declared.secret


def note_unchecked(current: Environment, path: str) -> None:
    """Say that nobody knows what an instance's property has to be."""
    from zeroclaw_daemon.entry_properties import PackageUnknown

    try:
        current.entry_properties.find(path)
    except PackageUnknown as error:
        warn(f"{path} was written unchecked: {error.message}")


def note_refused(snapshot: Snapshot, paths: Iterable[str]) -> None:
    """Say what the network authority refuses of the rows, or settings, that were just written: they are in the file all the same,
    for mending one list may take writing another."""
    from zeroclaw_daemon.config.network import findings

    written = {_row_of(path) for path in paths}
    for finding in findings(snapshot.config):
        if _row_of(finding.path) in written:
            warn(finding.message)


def note_next_start(paths: Iterable[str]) -> None:
    """Say of which properties a running daemon has not taken note: it reads them once, when it starts."""
    for path in paths:
        if path.split(".")[0] == "gateway" or path == "rpc.max_local_connections":
            print(f"{visible(path)} counts from the next start of the daemon on", file=sys.stderr)


def _row_of(path: str) -> tuple[str, ...]:
    """What a path is of: the row, or the property itself."""
    parts = path.split(".")
    return tuple(parts[:3] if parts[:2] == ["plugins", "entries"] else parts)


def _declared(current: Environment, path: str) -> ConfigProperty | None:
    """What the installed package says of the property, where there is one."""
    from zeroclaw_daemon.entry_properties import PackageUnknown

    try:
        return current.entry_properties.find(path)
    except PackageUnknown:
        return None


def _is_secret(found: Value, declared: ConfigProperty | None) -> bool:
    """Whether the value is not to be seen. Of an instance's property only its package knows; until then it counts as one."""
    from zeroclaw_daemon.config.shape import ValueKind

    return declared.secret if declared is not None else found.kind is ValueKind.SECRET


def _told(found: Value, declared: ConfigProperty | None) -> str:
    """One line about what is wanted."""
    if declared is None:
        return f"{value_words(found)}. {found.description}"
    words = f" of {', '.join(declared.choices)}" if declared.choices and not declared.secret else ""
    parts = ["a secret" if declared.secret else declared.type.value + words]
    parts += ["required"] if declared.required else []
    if declared.default is not None and not declared.secret:
        parts.append(f"default {declared.default}")
    return f"{', '.join(parts)}. {declared.description or ''}".rstrip()


def value_words(value: Value) -> str:
    """What may stand there, for a person."""
    words = value.kind.value.replace("-", " ")
    if value.choices:
        words += f" of {', '.join(value.choices)}"
    if value.minimum is not None:
        words += f", at least {value.minimum}"
    if value.maximum is not None:
        words += f", at most {value.maximum}"
    return words
