"""Writing values into the tables of a document, in the form that is there."""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence, Sequence
from typing import Final, cast

import tomlkit
from tomlkit.items import AoT, Array, InlineTable, Item, Table

from zeroclaw_daemon.config.document.fidelity import plain, read_back, same_value
from zeroclaw_daemon.config.document.remarks import above_the_tables
from zeroclaw_daemon.config.document.tree import Writable

_WRAP_LISTS_FROM: Final = 3
"""A list of this many texts is written one a line, so that a change of one shows as one line."""


def write(table: Writable, key: str, value: object) -> None:
    """Write a value, unless it is there already: then its text stays, however it is written."""
    present: object = table.get(key)
    if present is not None and same_value(plain(present), value):
        return
    match present, value:
        case Table(), dict():
            _merge(present, cast("Mapping[str, object]", value))
        case AoT(), list() if not value:
            # Rows under headers cannot be written empty.
            del table[key]
            with above_the_tables(table):
                table[key] = tomlkit.array()
        case AoT(), list():
            rows = cast("list[Mapping[str, object]]", value)
            for row, wanted in zip(present.body, rows, strict=False):
                _merge(row, wanted)
            while len(present) > len(rows):
                del present[len(present) - 1]
            for wanted in rows[len(present) :]:
                row = tomlkit.table()
                _merge(row, wanted)
                cast("MutableSequence[object]", present).append(row)
        case Array(), list() if (kept := _remarked_list(present, cast("list[object]", value))) is not None:
            table[key] = kept
        case None, _:
            with above_the_tables(table):
                table[key] = _item(value, wraps=isinstance(table, Table))
        case _:
            table[key] = _item(value, wraps=isinstance(table, Table))


def new_table(around: Writable, *, implicit: bool = False) -> Item:
    """An empty table in the form that what is around it has; an implicit one has no header of its own."""
    return (
        tomlkit.inline_table() if isinstance(around, InlineTable) else tomlkit.table(is_super_table=implicit)
    )


def _merge(table: object, wanted: Mapping[str, object]) -> None:
    present = cast("Writable", table)
    for key in [key for key in present if key not in wanted]:
        del present[key]
    for key, value in wanted.items():
        write(present, key, value)


def _remarked_list(present: Array, wanted: Sequence[object]) -> Array | None:
    """The list with elements taken out or added at its end, so that the comments of the others stay; None for other changes.

    tomlkit puts no comma between a last element and a comment below it; then that element is written anew below the comment.
    """
    text = present.as_string()
    if "#" not in text:
        return None
    for anew in (0, 1):
        changed = read_back(text)
        if not isinstance(changed, Array):
            return None
        elements = cast("MutableSequence[object]", changed)
        for index in reversed(range(len(elements))):
            if plain(elements[index]) not in wanted:
                del elements[index]
        if anew and len(elements):
            del elements[len(elements) - 1]
        for element in wanted[len(elements) :]:
            elements.append(element)
        if same_value(plain(read_back(changed.as_string())), wanted):
            return changed
    return None


def _item(value: object, *, wraps: bool) -> object:
    match value:
        case list() | tuple():
            array = tomlkit.array()
            for element in cast("Sequence[object]", value):
                cast("MutableSequence[object]", array).append(_item(element, wraps=False))
            return array.multiline(wraps and len(array) >= _WRAP_LISTS_FROM)
        case dict():
            table = tomlkit.inline_table()
            for key, element in cast("dict[str, object]", value).items():
                cast("Writable", table)[key] = _item(element, wraps=False)
            return table
        case _:
            return value
