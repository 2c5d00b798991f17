"""Where in a TOML text a key stands, as a person counts: lines and columns."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from zeroclaw_daemon.config.document.mentions import Path, mentions

_TOMLLIB_POSITION: Final = re.compile(r"\(at line (\d+), column (\d+)\)")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line and a column of a text, both counted from 1, columns in characters."""

    line: int
    column: int


def place_of_syntax_error(error: tomllib.TOMLDecodeError, text: str) -> Place:
    """Where the parser gave up; the end of the text when it missed something there."""
    found = _TOMLLIB_POSITION.search(str(error))
    return Place(int(found[1]), int(found[2])) if found else place_of_offset(text, len(text))


def place_of_offset(text: str, offset: int) -> Place:
    """The place of the character at this offset."""
    start = text.rfind("\n", 0, offset) + 1
    return Place(text.count("\n", 0, offset) + 1, offset - start + 1)


class Places:
    """The places of everything a TOML text says. The text is walked over once, when the first place is asked for."""

    def __init__(self, text: str) -> None:
        self._text: Final = text

    def of(self, path: Sequence[str | int]) -> Place | None:
        """Where the key or element at this path stands, or else the nearest thing around it that stands anywhere.

        A table that no header names stands where the first of it is written.

        :param path: keys, and indexes into arrays.
        """
        for length in range(len(path), 0, -1):
            start = self._starts.get(tuple(path[:length]))
            if start is not None:
                return place_of_offset(self._text, start)
        return None

    @cached_property
    def _starts(self) -> dict[Path, int]:
        starts: dict[Path, int] = {}
        for mention in mentions(self._text):
            for length in range(len(mention.path), 0, -1):
                if starts.setdefault(mention.path[:length], mention.start) != mention.start:
                    break  # what is around it was named before, and all around that
        return starts
