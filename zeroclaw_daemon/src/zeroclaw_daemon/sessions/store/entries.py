"""What a client sees of a transcript: its pieces as entries, and pages of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from zeroclaw_daemon.sessions.store.folding import MARKER_ROLE, MARKER_TEXT, TOOL, Piece
from zeroclaw_daemon.strict_json import JsonValue, encode

SYSTEM: Final = "system"
"""The role a client is shown of the marker of an interruption."""

MAX_PAGE: Final = 1000
"""Entries of one page at most."""

MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of one page's contents at most, as JSON. Half of what a line of the protocol may have; a page has one entry all the same."""


LAST_ROW: Final = (1 << 63) - 1
"""No row has a greater number."""


class Rows(Protocol):
    """The rows of one transcript, each with its number."""

    def newest(self, up_to: int = LAST_ROW) -> Iterator[tuple[int, Piece]]:
        """Those up to this number, the newest first. No more are read than are taken."""
        ...

    def counted(self) -> Iterable[tuple[int, int]]:
        """How many entries each row has, the oldest first."""
        ...


class EntryKind(StrEnum):
    """What an entry is."""

    MESSAGE = "message"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing a client sees. ``tool_input`` is of a call alone, ``tool_output`` of a result alone."""

    role: str
    content: str
    kind: EntryKind
    created_at: str
    tool_call_id: str | None = None
    tool_name: str | None = None
    tool_input: JsonValue = None
    tool_output: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where an entry is: the row, and which of the row's entries. Stays the same whatever is appended."""

    row: int
    entry: int


@dataclass(frozen=True, slots=True)
class Page:
    """Entries that follow each other. ``older`` is the first one's place if there are any before it, else None."""

    entries: tuple[Entry, ...]
    older: Place | None


@dataclass(frozen=True, slots=True)
class Window:
    """Entries that follow each other, the first of which has the number ``start`` of ``total``, counted from 0."""

    entries: tuple[Entry, ...]
    total: int
    start: int


def entries_of(piece: Piece) -> list[Entry]:
    """What a client sees of one piece, at least one entry."""
    if piece.role == MARKER_ROLE:
        return [Entry(SYSTEM, MARKER_TEXT, EntryKind.MESSAGE, piece.at)]
    found: list[Entry] = []
    if piece.content or not (piece.calls or piece.results):
        found.append(Entry(piece.role, piece.content, EntryKind.MESSAGE, piece.at))
    found += [
        Entry(
            piece.role, "", EntryKind.TOOL_CALL, piece.at, call.call_id, call.name, tool_input=call.arguments
        )
        for call in piece.calls
    ]
    found += [
        Entry(
            TOOL, "", EntryKind.TOOL_RESULT, piece.at, result.call_id, result.name, tool_output=result.output
        )
        for result in piece.results
    ]
    return found


def entries(rows: Rows) -> list[Entry]:
    """Everything a client sees, oldest first."""
    return [entry for _, piece in reversed(list(rows.newest())) for entry in entries_of(piece)]


def page(rows: Rows, limit: int, before: Place | None) -> Page:
    """The newest entries, or those before a place; at most so many, and no more than fit in :data:`MAX_PAGE_BYTES`.

    :raises ValueError: a page may not have so many.
    """
    if not 1 <= limit <= MAX_PAGE:
        raise ValueError(f"a page has from 1 to {MAX_PAGE} entries")
    taken: list[Entry] = []
    first: Place | None = None
    size = 0
    for row, piece in rows.newest() if before is None else rows.newest(before.row):
        for at, entry in reversed(list(enumerate(entries_of(piece)))):
            if before is not None and (row, at) >= (before.row, before.entry):
                continue
            size += _size(entry)
            if len(taken) == limit or (taken and size > MAX_PAGE_BYTES):
                return Page(tuple(reversed(taken)), first)
            taken.append(entry)
            first = Place(row, at)
    return Page(tuple(reversed(taken)), None)


def window(rows: Rows, limit: int, before: int | None) -> Window:
    """The newest entries, or those before the one of a number; at most so many, and no more than a page has.

    :raises ValueError: a page may not have so many, or the number is negative.
    """
    if before is not None and before < 0:
        raise ValueError("entries are counted from 0")
    counted = list(rows.counted())
    total = sum(number for _, number in counted)
    end = total if before is None else min(before, total)
    shown = page(rows, limit, _place_of(counted, end)).entries
    return Window(shown, total, end - len(shown))


def _place_of(counted: Iterable[tuple[int, int]], number: int) -> Place | None:
    """The place of the entry of this number, or None where there are not so many."""
    for row, entries_of_row in counted:
        if number < entries_of_row:
            return Place(row, number)
        number -= entries_of_row
    return None


def _size(entry: Entry) -> int:
    return len(encode([entry.content, entry.tool_input, entry.tool_output]))
