"""Guests that use WASI as no honest toolchain would. Each ends its own call and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zeroclaw_host.errors import DeadlineExceeded, GuestTrap, Kind, MemoryLimit, PluginError
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.resources import MAX_HANDLES

POLL = '(import "wasi:io/poll@0.2.12" "poll" (func $poll (param i32 i32 i32)))'
BLOCK = '(import "wasi:io/poll@0.2.12" "[method]pollable.block" (func $block (param i32)))'
DROP_POLLABLE = '(import "wasi:io/poll@0.2.12" "[resource-drop]pollable" (func $drop-pollable (param i32)))'
AFTER = """
(import "wasi:clocks/monotonic-clock@0.2.12" "subscribe-duration" (func $after (param i64) (result i32)))"""
STDIN = '(import "wasi:cli/stdin@0.2.12" "get-stdin" (func $stdin (result i32)))'
STDOUT = '(import "wasi:cli/stdout@0.2.12" "get-stdout" (func $stdout (result i32)))'
STREAMS = """
(import "wasi:io/streams@0.2.12" "[method]output-stream.subscribe" (func $subscribe (param i32) (result i32)))
(import "wasi:io/streams@0.2.12" "[method]output-stream.check-write" (func $check-write (param i32 i32)))
(import "wasi:io/streams@0.2.12" "[method]output-stream.write" (func $write (param i32 i32 i32 i32)))
(import "wasi:io/streams@0.2.12" "[method]output-stream.write-zeroes" (func $write-zeroes (param i32 i64 i32)))
(import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-write-and-flush"
  (func $blocking-write (param i32 i32 i32 i32)))
