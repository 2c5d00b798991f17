"""What crossing the boundary costs, converted by code compiled once a function and by wasmtime-py itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from wasmtime import Engine, Store
from wasmtime.component import Component, Linker

from benchmarks.harness import Measurement, Table, alternate, once
from benchmarks.plugin import admitted, scope_of, services_of
from zeroclaw_host.contract import FunctionType, ListType, Primitive
from zeroclaw_host.sandbox.conversion import CompiledConversion, Conversion, StockConversion
from zeroclaw_host.sandbox.frame import CallFrame, entered
from zeroclaw_host.sandbox.gate import Gated
from zeroclaw_host.sandbox.interface import HostFunction
from zeroclaw_host.sandbox.limits import Limits

PATIENT = Limits(call_timeout_ms=3_600_000)
"""A busy machine makes what is compared with slower than a call may be; that is a figure, and no failure."""

CALLS = 500
"""Calls of one measured loop, so that the loop's own beginning and end do not count."""
ROUNDS = 15
MIB = 1024 * 1024
TEXT = "the value of one setting"

BYTES = ListType(Primitive("u8"))
U32 = Primitive("u32")
IMPORTS = {
    "nothing": FunctionType((), None),
    "number": FunctionType((("value", U32),), U32),
    "text": FunctionType((("value", Primitive("string")),), Primitive("string")),
    "take": FunctionType((("data", BYTES),), None),
    "make": FunctionType((("size", U32),), BYTES),
}
LOOPS = {
    "nothing": "(call $nothing)",
    "number": "(drop (call $number (i32.const 7)))",
    "text": f"(call $text (i32.const 0) (i32.const {len(TEXT)}) (i32.const 64))",
    "take": "(call $take (i32.const 65536) (local.get $size))",
    "make": "(call $make (local.get $size) (i32.const 64))",
}
_SIGNATURES = {
    "nothing": "",
    "number": "(param i32) (result i32)",
    "text": "(param i32 i32 i32)",
    "take": "(param i32 i32)",
    "make": "(param i32 i32)",
}
_TYPES = {
    "nothing": "",
    "number": '(param "value" u32) (result u32)',
    "text": '(param "value" string) (result string)',
    "take": '(param "data" (list u8))',
    "make": '(param "size" u32) (result (list u8))',
}


def component() -> str:
    """A component that calls each import in a loop: ``run-<import>(times, size)``. Whatever it is given goes to one place."""
    imports = "\n".join(f'(import "{name}" (func ${name} {_TYPES[name]}))' for name in IMPORTS)
    lowered = "\n".join(
        f"""(core func ${name}-lowered (canon lower (func ${name})
          (memory (core memory $heap "memory")) (realloc (core func $heap "realloc"))))"""
        for name in IMPORTS
    )
    wanted = "\n".join(f'(import "host" "{name}" (func ${name} {_SIGNATURES[name]}))' for name in IMPORTS)
    loops = "\n".join(
        f"""(func (export "run-{name}") (param $times i32) (param $size i32)
          (loop $again {LOOPS[name]}
            (br_if $again (local.tee $times (i32.sub (local.get $times) (i32.const 1))))))"""
        for name in IMPORTS
    )
    given = " ".join(f'(export "{name}" (func ${name}-lowered))' for name in IMPORTS)
    lifted = "\n".join(
        f"""(func (export "run-{name}") (param "times" u32) (param "size" u32)
          (canon lift (core func $loops "run-{name}")))"""
        for name in IMPORTS
    )
    return f"""(component
      {imports}
      (core module $memory
        (memory (export "memory") 160)
        (data (i32.const 0) "{TEXT}")
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 65536)))
      (core instance $heap (instantiate $memory))
      {lowered}
      (core module $code {wanted} {loops})
      (core instance $loops (instantiate $code (with "host" (instance {given}))))
      {lifted})"""


IMPLEMENTATIONS: dict[str, Callable[..., object]] = {
    "nothing": lambda frame: None,
    "number": lambda frame, value: value,
    "text": lambda frame, value: value,
    "take": lambda frame, data: None,
    "make": lambda frame, size: _block(size),
}


@functools.cache
def _block(size: int) -> bytes:
    return bytes(size)


class Guest(AbstractContextManager["Guest"]):
    """An instance of the component whose imports are converted one way."""

    def __init__(self, conversion: Conversion, frame: CallFrame) -> None:
        self._conversion = conversion
        self._frame = frame
        engine = Engine()
        linker = Linker(engine)
        with linker.root() as root:
            for name, function in IMPORTS.items():
                gated = Gated("benchmark", HostFunction(name, IMPLEMENTATIONS[name]))
                conversion.define(root, name, gated, function)
        self._store = Store(engine)
        self._instance = linker.instantiate(self._store, Component(engine, component()))
        self._call = conversion.export(FunctionType((("times", U32), ("size", U32)), None))

    def __exit__(self, *_error: object) -> None:
        self._store.close()

    def run(self, name: str, times: int, size: int = 0) -> None:
        """Let the guest call an import."""
        function = self._instance.get_func(self._store, f"run-{name}")
        assert function is not None
        with self._conversion.exclusively(), entered(self._frame):
            self._call(function, self._store, self._frame.table, (times, size))
        assert self._frame.error is None, self._frame.error


def measure() -> Iterator[Measurement | Table]:
    """Both conversions behind the same gate."""
    package = admitted("redact")
    frame = CallFrame(scope=scope_of(package), services=services_of(package), limits=PATIENT)
    with Guest(CompiledConversion(), frame) as compiled, Guest(StockConversion(), frame) as stock:
        for title, name in (
            ("no argument, no result", "nothing"),
            ("u32 to u32", "number"),
            ("string to string", "text"),
        ):
            yield _round_trip(title, name, compiled, stock)
        yield Table(
            "byte lists across the boundary",
            ("", "compiled", "wasmtime-py's own", "times as fast"),
            [
                _line("guest to host, 1 MiB", "take", 1, MIB, compiled, stock),
                _line("guest to host, 8 MiB, in 4 pieces", "take", 4, 2 * MIB, compiled, stock),
                _line("host to guest, 1 MiB", "make", 1, MIB, compiled, stock),
                _line("host to guest, 8 MiB", "make", 1, 8 * MIB, compiled, stock),
            ],
            notes=(
                "wasmtime takes at most 2.8 million elements from a guest at once, hence the pieces",
                "what crosses as a string crosses in one piece",
            ),
        )


def _round_trip(title: str, name: str, compiled: Guest, stock: Guest) -> Measurement:
    medians = alternate(
        {
            "compiled codec": lambda: compiled.run(name, CALLS),
            "wasmtime-py's own": lambda: stock.run(name, CALLS),
        },
        rounds=ROUNDS,
    )
    values = {subject: milliseconds * 1000 / CALLS for subject, milliseconds in medians.items()}
    return Measurement(
        f"a host import, {title}, there and back through the gate",
        values,
        "< 1×",
        _first_is_less(values),
        "µs",
    )


def _first_is_less(values: dict[str, float]) -> bool:
    first, second = values.values()
    return first < second


def _line(
    title: str, name: str, times: int, size: int, compiled: Guest, stock: Guest
) -> tuple[str, str, str, str]:
    rounds = 5 if times * size <= MIB else 1
    ours = min(once(lambda: compiled.run(name, times, size)) for _ in range(rounds))
    theirs = min(once(lambda: stock.run(name, times, size)) for _ in range(min(rounds, 2)))
    return title, f"{ours:.0f} ms", f"{theirs:.0f} ms", f"{theirs / ours:.1f}"
