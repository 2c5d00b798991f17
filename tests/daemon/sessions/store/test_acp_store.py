"""The rules of durable sessions: who may have which one again, what stays of it, and what is never changed."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Generator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from session_model import BEGAN, entry_tuple, store_at
from session_store_child import make_legacy

from zeroclaw_daemon.agent.events import MessageChunk, ToolCalled, ToolReturned
from zeroclaw_daemon.agent.messages import AssistantMessage, ToolMessage, UserMessage
from zeroclaw_daemon.authority.principal import Forbidden
from zeroclaw_daemon.sessions.errors import SessionMismatch, SessionNotFound
from zeroclaw_daemon.sessions.store.acp import AcpStore
from zeroclaw_daemon.sessions.store.entries import MAX_PAGE
from zeroclaw_daemon.sessions.store.file import SessionFile, SessionsUnavailable
from zeroclaw_daemon.sessions.store.payloads import MAX_OUTPUT_BYTES, TRUNCATED, bounded
from zeroclaw_daemon.sessions.store.points import WritePoint
from zeroclaw_daemon.sessions.store.records import (
    Approval,
    CallOutcome,
    NewSession,
    SessionKilled,
    Settled,
    SurfaceUnsupported,
    TurnSuperseded,
    digest_of,
)
from zeroclaw_daemon.sessions.store.schema import ACP
from zeroclaw_host.errors import RemedyAction, UsageError

TABLES = (
    "acp_sessions", "acp_messages", "acp_tool_calls", "acp_session_events", "acp_turn_checkpoints",
    "acp_turn_checkpoint_events", "acp_tool_receipts",
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Generator[AcpStore]:
    with closing(store_at(tmp_path)) as made:
        made.create(NewSession("s", "agent", "/work"))
        yield made


@pytest.fixture
def raw(store: AcpStore, tmp_path: Path) -> Generator[sqlite3.Connection]:
    """The database behind the store's back."""
    with closing(sqlite3.connect(tmp_path / "sessions" / "acp-sessions.db", isolation_level=None)) as opened:
        yield opened


def whole_turn(store: AcpStore, name: str = "s", turn: str = "t", *, result: str = "ok") -> None:
    """A turn with a call, all but its end."""
    store.begin(name, turn, "prompt", BEGAN)
    store.append(name, turn, MessageChunk("let me "))
    store.append(name, turn, MessageChunk("look"))
    store.append(name, turn, ToolCalled("c", "bash", {"command": "ls"}))
    store.append(name, turn, ToolReturned("c", "bash", result, True))
    store.append(name, turn, MessageChunk("done"))


def contents(raw: sqlite3.Connection) -> dict[str, list[Any]]:
    return {table: raw.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in TABLES}


# --- the transcript and what the model is given -------------------------------------------------------------------------


@pytest.mark.req("RPC-133", "RPC-134")
def test_what_is_forgotten_stays_in_the_transcript_under_its_numbers(
    store: AcpStore, raw: sqlite3.Connection
) -> None:
    whole_turn(store)
    store.finish("s", "t", [UserMessage("prompt"), AssistantMessage("done")])
    before = contents(raw)
    shown = store.entries("s")

    number = store.begin("s", "u", "and now", BEGAN)
    store.reduce("s", "u", [UserMessage("and now")], number)
    assert contents(raw)["acp_messages"] == before["acp_messages"]
    assert contents(raw)["acp_tool_calls"] == before["acp_tool_calls"]
    store.finish("s", "u", [UserMessage("and now")])

    rows = contents(raw)["acp_messages"]
    assert rows[: len(before["acp_messages"])] == before["acp_messages"]
    assert store.entries("s")[: len(shown)] == shown
    assert store.resume("s").context == (UserMessage("and now"),)
    session = store.find("s")
    assert session is not None
    assert session.trimmed


def test_a_context_and_what_it_covers_are_never_seen_apart(store: AcpStore, raw: sqlite3.Connection) -> None:
    number = store.begin("s", "t", "prompt", BEGAN)
    store.reduce("s", "t", [], number)
    seen = raw.execute(
        "SELECT retained_context_json, retained_context_frontier, trim_breadcrumb FROM acp_sessions"
    )
    assert seen.fetchall() == [('{"messages":[]}', number, 1)]


def test_an_empty_context_is_what_the_model_is_given(store: AcpStore) -> None:
    whole_turn(store)
    store.finish("s", "t", [])
    assert store.resume("s").context == ()
    assert store.entries("s")


