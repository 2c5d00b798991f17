"""Writing Python values for a guest, by functions compiled once per type.

Every value is checked against its type, ranges included. New arrays are zeroed, which makes them arrays of ``false``,
before anything in them can fail: so whoever owns a half-written value can free it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from ctypes import byref, memmove, memset
from typing import Final, cast

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
from zeroclaw_host.sandbox.interface import resource_id
from zeroclaw_host.sandbox.resources import ResourceTable
from zeroclaw_host.sandbox.values import Err, Ok, Some, ValueMismatch

Lower = Callable[[ResourceTable, raw.Pointer, object, raw.Pointer], None]
"""``(table, store, Python value, zeroed value structure)``."""

INTEGERS: Final[Mapping[str, tuple[int, int]]] = {
    f"{sign}{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) if sign == "s" else (0, (1 << bits) - 1)
    for sign in "su"
    for bits in (8, 16, 32, 64)
}
_FLOATS: Final = frozenset({"f32", "f64"})

_LIST: Final = raw.kind("LIST")
_STRING: Final = raw.kind("STRING")
_U8: Final = raw.kind("U8")


def encode(text: str) -> bytes:
    """The text in UTF-8.

    :raises ValueMismatch: it has none: Python's text may hold half of a surrogate pair, a guest's never does.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueMismatch("text with half of a surrogate pair in it is no text for a guest") from error


def _write_text(vector: raw.Pointer, text: object) -> None:
    if type(text) is not str:
        raise ValueMismatch(f"text is needed, not {type(text).__name__}")
    encoded = encode(text)
    raw.new_bytes(byref(vector), len(encoded))
    if encoded:
        memmove(vector.data, encoded, len(encoded))


def lowerer(kind: WitType) -> Lower:
    """The function that writes values of this type. What it writes to is zeroed memory."""
    match kind:
        case Primitive(name):
            return _lower_primitive(name)
        case ListType(Primitive("u8")):
            return _lower_bytes
        case ListType(element):
            return _lower_list(lowerer(element))
        case TupleType(elements):
            return _lower_tuple([lowerer(element) for element in elements])
        case RecordType(fields):
            return _lower_record([(name, lowerer(field)) for name, field in fields])
        case VariantType(cases):
            return _lower_variant(
                {name: None if payload is None else lowerer(payload) for name, payload in cases}
            )
        case EnumType(cases):
            return _lower_enum(frozenset(cases))
        case FlagsType(labels):
            return _lower_flags(frozenset(labels))
        case OptionType(payload):
            return _lower_option(lowerer(payload), nested=isinstance(payload, OptionType))
        case ResultType(ok, err):
            return _lower_result(None if ok is None else lowerer(ok), None if err is None else lowerer(err))
        case OwnType(resource):
            return _lower_own(resource)
        case BorrowType():
            raise ValueMismatch("a host never lends its resources to a guest")


def _lower_primitive(name: str) -> Lower:
    number = raw.kind(name.upper())
    if name in INTEGERS:
        low, high = INTEGERS[name]

        def lower_integer(
            _table: ResourceTable, _store: raw.Pointer, value: object, out: raw.Pointer
        ) -> None:
            # ctypes would cut a larger number down without a word.
            if type(value) is not int or not low <= value <= high:
                raise ValueMismatch(f"{name} is needed, not {_shown(value)}")
            setattr(out.of, name, value)
            out.kind = number

        return lower_integer
    if name in _FLOATS:

        def lower_float(_table: ResourceTable, _store: raw.Pointer, value: object, out: raw.Pointer) -> None:
            if type(value) is not float:
                raise ValueMismatch(f"{name} is needed, not {_shown(value)}")
            setattr(out.of, name, value)
            out.kind = number

        return lower_float
    return {"string": _lower_string, "char": _lower_char, "bool": _lower_bool}[name]


