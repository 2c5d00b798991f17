"""``zeroclaw plugin log``: what was done to packages, by whom and by which rule."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zeroclaw_daemon.cli.environment import JsonOption, environment
from zeroclaw_daemon.cli.output import say, say_json, table, warn
from zeroclaw_host.errors import Kind

if TYPE_CHECKING:
    from zeroclaw_host.installation.package_log import Verification

_SHOWN_DIGITS = 12
"""Of a digest in a table; JSON has all of it."""


def log(
    context: typer.Context,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Only check that every record is there, unchanged and in its place."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the record of every install, update, removal, refusal and approval, oldest first.

    Each record holds the digest of the one before it, so that a change is found; it is always looked for. With --verify,
    the exit status is 3 when the log is not intact.
    """
    from zeroclaw_host.installation.package_log import PackageLog

    current = environment(context)
    current.json = as_json
    path = Path(current.paths.package_log)
    found = PackageLog(path).verify()
    if as_json:
        say_json(_json(path, found, verify=verify))
    elif verify:
        say(f"{len(found.records)} records, {'intact' if found.intact else 'NOT intact'}")
    else:
        headings = ("TIME", "ACTION", "PACKAGE", "VERSION", "COMPONENT", "RULE", "WHO", "DETAIL")
        table(headings, [_row(record) for record in found.records])
    for problem in found.problems:
        warn(f"the package log {path} is not what was written: {problem}")
    if found.torn_bytes:
        warn(f"the last record in {path} was not written whole; the next one takes its place")
    if verify and not found.intact:
        raise typer.Exit(Kind.INVALID.value)


def _row(record: dict[str, Any]) -> tuple[str, ...]:
    version = _text(record, "version")
    if "previous_version" in record:
        version = f"{_text(record, 'previous_version')} to {version}"
    return (
        _text(record, "time"),
        _text(record, "action"),
        _text(record, "package") or _text(record, "source"),
        version,
        _text(record, "component_sha256")[:_SHOWN_DIGITS],
        _text(record, "rule"),
        _text(record, "who"),
        _text(record, "detail"),
    )


def _text(record: dict[str, Any], key: str) -> str:
    value = record.get(key)
    return "" if value is None else str(value)


def _json(path: Path, found: Verification, *, verify: bool) -> dict[str, object]:
    verdict: dict[str, object] = {
        "path": str(path),
        "intact": found.intact,
        "problems": list(found.problems),
        "torn_bytes": found.torn_bytes,
        "count": len(found.records),
    }
    return verdict if verify else {**verdict, "records": list(found.records)}
