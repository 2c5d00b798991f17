"""Whether an edited document means what it holds. tomlkit keeps every character, and writes some edits of dotted keys wrong."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.container import Container
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Array, InlineTable, Table


def faithful(document: TOMLDocument, text: str | None = None) -> bool:
    """Whether the document's text means what the document holds.

    :param text: the text, where it was made already.
    """
    try:
        return same_value(tomllib.loads(text or document.as_string()), _held(document))
    except (tomllib.TOMLDecodeError, TOMLKitError):
        return False


def _held(node: object) -> object:
    """The values of a document, without what no text shows: arrays of no tables, and tables that only hold such."""
    match node:
        case Mapping():
            held: dict[str, object] = {}
            for key, inner in cast("Mapping[str, object]", node).items():
                value = _held(inner)
                unseen = isinstance(inner, AoT) or (isinstance(inner, Table) and inner.is_super_table())
                if value or not unseen:
                    held[key] = value
            return held
        case AoT() | Array():
            return [_held(inner) for inner in cast("Sequence[object]", node)]
        case _:
            return plain(node)


def read_back(text: str) -> object:
    """The item that the text of a value is; None where it is none."""
    try:
        return cast("Mapping[str, object]", tomlkit.parse(f"value = {text}\n"))["value"]
    except TOMLKitError:
        return None


def plain(value: object) -> object:
    """An item's value as tomllib would have it."""
    return cast("Any", value).unwrap() if hasattr(value, "unwrap") else value


def same_value(left: object, right: object) -> bool:
    """Equal, and of the same types: 1 is not true."""
    match left, right:
        case dict(), dict():
            mine, other = cast("dict[str, object]", left), cast("dict[str, object]", right)
            return mine.keys() == other.keys() and all(same_value(mine[key], other[key]) for key in mine)
        case ((list() | tuple()), (list() | tuple())):
            one, two = cast("Sequence[object]", left), cast("Sequence[object]", right)
            return len(one) == len(two) and all(map(same_value, one, two))
        case _:
            return type(left) is type(right) and left == right


def has_dotted_keys(node: object) -> bool:
    """Whether anything in a document is assigned to a dotted key."""
    match node:
        case Container():
            return any(
                (key is not None and key.is_dotted()) or has_dotted_keys(item) for key, item in node.body
            )
        case Table() | InlineTable():
            return has_dotted_keys(node.value)
        case AoT():
            return any(map(has_dotted_keys, node.body))
        case _:
            return False
