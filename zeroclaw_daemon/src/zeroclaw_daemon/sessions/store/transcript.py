"""The transcript of a session: what its client sees, in rows that are only ever appended to (RPC-133, RPC-134)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from zeroclaw_daemon.agent.events import ToolCalled, ToolReturned
from zeroclaw_daemon.sessions.store.folding import MARKER_ROLE, MARKER_TEXT, TOOL, Piece
from zeroclaw_daemon.sessions.store.payloads import bounded, dump, load
from zeroclaw_daemon.sessions.store.records import RowBroken
from zeroclaw_daemon.sessions.store.rows import insert, number, text
from zeroclaw_daemon.strict_json import JsonValue

SYSTEM: Final = "system"
"""The role a client is shown of the marker of an interruption."""


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


def append(raw: sqlite3.Connection, session: int, pieces: Iterable[Piece]) -> None:
    """Put pieces behind those that are there, and count what a client sees of them."""
    counted = count(raw, session)
    through = 0
    for piece in pieces:
        through = insert(
            raw,
            "acp_messages",
            session_id=session,
            role=piece.role,
            content=piece.content,
            created_at=piece.at,
        )
        for call in piece.calls:
            insert(
                raw, "acp_tool_calls", message_id=through, tool_call_id=call.call_id, tool_name=call.name,
                event_kind="in", payload=dump(call.arguments), created_at=piece.at,
            )  # fmt: skip
        for result in piece.results:
            insert(
                raw, "acp_tool_calls", message_id=through, tool_call_id=result.call_id, tool_name=result.name,
                event_kind="out", payload=bounded(result.output), outcome=_outcome(result.success),
                created_at=piece.at,
            )  # fmt: skip
        counted += len(entries_of(piece))
    if through:
        raw.execute(
            "UPDATE acp_sessions SET projected_message_count = ?, projected_count_through = ? WHERE id = ?",
            (counted, through, session),
        )


def count(raw: sqlite3.Connection, session: int) -> int:
    """How many entries a client sees of the session: what was counted, and rows that were appended without counting."""
    row = raw.execute(
        "SELECT projected_message_count, coalesce(projected_count_through, 0) FROM acp_sessions WHERE id = ?",
        (session,),
    ).fetchone()
    known, through = number(row[0]), number(row[1])
    uncounted = _rows(raw, "m.session_id = ? AND m.id > ?", (session, through))
    return known + sum(len(entries_of(piece)) for _, piece in uncounted)


def pieces(raw: sqlite3.Connection, session: int) -> Iterator[Piece]:
    """The whole transcript, oldest first."""
    return (piece for _, piece in _rows(raw, "m.session_id = ?", (session,)))


def entries(raw: sqlite3.Connection, session: int) -> list[Entry]:
    """Everything a client sees, oldest first."""
    return [entry for piece in pieces(raw, session) for entry in entries_of(piece)]


def page(raw: sqlite3.Connection, session: int, limit: int, before: Place | None) -> Page:
    """The newest entries, or those before a place; at most so many."""
    below = 1 << 62 if before is None else before.row
    # Every row is at least one entry, and one more than the limit says whether there are older ones.
    first = raw.execute(
        "SELECT min(id) FROM (SELECT id FROM acp_messages WHERE session_id = ? AND id <= ? ORDER BY id DESC LIMIT ?)",
        (session, below, limit + 2),
    ).fetchone()[0]
    placed = [
        (Place(row, at), entry)
        for row, piece in _rows(
            raw, "m.session_id = ? AND m.id BETWEEN ? AND ?", (session, first or 0, below)
        )
        for at, entry in enumerate(entries_of(piece))
        if before is None or (row, at) < (before.row, before.entry)
    ]
    shown = placed[-limit:]
    return Page(tuple(entry for _, entry in shown), shown[0][0] if len(placed) > limit else None)


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


_SELECT: Final = """
SELECT m.id, m.role, m.content, m.created_at, c.tool_call_id, c.tool_name, c.event_kind, c.payload, c.outcome
FROM acp_messages m LEFT JOIN acp_tool_calls c ON c.message_id = m.id
"""


def _rows(raw: sqlite3.Connection, where: str, values: tuple[int, ...]) -> Iterator[tuple[int, Piece]]:
    """Rows as pieces, oldest first."""
    row, piece = 0, None
    for found in raw.execute(f"{_SELECT} WHERE {where} ORDER BY m.id, c.id", values):
        if piece is None or found[0] != row:
            if piece is not None:
                yield row, piece
            row, piece = number(found[0]), Piece(text(found[1]), text(found[2]), text(found[3]))
        match found[4:]:
            case (None, *_):
                pass
            case (str() as call_id, str() as name, "in", payload, _):
                piece.calls.append(ToolCalled(call_id, name, load(payload)))
            case (str() as call_id, str() as name, "out", str() as output, outcome):
                piece.results.append(ToolReturned(call_id, name, output, outcome != _outcome(False)))
            case _:
                raise RowBroken
    if piece is not None:
        yield row, piece


def _outcome(success: bool) -> str:
    return "ok" if success else "failed"
