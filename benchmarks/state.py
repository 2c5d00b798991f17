"""What a plugin pays for durable state: a read, and a read with the write that follows it, beside what the disk itself takes."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.harness import Measurement
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.services.sealing import KeyFile
from zeroclaw_host.services.state_store import DurableState

READ_GOAL_MS = 0.3
WRITE_GOAL_MS = 3.0
VALUE = bytes(range(256)) * 4
READS = 2000
WRITES = 300
ENTRIES = 50
SYNCED_BYTES = 3 * 4096
"""About what one write of a value adds to the database's log."""


def measure() -> Iterator[Measurement]:
    """A value of 1 KiB among others, in this process's temporary directory, which should lie on a real disk."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        key_file = KeyFile(root / ".secret_key")
        store = DurableState(root / "data" / "plugin-state.db", key_file)
        instance = InstanceIdentity.default_tool("bench")
        for number in range(ENTRIES):
            store.put(instance, f"other{number}", VALUE, None)
        revision = [store.put(instance, "k", VALUE, None)]

        def read() -> None:
            store.get(instance, "k")

        def read_and_write() -> None:
            store.get(instance, "k")
            revision[0] = store.put(instance, "k", VALUE, revision[0])

        descriptor = os.open(root / "synced", os.O_WRONLY | os.O_CREAT)

        def sync() -> None:
            os.write(descriptor, bytes(SYNCED_BYTES))
            os.fsync(descriptor)

        reading = _median_ms(READS, read)
        yield Measurement(
            "A plugin's state: get of 1 KiB, median",
            {"get": reading},
            goal=f"< {READ_GOAL_MS} ms",
            met=reading < READ_GOAL_MS,
        )
        writing, syncing = _alternately(WRITES, read_and_write, sync)
        yield Measurement(
            "A plugin's state: get and put of 1 KiB with full durability, median",
            {"get and put": writing, f"write and fsync of {SYNCED_BYTES} bytes": syncing},
            goal=f"< {WRITE_GOAL_MS:g} ms",
            met=writing < WRITE_GOAL_MS,
            notes=(f"without the disk's own part: {max(0.0, writing - syncing):.3f} ms",),
        )
        os.close(descriptor)
        store.close()


def _median_ms(times: int, work: Callable[[], None]) -> float:
    return statistics.median(_once(work) for _ in range(times))


def _alternately(times: int, *works: Callable[[], None]) -> tuple[float, ...]:
    found = [[_once(work) for work in works] for _ in range(times)]
    return tuple(statistics.median(column) for column in zip(*found, strict=True))


def _once(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000
