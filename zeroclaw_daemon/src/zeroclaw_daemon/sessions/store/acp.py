"""The durable store of ``acp`` sessions, for programs that may wait. From the event loop, see :mod:`.facade`.

A ``scope`` is the principal that a caller is held to, None where it may use every session. To a scope, a session of somebody
else and one that does not exist are the same.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from zeroclaw_daemon.agent.events import MessageChunk, ToolCalled, ToolReturned
from zeroclaw_daemon.agent.messages import Message
from zeroclaw_daemon.authority.principal import not_owned
from zeroclaw_daemon.sessions.errors import SessionMismatch, SessionNotFound
from zeroclaw_daemon.sessions.store import transcript, turn_rows
from zeroclaw_daemon.sessions.store.entries import Entry, Page, Place, Window
from zeroclaw_daemon.sessions.store.file import BUSY_SECONDS, SessionFile
from zeroclaw_daemon.sessions.store.folding import MAX_GIVEN_TOKENS
from zeroclaw_daemon.sessions.store.payloads import dump, load
from zeroclaw_daemon.sessions.store.points import StoreSteps, WritePoint
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


def _utc_now() -> datetime:
    return datetime.now(UTC)


class AcpStore:
    """The sessions in a database file. Any thread may call any method; a method waits for the disk, and for other programs at
    most ``busy_seconds``.

    Every method raises :class:`~.file.SessionsUnavailable` if the database cannot be used. Nothing is changed then, except that
    a write whose commit failed may be there after all: its session is to be taken up again by :meth:`resume`.

    :param now: the present, with its time zone.
    :param max_given: tokens of a transcript that a model is given where it has no retained context.
    """

    def __init__(
        self,
        path: Path,
        *,
        busy_seconds: float = BUSY_SECONDS,
        steps: StoreSteps | None = None,
        now: Callable[[], datetime] = _utc_now,
        max_given: int = MAX_GIVEN_TOKENS,
    ) -> None:
        self._file = SessionFile(path, ACP, busy_seconds=busy_seconds, steps=steps)
        self._now = now
        self._max_given = max_given

    def close(self) -> None:
        """Close the database. A later use opens it again."""
        self._file.close()

    # --- sessions -------------------------------------------------------------------------------------------------------

    def create(self, session: NewSession) -> StoredSession:
        """Make a session durable. Nothing of it was durable before.

        :raises SessionExists: one of this id is.
        :raises UsageError: the surface is not supported, or a text cannot be stored.
        """
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

    def find(self, session_id: str, scope: str | None = None) -> StoredSession | None:
        """The session of this id, killed or not; None if there is none, or none of the scope's. Recovers nothing."""
        with self._file.read() as raw:
            row = _find(raw, session_id)
            if row is None or (scope is not None and row.owner != scope):
                return None
            return _stored(raw, row.id)

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
        """Take a session up again: recover the turn that was broken off, if one was, and say what the model is given.

        One transaction; whatever is refused leaves every row as it was (RPC-147). The owner stays who it is.

        :param agent_alias: the agent that is asked for; None is the session's own, as a prompt wants it.
        :param workspace: the directory it works in from now on, if it is the scope's own; None leaves it where it is.
        :param surface: the surface that is asked for. The first one claims a session that has none.
        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        :raises SessionKilled: it was killed (RPC-153).
        :raises SessionMismatch: it has another agent or another surface.
        :raises SurfaceUnsupported: its surface is none of those that this daemon goes on for (RPC-146).
        :raises UsageError: the surface that is asked for is none of those.
        """
        _known(surface)
        with self._file.write(WritePoint.SESSION_RESUMED) as raw:
            row = _owned(raw, session_id, scope)
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
        """Recover the turn of a session that nobody has live, for somebody who reads it; whether there was one to recover.
        Sessions that were killed or cannot be gone on with are left as they are.

        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        """
        with self._file.read() as raw:
            row = _owned(raw, session_id, scope)
            if turn_rows.turn_of(raw, row.id) is None:
                return False  # the usual case, which waits for no writer
        with self._file.write(WritePoint.SESSION_RECOVERED) as raw:
            row = _owned(raw, session_id, scope)
            if row.killed or row.surface not in SUPPORTED_SURFACES:
                return False
            return turn_rows.recover(raw, row.id, stamp(self._now()))

    def kill(self, session_id: str, scope: str | None = None) -> bool:
        """Let nothing go on in the session; its transcript and its checkpoint stay. False if it was killed before, and then
        it keeps the moment of that.

        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        """
        with self._file.write(WritePoint.SESSION_KILLED) as raw:
            row = _owned(raw, session_id, scope)
            if not row.killed:
                raw.execute(
                    "UPDATE acp_sessions SET killed_at = ? WHERE id = ?", (stamp(self._now()), row.id)
                )
            return not row.killed

    def delete(self, session_id: str, scope: str | None = None) -> None:
        """Delete the session with everything that belongs to it: transcript, checkpoint, verdicts, receipts (RPC-155).

        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        """
        with self._file.write(WritePoint.SESSION_DELETED) as raw:
            raw.execute("DELETE FROM acp_sessions WHERE id = ?", (_owned(raw, session_id, scope).id,))

    # --- turns ----------------------------------------------------------------------------------------------------------

    def begin(self, session_id: str, turn_id: str, prompt: str, began: datetime) -> int:
        """A turn begins: before any model is asked. The number of its first event, the prompt.

        :raises SessionNotFound: there is no such session. :raises SessionKilled: it was killed.
        :raises TurnSuperseded: the end of another turn was never written; :meth:`resume` recovers it.
        """
        with self._file.write(WritePoint.TURN_BEGUN) as raw:
            row = _owned(raw, session_id, None)
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
            row = _owned(raw, session_id, None)
            kept = None if plan is None else dump(plan)
            raw.execute("UPDATE acp_sessions SET plan_json = ? WHERE id = ?", (kept, row.id))

    def count_tokens(self, session_id: str, tokens: int | None) -> None:
        """Keep how many tokens the latest accepted answer of the model took in all; None where it did not say.

        :raises SessionNotFound: there is no such session.
        """
        with self._file.write(WritePoint.TOKENS_COUNTED) as raw:
            row = _owned(raw, session_id, None)
            raw.execute("UPDATE acp_sessions SET token_count = ? WHERE id = ?", (tokens or 0, row.id))

    # --- reading --------------------------------------------------------------------------------------------------------

    def entries(self, session_id: str, scope: str | None = None) -> list[Entry]:
        """Everything that a client sees of the session, oldest first; of a killed one too. Recovers nothing.

        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        """
        with self._file.read() as raw:
            return transcript.entries(raw, _owned(raw, session_id, scope).id)

    def page(
        self, session_id: str, scope: str | None = None, *, limit: int = 100, before: Place | None = None
    ) -> Page:
        """The newest entries, or those before a place that an earlier page named.

        :param limit: how many at most, from 1 to :data:`~.entries.MAX_PAGE`.
        :raises ValueError: the limit is not one of those.
        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        """
        with self._file.read() as raw:
            return transcript.page(raw, _owned(raw, session_id, scope).id, limit, before)

    def window(
        self, session_id: str, scope: str | None = None, *, limit: int = 100, before: int | None = None
    ) -> Window:
        """The newest entries, or those before the one of this number, counted from 0.

        :param limit: how many at most, from 1 to :data:`~.entries.MAX_PAGE`.
        :raises ValueError: the limit is not one of those, or the number is negative.
        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        """
        with self._file.read() as raw:
            return transcript.window(raw, _owned(raw, session_id, scope).id, limit, before)

    def receipts(self, session_id: str, scope: str | None = None) -> tuple[Receipt, ...]:
        """The receipts of the session's tool calls, oldest first (D-47).

        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        """
        with self._file.read() as raw:
            return tuple(turn_rows.receipts(raw, _owned(raw, session_id, scope).id))

    def verdicts(self, session_id: str, scope: str | None = None) -> tuple[Verdict, ...]:
        """How the session's turns ended, oldest first.

        :raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's.
        """
        with self._file.read() as raw:
            return tuple(turn_rows.verdicts(raw, _owned(raw, session_id, scope).id))


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


def _owned(raw: sqlite3.Connection, session_id: str, scope: str | None) -> _Row:
    """:raises SessionNotFound: there is no such session. :raises Forbidden: none of the scope's."""
    row = _find(raw, session_id)
    if scope is not None and (row is None or row.owner != scope):
        raise not_owned()
    if row is None:
        raise SessionNotFound
    return row


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
        message_count=transcript.count(raw, session),
        turn_id=turn_rows.turn_of(raw, session),
    )
