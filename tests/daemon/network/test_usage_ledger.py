"""The ledger in a running daemon: in nobody's way, bounded, and with nothing lost while the daemon lives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from zeroclaw_daemon.network.usage import Key, Outcome, Tally
from zeroclaw_daemon.network.usage_file import UsageFile, UsageUnavailable, read_usage
from zeroclaw_daemon.network.usage_ledger import MAX_WAITING, UsageLedger
from zeroclaw_host.instance import InstanceIdentity

WEATHER = InstanceIdentity.default_tool("weather")
PATIENCE = 60.0
"""Tells waiting from hanging."""

Make = Callable[..., UsageLedger]


def key(host: str, outcome: Outcome = Outcome.OPENED) -> Key:
    return Key(WEATHER.key, outcome, "http", host, 443)


def once(rule: str = "*.example") -> Tally:
    return Tally(count=1, rule=rule, first=1, last=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "usage.db"


@pytest.fixture
def failures() -> list[UsageUnavailable]:
    return []


@pytest.fixture
def ledger(path: Path, failures: list[UsageUnavailable]) -> Iterator[Make]:
    made: list[UsageLedger] = []

    def make(**more: float) -> UsageLedger:
        made.append(UsageLedger(path, report=failures.append, **more))
        return made[-1]

    yield make
    for each in made:
        each.close(seconds=PATIENCE)


def counts(path: Path) -> dict[str | None, int]:
    return {each.host: each.count for each in read_usage(path, WEATHER)}


def test_what_is_noted_is_in_the_file_soon_and_for_a_reader_while_the_ledger_lives(
    ledger: Make, path: Path
) -> None:
    kept = ledger()
    for number in range(500):
        kept.note(key(f"h{number % 2}.example"), once())
    assert kept.settle(PATIENCE)
    assert counts(path) == {"h0.example": 250, "h1.example": 250}
    kept.note(key("h0.example"), once())
    kept.close(seconds=PATIENCE)
    kept.note(key("h0.example"), once())
    assert counts(path)["h0.example"] == 251
    kept.close()


def test_a_ledger_that_nothing_was_noted_in_makes_no_file_and_no_thread(ledger: Make, path: Path) -> None:
    before = set(threading.enumerate())
    kept = ledger()
    assert kept.settle(0)
    kept.close()
    assert set(threading.enumerate()) <= before
    assert not path.exists()


def test_the_writers_thread_ends_with_the_ledger(ledger: Make) -> None:
    before = set(threading.enumerate())
    kept = ledger()
    kept.note(key("a.example"), once())
    kept.close(seconds=PATIENCE)
    assert set(threading.enumerate()) <= before


def test_a_file_that_takes_nothing_holds_nobody_up_and_loses_nothing(
    ledger: Make, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many hosts a plugin makes up meanwhile, what waits is bounded, and what it used is among it."""
    stuck, free = threading.Event(), threading.Event()
    sizes: list[int] = []
    add = UsageFile.add

    def slow(self: UsageFile, tallies: Mapping[Key, Tally]) -> None:
        stuck.set()
        assert free.wait(PATIENCE)
        sizes.append(len(tallies))
        add(self, tallies)

    monkeypatch.setattr(UsageFile, "add", slow)
    kept = ledger()
    kept.note(key("first.example"), once("first.example"))
    assert stuck.wait(PATIENCE)
    for number in range(10 * MAX_WAITING):
        kept.note(key(f"h{number}.example", Outcome.REFUSED), once(""))
    for number in range(MAX_WAITING + 10):
        kept.note(key(f"u{number}.example"), once())
    free.set()
    assert kept.settle(PATIENCE)
    assert max(sizes) <= 2 * MAX_WAITING + 2
    found = read_usage(path, WEATHER)
    assert sum(each.count for each in found if each.outcome is Outcome.REFUSED) == 10 * MAX_WAITING
    opened = [each for each in found if each.outcome is Outcome.OPENED]
    assert sum(each.count for each in opened) == MAX_WAITING + 11
    assert [(each.host, each.count) for each in opened if each.port is None] == [("*.example", 10)]


def test_a_file_that_cannot_be_used_is_told_once_and_written_when_it_can_be(
    ledger: Make, path: Path, failures: list[UsageUnavailable]
) -> None:
    path.write_bytes(b"no database" * 100)
    path.chmod(0o600)
    kept = ledger(retry_seconds=0.01)
    kept.note(key("a.example"), once())
    assert not kept.settle(PATIENCE)
    kept.note(key("a.example"), once())
    path.unlink()
    while not kept.settle(PATIENCE):
        pass
    assert counts(path) == {"a.example": 2}
    assert [error.code for error in failures] == ["egress_usage_unavailable"]


def test_closing_tries_once_more(ledger: Make, path: Path, failures: list[UsageUnavailable]) -> None:
    path.mkdir()
    kept = ledger(retry_seconds=10 * PATIENCE)
    kept.note(key("a.example"), once())
    assert not kept.settle(PATIENCE)
    path.rmdir()
    kept.close(seconds=PATIENCE)
    assert counts(path) == {"a.example": 1}
    assert len(failures) == 1


def test_many_threads_note_at_once(ledger: Make, path: Path) -> None:
    kept = ledger()
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait(PATIENCE)
        for _ in range(200):
            kept.note(key(f"h{number % 3}.example"), once())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert kept.settle(PATIENCE)
    assert sum(counts(path).values()) == 1600
