"""What a core module imports and exports, as its own sections say it, and that as a module type of the component model."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeVar

from zeroclaw_host.sandbox.compiling.sections import CORE_HEADER, Reader, Unreadable, encoded, vector

_Item = TypeVar("_Item")


class _In(IntEnum):
    """Sections of a core module."""

    CUSTOM = 0
    TYPE = 1
    IMPORT = 2
    FUNCTION = 3
    TABLE = 4
    MEMORY = 5
    GLOBAL = 6
    EXPORT = 7
    START = 8
    ELEMENT = 9
    CODE = 10
    DATA = 11
    DATA_COUNT = 12


_UNREAD: Final = frozenset({_In.CUSTOM, _In.START, _In.ELEMENT, _In.CODE, _In.DATA, _In.DATA_COUNT})
"""Sections that say nothing about a module's type. One that is in no list, as that of tags, makes a module unreadable."""

_FUNCTION, _TABLE, _MEMORY, _GLOBAL = range(4)
"""What can be imported and exported, by its number in the format."""

_FUNCTION_FORM: Final = 0x60
_VALUE_TYPES: Final = (0x7F, 0x7E, 0x7D, 0x7C, 0x7B, 0x70, 0x6F)
"""Numbers, vectors, and references to any function or anything of the host. Typed references are left to others."""
_REFERENCE_TYPES: Final = (0x70, 0x6F)
_LIMITS_OPEN, _LIMITS_CLOSED = 0, 1
"""Without and with a maximum. Shared memories, 64-bit ones and odd page sizes have other flags, and no plugin has them."""

_MODULE_TYPE: Final = 0x50
_IMPORT_DECLARATION, _TYPE_DECLARATION, _EXPORT_DECLARATION = 0x00, 0x01, 0x03

_END: Final = 0x0B
_INTEGER_CONSTANTS: Final = (0x41, 0x42)
_FLOAT_CONSTANTS: Final = {0x43: 4, 0x44: 8}
_BY_INDEX: Final = (0x23, 0xD2)  # a global's value, a function's reference
_NULL: Final = 0xD0
_ARITHMETIC: Final = (0x6A, 0x6B, 0x6C, 0x7C, 0x7D, 0x7E)
_VECTOR: Final = 0xFD
_VECTOR_CONSTANT: Final = 0x0C
_VECTOR_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class _Extern:
    """The type of something imported or exported."""

    kind: int
    encoded: bytes
    """Of a function: empty."""
    function_type: int = 0
    """Of a function: the index of its type in the module."""


@dataclass(slots=True)
class ModuleInterface:
    """The types, imports and exports of a core module."""

    types: list[bytes] = field(default_factory=list[bytes])
    imports: list[tuple[bytes, _Extern]] = field(default_factory=list[tuple[bytes, _Extern]])
    exports: list[tuple[bytes, _Extern]] = field(default_factory=list[tuple[bytes, _Extern]])

    @classmethod
    def read(cls, module: Reader) -> ModuleInterface:
        """From a whole core module.

        :raises Unreadable: it has tags, garbage-collected or typed-reference types, or something else that is new; or what
            the component model cannot say of a module.
        """
        found = cls()
        spaces: tuple[list[_Extern], ...] = ([], [], [], [])
        for section in module.sections(CORE_HEADER):
            if section.kind in _UNREAD:
                continue
            found._section(section.kind, section.body, spaces)
            if not section.body.done():
                raise Unreadable("a section with something behind its end")
        if len({name for name, _ in found.imports}) < len(found.imports):
            raise Unreadable("two imports of one name, which a module may have and its type may not")
        return found

    def type(self, wanted: Collection[bytes]) -> bytes:
        """The module type, with all imports and the wanted ones of the exports.

        Instances are checked against it each time they are made, so what nobody asks for is better left out.

        :raises Unreadable: something is of a type that the module does not have.
        """
        numbers: dict[bytes, int] = {}
        declared = [
            bytes([_IMPORT_DECLARATION]) + name + self._described(kind, numbers)
            for name, kind in self.imports
        ]
        declared += [
            bytes([_EXPORT_DECLARATION]) + encoded(len(name)) + name + self._described(kind, numbers)
            for name, kind in self.exports
            if name in wanted
        ]
        types = [bytes([_TYPE_DECLARATION]) + kind for kind in numbers]
        return bytes([_MODULE_TYPE]) + vector(types + declared)

    def _described(self, kind: _Extern, numbers: dict[bytes, int]) -> bytes:
        if kind.kind != _FUNCTION:
            return bytes([kind.kind]) + kind.encoded
        number = numbers.setdefault(_at(self.types, kind.function_type), len(numbers))
        return bytes([_FUNCTION]) + encoded(number)

    def _section(self, kind: int, body: Reader, spaces: tuple[list[_Extern], ...]) -> None:
        for _ in range(body.count()):
            match kind:
                case _In.TYPE:
                    self.types.append(_function_type(body))
                case _In.IMPORT:
                    name = _import_name(body)
                    extern = _extern(body)
                    self.imports.append((name, extern))
                    spaces[extern.kind].append(extern)
                case _In.FUNCTION:
                    spaces[_FUNCTION].append(_Extern(_FUNCTION, b"", body.number()))
                case _In.TABLE:
                    spaces[_TABLE].append(_Extern(_TABLE, _table(body)))
                case _In.MEMORY:
                    spaces[_MEMORY].append(_Extern(_MEMORY, _memory(body)))
                case _In.GLOBAL:
                    spaces[_GLOBAL].append(_Extern(_GLOBAL, _global(body)))
                    _skip_constant(body)
                case _In.EXPORT:
                    name = body.name()
                    space = spaces[body.expect(_FUNCTION, _TABLE, _MEMORY, _GLOBAL)]
                    self.exports.append((name, _at(space, body.number())))
                case _:
                    raise Unreadable(f"section {kind} of a core module")


