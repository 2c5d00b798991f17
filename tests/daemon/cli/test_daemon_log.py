"""The daemon log: bounded, attributed, and never a reason to wait or to fail."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from zeroclaw_daemon.daemon_log import DaemonLogHandler, LogFile, guest_log, log_line
from zeroclaw_daemon.records import record
from zeroclaw_host.errors import Remedy, RemedyAction, StorageError
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.services.logging import MAX_RECORD_BYTES, CallSite, LogRecord


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def guest_record(message: str = "hello", **more: object) -> LogRecord:
    instance = InstanceIdentity.default_tool("acme")
    return LogRecord(instance, CallSite({"agent": "ada", "tool": "t"}), "info", message, **more)  # type: ignore[arg-type]


def note(number: int) -> dict[str, object]:
    return log_line(
        time_ns=number,
        severity="info",
        message="x" * 100,
        event={"action": "note"},
        attribution={},
        attributes={"n": number},
    )


def test_the_log_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "d.jsonl"
    file = LogFile(path, max_bytes=2_000)
    for number in range(50):
        file.write(note(number))
        assert path.stat().st_size <= 2_000
    file.close()
    kept = [line["attributes"]["n"] for p in (path.with_name("d.jsonl.1"), path) for line in lines(p)]  # type: ignore[index]
    assert kept == list(range(50 - len(kept), 50))
    assert len(kept) >= 4
    assert sorted(p.name for p in path.parent.iterdir()) == ["d.jsonl", "d.jsonl.1"]
    assert path.stat().st_mode & 0o077 == 0


def test_a_line_longer_than_the_bound_is_still_one_line(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    file = LogFile(path, max_bytes=10)
    file.write(note(1))
    file.write(note(2))
    file.close()
    assert [line["attributes"] for line in lines(path)] == [{"n": 2}]


def test_an_existing_log_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    for number in range(2):
        file = LogFile(path)
        file.write(note(number))
        file.close()
    assert [line["attributes"] for line in lines(path)] == [{"n": 0}, {"n": 1}]


def test_a_disk_that_takes_nothing_is_said_once_and_raises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaints: list[str] = []
    file = LogFile(tmp_path / "d.jsonl", complain=complaints.append)

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        file.write(note(1))
        file.write(note(2))
    file.write(note(3))
    file.close()
    assert len(complaints) == 1
    assert "No space left on device" in complaints[0]
    assert [line["attributes"] for line in lines(tmp_path / "d.jsonl")] == [{"n": 3}]


@pytest.mark.req("PLG-028")
def test_a_guest_s_record_carries_the_host_s_words_about_who_called(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "d.jsonl")
    log = guest_log(file)
    log.emit(
        guest_record(
            "hi", function="execute", raw='{"a": 1}', duration_ms=5, outcome="failure", action="send"
        )
    )
    log.close()
    file.close()
    [line] = lines(tmp_path / "d.jsonl")
    assert line["zeroclaw"] == {
        "agent": "ada",
        "tool": "t",
        "plugin": "acme",
        "plugin_capability": "tool",
        "plugin_binding": "acme",
    }
    assert line["event"] == {"action": "send", "category": "plugin", "outcome": "failure"}
    assert line["attributes"] == {
        "plugin_fn": "execute",
        "source": "log",
        "duration_ms": 5,
        "raw": '{"a": 1}',
    }


def test_a_guest_cannot_name_itself_through_the_call_site(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "d.jsonl")
    log = guest_log(file)
    instance = InstanceIdentity.default_tool("acme")
    log.emit(LogRecord(instance, CallSite({"plugin": "other"}), "info", "x"))
    log.close()
    file.close()
    [line] = lines(tmp_path / "d.jsonl")
    assert line["zeroclaw"]["plugin"] == "acme"  # type: ignore[index]


def test_records_of_plugins_that_were_dropped_are_counted_in_the_log(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "d.jsonl")
    log = guest_log(file)
    log.emit(guest_record("x" * (MAX_RECORD_BYTES + 1)))
    log.emit(guest_record("kept"))
    log.drop()
    log.close()
    file.close()
    found = lines(tmp_path / "d.jsonl")
    assert [line["message"] for line in found if line["event"]["action"] == "note"] == ["kept"]  # type: ignore[index]
    drops = [line for line in found if line["event"]["action"] == "drop"]  # type: ignore[index]
    assert {line["severity_text"] for line in drops} == {"WARN"}
    assert drops[-1]["attributes"]["total_dropped"] == 2  # type: ignore[index]
    assert sum(line["attributes"]["newly_dropped"] for line in drops) == 2  # type: ignore[index]


def test_the_daemon_s_own_records_carry_their_facts_and_what_to_do(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "d.jsonl")
    handler = DaemonLogHandler(file, lambda remedy: {"words": remedy.action.value})
    logger = logging.Logger("test")
    logger.addHandler(handler)
    record(
        logger, logging.ERROR, "it broke", action="break", category="config",
        outcome="failure", path="/x", remedy=Remedy(RemedyAction.FREE_SPACE),
    )  # fmt: skip
    try:
        raise ValueError("planted-secret")
    except ValueError:
        logger.exception("a fault")
    file.close()
    first, second = lines(tmp_path / "d.jsonl")
    assert first["severity_text"] == "ERROR"
    assert first["event"] == {"action": "break", "category": "config", "outcome": "failure"}
    assert first["attributes"] == {"path": "/x", "remedy": {"words": "free_space"}}
    assert second["attributes"]["exception"] == "ValueError"  # type: ignore[index]
    assert __file__ in json.dumps(second["attributes"])
    assert "planted-secret" not in (tmp_path / "d.jsonl").read_text()


def test_only_a_regular_file_is_a_log_and_it_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    os.mkfifo(path)
    with pytest.raises(StorageError, match=r"not a regular file|no such device"):
        LogFile(path)  # does not wait for somebody to read the pipe
    path.unlink()
    path.touch()
    path.chmod(0o666)
    LogFile(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_line_that_the_disk_takes_half_is_not_there_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaints: list[str] = []
    file = LogFile(tmp_path / "d.jsonl", complain=complaints.append)
    file.write(note(1))
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[: len(data) // 2]))
        file.write(note(2))
    file.write(note(3))
    file.close()
    assert [line["attributes"] for line in lines(tmp_path / "d.jsonl")] == [{"n": 1}, {"n": 3}]
    assert len(complaints) == 1
