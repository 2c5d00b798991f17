"""A turn in the database: its checkpoint while it runs, its end, and its recovery where no end was written.

Everything here happens inside a transaction of :mod:`.acp`; a session is its row's number.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from zeroclaw_daemon.agent.events import Approval, ToolCalled, ToolReturned
from zeroclaw_daemon.agent.messages import Message
from zeroclaw_daemon.sessions.store.folding import fold, marker, messages_of, newest_turns, provider_safe
from zeroclaw_daemon.sessions.store.payloads import (
    KeptEvent,
    Prompted,
    dump,
    dump_context,
    dump_event,
    load_context,
    load_event,
)
from zeroclaw_daemon.sessions.store.records import (
    CallOutcome,
    Receipt,
    Settled,
    TurnSuperseded,
    Verdict,
    digest_of,
)
from zeroclaw_daemon.sessions.store.rows import insert, moment, number, text, word
from zeroclaw_daemon.sessions.store.transcript import Transcript


def turn_of(raw: sqlite3.Connection, session: int) -> str | None:
    """The turn whose end is not written, or None."""
    found = raw.execute(
        "SELECT turn_id FROM acp_turn_checkpoints WHERE session_id = ?", (session,)
    ).fetchone()
    return None if found is None else text(found[0])


def begin(raw: sqlite3.Connection, session: int, turn_id: str, prompt: str, at: str) -> int:
    """Open the checkpoint of a turn with its prompt; the event's number.

    :raises TurnSuperseded: the session is in a turn.
    """
    if turn_of(raw, session) is not None:
        raise TurnSuperseded
    insert(raw, "acp_turn_checkpoints", session_id=session, turn_id=turn_id, started_at=at)
    _active(raw, session, at)
    return _event(raw, session, Prompted(prompt), at)


def append(
    raw: sqlite3.Connection, session: int, turn_id: str, event: KeptEvent, at: str, settled: Settled | None
) -> int:
    """Add an event, and what it says of a tool call to that call's receipt; the event's number."""
    match event:
        case ToolCalled(call_id, name, arguments):
            insert(
                raw, "acp_tool_receipts", session_id=session, turn_id=turn_id, tool_call_id=call_id, tool_name=name,
                arguments_sha256=digest_of(arguments), created_at=at,
            )  # fmt: skip
        case ToolReturned(call_id) if settled is not None:
            raw.execute(
                "UPDATE acp_tool_receipts SET approval = ?, outcome = ?, duration_ms = ?"
                " WHERE session_id = ? AND turn_id = ? AND tool_call_id = ? AND outcome IS NULL",
                (settled.approval, settled.outcome, settled.duration_ms, session, turn_id, call_id),
            )
        case _:
            pass
    return _event(raw, session, event, at)


def reduce(raw: sqlite3.Connection, session: int, context: Sequence[Message], covered: int) -> None:
    """Put the retained context and the last event that it covers in place, together (RPC-135).

    :raises ValueError: the event is none of the running turn, or lies before what is covered already.
    """
    found = raw.execute(
        "SELECT e.id, coalesce(s.retained_context_frontier, 0) FROM acp_turn_checkpoint_events e"
        " JOIN acp_sessions s ON s.id = e.session_id WHERE e.session_id = ? AND e.id = ?",
        (session, covered),
    ).fetchone()
    if found is None or number(found[1]) > covered:
        raise ValueError("the context covers an event that the turn does not have")
    _retain(raw, session, dump_context(context), covered)
    raw.execute("UPDATE acp_sessions SET trim_breadcrumb = 1 WHERE id = ?", (session,))


def finish(
    raw: sqlite3.Connection, session: int, turn_id: str, verdict: Verdict, context: Sequence[Message], at: str
) -> None:
    """Move the turn's events into the transcript, and put in place what the model is given next."""
    pieces = fold(_events(raw, session))
    if verdict is not Verdict.COMPLETED:
        pieces.append(marker(at))
    Transcript(raw, session).append(pieces)
    _retain(raw, session, dump_context(context), 0)
    _close(raw, session, turn_id, verdict, at)


