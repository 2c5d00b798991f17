"""Attacks on memory: what a guest, and what the host for it, has to keep."""

from __future__ import annotations

from attacks.attack import Attack, Stage, answering, beside, starting, tool
from zeroclaw_host.sandbox.limits import MAX_LIST_ELEMENTS, MAX_MEMORIES, MAX_TABLES, MAX_TEXT_BYTES, Limits

MEMORY, TABLES, INSTANCES = "`max_memory_mb`", "`max_table_elements`", "`max_instances`"

ROOMY = Limits(call_fuel=200_000_000, call_timeout_ms=20_000, max_memory_mb=64)

GREEDY = """
(block $refused
  (loop $more
    (br_if $refused (i32.lt_s (memory.grow (i32.const 16)) (i32.const 0)))
    (memory.fill (i32.mul (i32.sub (memory.size) (i32.const 16)) (i32.const 65536)) (i32.const 1) (i32.const 1048576))
    (br $more)))"""

KEEPS_EXCEPTIONS = f"""
(loop
  (table.set $kept (local.get $n)
    (block $caught (result exnref)
      (try_table (catch_all_ref $caught) {"(i64.const 1) " * 800} (throw $t))
      unreachable))
  (local.set $n (i32.add (local.get $n) (i32.const 1)))
  (br 0))"""

HANDLES = {
    "resources of the guest's own": (
        "(type $kept (resource (rep i32))) (core func $new (canon resource.new $kept))",
        "(import \"\" \"new\" (func $new (param i32) (result i32)))",
        "(call $new (i32.const 1))",
    ),
    "sets of waitables": (
        "(core func $new (canon waitable-set.new))",
        "(import \"\" \"new\" (func $new (result i32)))",
        "(call $new)",
    ),
}  # fmt: skip


def flood_of(definition: str, kind: str, times: int) -> str:
    """A core module and many instances of it."""
    return f"(core module $flood {definition})" + f" (core instance (instantiate {kind}))" * times


