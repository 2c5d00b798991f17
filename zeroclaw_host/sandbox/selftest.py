"""A journey through a guest and back that the compiled codec must survive before it is used."""

from __future__ import annotations

from typing import Final

from wasmtime import Engine, Store, WasmtimeError
from wasmtime.component import Component, Linker

from zeroclaw_host.contract import FunctionType, ListType, OptionType, Primitive, ResultType, TupleType
from zeroclaw_host.sandbox import raw
from zeroclaw_host.sandbox.codec import ExportCodec, ImportCodec
from zeroclaw_host.sandbox.resources import ResourceTable
from zeroclaw_host.sandbox.values import Err, Ok

_WASMTIME_MAJOR: Final = "50"
"""The release whose structures the codec was written against."""

_FUNCTION: Final = FunctionType(
    (
        ("data", ListType(Primitive("u8"))),
        ("words", ListType(Primitive("string"))),
        ("maybe", OptionType(TupleType((Primitive("u8"), Primitive("s64"))))),
    ),
    ResultType(ListType(Primitive("u8")), Primitive("string")),
)

_PROBE: Final = """
(component
  (import "probe" (func $probe
    (param "data" (list u8)) (param "words" (list string)) (param "maybe" (option (tuple u8 s64)))
    (result (result (list u8) (error string)))))
  (core module $memory
    (memory (export "memory") 1)
    (global $next (mut i32) (i32.const 64))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
      (global.set $next (i32.add (local.get $at) (local.get 3)))
      (local.get $at)))
  (core instance $heap (instantiate $memory))
  (core func $lowered (canon lower (func $probe)
    (memory (core memory $heap "memory")) (realloc (core func $heap "realloc")) string-encoding=utf8))
  (core module $code
    (import "host" "probe" (func $probe (param i32 i32 i32 i32 i32 i32 i64 i32)))
    (func (export "run") (param i32 i32 i32 i32 i32 i32 i64) (result i32)
      (call $probe (local.get 0) (local.get 1) (local.get 2) (local.get 3)
                   (local.get 4) (local.get 5) (local.get 6) (i32.const 16))
      (i32.const 16)))
  (core instance $run (instantiate $code (with "host" (instance (export "probe" (func $lowered))))))
  (func (export "run")
    (param "data" (list u8)) (param "words" (list string)) (param "maybe" (option (tuple u8 s64)))
    (result (result (list u8) (error string)))
    (canon lift (core func $run "run")
      (memory (core memory $heap "memory")) (realloc (core func $heap "realloc")) string-encoding=utf8)))
"""


def _answer(data: object, words: object, maybe: object) -> object:
    """What the probe's host function answers, so that each argument shows in some result."""
    if maybe is None:
        return Err(repr((data, words)))
    return Ok(repr((data, words, maybe)).encode())


_ARGUMENTS: Final[tuple[tuple[object, ...], ...]] = (
    (bytes(range(256)), ["", "a", "ünïcödé ☃"], (255, -(1 << 63))),
    (b"", [], None),
)


def codec_works() -> bool:
    """Whether values survive the journey with the wasmtime at hand."""
    try:
        return [_journey(values) for values in _ARGUMENTS] == [_answer(*values) for values in _ARGUMENTS]
    except (WasmtimeError, AttributeError, TypeError, ValueError, KeyError):
        return False


def right_release(version: str) -> bool:
    """Whether this is the release the codec was written against. Another one is not even tried."""
    return version.partition(".")[0] == _WASMTIME_MAJOR


def _journey(values: tuple[object, ...]) -> object:
    codec = ImportCodec(_FUNCTION)
    table = ResourceTable()

    def probe(store: raw.Pointer, args: raw.Pointer, count: int, results: raw.Pointer, slots: int) -> int:
        try:
            codec.result(table, store, _answer(*codec.arguments(table, store, args, count)), results, slots)
        except (AttributeError, TypeError, ValueError) as error:
            return raw.give_error(str(error))
        return 0

    engine = Engine()
    linker = Linker(engine)
    with linker.root() as root:
        raw.define_function(root, "probe", probe)
    with Store(engine) as store:
        function = linker.instantiate(store, Component(engine, _PROBE)).get_func(store, "run")
        assert function is not None
        return ExportCodec(_FUNCTION).call(function, store, table, values)
