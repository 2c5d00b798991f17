"""The same conversions through wasmtime-py's own public interface: slower, for a release whose structures changed.

The library shows an option, result or variant bare where Python's types tell its cases apart, and tagged otherwise; the
functions here translate between that and the uniform mapping of :mod:`zeroclaw_host.sandbox.values`. Where it would
confuse two cases, it is told which one is meant, by a name of its own that is no public one
(:func:`~zeroclaw_host.sandbox.raw.library_takes_chosen`); a release without that name refuses such values.

The library also keeps two globals that threads overwrite for each other (the last exception of a host function, and a
scratch set it uses to tell cases apart), so calls on this path run one at a time; see ``conversion``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from wasmtime.component import Record, ResourceAny, ResourceHost, Variant

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
from zeroclaw_host.sandbox.interface import resource_id
from zeroclaw_host.sandbox.limits import MAX_TEXT_BYTES, text_too_long
from zeroclaw_host.sandbox.lowering import INTEGERS, encode
from zeroclaw_host.sandbox.raw import Chosen, library_takes_chosen
from zeroclaw_host.sandbox.resources import ResourceTable
from zeroclaw_host.sandbox.values import Err, Ok, Some, ValueMismatch

Context = Any
"""The library's store or store context."""

Translate = Callable[[ResourceTable, Context, Any], Any]

_Cases = list[tuple[str, WitType | None]]

_MAX_UTF8: Final = 4
"""Bytes of the longest character."""

_CLASSES: Final[Mapping[str, type]] = {"bool": bool, "f32": float, "f64": float, "char": str, "string": str}


class IndistinctCase(ValueMismatch):
    """The library cannot tell the cases of a type apart for this value."""


def from_library(kind: WitType) -> Translate:
    """The function that turns the library's value of this type into ours."""
    match kind:
        case Primitive("string"):
            return _text_from_library
        case Primitive() | EnumType() | ListType(Primitive("u8")):
            return lambda table, store, value: value
        case FlagsType():
            return lambda table, store, value: frozenset(value)
        case ListType(element):
            item = from_library(element)
            return lambda table, store, value: [item(table, store, each) for each in value]
        case TupleType(elements):
            items = [from_library(element) for element in elements]
            return lambda table, store, value: tuple(
                each(table, store, part) for each, part in zip(items, value, strict=True)
            )
        case RecordType(fields):
            named = [(name, from_library(field)) for name, field in fields]
            return lambda table, store, value: {
                name: field(table, store, getattr(value, name)) for name, field in named
            }
        case OwnType():
            return lambda table, store, value: table.pop(_handle(store, value))
        case BorrowType():
            return lambda table, store, value: table.get(_handle(store, value))
        case OptionType() | ResultType() | VariantType():
            return _case_from_library(kind)


def _text_from_library(_table: ResourceTable, _store: Context, value: str) -> str:
    if len(value) > MAX_TEXT_BYTES or (
        len(value) * _MAX_UTF8 > MAX_TEXT_BYTES and len(value.encode()) > MAX_TEXT_BYTES
    ):
        raise text_too_long()
    return value


def _handle(store: Context, value: ResourceAny) -> int:
    with value.to_host(store) as host:
        number: int = host.rep
    value.close()
    return number


def _case_from_library(kind: OptionType | ResultType | VariantType) -> Translate:
    cases = _cases(kind)
    payloads = {name: None if payload is None else from_library(payload) for name, payload in cases}
    tagged = _tagged(cases)

    def translate(table: ResourceTable, store: Context, value: Any) -> Any:
        if tagged:
            name, content = value.tag, value.payload
        else:
            name, content = _bare_case(cases, value), value
        payload = payloads[name]
        return _ours(kind, name, None if payload is None else payload(table, store, content))

    return translate


def _bare_case(cases: _Cases, value: object) -> str:
    """The case a bare value is of. Exact classes decide: a boolean is no integer here, and None no other object."""
    for name, payload in cases:
        classes = {object} if payload is None else _classes(payload)
        if object in classes if value is None else type(value) in classes - {object}:
            return name
    raise ValueMismatch("a value is none of its type's cases")


