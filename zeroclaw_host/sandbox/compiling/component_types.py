"""Walking over a component's types, aliases, imports and exports, to see that none of them touches a core module or a core type.

Types have no length of their own, so passing one means knowing all of its parts. Everything here raises
:class:`~zeroclaw_host.sandbox.compiling.sections.Unreadable` where it meets what it does not know, core types included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final

from zeroclaw_host.sandbox.compiling.sections import Reader, Unreadable

MAX_DEPTH: Final = 16
"""Types within one another. The toolchains nest three."""


class _Sort(IntEnum):
    """What components import, export and alias."""

    CORE = 0
    FUNCTION = 1
    VALUE = 2
    TYPE = 3
    COMPONENT = 4
    INSTANCE = 5


class _Source(IntEnum):
    """Where an alias takes its item from."""

    INSTANCE = 0
    CORE_INSTANCE = 1
    OUTSIDE = 2


class _Declared(IntEnum):
    """What the type of a component or an instance consists of. A core type would be 0."""

    TYPE = 1
    ALIAS = 2
    IMPORT = 3
    EXPORT = 4


class _Form(IntEnum):
    """Types, by the byte they begin with."""

    RECORD = 0x72
    VARIANT = 0x71
    LIST = 0x70
    TUPLE = 0x6F
    FLAGS = 0x6E
    ENUM = 0x6D
    OPTION = 0x6B
    RESULT = 0x6A
    OWN = 0x69
    BORROW = 0x68
    STREAM = 0x66
    FUTURE = 0x65
    INSTANCE = 0x42
    COMPONENT = 0x41
    FUNCTION = 0x40
    RESOURCE = 0x3F


_PRIMITIVES: Final = range(0x73, 0x80)
_CORE_ITEMS: Final = (0, 1, 2, 3)
"""What a core instance has: functions, tables, memories, globals. Types and modules have other numbers."""
_NAMED: Final = (_Sort.FUNCTION, _Sort.TYPE, _Sort.COMPONENT, _Sort.INSTANCE)
"""What is imported and exported here. Core modules can be too, and values some day."""
_NAME_FORMS: Final = (0, 1)
_NO, _YES = 0, 1
_RESOURCE_IS_I32: Final = 0x7F


def skip_types(body: Reader) -> None:
    """A section of types."""
    for _ in range(body.count()):
        _skip_type(body, MAX_DEPTH)


def import_names(body: Reader) -> list[bytes]:
    """The names in a section of imports. None of them is a core module."""
    return [_extern(body) for _ in range(body.count())]


def skip_exports(body: Reader) -> None:
    """A section of exports. None of them is a core module, nor is any given a type that speaks of one."""
    for _ in range(body.count()):
        _name(body)
        body.expect(*_NAMED)
        body.number()
        if body.expect(_NO, _YES) == _YES:
            _extern_type(body)


def names_taken_from_core(body: Reader) -> set[bytes]:
    """The names of what a section of aliases takes from core instances."""
    taken = (_alias(body) for _ in range(body.count()))
    return {name for name in taken if name is not None}


def _alias(body: Reader) -> bytes | None:
    """The name, if it is one of a core instance's."""
    sort = body.expect(_Sort.CORE, _Sort.FUNCTION, _Sort.TYPE, _Sort.COMPONENT, _Sort.INSTANCE)
    if sort == _Sort.CORE:
        body.expect(*_CORE_ITEMS)
        body.expect(_Source.CORE_INSTANCE)
        body.number()
        return body.name()
    source = body.expect(_Source.INSTANCE, _Source.OUTSIDE)
    body.number()
    if source == _Source.INSTANCE:
        body.name()
    else:
        body.number()
    return None


def _extern(body: Reader) -> bytes:
    """The name of an import or export, and behind it the type it has."""
    name = _name(body)
    _extern_type(body)
    return name


def _name(body: Reader) -> bytes:
    body.expect(*_NAME_FORMS)
    return body.name()


def _extern_type(body: Reader) -> None:
    sort = body.expect(*_NAMED)
    if sort != _Sort.TYPE or body.expect(_NO, _YES) == _NO:  # a type may be a resource of its own
        body.number()


def _skip_type(body: Reader, depth: int) -> None:
    if depth == 0:
        raise Unreadable("types nested too deeply")
    form = body.byte()
    if form in (_Form.COMPONENT, _Form.INSTANCE):
        for _ in range(body.count()):
            _skip_declaration(body, form, depth - 1)
    elif form not in _PRIMITIVES:
        skip = _PARTS.get(form)
        if skip is None:
            raise Unreadable(f"a type of form {form:#04x}")
        skip(body)


def _skip_declaration(body: Reader, within: int, depth: int) -> None:
    kind = body.byte()
    if kind == _Declared.TYPE:
        _skip_type(body, depth)
    elif kind == _Declared.ALIAS:
        _alias(body)
    elif kind == _Declared.EXPORT or (kind == _Declared.IMPORT and within == _Form.COMPONENT):
        _extern(body)
    else:
        raise Unreadable(f"a declaration of kind {kind}")


def _value(body: Reader) -> None:
    """A primitive type, or the index of another one."""
    body.skip_number()  # the primitive ones are negative numbers


def _optional_value(body: Reader) -> None:
    if body.expect(_NO, _YES) == _YES:
        _value(body)


def _named_values(body: Reader) -> None:
    for _ in range(body.count()):
        body.name()
        _value(body)


def _values(body: Reader) -> None:
    for _ in range(body.count()):
        _value(body)


def _names(body: Reader) -> None:
    for _ in range(body.count()):
        body.name()


def _cases(body: Reader) -> None:
    for _ in range(body.count()):
        body.name()
        _optional_value(body)
        body.expect(_NO)  # once said which case it refines


def _function(body: Reader) -> None:
    _named_values(body)
    if body.expect(_NO, _YES) == _NO:
        _value(body)
    else:
        body.expect(_NO)  # how "no result" is written


def _resource(body: Reader) -> None:
    body.expect(_RESOURCE_IS_I32)
    if body.expect(_NO, _YES) == _YES:
        body.number()  # the destructor


def _result(body: Reader) -> None:
    _optional_value(body)
    _optional_value(body)


_PARTS: Final[Mapping[int, Callable[[Reader], None]]] = {
    _Form.RECORD: _named_values,
    _Form.VARIANT: _cases,
    _Form.LIST: _value,
    _Form.TUPLE: _values,
    _Form.FLAGS: _names,
    _Form.ENUM: _names,
    _Form.OPTION: _value,
    _Form.RESULT: _result,
    _Form.OWN: _value,
    _Form.BORROW: _value,
    _Form.STREAM: _optional_value,
    _Form.FUTURE: _optional_value,
    _Form.FUNCTION: _function,
    _Form.RESOURCE: _resource,
}
