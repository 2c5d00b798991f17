"""JSON values and their typed counterparts: one shape gives both the JSON Schema and the typed value.

:mod:`zeroclaw_sdk.guest.annotations` finds the shape of an annotation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, cast

MISSING: Final = object()
"""No default: the member is required."""


@dataclass(frozen=True)
class Param:
    """What an annotation cannot say about a parameter.

    ``minimum`` and ``maximum`` bound numbers, the lengths bound strings (characters) and arrays (elements), and
    ``pattern`` is a regular expression that must occur in a string.
    """

    description: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None


class Shape(Protocol):
    """One kind of JSON value."""

    @property
    def noun(self) -> str:
        """What a message calls such a value: "a string"."""
        ...

    def schema(self) -> dict[str, object]:
        """The JSON Schema."""
        ...

    def read(self, value: object, path: str, problems: list[str]) -> object:
        """The typed value of a decoded JSON value; what does not fit is added to ``problems``."""
        ...


def kind_of(value: object) -> str:
    """What a message calls a decoded JSON value. Never the value itself: it can be a secret."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def _mismatch(shape: Shape, value: object, path: str, problems: list[str]) -> None:
    problems.append(f"{path}: expected {shape.noun}, got {kind_of(value)}")


@dataclass(frozen=True)
class Scalar:
    """A string, boolean, integer or number."""

    type_name: Literal["string", "boolean", "integer", "number"]

    @property
    def noun(self) -> str:
        return f"an {self.type_name}" if self.type_name == "integer" else f"a {self.type_name}"

    def schema(self) -> dict[str, object]:
        return {"type": self.type_name}

    def read(self, value: object, path: str, problems: list[str]) -> object:
        match self.type_name, value:
            case ("string", str()) | ("boolean", bool()):
                return value
            case ("integer" | "number", bool()):
                pass
            case ("integer", int()):
                return value
            case ("integer", float()) if value.is_integer():
                return int(value)  # JSON Schema calls 3.0 an integer
            case ("number", int() | float()):
                return float(value)
            case _:
                pass
        return _mismatch(self, value, path, problems)


@dataclass(frozen=True)
class Anything:
    """Any JSON value, passed on as decoded."""

    noun: str = "any value"

    def schema(self) -> dict[str, object]:
        return {}

    def read(self, value: object, path: str, problems: list[str]) -> object:
        return value


@dataclass(frozen=True)
class Null:
    """Only null."""

    noun: str = "null"

    def schema(self) -> dict[str, object]:
        return {"type": "null"}

    def read(self, value: object, path: str, problems: list[str]) -> object:
        return None if value is None else _mismatch(self, value, path, problems)


@dataclass(frozen=True)
class Array:
    """A list, or a tuple of any length, whose elements share a shape."""

    element: Shape
    build: type[list[Any]] | type[tuple[Any, ...]] = list
    noun: str = "an array"

    def schema(self) -> dict[str, object]:
        return {"type": "array", "items": self.element.schema()}

    def read(self, value: object, path: str, problems: list[str]) -> object:
        if not isinstance(value, list):
            return _mismatch(self, value, path, problems)
        elements = cast("list[object]", value)
        return self.build(
            self.element.read(each, f"{path}[{i}]", problems) for i, each in enumerate(elements)
        )


@dataclass(frozen=True)
class Members:
    """An object with any member names whose values share a shape."""

    element: Shape
    noun: str = "an object"

    def schema(self) -> dict[str, object]:
        return {"type": "object", "additionalProperties": self.element.schema()}

    def read(self, value: object, path: str, problems: list[str]) -> object:
        if not isinstance(value, dict):
            return _mismatch(self, value, path, problems)
        members = cast("dict[str, object]", value)
        return {name: self.element.read(each, f"{path}.{name}", problems) for name, each in members.items()}


@dataclass(frozen=True)
class Choice:
    """One of a few literal values; ``typed`` are the Python values behind ``words``, in the same order."""

    words: tuple[str | int | bool, ...]
    typed: tuple[object, ...]

    @property
    def noun(self) -> str:
        return "one of " + ", ".join(map(repr, self.words))

    def schema(self) -> dict[str, object]:
        schema: dict[str, object] = {"enum": list(self.words)}
        if all(isinstance(word, str) for word in self.words):
            schema = {"type": "string", **schema}
        return schema

    def read(self, value: object, path: str, problems: list[str]) -> object:
        for word, typed in zip(self.words, self.typed, strict=True):
            if word == value and type(word) is type(value):
                return typed
        problems.append(f"{path}: expected {self.noun}")
        return None