def _confuses_cases(kind: WitType) -> bool:
    """Whether the library may take a bare value of this type for a case that it is not of."""
    if not isinstance(kind, OptionType | ResultType | VariantType) or _tagged(_cases(kind)):
        return False
    earlier: set[type] = set()
    for _, payload in _cases(kind):
        classes = set[type]() if payload is None else _classes(payload)
        if earlier and (object in earlier or (int in earlier and bool in classes)):
            return True
        earlier |= classes
    return False


def _must_choose(kind: WitType) -> bool:
    """Whether values of this type go to the library with the name of their case.

    One that holds such a value bare does as well: the library could not tell the class of it.
    """
    if not isinstance(kind, OptionType | ResultType | VariantType):
        return False
    return _confuses_cases(kind) or any(
        payload is not None and _must_choose(payload) for _, payload in _cases(kind)
    )


def _check_choice(cases: _Cases, wanted: str, value: object) -> None:
    """Refuse a bare value that the library would take for another case than it is of.

    It asks ``isinstance`` case by case, so that an integer's case takes a boolean, and a case that may be None takes all.
    Better no answer than a wrong one.
    """
    for name, payload in cases:
        if value is None if payload is None else isinstance(value, tuple(_classes(payload))):
            if name != wanted:
                raise IndistinctCase(f"the library would take a {wanted} for a {name}")
            return


def _ours(kind: OptionType | ResultType | VariantType, name: str, content: object) -> object:
    match kind:
        case OptionType(payload):
            if name == "none":
                return None
            return Some(content) if isinstance(payload, OptionType) else content
        case ResultType():
            return Ok(content) if name == "ok" else Err(content)
        case VariantType():
            return (name, content)


def to_library(kind: WitType) -> Translate:
    """The function that turns our value of this type into the library's.

    It raises :class:`ValueMismatch` for what the library would take without complaint and the type does not hold.
    """
    match kind:
        case Primitive(name) if name in INTEGERS:
            low, high = INTEGERS[name]
            return _checked(lambda value: type(value) is int and low <= value <= high, name)
        case Primitive("string"):
            return _text_to_library
        case Primitive(name):
            wanted = _CLASSES[name]
            return _checked(lambda value: type(value) is wanted, name)
        case EnumType(cases):
            return _checked(lambda value: value in cases, "a case of the enum")
        case FlagsType(labels):
            names = set(labels)
            return lambda table, store, value: _flags(names, value)
        case ListType(Primitive("u8")):
            return lambda table, store, value: bytes(memoryview(value))
        case ListType(element):
            item = to_library(element)
            return lambda table, store, value: [item(table, store, each) for each in _sequence(value)]
        case TupleType(elements):
            return _tuple_to_library([to_library(element) for element in elements])
        case RecordType(fields):
            return _record_to_library([(name, to_library(field)) for name, field in fields])
        case OwnType(resource):
            number = resource_id(resource)
            return lambda table, store, value: ResourceHost.own(table.push(value), number)
        case BorrowType():
            raise ValueMismatch("a host never lends its resources to a guest")
        case OptionType() | ResultType() | VariantType():
            return _case_to_library(kind)


def _text_to_library(_table: ResourceTable, _store: Context, value: object) -> str:
    if type(value) is not str:
        raise ValueMismatch(f"text is needed, not {type(value).__name__}")
    encode(value)
    return value


def _checked(fits: Callable[[Any], bool], wanted: str) -> Translate:
    def translate(_table: ResourceTable, _store: Context, value: Any) -> Any:
        if not fits(value):
            raise ValueMismatch(f"{wanted} is needed, not {type(value).__name__}")
        return value

    return translate


def _flags(labels: set[str], value: object) -> set[str]:
    if not isinstance(value, set | frozenset) or not labels.issuperset(cast("Iterable[str]", value)):
        raise ValueMismatch("a set of the type's flags is needed")
    return set(cast("Iterable[str]", value))


