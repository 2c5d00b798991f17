"""Options and places that the commands of ``zeroclaw-plugin`` share."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Final

HERE: Final = Path()


class Kinds(StrEnum):
    """What a plugin made of code can be; the words of a manifest's capabilities."""

    TOOL = "tool"
    CHANNEL = "channel"
    MEMORY = "memory"


def cache_directory() -> Path:
    """Where compiled components are kept: ``ZEROCLAW_CACHE_DIR``, else ``zeroclaw`` in the user's cache directory."""
    if named := os.environ.get("ZEROCLAW_CACHE_DIR"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base) / "zeroclaw"
