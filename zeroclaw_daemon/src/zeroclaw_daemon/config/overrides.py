"""Environment variables that stand in for properties of the file, and never reach it (D-38).

``ZEROCLAW_gateway__port`` overrides ``gateway.port``: the segments in their own lower case, two underscores between them.
A name that is all upper case is a setting of the process and none of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from zeroclaw_daemon.config.coercion import PropertyError, coerce_text
from zeroclaw_daemon.config.problems import Problem
from zeroclaw_daemon.config.properties import find_value, segments_of
from zeroclaw_daemon.config.shape import ROOT, Node, RowsOf, step

PREFIX: Final = "ZEROCLAW_"


@dataclass(frozen=True, slots=True)
class Override:
    """One variable: its name, the dotted property and the text it carries, which may be secret."""

    variable: str
    property: str
    text: str = field(repr=False)


def overrides_in(env: Mapping[str, str]) -> tuple[Override, ...]:
    """The overriding variables of an environment, in the order of their names."""
    found: list[Override] = []
    for name in sorted(env):
        rest = name.removeprefix(PREFIX)
        if rest != name and rest != rest.upper():
            found.append(Override(name, rest.replace("__", "."), env[name]))
    return tuple(found)


def apply_overrides(
    values: dict[str, object], overrides: Sequence[Override], *, file: str
) -> tuple[Problem, ...]:
    """Write the overrides into parsed values, in place.

    :returns: what is wrong with the variables themselves: unknown properties, texts that do not fit.
    """
    problems: list[Problem] = []
    for override in overrides:
        segments = segments_of(override.property)
        try:
            wanted = coerce_text(find_value(segments), override.text)
            _put(values, segments, wanted)
        except PropertyError as error:
            words = error.message.removeprefix(f"{override.property}: ")
            problems.append(
                Problem(f"the environment variable {override.variable}", override.property, words)
            )
    return tuple(problems)


def _put(values: dict[str, object], segments: Sequence[str], value: object) -> None:
    """Set the value. Where the file has something else than a table on the way, it stays, for validation to find.

    :raises PropertyError: a row on the way is missing.
    """
    current: object = values
    node: Node | None = ROOT
    for segment in segments[:-1]:
        if isinstance(node, RowsOf):
            current = _row(current, segment)
        elif isinstance(current, dict):
            table = cast("dict[str, object]", current)
            inner = None if node is None else step(node, segment)
            current = table.get(segment) if isinstance(inner, RowsOf) else table.setdefault(segment, {})
        else:
            return
        node = None if node is None else step(node, segment)
    if not isinstance(current, dict):
        return
    table = cast("dict[str, object]", current)
    if value is None:
        table.pop(segments[-1], None)
    else:
        table[segments[-1]] = value


def _row(rows: object, name: str) -> object:
    if rows is not None and not isinstance(rows, list):
        return rows
    for row in cast("list[object]", rows or []):
        if isinstance(row, dict) and cast("dict[str, object]", row).get("name") == name:
            return cast("object", row)
    raise PropertyError(f"there is no row named {name}")