def _sequence(value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise ValueMismatch(f"a list is needed, not {type(value).__name__}")
    return list(cast("Iterable[Any]", value))


def _tuple_to_library(elements: list[Translate]) -> Translate:
    def translate(table: ResourceTable, store: Context, value: Any) -> Any:
        if not isinstance(value, tuple) or len(cast("tuple[Any, ...]", value)) != len(elements):
            raise ValueMismatch(f"a tuple of {len(elements)} is needed")
        parts = cast("tuple[Any, ...]", value)
        return tuple(element(table, store, part) for element, part in zip(elements, parts, strict=True))

    return translate


def _record_to_library(fields: list[tuple[str, Translate]]) -> Translate:
    def translate(table: ResourceTable, store: Context, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueMismatch(f"a record is needed, not {type(value).__name__}")
        content = cast("Mapping[str, Any]", value)
        record = Record()
        for name, field in fields:
            if name not in content:
                raise ValueMismatch(f"a record lacks its field {name}")
            setattr(record, name, field(table, store, content[name]))
        return record

    return translate


def _case_to_library(kind: OptionType | ResultType | VariantType) -> Translate:
    cases = _cases(kind)
    payloads = {name: None if payload is None else to_library(payload) for name, payload in cases}
    tagged = _tagged(cases)
    chosen = not tagged and _must_choose(kind) and library_takes_chosen()

    def translate(table: ResourceTable, store: Context, value: Any) -> Any:
        name, content = _named_case(kind, value)
        if name not in payloads:
            raise ValueMismatch("a case of the variant and its payload are needed")
        payload = payloads[name]
        if payload is None and content is not None:
            raise ValueMismatch(f"the case {name} has no payload")
        translated = None if payload is None else payload(table, store, content)
        if tagged:
            return Variant(name, translated)
        if chosen:
            return Chosen(name, translated)
        _check_choice(cases, name, translated)
        return translated

    return translate


def _named_case(kind: OptionType | ResultType | VariantType, value: Any) -> tuple[str, object]:
    match kind:
        case OptionType(payload):
            if value is None:
                return "none", None
            if not isinstance(payload, OptionType):
                return "some", value
            if isinstance(value, Some):
                return "some", value.value
            raise ValueMismatch("an option of an option needs Some around its payload")
        case ResultType():
            if isinstance(value, Ok):
                return "ok", value.value
            if isinstance(value, Err):
                return "err", value.value
            raise ValueMismatch(f"Ok or Err is needed, not {type(value).__name__}")
        case VariantType():
            pair = cast("tuple[Any, ...]", value)
            if isinstance(value, tuple) and len(pair) == 2 and isinstance(pair[0], str):
                return pair[0], pair[1]
            raise ValueMismatch("a case of the variant and its payload are needed")


def _cases(kind: OptionType | ResultType | VariantType) -> _Cases:
    match kind:
        case OptionType(payload):
            return [("none", None), ("some", payload)]
        case ResultType(ok, err):
            return [("ok", ok), ("err", err)]
        case VariantType(cases):
            return list(cases)


def _tagged(cases: _Cases) -> bool:
    """Whether the library tags values of such a type: it does when two cases share a Python class."""
    seen: set[type] = set()
    for _, payload in cases:
        classes = {object} if payload is None else _classes(payload)
        if classes & seen:
            return True
        seen |= classes
    return False


def _classes(kind: WitType) -> set[type]:
    """The Python classes the library makes of values of this type."""
    match kind:
        case Primitive(name):
            return {_CLASSES.get(name, int)}
        case EnumType():
            return {str}
        case FlagsType():
            return {set}
        case ListType(Primitive("u8")):
            return {bytes}
        case ListType():
            return {list}
        case TupleType():
            return {tuple}
        case RecordType():
            return {Record}
        case OwnType() | BorrowType():
            return {ResourceAny, ResourceHost}
        case OptionType() | ResultType() | VariantType():
            cases = _cases(kind)
            if _tagged(cases):
                return {Variant}
            return set[type]().union(
                *({object} if payload is None else _classes(payload) for _, payload in cases)
            )
