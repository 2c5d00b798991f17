"""Finding one's way in a document of the configuration: by keys, and by the names of rows."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any, cast

from tomlkit import TOMLDocument
from tomlkit.items import AoT, Array

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
