"""Attacks on the compiler and the engine: components that unfold, and features that no plugin needs."""

from __future__ import annotations

from collections.abc import Callable

from attacks.attack import HARMLESS, Attack, Stage, answering, beside, starting

COMPILER = "memory and time of the compiling process"
FEATURES = "the engine's settings"
HEADER = b"\0asm\x0d\0\x01\0"
CORE_HEADER = b"\0asm\x01\0\0\0"


def number(value: int) -> bytes:
    """A number as the binary format writes it."""
    found = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        found.append(low | (0x80 if value else 0))
        if not value:
            return bytes(found)


def section(kind: int, content: bytes) -> bytes:
    return bytes((kind,)) + number(len(content)) + content


def vector(items: list[bytes]) -> bytes:
    return number(len(items)) + b"".join(items)


def added(*bodies: bytes, local_count: int = 0) -> Callable[[], bytes]:
    """A harmless tool with one more core module in its component, with these function bodies."""
    local = number(1) + number(local_count) + b"\x7f" if local_count else number(0)
    module = (
        CORE_HEADER
        + section(1, vector([b"\x60\0\0"]))
        + section(3, vector([b"\0"] * len(bodies)))
        + section(10, vector([number(len(local) + len(body)) + local + body for body in bodies]))
    )
    return lambda: answering(HARMLESS)() + section(1, module)


def doubling(depth: int, leaf: str) -> str:
    """A component that instantiates itself twice, at each of so many depths."""
    text = f"(component $c {leaf})"
    for _ in range(depth):
        text = f"(component $c {text} (instance (instantiate $c)) (instance (instantiate $c)))"
    return text + "(instance (instantiate $c))"


def nested(depth: int) -> bytes:
    component = HEADER
    for _ in range(depth):
        component = HEADER + section(4, component)
    return component


def invalid(name: str, build: Callable[[], bytes], bound: str, says: str = "", **more: object) -> Attack:
    return Attack(
        name=name,
        build=build,
        bound=bound,
        code="component_invalid",
        says=says,
        stage=Stage.COMPILING,
        **more,  # type: ignore[arg-type]
    )


BOMBS = (
    Attack(
        name="a component that instantiates itself four million times",
        build=beside(doubling(22, "(core module $m)")),
        bound=COMPILER,
        code="compile_limit",
        says="640 MiB of memory",
        stage=Stage.COMPILING,
    ),
    Attack(
        name="a component whose structure takes gigabytes once loaded",
        build=beside(doubling(18, "(core module $m)")),
        bound=COMPILER,
        code="compile_limit",
        says="structure",
        stage=Stage.COMPILING,
    ),
    Attack(
        name="a component that starts four thousand instances",
        build=beside(doubling(12, "(core module $m) (core instance (instantiate $m))")),
        bound="`max_instances`",
        code="plugin_limit",
        stage=Stage.STARTING,
    ),
    invalid("components nested twenty thousand deep", lambda: nested(20_000), COMPILER, "limit of 1000"),
    Attack(
        name="blocks nested two hundred thousand deep",
        build=added(b"\x02\x40" * 200_000 + b"\x0b" * 200_001),
        bound="nothing: it is only deep",
        code=None,
    ),
    invalid("a function with more locals than there may be", added(b"\x0b", local_count=50_001), COMPILER, "locals"),
    Attack(
        name="ten thousand aliases of one function",
        build=beside("".join(f'(alias export $zeroclaw:plugin/tool@0.1.0 "name" (func $a{n}))' for n in range(10_000))),
        bound="nothing: it is only long",
        code=None,
    ),
    Attack(
        name="fifty thousand functions",
        build=added(*[b"\x0b"] * 50_000),
        bound="nothing: it is only long",
        code=None,
        slow=True,
    ),
)  # fmt: skip

BYTES = (
    invalid("a file that is no WebAssembly", lambda: b"#!/bin/sh\nexec sh\n", "the look at the first bytes", "no WebAssembly"),
    invalid("an empty file", lambda: b"", "the look at the first bytes", "no WebAssembly"),
    invalid("a core module", lambda: CORE_HEADER, "the look at the first bytes", "core WebAssembly module"),
    invalid("a component that is cut off", lambda: answering(HARMLESS)()[:-7], "the look at the sections", "truncated"),
    invalid("a component with garbage behind it", lambda: answering(HARMLESS)() + b"\xff" * 40, "the look at the sections", "truncated"),
    invalid("a component larger than the host takes", lambda: HEADER + bytes(64 * 1024**2), "64 MiB", "at most 67108864", host_mib=64),
    invalid("a section of garbage", lambda: HEADER + section(1, b"\xff" * 1000), COMPILER, "cannot be compiled"),
)  # fmt: skip

