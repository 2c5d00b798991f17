"""Attacks on time: work and waiting without end."""

from __future__ import annotations

from attacks.attack import HASTY, Attack, Stage, metadata, starting, tool
from zeroclaw_host.sandbox.limits import Limits

FOREVER = "(loop (br 0))"
FUEL, DEADLINE, STACK = "`call_fuel`", "`call_timeout_ms`", "the engine's stack"

ATTACKS = (
    Attack(name="endless loop", build=tool(FOREVER), bound=FUEL, code="out_of_fuel", says="20,000,000 units"),
    Attack(
        name="endless loop with fuel to spare",
        build=tool(FOREVER),
        bound=DEADLINE,
        code="deadline_exceeded",
        says="call_timeout_ms is 200",
        limits=HASTY,
    ),
    Attack(
        name="endless recursion",
        build=tool("(call $deeper)", extra="(func $deeper (call $deeper))"),
        bound=STACK,
        code="guest_trap",
        says="stack",
    ),
    Attack(
        name="endless recursion through a table, with large frames",
        build=tool(
            "(drop (call $one (i64.const 1)))",
            extra=f"""(type $f (func (param i64) (result i64))) (table $t 1 funcref) (elem (i32.const 0) func $one)
            (func $one (type $f) {" ".join("(local i64)" for _ in range(500))}
              (local.set 500 (call_indirect (type $f) (local.get 0) (i32.const 0))) (local.get 500))""",
        ),
        bound=STACK,
        code="guest_trap",
        says="stack",
    ),
    Attack(
        name="endless tail calls",
        build=tool("(call $again)", extra="(func $again (return_call $again))"),
        bound=FUEL,
        code="out_of_fuel",
    ),
    Attack(
        name="endless throwing and catching",
        build=tool(
            "(loop $again (block $caught (try_table (catch_all $caught) (throw $thrown))) (br $again))",
            extra="(tag $thrown)",
        ),
        bound=FUEL,
        code="out_of_fuel",
        limits=Limits(call_fuel=1_000_000, call_timeout_ms=20_000, max_memory_mb=16),
    ),
    Attack(
        name="an exception that nobody catches",
        build=tool("(throw $thrown)", extra="(tag $thrown)"),
        bound="its own call",
        code="guest_trap",
    ),
    Attack(
        name="filling memory over and over, which costs little fuel",
        build=tool(
            "(drop (memory.grow (i32.const 128)))"
            "(loop (memory.fill (i32.const 131072) (i32.const 1) (i32.const 8000000)) (br 0))"
        ),
        bound=DEADLINE,
        code="deadline_exceeded",
        limits=HASTY,
    ),
    Attack(
        name="filling a table over and over",
        build=tool(
            "(loop (table.fill $t (i32.const 0) (ref.null func) (i32.const 90000)) (br 0))",
            extra="(table $t 90000 funcref)",
        ),
        bound=DEADLINE,
        code="deadline_exceeded",
        limits=HASTY,
    ),
    Attack(
        name="endless loop in a start function",
        build=tool("", extra=f"(func $spin {FOREVER}) (start $spin)"),
        bound=FUEL,
        code="out_of_fuel",
        stage=Stage.STARTING,
    ),
    Attack(
        name="endless loop in a start function with fuel to spare",
        build=tool("", extra=f"(func $spin {FOREVER}) (start $spin)"),
        bound=DEADLINE,
        code="deadline_exceeded",
        stage=Stage.STARTING,
        limits=HASTY,
    ),
    Attack(
        name="endless loop in the start function of a nested component",
        build=starting(FOREVER),
        bound=FUEL,
        code="out_of_fuel",
        stage=Stage.STARTING,
    ),
    Attack(
        name="endless loop in the tool's name",
        build=metadata("tool.name", FOREVER),
        bound=FUEL,
        code="out_of_fuel",
        stage=Stage.LOADING,
    ),
    Attack(
        name="endless loop in the tool's schema with fuel to spare",
        build=metadata("tool.parameters-schema", FOREVER),
        bound=DEADLINE,
        code="deadline_exceeded",
        stage=Stage.LOADING,
        limits=HASTY,
    ),
    Attack(
        name="an allocator that never returns",
        build=tool("", realloc=f"{FOREVER} unreachable"),
        bound=FUEL,
        code="out_of_fuel",
    ),
    Attack(
        name="a post-return that never returns",
        build=tool("", post={"tool.execute": FOREVER}),
        bound=FUEL,
        code="out_of_fuel",
    ),
    Attack(
        name="a post-return that never returns, with fuel to spare",
        build=tool("", post={"tool.execute": FOREVER}),
        bound=DEADLINE,
        code="deadline_exceeded",
        limits=HASTY,
    ),
)
