"""Where in a TOML text a key stands.

No TOML library of Python keeps positions. tomlkit keeps every character, though: a marker put in front of one item
comes out, when the document is written, exactly at that item's place.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import tomlkit
from tomlkit.container import Container
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, InlineTable, Item, Table

_MARKER: Final = "\ue000"
_TOMLLIB_POSITION = re.compile(r"\(at line (\d+), column (\d+)\)")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line and a column of a text, both counted from 1, columns in characters."""

    line: int
    column: int


def place_of_syntax_error(error: tomllib.TOMLDecodeError, text: str) -> Place:
    """Where the parser gave up; the end of the text when it missed something there."""
    found = _TOMLLIB_POSITION.search(str(error))
    return Place(int(found[1]), int(found[2])) if found else place_of_offset(text, len(text))


def place_of_offset(text: str, offset: int) -> Place:
    """The place of the character at this offset."""
    start = text.rfind("\n", 0, offset) + 1
    return Place(text.count("\n", 0, offset) + 1, offset - start + 1)


def locate(text: str, path: Sequence[str | int]) -> Place | None:
    """Where the key or row at this path stands, or else the nearest table around it that stands anywhere.

    :param path: keys, and indexes into arrays of tables.
    :param text: a TOML document; the answer for anything else is None.
    """
    if _MARKER in text:
        return None
    for length in range(len(path), 0, -1):
        try:
            document = tomlkit.parse(text)
        except TOMLKitError:
            return None
        for item in _descend(document, path[:length]):
            place = _mark(document, item, text)
            if place is not None:
                return place
    return None


def _descend(node: object, path: Sequence[str | int]) -> Iterator[Item]:
    """Every item at the path: a table may be written in several places."""
    if not path:
        if isinstance(node, Item):
            yield node
        return
    for child in _children(node, path[0]):
        yield from _descend(child, path[1:])


def _children(node: object, segment: str | int) -> Iterator[object]:
    match node, segment:
        case AoT(), int():
            yield from node.body[segment : segment + 1]
        case ((Table() | InlineTable()), str()):
            yield from _children(node.value, segment)
        case Container(), str():
            yield from (item for key, item in node.body if key is not None and key.key == segment)
        case _:
            return


def _mark(document: tomlkit.TOMLDocument, item: Item, text: str) -> Place | None:
    """The place of an item, or of the first thing in it that is written out."""
    for candidate in (item, *_inside(item)):
        indent = candidate.trivia.indent
        candidate.trivia.indent = indent + _MARKER
        offset = document.as_string().find(_MARKER)
        candidate.trivia.indent = indent
        if offset >= 0:
            return place_of_offset(text, offset)
    return None


def _inside(item: Item) -> Iterator[Item]:
    match item:
        case AoT():
            yield from item.body
        case Table() | InlineTable():
            for key, child in item.value.body:
                if key is not None:
                    yield child
                    yield from _inside(child)
        case _:
            return
