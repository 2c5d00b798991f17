"""A change of the file counts at the next use, however soon after another it comes."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from zeroclaw_daemon.config.source import ConfigSource
from zeroclaw_host.errors import ZeroclawError

NOW = 1_700_000_000_000_000_000
SECOND = 1_000_000_000


def write(file: Path, text: str, *, at: int) -> None:
    """Write in place, as if the file system's clock said this."""
    file.write_text(text, encoding="utf-8")
    os.utime(file, ns=(at, at))


@contextmanager
def nothing_can_be_read() -> Iterator[None]:
    """As in a process that has no descriptor left."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_file_that_was_written_just_now_is_looked_at_again_whatever_its_stamp(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    write(file, "gateway.port = 1", at=NOW)
    source = ConfigSource(file, {}, now=lambda: file.stat().st_ctime_ns + SECOND)
    first = source.current()
    with nothing_can_be_read():
        assert source.current() is first
        assert source.error is not None, "nobody looked"
    assert source.current() is first
    assert source.error is None


def test_a_file_that_has_rested_is_known_by_its_stamp_and_not_read_again(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    write(file, "gateway.port = 1", at=NOW)
    source = ConfigSource(file, {}, now=lambda: file.stat().st_ctime_ns + 3 * SECOND)
    first = source.current()
    with nothing_can_be_read():
        assert source.current() is first
        assert source.error is None, "it was read"
    write(file, "gateway.port = 22", at=NOW)
    assert source.current().config.gateway.port == 22


@pytest.mark.req("RPC-239")
def test_two_writings_in_one_tick_of_the_clock_are_both_seen(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    write(file, "gateway.port = 1", at=NOW)
    source = ConfigSource(file, {}, now=lambda: file.stat().st_ctime_ns + SECOND)
    for port in (2, 3, 4):
        assert source.current().config.gateway.port == port - 1
        before = file.stat()
        write(file, f"gateway.port = {port}", at=NOW)
        after = file.stat()
        assert (after.st_ino, after.st_size, after.st_mtime_ns) == (
            before.st_ino, before.st_size, before.st_mtime_ns,
        )  # fmt: skip
        assert source.current().config.gateway.port == port


def test_a_young_file_is_not_parsed_again_and_tells_a_fault_once(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    write(file, "gateway.port = 1", at=NOW)
    told: list[ZeroclawError] = []
    source = ConfigSource(file, {}, on_error=told.append, now=lambda: file.stat().st_ctime_ns)
    first = source.current()
    assert source.current() is first
    write(file, "gateway.port = !", at=NOW)
    for _ in range(3):
        assert source.current() is first
    assert [error.code for error in told] == ["config_syntax_invalid"]
    assert source.error is told[0]
    write(file, "gateway.port = 2", at=NOW)
    assert source.current().config.gateway.port == 2
    assert source.error is None
