"""Plugins that are built through the SDK once for the same content, and kept."""

from __future__ import annotations

import fcntl
import hashlib
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from zeroclaw_sdk.build import build
from zeroclaw_sdk.project import Project

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"


def built_plugin(directory: Path) -> Path:
    """A built copy of a plugin's directory, for reading only.

    Kept in ``.cache/plugins/<digest>``. Another process that wants the same one waits for it.
    """
    files = _contents(directory)
    sdk = {f"sdk/{name}": data for name, data in _contents(ROOT / "zeroclaw_sdk" / "guest").items()}
    cache = CACHE / "plugins"
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / _digest(files | sdk)
    with (cache / f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                staged = Path(scratch, "plugin")
                for name, data in files.items():
                    (staged / name).parent.mkdir(parents=True, exist_ok=True)
                    (staged / name).write_bytes(data)
                build(Project.open(staged))
                staged.rename(target)
    return target


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(version("componentize-py").encode())
    for name, data in sorted(files.items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def _contents(directory: Path) -> dict[str, bytes]:
    ignored = {"build", "dist", "__pycache__", ".pytest_cache"}
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not ignored & set(path.relative_to(directory).parts)
    }