def test_without_a_snapshot_the_transcript_is_made_safe_for_a_provider(
    store: AcpStore, raw: sqlite3.Connection
) -> None:
    store.begin("s", "t", "prompt", BEGAN)
    store.append("s", "t", MessageChunk("I look"))
    store.append("s", "t", ToolCalled("c", "bash", {}))
    restored = store.resume("s")
    assert restored.recovered
    assert restored.context == (UserMessage("prompt"), AssistantMessage("I look"))
    assert raw.execute("SELECT retained_context_json FROM acp_sessions").fetchone() == (None,)


@pytest.mark.req("RPC-151")
@pytest.mark.parametrize("character", ["x", "é", "€", "😀"])
def test_output_of_a_tool_is_kept_to_a_bound_everywhere(
    store: AcpStore, raw: sqlite3.Connection, character: str
) -> None:
    output = character * (100_000 // len(character.encode()))
    kept = character * (MAX_OUTPUT_BYTES // len(character.encode())) + TRUNCATED
    whole_turn(store, result=output)
    assert max(len(row[2].encode()) for row in contents(raw)["acp_turn_checkpoint_events"]) < 17_000
    store.resume("s")  # which recovers
    assert next(e.tool_output for e in store.entries("s") if e.tool_output) == kept

    whole_turn(store, turn="u", result=output)
    store.finish("s", "u", [ToolMessage("c", "bash", output)])
    assert [e.tool_output for e in store.entries("s") if e.tool_output] == [kept, kept]
    assert store.resume("s").context == (ToolMessage("c", "bash", kept),)
    for row in (*contents(raw)["acp_tool_calls"], *contents(raw)["acp_sessions"]):
        assert all(len(value.encode()) < 17_000 for value in row if isinstance(value, str))


@pytest.mark.parametrize("character", ["x", "é", "€", "😀"])
def test_the_bound_is_met_and_passed_by_one_byte(character: str) -> None:
    assert MAX_OUTPUT_BYTES == 16_384
    width = len(character.encode())
    fits = "x" * (MAX_OUTPUT_BYTES % width) + character * (MAX_OUTPUT_BYTES // width)
    assert len(fits.encode()) == MAX_OUTPUT_BYTES
    assert bounded(fits) == fits
    assert bounded("y" + fits) == ("y" + fits)[:-1] + TRUNCATED


def test_a_cancelled_turn_ends_with_the_marker_and_a_whole_one_does_not(store: AcpStore) -> None:
    whole_turn(store)
    store.finish("s", "t", [])
    assert all(entry.role != "system" for entry in store.entries("s"))
    whole_turn(store, turn="u")
    store.finish("s", "u", [], cancelled=True)
    assert entry_tuple(store.entries("s")[-1])[:3] == ("system", "[stream interrupted]", "message")


def test_a_prompt_is_dated_by_the_beginning_of_its_turn(store: AcpStore) -> None:
    whole_turn(store)
    store.finish("s", "t", [])
    assert store.entries("s")[0].created_at == "2026-01-02T03:04:05.000000Z"


@pytest.mark.parametrize("limit", [0, MAX_PAGE + 1])
def test_a_page_has_a_size(store: AcpStore, limit: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 1000"):
        store.page("s", limit=limit)
    assert store.page("s", limit=MAX_PAGE).entries == ()


def test_a_page_stays_where_it_is_while_the_transcript_grows(store: AcpStore) -> None:
    whole_turn(store)
    store.finish("s", "t", [])
    older = store.page("s", limit=1).older
    before = store.page("s", limit=2, before=older)
    whole_turn(store, turn="u")
    store.finish("s", "u", [])
    assert store.page("s", limit=2, before=older) == before


def test_rows_that_another_program_appended_are_counted(store: AcpStore, raw: sqlite3.Connection) -> None:
    whole_turn(store)
    store.finish("s", "t", [])
    raw.execute(
        "INSERT INTO acp_messages (session_id, role, content, created_at) VALUES (1, 'user', 'x', 'y')"
    )
    whole_turn(store, turn="u")
    session = store.finish("s", "u", [])
    assert session.message_count == len(store.entries("s")) == 11


# --- whose it is, and which ones go on ----------------------------------------------------------------------------------


def test_to_a_scope_another_s_session_and_none_are_the_same(store: AcpStore) -> None:
    store.create(NewSession("mine", "agent", "/work", owner="me"))
    for name in ("s", "mine", "absent"):
        for work in (
            lambda name=name: store.resume(name, "you"),
            lambda name=name: store.recover(name, "you"),
            lambda name=name: store.kill(name, "you"),
            lambda name=name: store.delete(name, "you"),
            lambda name=name: store.entries(name, "you"),
            lambda name=name: store.page(name, "you"),
            lambda name=name: store.receipts(name, "you"),
            lambda name=name: store.verdicts(name, "you"),
        ):
            with pytest.raises(Forbidden, match="there is no such session of yours"):
                work()
        assert store.find(name, "you") is None
    assert store.listed("you") == ()
    assert [session.id for session in store.listed("me")] == ["mine"]
    restored = store.resume("mine")
    assert restored.session.owner == "me"
    assert store.resume("mine", "me").session.owner == "me"
    with pytest.raises(SessionNotFound):
        store.resume("absent")


@pytest.mark.req("RPC-148")
def test_what_cannot_go_on_here_is_left_as_it_is_until_it_can(
    store: AcpStore, raw: sqlite3.Connection
) -> None:
    whole_turn(store)
    raw.execute("UPDATE acp_sessions SET interaction_surface = 'bogus'")
    before = contents(raw)
    with pytest.raises(SurfaceUnsupported):
        store.resume("s")
    assert store.recover("s") is False
    assert contents(raw) == before

    raw.execute("UPDATE acp_sessions SET interaction_surface = 'zerocode_code'")
    assert store.recover("s") is True
    assert [entry.content for entry in store.entries("s")][:2] == ["prompt", "let me look"]
    assert contents(raw)["acp_turn_checkpoints"] == []


def test_the_session_of_the_turn_that_began_last_is_listed_first_whatever_became_of_it(
    store: AcpStore,
) -> None:
    store.create(NewSession("later", "agent", "/work"))
    assert [session.id for session in store.listed()] == ["later", "s"]
    store.begin("s", "t", "prompt", BEGAN + timedelta(days=1))
    assert [session.id for session in store.listed()] == ["s", "later"]


def test_the_first_surface_claims_a_session_and_others_are_refused(
    store: AcpStore, raw: sqlite3.Connection
) -> None:
    assert store.resume("s").session.surface is None
    assert store.resume("s", surface="zerocode_code").session.surface == "zerocode_code"
    assert store.resume("s").session.surface == "zerocode_code"
    with pytest.raises(UsageError):
        store.resume("s", surface="bogus")
    with pytest.raises(UsageError):
        store.create(NewSession("t", "agent", "/work", "bogus"))
    before = contents(raw)
    with pytest.raises(SessionMismatch) as caught:
        store.resume("s", agent_alias="other", surface="zerocode_code")
    assert caught.value.details == {"member": "agentAlias"}
    assert contents(raw) == before
    assert store.resume("s", agent_alias="agent").session.agent_alias == "agent"


def test_a_killed_session_is_read_and_nothing_goes_on_in_it(store: AcpStore, raw: sqlite3.Connection) -> None:
    whole_turn(store)
    store.finish("s", "t", [])
    whole_turn(store, turn="u")
    shown = store.entries("s")
    assert store.kill("s") is True
    killed = contents(raw)
    assert store.kill("s") is False
    with pytest.raises(SessionKilled):
        store.resume("s")
    with pytest.raises(SessionKilled):
        store.begin("s", "v", "more", BEGAN)
    for late in (
        lambda: store.append("s", "u", MessageChunk("late")),
        lambda: store.reduce("s", "u", [], 1),
        lambda: store.finish("s", "u", []),
        lambda: store.fail("s", "u"),
    ):
        with pytest.raises(TurnSuperseded):
            late()
    assert store.recover("s") is False
    assert contents(raw) == killed
    assert store.entries("s") == shown
    assert store.listed() == ()


def test_what_is_deleted_leaves_nothing(store: AcpStore, raw: sqlite3.Connection) -> None:
    store.create(NewSession("other", "agent", "/work"))
    whole_turn(store, "other")
    left = {table: len(rows) for table, rows in contents(raw).items()}
    left["acp_sessions"] = 1
    whole_turn(store)
    store.finish("s", "t", [])
    whole_turn(store, turn="u")
    store.delete("s")
    assert {table: len(rows) for table, rows in contents(raw).items()} == left
    assert [session.id for session in store.listed()] == ["other"]
    with pytest.raises(SessionNotFound):
        store.delete("s")


def test_sessions_are_listed_by_their_latest_activity(store: AcpStore) -> None:
    store.create(NewSession("later", "agent", "/work"))
    assert [session.id for session in store.listed()] == ["later", "s"]
    whole_turn(store)
    store.finish("s", "t", [])
    assert [session.id for session in store.listed()] == ["s", "later"]
    assert [session.id for session in store.listed(limit=1)] == ["s"]


def test_half_a_character_is_kept_where_it_is_said_and_refused_as_a_name(store: AcpStore) -> None:
    store.begin("s", "t", "\ud800", BEGAN)
    store.append("s", "t", ToolCalled("\udfff", "\ud800", {"\ud800": "\udc00"}))
    store.append("s", "t", ToolReturned("\udfff", "\ud800", "\ud83d" * 6000, True))
    store.save_plan("s", ["\ud800"])
    session = store.finish("s", "t", [UserMessage("\ud800")])
    assert session.plan == ["\ud800"]
    said, called, returned = store.entries("s")
    assert (said.content, called.tool_input, called.tool_call_id) == (
        "\ud800",
        {"\ud800": "\udc00"},
        "\udfff",
    )
    assert returned.tool_output == "\ud83d" * 5461 + TRUNCATED
    assert store.resume("s").context == (UserMessage("\ud800"),)
    assert store.find("\ud800") is None
    with pytest.raises(UsageError):
        store.create(NewSession("\ud800", "agent", "/work"))


def test_arguments_as_deep_as_they_may_be_are_read_again(store: AcpStore) -> None:
    deep: Any = 1
    for _ in range(256):
        deep = [deep]
    store.begin("s", "t", "prompt", BEGAN)
    store.append("s", "t", ToolCalled("c", "bash", deep))
    store.append("s", "t", ToolReturned("c", "bash", "", True))
    context = store.resume("s").context
    assert store.entries("s")[1].tool_input == deep
    store.begin("s", "u", "prompt", BEGAN)
    store.finish("s", "u", context)
    assert store.resume("s").context == context


# --- receipts -----------------------------------------------------------------------------------------------------------


def test_a_receipt_says_what_became_of_a_call_and_nothing_it_was_told(
    store: AcpStore, raw: sqlite3.Connection
) -> None:
    arguments = {"token": "hunter2"}
    store.begin("s", "t", "prompt", BEGAN)
    for call_id in ("a", "b", "c"):
        store.append("s", "t", ToolCalled(call_id, "bash", arguments))
    ran = Settled(CallOutcome.FAILED, Approval.ALLOWED, 12)
    refused = Settled(CallOutcome.NOT_RUN, Approval.REFUSED, 0)
    store.append("s", "t", ToolReturned("a", "bash", "", False), ran)
    assert [receipt.settled for receipt in store.receipts("s")] == [ran, None, None]
    store.append("s", "t", ToolReturned("b", "bash", "", False), refused)
    store.recover("s")
    receipts = store.receipts("s")
    interrupted = Settled(CallOutcome.INTERRUPTED)
    assert [receipt.settled for receipt in receipts] == [ran, refused, interrupted]
    assert {(receipt.tool, receipt.arguments_sha256) for receipt in receipts} == {
        ("bash", digest_of(arguments))
    }
    assert "hunter2" not in repr(contents(raw)["acp_tool_receipts"])


# --- the file -----------------------------------------------------------------------------------------------------------


def test_the_file_and_what_lies_beside_it_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with closing(store_at(tmp_path)) as store:
            store.create(NewSession("s", "agent", "/work"))
            directory = tmp_path / "sessions"
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    finally:
        os.umask(before)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert modes == dict.fromkeys(("acp-sessions.db", "acp-sessions.db-wal", "acp-sessions.db-shm"), 0o600)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: path.chmod(0o640), "open_to_others"),
        (lambda path: path.rename(path.with_name("x")) and path.symlink_to(path.with_name("x")), "link"),
        (lambda path: path.unlink() or path.mkdir(), "not_a_file"),
        (lambda path: path.write_bytes(b"no database, but long enough to be one" * 100), "foreign"),
        (lambda path: path.write_bytes(b""), "foreign"),
        (lambda path: path.unlink() or path.with_name("acp-sessions.db-wal").write_bytes(b"x"), "damaged"),
    ],
)
def test_a_file_that_others_had_a_hand_in_is_refused(tmp_path: Path, spoil: Any, reason: str) -> None:
    with closing(store_at(tmp_path)) as store:
        store.create(NewSession("s", "agent", "/work"))
    spoil(tmp_path / "sessions" / "acp-sessions.db")
    with closing(store_at(tmp_path)) as store:
        for work in (lambda: store.find("s"), lambda: store.create(NewSession("t", "agent", "/work"))):
            with pytest.raises(SessionsUnavailable) as caught:
                work()
            assert caught.value.details["reason"] == reason
            assert caught.value.remedy is None or caught.value.remedy.action in (
                RemedyAction.CLEAR_BY_HAND,
                RemedyAction.RESTRICT_FILE,
            )


def test_a_file_that_is_replaced_is_opened_anew(tmp_path: Path) -> None:
    with closing(store_at(tmp_path / "a")) as store, closing(store_at(tmp_path / "b")) as other:
        store.create(NewSession("s", "agent", "/work"))
        other.create(NewSession("other", "agent", "/work"))
        other.close()
        for path in (tmp_path / "a" / "sessions").iterdir():
            path.unlink()
        (tmp_path / "b" / "sessions" / "acp-sessions.db").rename(
            tmp_path / "a" / "sessions" / "acp-sessions.db"
        )
        assert store.find("s") is None
        assert store.find("other") is not None


def test_an_early_layout_is_brought_up_to_date_and_keeps_its_rows(tmp_path: Path) -> None:
    path = make_legacy(tmp_path)
    with closing(store_at(tmp_path)) as store:
        assert [entry.content for entry in store.entries("old")] == ["be brief", "hello", "hi"]
        restored = store.resume("old")
        assert restored.context == (UserMessage("hello"), AssistantMessage("hi"))
        assert restored.session.message_count == 3
        with closing(sqlite3.connect(path)) as raw:
            versions = raw.execute("SELECT version FROM acp_schema").fetchall()
            assert versions == [(version + 1,) for version in range(ACP.version)]
            kept = raw.execute("SELECT name, sql FROM sqlite_master WHERE name LIKE 'acp%'").fetchall()
        with closing(store_at(tmp_path / "fresh")) as fresh:
            fresh.listed()
        with closing(sqlite3.connect(tmp_path / "fresh" / "sessions" / "acp-sessions.db")) as raw:
            made = raw.execute("SELECT name FROM sqlite_master WHERE name LIKE 'acp%'").fetchall()
        assert {name for name, _ in kept} == {name for (name,) in made}


def test_a_later_layout_is_refused_and_stays(
    store: AcpStore, raw: sqlite3.Connection, tmp_path: Path
) -> None:
    raw.execute("INSERT INTO acp_schema (version) VALUES (?)", (ACP.version + 1,))
    with closing(store_at(tmp_path)) as later, pytest.raises(SessionsUnavailable) as caught:
        later.find("s")
    assert caught.value.details["reason"] == "newer"


def test_a_write_without_a_name_is_refused_by_the_database(store: AcpStore, tmp_path: Path) -> None:
    with closing(SessionFile(tmp_path / "sessions" / "acp-sessions.db", ACP)) as file:
        for _ in range(2):
            with file.write(WritePoint.SESSION_KILLED) as raw:
                raw.execute("UPDATE acp_sessions SET killed_at = NULL")
            with pytest.raises(SessionsUnavailable) as caught, file.read() as raw:
                raw.execute("UPDATE acp_sessions SET killed_at = 'now'")
            assert caught.value.details["reason"] == "failed"
            with pytest.raises(SessionNotFound), file.write(WritePoint.SESSION_KILLED) as raw:
                raise SessionNotFound
            with pytest.raises(SessionsUnavailable), file.read() as raw:
                raw.execute("DELETE FROM acp_sessions")
    assert store.find("s") is not None


def test_the_database_is_kept_as_it_is_said(store: AcpStore, tmp_path: Path) -> None:
    with closing(SessionFile(tmp_path / "sessions" / "acp-sessions.db", ACP)) as file, file.read() as raw:
        asked = ("journal_mode", "synchronous", "foreign_keys", "temp_store", "query_only")
        said = [raw.execute(f"PRAGMA {name}").fetchone()[0] for name in asked]
        assert said == ["wal", 1, 1, 2, 1]
