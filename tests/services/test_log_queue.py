"""The queue in front of a log: bounded, never waited for, and honest about what it dropped."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.services.log_queue import (
    MAX_QUEUED_BYTES,
    MAX_QUEUED_RECORDS,
    REPORT_SECONDS,
    DropCount,
    Drops,
    LogQueue,
    warn_of_drops,
)
from zeroclaw_host.services.logging import MAX_RECORD_BYTES, CallSite, LogRecord, StandardLogSink

BOUND = 30
"""Seconds after which a test that waits for a thread gives up."""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def record(message: str = "hello", **more: object) -> LogRecord:
    return LogRecord(InstanceIdentity.default_tool("acme"), CallSite(), "info", message, **more)  # type: ignore[arg-type]


class Disk:
    """Takes records when it is told to, and keeps what it took and what it was told of drops, in order."""

    def __init__(self, *, going: bool = True) -> None:
        self.taken: list[str | Drops] = []
        self.reached = threading.Event()
        self.going = threading.Event()
        self.reported = threading.Event()
        if going:
            self.going.set()

    def write(self, found: LogRecord) -> None:
        self.reached.set()
        assert self.going.wait(BOUND)
        self.taken.append(found.message)

    def report(self, drops: Drops) -> None:
        self.taken.append(drops)
        self.reported.set()


@pytest.fixture
def queue_before():
    """Makes queues, and closes them."""
    made: list[tuple[LogQueue, Disk]] = []

    def make(disk: Disk, **more: object) -> LogQueue:
        queue = LogQueue(disk.write, disk.report, **more)  # type: ignore[arg-type]
        made.append((queue, disk))
        return queue

    yield make
    for queue, disk in made:
        disk.going.set()
        queue.close()


def test_records_arrive_in_order_and_closing_waits_for_the_last(
    queue_before: Callable[..., LogQueue],
) -> None:
    disk = Disk()
    queue = queue_before(disk)
    for number in range(100):
        queue.emit(record(str(number)))
    queue.close()
    assert disk.taken == [str(number) for number in range(100)]
    assert queue.dropped == 0


@pytest.mark.parametrize(("sent", "dropped"), [(MAX_QUEUED_RECORDS, 0), (MAX_QUEUED_RECORDS + 1, 1)])
def test_as_many_records_wait_as_may_and_one_more_is_dropped(
    sent: int, dropped: int, queue_before: Callable[..., LogQueue]
) -> None:
    disk = Disk(going=False)
    queue = queue_before(disk)
    for number in range(sent):
        queue.emit(record(str(number)))
    assert queue.dropped == dropped
    disk.going.set()
    queue.close()
    written = [found for found in disk.taken if isinstance(found, str)]
    assert written == [str(number) for number in range(MAX_QUEUED_RECORDS)]


def test_as_many_bytes_wait_as_may_and_one_more_is_dropped(queue_before: Callable[..., LogQueue]) -> None:
    queue = queue_before(Disk(going=False))
    assert MAX_QUEUED_BYTES % MAX_RECORD_BYTES == 0
    for _ in range(MAX_QUEUED_BYTES // MAX_RECORD_BYTES):
        queue.emit(record("x" * MAX_RECORD_BYTES))
    assert queue.dropped == 0
    queue.emit(record("x"))
    assert queue.dropped == 1


def test_bytes_wait_until_their_record_is_written(queue_before: Callable[..., LogQueue]) -> None:
    disk = Disk(going=False)
    queue = queue_before(disk, capacity_bytes=10)
    queue.emit(record("12345678"))
    assert disk.reached.wait(BOUND)  # out of the queue, and not yet on the disk
    queue.emit(record("123"))
    assert queue.dropped == 1
    disk.going.set()
    assert disk.reported.wait(BOUND)
    queue.emit(record("1234567890"))
    assert queue.dropped == 1


@pytest.mark.parametrize(("size", "dropped"), [(MAX_RECORD_BYTES, 0), (MAX_RECORD_BYTES + 1, 1)])
def test_the_largest_record_is_kept_and_a_larger_one_is_dropped_whole(
    size: int, dropped: int, queue_before: Callable[..., LogQueue]
) -> None:
    disk = Disk()
    queue = queue_before(disk)
    queue.emit(record("é" * ((size - 4) // 2) + "x" * (size % 2), function="fn", raw="rr"))
    queue.close()
    assert queue.dropped == dropped
    assert len([found for found in disk.taken if isinstance(found, str)]) == 1 - dropped


def test_what_was_dropped_is_said_after_what_waited_was_written(
    queue_before: Callable[..., LogQueue],
) -> None:
    disk = Disk(going=False)
    queue = queue_before(disk, capacity=2, clock=Clock())
    for number in range(5):
        queue.emit(record(str(number)))
    disk.going.set()
    queue.close()
    assert disk.taken == ["0", "1", Drops(3, 3)]


def test_while_records_keep_coming_drops_are_said_at_intervals(queue_before: Callable[..., LogQueue]) -> None:
    clock = Clock()
    disk = Disk(going=False)
    queue = queue_before(disk, capacity=3, clock=clock)
    for number in range(4):
        queue.emit(record(str(number)))
    clock.now += REPORT_SECONDS
    disk.going.set()
    queue.close()
    assert disk.taken == ["0", Drops(1, 1), "1", "2"]


def test_an_idle_queue_says_what_was_dropped_when_its_time_has_come(
    queue_before: Callable[..., LogQueue],
) -> None:
    clock = Clock()
    disk = Disk()
    queue = queue_before(disk, clock=clock)
    queue.drop()
    clock.now += REPORT_SECONDS / 2
    queue.drop()
    queue.drop()
    assert disk.taken == []
    clock.now += REPORT_SECONDS / 2
    with queue._changed:
        queue._changed.notify()  # the clock of the test wakes nobody
    assert disk.reported.wait(BOUND)
    assert disk.taken == [Drops(3, 3)]


@pytest.mark.realtime
def test_an_idle_queue_wakes_by_itself_to_say_what_was_dropped(queue_before: Callable[..., LogQueue]) -> None:
    disk = Disk()
    queue_before(disk).emit(record("x" * (MAX_RECORD_BYTES + 1)))
    assert disk.reported.wait(BOUND)
    assert disk.taken == [Drops(1, 1)]


@given(st.lists(st.sampled_from(["drop", "take", "wait"]), max_size=30))
def test_every_drop_is_reported_once_and_within_its_time(steps: list[str]) -> None:
    clock = Clock()
    count = DropCount(clock)
    reported = waited = unreported = 0.0
    for step in steps:
        if step == "drop":
            waited = waited if unreported else 0.0
            count.add()
            unreported += 1
        elif step == "wait":
            clock.now += REPORT_SECONDS / 4
            waited += REPORT_SECONDS / 4
        elif (drops := count.take()) is not None:
            reported += drops.newly_dropped
            unreported = 0
            assert drops.total_dropped == reported == count.total
        due = max(0.0, REPORT_SECONDS - waited) if unreported else None
        assert count.seconds_left() == (due if due is None else pytest.approx(due))
    assert reported + unreported == count.total


def test_after_the_end_records_are_dropped_and_nothing_is_raised(
    queue_before: Callable[..., LogQueue],
) -> None:
    disk = Disk()
    queue = queue_before(disk)
    queue.close()
    queue.close()
    queue.emit(record())
    assert queue.dropped == 1
    assert disk.taken == []


def test_a_queue_nobody_speaks_to_has_no_thread(queue_before: Callable[..., LogQueue]) -> None:
    before = set(threading.enumerate())
    queue = queue_before(Disk())
    assert set(threading.enumerate()) <= before
    queue.emit(record())
    queue.close()
    assert set(threading.enumerate()) <= before


def test_a_writer_that_fails_loses_its_record_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: failed.set())  # the last thing a thread does
    taken: list[str] = []

    def write(found: LogRecord) -> None:
        if found.message == "bad":
            raise ValueError("no disk")
        taken.append(found.message)

    queue = LogQueue(write, lambda _: None, capacity_bytes=3)
    queue.emit(record("bad"))
    assert failed.wait(BOUND)
    queue.emit(record("abc"))
    queue.close()
    assert taken == ["abc"]
    assert queue.dropped == 0


def test_closing_writes_what_waits_behind_a_record_that_its_writer_dies_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    died = threading.Semaphore(0)
    monkeypatch.setattr(threading, "excepthook", lambda _: died.release())
    disk = Disk(going=False)

    def write(found: LogRecord) -> None:
        disk.write(found)
        if found.message == "bad":
            raise OSError("no space left")

    queue = LogQueue(write, disk.report)
    for message in ("bad", "bad", "good"):
        queue.emit(record(message))
    assert disk.reached.wait(BOUND)
    disk.going.set()
    queue.close()
    assert disk.taken == ["bad", "bad", "good"]
    for _ in range(2):  # before the hook is the old one again
        assert died.acquire(timeout=BOUND)


def test_closing_leaves_a_writer_that_is_stuck(queue_before: Callable[..., LogQueue]) -> None:
    disk = Disk(going=False)
    queue = queue_before(disk)
    queue.emit(record())
    assert disk.reached.wait(BOUND)
    queue.close(seconds=0.01)
    assert disk.taken == []
    queue.emit(record("late"))
    assert queue.dropped == 1


def test_what_waits_when_a_program_ends_is_written(tmp_path: Path) -> None:
    program = f"""
