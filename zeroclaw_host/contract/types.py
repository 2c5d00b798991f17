"""The types of the component model as plain values, so that two of them can be compared and told apart in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Primitive:
    """``bool``, an integer, a float, ``char`` or ``string``."""

    name: str


@dataclass(frozen=True, slots=True)
class ListType:
    """``list<element>``."""

    element: WitType


@dataclass(frozen=True, slots=True)
class TupleType:
    """``tuple<...>``."""

    elements: tuple[WitType, ...]


@dataclass(frozen=True, slots=True)
class RecordType:
    """Named fields in order."""

    fields: tuple[tuple[str, WitType], ...]


@dataclass(frozen=True, slots=True)
class VariantType:
    """Named cases in order, each with a payload or None."""

    cases: tuple[tuple[str, WitType | None], ...]


@dataclass(frozen=True, slots=True)
class EnumType:
    """Named cases in order."""

    cases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FlagsType:
    """Named bits in order."""

    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OptionType:
    """``option<payload>``."""

    payload: WitType


@dataclass(frozen=True, slots=True)
class ResultType:
    """``result<ok, err>``; either may be absent."""

    ok: WitType | None
    err: WitType | None


@dataclass(frozen=True, slots=True)
class OwnType:
    """An owned handle. ``resource`` is ``interface#name``, as in ``wasi:io/poll#pollable``."""

    resource: str


@dataclass(frozen=True, slots=True)
class BorrowType:
    """A borrowed handle. ``resource`` as in :class:`OwnType`."""

    resource: str


WitType = (
    Primitive
    | ListType
    | TupleType
    | RecordType
    | VariantType
    | EnumType
    | FlagsType
    | OptionType
    | ResultType
    | OwnType
    | BorrowType
)


@dataclass(frozen=True, slots=True)
class FunctionType:
    """Parameters in order, and the result or None. Parameter names are documentation: the ABI does not carry them."""

    params: tuple[tuple[str, WitType], ...]
    result: WitType | None


@dataclass(frozen=True, slots=True)
class InterfaceType:
    """One interface: its functions under the names a component uses, its resources, its other named types."""

    name: str
    functions: Mapping[str, FunctionType]
    resources: tuple[str, ...]
    types: Mapping[str, WitType]


@dataclass(frozen=True, slots=True)
class WorldType:
    """The interfaces a world imports and exports, by name without version."""

    name: str
    imports: tuple[str, ...]
    exports: tuple[str, ...]


def describe(kind: WitType | None) -> str:
    """The type in WIT's own words, for messages."""
    match kind:
        case None:
            return "_"
        case Primitive(name):
            return name
        case ListType(element):
            return f"list<{describe(element)}>"
        case TupleType(elements):
            return f"tuple<{', '.join(map(describe, elements))}>"
        case RecordType(fields):
            return f"record {{ {', '.join(f'{name}: {describe(field)}' for name, field in fields)} }}"
        case VariantType(cases):
            words = (name if payload is None else f"{name}({describe(payload)})" for name, payload in cases)
            return f"variant {{ {', '.join(words)} }}"
        case EnumType(cases):
            return f"enum {{ {', '.join(cases)} }}"
        case FlagsType(labels):
            return f"flags {{ {', '.join(labels)} }}"
        case OptionType(payload):
            return f"option<{describe(payload)}>"
        case ResultType(None, None):
            return "result"
        case ResultType(ok, None):
            return f"result<{describe(ok)}>"
        case ResultType(ok, err):
            return f"result<{describe(ok)}, {describe(err)}>"
        case OwnType(resource):
            return resource.partition("#")[2]
        case BorrowType(resource):
            return f"borrow<{resource.partition('#')[2]}>"


def describe_function(function: FunctionType) -> str:
    """A function type in WIT's own words, for messages."""
    params = ", ".join(f"{name}: {describe(kind)}" for name, kind in function.params)
    result = "" if function.result is None else f" -> {describe(function.result)}"
    return f"func({params}){result}"