def _shown(value: object) -> str:
    """A value's type, and the value itself where it cannot be a secret."""
    return f"{value}" if type(value) in (int, bool) else type(value).__name__


def _lower_string(_table: ResourceTable, _store: raw.Pointer, value: object, out: raw.Pointer) -> None:
    _write_text(out.of.string, value)
    out.kind = _STRING


def _lower_char(_table: ResourceTable, _store: raw.Pointer, value: object, out: raw.Pointer) -> None:
    if type(value) is not str or len(value) != 1 or 0xD800 <= ord(value) <= 0xDFFF:
        raise ValueMismatch("one character is needed")
    out.of.character = ord(value)
    out.kind = raw.kind("CHAR")


def _lower_bool(_table: ResourceTable, _store: raw.Pointer, value: object, out: raw.Pointer) -> None:
    if type(value) is not bool:
        raise ValueMismatch(f"a truth value is needed, not {_shown(value)}")
    out.of.boolean = value
    out.kind = raw.kind("BOOL")


def _lower_bytes(_table: ResourceTable, _store: raw.Pointer, value: object, out: raw.Pointer) -> None:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise ValueMismatch(f"bytes are needed, not {type(value).__name__}")
    content = cast("bytes", value)
    count = len(content)
    items = _new_values(raw.new_list, out.of.list, count)
    out.kind = _LIST
    if count:
        memory = raw.strides(items.data, count)
        memory[raw.KIND_OFFSET :: raw.VALUE_SIZE] = bytes((_U8,)) * count
        memory[raw.PAYLOAD_OFFSET :: raw.VALUE_SIZE] = content


def _new_values(
    make: Callable[[raw.Pointer, int], None], vector: raw.Pointer, count: int, size: int = 0
) -> raw.Pointer:
    """Make a C array of ``count`` zeroed items in place; all zeros is the value ``false``, or an empty name."""
    make(byref(vector), count)
    if count:
        memset(vector.data, 0, count * (size or raw.VALUE_SIZE))
    return vector


def _lower_list(element: Lower) -> Lower:
    def lower(table: ResourceTable, store: raw.Pointer, value: object, out: raw.Pointer) -> None:
        if not isinstance(value, list | tuple):
            raise ValueMismatch(f"a list is needed, not {type(value).__name__}")
        values = cast("list[object] | tuple[object, ...]", value)
        data = _new_values(raw.new_list, out.of.list, len(values)).data
        out.kind = _LIST
        for index, item in enumerate(values):
            element(table, store, item, data[index])

    return lower


def _lower_tuple(elements: list[Lower]) -> Lower:
    number = raw.kind("TUPLE")

    def lower(table: ResourceTable, store: raw.Pointer, value: object, out: raw.Pointer) -> None:
        if not isinstance(value, tuple):
            raise ValueMismatch(f"a tuple is needed, not {type(value).__name__}")
        values = cast("tuple[object, ...]", value)
        if len(values) != len(elements):
            raise ValueMismatch(f"a tuple of {len(elements)} is needed, not of {len(values)}")
        data = _new_values(raw.new_tuple, out.of.tuple, len(elements)).data
        out.kind = number
        for index, element in enumerate(elements):
            element(table, store, values[index], data[index])

    return lower


def _lower_record(fields: list[tuple[str, Lower]]) -> Lower:
    number = raw.kind("RECORD")
    size = ctypes.sizeof(raw.RecordEntry)

    def lower(table: ResourceTable, store: raw.Pointer, value: object, out: raw.Pointer) -> None:
        values = _mapping(value)
        data = _new_values(raw.new_record, out.of.record, len(fields), size).data
        out.kind = number
        for index, (name, field) in enumerate(fields):
            if name not in values:
                raise ValueMismatch(f"a record lacks its field {name}")
            entry = data[index]
            _write_text(entry.name, name)
            field(table, store, values[name], entry.val)

    return lower


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ValueMismatch(f"a record is needed, not {type(value).__name__}")
    return cast("Mapping[str, object]", value)


