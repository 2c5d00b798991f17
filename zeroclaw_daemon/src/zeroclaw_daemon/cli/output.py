"""How commands speak: tables or JSON on standard output, notices and errors on standard error.

Everything that comes from a package, a registry, a model or a file is made visible before it is printed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zeroclaw_daemon.cli.remedies import Advice, Place, advice_lines, advise, remedy_json
from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.visible import json_text, visible, visible_lines

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str = "") -> None:
    """One line, or several, of our own words or already visible ones."""
    print(text)


def say_json(value: object) -> None:
    """One JSON value, indented where a person reads it."""
    print(json_text(value, indent=2 if sys.stdout.isatty() else None))


def warn(text: str) -> None:
    """A notice on standard error."""
    print(f"warning: {visible(text)}", file=sys.stderr)


def console(*, stderr: bool = False) -> Console:
    """A console for tables and live output; plain where no terminal is."""
    from rich.console import Console

    return Console(
        stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=not sys.stdout.isatty()
    )


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under headings; in a pipe, fields separated by tabs without headings, for other programs."""
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(visible(cell) for cell in row))
        return
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    on = console()
    # The first column is what is copied into the next command: the others give way to it, unless it leaves them no room.
    whole = max((len(visible(row[0])) for row in rows), default=0) <= on.width // 2
    for number, heading in enumerate(headings):
        drawn.add_column(heading, overflow="fold", no_wrap=whole and number == 0)
    for row in rows:
        drawn.add_row(*(visible(cell) for cell in row))
    on.print(drawn)


def duration(seconds: float, *, parts: int = 2) -> str:
    """A time to be read: its largest parts."""
    rest, found = int(seconds), list[str]()
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, rest = divmod(rest, size)
        if count:
            found.append(f"{count} {unit}")
    return " ".join(found[:parts]) or "0 s"


_OF_THE_SYSTEM: Final = re.compile(r"^\[Errno \d+\] |: '[^']*'$")
"""What surrounds the operating system's own words in Python's errors."""


def error_lines(error: ZeroclawError, place: Place | None) -> list[str]:
    """What happened, why, and what to do."""
    # Indented further than anything of ours, so that no text of others passes for a remedy.
    lines = [_indented("error: ", error.message)]
    said = error.message.lower()
    for cause in error.causes():
        # Each layer passes on what the system said; a person needs to read it once.
        if _OF_THE_SYSTEM.sub("", cause).lower() not in said:
            lines.append(_indented("  because: ", cause))
            said += f"\n{cause.lower()}"
    lines += evidence_lines(error, "  ")
    return [*lines, *advice_lines(_advice(error, place), "  ")]


def evidence_lines(error: ZeroclawError, indent: str) -> list[str]:
    """What an error shows besides its message, each text under its label."""
    return [
        line
        for label, text in error.evidence()
        for line in (f"{indent}{label}:", _indented(f"{indent}  ", text))
    ]


def error_json(error: ZeroclawError, place: Place | None) -> dict[str, object]:
    """The same as a JSON object, with the error's own facts. ``remedies`` is there where several things are to be done, and
    holds ``remedy``, the first of them, as well.
    """
    remedies = [] if place is None else [remedy_json(remedy, place) for remedy in error.remedies]
    told: dict[str, object] = {
        "code": error.code,
        "kind": error.kind.name.lower(),
        "message": error.message,
        "causes": list(error.causes()),
        "details": dict(error.details),
        "remedy": remedies[0] if remedies else None,
    }
    if len(remedies) > 1:
        told["remedies"] = remedies
    return {"error": told}


def report(error: ZeroclawError, place: Place | None, *, as_json: bool) -> None:
    """Print an error on standard error."""
    if as_json:
        print(json_text(error_json(error, place)), file=sys.stderr)
    else:
        print("\n".join(error_lines(error, place)), file=sys.stderr)


def _advice(error: ZeroclawError, place: Place | None) -> tuple[Advice, ...]:
    return () if place is None else tuple(advise(remedy, place) for remedy in error.remedies)


def _indented(heading: str, text: str) -> str:
    """A text under its heading, each further line as far to the right as the first."""
    return heading + visible_lines(text.strip()).replace("\n", "\n" + " " * len(heading))
