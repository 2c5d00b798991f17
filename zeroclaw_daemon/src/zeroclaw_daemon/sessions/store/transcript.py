"""The transcript of a session: what its client sees, in rows that are only ever appended to (RPC-133, RPC-134)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from zeroclaw_daemon.agent.events import ToolCalled, ToolReturned
from zeroclaw_daemon.sessions.store.entries import LAST_ROW, entries_of
from zeroclaw_daemon.sessions.store.folding import MARKER_ROLE, Piece
from zeroclaw_daemon.sessions.store.payloads import bounded, dump, load
from zeroclaw_daemon.sessions.store.records import RowBroken
from zeroclaw_daemon.sessions.store.rows import insert, number, text


@dataclass(frozen=True, slots=True)
class Transcript:
    """That of one session, by its row's number, inside a transaction: its :class:`~.entries.Rows`."""

    raw: sqlite3.Connection
    session: int

    def append(self, pieces: Iterable[Piece]) -> None:
        """Put pieces behind those that are there, and count what a client sees of them."""
        counted = self.count()
        through = 0
        for piece in pieces:
            through = insert(
                self.raw,
                "acp_messages",
                session_id=self.session,
                role=piece.role,
                content=piece.content,
                created_at=piece.at,
            )
            for call in piece.calls:
                insert(
                    self.raw, "acp_tool_calls", message_id=through, tool_call_id=call.call_id, tool_name=call.name,
                    event_kind="in", payload=dump(call.arguments), created_at=piece.at,
                )  # fmt: skip
            for result in piece.results:
                insert(
                    self.raw, "acp_tool_calls", message_id=through, tool_call_id=result.call_id, tool_name=result.name,
                    event_kind="out", payload=bounded(result.output), outcome=_outcome(result.success),
                    created_at=piece.at,
                )  # fmt: skip
            counted += len(entries_of(piece))
        if through:
            self.raw.execute(
                "UPDATE acp_sessions SET projected_message_count = ?, projected_count_through = ? WHERE id = ?",
                (counted, through, self.session),
            )

    def count(self) -> int:
        """How many entries a client sees of the session: what was counted, and rows that were appended without counting."""
        row = self.raw.execute(
            "SELECT projected_message_count, coalesce(projected_count_through, 0) FROM acp_sessions WHERE id = ?",
            (self.session,),
        ).fetchone()
        known, through = number(row[0]), number(row[1])
        uncounted = _rows(self.raw, "m.session_id = ? AND m.id > ?", (self.session, through))
        return known + sum(len(entries_of(piece)) for _, piece in uncounted)

    def newest(self, up_to: int = LAST_ROW) -> Iterator[tuple[int, Piece]]:
        """The rows up to this number as pieces, the newest first."""
        return _rows(self.raw, "m.session_id = ? AND m.id <= ?", (self.session, up_to), "DESC")

    def counted(self) -> Iterator[tuple[int, int]]:
        """How many entries each row has, the oldest first."""
        found = self.raw.execute(_COUNTED, {"session": self.session, "marker": MARKER_ROLE})
        return ((number(row), number(entries)) for row, entries in found)


_SELECT: Final = """
SELECT m.id, m.role, m.content, m.created_at, c.tool_call_id, c.tool_name, c.event_kind, c.payload, c.outcome
FROM acp_messages m LEFT JOIN acp_tool_calls c ON c.message_id = m.id
"""


_COUNTED: Final = """
SELECT m.id, CASE WHEN m.role = :marker OR count(c.id) = 0 THEN 1 ELSE (m.content <> '') + count(c.id) END
FROM acp_messages m LEFT JOIN acp_tool_calls c ON c.message_id = m.id
WHERE m.session_id = :session GROUP BY m.id ORDER BY m.id
"""


def _rows(
    raw: sqlite3.Connection, where: str, values: tuple[int, ...], order: str = "ASC"
) -> Iterator[tuple[int, Piece]]:
    """Rows as pieces, oldest first unless the order says otherwise."""
    row, piece = 0, None
    for found in raw.execute(f"{_SELECT} WHERE {where} ORDER BY m.id {order}, c.id", values):
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
