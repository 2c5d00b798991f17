"""Reading a guest's values into Python, by functions compiled once per type.

The kind of a value is checked before its union is read. Nothing is freed here: arguments belong to the caller in C,
results to whoever made the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ctypes import string_at
from typing import Any, Final

from zeroclaw_host.contract import (
    BorrowType,
    EnumType,
    FlagsType,
    ListType,
    OptionType,
    OwnType,
    Primitive,
    RecordType,
    ResultType,
    TupleType,
    VariantType,
    WitType,
)
from zeroclaw_host.sandbox import raw
from zeroclaw_host.sandbox.frame import CONVERTING, current_frame
from zeroclaw_host.sandbox.limits import MAX_TEXT_BYTES, text_too_long
from zeroclaw_host.sandbox.resources import ResourceTable
from zeroclaw_host.sandbox.values import Err, Ok, Some, ValueMismatch

Lift = Callable[[ResourceTable, raw.Pointer, raw.Pointer], object]
"""``(table, store, value structure) -> Python value``."""

_BREATH: Final = 256
"""Elements of a list between two looks at the clock. A guest can hand over records by the hundred thousand, and reading
them takes seconds that no epoch interrupts (PLG-018)."""

_LIST: Final = raw.kind("LIST")
_U8: Final = raw.kind("U8")


def _expect(value: raw.Pointer, kind: int) -> Any:
    """The payload of a value of that kind."""
    if value.kind != kind:
        raise ValueMismatch(f"a value of kind {value.kind} came where kind {kind} belongs")
    return value.of


def _read_text(vector: raw.Pointer) -> str:
    size = vector.size
    if size > MAX_TEXT_BYTES:
        raise text_too_long()
    return string_at(vector.data, size).decode() if size else ""


def lifter(kind: WitType) -> Lift:
    """The function that reads values of this type."""
    match kind:
        case Primitive(name):
            return _lift_primitive(name)
        case ListType(Primitive("u8")):
            return _lift_bytes
        case ListType(element):
            return _lift_list(lifter(element))
        case TupleType(elements):
            return _lift_tuple([lifter(element) for element in elements])
        case RecordType(fields):
            return _lift_record([(name, lifter(field)) for name, field in fields])
        case VariantType(cases):
            return _lift_variant(
                {name: None if payload is None else lifter(payload) for name, payload in cases}
            )
        case EnumType():
            number = raw.kind("ENUM")
            return lambda table, store, value: _read_text(_expect(value, number).enumeration)
        case FlagsType():
            return _lift_flags
        case OptionType(payload):
            return _lift_option(lifter(payload), nested=isinstance(payload, OptionType))
        case ResultType(ok, err):
            return _lift_result(None if ok is None else lifter(ok), None if err is None else lifter(err))
        case OwnType():
            number = raw.kind("RESOURCE")
            return lambda table, store, value: table.pop(raw.handle_of(store, _checked(value, number)))
        case BorrowType():
            number = raw.kind("RESOURCE")
            return lambda table, store, value: table.get(raw.handle_of(store, _checked(value, number)))


def _checked(value: raw.Pointer, kind: int) -> raw.Pointer:
    _expect(value, kind)
    return value


def _lift_primitive(name: str) -> Lift:
    number = raw.kind(name.upper())
    match name:
        case "string":
            return lambda table, store, value: _read_text(_expect(value, number).string)
        case "char":
            return lambda table, store, value: chr(_expect(value, number).character)
        case "bool":
            return lambda table, store, value: _expect(value, number).boolean
        case _:

            def lift(_table: ResourceTable, _store: raw.Pointer, value: raw.Pointer) -> object:
                return getattr(_expect(value, number), name)

            return lift


def _lift_bytes(_table: ResourceTable, _store: raw.Pointer, value: raw.Pointer) -> bytes:
    items = _expect(value, _LIST).list
    count = items.size
    if not count:
        return b""
    memory = raw.strides(items.data, count)
    if bytes(memory[raw.KIND_OFFSET :: raw.VALUE_SIZE]).count(_U8) != count:
        raise ValueMismatch("a list of bytes holds something else")
    return bytes(memory[raw.PAYLOAD_OFFSET :: raw.VALUE_SIZE])


def _lift_list(element: Lift) -> Lift:
    def lift(table: ResourceTable, store: raw.Pointer, value: raw.Pointer) -> object:
        items = _expect(value, _LIST).list
        data, size = items.data, items.size
        if size <= _BREATH:
            return [element(table, store, data[index]) for index in range(size)]
        frame, found = current_frame(), list[object]()
        for start in range(0, size, _BREATH):
            frame.remaining(CONVERTING)
            found += [
                element(table, store, data[index]) for index in range(start, min(size, start + _BREATH))
            ]
        return found

    return lift


def _lift_tuple(elements: list[Lift]) -> Lift:
    number = raw.kind("TUPLE")

    def lift(table: ResourceTable, store: raw.Pointer, value: raw.Pointer) -> object:
        items = _expect(value, number).tuple
        _expect_size(items, len(elements))
        data = items.data
        return tuple(element(table, store, data[index]) for index, element in enumerate(elements))

    return lift


def _lift_record(fields: list[tuple[str, Lift]]) -> Lift:
    number = raw.kind("RECORD")

    def lift(table: ResourceTable, store: raw.Pointer, value: raw.Pointer) -> object:
        items = _expect(value, number).record
        _expect_size(items, len(fields))
        data = items.data
        return {name: field(table, store, data[index].val) for index, (name, field) in enumerate(fields)}

    return lift


def _expect_size(items: raw.Pointer, size: int) -> None:
    if items.size != size:
        raise ValueMismatch(f"{items.size} values came where {size} belong")


def _lift_variant(cases: Mapping[str, Lift | None]) -> Lift:
    number = raw.kind("VARIANT")

    def lift(table: ResourceTable, store: raw.Pointer, value: raw.Pointer) -> object:
        chosen = _expect(value, number).variant
        name = _read_text(chosen.discriminant)
        try:
            payload = cases[name]
        except KeyError:
            raise ValueMismatch(f"a variant has no case {name}") from None
        return (name, None if payload is None else payload(table, store, chosen.val.contents))

    return lift


def _lift_flags(_table: ResourceTable, _store: raw.Pointer, value: raw.Pointer) -> object:
    labels = _expect(value, raw.kind("FLAGS")).flags
    return frozenset(_read_text(labels.data[index]) for index in range(labels.size))


def _lift_option(payload: Lift, *, nested: bool) -> Lift:
    number = raw.kind("OPTION")

    def lift(table: ResourceTable, store: raw.Pointer, value: raw.Pointer) -> object:
        pointer = _expect(value, number).option
        if not pointer:
            return None
        found = payload(table, store, pointer.contents)
        return Some(found) if nested else found

    return lift


def _lift_result(ok: Lift | None, err: Lift | None) -> Lift:
    number = raw.kind("RESULT")

    def lift(table: ResourceTable, store: raw.Pointer, value: raw.Pointer) -> object:
        result = _expect(value, number).result
        payload = ok if result.is_ok else err
        found = None if payload is None else payload(table, store, result.val.contents)
        return Ok(found) if result.is_ok else Err(found)

    return lift