FORBIDDEN = tuple(
    invalid(name, beside(f"(core module {core})"), FEATURES, "cannot be compiled")
    for name, core in {
        "memory shared between threads": "(memory 1 1 shared)",
        "waiting on an address": "(memory 1) (func (drop (memory.atomic.wait32 (i32.const 0) (i32.const 0) (i64.const -1))))",
        "memory of 64 bits": "(memory i64 1)",
        "objects of a garbage collector": "(type (struct (field i32)))",
    }.items()
)

ASYNC_MEMORY = '(core module $room (memory (export "m") 1)) (core instance $room (instantiate $room))'

ASYNCHRONOUS = (
    Attack(
        name="yielding without end",
        build=starting(
            "(loop (drop (call $f)) (br 0))",
            core='(import "" "f" (func $f (result i32)))',
            wired="(core func $f (canon thread.yield))",
            given='(export "f" (func $f))',
        ),
        bound="`call_fuel`",
        code="out_of_fuel",
        stage=Stage.STARTING,
    ),
    Attack(
        name="waiting for a set of nothing",
        build=starting(
            "(drop (call $f (call $new) (i32.const 0)))",
            core='(import "" "f" (func $f (param i32 i32) (result i32))) (import "" "new" (func $new (result i32)))',
            wired=f"""{ASYNC_MEMORY} (core func $new (canon waitable-set.new))
            (core func $f (canon waitable-set.wait (memory (core memory $room "m"))))""",
            given='(export "f" (func $f)) (export "new" (func $new))',
        ),
        bound="its own call",
        code="guest_trap",
        stage=Stage.STARTING,
    ),
    Attack(
        name="asking a set of nothing without end",
        build=starting(
            "(local.set $a (call $new)) (loop (drop (call $f (local.get $a) (i32.const 0))) (br 0))",
            core='(import "" "f" (func $f (param i32 i32) (result i32))) (import "" "new" (func $new (result i32)))',
            wired=f"""{ASYNC_MEMORY} (core func $new (canon waitable-set.new))
            (core func $f (canon waitable-set.poll (memory (core memory $room "m"))))""",
            given='(export "f" (func $f)) (export "new" (func $new))',
        ),
        bound="`call_fuel`",
        code="out_of_fuel",
        stage=Stage.STARTING,
    ),
    *(
        Attack(
            name=f"{what} without end",
            build=starting(
                "(loop (drop (call $new)) (br 0))",
                core='(import "" "new" (func $new (result i64)))',
                wired=f"(type $t ({kind} u8)) (core func $new (canon {kind}.new $t))",
                given='(export "new" (func $new))',
            ),
            bound="1 048 576 handles",
            code="plugin_limit",
            says="handles",
            stage=Stage.STARTING,
            host_mib=400,
        )
        for what, kind in (("streams of its own", "stream"), ("futures of its own", "future"))
    ),
)  # fmt: skip

REENTRY = Attack(
    name="a call back into itself",
    build=beside(
        """
        (core module $hub (table (export "t") 1 funcref)
          (func (export "run") (call_indirect (i32.const 0))))
        (core instance $hub (instantiate $hub))
        (component $door (import "in" (func $in)) (export "out" (func $in)))
        (func $lifted (canon lift (core func $hub "run")))
        (core func $lowered (canon lower (func $lifted)))
        (core module $filler (import "" "t" (table 1 funcref)) (import "" "f" (func $f))
          (elem (i32.const 0) func $f) (start $go) (func $go (call_indirect (i32.const 0))))
        (core instance (instantiate $filler (with "" (instance
          (export "t" (table $hub "t")) (export "f" (func $lowered))))))"""
    ),
    bound="its own call",
    code="guest_trap",
    stage=Stage.STARTING,
)

ATTACKS = (*BOMBS, *BYTES, *FORBIDDEN, *ASYNCHRONOUS, REENTRY)
