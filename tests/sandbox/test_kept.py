"""What test runs keep does not grow without end."""

from __future__ import annotations

import os
import time
from pathlib import Path

import kept

from zeroclaw_host.sandbox.compiling.artifacts import ArtifactStore
from zeroclaw_host.sandbox.compiling.shelf import ArtifactName
from zeroclaw_host.sandbox.engine import fingerprint

DAY = 24 * 3600


def built(path: Path, size: int, *, days: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    used = time.time() - days * DAY
    os.utime(path, (used, used))
    return path


def test_what_was_built_long_ago_goes_when_there_is_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "BUILT_BYTES", 250)
    oldest = built(tmp_path / "plugins" / "a" / "dist" / "a.zip", 100, days=9)
    older = built(tmp_path / "plugins" / "b.wasm", 100, days=3)
    recent = [built(tmp_path / "plugins" / f"{number}.wasm", 100, days=0.5) for number in range(3)]
    other = built(tmp_path / "plugins-of-mine" / "c", 1000, days=99)
    kept.tidy(tmp_path)
    assert not oldest.parents[1].exists()
    assert not older.exists()
    assert all(path.exists() for path in (*recent, other))


def test_compiled_components_of_other_releases_go(tmp_path):
    old, new = ArtifactName("component", "1" * 64), ArtifactName("component", "2" * 64)
    paths = []
    for name, mark in ((old, "0" * 64), (new, fingerprint())):
        store = ArtifactStore(tmp_path / "guests" / "compiled", mark)
        with store.draft(name) as draft:
            os.write(draft.descriptor, b"compiled")
            draft.publish()
        paths.append(store.shelf.path(name))
    kept.tidy(tmp_path)
    assert [path.exists() for path in paths] == [False, True]
