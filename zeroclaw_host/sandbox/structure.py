"""What a component asks for and offers, compared with the contract function by function.

wasmtime checks at link time that a name is there, but not the type of a function written in Python: a component that
imports ``secrets.get`` as ``func(name: u32) -> u64`` would link and run. So nothing is linked before it was compared
here (PLG-038, PAINS 9).

The walk follows the contract's types, never the component's: those may be made to unfold without end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from wasmtime import Engine
from wasmtime import component as wasm
from wasmtime.component import Component

from zeroclaw_host.contract import (
    BorrowType,
    Contract,
    EnumType,
    FlagsType,
    FunctionType,
    InterfaceType,
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
from zeroclaw_host.contract.additions import as_built
from zeroclaw_host.contract.types import describe
from zeroclaw_host.sandbox import raw
from zeroclaw_host.sandbox.causes import plain
from zeroclaw_host.sandbox.mismatch import Mismatch, refuse

MAX_EXTERNS: Final = 256
"""Imports, exports, and names in one interface. A real component has some thirty interfaces, the largest a hundred names."""

_PRIMITIVES: Final[Mapping[str, type]] = {
    "bool": wasm.Bool,
    "s8": wasm.S8,
    "s16": wasm.S16,
    "s32": wasm.S32,
    "s64": wasm.S64,
    "u8": wasm.U8,
    "u16": wasm.U16,
    "u32": wasm.U32,
    "u64": wasm.U64,
    "f32": wasm.F32,
    "f64": wasm.F64,
    "char": wasm.Char,
    "string": wasm.String,
}

_WORDS: Final[Mapping[type, str]] = {
    **{kind: name for name, kind in _PRIMITIVES.items()},
    wasm.ListType: "a list",
    wasm.TupleType: "a tuple",
    wasm.RecordType: "a record",
    wasm.VariantType: "a variant",
    wasm.EnumType: "an enum",
    wasm.FlagsType: "flags",
    wasm.OptionType: "an option",
    wasm.ResultType: "a result",
    wasm.OwnType: "an owned resource",
    wasm.BorrowType: "a borrowed resource",
}


_Extern = wasm._types.ComponentExtern  # pyright: ignore[reportPrivateUsage]


@dataclass(frozen=True, slots=True)
class InstanceShape:
    """One interface as a component imports or exports it."""

    full_name: str
    """As the component spells it, version included."""
    name: str
    version: str
    functions: Mapping[str, wasm.FuncType]
    resources: Mapping[str, wasm.ResourceType]
    odd: tuple[str, ...]
    """What is neither a function nor a type."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a component imports and exports. ``odd`` names imports that are no interface at all."""

    imports: tuple[InstanceShape, ...]
    exports: tuple[InstanceShape, ...]
    odd: tuple[str, ...]

    @classmethod
    def of(cls, component: Component, engine: Engine, *, supplied: Collection[str] = ()) -> Shape:
        """Read it from a compiled component.

        :param supplied: imports that are the host's own, which the component did not have when it was delivered.
        :raises ComponentMismatch: it has more names than :data:`MAX_EXTERNS` somewhere.
        """
        kind = component.type
        imports: list[InstanceShape] = []
        odd: list[str] = []
        _bound(raw.import_count(kind, engine) - len(supplied), "imports")
        for name, extern in kind.imports(engine).items():
            if name in supplied:
                continue
            instance = _item(extern)
            if isinstance(instance, wasm.ComponentInstanceType):
                imports.append(_instance_shape(name, instance, engine))
            else:
                odd.append(name)
        _bound(raw.export_count(kind, engine), "exports")
        exports = [
            _instance_shape(name, instance, engine)
            for name, extern in kind.exports(engine).items()
            if isinstance(instance := _item(extern), wasm.ComponentInstanceType)
        ]
        return cls(tuple(imports), tuple(exports), tuple(odd))


def _item(extern: _Extern) -> object:
    """The type of an import or export; None for a kind the library does not know."""
    try:
        return extern.ty
    except TypeError:
        return None


def _instance_shape(full_name: str, kind: wasm.ComponentInstanceType, engine: Engine) -> InstanceShape:
    name, _, version = full_name.partition("@")
    functions: dict[str, wasm.FuncType] = {}
    resources: dict[str, wasm.ResourceType] = {}
    odd: list[str] = []
    _bound(raw.export_count(kind, engine), f"items in {plain(name)}")
    for item_name, extern in kind.exports(engine).items():
        item = _item(extern)
        if isinstance(item, wasm.FuncType):
            functions[item_name] = item
        elif isinstance(item, wasm.ResourceType):
            resources[item_name] = item
        elif not isinstance(item, wasm.ValType):
            odd.append(item_name)
    return InstanceShape(full_name, name, version, functions, resources, tuple(odd))