def names_asked_for(module: Reader) -> set[bytes]:
    """The names of what a core module imports, whatever it is called that it imports them from.

    :raises Unreadable: as :meth:`ModuleInterface.read`.
    """
    found: set[bytes] = set()
    for section in module.sections(CORE_HEADER):
        if section.kind == _In.IMPORT:
            body = section.body
            for _ in range(body.count()):
                body.name()
                found.add(body.name())
                _extern(body)
    return found


def is_code_alone(module: Reader) -> bool:
    """Whether a core module has code and no data.

    :raises Unreadable: it is no core module.
    """
    kinds = {section.kind for section in module.sections(CORE_HEADER)}
    return _In.CODE in kinds and _In.DATA not in kinds


def _at(items: list[_Item], index: int) -> _Item:
    if index >= len(items):
        raise Unreadable("an index that leads nowhere")
    return items[index]


def _import_name(body: Reader) -> bytes:
    """Both names of an import, as they are encoded."""
    start = body.position
    body.name()
    body.name()
    return body.since(start)


def _extern(body: Reader) -> _Extern:
    match body.byte():
        case 0:
            return _Extern(_FUNCTION, b"", body.number())
        case 1:
            return _Extern(_TABLE, _table(body))
        case 2:
            return _Extern(_MEMORY, _memory(body))
        case 3:
            return _Extern(_GLOBAL, _global(body))
        case kind:
            raise Unreadable(f"an import of kind {kind}")


def _function_type(body: Reader) -> bytes:
    start = body.position
    body.expect(_FUNCTION_FORM)
    for _ in range(2):  # parameters, results
        for _ in range(body.count()):
            body.expect(*_VALUE_TYPES)
    return body.since(start)


def _table(body: Reader) -> bytes:
    start = body.position
    body.expect(*_REFERENCE_TYPES)
    _skip_limits(body)
    return body.since(start)


def _memory(body: Reader) -> bytes:
    start = body.position
    _skip_limits(body)
    return body.since(start)


def _global(body: Reader) -> bytes:
    start = body.position
    body.expect(*_VALUE_TYPES)
    body.expect(0, 1)  # constant, variable
    return body.since(start)


def _skip_limits(body: Reader) -> None:
    flag = body.expect(_LIMITS_OPEN, _LIMITS_CLOSED)
    body.number()
    if flag == _LIMITS_CLOSED:
        body.number()


def _skip_constant(body: Reader) -> None:
    """An expression that gives a global its first value."""
    while (operation := body.byte()) != _END:
        body.spend()
        if operation in _INTEGER_CONSTANTS:
            body.skip_number()
        elif operation in _FLOAT_CONSTANTS:
            body.take(_FLOAT_CONSTANTS[operation])
        elif operation in _BY_INDEX:
            body.number()
        elif operation == _NULL:
            body.expect(*_REFERENCE_TYPES)
        elif operation == _VECTOR:
            body.expect(_VECTOR_CONSTANT)
            body.take(_VECTOR_BYTES)
        elif operation not in _ARITHMETIC:
            raise Unreadable(f"a constant with operation {operation:#04x}")
