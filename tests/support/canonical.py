"""The canonical ABI, as far as a forged guest needs it: which core types carry a value, and how it lies in memory."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Final

from zeroclaw_host.contract import (
    BorrowType,
    EnumType,
    FlagsType,
    FunctionType,
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
from zeroclaw_host.sandbox.values import Err, Ok, Some

DATA_START: Final = 1024
"""Where constants begin. Everything below belongs to the bodies."""

_FLAT: Final = {"s64": "i64", "u64": "i64", "f32": "f32", "f64": "f64"}
_SIZES: Final = {"bool": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "s64": 8, "u64": 8, "f64": 8}
_FORMATS: Final = {
    "bool": "<?",
    "s8": "<b",
    "u8": "<B",
    "s16": "<h",
    "u16": "<H",
    "s32": "<i",
    "u32": "<I",
    "s64": "<q",
    "u64": "<Q",
    "f32": "<f",
    "f64": "<d",
}


def _cases(kind: WitType) -> list[tuple[str, WitType | None]]:
    """Every type that is a choice, as a variant."""
    match kind:
        case VariantType(cases):
            return list(cases)
        case EnumType(cases):
            return [(case, None) for case in cases]
        case OptionType(payload):
            return [("none", None), ("some", payload)]
        case ResultType(ok, err):
            return [("ok", ok), ("err", err)]
        case _:
            return []


def _fields(kind: WitType) -> list[WitType]:
    match kind:
        case RecordType(fields):
            return [field for _, field in fields]
        case TupleType(elements):
            return list(elements)
        case _:
            return []


def _join(one: str, other: str) -> str:
    if one == other:
        return one
    return "i32" if {one, other} == {"i32", "f32"} else "i64"


def flat(kind: WitType | None) -> list[str]:
    """The core types that carry a value of this type."""
    match kind:
        case None:
            return []
        case Primitive(name):
            return ["i32", "i32"] if name == "string" else [_FLAT.get(name, "i32")]
        case ListType():
            return ["i32", "i32"]
        case RecordType() | TupleType():
            return [core for field in _fields(kind) for core in flat(field)]
        case FlagsType(labels):
            return ["i32"] * math.ceil(len(labels) / 32)
        case OwnType() | BorrowType():
            return ["i32"]
        case _:
            joined: list[str] = []
            for _, payload in _cases(kind):
                for index, core in enumerate(flat(payload)):
                    if index < len(joined):
                        joined[index] = _join(joined[index], core)
                    else:
                        joined.append(core)
            return ["i32", *joined]


def align_up(at: int, alignment: int) -> int:
    return -(-at // alignment) * alignment


def layout(kind: WitType) -> tuple[int, int]:
    """The size and alignment (bytes) of a value in memory."""
    match kind:
        case Primitive("string") | ListType():
            return 8, 4
        case Primitive(name):
            size = _SIZES.get(name, 4)
            return size, size
        case RecordType() | TupleType():
            size, alignment = 0, 1
            for field in _fields(kind):
                field_size, field_alignment = layout(field)
                size = align_up(size, field_alignment) + field_size
                alignment = max(alignment, field_alignment)
            return align_up(size, alignment), alignment
        case FlagsType(labels):
            size = 1 if len(labels) <= 8 else 2 if len(labels) <= 16 else 4
            return size, size
        case OwnType() | BorrowType():
            return 4, 4
        case _:
            cases = _cases(kind)
            payloads = [layout(payload) for _, payload in cases if payload is not None]
            size, alignment = (
                max((s for s, _ in payloads), default=0),
                max((a for _, a in payloads), default=1),
            )
            discriminant = 1 if len(cases) <= 256 else 2
            alignment = max(alignment, discriminant)
            return align_up(align_up(discriminant, alignment) + size, alignment), alignment


class Data:
    """Constants in a guest's memory."""

    def __init__(self, start: int = DATA_START) -> None:
        self.start = start
        self._bytes = bytearray()

    @property
    def end(self) -> int:
        """The first free address."""
        return self.start + len(self._bytes)

    def reserve(self, size: int, alignment: int = 8) -> int:
        """Room for so many bytes; its address."""
        at = align_up(self.end, alignment)
        self._bytes += bytes(at - self.end + size)
        return at

    def put(self, content: bytes) -> int:
        """Keep bytes; their address."""
        at = self.reserve(len(content))
        self._write(at, content)
        return at

    def value(self, kind: WitType, value: object) -> int:
        """Keep a value of a type, written as the host sees values; its address."""
        size, alignment = layout(kind)
        at = self.reserve(size, alignment)
        self._store(at, kind, value)
        return at

    def text(self) -> str:
        """The constants as a data segment."""
        escaped = "".join(f"\\{byte:02x}" for byte in self._bytes)
        return f'(data (i32.const {self.start}) "{escaped}")'

    def _write(self, at: int, content: bytes) -> None:
        self._bytes[at - self.start : at - self.start + len(content)] = content

    def _store(self, at: int, kind: WitType, value: object) -> None:
        match kind, value:
            case Primitive("string"), str():
                self._pair(at, value.encode(), 1)
            case Primitive("char"), str():
                self._write(at, struct.pack("<I", ord(value)))
            case Primitive(name), _:
                self._write(at, struct.pack(_FORMATS[name], value))
            case ListType(Primitive("u8")), bytes():
                self._pair(at, value, 1)
            case ListType(element), list():
                size, alignment = layout(element)
                start = self.reserve(size * len(value), alignment)
                for index, item in enumerate(value):
                    self._store(start + index * size, element, item)
                self._write(at, struct.pack("<II", start, len(value)))
            case RecordType(fields), dict():
                self._sequence(at, [field for _, field in fields], [value[name] for name, _ in fields])
            case TupleType(elements), tuple():
                self._sequence(at, list(elements), list(value))
            case FlagsType(labels), frozenset():
                bits = sum(1 << index for index, label in enumerate(labels) if label in value)
                self._write(at, bits.to_bytes(layout(kind)[0], "little"))
            case _:
                self._choice(at, kind, value)

    def _pair(self, at: int, content: bytes, alignment: int) -> None:
        start = self.reserve(len(content), alignment)
        self._write(start, content)
        self._write(at, struct.pack("<II", start, len(content)))

    def _sequence(self, at: int, kinds: list[WitType], values: list[object]) -> None:
        for kind, value in zip(kinds, values, strict=True):
            size, alignment = layout(kind)
            at = align_up(at, alignment)
            self._store(at, kind, value)
            at += size

    def _choice(self, at: int, kind: WitType, value: object) -> None:
        cases = _cases(kind)
        name, payload = _chosen(kind, value)
        index = next(index for index, (case, _) in enumerate(cases) if case == name)
        self._write(at, bytes([index]))
        inner = cases[index][1]
        if inner is not None:
            widest = max((layout(other)[1] for _, other in cases if other is not None), default=1)
            self._store(align_up(at + 1, widest), inner, payload)


def _chosen(kind: WitType, value: object) -> tuple[str, object]:
    match kind, value:
        case OptionType(), None:
            return "none", None
        case OptionType(), Some(inner):
            return "some", inner
        case OptionType(), _:
            return "some", value
        case ResultType(), Ok(inner):
            return "ok", inner
        case ResultType(), Err(inner):
            return "err", inner
        case EnumType(), str():
            return value, None
        case VariantType(), (str() as name, payload):
            return name, payload
        case _:
            raise TypeError(f"{value!r} is no value of {kind}")


def lowered(signature: FunctionType, *, imported: bool) -> tuple[list[str], list[str]]:
    """The core parameters and results of a function of the contract."""
    params = [core for _, kind in signature.params for core in flat(kind)]
    results = flat(signature.result)
    if len(params) > 16:
        params = ["i32"]
    if len(results) > 1:
        return ([*params, "i32"], []) if imported else (params, ["i32"])
    return params, results


def signature_text(params: Iterable[str], results: Iterable[str]) -> str:
    """A core signature in WebAssembly text."""
    return "".join(f" (param {core})" for core in params) + "".join(f" (result {core})" for core in results)
