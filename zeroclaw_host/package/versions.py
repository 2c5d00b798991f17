"""Which of two versions is the older one. A version is free text; only semantic versions have an order."""

from __future__ import annotations

import re
from typing import Final

_IDENTIFIERS: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_SEMANTIC: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIERS}))?(?:\+{_IDENTIFIERS})?"
)
_LONGEST: Final = 256
"""Longer texts are no version that anybody counts by."""

_Part = tuple[int, int, str]
_Order = tuple[tuple[int, ...], tuple[_Part, ...]]


def is_older(version: str, other: str) -> bool:
    """Whether both are semantic versions and the first precedes the second; build metadata does not count (PLG-304)."""
    mine, theirs = _order(version), _order(other)
    return mine is not None and theirs is not None and mine < theirs


def _order(text: str) -> _Order | None:
    if len(text) > _LONGEST:
        return None
    found = _SEMANTIC.fullmatch(text)
    if found is None:
        return None
    major, minor, patch, before = found.groups()
    # A release follows everything that leads up to it.
    parts = ((2, 0, ""),) if before is None else tuple(map(_part, before.split(".")))
    return (int(major), int(minor), int(patch)), parts


def _part(identifier: str) -> _Part:
    return (0, int(identifier), "") if identifier.isdecimal() else (1, 0, identifier)
