"""The shape of an annotation.

=========================  ===================================================
Annotation                 JSON
=========================  ===================================================
``str`` ``bool``           string, boolean
``int`` ``float``          integer, number
``list[T]``                array
``dict[str, T]``           object with any member names
``Literal[...]``, enums    one of the listed values
``T | None``, ``A | B``    any of them
a dataclass                object with exactly these members
``Any``, ``object``        anything
=========================  ===================================================

``Annotated[T, Param(...)]`` adds a description and bounds.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeGuard, cast

from zeroclaw_sdk.guest.docs import parameter_texts
from zeroclaw_sdk.guest.faults import DefinitionInvalid
from zeroclaw_sdk.guest.shapes import (
    MISSING,
    AnyOf,
    Anything,
    Array,
    Bounded,
    Choice,
    Member,
    Members,
    Null,
    Object,
    Param,
    Scalar,
    Shape,
)


def shape_of(annotation: object, where: str) -> Shape:
    """The shape of an annotation.

    :param where: what a message calls the annotated thing, such as ``Hello.run: parameter name``.
    :raises DefinitionInvalid: the annotation has no JSON form.
    """
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if annotation is Any or annotation is object:
        return Anything()
    if annotation in (None, type(None)):
        return Null()
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        inner = shape_of(arguments[0], where)
        params = [extra for extra in arguments[1:] if isinstance(extra, Param)]
        return Bounded(inner, params[0]) if params else inner
    if origin in (typing.Union, types.UnionType):
        return AnyOf(tuple(shape_of(each, where) for each in arguments))
    if origin is Literal:
        return _choice(arguments, arguments, where)
    if annotation is list or origin in (list, Sequence):
        return Array(shape_of(arguments[0] if arguments else Any, where))
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return Array(shape_of(arguments[0], where), tuple)
    if annotation is dict or (origin in (dict, Mapping) and arguments[0] is str):
        return Members(shape_of(arguments[1] if arguments else Any, where))
    if _is_enum(annotation):
        cases = tuple(annotation)
        return _choice(tuple(case.value for case in cases), cases, where)
    if is_dataclass_type(annotation):
        return object_of(annotation)
    raise DefinitionInvalid(f"{where}: the annotation {annotation!r} has no JSON form")


def _is_enum(annotation: object) -> TypeGuard[type[enum.Enum]]:
    return isinstance(annotation, type) and issubclass(annotation, enum.Enum)


def is_dataclass_type(annotation: object) -> TypeGuard[type]:
    """Whether the annotation is a dataclass."""
    return isinstance(annotation, type) and dataclasses.is_dataclass(annotation)


def object_of(cls: type, *, leave_out: frozenset[str] = frozenset()) -> Object:
    """The shape of a dataclass.

    :param leave_out: fields that do not come from JSON.
    :raises DefinitionInvalid: a field's annotation has no JSON form, or cannot be resolved.
    """
    hints = hints_of(cls, cls.__qualname__)
    texts = parameter_texts(cls)
    members: list[Member] = []
    for each in dataclasses.fields(cls):
        if not each.init or each.name in leave_out:
            continue
        shape = described(shape_of(hints[each.name], f"{cls.__qualname__}.{each.name}"), texts.get(each.name))
        default = each.default
        if default is dataclasses.MISSING and each.default_factory is not dataclasses.MISSING:
            default = each.default_factory()
        absent = default is dataclasses.MISSING
        members.append(
            Member(each.name, shape, MISSING if absent else json_form(default), optional=not absent)
        )
    return Object(tuple(members), cls)


def hints_of(subject: object, where: str) -> dict[str, Any]:
    """The resolved annotations of a class or function.

    :raises DefinitionInvalid: an annotation names something that cannot be found.
    """
    try:
        return typing.get_type_hints(subject, include_extras=True)
    except NameError as error:
        raise DefinitionInvalid(f"{where}: an annotation cannot be resolved: {error}") from error


def described(shape: Shape, text: str | None) -> Shape:
    """The shape with this description, unless it has one of its own."""
    if not text or (isinstance(shape, Bounded) and shape.param.description):
        return shape
    if isinstance(shape, Bounded):
        return Bounded(shape.inner, dataclasses.replace(shape.param, description=text))
    return Bounded(shape, Param(description=text))


def json_form(value: object) -> object:
    """A default as JSON, or ``MISSING`` where it has no such form."""
    match value:
        case enum.Enum():
            return value.value
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            elements = [json_form(each) for each in cast("Sequence[object]", value)]
            return MISSING if MISSING in elements else elements
        case dict():
            members = {name: json_form(each) for name, each in cast("dict[str, object]", value).items()}
            return MISSING if MISSING in members.values() else members
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            members = {each.name: json_form(getattr(value, each.name)) for each in dataclasses.fields(value)}
            return MISSING if MISSING in members.values() else members
        case _:
            return MISSING


def _choice(words: tuple[object, ...], typed: tuple[object, ...], where: str) -> Choice:
    plain = tuple(word for word in words if isinstance(word, str | int))
    if len(plain) != len(words) or not plain:
        raise DefinitionInvalid(f"{where}: only texts, integers and booleans can be listed as choices")
    return Choice(plain, typed)


_SCALARS: Final[dict[object, Scalar]] = {
    str: Scalar("string"),
    bool: Scalar("boolean"),
    int: Scalar("integer"),
    float: Scalar("number"),
}
