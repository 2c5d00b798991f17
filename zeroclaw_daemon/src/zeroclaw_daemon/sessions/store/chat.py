"""The durable store of ``chat`` sessions.

Sessions of the two modes share nothing, ids included (RPC-156). A chat keeps its prompt at the beginning of a turn and
everything else but a plan at its end: what a turn that is broken off had said so far is lost, the prompt and what was before is not.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from zeroclaw_daemon.agent.events import MessageChunk, ToolCalled, ToolReturned
from zeroclaw_daemon.agent.messages import Message, UserMessage
from zeroclaw_daemon.sessions.errors import SessionMismatch
from zeroclaw_daemon.sessions.store.base import SessionStore
from zeroclaw_daemon.sessions.store.chat_rows import ChatRows
from zeroclaw_daemon.sessions.store.chat_schema import CHAT, unindex
from zeroclaw_daemon.sessions.store.folding import USER, Piece, fold, marker, newest_turns
from zeroclaw_daemon.sessions.store.payloads import dump, dump_context, load, load_context
from zeroclaw_daemon.sessions.store.points import WritePoint
from zeroclaw_daemon.sessions.store.records import (
    NewSession,
    Restored,
    SessionExists,
    StoredSession,
    TurnSuperseded,
)
from zeroclaw_daemon.sessions.store.rows import (
    bound,
    insert,
    moment,
    number,
    sound,
    stamp,
    text,
    text_or_none,
)
from zeroclaw_daemon.sessions.store.searching import match_of
from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_host.errors import UsageError

PREFIX: Final = "rpc_"
"""Begins the key of every session that was made over RPC."""

MAX_LISTED: Final = 1000
"""Sessions that are listed at once."""

_IDLE: Final = "idle"
_RUNNING: Final = "running"
_ERROR: Final = "error"


class _Row(NamedTuple):
    key: str
    owner: str | None
    agent_alias: str
    turn_id: str | None


class ChatStore(SessionStore[_Row]):
    """The sessions of the mode ``chat``."""

    layout = CHAT

    # --- sessions -------------------------------------------------------------------------------------------------------

    def create(self, session: NewSession) -> StoredSession:
        """See :meth:`.base.SessionStore.create`; a chat has no surface."""
        if session.surface is not None:
            raise UsageError("a chat has no interaction surface", details={"member": "interactionSurface"})
        at = stamp(self._now())
        key = _key(sound(session.id))
        with self._file.write(WritePoint.SESSION_CREATED) as raw:
            if _find(raw, key) is not None:
                raise SessionExists
            insert(
                raw, "session_metadata", session_key=key, created_at=at, last_activity=at, state=_IDLE,
                agent_alias=sound(session.agent_alias), workspace_dir=session.workspace, principal_id=session.owner,
            )  # fmt: skip
            return _stored(raw, key)

    def listed(
        self, scope: str | None = None, *, query: str = "", limit: int = MAX_LISTED
    ) -> tuple[StoredSession, ...]:
        """The sessions, the latest activity first (RPC-244).

        :param query: words; only sessions are listed in which one message has all of them. Case and accents do not matter,
            and the last word may be only begun. Without words, every session is listed.
        :param limit: how many at most, from 1 to :data:`MAX_LISTED`.
        :raises UsageError: the query is too long. :raises ValueError: the limit is not one of those.
        """
        if not 1 <= limit <= MAX_LISTED:
            raise ValueError(f"from 1 to {MAX_LISTED} sessions are listed at once")
        match = match_of(query)
        found_by_words = "" if match is None else f" AND {_HAS_WORDS}"
        with self._file.read() as raw:
            rows = raw.execute(
                f"{_STORED} WHERE substr(session_key, 1, {len(PREFIX)}) = :prefix"
                f" AND (:scope IS NULL OR principal_id = :scope){found_by_words}"
                " ORDER BY last_activity DESC, session_key DESC LIMIT :limit",
                {"prefix": PREFIX, "scope": scope, "match": match, "limit": limit},
            )
            return tuple(map(_session, rows))

    def resume(
        self,
        session_id: str,
        scope: str | None = None,
        *,
        agent_alias: str | None = None,
        workspace: str | None = None,
    ) -> Restored:
        """See :meth:`.base.SessionStore.resume`; a turn that was broken off is marked, and a session of no agent gets this one."""
        with self._file.write(WritePoint.SESSION_RESUMED) as raw:
            row = self._owned(raw, session_id, scope)
            if agent_alias is not None and row.agent_alias not in ("", agent_alias):
                raise SessionMismatch("the session has another agent", details={"member": "agentAlias"})
            at = stamp(self._now())
            recovered = _recover(raw, row, at)
            raw.execute(
                "UPDATE session_metadata SET agent_alias = coalesce(agent_alias, ?), last_activity = ?,"
                " workspace_dir = coalesce(CAST(? AS TEXT), workspace_dir) WHERE session_key = ?",
                (agent_alias, at, bound(workspace) if row.owner == scope else None, row.key),
            )
            context = _context_of(raw, row.key, self._max_given)
            return Restored(_stored(raw, row.key), context, recovered)

    def recover(self, session_id: str, scope: str | None = None) -> bool:
        """See :meth:`.base.SessionStore.recover`; the turn is marked as broken off."""
        with self._file.read() as raw:
            if self._owned(raw, session_id, scope).turn_id is None:
                return False  # the usual case, which waits for no writer
        with self._file.write(WritePoint.SESSION_RECOVERED) as raw:
            return _recover(raw, self._owned(raw, session_id, scope), stamp(self._now()))

    def delete(self, session_id: str, scope: str | None = None) -> None:
        """See :meth:`.base.SessionStore.delete`: the messages go with every word of them in the index."""
        with self._file.write(WritePoint.SESSION_DELETED) as raw:
            key = self._owned(raw, session_id, scope).key
            unindex(raw, key)
            raw.execute("DELETE FROM sessions WHERE session_key = ?", (key,))
            raw.execute("DELETE FROM session_metadata WHERE session_key = ?", (key,))

    # --- turns ----------------------------------------------------------------------------------------------------------

    def begin(self, session_id: str, turn_id: str, prompt: str, began: datetime) -> None:
        """A turn begins: before any model is asked. The prompt is kept.

        :raises SessionNotFound: there is no such session.
        :raises TurnSuperseded: the end of another turn was never written; :meth:`resume` recovers it.
        """
        with self._file.write(WritePoint.TURN_BEGUN) as raw:
            row = self._owned(raw, session_id, None)
            if row.turn_id is not None:
                raise TurnSuperseded
            at = stamp(began)
            _append(raw, row.key, [Piece(USER, prompt, at)], at)
            raw.execute(
                "UPDATE session_metadata SET state = ?, turn_id = ?, turn_started_at = ? WHERE session_key = ?",
                (_RUNNING, turn_id, at, row.key),
            )

    def finish(
        self,
        session_id: str,
        turn_id: str,
        events: Iterable[tuple[MessageChunk | ToolCalled | ToolReturned, datetime]],
        context: Sequence[Message],
        *,
        cancelled: bool = False,
        trimmed: bool = False,
    ) -> StoredSession:
        """The turn is over: before the client is told.

        :param events: what was visible of the turn, with its moments, in its order. It goes behind the prompt, and a marker
            behind it if the turn was cancelled.
        :param context: the whole of what the model is given next.
        :param trimmed: whether the model has forgotten something in this turn.
        :raises TurnSuperseded: the session is not in this turn.
        """
        folded = fold((event, stamp(at)) for event, at in events)
        with self._file.write(WritePoint.TURN_FINISHED) as raw:
            key, at = _turning(raw, session_id, turn_id), stamp(self._now())
            if cancelled:
                folded.append(marker(at))
            _append(raw, key, folded, at)
            _close(raw, key, dump_context(context))
            if trimmed:
                raw.execute("UPDATE session_metadata SET trim_breadcrumb = 1 WHERE session_key = ?", (key,))
            return _stored(raw, key)

    def fail(self, session_id: str, turn_id: str) -> None:
        """The turn ended without anything to go on from: it is left for recovery, and the live session has to go.

        :raises TurnSuperseded: the session is not in this turn.
        """
        with self._file.write(WritePoint.TURN_FAILED) as raw:
            key = _turning(raw, session_id, turn_id)
            raw.execute("UPDATE session_metadata SET state = ? WHERE session_key = ?", (_ERROR, key))

    def save_plan(self, session_id: str, plan: JsonValue) -> None:
        """Keep the agent's plan: before the client is told. None is no plan.

        :raises SessionNotFound: there is no such session.
        """
        with self._file.write(WritePoint.PLAN_SAVED) as raw:
            row = self._owned(raw, session_id, None)
            kept = None if plan is None else dump(plan)
            raw.execute("UPDATE session_metadata SET plan_json = ? WHERE session_key = ?", (kept, row.key))

    def call_ids(self, session_id: str) -> frozenset[str]:
        """The ids of the session's tool calls. One message at a time is in memory.

        :raises SessionNotFound: there is no such session.
        """
        with self._file.read() as raw:
            return frozenset(ChatRows(raw, self._owned(raw, session_id, None).key).call_ids())

    # --- inside a transaction -------------------------------------------------------------------------------------------

    def _row_of(self, raw: sqlite3.Connection, session_id: str) -> _Row | None:
        return _find(raw, _key(session_id))

    def _session_of(self, raw: sqlite3.Connection, row: _Row) -> StoredSession:
        return _stored(raw, row.key)

    def _rows_of(self, raw: sqlite3.Connection, row: _Row) -> ChatRows:
        return ChatRows(raw, row.key)


def _key(session_id: str) -> str:
    return PREFIX + session_id


def _find(raw: sqlite3.Connection, key: str) -> _Row | None:
    try:
        found = raw.execute(
            "SELECT principal_id, coalesce(agent_alias, ''), turn_id FROM session_metadata WHERE session_key = ?",
            (key,),
        ).fetchone()
    except UnicodeEncodeError:  # no session has such a name
        return None
    if found is None:
        return None
    return _Row(key, text_or_none(found[0]), text(found[1]), text_or_none(found[2]))


def _turning(raw: sqlite3.Connection, session_id: str, turn_id: str) -> str:
    """The key of a session that is in this turn.

    :raises TurnSuperseded: it is not.
    """
    row = _find(raw, _key(session_id))
    if row is None or row.turn_id != turn_id:
        raise TurnSuperseded
    return row.key


def _append(raw: sqlite3.Connection, key: str, pieces: Iterable[Piece], at: str) -> None:
    raw.execute(
        "UPDATE session_metadata SET message_count = message_count + ?, last_activity = ? WHERE session_key = ?",
        (ChatRows(raw, key).append(pieces), at, key),
    )


def _close(raw: sqlite3.Connection, key: str, context: str | None) -> None:
    """End the turn. None leaves what the model is given to the transcript."""
    raw.execute(
        "UPDATE session_metadata SET state = ?, turn_id = NULL, turn_started_at = NULL, retained_context_json = ?"
        " WHERE session_key = ?",
        (_IDLE, context, key),
    )


def _recover(raw: sqlite3.Connection, row: _Row, at: str) -> bool:
    """Mark the turn whose end was never written as broken off; whether there was one. The model hears its prompt."""
    if row.turn_id is None:
        return False
    newest = next(ChatRows(raw, row.key).newest(), None)
    kept = _retained(raw, row.key)
    if kept is not None and newest is not None and newest[1].role == USER:
        kept = (*kept, UserMessage(newest[1].content))
    _append(raw, row.key, [marker(at)], at)
    _close(raw, row.key, None if kept is None else dump_context(kept))
    return True


def _retained(raw: sqlite3.Connection, key: str) -> tuple[Message, ...] | None:
    (kept,) = raw.execute(
        "SELECT retained_context_json FROM session_metadata WHERE session_key = ?", (key,)
    ).fetchone()
    return None if kept is None else load_context(text(kept))


def _context_of(raw: sqlite3.Connection, key: str, budget: int) -> tuple[Message, ...]:
    """What the model is given next: the snapshot, even an empty one; without any, the transcript, of which it forgets what does
    not fit in a budget of tokens.
    """
    kept = _retained(raw, key)
    if kept is not None:
        return kept
    context, cut = newest_turns((piece for _, piece in ChatRows(raw, key).newest()), budget)
    if cut:
        raw.execute("UPDATE session_metadata SET trim_breadcrumb = 1 WHERE session_key = ?", (key,))
    return context


_HAS_WORDS: Final = (
    "session_key IN (SELECT s.session_key FROM sessions_fts f JOIN sessions s ON s.id = f.rowid"
    " WHERE sessions_fts MATCH :match)"
)

_STORED: Final = """
SELECT session_key, coalesce(agent_alias, ''), coalesce(workspace_dir, ''), principal_id, trim_breadcrumb, created_at,
    last_activity, message_count, turn_id, plan_json
FROM session_metadata
"""


def _stored(raw: sqlite3.Connection, key: str) -> StoredSession:
    return _session(raw.execute(f"{_STORED} WHERE session_key = ?", (key,)).fetchone())


def _session(row: tuple[object, ...]) -> StoredSession:
    key, agent, workspace, owner, trimmed, created, active, count, turn_id, plan = row
    return StoredSession(
        id=text(key).removeprefix(PREFIX),
        agent_alias=text(agent),
        workspace=text(workspace),
        surface=None,
        owner=text_or_none(owner),
        token_count=0,
        plan=None if plan is None else load(plan),
        trimmed=bool(trimmed),
        killed=None,
        created=moment(created),
        last_activity=moment(active),
        message_count=number(count),
        turn_id=text_or_none(turn_id),
    )