(import "wasi:io/streams@0.2.12" "[resource-drop]output-stream" (func $drop-output (param i32)))"""
READ = """
(import "wasi:io/streams@0.2.12" "[method]input-stream.blocking-read" (func $read (param i32 i64 i32)))"""


def test_poll_of_nothing_ends_the_call(run_hostile: Callable[..., Any]) -> None:
    with pytest.raises(GuestTrap, match="at least one pollable"):
        run_hostile(POLL, "(call $poll (i32.const 0) (i32.const 0) (i32.const 1024))")


@pytest.mark.parametrize("count", [1, 2, 100])
def test_poll_takes_several_handles_at_once(run_hostile: Callable[..., Any], count: int) -> None:
    result = run_hostile(
        POLL + AFTER,
        f"""
        (loop
          (i32.store (i32.add (i32.const 2048) (i32.shl (local.get $count) (i32.const 2)))
                     (call $after (i64.const 0)))
          (local.set $count (i32.add (local.get $count) (i32.const 1)))
          (br_if 0 (i32.lt_u (local.get $count) (i32.const {count}))))
        (call $poll (i32.const 2048) (i32.const {count}) (i32.const 1024))
        (if (i32.ne (i32.load (i32.const 1028)) (i32.const {count})) (then unreachable))
        """,
    )
    assert result.success


def test_a_stream_dropped_before_its_pollable_harms_nobody(run_hostile: Callable[..., Any]) -> None:
    result = run_hostile(
        STDOUT + STREAMS + BLOCK + DROP_POLLABLE,
        """
        (local.set $a (call $stdout))
        (local.set $b (call $subscribe (local.get $a)))
        (call $drop-output (local.get $a))
        (call $block (local.get $b))
        (call $drop-pollable (local.get $b))
        """,
    )
    assert result.success


def test_a_handle_used_after_its_drop_ends_the_call(run_hostile: Callable[..., Any]) -> None:
    with pytest.raises(GuestTrap, match="unknown handle index"):
        run_hostile(
            AFTER + BLOCK + DROP_POLLABLE,
            """
            (local.set $a (call $after (i64.const 0)))
            (call $drop-pollable (local.get $a))
            (call $block (local.get $a))
            """,
        )


def test_a_handle_the_guest_made_up_ends_the_call(run_hostile: Callable[..., Any]) -> None:
    with pytest.raises(GuestTrap, match="unknown handle index 77"):
        run_hostile(BLOCK, "(call $block (i32.const 77))")


@pytest.mark.parametrize(
    "write",
    [
        "(call $write (local.get $a) (i32.const 0) (i32.const 1) (i32.const 1024))",
        """
        (call $check-write (local.get $a) (i32.const 1024))
        (drop (memory.grow (i32.const 16)))
        (call $write (local.get $a) (i32.const 0) (i32.const 0x100001) (i32.const 1024))
        """,
        """
        (call $check-write (local.get $a) (i32.const 1024))
        (call $write-zeroes (local.get $a) (i64.const -1) (i32.const 1024))
        """,
        "(call $blocking-write (local.get $a) (i32.const 0) (i32.const 4097) (i32.const 1024))",
    ],
    ids=["unasked", "one byte past", "endless zeroes", "too much at once"],
)
def test_a_write_beyond_its_permission_ends_the_call(run_hostile: Callable[..., Any], write: str) -> None:
    with pytest.raises(GuestTrap, match="broke a rule of wasi:io"):
        run_hostile(STDOUT + STREAMS, f"(local.set $a (call $stdout)) {write}")


def test_input_is_at_its_end(run_hostile: Callable[..., Any]) -> None:
    result = run_hostile(
        STDIN + READ,
        """
        (local.set $a (call $stdin))
        (call $read (local.get $a) (i64.const -1) (i32.const 1024))
        (if (i32.ne (i32.load8_u (i32.const 1024)) (i32.const 1)) (then unreachable)) ;; an error
        (if (i32.ne (i32.load8_u (i32.const 1028)) (i32.const 1)) (then unreachable)) ;; closed
        """,
    )
    assert result.success


def test_handles_without_end_meet_their_limit(run_hostile: Callable[..., Any]) -> None:
    with pytest.raises(PluginError) as caught:
        run_hostile(AFTER, "(loop (drop (call $after (i64.const 0))) (br 0))")
    assert caught.value.kind is Kind.LIMIT
    assert caught.value.details["maximum"] == MAX_HANDLES


@pytest.mark.req("PLG-018", "PLG-019", "PAINS-3")
@pytest.mark.realtime
@pytest.mark.parametrize("nanoseconds", ["1000000000000", "-1"], ids=["long", "longest"])
def test_a_sleep_past_the_deadline_ends_at_the_deadline(
    run_hostile: Callable[..., Any], nanoseconds: str
) -> None:
    with pytest.raises(DeadlineExceeded, match="past its deadline while waiting"):
        run_hostile(
            AFTER + BLOCK,
            f"(call $block (call $after (i64.const {nanoseconds})))",
            limits=Limits(call_timeout_ms=2000),
        )


def test_random_bytes_beyond_all_measure_end_the_call(run_hostile: Callable[..., Any]) -> None:
    with pytest.raises(MemoryLimit, match="random bytes") as caught:
        run_hostile(
            '(import "wasi:random/random@0.2.12" "get-random-bytes" (func $random (param i64 i32)))',
            "(call $random (i64.const 0x10000000000) (i32.const 1024))",
        )
    assert caught.value.kind is Kind.LIMIT
    assert caught.value.causes() == ("requested len 1099511627776 exceeds limit 67108864",)


@pytest.mark.parametrize(
    "leave",
    [
        (
            '(import "wasi:cli/exit@0.2.12" "exit" (func $exit (param i32)))',
            "(call $exit (i32.const 0))",
        ),
        (
            '(import "wasi:cli/exit@0.2.12" "exit-with-code" (func $exit (param i32)))',
            "(call $exit (i32.const 7))",
        ),
    ],
    ids=["exit", "exit with code"],
)
def test_a_guest_that_exits_ends_its_call_and_not_the_process(
    run_hostile: Callable[..., Any], leave: tuple[str, str]
) -> None:
    with pytest.raises(GuestTrap, match="ended itself with status"):
        run_hostile(*leave)


@pytest.mark.parametrize("version", ["0.2.0", "0.2.3", "0.2.9"])
def test_an_import_of_any_version_0_2_is_answered(run_hostile: Callable[..., Any], version: str) -> None:
    result = run_hostile(AFTER + BLOCK, "(call $block (call $after (i64.const 0)))", wasi=version)
    assert result.success
