"""npx, one at a time: its cache of programs is not made for two that fetch the same one at the same moment."""

from __future__ import annotations

import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_CACHE = Path(__file__).resolve().parents[2] / ".cache"


@contextmanager
def one_npx() -> Generator[None]:
    """Hold this while npx runs."""
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "npx.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
