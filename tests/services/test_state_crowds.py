"""Durable state that many use at once: no update is lost, and who never gets a turn is told that it is busy (PLG-156, PLG-159)."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import state_parts
from state_parts import DEMO, Home

from zeroclaw_host.services.state import StateEntry, StateFault
from zeroclaw_host.services.state_database import StateUnavailable

BOUND = 120
"""Seconds after which a process that hangs is given up."""

COUNT = """
import json, sys, threading
from pathlib import Path
from state_parts import *
from zeroclaw_host.services.state import StateFault
store, given, wrong = Home(Path(sys.argv[1])).store(), [], []

def count():
    done = 0
    while done < int(sys.argv[2]):
        entry = store.get(DEMO, "n")
        try:
            given.append(store.put(DEMO, "n", str(int(entry.value) + 1).encode(), entry.revision))
            done += 1
        except StateFault as fault:
            if fault.word != "conflict":
                wrong.append(fault.word)
                return

print("ready", flush=True); input()
threads = [threading.Thread(target=count) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps([given, wrong]))
"""


@pytest.mark.req("PLG-156")
def test_of_threads_of_several_processes_that_count_at_once_none_loses_an_update(tmp_path: Path) -> None:
    home, rounds, processes = Home(tmp_path), 5, 2
    home.store().put(DEMO, "n", b"0", None)
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", COUNT, str(tmp_path), str(rounds)],
            env={**os.environ, "PYTHONPATH": str(Path(state_parts.__file__).parent)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(processes)
    ]  # fmt: skip
    for process in crowd:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in crowd:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    given: list[int] = []
    for process in crowd:
        numbers, wrong = json.loads(process.communicate(timeout=BOUND)[0])
        assert wrong == []
        given += numbers

    updates = processes * 8 * rounds
    assert sorted(given) == list(range(2, updates + 2))
    assert home.store().get(DEMO, "n") == StateEntry(str(updates).encode(), updates + 1)


@pytest.mark.req("PLG-159")
def test_a_database_that_nobody_else_can_even_read_is_busy_in_everything(tmp_path: Path) -> None:
    home = Home(tmp_path)
    store = home.store(busy_seconds=0)
    store.put(DEMO, "a", b"1", None)
    store.close()  # nobody gets the whole file while others have it open
    raw = sqlite3.connect(home.database, isolation_level=None, timeout=BOUND)
    raw.execute("PRAGMA locking_mode = EXCLUSIVE")
    raw.execute("BEGIN EXCLUSIVE")
    guest: list[Callable[[], object]] = [
        lambda: store.get(DEMO, "a"),
        lambda: store.put(DEMO, "a", b"2", 1),
        lambda: store.delete(DEMO, "a", 1),
    ]
    for work in guest:
        with pytest.raises(StateFault) as fault:
            work()
        assert fault.value.word == "unavailable"
    assert home.reasons == ["busy"]
    for work in (store.usage, lambda: store.clear(DEMO), store.rekey):
        with pytest.raises(StateUnavailable) as refused:
            work()
        assert refused.value.details["reason"] == "busy"
    raw.close()

    assert store.get(DEMO, "a") == StateEntry(b"1", 1)
    assert store.put(DEMO, "a", b"2", 1) == 2
