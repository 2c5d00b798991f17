"""The schema read as a tree: what may stand at a dotted path.

:func:`step` is the one place that knows how pydantic's annotations are made of tables, maps, rows and values; paths,
suggestions, coercion and the reference page all walk the tree with it.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import AfterValidator, BaseModel, SecretStr
from pydantic.fields import FieldInfo

from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.config.section import Kept, Located, Reference
from zeroclaw_host.visible import is_plain


class ValueKind(StrEnum):
    """What kind of value a property holds."""

    BOOL = "bool"
    INTEGER = "integer"
    FLOAT = "float"
    TEXT = "string"
    ENUM = "enum"
    REFERENCE = "alias-ref"
    """A text that names a key of another map."""
    LIST = "string-array"
    OBJECT = "object"
    """A table of values that can be set as one."""
    ROWS = "object-array"
    """Rows without secrets that can be set as one."""
    SECRET = "secret"


@dataclass(frozen=True, slots=True)
class Value:
    """A property that can be read and set. ``choices`` are the words of an enum or of a list of them; ``minimum`` and
    ``maximum`` are of a number; ``filled`` says that a text or a list must not be empty;
    ``kept`` that only this program writes it; ``located`` that it names a file or directory. ``annotation`` is the type.
    """

    kind: ValueKind
    optional: bool = False
    choices: tuple[str, ...] = ()
    description: str = ""
    default: object = None
    required: bool = False
    kept: bool = False
    located: bool = False
    minimum: int | float | None = None
    maximum: int | float | None = None
    filled: bool = False
    annotation: Any = field(default=None, repr=False, compare=False)


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
    annotation: Any = field(default=None, repr=False, compare=False)

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
        elif not key or not is_plain(key):
            raise ValueError("a name here is any text without control characters")


@dataclass(frozen=True, slots=True)
class RowsOf:
    """An array of tables whose rows are addressed by their ``name``."""

    model: type[BaseModel]
    description: str = ""
    annotation: Any = field(default=None, repr=False, compare=False)


Node = Value | TableOf | MapOf | RowsOf

ROOT = TableOf(Config)


def step(node: Node, key: str) -> Node | None:
    """What stands under ``key`` in this node, or None when nothing may."""
    match node:
        case TableOf(model):
            return _field_node(model, key) if key in model.model_fields else None
        case MapOf():
            return _element_node(node.element, node.description)
        case RowsOf(model):
            return _row_node(model)
        case Value():
            return None


def children(node: Node) -> tuple[str, ...]:
    """The fixed keys of a table; nothing for the other kinds."""
    return tuple(node.model.model_fields) if isinstance(node, TableOf) else ()


def takes_values(node: Node) -> bool:
    """Whether the node is a map of values. Its keys may hold dots: what is left of a path is one key."""
    return isinstance(node, MapOf) and isinstance(step(node, ""), Value)


def as_value(node: Node | None) -> Value | None:
    """The value at a node: its own, or the whole of a map of values or of rows where no secret is among them."""
    match node:
        case Value():
            return node
        case MapOf() if takes_values(node) and not holds_secrets(node):
            return Value(
                ValueKind.OBJECT, description=node.description, default={}, annotation=node.annotation
            )
        case RowsOf() if not holds_secrets(node):
            return Value(ValueKind.ROWS, description=node.description, default=(), annotation=node.annotation)
        case _:
            return None


def holds_secrets(node: Node) -> bool:
    """Whether there is a secret at or below the node."""
    match node:
        case Value():
            return node.kind is ValueKind.SECRET
        case TableOf():
            below = [step(node, key) for key in children(node)]
        case MapOf() | RowsOf():
            below = [step(node, "")]
    return any(holds_secrets(inner) for inner in below if inner is not None)


def table_at(root: type[BaseModel], path: Sequence[str | int]) -> type[BaseModel] | None:
    """The fixed table at a path of keys and indexes."""
    node: Node | None = TableOf(root)
    for part in path:
        node = None if node is None else step(node, str(part))
    return node.model if isinstance(node, TableOf) else None


@cache
def _field_node(model: type[BaseModel], key: str) -> Node:
    info = model.model_fields[key]
    return _node(info.annotation, info)


@cache
def _element_node(annotation: Any, description: str) -> Node:
    below = _node(annotation, None)
    return replace(below, description=description) if isinstance(below, Value) else below


@cache
def _row_node(model: type[BaseModel]) -> Node:
    return TableOf(model)


def _node(annotation: Any, info: FieldInfo | None) -> Node:
    description = (info.description or "") if info is not None else ""
    annotation, optional = _without_none(annotation)
    metadata = list(info.metadata) if info is not None else []
    if get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        metadata += more
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return TableOf(annotation, description)
    if origin is Mapping:
        return MapOf(arguments[0], arguments[1], description, annotation)
    if origin is tuple and isinstance(arguments[0], type) and issubclass(arguments[0], BaseModel):
        return RowsOf(arguments[0], description, annotation)
    kind, choices = _kind(annotation, origin, arguments)
    if any(isinstance(mark, Reference) for mark in metadata):
        kind = ValueKind.REFERENCE
    required = info is not None and info.is_required()
    return Value(
        kind,
        optional,
        choices,
        description,
        default=None if info is None or required else info.get_default(call_default_factory=False),
        required=required,
        kept=any(isinstance(mark, Kept) for mark in metadata),
        located=any(isinstance(mark, Located) for mark in metadata),
        minimum=_bound(metadata, "ge"),
        maximum=_bound(metadata, "le"),
        filled=bool(_bound(metadata, "min_length")),
        annotation=annotation,
    )


def _bound(metadata: Sequence[object], name: str) -> Any:
    return next((getattr(mark, name) for mark in metadata if hasattr(mark, name)), None)


def _kind(annotation: Any, origin: Any, arguments: tuple[Any, ...]) -> tuple[ValueKind, tuple[str, ...]]:
    if origin is Literal:
        return ValueKind.ENUM, arguments
    if origin is tuple:
        return ValueKind.LIST, get_args(arguments[0]) if get_origin(arguments[0]) is Literal else ()
    kinds = {
        bool: ValueKind.BOOL,
        int: ValueKind.INTEGER,
        float: ValueKind.FLOAT,
        str: ValueKind.TEXT,
        SecretStr: ValueKind.SECRET,
    }
    return kinds[annotation], ()


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation, False
    rest = [argument for argument in get_args(annotation) if argument is not type(None)]
    return rest[0], True
