"""Single properties by dotted path: finding, reading and listing them.

The grammar is ``section.field``, ``map.<alias>.field`` and ``plugins.entries.<key>.field``. Below a map of values the rest of
the path is one key, dots and all: ``plugins.entries.<key>.config.a.b`` is the value named ``a.b``. A map's missing key is made
by the first property set under it, a missing row never is (PLG-217).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from pydantic import BaseModel, SecretStr

from zeroclaw_daemon.config.coercion import (
    MASK,
    PropertyError,
    PropertyValueInvalid,
)
from zeroclaw_daemon.config.schema import MOVED, Config
from zeroclaw_daemon.config.shape import (
    ROOT,
    MapOf,
    Node,
    RowsOf,
    TableOf,
    Value,
    as_value,
    children,
    step,
    takes_values,
)
from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_host.errors import Kind
from zeroclaw_host.visible import is_plain

UNSET: Final = "<unset>"
"""Stands for the absence of a value wherever one is shown."""
_SUGGESTIONS: Final = 3


class UnknownProperty(PropertyError):
    """There is no such property. ``details`` holds ``suggestions``, the closest that there are (D-07)."""

    code = "unknown_property"
    kind = Kind.NOT_FOUND


@dataclass(frozen=True, slots=True)
class Property:
    """One property and what it is now, as JSON has it. ``value`` of a secret is :data:`MASK` or None, never the secret."""

    path: str
    type: Value
    value: object
    populated: bool

    @property
    def shown(self) -> str:
        """The value as one line of text."""
        if self.value is None:
            return UNSET
        return str(self.value) if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)


def get_property(config: Config, path: str) -> Property:
    """The property at this path.

    :raises UnknownProperty: there is none.
    """
    for each in list_properties(config, path):
        if each.path == path:
            return each
    raise unknown_property(path, config)


def list_properties(config: Config, prefix: str = "") -> Iterator[Property]:
    """Every property there is now, in the schema's order; with a prefix, it and what is below it.

    A map of values, and rows without secrets, are listed as a whole and then one by one. What no path can name, such as a row
    whose name holds a dot, is left out: it is there, and can be changed in the file only.
    """
    below = f"{prefix.rstrip('.')}."
    for each in _walk(ROOT, config, (), populated=True):
        if not prefix or each.path == prefix or each.path.startswith(below):
            yield each


def segments_of(path: str) -> tuple[str, ...]:
    """The keys and row names that lead to a property."""
    node: Node | None = ROOT
    segments: list[str] = []
    rest = path
    while node is None or not takes_values(node):
        segment, dot, rest = rest.partition(".")
        segments.append(segment)
        if not dot:
            return tuple(segments)
        node = None if node is None else step(node, segment)
    return (*segments, rest)


def instance_property(path: str) -> tuple[str, str] | None:
    """Where a path leads to what a plugin instance is told: the name of the row, and the property's. None for other paths."""
    match segments_of(path):
        case ("plugins", "entries", row, "config", name):
            return row, name
        case _:
            return None


def node_at(path: str, config: Config | None = None) -> Node:
    """What the schema has at this path, whether or not anything is there now.

    :param config: where suggestions come from besides the schema.
    :raises UnknownProperty: the schema has nothing there.
    :raises PropertyValueInvalid: a name on the way breaks the grammar of names there.
    """
    node: Node | None = ROOT
    for segment in segments_of(path):
        if isinstance(node, MapOf):
            try:
                node.check_key(segment)
            except ValueError as error:
                raise PropertyValueInvalid(
                    f"{path}: {segment!r}: {error}", details={"property": path}
                ) from None
        node = None if node is None else step(node, segment)
    if node is None:
        raise unknown_property(path, config)
    return node


def find_value(path: str | Sequence[str], config: Config | None = None) -> Value:
    """The type of the property at this path, whether or not anything is there now.

    :param config: where suggestions come from besides the schema.
    :raises UnknownProperty: the schema has no such property.
    :raises PropertyValueInvalid: a name on the way breaks the grammar of names there.
    """
    dotted = path if isinstance(path, str) else ".".join(path)
    found = as_value(node_at(dotted, config))
    if found is None:
        raise unknown_property(dotted, config)
    if found.kept:
        raise PropertyValueInvalid(
            f"{dotted}: only the program itself writes it", details={"property": dotted}
        )
    return found