@dataclass(frozen=True)
class AnyOf:
    """The first alternative that fits."""

    alternatives: tuple[Shape, ...]

    @property
    def noun(self) -> str:
        return " or ".join(shape.noun for shape in self.alternatives)

    def schema(self) -> dict[str, object]:
        return {"anyOf": [shape.schema() for shape in self.alternatives]}

    def read(self, value: object, path: str, problems: list[str]) -> object:
        closest: list[str] = []
        for shape in self.alternatives:
            found: list[str] = []
            typed = shape.read(value, path, found)
            if not found:
                return typed
            # An alternative of the right kind with something wrong inside says more than "expected A or B".
            if not any(problem.startswith(f"{path}: expected") for problem in found):
                closest = closest or found
        if closest:
            problems.extend(closest)
            return None
        return _mismatch(self, value, path, problems)


@dataclass(frozen=True)
class Bounded:
    """A shape with the bounds and the description of a :class:`Param`."""

    inner: Shape
    param: Param

    @property
    def noun(self) -> str:
        return self.inner.noun

    def schema(self) -> dict[str, object]:
        lengths = ("minItems", "maxItems") if isinstance(self.inner, Array) else ("minLength", "maxLength")
        bounds: dict[str, object | None] = {
            "description": self.param.description,
            "minimum": self.param.minimum,
            "maximum": self.param.maximum,
            lengths[0]: self.param.min_length,
            lengths[1]: self.param.max_length,
            "pattern": self.param.pattern,
        }
        return self.inner.schema() | {key: bound for key, bound in bounds.items() if bound is not None}

    def read(self, value: object, path: str, problems: list[str]) -> object:
        before = len(problems)
        typed = self.inner.read(value, path, problems)
        if len(problems) == before:
            problems.extend(f"{path}: {problem}" for problem in self._broken(typed))
        return typed

    def _broken(self, value: object) -> Iterator[str]:
        param = self.param
        if isinstance(value, int | float) and not isinstance(value, bool):
            if param.minimum is not None and value < param.minimum:
                yield f"must be at least {param.minimum}"
            if param.maximum is not None and value > param.maximum:
                yield f"must be at most {param.maximum}"
        if isinstance(value, str | list | tuple):
            size = len(cast("Sequence[object]", value))
            unit = "characters" if isinstance(value, str) else "elements"
            if param.min_length is not None and size < param.min_length:
                yield f"must have at least {param.min_length} {unit}"
            if param.max_length is not None and size > param.max_length:
                yield f"must have at most {param.max_length} {unit}"
        if isinstance(value, str) and param.pattern is not None and not re.search(param.pattern, value):
            yield f"must match {param.pattern}"


@dataclass(frozen=True)
class Member:
    """One member of an :class:`Object`."""

    name: str
    shape: Shape
    default: object = MISSING
    """The default's JSON form, or ``MISSING``."""
    optional: bool = False
    """Whether the member may be absent."""


@dataclass(frozen=True)
class Object:
    """An object with exactly the named members. ``build`` makes the typed value from keyword arguments."""

    members: tuple[Member, ...]
    build: Callable[..., object] = field(default=dict)
    noun: str = "an object"

    def schema(self) -> dict[str, object]:
        properties: dict[str, object] = {}
        for member in self.members:
            schema = member.shape.schema()
            if member.default is not MISSING:
                schema["default"] = member.default
            properties[member.name] = schema
        whole: dict[str, object] = {"type": "object", "properties": properties, "additionalProperties": False}
        if required := [member.name for member in self.members if not member.optional]:
            whole["required"] = required
        return whole

    def read(self, value: object, path: str, problems: list[str]) -> object:
        if not isinstance(value, dict):
            return _mismatch(self, value, path, problems)
        given = cast("dict[str, object]", value)
        before = len(problems)
        prefix = f"{path}." if path else ""
        typed: dict[str, object] = {}
        for member in self.members:
            if member.name in given:
                typed[member.name] = member.shape.read(given[member.name], prefix + member.name, problems)
            elif not member.optional:
                problems.append(f"{prefix}{member.name}: missing")
        known = {member.name for member in self.members}
        problems.extend(f"{prefix}{name}: unknown" for name in given if name not in known)
        if len(problems) > before:
            return None
        try:
            return self.build(**typed)
        except ValueError as error:  # a dataclass that checks itself in __post_init__
            problems.append(f"{path}: {error}" if path else str(error))
            return None
