"""Setting properties in a document, and in the file that holds it."""

from __future__ import annotations

from collections.abc import MutableMapping, MutableSequence, Sequence
from pathlib import Path
from typing import Any, cast

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.items import AoT, Array, Table

from zeroclaw_daemon.config.file import Snapshot, edit
from zeroclaw_daemon.config.properties import PropertyValueInvalid, UnknownProperty, coerce, find_value
from zeroclaw_daemon.config.saving import Steps
from zeroclaw_daemon.config.shape import Value, ValueKind

Writable = MutableMapping[str, Any]

_WRAP_LISTS_FROM = 3
"""A list of this many texts is written one a line, so that a change of one shows as one line."""


def set_properties(
    path: Path, values: Sequence[tuple[str, object]], *, steps: Steps | None = None
) -> Snapshot:
    """Set properties in the file, all or none, in this order.

    :param values: dotted paths and JSON values or texts.
    :raises UnknownProperty: a path names nothing.
    :raises PropertyValueInvalid: a value does not fit its property.
    :raises ConfigFileInvalid: the file is no longer valid as a whole, or was not before.
    """

    def change(document: TOMLDocument) -> None:
        for dotted, value in values:
            assign(document, dotted, value)

    return edit(path, change, steps=steps)


def append_property(path: Path, dotted: str, value: str, *, steps: Steps | None = None) -> Snapshot:
    """Add elements to a list property of the file, leaving out those it has.

    :raises UnknownProperty: the path names nothing.
    :raises PropertyValueInvalid: the property is no list.
    """

    def change(document: TOMLDocument) -> None:
        segments = dotted.split(".")
        added = cast("list[str]", coerce(_list_type(dotted, segments), value, path=dotted))
        table = _table(document, segments)
        present = [str(element) for element in cast("Sequence[object]", table.get(segments[-1], ()))]
        _write(table, segments[-1], [*present, *(each for each in added if each not in present)])

    return edit(path, change, steps=steps)


def unset_property(path: Path, dotted: str, *, steps: Steps | None = None) -> Snapshot:
    """Take a property out of the file, secrets included. One that is not there is left out already.

    :raises UnknownProperty: the path names nothing.
    :raises ConfigFileInvalid: the file is no longer valid as a whole, or was not before.
    """
    segments = dotted.split(".")
    find_value(segments)

    def change(document: TOMLDocument) -> None:
        if _exists(document, segments):
            del _table(document, segments)[segments[-1]]

    return edit(path, change, steps=steps)


def assign(document: TOMLDocument, dotted: str, value: object) -> None:
    """Set one property in the document; None and, for optional properties, the empty text unset it."""
    segments = dotted.split(".")
    wanted = coerce(find_value(segments), value, path=dotted)
    if wanted is not None:
        _write(_table(document, segments), segments[-1], wanted)
    elif _exists(document, segments):
        del _table(document, segments)[segments[-1]]


def _list_type(dotted: str, segments: Sequence[str]) -> Value:
    found = find_value(segments)
    if found.kind is not ValueKind.LIST:
        raise PropertyValueInvalid(f"{dotted}: is no list", details={"property": dotted})
    return found


def _exists(document: TOMLDocument, segments: Sequence[str]) -> bool:
    node: object = document
    for segment in segments:
        if isinstance(node, MutableMapping):
            node = cast("Writable", node).get(segment)
        elif isinstance(node, (AoT, Array)):
            rows = [
                cast("Writable", row)
                for row in cast("Sequence[object]", node)
                if isinstance(row, MutableMapping)
            ]
            node = next((row for row in rows if row.get("name") == segment), None)
        else:
            return False
    return node is not None


def _table(document: TOMLDocument, segments: Sequence[str]) -> Writable:
    """The table that holds the property; tables on the way are made, rows are not."""
    table = cast("Writable", document)
    position = 0
    while position < len(segments) - 1:
        key = segments[position]
        inner: object = table.get(key)
        if isinstance(inner, (AoT, Array)):
            position += 1
            table = _row(cast("Sequence[object]", inner), segments, position)
        elif inner is None:
            if key == "entries" or key == "tls_profiles":
                raise _no_row(segments, position + 1)
            table[key] = tomlkit.table(is_super_table=position < len(segments) - 2)
            table = cast("Writable", table[key])
        else:
            table = cast("Writable", inner)
        position += 1
    return table


def _row(rows: Sequence[object], segments: Sequence[str], position: int) -> Writable:
    for row in rows:
        if isinstance(row, MutableMapping) and cast("Writable", row).get("name") == segments[position]:
            return cast("Writable", row)
    known = [str(cast("Writable", row).get("name")) for row in rows if isinstance(row, MutableMapping)]
    raise _no_row(segments, position, known)


def _no_row(segments: Sequence[str], position: int, known: Sequence[str] = ()) -> UnknownProperty:
    path = ".".join(segments)
    return UnknownProperty(
        f"Unknown property {path}: there is no row {segments[position]}; there is {', '.join(known) or 'none'}",
        details={"property": path, "rows": tuple(known)},
    )


def _write(table: Writable, key: str, value: object) -> None:
    if isinstance(value, list):
        texts = cast("list[str]", value)
        array = cast("MutableSequence[object]", tomlkit.array())
        array.extend(texts)
        value = cast("Array", array).multiline(len(texts) >= _WRAP_LISTS_FROM and isinstance(table, Table))
    table[key] = value
