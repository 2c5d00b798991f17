"""Finding one's way in a document of the configuration: by keys, and by the names of rows."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any, cast

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.container import Container
from tomlkit.items import AoT, Array, Item, Key, Null, Table

Writable = MutableMapping[str, Any]
"""A table of a document."""


def find(document: TOMLDocument, segments: Sequence[str]) -> object:
    """What stands at the path, or None."""
    node: object = document
    for segment in segments:
        if isinstance(node, MutableMapping):
            node = cast("Writable", node).get(segment)
        elif isinstance(node, (AoT, Array)):
            rows = cast("Sequence[object]", node)
            node = next((row for row in rows if name_of(row) == segment), None)
        else:
            return None
    return node


def stand_apart(document: TOMLDocument, segments: Sequence[str]) -> bool:
    """Whether other tables stand between the rows at the path: :func:`find` gives a copy of them then, and no change of that
    changes the document."""
    return len(_runs(document, segments)) > 1


def drop_row(document: TOMLDocument, segments: Sequence[str], name: str) -> TOMLDocument:
    """The document without the row of this name, wherever it stands. The one that was given is used up."""
    for body, index, rows in _runs(document, segments):
        position = next((at for at, row in enumerate(rows.body) if name_of(row) == name), None)
        if position is not None:
            del rows[position]
        if not rows.body:
            body[index] = (None, Null())
    return tomlkit.parse(document.as_string())


_Body = list[tuple[Key | None, Item]]


def _runs(container: Container, segments: Sequence[str]) -> list[tuple[_Body, int, AoT]]:
    """Each run of rows at the path, with where it stands."""
    found: list[tuple[_Body, int, AoT]] = []
    for index, (key, item) in enumerate(container.body):
        if key is None or key.key != segments[0]:
            continue
        if len(segments) == 1 and isinstance(item, AoT):
            found.append((container.body, index, item))
        elif len(segments) > 1 and isinstance(item, Table):
            found += _runs(item.value, segments[1:])
    return found


def with_indexes(document: TOMLDocument, segments: Sequence[str]) -> tuple[str | int, ...]:
    """The path with the names of rows as their indexes; everything on it exists."""
    path: list[str | int] = []
    for position, segment in enumerate(segments):
        around = find(document, segments[:position])
        if isinstance(around, (AoT, Array)):
            path.append(list(map(name_of, cast("Sequence[object]", around))).index(segment))
        else:
            path.append(segment)
    return tuple(path)


def name_of(row: object) -> object:
    """What a row is called; None for what has no name."""
    return cast("Writable", row).get("name") if isinstance(row, MutableMapping) else None


def keys_in(around: object) -> list[str]:
    """The keys of a table, or the names of the rows that have one."""
    if isinstance(around, (AoT, Array)):
        return [str(name) for name in map(name_of, cast("Sequence[object]", around)) if name is not None]
    return list(cast("Writable", around)) if isinstance(around, MutableMapping) else []