def _lower_boxed(payload: Lower, table: ResourceTable, store: raw.Pointer, value: object) -> raw.Pointer:
    """A value of its own on the C heap."""
    content = raw.Value()
    try:
        payload(table, store, value, content)
        return raw.box(byref(content))
    except BaseException:
        raw.delete_value(byref(content))
        raise


def _lower_variant(cases: Mapping[str, Lower | None]) -> Lower:
    number = raw.kind("VARIANT")

    def lower(table: ResourceTable, store: raw.Pointer, value: object, out: raw.Pointer) -> None:
        pair = cast("tuple[object, ...]", value)
        if not isinstance(value, tuple) or len(pair) != 2 or pair[0] not in cases:
            raise ValueMismatch("a case of the variant and its payload are needed")
        name, content = cast("tuple[str, object]", pair)
        payload = cases[name]
        if payload is None and content is not None:
            raise ValueMismatch(f"the case {name} has no payload")
        boxed = None if payload is None else _lower_boxed(payload, table, store, content)
        out.of.variant.val = boxed
        _write_text(out.of.variant.discriminant, name)
        out.kind = number

    return lower


def _lower_enum(cases: frozenset[str]) -> Lower:
    number = raw.kind("ENUM")

    def lower(_table: ResourceTable, _store: raw.Pointer, value: object, out: raw.Pointer) -> None:
        if value not in cases:
            raise ValueMismatch("a case of the enum is needed")
        _write_text(out.of.enumeration, value)
        out.kind = number

    return lower


def _lower_flags(labels: frozenset[str]) -> Lower:
    number = raw.kind("FLAGS")
    size = ctypes.sizeof(raw.Name)

    def lower(_table: ResourceTable, _store: raw.Pointer, value: object, out: raw.Pointer) -> None:
        if not isinstance(value, frozenset | set):
            raise ValueMismatch(f"a set of flags is needed, not {type(value).__name__}")
        chosen = sorted(cast("Iterable[str]", value))
        if not labels.issuperset(chosen):
            raise ValueMismatch("a flag is none of the type's")
        data = _new_values(raw.new_flags, out.of.flags, len(chosen), size).data
        out.kind = number
        for index, label in enumerate(chosen):
            _write_text(data[index], label)

    return lower


def _lower_option(payload: Lower, *, nested: bool) -> Lower:
    number = raw.kind("OPTION")

    def lower(table: ResourceTable, store: raw.Pointer, value: object, out: raw.Pointer) -> None:
        if value is None:
            out.of.option = None
        else:
            if nested:
                if not isinstance(value, Some):
                    raise ValueMismatch("an option of an option needs Some around its payload")
                value = value.value
            out.of.option = _lower_boxed(payload, table, store, value)
        out.kind = number

    return lower


def _lower_result(ok: Lower | None, err: Lower | None) -> Lower:
    number = raw.kind("RESULT")

    def lower(table: ResourceTable, store: raw.Pointer, value: object, out: raw.Pointer) -> None:
        if not isinstance(value, Ok | Err):
            raise ValueMismatch(f"Ok or Err is needed, not {type(value).__name__}")
        payload = ok if isinstance(value, Ok) else err
        if payload is None and value.value is not None:
            raise ValueMismatch("this case of the result has no payload")
        out.of.result.val = None if payload is None else _lower_boxed(payload, table, store, value.value)
        out.of.result.is_ok = isinstance(value, Ok)
        out.kind = number

    return lower


def _lower_own(resource: str) -> Lower:
    number = raw.kind("RESOURCE")
    resource_type = resource_id(resource)

    def lower(table: ResourceTable, store: raw.Pointer, value: object, out: raw.Pointer) -> None:
        if value is None:
            raise ValueMismatch("a resource is needed")
        out.of.resource = raw.own_handle(store, table.push(value), resource_type)
        out.kind = number

    return lower
