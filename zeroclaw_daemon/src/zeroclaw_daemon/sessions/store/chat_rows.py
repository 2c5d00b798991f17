"""The messages of a ``chat`` session in rows, and what a client sees of them. Everything here happens inside a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import cast

from zeroclaw_daemon.agent.events import ToolCalled, ToolReturned
from zeroclaw_daemon.sessions.store.chat_schema import index
from zeroclaw_daemon.sessions.store.entries import (
    Page,
    Place,
    Window,
    check_limit,
    entries_of,
    page_of,
    place_of,
)
from zeroclaw_daemon.sessions.store.folding import Piece
from zeroclaw_daemon.sessions.store.payloads import bounded, dump, load
from zeroclaw_daemon.sessions.store.records import RowBroken
from zeroclaw_daemon.sessions.store.rows import insert, number, text
from zeroclaw_daemon.strict_json import JsonValue


def append(raw: sqlite3.Connection, key: str, pieces: Iterable[Piece]) -> int:
    """Put pieces behind those that are there; how many entries a client sees of them."""
    seen = 0
    for piece in pieces:
        # Each result is a row, as each message of a model's conversation is.
        for part in [Piece(piece.role, "", piece.at, [], [result]) for result in piece.results] or [piece]:
            entries = len(entries_of(part))
            row = insert(
                raw, "sessions", session_key=key, role=part.role, content=part.content, created_at=part.at,
                payload=_payload(part), entries=entries,
            )  # fmt: skip
            index(raw, row, part.role, part.content)
            seen += entries
    return seen


def pieces(raw: sqlite3.Connection, key: str) -> Iterator[Piece]:
    """All of them, oldest first."""
    return (piece for _, piece in _rows(raw, key, (1 << 63) - 1, "ASC"))


def newest(raw: sqlite3.Connection, key: str) -> Iterator[Piece]:
    """All of them, the newest first."""
    return (piece for _, piece in _rows(raw, key, (1 << 63) - 1, "DESC"))


def call_ids(raw: sqlite3.Connection, key: str) -> Iterator[str]:
    """The ids of the tool calls, and of the results, which another release may have kept alone."""
    found = raw.execute("SELECT payload FROM sessions WHERE session_key = ? AND payload IS NOT NULL", (key,))
    for (payload,) in found:
        piece = Piece("", "", "")
        _hang(piece, load(payload))
        yield from (part.call_id for part in (*piece.calls, *piece.results))


def page(raw: sqlite3.Connection, key: str, limit: int, before: Place | None) -> Page:
    """The newest entries, or those before a place; at most so many.

    :raises ValueError: a page may not have so many.
    """
    check_limit(limit)
    below = (1 << 63) - 1 if before is None else before.row
    return page_of(_rows(raw, key, below, "DESC"), limit, before)


def window(raw: sqlite3.Connection, key: str, limit: int, before: int | None) -> Window:
    """The newest entries, or those before the one of a number; at most so many.

    :raises ValueError: a page may not have so many, or the number is negative.
    """
    if before is not None and before < 0:
        raise ValueError("entries are counted from 0")
    found = raw.execute("SELECT id, entries FROM sessions WHERE session_key = ? ORDER BY id", (key,))
    counted = [(number(row), number(entries)) for row, entries in found]
    total = sum(entries for _, entries in counted)
    end = total if before is None else min(before, total)
    shown = page(raw, key, limit, place_of(counted, end)).entries
    return Window(shown, total, end - len(shown))


def _rows(raw: sqlite3.Connection, key: str, below: int, order: str) -> Iterator[tuple[int, Piece]]:
    found = raw.execute(
        "SELECT id, role, content, created_at, payload FROM sessions WHERE session_key = ? AND id <= ?"
        f" ORDER BY id {order}",
        (key, below),
    )
    for row, role, content, at, payload in found:
        piece = Piece(text(role), text(content), text(at))
        if payload is not None:
            _hang(piece, load(payload))
        yield number(row), piece


def _payload(piece: Piece) -> str | None:
    """What hangs on a piece, as a column holds it."""
    if piece.calls:
        # Arguments are a text of their own: inside, they would nest deeper than what may be read again.
        return dump(
            {
                "calls": [
                    {"id": call.call_id, "name": call.name, "arguments": dump(call.arguments)}
                    for call in piece.calls
                ]
            }
        )
    for result in piece.results:
        return dump(
            {
                "result": {
                    "id": result.call_id,
                    "name": result.name,
                    "output": bounded(result.output),
                    "success": result.success,
                }
            }
        )
    return None


def _hang(piece: Piece, payload: JsonValue) -> None:
    """:raises RowBroken: it was never written by :func:`_payload`."""
    match payload:
        case {"calls": calls} if isinstance(calls, list):
            piece.calls += map(_call, cast("list[JsonValue]", calls))
        case {
            "result": {
                "id": str() as call_id, "name": str() as name, "output": str() as output, "success": bool() as success,
            }
        }:  # fmt: skip
            piece.results.append(ToolReturned(call_id, name, output, success))
        case _:
            raise RowBroken


def _call(value: JsonValue) -> ToolCalled:
    match value:
        case {"id": str() as call_id, "name": str() as name, "arguments": str() as arguments}:
            return ToolCalled(call_id, name, load(arguments))
        case _:
            raise RowBroken