def _bound(count: int, what: str) -> None:
    """Refuse too many, before the library makes a list of them."""
    if count > MAX_EXTERNS:
        refuse([Mismatch("the component", "", f"it has {count} {what}; at most {MAX_EXTERNS} are allowed")])


class Comparison:
    """One component held against the contract.

    :param version_fits: whether the host answers that interface at that version.
    """

    def __init__(self, shape: Shape, contract: Contract, version_fits: Callable[[str, str], bool]) -> None:
        self._shape = shape
        self._contract = contract
        self._version_fits = version_fits
        self._resources: list[tuple[wasm.ResourceType, str]] = []
        self._found: list[Mismatch] = []
        self._types: Mapping[str, WitType] = {}
        self.agreed: dict[str, InterfaceType] = {}
        """The exported interfaces as the component was built for them, once they were compared."""

    def imports(self, allowed: Mapping[str, frozenset[str]], reasons: Mapping[str, str]) -> list[Mismatch]:
        """What is wrong with the imports.

        :param allowed: the functions and resources the host offers, by interface.
        :param reasons: why a known interface is not offered, by interface.
        """
        self._found = []
        for name in self._shape.odd:
            self._add(name, "", "the component imports this, which is no interface of the host")
        for instance in self._shape.imports:
            known = self._contract.interfaces.get(instance.name)
            offered = allowed.get(instance.name)
            if known is None:
                self._add(instance.full_name, "", "the host has no such interface")
            elif offered is None:
                reason = reasons.get(instance.name, "it is not part of this plugin's world")
                self._add(
                    instance.full_name, "", f"the host does not offer this interface to the plugin: {reason}"
                )
            elif not self._version_fits(instance.name, instance.version):
                self._add(
                    instance.full_name, "", f"the host does not offer version {instance.version or 'none'}"
                )
            else:
                self._import(instance, known, offered)
        return self._found

    def _import(self, instance: InstanceShape, known: InterfaceType, offered: frozenset[str]) -> None:
        self._types = known.types
        for resource, kind in instance.resources.items():
            # An interface that uses another's resource shows it again; the first one to show it defines it.
            if self.resource_name(kind) is not None:
                continue
            if resource in known.resources:
                self._resources.append((kind, f"{instance.name}#{resource}"))
            else:
                self._add(instance.full_name, "", f"the host's interface defines no resource {resource}")
        for name in instance.odd:
            self._add(instance.full_name, name, "it is neither a function nor a type")
        for name, function in instance.functions.items():
            expected = known.functions.get(name)
            if expected is None or name not in offered:
                self._add(instance.full_name, name, "the host has no such function")
            else:
                self._function(instance.full_name, name, function, expected)

    def exports(self, required: tuple[str, ...]) -> list[Mismatch]:
        """What is wrong with the exports a world requires."""
        self._found = []
        by_name = {instance.name: instance for instance in self._shape.exports}
        for interface in required:
            instance = by_name.get(interface)
            if instance is None:
                self._add(interface, "", "the component does not export this interface")
            elif not self._version_fits(interface, instance.version):
                self._add(
                    instance.full_name, "", f"the host does not know version {instance.version or 'none'}"
                )
            else:
                known = as_built(self._contract.interface(interface), instance.functions)
                self.agreed[interface] = known
                self._types = known.types
                for name, expected in known.functions.items():
                    function = instance.functions.get(name)
                    if function is None:
                        self._add(instance.full_name, name, "the component does not export this function")
                    else:
                        self._function(instance.full_name, name, function, expected)
        return self._found

    def _add(self, interface: str, function: str, difference: str) -> None:
        self._found.append(Mismatch(plain(interface), plain(function), plain(difference)))

    def _function(self, interface: str, name: str, actual: wasm.FuncType, expected: FunctionType) -> None:
        difference = self._function_difference(actual, expected)
        if difference is not None:
            self._add(interface, name, difference)

    def _function_difference(self, actual: wasm.FuncType, expected: FunctionType) -> str | None:
        try:
            params, result = actual.params, actual.result
        except TypeError:
            return "it uses a type this host does not know"
        if raw.is_async(actual):
            return "it is asynchronous, the contract has none of that"
        if len(params) != len(expected.params):
            return f"it takes {len(params)} parameters, the contract {len(expected.params)}"
        for (_, kind), (name, wanted) in zip(params, expected.params, strict=True):
            if difference := self.difference(kind, wanted):
                return f"parameter {name}: {difference}"
        if result is None or expected.result is None:
            return (
                None
                if result is expected.result
                else f"it has {'no' if result is None else 'a'} result, the contract {'none' if expected.result is None else 'one'}"
            )
        if difference := self.difference(result, expected.result):
            return f"result: {difference}"
        return None

    # --- types ----------------------------------------------------------------------------------------------------------

    def difference(self, actual: object, expected: WitType) -> str | None:
        """The first difference between two types, in words; None when there is none."""
        match expected, actual:
            case Primitive(name), _ if type(actual) is _PRIMITIVES[name]:
                return None
            case ListType(element), wasm.ListType():
                return _within("element", self.difference(actual.element, element))
            case OptionType(payload), wasm.OptionType():
                return _within("payload", self.difference(actual.payload, payload))
            case TupleType(elements), wasm.TupleType():
                return self._tuple(actual, elements)
            case RecordType(fields), wasm.RecordType():
                return self._named(self._called("record", expected), "field", actual.fields, fields)
            case VariantType(cases), wasm.VariantType():
                return self._named(self._called("variant", expected), "case", actual.cases, cases)
            case EnumType(cases), wasm.EnumType():
                return _names(self._called("enum", expected), "case", actual.names, cases)
            case FlagsType(labels), wasm.FlagsType():
                return _names(self._called("flags", expected), "label", actual.names, labels)
            case ResultType(ok, err), wasm.ResultType():
                return self._payload("ok", actual.ok, ok) or self._payload("err", actual.err, err)
            case OwnType(resource), wasm.OwnType(kind):
                return self._resource(kind, resource)
            case BorrowType(resource), wasm.BorrowType(kind):
                return self._resource(kind, resource)
            case _:
                return f"it is {_WORDS.get(type(actual), 'a type this host does not know')}, the contract has {describe(expected)}"

    def _tuple(self, actual: wasm.TupleType, expected: tuple[WitType, ...]) -> str | None:
        elements = actual.elements
        if len(elements) != len(expected):
            return f"it is a tuple of {len(elements)}, the contract has one of {len(expected)}"
        for index, (element, wanted) in enumerate(zip(elements, expected, strict=True)):
            if difference := self.difference(element, wanted):
                return f"element {index}: {difference}"
        return None

    def _called(self, word: str, kind: WitType) -> str:
        """How a person finds a type: by the name the interface gives it, where it has one."""
        return next((f"the {word} {name}" for name, known in self._types.items() if known == kind), "it")

    def _named(
        self,
        subject: str,
        word: str,
        actual: list[tuple[str, wasm.ValType | None]] | list[tuple[str, wasm.ValType]],
        expected: tuple[tuple[str, WitType | None], ...] | tuple[tuple[str, WitType], ...],
    ) -> str | None:
        if difference := _names(
            subject, word, [name for name, _ in actual], tuple(name for name, _ in expected)
        ):
            return difference
        for (name, kind), (_, wanted) in zip(actual, expected, strict=True):
            if difference := self._payload(f"{word} {name}", kind, wanted):
                return difference
        return None

    def _payload(self, place: str, actual: object | None, expected: WitType | None) -> str | None:
        if actual is None or expected is None:
            return (
                None
                if actual is expected
                else f"{place} has {'no' if actual is None else 'a'} payload, the contract has {describe(expected) if expected else 'none'}"
            )
        return _within(place, self.difference(actual, expected))

    def _resource(self, actual: wasm.ResourceType, expected: str) -> str | None:
        name = self.resource_name(actual)
        return (
            None
            if name == expected
            else f"it is the resource {name or 'of the component itself'}, the contract has {expected}"
        )

    def resource_name(self, kind: wasm.ResourceType) -> str | None:
        """The resource behind an imported type, ``interface#name``, once the imports were compared."""
        return next((name for known, name in self._resources if known == kind), None)


def _within(place: str, difference: str | None) -> str | None:
    return None if difference is None else f"{place}: {difference}"


def _names(subject: str, word: str, actual: list[str], expected: tuple[str, ...]) -> str | None:
    if tuple(actual) == expected:
        return None
    missing = [name for name in expected if name not in actual]
    further = [name for name in actual if name not in expected]
    if missing:
        return f"{subject} lacks the {word} {_first(missing)}"
    if further:
        return f"{subject} has the further {word} {_first(further)}"
    return f"the {word}s of {subject} are in another order"


def _first(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
