"""Values survive the journey into a guest, on to the host, and back, on both ways across the boundary."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wasmtime import Engine, Store
from wasmtime.component import Component, Linker

from zeroclaw_host.contract import (
    EnumType,
    FlagsType,
    FunctionType,
    ListType,
    OptionType,
    Primitive,
    RecordType,
    ResultType,
    TupleType,
    VariantType,
    WitType,
)
from zeroclaw_host.sandbox import raw, selftest
from zeroclaw_host.sandbox.conversion import CompiledConversion, Conversion, StockConversion, best_conversion
from zeroclaw_host.sandbox.frame import CallFrame, entered
from zeroclaw_host.sandbox.gate import Gated, HostFunctionFailed
from zeroclaw_host.sandbox.interface import HostFunction
from zeroclaw_host.sandbox.stock import IndistinctCase
from zeroclaw_host.sandbox.values import OK, Err, Ok, Some, ValueMismatch

PADDING = 17
"""More parameters than are passed flat, so that both directions go through memory and the guest need not know types."""


@dataclass
class Text:
    """A type in WebAssembly text. Records, variants, enums and flags must be named there, so each gets a name."""

    definitions: list[str] = field(default_factory=list)

    def of(self, kind: WitType) -> str:
        match kind:
            case Primitive(name):
                return name
            case ListType(element):
                return f"(list {self.of(element)})"
            case TupleType(elements):
                return f"(tuple {' '.join(map(self.of, elements))})"
            case OptionType(payload):
                return f"(option {self.of(payload)})"
            case ResultType(ok, err):
                return f"(result {self.of(ok) if ok else ''} {f'(error {self.of(err)})' if err else ''})"
            case RecordType(fields):
                words = [f'(field "{name}" {self.of(kind)})' for name, kind in fields]
                return self.named("record", words)
            case VariantType(cases):
                words = [f'(case "{name}" {self.of(kind) if kind else ""})' for name, kind in cases]
                return self.named("variant", words)
            case EnumType(cases):
                return self.named("enum", [f'"{name}"' for name in cases])
            case FlagsType(labels):
                return self.named("flags", [f'"{name}"' for name in labels])
            case _:
                raise AssertionError(kind)

    def named(self, word: str, parts: list[str]) -> str:
        number = len(self.definitions)
        self.definitions.append(f"({word} {' '.join(parts)})")
        return f"$t{number}"


def echo_component(kind: WitType) -> str:
    """A component whose ``run`` hands its argument to the host and returns the answer."""
    text = Text()
    reference = text.of(kind)
    types = "\n".join(
        f'(type $raw{number} {definition}) (import "t{number}" (type $t{number} (eq $raw{number})))'
        for number, definition in enumerate(text.definitions)
    )
    whole = f"(tuple {reference} {'u64 ' * PADDING})"
    return f"""(component
      {types}
      (import "probe" (func $probe (param "value" {whole}) (result {whole})))
      (core module $memory
        (memory (export "memory") 4)
        (global $next (mut i32) (i32.const 65536))
        (func (export "realloc") (param i32 i32 i32 i32) (result i32)
          (local $at i32)
          (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
          (global.set $next (i32.add (local.get $at) (local.get 3)))
          (local.get $at)))
      (core instance $heap (instantiate $memory))
      (core func $lowered (canon lower (func $probe)
        (memory (core memory $heap "memory")) (realloc (core func $heap "realloc")) string-encoding=utf8))
      (core module $code
        (import "host" "probe" (func $probe (param i32 i32)))
        (func (export "run") (param i32) (result i32) (call $probe (local.get 0) (i32.const 64)) (i32.const 64)))
      (core instance $run (instantiate $code (with "host" (instance (export "probe" (func $lowered))))))
      (func (export "run") (param "value" {whole}) (result {whole})
        (canon lift (core func $run "run")
          (memory (core memory $heap "memory")) (realloc (core func $heap "realloc")) string-encoding=utf8)))"""


def journey(conversion: Conversion, kind: WitType, value: object, frame: CallFrame) -> tuple[object, object]:
    """The value as the host function saw it, and as it came back."""
    whole = TupleType((kind, *(Primitive("u64"),) * PADDING))
    function = FunctionType((("value", whole),), whole)
    seen: list[object] = []

    def probe(_frame: CallFrame, argument: tuple[object, ...]) -> object:
        seen.append(argument[0])
        assert argument[1:] == tuple(range(PADDING))
        return argument

    engine = Engine()
    linker = Linker(engine)
    with linker.root() as root:
        conversion.define(root, "probe", Gated("test", HostFunction("probe", probe)), function)
    with Store(engine) as store, entered(frame):
        export = linker.instantiate(store, Component(engine, echo_component(kind))).get_func(store, "run")
        assert export is not None
        answer = conversion.export(function)(export, store, frame.table, ((value, *range(PADDING)),))
    assert frame.error is None, frame.error
    assert isinstance(answer, tuple)
    return seen[0], answer[0]


NAMES = ("alpha", "beta-two", "gamma", "delta-4", "epsilon")
RANGES = {
    f"{s}{b}": ((-(1 << b - 1)) if s == "s" else 0, (1 << b - (s == "s")) - 1)
    for s in "su"
    for b in (8, 16, 32, 64)
}

primitives = st.sampled_from([*RANGES, "bool", "f32", "f64", "char", "string"]).map(Primitive)


def compound(inner: st.SearchStrategy[WitType]) -> st.SearchStrategy[WitType]:
    several = st.lists(inner, min_size=1, max_size=4)
    return st.one_of(
        inner.map(ListType),
        inner.map(OptionType),
        several.map(lambda kinds: TupleType(tuple(kinds))),
        several.map(lambda kinds: RecordType(tuple(zip(NAMES, kinds, strict=False)))),
        st.lists(st.none() | inner, min_size=1, max_size=4).map(
            lambda kinds: VariantType(tuple(zip(NAMES, kinds, strict=False)))
        ),
        st.builds(ResultType, st.none() | inner, st.none() | inner),
        st.integers(1, 5).map(lambda count: EnumType(NAMES[:count])),
        st.integers(1, 5).map(lambda count: FlagsType(NAMES[:count])),
    )


kinds: st.SearchStrategy[WitType] = st.recursive(primitives, compound, max_leaves=6)


def values_of(kind: WitType) -> st.SearchStrategy[object]:
    match kind:
        case Primitive("bool"):
            return st.booleans()
        case Primitive("string"):
            return st.text(max_size=20)
        case Primitive("char"):
            return st.characters(codec="utf-8")
        case Primitive("f32"):
            return st.floats(width=32, allow_nan=False)
        case Primitive("f64"):
            return st.floats(allow_nan=False)
        case Primitive(name):
            return st.integers(*RANGES[name])
        case ListType(Primitive("u8")):
            return st.binary(max_size=200)
        case ListType(element):
            return st.lists(values_of(element), max_size=4)
        case TupleType(elements):
            return st.tuples(*map(values_of, elements))
        case RecordType(fields):
            return st.fixed_dictionaries({name: values_of(kind) for name, kind in fields})
        case VariantType(cases):
            return st.one_of(
                *(
                    st.tuples(st.just(name), st.none() if kind is None else values_of(kind))
                    for name, kind in cases
                )
            )
        case EnumType(cases):
            return st.sampled_from(cases)
        case FlagsType(labels):
            return st.frozensets(st.sampled_from(labels))
        case OptionType(payload):
            inner = values_of(payload)
            return st.none() | (inner.map(Some) if isinstance(payload, OptionType) else inner)
        case ResultType(ok, err):
            return st.one_of(
                (st.none() if ok is None else values_of(ok)).map(Ok),
                (st.none() if err is None else values_of(err)).map(Err),
            )
        case _:
            raise AssertionError(kind)


@pytest.mark.req("PLG-025")
@given(data=st.data())
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_value_of_any_type_arrives_and_returns_unchanged(data, conversion, new_frame):
    kind = data.draw(kinds)
    value = data.draw(values_of(kind))
    assert journey(conversion, kind, value, new_frame()) == (value, value)


CONFUSING = [
    (ResultType(OptionType(Primitive("s8")), Primitive("f32")), Err(0.0)),
    (ResultType(OptionType(Primitive("s8")), Primitive("bool")), Err(False)),
    (VariantType((("a", Primitive("u8")), ("b", Primitive("bool")))), ("b", True)),
    (OptionType(VariantType((("a", Primitive("u8")), ("b", Primitive("bool"))))), ("b", True)),
    (ResultType(ResultType(OptionType(Primitive("s8")), EnumType(("x",))), Primitive("f32")), Ok(Err("x"))),
]
"""Values that the library, left to itself, takes for another case than they are of."""


@pytest.mark.req("PLG-025")
@pytest.mark.parametrize(("kind", "value"), CONFUSING)
def test_what_the_library_would_take_for_another_case_arrives_all_the_same(
    conversion, new_frame, kind, value
):
    assert journey(conversion, kind, value, new_frame()) == (value, value)


@pytest.mark.parametrize(("kind", "value"), CONFUSING)
def test_a_library_that_cannot_be_told_the_case_refuses_it_and_does_not_lie(
    kind, value, new_frame, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("zeroclaw_host.sandbox.stock.library_takes_chosen", lambda: False)
    with pytest.raises((IndistinctCase, ValueMismatch)):
        journey(StockConversion(), kind, value, new_frame())


@pytest.mark.req("PLG-025")
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (OptionType(OptionType(Primitive("u8"))), Some(None)),
        (OptionType(OptionType(Primitive("u8"))), Some(3)),
        (OptionType(OptionType(Primitive("u8"))), None),
        (ResultType(None, None), OK),
        (ResultType(Primitive("string"), Primitive("string")), Err("")),
        (ListType(Primitive("u8")), b""),
        (ListType(Primitive("u8")), bytes(range(256)) * 300),
        (FlagsType(tuple(f"f{n}" for n in range(32))), frozenset({"f0", "f31"})),
        (ListType(RecordType((("k", Primitive("string")), ("v", ListType(Primitive("u8")))))), [{"k": "a", "v": b"\0"}] * 40),
        (Primitive("char"), "\U0010ffff"),
        (Primitive("string"), "\0é☃\U0001f600"),
        (Primitive("f64"), math.inf),
    ],
)  # fmt: skip
def test_the_corners_arrive_and_return_unchanged(kind, value, conversion, new_frame):
    assert journey(conversion, kind, value, new_frame()) == (value, value)


def test_nan_stays_nan(conversion, new_frame):
    _, back = journey(conversion, Primitive("f64"), math.nan, new_frame())
    assert isinstance(back, float)
    assert math.isnan(back)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *((Primitive(name), bound) for name, (low, high) in RANGES.items() for bound in (low - 1, high + 1)),
        (Primitive("u8"), True),
        (Primitive("u8"), "1"),
        (Primitive("bool"), 1),
        (Primitive("f64"), 1),
        (Primitive("string"), b"bytes"),
        (ListType(Primitive("string")), "text"),
        (TupleType((Primitive("u8"), Primitive("u8"))), (1,)),
        (RecordType((("alpha", Primitive("u8")),)), {}),
        (EnumType(("alpha",)), "beta"),
        (FlagsType(("alpha",)), {"beta"}),
        (VariantType((("alpha", None),)), ("beta", None)),
        (VariantType((("alpha", None),)), ("alpha", 3)),
        (ResultType(None, None), True),
        (OptionType(OptionType(Primitive("u8"))), 3),
        (Primitive("string"), "half a pair: \ud800"),
        (ListType(Primitive("string")), ["whole", "\udfff"]),
    ],
)
def test_a_value_that_does_not_fit_never_reaches_the_guest(kind, value, conversion, new_frame):
    with pytest.raises(ValueMismatch):
        journey(conversion, kind, value, new_frame())


def test_a_half_written_value_is_freed_and_the_next_call_works(conversion, new_frame):
    kind = ListType(RecordType((("alpha", Primitive("string")), ("beta-two", Primitive("u8")))))
    good = {"alpha": "x" * 1000, "beta-two": 1}
    for _ in range(50):
        with pytest.raises(ValueMismatch):
            journey(conversion, kind, [good, good, {"alpha": "y", "beta-two": 256}], new_frame())
    assert journey(conversion, kind, [good], new_frame())[1] == [good]


def test_a_host_that_answers_with_the_wrong_type_fails_the_call(conversion, new_frame):
    function = FunctionType((), Primitive("u8"))
    gated = Gated("test", HostFunction("probe", lambda frame: 256))
    frame = new_frame()
    engine = Engine()
    linker = Linker(engine)
    with linker.root() as root:
        conversion.define(root, "probe", gated, function)
    text = """(component (import "probe" (func $probe (result u8)))
      (core func $lowered (canon lower (func $probe)))
      (core module $m (import "h" "p" (func $p (result i32))) (func (export "run") (result i32) (call $p)))
      (core instance $i (instantiate $m (with "h" (instance (export "p" (func $lowered))))))
      (func (export "run") (result u8) (canon lift (core func $i "run"))))"""
    with Store(engine) as store, entered(frame):
        export = linker.instantiate(store, Component(engine, text)).get_func(store, "run")
        assert export is not None
        with pytest.raises(Exception, match="a host function failed"):
            conversion.export(function)(export, store, frame.table, ())
    assert isinstance(frame.error, HostFunctionFailed)


def test_the_compiled_way_proves_itself_with_the_wasmtime_at_hand():
    assert selftest.codec_works()
    assert isinstance(best_conversion(), CompiledConversion)


def test_a_codec_that_fails_its_self_test_is_not_used(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> object:
        raise AttributeError("no such structure any more")

    monkeypatch.setattr("zeroclaw_host.sandbox.selftest.ImportCodec", broken)
    choose: Callable[[], Conversion] = best_conversion.__wrapped__
    assert isinstance(choose(), StockConversion)


@pytest.mark.parametrize(
    ("release", "right"), [("50.0.1", True), ("50.9", True), ("51.0.0", False), ("5.0", False)]
)
def test_another_release_of_wasmtime_is_not_even_tried(release, right):
    assert selftest.right_release(release) is right


def test_without_its_private_name_the_library_stays_as_it_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(raw, "wasm_types", object())
    assert raw.library_takes_chosen.__wrapped__() is False