import sys, time
from pathlib import Path
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.services.log_queue import LogQueue
from zeroclaw_host.services.logging import CallSite, LogRecord

def write(record):
    time.sleep(0.001)
    with Path({str(tmp_path / "log")!r}).open("a") as file:
        file.write(record.message)

queue = LogQueue(write, print)
for number in range(50):
    queue.emit(LogRecord(InstanceIdentity.default_tool("acme"), CallSite(), "info", "x"))
sys.exit(3)
"""
    ended = subprocess.run([sys.executable, "-c", program], timeout=BOUND, check=False)
    assert ended.returncode == 3
    assert (tmp_path / "log").read_text() == "x" * 50


def test_a_forked_process_writes_its_own_records_and_none_of_the_other(tmp_path: Path) -> None:
    going, file = threading.Event(), tmp_path / "log"

    def write(found: LogRecord) -> None:
        if found.message != "child":
            assert going.wait(BOUND)
        with file.open("a") as log:
            log.write(f"{found.message} ")

    queue = LogQueue(write, lambda _: None)
    for _ in range(2):
        queue.emit(record("parent"))
    with warnings.catch_warnings(), queue._changed:  # held, as by another thread in the moment of the fork
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.alarm(BOUND)
        queue.emit(record("child"))
        queue.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert file.read_text() == "child "
    going.set()
    queue.close()
    assert file.read_text() == "child parent parent "


@pytest.mark.req("PLG-028")
def test_any_sink_can_stand_behind_it(caplog: pytest.LogCaptureFixture) -> None:
    queue = LogQueue(StandardLogSink().emit, warn_of_drops)
    with caplog.at_level(logging.INFO, logger="zeroclaw.plugin"):
        queue.emit(record("from the plugin"))
        queue.drop()
        queue.close()
    said, warned = caplog.records
    assert said.getMessage() == "acme: from the plugin"
    assert (warned.levelname, warned.newly_dropped, warned.total_dropped) == ("WARNING", 1, 1)  # type: ignore[attr-defined]
