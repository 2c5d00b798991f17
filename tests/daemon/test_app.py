"""What the daemon's process is set to before it serves."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import anyio
import pytest

from zeroclaw_daemon import app
from zeroclaw_daemon.config.paths import Paths


def test_threads_hand_the_interpreter_over_soon_enough_for_guests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = Paths.resolve(None, {"HOME": str(tmp_path)})
    found: list[float] = []
    monkeypatch.setattr(anyio, "run", lambda _: found.append(sys.getswitchinterval()))
    before = sys.getswitchinterval()
    try:
        app.run(paths, {})
    finally:
        sys.setswitchinterval(before)
    assert found == [pytest.approx(app.SWITCH_SECONDS)]


def test_what_the_host_logs_is_in_the_daemons_log_and_on_its_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    paths = Paths.resolve(None, {"HOME": str(tmp_path)})
    Path(paths.config_file).parent.mkdir(mode=0o700)
    Path(paths.config_file).write_text("schema_version = 1\n")
    with app.Daemon(paths, {}):
        logging.getLogger("zeroclaw_host.egress.io_loop").error("a connection was closed")
    assert "a connection was closed" in Path(paths.log_file).read_text()
    assert "error: a connection was closed" in capfd.readouterr().err
