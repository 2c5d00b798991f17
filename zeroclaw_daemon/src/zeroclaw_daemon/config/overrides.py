"""Environment variables that stand in for properties of the file, and never reach it (D-38).

``ZEROCLAW_gateway__port`` overrides ``gateway.port``: the segments in their own lower case, two underscores between them.
A name that is all upper case is a setting of the process and none of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from zeroclaw_daemon.config.problems import Problem
from zeroclaw_daemon.config.properties import PropertyError, coerce_text, find_value, segments_of

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
            problems.append(
                Problem(f"the environment variable {override.variable}", override.property, error.message)
            )
    return tuple(problems)


def _put(values: dict[str, object], segments: Sequence[str], value: object) -> None:
    table = values
    for index, segment in enumerate(segments[:-1]):
        inner = table.get(segment)
        if isinstance(inner, list):
            _put(_row(cast("list[object]", inner), segments, index + 1), segments[index + 2 :], value)
            return
        if not isinstance(inner, dict):
            inner = table[segment] = {}
        table = cast("dict[str, object]", inner)
    if value is None:
        table.pop(segments[-1], None)
    else:
        table[segments[-1]] = value


def _row(rows: Sequence[object], segments: Sequence[str], index: int) -> dict[str, object]:
    for row in rows:
        if isinstance(row, dict) and cast("dict[str, object]", row).get("name") == segments[index]:
            return cast("dict[str, object]", row)
    raise PropertyError(f"there is no row named {segments[index]}")
