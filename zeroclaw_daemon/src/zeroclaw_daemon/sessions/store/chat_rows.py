"""The messages of a ``chat`` session in rows, and what a client sees of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from zeroclaw_daemon.agent.events import ToolCalled, ToolReturned
from zeroclaw_daemon.sessions.store.chat_schema import index
from zeroclaw_daemon.sessions.store.entries import LAST_ROW, entries_of
from zeroclaw_daemon.sessions.store.folding import Piece
from zeroclaw_daemon.sessions.store.payloads import bounded, dump, load
from zeroclaw_daemon.sessions.store.records import RowBroken
from zeroclaw_daemon.sessions.store.rows import insert, number, text
from zeroclaw_daemon.strict_json import JsonValue


@dataclass(frozen=True, slots=True)
class ChatRows:
    """Those of one session, by its key, inside a transaction: its :class:`~.entries.Rows`."""

    raw: sqlite3.Connection
    key: str

    def append(self, pieces: Iterable[Piece]) -> int:
        """Put pieces behind those that are there; how many entries a client sees of them."""
        seen = 0
        for piece in pieces:
            # Each result is a row, as each message of a model's conversation is.
            for part in [Piece(piece.role, "", piece.at, [], [result]) for result in piece.results] or [
                piece
            ]:
                entries = len(entries_of(part))
                row = insert(
                    self.raw, "sessions", session_key=self.key, role=part.role, content=part.content, created_at=part.at,
                    payload=_payload(part), entries=entries,
                )  # fmt: skip
                index(self.raw, row, part.role, part.content)
                seen += entries
        return seen

    def newest(self, up_to: int = LAST_ROW) -> Iterator[tuple[int, Piece]]:
        """The rows up to this number as pieces, the newest first."""
        found = self.raw.execute(
            "SELECT id, role, content, created_at, payload FROM sessions WHERE session_key = ? AND id <= ?"
            " ORDER BY id DESC",
            (self.key, up_to),
        )
        for row, role, content, at, payload in found:
            piece = Piece(text(role), text(content), text(at))
            if payload is not None:
                _hang(piece, load(payload))
            yield number(row), piece

    def counted(self) -> Iterator[tuple[int, int]]:
        """How many entries each row has, the oldest first."""
        found = self.raw.execute(
            "SELECT id, entries FROM sessions WHERE session_key = ? ORDER BY id", (self.key,)
        )
        return ((number(row), number(entries)) for row, entries in found)

    def call_ids(self) -> Iterator[str]:
        """The ids of the tool calls, and of the results, which another release may have kept alone."""
        found = self.raw.execute(
            "SELECT payload FROM sessions WHERE session_key = ? AND payload IS NOT NULL", (self.key,)
        )
        for (payload,) in found:
            piece = Piece("", "", "")
            _hang(piece, load(payload))
            yield from (part.call_id for part in (*piece.calls, *piece.results))


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
