"""The daemon that the conformance suite speaks to, and how many of its rows ran."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from daemon_process import end, environment, ready, spawn

OPTION = "--daemon-socket"
ROWS = "tests/rpc/conformance/test_rows.py::test_row["


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        OPTION,
        type=Path,
        default=None,
        help="run the conformance suite against the daemon that serves this socket",
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts = {
        outcome: sum(report.nodeid.startswith(ROWS) for report in terminalreporter.getreports(outcome))
        for outcome in ("passed", "failed", "skipped")
    }
    ran = counts["passed"] + counts["failed"]
    if ran or counts["skipped"]:
        terminalreporter.write_line(
            f"conformance: {ran} rows ran, {counts['passed']} passed, {counts['failed']} failed,"
            f" {counts['skipped']} skipped"
        )


@dataclass(frozen=True)
class Endpoint:
    """Where a daemon serves; of one that was named, home and log are nobody's business here."""

    socket: Path
    home: Path | None = None

    @property
    def log(self) -> Path | None:
        """The daemon's log."""
        return None if self.home is None else self.home / ".zeroclaw" / "data" / "logs" / "daemon.jsonl"


@pytest.fixture(scope="session")
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """The daemon that was named, or one of our own for all rows of this process."""
    named: Path | None = request.config.getoption(OPTION, None)
    if named is not None:
        yield Endpoint(named)
        return
    with daemon_of_its_own() as endpoint:
        yield endpoint


@contextmanager
def daemon_of_its_own(configuration: str = "") -> Iterator[Endpoint]:
    """A daemon in a new home directory, with this configuration."""
    home = Path(tempfile.mkdtemp(prefix="zc-", dir="/tmp"))
    if configuration:
        (home / ".zeroclaw").mkdir(mode=0o700)
        (home / ".zeroclaw" / "config.toml").write_text(configuration, encoding="utf-8")
    process = spawn(env=environment(home), cwd=home)
    try:
        ready(process)
        yield Endpoint(home / ".zeroclaw" / "data" / "daemon.sock", home)
    finally:
        end(process)
        shutil.rmtree(home)


@pytest.fixture
def configured_daemon() -> Callable[[str], AbstractContextManager[Endpoint]]:
    """Starts a daemon with a configuration of its own."""
    return daemon_of_its_own