def recover(raw: sqlite3.Connection, session: int, at: str) -> bool:
    """Do for a turn whose end was never written what can be done: its visible progress goes into the transcript with a marker
    (RPC-141, RPC-149), and the model goes on from the latest snapshot and what came after it (RPC-142).

    Whether there was such a turn; afterwards there is none, so that this happens once.
    """
    turn_id = turn_of(raw, session)
    if turn_id is None:
        return False
    snapshot, frontier = raw.execute(
        "SELECT retained_context_json, coalesce(retained_context_frontier, 0) FROM acp_sessions WHERE id = ?",
        (session,),
    ).fetchone()
    Transcript(raw, session).append([*fold(_events(raw, session)), marker(at)])
    if snapshot is not None:  # without one, the transcript says what the model is given (RPC-144)
        later = messages_of(fold(_events(raw, session, after=number(frontier))))
        _retain(raw, session, dump_context(provider_safe([*load_context(text(snapshot)), *later])), 0)
    _close(raw, session, turn_id, Verdict.INTERRUPTED, at)
    return True


def context_of(raw: sqlite3.Connection, session: int, budget: int) -> tuple[Message, ...]:
    """What the model is given next: the snapshot, even an empty one (RPC-143); without any, the transcript (RPC-144), of which it
    forgets what does not fit in a budget of tokens.
    """
    (snapshot,) = raw.execute(
        "SELECT retained_context_json FROM acp_sessions WHERE id = ?", (session,)
    ).fetchone()
    if snapshot is not None:
        return load_context(text(snapshot))
    context, cut = newest_turns((piece for _, piece in Transcript(raw, session).newest()), budget)
    if cut:
        raw.execute("UPDATE acp_sessions SET trim_breadcrumb = 1 WHERE id = ?", (session,))
    return context


def judge(raw: sqlite3.Connection, session: int, turn_id: str, verdict: Verdict, at: str) -> None:
    """Write the verdict on a turn, unless it has one."""
    named = dump({"turn_id": turn_id})
    raw.execute(
        "INSERT INTO acp_session_events (session_id, action, outcome, payload, created_at)"
        " SELECT :session, 'turn', :verdict, :named, :at WHERE NOT EXISTS"
        " (SELECT 1 FROM acp_session_events WHERE session_id = :session AND action = 'turn' AND payload = :named)",
        {"session": session, "verdict": verdict, "named": named, "at": at},
    )


def receipts(raw: sqlite3.Connection, session: int) -> Iterator[Receipt]:
    """The receipts of a session's tool calls, oldest first."""
    rows = raw.execute(
        "SELECT turn_id, tool_call_id, tool_name, arguments_sha256, created_at, approval, outcome, duration_ms"
        " FROM acp_tool_receipts WHERE session_id = ? ORDER BY id",
        (session,),
    )
    for turn_id, call_id, tool, digest, at, approval, outcome, duration in rows:
        settled = None
        if outcome is not None:
            settled = Settled(
                word(CallOutcome, outcome),
                None if approval is None else word(Approval, approval),
                None if duration is None else number(duration),
            )
        yield Receipt(text(turn_id), text(call_id), text(tool), text(digest), moment(at), settled)


def verdicts(raw: sqlite3.Connection, session: int) -> Iterator[Verdict]:
    """The verdicts on a session's turns, oldest first."""
    rows = raw.execute(
        "SELECT outcome FROM acp_session_events WHERE session_id = ? AND action = 'turn' ORDER BY id",
        (session,),
    )
    return (word(Verdict, outcome) for (outcome,) in rows)


def _event(raw: sqlite3.Connection, session: int, event: KeptEvent, at: str) -> int:
    return insert(raw, "acp_turn_checkpoint_events", session_id=session, payload=dump_event(event, at))


def _events(raw: sqlite3.Connection, session: int, after: int = 0) -> Iterator[tuple[KeptEvent, str]]:
    rows = raw.execute(
        "SELECT payload FROM acp_turn_checkpoint_events WHERE session_id = ? AND id > ? ORDER BY id",
        (session, after),
    )
    return (load_event(text(payload)) for (payload,) in rows)


def _retain(raw: sqlite3.Connection, session: int, context: str, frontier: int) -> None:
    raw.execute(
        "UPDATE acp_sessions SET retained_context_json = ?, retained_context_frontier = ? WHERE id = ?",
        (context, frontier, session),
    )


def _close(raw: sqlite3.Connection, session: int, turn_id: str, verdict: Verdict, at: str) -> None:
    raw.execute(
        "UPDATE acp_tool_receipts SET outcome = ? WHERE session_id = ? AND turn_id = ? AND outcome IS NULL",
        (CallOutcome.INTERRUPTED, session, turn_id),
    )
    judge(raw, session, turn_id, verdict, at)
    raw.execute("DELETE FROM acp_turn_checkpoints WHERE session_id = ?", (session,))
    _active(raw, session, at)


def _active(raw: sqlite3.Connection, session: int, at: str) -> None:
    raw.execute("UPDATE acp_sessions SET last_activity = ? WHERE id = ?", (at, session))
