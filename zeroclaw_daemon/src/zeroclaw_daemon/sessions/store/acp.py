"""The durable store of ``acp`` sessions."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from typing import Final, NamedTuple

from zeroclaw_daemon.agent.events import MessageChunk, ToolCalled, ToolReturned
from zeroclaw_daemon.agent.messages import Message
from zeroclaw_daemon.sessions.errors import SessionMismatch
from zeroclaw_daemon.sessions.store import turn_rows
from zeroclaw_daemon.sessions.store.base import SessionStore
from zeroclaw_daemon.sessions.store.payloads import dump, load
from zeroclaw_daemon.sessions.store.points import WritePoint
from zeroclaw_daemon.sessions.store.records import (
    SUPPORTED_SURFACES,
    NewSession,
    Receipt,
    Restored,
    SessionExists,
    SessionKilled,
    Settled,
    StoredSession,
    SurfaceUnsupported,
    TurnSuperseded,
    Verdict,
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
from zeroclaw_daemon.sessions.store.schema import ACP
from zeroclaw_daemon.sessions.store.transcript import Transcript
from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_host.errors import UsageError

MAX_LISTED: Final = 10_000
"""Sessions that are listed at once, so that the list fits into a line of the protocol."""


class _Row(NamedTuple):
    id: int
    owner: str | None
    agent_alias: str
    surface: str | None
    killed: bool


class AcpStore(SessionStore[_Row]):
    """The sessions of the mode ``acp``."""

    layout = ACP

    # --- sessions -------------------------------------------------------------------------------------------------------

    def create(self, session: NewSession) -> StoredSession:
        """See :meth:`.base.SessionStore.create`; a surface has to be one of :data:`~.records.SUPPORTED_SURFACES`."""
        _known(session.surface)
        at = stamp(self._now())
        values = {
            "session_uuid": sound(session.id), "agent_alias": sound(session.agent_alias),
            "workspace_dir": session.workspace, "interaction_surface": session.surface,
            "principal_id": session.owner, "created_at": at, "last_activity": at,
        }  # fmt: skip
        with self._file.write(WritePoint.SESSION_CREATED) as raw:
            if _find(raw, session.id) is not None:
                raise SessionExists
            return _stored(raw, insert(raw, "acp_sessions", **values))

    def listed(self, scope: str | None = None, *, limit: int = MAX_LISTED) -> tuple[StoredSession, ...]:
        """The sessions that were not killed, the latest activity first (RPC-244).

        :param limit: how many at most.
        """
        with self._file.read() as raw:
            found = raw.execute(
                "SELECT id FROM acp_sessions WHERE killed_at IS NULL AND (:scope IS NULL OR principal_id = :scope)"
                " ORDER BY last_activity DESC, id DESC LIMIT :limit",
                {"scope": scope, "limit": limit},
            ).fetchall()
            return tuple(_stored(raw, number(row)) for (row,) in found)

    def resume(
        self,
        session_id: str,
        scope: str | None = None,
        *,
        agent_alias: str | None = None,
        workspace: str | None = None,
        surface: str | None = None,
    ) -> Restored:
        """See :meth:`.base.SessionStore.resume`.

        :param surface: the surface that is asked for. The first one claims a session that has none.
        :raises SessionKilled: it was killed (RPC-153).
        :raises SessionMismatch: it has another agent or another surface.
        :raises SurfaceUnsupported: its surface is none of those that this daemon goes on for (RPC-146).
        :raises UsageError: the surface that is asked for is none of those.
        """
        _known(surface)
        with self._file.write(WritePoint.SESSION_RESUMED) as raw:
            row = self._owned(raw, session_id, scope)
            if row.killed:
                raise SessionKilled
            if agent_alias is not None and agent_alias != row.agent_alias:
                raise SessionMismatch("the session has another agent", details={"member": "agentAlias"})
            if row.surface not in SUPPORTED_SURFACES:
                raise SurfaceUnsupported
            if surface is not None and row.surface is not None and surface != row.surface:
                raise SessionMismatch(
                    "the session belongs to another kind of client", details={"member": "interactionSurface"}
                )
            at = stamp(self._now())
            recovered = turn_rows.recover(raw, row.id, at)
            raw.execute(
                "UPDATE acp_sessions SET interaction_surface = coalesce(interaction_surface, ?), last_activity = ?,"
                " workspace_dir = coalesce(CAST(? AS TEXT), workspace_dir) WHERE id = ?",
                (surface, at, bound(workspace) if row.owner == scope else None, row.id),
            )
            context = turn_rows.context_of(raw, row.id, self._max_given)
            return Restored(_stored(raw, row.id), context, recovered)

    def recover(self, session_id: str, scope: str | None = None) -> bool:
        """See :meth:`.base.SessionStore.recover`; sessions that were killed or cannot be gone on with are left as they are."""
        with self._file.read() as raw:
            row = self._owned(raw, session_id, scope)
            if turn_rows.turn_of(raw, row.id) is None:
                return False  # the usual case, which waits for no writer
        with self._file.write(WritePoint.SESSION_RECOVERED) as raw:
            row = self._owned(raw, session_id, scope)
            if row.killed or row.surface not in SUPPORTED_SURFACES:
                return False
            return turn_rows.recover(raw, row.id, stamp(self._now()))

    def kill(self, session_id: str, scope: str | None = None) -> bool:
        """Let nothing go on in the session; its transcript and its checkpoint stay. False if it was killed before, and then
        it keeps the moment of that.

        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        """
        with self._file.write(WritePoint.SESSION_KILLED) as raw:
            row = self._owned(raw, session_id, scope)
            if not row.killed:
                raw.execute(
                    "UPDATE acp_sessions SET killed_at = ? WHERE id = ?", (stamp(self._now()), row.id)
                )
            return not row.killed

    def delete(self, session_id: str, scope: str | None = None) -> None:
        """See :meth:`.base.SessionStore.delete`: transcript, checkpoint, verdicts and receipts go (RPC-155)."""
        with self._file.write(WritePoint.SESSION_DELETED) as raw:
            raw.execute("DELETE FROM acp_sessions WHERE id = ?", (self._owned(raw, session_id, scope).id,))

    # --- turns ----------------------------------------------------------------------------------------------------------

    def begin(self, session_id: str, turn_id: str, prompt: str, began: datetime) -> int:
        """A turn begins: before any model is asked. The number of its first event, the prompt.

        :raises SessionNotFound: there is no such session. :raises SessionKilled: it was killed.
        :raises TurnSuperseded: the end of another turn was never written; :meth:`resume` recovers it.
        """
        with self._file.write(WritePoint.TURN_BEGUN) as raw:
            row = self._owned(raw, session_id, None)
            if row.killed:
                raise SessionKilled
            return turn_rows.begin(raw, row.id, turn_id, prompt, stamp(began))

    def append(
        self,
        session_id: str,
        turn_id: str,
        event: MessageChunk | ToolCalled | ToolReturned,
        settled: Settled | None = None,
    ) -> int:
        """Something visible happened: before the client is told. The event's number, greater than those before it.

        A call opens its receipt. :param settled: for a call that is over, what its receipt says.

        :raises TurnSuperseded: the session is not in this turn, or was killed.
        """
        with self._file.write(WritePoint.EVENT_APPENDED) as raw:
            session = _turning(raw, session_id, turn_id)
            return turn_rows.append(raw, session, turn_id, event, stamp(self._now()), settled)

    def reduce(self, session_id: str, turn_id: str, context: Sequence[Message], covered: int) -> None:
        """The model has forgotten something: before the client is told. What it is given from now on and the event that this
        reaches to are written together (RPC-135); no row of the transcript is touched.

        :param covered: the number of the last event whose content is in ``context`` or is forgotten.
        :raises TurnSuperseded: the session is not in this turn, or was killed.
        :raises ValueError: the turn has no such event, or a former context reached further.
        """
        with self._file.write(WritePoint.CONTEXT_REDUCED) as raw:
            turn_rows.reduce(raw, _turning(raw, session_id, turn_id), context, covered)

    def finish(
        self, session_id: str, turn_id: str, context: Sequence[Message], *, cancelled: bool = False
    ) -> StoredSession:
        """The turn is over: before the client is told. Its events become rows of the transcript, with a marker behind them if
        it was cancelled, and ``context`` is what the model is given next.

        :raises TurnSuperseded: the session is not in this turn, or was killed.
        """
        with self._file.write(WritePoint.TURN_FINISHED) as raw:
            session = _turning(raw, session_id, turn_id)
            verdict = Verdict.CANCELLED if cancelled else Verdict.COMPLETED
            turn_rows.finish(raw, session, turn_id, verdict, context, stamp(self._now()))
            return _stored(raw, session)

    def fail(self, session_id: str, turn_id: str, verdict: Verdict = Verdict.FAILED) -> None:
        """The turn ended without anything to go on from. Its checkpoint stays for recovery; the live session has to go.

        :raises TurnSuperseded: the session is not in this turn, or was killed.
        """
        with self._file.write(WritePoint.TURN_FAILED) as raw:
            session = _turning(raw, session_id, turn_id)
            turn_rows.judge(raw, session, turn_id, verdict, stamp(self._now()))

    def save_plan(self, session_id: str, plan: JsonValue) -> None:
        """Keep the agent's plan: before the client is told. None is no plan.

        :raises SessionNotFound: there is no such session.
        """
        with self._file.write(WritePoint.PLAN_SAVED) as raw:
            row = self._owned(raw, session_id, None)
            kept = None if plan is None else dump(plan)
            raw.execute("UPDATE acp_sessions SET plan_json = ? WHERE id = ?", (kept, row.id))

    def count_tokens(self, session_id: str, tokens: int | None) -> None:
        """Keep how many tokens the latest accepted answer of the model took in all; None where it did not say.

        :raises SessionNotFound: there is no such session.
        """
        with self._file.write(WritePoint.TOKENS_COUNTED) as raw:
            row = self._owned(raw, session_id, None)
            raw.execute("UPDATE acp_sessions SET token_count = ? WHERE id = ?", (tokens or 0, row.id))

    # --- reading --------------------------------------------------------------------------------------------------------

    def receipts(self, session_id: str, scope: str | None = None) -> tuple[Receipt, ...]:
        """The receipts of the session's tool calls, oldest first (D-47).

        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        """
        with self._file.read() as raw:
            return tuple(turn_rows.receipts(raw, self._owned(raw, session_id, scope).id))

    def verdicts(self, session_id: str, scope: str | None = None) -> tuple[Verdict, ...]:
        """How the session's turns ended, oldest first.

        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        """
        with self._file.read() as raw:
            return tuple(turn_rows.verdicts(raw, self._owned(raw, session_id, scope).id))

    # --- inside a transaction -------------------------------------------------------------------------------------------

    def _row_of(self, raw: sqlite3.Connection, session_id: str) -> _Row | None:
        return _find(raw, session_id)

    def _session_of(self, raw: sqlite3.Connection, row: _Row) -> StoredSession:
        return _stored(raw, row.id)

    def _rows_of(self, raw: sqlite3.Connection, row: _Row) -> Transcript:
        return Transcript(raw, row.id)


def _known(surface: str | None) -> None:
    if surface not in SUPPORTED_SURFACES:
        raise UsageError("this kind of client is not known", details={"member": "interactionSurface"})


def _find(raw: sqlite3.Connection, session_id: str) -> _Row | None:
    try:
        session_id.encode()
    except UnicodeEncodeError:
        return None  # no such name was ever stored
    row = raw.execute(
        "SELECT id, principal_id, agent_alias, interaction_surface, killed_at FROM acp_sessions WHERE session_uuid = ?",
        (session_id,),
    ).fetchone()
    if row is None:
        return None
    return _Row(number(row[0]), text_or_none(row[1]), text(row[2]), text_or_none(row[3]), row[4] is not None)


def _turning(raw: sqlite3.Connection, session_id: str, turn_id: str) -> int:
    """The session's row, if it is in this turn.

    :raises TurnSuperseded: it is not, or it was killed.
    """
    row = _find(raw, session_id)
    if row is None or row.killed or turn_rows.turn_of(raw, row.id) != turn_id:
        raise TurnSuperseded
    return row.id


_STORED: Final = """
SELECT session_uuid, agent_alias, workspace_dir, interaction_surface, principal_id, token_count, plan_json,
    coalesce(trim_breadcrumb, 0), killed_at, created_at, last_activity
FROM acp_sessions WHERE id = ?
"""


def _stored(raw: sqlite3.Connection, session: int) -> StoredSession:
    with closing(raw.execute(_STORED, (session,))) as found:
        name, agent, workspace, surface, owner, tokens, plan, trimmed, killed, created, active = (
            found.fetchone()
        )
    return StoredSession(
        id=text(name),
        agent_alias=text(agent),
        workspace=text(workspace),
        surface=text_or_none(surface),
        owner=text_or_none(owner),
        token_count=number(tokens),
        plan=None if plan is None else load(plan),
        trimmed=bool(trimmed),
        killed=None if killed is None else moment(killed),
        created=moment(created),
        last_activity=moment(active),
        message_count=Transcript(raw, session).count(),
        turn_id=turn_rows.turn_of(raw, session),
    )
