"""A path as a person writes one where no shell has read it before."""

from __future__ import annotations

from pathlib import Path

from zeroclaw_host.errors import UsageError


def local_path(text: str) -> Path:
    """The path. ``~`` and ``~/`` stand for the person's own home directory, as in the configuration; nothing else is special.

    :raises UsageError: no file can have that path.
    """
    if "\0" in text:
        raise UsageError("a path has no null characters")
    return Path(text).expanduser() if text == "~" or text.startswith("~/") else Path(text)
