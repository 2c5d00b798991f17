"""The schema read as a tree: what may stand at a dotted path.

:func:`step` is the one place that knows how pydantic's annotations are made of tables, maps, rows and values; paths,
suggestions, coercion and the reference page all walk the tree with it.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import AfterValidator, BaseModel, SecretStr
from pydantic.fields import FieldInfo

from zeroclaw_daemon.config.schema import Config


class ValueKind(StrEnum):
    """What kind of value a property holds."""

    BOOL = "bool"
    INTEGER = "integer"
    TEXT = "string"
    ENUM = "enum"
    LIST = "string-array"
    SECRET = "secret"


@dataclass(frozen=True, slots=True)
class Value:
    """A leaf: one property that can be read and set. ``choices`` are the words of an enum or of a list of them."""

    kind: ValueKind
    optional: bool = False
    choices: tuple[str, ...] = ()
    description: str = ""
    default: object = None


@dataclass(frozen=True, slots=True)
class TableOf:
    """A table with fixed keys."""

    model: type[BaseModel]
    description: str = ""


@dataclass(frozen=True, slots=True)
class MapOf:
    """A table whose keys an operator chooses. ``key_rule`` raises ``ValueError`` for a key that breaks the grammar."""

    key: Any
    element: Any
    description: str = ""

    def check_key(self, key: str) -> None:
        """:raises ValueError: the key breaks the grammar of this map's keys."""
        origin, arguments = get_origin(self.key), get_args(self.key)
        if origin is Literal:
            if key not in arguments:
                raise ValueError(f"must be one of {', '.join(arguments)}")
        elif origin is Annotated:
            for validator in arguments[1:]:
                if isinstance(validator, AfterValidator):
                    cast("Any", validator.func)(key)
        elif not key:
            raise ValueError("a key must not be empty")


@dataclass(frozen=True, slots=True)
class RowsOf:
    """An array of tables whose rows are addressed by their ``name``."""

    model: type[BaseModel]
    description: str = ""


Node = Value | TableOf | MapOf | RowsOf

ROOT = TableOf(Config)
DESCRIPTION_OF_MAPPED_SECRET = "One property of the instance's configuration, as text."


def step(node: Node, key: str) -> Node | None:
    """What stands under ``key`` in this node, or None when nothing may."""
    match node:
        case TableOf(model):
            field = model.model_fields.get(key)
            return None if field is None else _node(field.annotation, field)
        case MapOf():
            return _node(node.element, None)
        case RowsOf(model):
            return TableOf(model)
        case Value():
            return None


def children(node: Node) -> tuple[str, ...]:
    """The fixed keys of a table; nothing for the other kinds."""
    return tuple(node.model.model_fields) if isinstance(node, TableOf) else ()


def table_at(root: type[BaseModel], path: Sequence[str | int]) -> type[BaseModel] | None:
    """The fixed table at a path of keys and indexes."""
    node: Node | None = TableOf(root)
    for part in path:
        node = None if node is None else step(node, str(part))
    return node.model if isinstance(node, TableOf) else None


def _node(annotation: Any, field: FieldInfo | None) -> Node:
    description = (field.description or "") if field is not None else ""
    annotation, optional = _without_none(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        annotation = arguments[0]
        origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return TableOf(annotation, description)
    if origin is Mapping:
        return MapOf(arguments[0], arguments[1], description)
    if origin is tuple and isinstance(arguments[0], type) and issubclass(arguments[0], BaseModel):
        return RowsOf(arguments[0], description)
    default: object = None if field is None else field.get_default(call_default_factory=False)
    kind, choices = _kind(annotation, origin, arguments)
    return Value(kind, optional, choices, description or DESCRIPTION_OF_MAPPED_SECRET, default)


def _kind(annotation: Any, origin: Any, arguments: tuple[Any, ...]) -> tuple[ValueKind, tuple[str, ...]]:
    if origin is Literal:
        return ValueKind.ENUM, arguments
    if origin is tuple:
        return ValueKind.LIST, get_args(arguments[0]) if get_origin(arguments[0]) is Literal else ()
    kinds = {bool: ValueKind.BOOL, int: ValueKind.INTEGER, str: ValueKind.TEXT, SecretStr: ValueKind.SECRET}
    return kinds[annotation], ()


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation, False
    rest = [argument for argument in get_args(annotation) if argument is not type(None)]
    return rest[0], True
