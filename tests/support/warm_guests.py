"""A memory for tests of the warm store, forged so that each function does one thing, and what goes with it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from forge import Forge
from plugin_parts import PATIENCE

from zeroclaw_host.errors import GuestTrap
from zeroclaw_host.sandbox.frame import Phase
from zeroclaw_host.sandbox.limits import MAX_TEXT_BYTES
from zeroclaw_host.sandbox.values import Ok
from zeroclaw_host.services.logging import LogRecord, MemoryLogSink
from zeroclaw_host.worlds.warm import WarmStore

LOG = (
    "(call $logging.log-record (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 36) (i32.const 0) (i32.const 0)"
    " (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))"
)
"""Say nothing to the log, which a test's own sink turns into whatever the host is to do in the middle of a call."""

COUNTED = """
  (global.set $n (i64.add (global.get $n) (i64.const 1)))
  (i64.store (i32.const 24) (global.get $n))
  (i32.store8 (i32.const 16) (i32.const 0))
  (i32.const 16)"""
"""How many times it was called, as the ok of a result."""

SPIN = "(loop $again (br $again))"

TEXT_AT_16 = "(i32.store8 (i32.const 16) (i32.const 1)) (i32.store (i32.const 20) (i32.const {at})) (i32.store (i32.const 24) (i32.const {size})) (i32.const 16)"
"""An err with a text that lies somewhere, or nowhere."""


def warm_component() -> bytes:
    """A memory that does one thing in each of its functions; only the functions' names are a memory's."""
    half = "(local $i i32) (loop $again (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $again (i32.lt_u (local.get $i) (i32.const 1000))))"
    return Forge("memory-plugin").component(
        imports=(
            "logging.log-record",
            "wasi:cli/stdout.get-stdout",
            "wasi:io/streams.[method]output-stream.blocking-write-and-flush",
        ),
        extra='(global $n (mut i64) (i64.const 0)) (global $out (mut i32) (i32.const 0)) (data (i32.const 64) "said\\ff")',
        bodies={
            "memory.count": COUNTED,
            "memory.reindex": LOG + COUNTED,
            "memory.purge-session": half + COUNTED,
            "memory.purge-agent": "(i32.store8 (i32.const 16) (i32.const 1)) (i32.store (i32.const 24) (i32.const 64)) (i32.store (i32.const 28) (i32.const 4)) (i32.const 16)",
            "memory.forget": LOG + "unreachable",
            "memory.health-check": LOG + SPIN + "(i32.const 1)",
            "memory.ensure-agent-uuid": TEXT_AT_16.format(at=64, size=5),
            "memory.recall": TEXT_AT_16.format(at=4096, size=MAX_TEXT_BYTES + 1),
            "memory.export-entries": TEXT_AT_16.format(at=0x7FFFFFF0, size=100),
            "memory.purge-namespace": """
              (if (i32.eqz (global.get $out)) (then (global.set $out (call $wasi:cli/stdout.get-stdout))))
              (call $"wasi:io/streams.[method]output-stream.blocking-write-and-flush"
                (global.get $out) (local.get 0) (local.get 1) (i32.const 128))"""
            + COUNTED,
        },
        pages=300,
    )


class Sink(MemoryLogSink):
    """A log that does what a test wants when the guest speaks."""

    def __init__(self) -> None:
        super().__init__()
        self.hook: Callable[[], object] = lambda: None

    def emit(self, record: LogRecord) -> None:
        if record.source == "log":
            self.hook()
        else:
            super().emit(record)


class Held:
    """A guest that stays inside a host function until it is released."""

    def __init__(self, sink: Sink) -> None:
        self.inside = threading.Semaphore(0)
        self.release = threading.Event()
        sink.hook = self._hold

    def _hold(self) -> None:
        self.inside.release()
        assert self.release.wait(PATIENCE)


def call(store: WarmStore, function: str = "count", *arguments: object) -> object:
    return store.call_sync(function, *arguments, phase=Phase.STANDARD)


def count(store: WarmStore) -> int:
    """How many calls the instance has served, this one included."""
    found = call(store)
    assert isinstance(found, Ok)
    return found.value


def spend_free_rebuilds(store: WarmStore) -> None:
    for _ in range(4):
        with pytest.raises(GuestTrap):
            call(store, "get", "x")
    assert store.rebuilds == 3


def waits(signal: threading.Semaphore) -> None:
    assert signal.acquire(timeout=PATIENCE)


def forget(signal: threading.Semaphore) -> None:
    """Start counting anew."""
    while signal.acquire(blocking=False):
        """One less."""