def _walk(node: Node, current: object, path: tuple[str, ...], *, populated: bool) -> Iterator[Property]:
    whole = as_value(node)
    if whole is not None and not whole.kept:
        is_set = populated and current is not None and (isinstance(node, Value) or bool(current))
        yield Property(".".join(path), whole, as_json(current), is_set)
    match node:
        case Value():
            return
        case TableOf():
            model = cast("BaseModel", current)
            for key in children(node):
                inner = step(node, key)
                if inner is not None:
                    is_set = populated and key in model.model_fields_set
                    yield from _walk(inner, getattr(model, key), (*path, key), populated=is_set)
        case MapOf():
            for key, element in cast("Mapping[str, object]", current).items():
                inner = step(node, key)
                if inner is not None and (is_plain(key) if takes_values(node) else _is_segment(key)):
                    yield from _walk(inner, element, (*path, key), populated=populated)
        case RowsOf(model):
            for row in cast("tuple[BaseModel, ...]", current):
                name = str(getattr(row, "name", ""))
                if _is_segment(name):
                    yield from _walk(TableOf(model), row, (*path, name), populated=populated)


def _is_segment(key: str) -> bool:
    return bool(key) and "." not in key and is_plain(key)


def as_json(value: object, *, defaults: bool = False) -> JsonValue:
    """A value of the configuration, or all of it, as JSON has it, with :data:`MASK` in place of every secret.

    :param defaults: whether what nobody set is there as well.
    """
    match value:
        case SecretStr():
            return MASK
        case BaseModel():
            members = ((name, getattr(value, name)) for name in type(value).model_fields)
            return {
                name: as_json(element, defaults=defaults)
                for name, element in members
                if defaults or (name in value.model_fields_set and element is not None)
            }
        case Mapping():
            keyed = cast("Mapping[str, object]", value).items()
            return {key: as_json(element, defaults=defaults) for key, element in keyed}
        case tuple():
            return [as_json(element, defaults=defaults) for element in cast("tuple[object, ...]", value)]
        case _:
            return cast("JsonValue", value)


def unknown_property(path: str, config: Config | None = None) -> UnknownProperty:
    """The error of a path that names no property, with the closest that there are."""
    known = [each.path for each in list_properties(config or Config())]
    inside = [each for each in known if each.startswith(f"{path}.")] or _inside(path)
    if inside:
        return UnknownProperty(
            f"Unknown property {path}: it is a section; in it there is {', '.join(inside[:_SUGGESTIONS])}"
            f"{' and more' if len(inside) > _SUGGESTIONS else ''}",
            details={"property": path, "suggestions": tuple(inside[:_SUGGESTIONS])},
        )
    close = _moved(path) or _mended(path) or difflib.get_close_matches(path, known, n=_SUGGESTIONS)
    hint = f"; the closest are {', '.join(close)}" if close else ""
    return UnknownProperty(
        f"Unknown property {path}{hint}", details={"property": path, "suggestions": tuple(close)}
    )


def _inside(path: str) -> list[str]:
    """What the schema has below a table that need not be there."""
    node: Node | None = ROOT
    for segment in segments_of(path):
        node = None if node is None else step(node, segment)
    return [f"{path}.{key}" for key in children(node)] if isinstance(node, TableOf) else []


def _moved(path: str) -> list[str]:
    return [MOVED[path]] if path in MOVED else []


def _mended(path: str) -> list[str]:
    """The path with its first unknown key replaced by the closest ones of that table, where that gives a property."""
    node: Node = ROOT
    segments = segments_of(path)
    for position, segment in enumerate(segments):
        inner = step(node, segment)
        if inner is None:
            close = difflib.get_close_matches(segment, children(node), n=_SUGGESTIONS)
            candidates = [(*segments[:position], key, *segments[position + 1 :]) for key in close]
            return [".".join(each) for each in candidates if _names_value(each)]
        node = inner
    return []


def _names_value(segments: Sequence[str]) -> bool:
    node: Node | None = ROOT
    for segment in segments:
        if isinstance(node, MapOf):
            try:
                node.check_key(segment)
            except ValueError:
                return False
        node = None if node is None else step(node, segment)
    return as_value(node) is not None
