"""Rows of the conformance suite: what is sent, what must come, and how the connection is left, as data.

A file of rows is TOML: ``[[rows]]`` with these members. What is not given is taken from the top of the file.

``name``, ``requirements``
    What the row proves, in words and in numbers.
``given``
    How the connection stands when the row begins: ``fresh`` (connected), ``initialized``, or ``asking`` (the daemon waits
    for an answer to its question ``zc-out-0``). A list: the row is run once for each.
``each``
    Values; the row is run once with each of them in the place of ``{each}``.
``steps``
    What happens, in order. Each step is of one of the kinds that :mod:`conformance_play` knows.
``after``
    How it ends: ``usable`` (the default) or ``ended``.
``faults``
    How many warnings the row leaves in the daemon's log; left out, nobody looks.
``marks``
    Names of pytest's marks.

Bytes are text, or a list of parts: text, ``{hex = "ff"}``, ``{repeat = "[", times = 9}``, and once ``{pad = "x", line = 100}``,
which is as long as it takes for all of it and a line end to have that many bytes.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEMBERS = {"name", "requirements", "given", "each", "steps", "after", "faults", "marks"}
GIVEN = {"fresh", "initialized", "asking"}


@dataclass(frozen=True)
class Row:
    """One row, with one value of ``each`` and one of ``given``."""

    id: str
    requirements: tuple[str, ...]
    given: str
    steps: tuple[Mapping[str, Any], ...]
    after: str
    faults: int | None
    marks: tuple[str, ...]


def rows_of(file: Path) -> list[Row]:
    """Every row of a file.

    :raises AssertionError: the file says something that no row can say.
    """
    page = tomllib.loads(file.read_text(encoding="utf-8"))
    common = {name: value for name, value in page.items() if name != "rows"}
    assert common.keys() <= MEMBERS, f"{file.name} has unknown members"
    return [row for each in page["rows"] for row in _rows(file.stem, {**common, **each})]


def _rows(page: str, said: Mapping[str, Any]) -> Iterator[Row]:
    assert said.keys() <= MEMBERS, f"a row of {page} has unknown members: {said.keys() - MEMBERS}"
    assert said["requirements"], said["name"]
    given = [said["given"]] if isinstance(said["given"], str) else said["given"]
    assert set(given) <= GIVEN, given
    assert said.get("after", "usable") in ("usable", "ended")
    name = re.sub(r"\W+", "-", said["name"]).strip("-")
    for state in given:
        for number, value in enumerate(said.get("each", [None])):
            words = [
                page,
                name,
                *([str(number)] if "each" in said else []),
                *([state] if len(given) > 1 else []),
            ]
            yield Row(
                "-".join(words),
                tuple(said["requirements"]),
                state,
                tuple(said["steps"] if value is None else _filled(said["steps"], value)),
                said.get("after", "usable"),
                said.get("faults"),
                tuple(said.get("marks", ())),
            )


def _filled(said: Any, value: Any) -> Any:
    """The same with a value in each place of ``{each}``."""
    match said:
        case str() if isinstance(value, str):
            return said.replace("{each}", value)
        case str():
            before, found, after = said.partition("{each}")
            return [before, *value, after] if found else said
        case list():
            filled = [_filled(part, value) for part in said]
            return [deep for part in filled for deep in (part if isinstance(part, list) else [part])]
        case dict():
            return {name: _filled(part, value) for name, part in said.items()}
        case _:
            return said


def bytes_of(said: str | Sequence[Any], names: Mapping[str, str]) -> bytes:
    """What is to be written. ``names`` are put in the place of ``{name}``."""
    parts = [said] if isinstance(said, str) else said
    written: list[bytes] = []
    pad: tuple[int, bytes, int] | None = None
    for part in parts:
        match part:
            case str():
                written.append(_named(part, names).encode())
            case {"hex": str() as digits}:
                written.append(bytes.fromhex(digits))
            case {"repeat": str() as text, "times": int() as times}:
                written.append(text.encode() * times)
            case {"pad": str() as text, "line": int() as length}:
                assert pad is None
                assert len(text) == 1
                pad = (len(written), text.encode(), length)
            case _:
                raise AssertionError(f"no bytes: {part}")
    if pad is not None:
        place, text, length = pad
        written.insert(place, text * (length - 1 - sum(map(len, written))))
    return b"".join(written)


def text_of(said: str | Sequence[Any], names: Mapping[str, str]) -> str:
    """The same as text, for what is to be compared."""
    return bytes_of(said, names).decode()


def _named(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def matches(found: Any, wanted: Any) -> bool:
    """Whether a value is what is wanted: of an object the members that are named, anything else exactly, type included.

    The texts ``<any>``, ``<text>``, ``<integer>`` and ``<absent>`` stand for what they say, and ``<has …>`` for a text
    that contains it.
    """
    match wanted:
        case "<any>":
            return True
        case "<text>":
            return isinstance(found, str)
        case "<integer>":
            return type(found) is int
        case str() if wanted.startswith("<has ") and wanted.endswith(">"):
            return isinstance(found, str) and wanted[5:-1] in found
        case dict():
            return isinstance(found, dict) and all(
                name not in found if part == "<absent>" else name in found and matches(found[name], part)
                for name, part in wanted.items()
            )
        case list():
            return (
                isinstance(found, list)
                and len(found) == len(wanted)
                and all(matches(*pair) for pair in zip(found, wanted, strict=True))
            )
        case _:
            return type(found) is type(wanted) and found == wanted
