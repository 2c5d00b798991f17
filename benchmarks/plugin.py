"""The plugin under measurement: the example ``redact``, built once and kept by its inputs."""

from __future__ import annotations

import shutil
from pathlib import Path

from zeroclaw_sdk.build import build
from zeroclaw_sdk.project import Project

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "benchmarks"
ARGUMENTS = {"text": "Write to ada@example.org, the key is sk-abcdefghijklmnopqrstuvwx. " * 4}


def redact_directory() -> Path:
    """A directory with the built package."""
    target = CACHE / "redact"
    shutil.copytree(ROOT / "example-plugins" / "redact", target, dirs_exist_ok=True)
    build(Project.open(target))
    return target


def cache_directory() -> Path:
    """Where compiled components are kept between runs."""
    directory = CACHE / "compiled"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return directory
