"""What the daemon's process is set to before it serves."""

from __future__ import annotations

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
