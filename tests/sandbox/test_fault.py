"""Every way a guest can end is told apart, against the wasmtime at hand."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from wasmtime import WasmtimeError

from zeroclaw_host.errors import (
    ComponentInvalid,
    DeadlineExceeded,
    GuestTrap,
    MemoryLimit,
    OutOfFuel,
    PluginError,
    PluginUnavailable,
    Remedy,
    RemedyAction,
)
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.sandbox.fault import explain, python_exception
from zeroclaw_host.sandbox.frame import CallCancelled
from zeroclaw_host.sandbox.interface import HostFunction, interface
from zeroclaw_host.sandbox.limits import MAX_LIST_ELEMENTS, MAX_TEXT_BYTES, Limits
from zeroclaw_host.sandbox.linker import Surface
from zeroclaw_host.sandbox.values import Ok
from zeroclaw_host.worlds.surface import surface_of

ENDLESS = "(loop $again (br $again)) unreachable"
RECURSION = "(func $deeper (call $deeper))"


@pytest.mark.req("PLG-017", "PLG-019")
def test_a_guest_that_works_without_end_runs_out_of_fuel(embed, tool_core, surface, execute, new_frame):
    frame = new_frame(Limits(call_fuel=100_000))
    with pytest.raises(OutOfFuel) as caught:
        execute(embed(tool_core(ENDLESS)), surface(), frame=frame)
    details = caught.value.details
    assert (details["fuel_used"], details["fuel_budget"], details["host_ms"]) == (100_000, 100_000, 0)
    assert caught.value.message.endswith("100,000 of 100,000 units (call_fuel)")
    assert caught.value.remedy == Remedy(RemedyAction.RAISE_LIMIT, {"limit": "call_fuel"})


@pytest.mark.req("PLG-018", "PLG-019")
@pytest.mark.realtime
def test_a_guest_that_works_without_end_ends_at_its_deadline(embed, tool_core, surface, execute, new_frame):
    frame = new_frame(Limits(call_fuel=10**15, call_timeout_ms=150))
    component = embed(tool_core(ENDLESS))
    execute(embed(tool_core()), surface())  # whatever loads once has loaded
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded) as caught:
        execute(component, surface(), frame=frame)
    assert 0.15 <= time.monotonic() - started < 5
    assert caught.value.details["timeout_ms"] == 150
    assert caught.value.details["waited_for"] == ""
    assert caught.value.details["guest_ms"] >= 150


@pytest.mark.parametrize(
    ("body", "extra", "word", "sentence"),
    [
        ("unreachable", "", "unreachable", "aborted"),
        ("(call $deeper) unreachable", RECURSION, "stack-exhausted", "stack"),
        ("(i32.load (i32.const -8))", "", "memory-out-of-bounds", "not its own"),
        ("(i32.div_u (local.get 0) (i32.const 0))", "", "division-by-zero", "divided by zero"),
        ("(i32.trunc_f32_s (f32.const nan))", "", "invalid-conversion-to-integer", "trapped"),
    ],
)
def test_each_trap_has_its_word_and_a_backtrace(
    body, extra, word, sentence, embed, tool_core, surface, execute
):
    with pytest.raises(GuestTrap, match=sentence) as caught:
        execute(embed(tool_core(body, extra=extra)), surface())
    assert caught.value.details["trap"] == word
    assert caught.value.details["backtrace"]


@pytest.mark.req("PLG-020", "PLG-022")
@pytest.mark.parametrize(
    ("limits", "core", "limit"),
    [
        (
            Limits(max_memory_mb=1),
            "(core module $m (memory 17)) (core instance (instantiate $m))",
            "max_memory_mb",
        ),
        (
            Limits(max_table_elements=10),
            "(core module $m (table 11 funcref)) (core instance (instantiate $m))",
            "max_table_elements",
        ),
        (
            Limits(max_instances=2),
            "(core module $m) " + "(core instance (instantiate $m))" * 3,
            "max_instances",
        ),
        (Limits(), "(core module $m (memory 1)) " + "(core instance (instantiate $m))" * 5, "memories"),
        (
            Limits(max_instances=100),
            "(core module $m (table 1 funcref)) " + "(core instance (instantiate $m))" * 65,
            "tables",
        ),
    ],
)
def test_a_guest_that_wants_more_than_its_limits_does_not_start(limits, core, limit, wat, sandbox, new_frame):
    with pytest.raises(MemoryLimit) as caught:
        start(sandbox, wat(f"(component {core})"), new_frame(limits))
    assert caught.value.details["limit"] == limit
    assert f"({limit} is {caught.value.details['maximum']})" in caught.value.message
    wanted = {"max_memory_mb": 2, "max_table_elements": 11}.get(limit)
    assert caught.value.details.get("wanted") == wanted
    assert wanted is None or f", {wanted} to begin with (" in caught.value.message
    operators = hasattr(limits, limit)  # the others are nobody's to set
    assert caught.value.remedy == (Remedy(RemedyAction.RAISE_LIMIT, {"limit": limit}) if operators else None)


@pytest.mark.req("PLG-020")
@pytest.mark.parametrize(
    ("limits", "core"),
    [
        (Limits(max_memory_mb=1), "(core module $m (memory 16)) (core instance (instantiate $m))"),
        (
            Limits(max_table_elements=10),
            "(core module $m (table 10 funcref)) (core instance (instantiate $m))",
        ),
        (Limits(max_instances=2), "(core module $m) " + "(core instance (instantiate $m))" * 2),
    ],
)
def test_a_guest_that_wants_exactly_its_limits_starts(limits, core, wat, sandbox, new_frame):
    start(sandbox, wat(f"(component {core})"), new_frame(limits))


@pytest.mark.req("PLG-020")
def test_growing_memory_past_the_ceiling_fails_inside_the_guest(
    embed, tool_core, surface, execute, new_frame
):
    # -1 as a signed number is the only one below zero, so the test on the sign tells refusal from success.
    body = """
      (i32.store8 (i32.const 600) (i32.const 121))
      (if (i32.lt_s (memory.grow (i32.const {pages})) (i32.const 0)) (then (i32.store8 (i32.const 600) (i32.const 110))))
      (call $answer (i32.const 600) (i32.const 1))"""
    for pages, grown in ((14, "y"), (15, "n")):
        component = embed(tool_core(body.format(pages=pages)))
        answer = execute(component, surface(), frame=new_frame(Limits(max_memory_mb=1)))
        assert answer == Ok({"success": True, "output": grown, "error": None})


@pytest.mark.req("PLG-020")
@pytest.mark.parametrize(("memories", "pages_each"), [(1, 16), (2, 8), (3, 4), (4, 4)])
def test_the_memory_ceiling_is_that_of_all_memories_together(memories, pages_each, wat, sandbox, new_frame):
    one_mebibyte = Limits(max_memory_mb=1)
    for pages, fits in ((pages_each, True), (pages_each + 1, False)):
        instances = "(core instance (instantiate $m))" * memories
        component = wat(f"(component (core module $m (memory {pages})) {instances})")
        if fits:
            start(sandbox, component, new_frame(one_mebibyte))
        else:
            with pytest.raises(MemoryLimit) as caught:
                start(sandbox, component, new_frame(one_mebibyte))
            assert caught.value.details["limit"] == "max_memory_mb"


RESOURCE = """(component
  (type $kept (resource (rep i32)))
  (core func $new (canon resource.new $kept))
  (core module $m
    (import "" "new" (func $new (param i32) (result i32)))
    (func $f (loop (drop (call $new (i32.const 1))) (br 0)))
    (start $f))
  (core instance (instantiate $m (with "" (instance (export "new" (func $new)))))))"""

EXCEPTIONS = f"""(component
  (core module $m
    (tag $t (param {"i64 " * 800}))
    (table $kept 100000 exnref)
    (func $new (result exnref)
      (block $caught (result exnref)
        (try_table (catch_all_ref $caught) {"(i64.const 1) " * 800} (throw $t))
        unreachable))
    (func $f (local $i i32)
      (loop
        (table.set $kept (local.get $i) (call $new))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br 0)))
    (start $f))
  (core instance (instantiate $m)))"""


WAITABLES = (
    RESOURCE.replace("canon resource.new $kept", "canon waitable-set.new")
    .replace("(func $new (param i32) (result i32))", "(func $new (result i32))")
    .replace("(call $new (i32.const 1))", "(call $new)")
)


@pytest.mark.req("PLG-020")
@pytest.mark.parametrize(
    ("text", "limit"), [(RESOURCE, "handles"), (WAITABLES, "handles"), (EXCEPTIONS, "max_memory_mb")]
)
def test_what_a_guest_makes_the_engine_keep_has_a_limit(text, limit, wat, sandbox, new_frame):
    with pytest.raises(MemoryLimit) as caught:
        start(sandbox, wat(text), new_frame())
    assert caught.value.details["limit"] == limit


def test_the_engines_own_words_are_the_causes(embed, tool_core, surface, execute):
    with pytest.raises(GuestTrap) as caught:
        execute(embed(tool_core("unreachable")), surface())
    assert caught.value.causes() == ("wasm trap: wasm `unreachable` instruction executed",)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("(i32.const -4)", "pointer out of bounds of memory"),
        ("(i32.const 257)", "return pointer not aligned"),
        ("(call $answer (i32.const 600) (i32.const -1))", "string pointer/length out of bounds of memory"),
        (
            "(i32.store8 (i32.const 600) (i32.const 255)) (call $answer (i32.const 600) (i32.const 1))",
            "invalid utf-8 sequence of 1 bytes from index 0",
        ),
        ("(i32.store8 (i32.const 256) (i32.const 9)) (i32.const 256)", "discriminant 9 out of range [0..2)"),
    ],
    ids=["no address", "crooked address", "endless text", "no text", "no case"],
)
def test_an_answer_that_no_memory_can_hold_is_the_guests_fault(
    body, words, embed, tool_core, surface, execute
):
    with pytest.raises(GuestTrap, match="broke a rule") as caught:
        execute(embed(tool_core(body)), surface())
    assert caught.value.details["trap"] == words
    assert caught.value.causes() == (words,)


def test_words_of_the_engine_are_cut_and_carry_no_control_characters(wat, sandbox, new_frame):
    name = r"\1b[2J\0aCaused by:\0awasm trap: all fuel consumed by WebAssembly\0a" + "long" * 20_000
    component = wat(
        f'(component (core module $m (func $f (@name "{name}") unreachable) (start $f))'
        " (core instance (instantiate $m)))"
    )
    with pytest.raises(GuestTrap) as caught:
        start(sandbox, component, new_frame())
    told = [*caught.value.causes(), *caught.value.details["backtrace"]]
    assert all(text.isprintable() and len(text) < 1000 for text in told)


@pytest.mark.parametrize(("size", "passes"), [(MAX_TEXT_BYTES, True), (MAX_TEXT_BYTES + 1, False)])
def test_the_longest_text_a_guest_can_hand_over(size, passes, embed, tool_core, surface, execute):
    body = f"""(drop (memory.grow (i32.const 300)))
      (call $answer (i32.const 131072) (i32.const {size}))"""
    component = embed(tool_core(body))
    if passes:
        answer = execute(component, surface())
        assert isinstance(answer, Ok)
        assert len(answer.value["output"]) == size
    else:
        with pytest.raises(MemoryLimit) as caught:
            execute(component, surface())
        assert caught.value.details == {"limit": "text bytes", "maximum": MAX_TEXT_BYTES}


def test_a_text_past_its_limit_is_refused_on_its_way_into_the_host_too(embed, tool_core, surface, execute):
    asked: list[str] = []
    secrets = interface(
        "zeroclaw:plugin/secrets", HostFunction("get", lambda frame, name: asked.append(name) or Ok(name))
    )
    component = embed(
        tool_core(
            f"""(drop (memory.grow (i32.const 300)))
            (call $get (i32.const 131072) (i32.const {MAX_TEXT_BYTES + 1}) (i32.const 512))
            (call $answer (local.get 0) (local.get 1))""",
            imports='(import "zeroclaw:plugin/secrets@0.1.0" "get" (func $get (param i32 i32 i32)))',
        )
    )
    with pytest.raises(MemoryLimit, match="text bytes"):
        execute(component, surface(secrets))
    assert asked == []


POLL_OF_TWO = """(component
  {built_in}
  (import "wasi:io/poll@0.2.0" (instance $poll
    (export "pollable" (type $p (sub resource)))
    (export "poll" (func (param "in" (list (borrow $p))) (result (list u32))))))
  (alias export $poll "pollable" (type $pollable))
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
    (alias outer 1 $pollable (type $p))
    (export "pollable" (type $q (eq $p)))
    (export "subscribe-duration" (func (param "when" u64) (result (own $q))))))
  (core module $memory (memory (export "m") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
  (core instance $i (instantiate $memory))
  (core func $poll' (canon lower (func $poll "poll")
    (memory (core memory $i "m")) (realloc (core func $i "realloc"))))
  (core func $after (canon lower (func $clock "subscribe-duration")))
  (core module $m
    (import "" "poll" (func $poll (param i32 i32 i32)))
    (import "" "after" (func $after (param i64) (result i32)))
    (import "" "m" (memory 1))
    (func $f
      (i32.store (i32.const 64) (call $after (i64.const 0)))
      (i32.store (i32.const 68) (call $after (i64.const 0)))
      (call $poll (i32.const 64) (i32.const 2) (i32.const 16)))
    (start $f))
  (core instance (instantiate $m (with "" (instance
    (export "poll" (func $poll')) (export "after" (func $after)) (export "m" (memory $i "m")))))))"""


def test_a_poll_of_two_meets_a_fault_of_wasmtime_only_beside_asynchronous_built_ins(wat, sandbox, new_frame):
    """When the second half fails, wasmtime is mended: one engine, with concurrency, will do for all components."""
    polls = replace(surface_of(Capability.TOOL, frozenset()), exports=())
    start(sandbox, wat(POLL_OF_TWO.format(built_in="")), new_frame(), polls)
    concurrent = wat(POLL_OF_TWO.format(built_in="(core func (canon waitable-set.new))"))
    with pytest.raises(PluginError, match="by a fault of its own") as caught:
        start(sandbox, concurrent, new_frame(), polls)
    assert "deferred host scope" in caught.value.causes()[-1]


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("built_in", "kind", "body", "error"),
    [
        ("canon thread.yield", "(func $f (result i32))", "(loop (drop (call $f)) (br 0))", DeadlineExceeded),
        ('canon waitable-set.wait (memory (core memory $i "m"))', "(func $f (param i32 i32) (result i32))", "(drop (call $f (i32.const 1) (i32.const 0)))", GuestTrap),
    ],
)  # fmt: skip
def test_asynchronous_built_ins_wait_for_nothing_beyond_the_deadline(
    built_in, kind, body, error, wat, sandbox, new_frame
):
    component = wat(f"""(component
      (core module $memory (memory (export "m") 1)) (core instance $i (instantiate $memory))
      (core func $f ({built_in}))
      (core module $m (import "" "f" {kind}) (func $s {body}) (start $s))
      (core instance (instantiate $m (with "" (instance (export "f" (func $f)))))))""")
    with pytest.raises(error):
        start(sandbox, component, new_frame(Limits(call_fuel=10**15, call_timeout_ms=100)))


@pytest.mark.req("PLG-022")
@pytest.mark.realtime
def test_a_start_function_is_under_the_limits_too(wat, sandbox, new_frame):
    component = wat(
        "(component (core module $m (func $f (loop (br 0))) (start $f)) (core instance (instantiate $m)))"
    )
    with pytest.raises(OutOfFuel):
        start(sandbox, component, new_frame(Limits(call_fuel=1000)))
    with pytest.raises(DeadlineExceeded):
        start(sandbox, component, new_frame(Limits(call_fuel=10**15, call_timeout_ms=50)))


@pytest.mark.parametrize(
    "core",
    [
        "(core module $m (memory 1 1 shared))",
        "(core module $m (memory i64 1))",
        "(core module $m (type (array i32)))",
    ],
)
def test_what_could_slip_past_the_limits_is_not_compiled(core, wat, sandbox):
    with pytest.raises(ComponentInvalid):
        sandbox.cache.load(wat(f"(component {core})"))


def test_a_store_that_trapped_is_never_entered_again(embed, tool_core, surface, sandbox, new_frame):
    linked = sandbox.load(embed(tool_core("unreachable")), surface())
    frame = new_frame()

    def work() -> None:
        with sandbox.guest(linked, frame) as guest:
            with pytest.raises(GuestTrap):
                guest.call(frame, "zeroclaw:plugin/tool", "execute", "{}")
            assert not guest.alive
            with pytest.raises(PluginUnavailable):
                guest.call(frame, "zeroclaw:plugin/tool", "name")

    sandbox.threads.run(frame, work)


@pytest.mark.req("PLG-017")
def test_each_call_of_one_guest_starts_with_a_full_budget(embed, tool_core, surface, sandbox, new_frame):
    work_hard = """
      (local $turn i32)
      (loop $again
        (local.set $turn (i32.add (local.get $turn) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $turn) (i32.const 10000))))
      (call $answer (local.get 0) (local.get 1))"""
    linked = sandbox.load(embed(tool_core(work_hard)), surface())
    measuring = new_frame()

    def spent() -> int:
        with sandbox.guest(linked, measuring) as guest:
            guest.call(measuring, "zeroclaw:plugin/tool", "execute", "{}")
            return measuring.limits.call_fuel - guest.fuel_left()

    needed = sandbox.threads.run(measuring, spent)
    frame = new_frame(Limits(call_fuel=needed * 10 // 6))

    def twice() -> None:
        with sandbox.guest(linked, frame) as guest:
            for _ in range(2):
                assert isinstance(guest.call(frame, "zeroclaw:plugin/tool", "execute", "{}"), Ok)

    sandbox.threads.run(frame, twice)


def test_cancelling_ends_a_busy_guest(embed, tool_core, surface, sandbox, new_frame):
    frame = new_frame(Limits(call_fuel=10**15))
    linked = sandbox.load(embed(tool_core(ENDLESS)), surface())

    def work() -> object:
        with sandbox.guest(linked, frame) as guest:
            frame.cancel()
            return guest.call(frame, "zeroclaw:plugin/tool", "execute", "{}")

    with pytest.raises(CallCancelled):
        sandbox.threads.run(frame, work)


@pytest.mark.parametrize(("size", "passes"), [(MAX_LIST_ELEMENTS, True), (2_900_000, False)])
def test_the_largest_list_a_guest_can_hand_over_at_once(
    size, passes, embed, tool_core, surface, sandbox, execute
):
    state = interface(
        "zeroclaw:plugin/state", HostFunction("put", lambda frame, key, value, expected: Ok(len(value)))
    )
    component = embed(
        tool_core(
            f"""(drop (memory.grow (i32.const 60)))
            (call $put (i32.const 64) (i32.const 4) (i32.const 4096) (i32.const {size}) (i32.const 0) (i64.const 0) (i32.const 512))
            (call $answer (local.get 0) (local.get 1))""",
            imports='(import "zeroclaw:plugin/state@0.1.0" "put" (func $put (param i32 i32 i32 i32 i32 i64 i32)))',
        )
    )
    if passes:
        assert isinstance(execute(component, surface(state)), Ok)
    else:
        with pytest.raises(MemoryLimit) as caught:
            execute(component, surface(state))
        assert caught.value.details["limit"] == "list elements"


def test_the_exception_a_python_guest_died_of_is_read_from_what_it_printed():
    printed = (
        "some output\n"
        "Traceback (most recent call last):\n"
        '  File "/0/app.py", line 3, in execute\n'
        "app.Weather: it rains\nand pours\n"
        "\nthread '<unnamed>' (1) panicked at runtime/src/lib.rs:1293:29:\n"
        "Python function threw an unexpected exception\n"
    )
    found = python_exception(printed)
    assert found is not None
    assert (found.type, found.message) == ("app.Weather", "it rains\nand pours")
    assert found.traceback.startswith("Traceback")
    assert "panicked" not in found.traceback


@pytest.mark.req("PLG-020")
@pytest.mark.parametrize(
    ("printed", "limit"),
    [
        ("thread 'main' panicked at src/lib.rs:1:1:\nno such thing\nnote: more\n", False),
        ("memory allocation of 1048576 bytes failed\n", True),
        ("terminating due to uncaught exception of type std::bad_alloc: std::bad_alloc\n", True),
        ("fatal error: out of memory\n", True),
        ("thread '<unnamed>' panicked at src/lib.rs:1:1:\n\n", False),
        ("", False),
    ],
)
def test_a_runtime_that_gets_no_memory_is_told_from_one_that_aborts(printed, limit, new_frame):
    frame = new_frame(Limits(max_memory_mb=3))
    frame.stderr.write(printed.encode())
    trap = "error while executing at wasm backtrace:\n    0: 0x1 - f\n\nCaused by:\n    wasm trap: wasm `unreachable` instruction executed\n"
    error = explain(WasmtimeError(trap), frame)
    assert isinstance(error, MemoryLimit) is limit
    assert error.details.get("limit") == ("max_memory_mb" if limit else None)
    if "no such thing" in printed:
        assert error.message == "the plugin panicked: no such thing"


@pytest.mark.parametrize("text", ["", "no traceback", "Traceback (most recent call last):\n  File"])
def test_no_exception_is_read_where_none_was_printed(text):
    assert python_exception(text) is None


@pytest.mark.parametrize(
    "text", ["MemoryError\n", "Traceback (most recent call last):\nobject type name: MemoryError\n"]
)
def test_an_interpreter_without_memory_is_understood(text):
    found = python_exception(text)
    assert found is not None
    assert found.type == "MemoryError"


def start(sandbox, component: bytes, frame, surface: Surface | None = None) -> None:
    """Instantiate a component that exports nothing."""
    bare = Surface(
        interfaces={},
        native=frozenset(),
        empty=frozenset(),
        reasons={},
        exports=(),
        version_fits=lambda *_: True,
    )
    linked = sandbox.load(component, surface or bare)
    sandbox.threads.run(frame, lambda: sandbox.guest(linked, frame).close())
