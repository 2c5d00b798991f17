"""JSON as the arguments of a function of the host, by the function's annotations.

Objects become dataclasses, texts become enum cases or categories of a memory. Bytes are written as a text, or as
``{"base64": "..."}`` or ``{"file": "path"}``.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from zeroclaw_host.errors import UsageError
from zeroclaw_host.worlds.kinds import MemoryCategory
from zeroclaw_sdk.files import read_file
from zeroclaw_sdk.trial import run_help

_NOUNS: typing.Final[Mapping[object, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def arguments_of(function: Callable[..., Any], given: Mapping[str, object]) -> dict[str, Any]:
    """Keyword arguments of a method, from the members of a JSON object.

    :raises UsageError: a parameter is missing, unknown or of another type.
    :raises StorageError: a file that is named cannot be read.
    """
    return _members(
        typing.get_type_hints(function),
        {
            each.name: each.default is not inspect.Parameter.empty
            for each in inspect.signature(function).parameters.values()
            if each.name not in ("self", "call_site")
        },
        given,
        function.__name__,
    )


def value_of(kind: Any, value: object, where: str) -> Any:
    """A value of an annotated type, from JSON.

    :raises UsageError: it has another type.
    :raises StorageError: a file that is named cannot be read.
    """
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else value_of(inner[0], value, where)
    if origin is tuple and Ellipsis not in inner:
        values = _list(value, where)
        if len(values) != len(inner):
            raise _wrong(where, f"an array of {len(inner)}")
        return tuple(value_of(inner[index], each, f"{where}[{index}]") for index, each in enumerate(values))
    if origin in (tuple, Sequence):
        return tuple(
            value_of(inner[0], each, f"{where}[{index}]") for index, each in enumerate(_list(value, where))
        )
    if kind is bytes:
        return _bytes(value, where)
    if kind is MemoryCategory:
        name = value_of(str, value, where)
        return MemoryCategory(name, custom=name not in ("core", "daily", "conversation"))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _case(kind, value, where)
    if dataclasses.is_dataclass(cast("object", kind)):
        return _dataclass(cast("type[Any]", kind), value, where)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _wrong(where, _NOUNS[kind])
    return value


def _dataclass(kind: type[Any], value: object, where: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(where, "an object")
    optional = {
        each.name: each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
        for each in dataclasses.fields(kind)
    }
    return kind(**_members(typing.get_type_hints(kind), optional, cast("dict[str, object]", value), where))


def _members(
    kinds: Mapping[str, Any], optional: Mapping[str, bool], given: Mapping[str, object], where: str
) -> dict[str, Any]:
    members = {name.replace("-", "_"): value for name, value in given.items()}
    for name in members:
        if name not in optional:
            raise UsageError(
                f"{where}: {name} is unknown; there are {', '.join(optional) or 'none'}", remedy=run_help()
            )
    for name, may_be_absent in optional.items():
        if name not in members and not may_be_absent:
            raise UsageError(f"{where}: {name} is missing", remedy=run_help())
    return {name: value_of(kinds[name], value, f"{where}.{name}") for name, value in members.items()}


def _case(kind: type[enum.Enum], value: object, where: str) -> enum.Enum:
    try:
        return kind(value)
    except ValueError:
        raise _wrong(where, "one of " + ", ".join(str(each.value) for each in kind)) from None


def _bytes(value: object, where: str) -> bytes:
    try:
        match value:
            case str():
                return value.encode()
            case {"base64": str() as text}:
                return base64.b64decode(text, validate=True)
            case {"file": str() as path}:
                return read_file(Path(path))
            case _:
                raise _wrong(where, 'a text, {"base64": "..."} or {"file": "..."}')
    except ValueError as error:  # half a character, letters that are not base64's, a path with a null
        raise UsageError(f"{where}: {error}", remedy=run_help()) from error


def _list(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise _wrong(where, "an array")
    return cast("list[object]", value)


def _wrong(where: str, wanted: str) -> UsageError:
    return UsageError(f"{where}: expected {wanted}", remedy=run_help())