ATTACKS = (
    Attack(
        name="memory without end, every page written",
        build=tool(GREEDY),
        bound=f"{MEMORY}: the guest is told that there is no more",
        code=None,
    ),
    Attack(
        name="a memory that begins above the ceiling",
        build=beside(flood_of("(memory 257)", "$flood", 1)),
        bound=MEMORY,
        code="plugin_limit",
        says="max_memory_mb is 16",
        stage=Stage.STARTING,
    ),
    Attack(
        name="a memory of four gibibytes",
        build=beside(flood_of("(memory 65536)", "$flood", 1)),
        bound=MEMORY,
        code="plugin_limit",
        stage=Stage.STARTING,
    ),
    Attack(
        name="more memories than a component needs",
        build=beside(flood_of("(memory 1)", "$flood", MAX_MEMORIES)),
        bound=f"{MAX_MEMORIES} memories",
        code="plugin_limit",
        says=f"memories is {MAX_MEMORIES}",
        stage=Stage.STARTING,
    ),
    Attack(
        name="a table with more elements than allowed",
        build=beside(flood_of("(table 100001 funcref)", "$flood", 1)),
        bound=TABLES,
        code="plugin_limit",
        says="max_table_elements is 100000",
        stage=Stage.STARTING,
    ),
    Attack(
        name="tables that grow without end",
        build=tool(
            "(loop (br_if 0 (i32.ge_s (table.grow $t (ref.null func) (i32.const 1000)) (i32.const 0))))"
            "(if (i32.gt_u (table.size $t) (i32.const 100000)) (then unreachable))",
            extra="(table $t 0 funcref)",
        ),
        bound=f"{TABLES}: the guest is told that there is no more",
        code=None,
    ),
    Attack(
        name="more tables than a component needs",
        build=beside(flood_of("(table 1 funcref)" * (MAX_TABLES + 1), "$flood", 1)),
        bound=f"{MAX_TABLES} tables",
        code="plugin_limit",
        says=f"tables is {MAX_TABLES}",
        stage=Stage.STARTING,
    ),
    Attack(
        name="a flood of instances",
        build=beside(flood_of("", "$flood", 4000)),
        bound=INSTANCES,
        code="plugin_limit",
        says="max_instances is 64",
        stage=Stage.STARTING,
    ),
    *(
        Attack(
            name=f"a flood of {what}",
            build=starting(f"(loop (drop {make}) (br 0))", core=core, wired=wired, given='(export "new" (func $new))'),
            bound="1 048 576 handles",
            code="plugin_limit",
            says="handles",
            stage=Stage.STARTING,
            limits=ROOMY,
            host_mib=160,
        )
        for what, (wired, core, make) in HANDLES.items()
    ),
    Attack(
        name="exceptions that are kept, each with much in it",
        build=tool(KEEPS_EXCEPTIONS, extra=f"(tag $t (param {'i64 ' * 800})) (table $kept 100000 exnref)"),
        bound=MEMORY,
        code="plugin_limit",
        says="exceptions",
        host_mib=64,
    ),
    Attack(
        name="an answer of a text longer than allowed",
        build=tool(
            f"""(drop (memory.grow (i32.const 300)))
            (i32.store8 (i32.const 0) (i32.const 0)) (i32.store8 (i32.const 4) (i32.const 1))
            (i32.store (i32.const 8) (i32.const 131072)) (i32.store (i32.const 12) (i32.const {MAX_TEXT_BYTES + 1}))
            (i32.store8 (i32.const 16) (i32.const 0)) (return (i32.const 0))"""
        ),
        bound="16 MiB of text",
        code="plugin_limit",
        says="longer text than allowed",
        limits=ROOMY,
        host_mib=128,
    ),
    Attack(
        name="an error of a text longer than allowed",
        build=tool(
            f"""(drop (memory.grow (i32.const 300)))
            (i32.store8 (i32.const 0) (i32.const 1))
            (i32.store (i32.const 4) (i32.const 131072)) (i32.store (i32.const 8) (i32.const {MAX_TEXT_BYTES + 1}))
            (return (i32.const 0))"""
        ),
        bound="16 MiB of text",
        code="plugin_limit",
        limits=ROOMY,
        host_mib=128,
    ),
    Attack(
        name="a name of the tool longer than any text may be",
        build=beside("", replace=("i32.const 1056", f"i32.const {2**20}")),
        bound="its own memory",
        code="guest_trap",
        says="out of bounds",
        stage=Stage.LOADING,
    ),
    Attack(
        name="a list of bytes longer than the engine copies at once",
        build=tool(
            f"""(drop (memory.grow (i32.const 60)))
            (call $state.put (i32.const 0) (i32.const 4) (i32.const 4096) (i32.const {MAX_LIST_ELEMENTS + 4000})
              (i32.const 0) (i64.const 0) (i32.const 512))""",
            imports=["state.put"],
        ),
        bound=f"{MAX_LIST_ELEMENTS:,} list elements",
        code="plugin_limit",
        says="list elements",
    ),
    Attack(
        name="a list whose length is a lie",
        build=tool(
            """(call $state.put (i32.const 0) (i32.const 4) (i32.const 4096) (i32.const -1)
              (i32.const 0) (i64.const 0) (i32.const 512))""",
            imports=["state.put"],
        ),
        bound="its own memory",
        code="guest_trap",
        says="out of bounds",
    ),
    Attack(
        name="a schema nested a hundred thousand deep",
        build=answering("[" * 100_000 + "]" * 100_000, function="tool.parameters-schema"),
        bound="the rule that it is a JSON object",
        code="guest_failure",
        says="schema",
        stage=Stage.LOADING,
    ),
    Attack(
        name="a schema of fifty thousand members",
        build=answering(
            "{" + ",".join(f'"{number:x}":[]' for number in range(50_000)) + "}", function="tool.parameters-schema"
        ),
        bound="16 MiB of text",
        code=None,
        host_mib=96,
    ),
    Attack(
        name="an answer whose two texts are the same eight megabytes",
        build=tool(
            """(drop (memory.grow (i32.const 130)))
            (memory.fill (i32.const 131072) (i32.const 120) (i32.const 8000000))
            (i32.store8 (i32.const 0) (i32.const 0)) (i32.store8 (i32.const 4) (i32.const 1))
            (i32.store (i32.const 8) (i32.const 131072)) (i32.store (i32.const 12) (i32.const 8000000))
            (i32.store8 (i32.const 16) (i32.const 1))
            (i32.store (i32.const 20) (i32.const 131072)) (i32.store (i32.const 24) (i32.const 8000000))
            (return (i32.const 0))"""
        ),
        bound="16 MiB of text",
        code=None,
        host_mib=96,
    ),
)  # fmt: skip
