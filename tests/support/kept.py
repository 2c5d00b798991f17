"""What test runs keep under ``.cache``, so that nothing is built or compiled twice, and how much of it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from zeroclaw_host.sandbox.compiling.shelf import Shelf
from zeroclaw_host.sandbox.engine import fingerprint

ARTIFACT_BYTES: Final = 1024**3
"""Room for the compiled components of each directory of them."""

BUILT_BYTES: Final = 1024**3
"""Room for everything in one directory of built components."""

RECENT_SECONDS: Final = 24 * 3600.0
"""What was read more recently may be in use, or wanted again by the next run. File systems note reads once a day."""

_BUILT: Final = ("forge", "guests", "plugins", "test-guests")
"""Directories whose entries are each made from what their names stand for, and made again when missing."""


def tidy(cache: Path) -> None:
    """Let go of what no run has needed for longest, until the rest fits."""
    for key in (*cache.glob("*/key"), *cache.glob("*/*/key")):
        shelf = Shelf(key.parent, fingerprint())
        shelf.prune(ARTIFACT_BYTES, also=[artifact for artifact in shelf.stored() if artifact.stale])
    for name in _BUILT:
        _forget(cache / name)


def _forget(directory: Path) -> None:
    entries = [
        entry for entry in _entries(directory) if not (entry / "key").exists()
    ]  # compiled ones are a shelf of their own
    known = sorted(((_last_read(entry), entry) for entry in entries), key=lambda found: found[0])
    total = sum(_size(entry) for _, entry in known)
    for last_read, entry in known:
        if total <= BUILT_BYTES or time.time() - last_read < RECENT_SECONDS:
            return
        total -= _size(entry)
        with suppress(OSError):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _entries(directory: Path) -> Iterator[Path]:
    return directory.iterdir() if directory.is_dir() else iter(())


def _files(entry: Path) -> list[Path]:
    return [path for path in entry.rglob("*") if path.is_file()] if entry.is_dir() else [entry]


def _last_read(entry: Path) -> float:
    return max((max(found.st_atime, found.st_mtime) for found in map(Path.stat, _files(entry))), default=0.0)


def _size(entry: Path) -> int:
    return sum(path.stat().st_size for path in _files(entry))
