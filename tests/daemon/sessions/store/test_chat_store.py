"""Chats that outlive the daemon: kept turn by turn, read by page, found by their words."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import chat_store_child
import pytest
from chat_store_child import CONTEXT, EVENTS, NAMES, STORY, chat_store_at, seen_of, tell
from killed_stories import Heard, left_by
from session_model import BEGAN, MARKER, entry_tuple, store_at

from zeroclaw_daemon.agent.events import MessageChunk, ToolCalled, ToolReturned
from zeroclaw_daemon.agent.messages import AssistantMessage, ToolMessage, UserMessage
from zeroclaw_daemon.authority.principal import Forbidden
from zeroclaw_daemon.sessions.errors import SessionMismatch, SessionNotFound
from zeroclaw_daemon.sessions.store.chat import MAX_LISTED, ChatStore
from zeroclaw_daemon.sessions.store.facade import ChatSessions
from zeroclaw_daemon.sessions.store.file import SessionsUnavailable
from zeroclaw_daemon.sessions.store.payloads import MAX_OUTPUT_BYTES, TRUNCATED
from zeroclaw_daemon.sessions.store.points import Phase, StoreSteps, WritePoint
from zeroclaw_daemon.sessions.store.records import NewSession, SessionExists, TurnSuperseded
from zeroclaw_host.errors import UsageError


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def store(tmp_path: Path) -> Generator[ChatStore]:
    with closing(chat_store_at(tmp_path)) as made:
        made.create(NewSession("s", "agent", "/work"))
        yield made


def database(root: Path) -> Path:
    return root / "sessions" / "sessions.db"


def turn(store: ChatStore, prompt: str = "prompt", answer: str = "answer", *, name: str = "s") -> None:
    store.begin(name, "t", prompt, BEGAN)
    context = [UserMessage(prompt), AssistantMessage(answer)]
    store.finish(name, "t", [(MessageChunk(answer), BEGAN)], context)


def said(store: ChatStore, name: str = "s") -> list[tuple[str, str]]:
    return [(entry.role, entry.content) for entry in store.entries(name)]


# --- turns --------------------------------------------------------------------------------------------------------------


def test_a_turn_is_kept_as_its_client_saw_it(store: ChatStore) -> None:
    store.begin("s", "t", "first", BEGAN)
    session = store.finish("s", "t", EVENTS, CONTEXT)
    call = ("assistant", "", "tool_call", "c", "bash", b'{"command":"ls","in":null}', None)
    assert [entry_tuple(entry) for entry in store.entries("s")] == [
        ("user", "first", "message", None, None, None, None),
        ("assistant", "let me look", "message", None, None, None, None),
        call,
        ("tool", "", "tool_result", "c", "bash", None, "two files"),
        ("assistant", "the answer", "message", None, None, None, None),
    ]
    assert (session.message_count, session.turn_id, session.trimmed) == (5, None, False)
    assert store.resume("s").context == tuple(CONTEXT)


def test_what_the_model_forgets_stays_in_the_transcript(store: ChatStore) -> None:
    turn(store)
    before = store.entries("s")
    store.begin("s", "u", "more", BEGAN)
    assert store.finish("s", "u", [], [], trimmed=True).trimmed
    assert store.entries("s")[: len(before)] == before
    restored = store.resume("s")
    assert (restored.context, restored.session.trimmed) == ((), True)


def test_a_cancelled_turn_ends_with_the_marker(store: ChatStore) -> None:
    store.begin("s", "t", "prompt", BEGAN)
    store.finish("s", "t", EVENTS[:1], [UserMessage("prompt")], cancelled=True)
    assert said(store)[1:] == [("assistant", "let me "), ("system", "[stream interrupted]")]


@pytest.mark.parametrize("word", ["begun", "failed"])
def test_the_prompt_of_a_turn_without_an_end_is_kept_and_marked_once(store: ChatStore, word: str) -> None:
    turn(store)
    store.begin("s", "u", "and then?", BEGAN)
    if word == "failed":
        store.fail("s", "u")
    for recovered in (True, False):
        restored = store.resume("s")
        assert restored.recovered is recovered
        assert restored.context[-1] == UserMessage("and then?")
        assert len(restored.context) == 3
    assert said(store)[2:] == [("user", "and then?"), ("system", "[stream interrupted]")]


def test_without_a_snapshot_the_transcript_is_what_the_model_is_given(store: ChatStore) -> None:
    store.begin("s", "t", "hello", BEGAN)
    assert store.recover("s") is True
    assert store.recover("s") is False
    assert store.resume("s").context == (UserMessage("hello"),)


def test_the_calls_of_a_transcript_are_replayed(tmp_path: Path) -> None:
    with closing(tell(tmp_path)) as store, closing(sqlite3.connect(database(tmp_path))) as raw:
        raw.execute("UPDATE session_metadata SET retained_context_json = NULL")
        raw.commit()
        context = store.resume("s").context
    assert context[2] == ToolMessage("c", "bash", "two files", True)
    assert [message.text for message in context if isinstance(message, AssistantMessage)][:2] == [
        "let me look",
        "the answer",
    ]


def test_a_turn_that_is_not_the_session_s_writes_nothing(store: ChatStore) -> None:
    store.begin("s", "t", "prompt", BEGAN)
    before = store.entries("s")
    with pytest.raises(TurnSuperseded):
        store.begin("s", "u", "another", BEGAN)
    for late in (lambda: store.finish("s", "u", EVENTS, []), lambda: store.fail("s", "u")):
        with pytest.raises(TurnSuperseded):
            late()
    assert store.entries("s") == before
    store.delete("s")
    with pytest.raises(TurnSuperseded):
        store.finish("s", "t", EVENTS, [])
    with pytest.raises(SessionNotFound):
        store.begin("s", "t", "prompt", BEGAN)


def test_output_of_a_tool_is_kept_to_the_bound(store: ChatStore) -> None:
    events = [(ToolReturned("c", "bash", "x" * (MAX_OUTPUT_BYTES + 1), True), BEGAN)]
    store.begin("s", "t", "prompt", BEGAN)
    store.finish("s", "t", events, [])
    assert store.entries("s")[1].tool_output == "x" * MAX_OUTPUT_BYTES + TRUNCATED


def test_half_a_character_is_kept_where_it_is_said_and_refused_as_a_name(store: ChatStore) -> None:
    turn(store, "\ud800 one", "\udfff two")
    assert said(store) == [("user", "\ud800 one"), ("assistant", "\udfff two")]
    assert [session.id for session in store.listed(query="\ud800 one")] == ["s"]
    assert store.find("\ud800") is None
    for wrong in (NewSession("\ud800", "agent", "/work"), NewSession("t", "\ud800", "/work")):
        with pytest.raises(UsageError):
            store.create(wrong)


# --- whose it is --------------------------------------------------------------------------------------------------------


@pytest.mark.req("RPC-156")
def test_the_two_modes_share_no_ids(store: ChatStore, tmp_path: Path) -> None:
    with closing(store_at(tmp_path)) as acp:
        acp.create(NewSession("s", "agent", "/work"))
        acp.begin("s", "t", "of acp", BEGAN)
        turn(store)
        with closing(sqlite3.connect(tmp_path / "sessions" / "acp-sessions.db")) as raw:
            before = list(raw.iterdump())
            store.delete("s")
            assert list(raw.iterdump()) == before
        assert store.find("s") is None
        acp.delete("s")
        store.create(NewSession("s", "agent", "/work"))
        assert acp.find("s") is None


def test_a_session_is_made_once_and_has_no_surface(store: ChatStore) -> None:
    with pytest.raises(SessionExists):
        store.create(NewSession("s", "other", "/work"))
    with pytest.raises(UsageError):
        store.create(NewSession("t", "agent", "/work", "zerocode_code"))
    assert store.find("t") is None


def test_to_a_scope_another_s_session_and_none_are_the_same(store: ChatStore) -> None:
    store.create(NewSession("mine", "agent", "/work", owner="me"))
    turn(store, "secret", name="mine")
    for name in ("s", "mine", "absent"):
        for work in (
            lambda name=name: store.resume(name, "you"),
            lambda name=name: store.recover(name, "you"),
            lambda name=name: store.delete(name, "you"),
            lambda name=name: store.entries(name, "you"),
            lambda name=name: store.page(name, "you"),
            lambda name=name: store.window(name, "you"),
        ):
            with pytest.raises(Forbidden, match="there is no such session of yours"):
                work()
        assert store.find(name, "you") is None
    assert store.listed("you") == store.listed("you", query="secret") == ()
    assert [session.id for session in store.listed("me", query="secret")] == ["mine"]
    assert store.resume("mine").session.owner == "me"
    assert store.page("mine", "me").entries
    with pytest.raises(SessionNotFound):
        store.resume("absent")


def test_a_session_goes_on_with_its_own_agent(store: ChatStore) -> None:
    with pytest.raises(SessionMismatch) as caught:
        store.resume("s", agent_alias="other")
    assert caught.value.details == {"member": "agentAlias"}
    assert store.resume("s", agent_alias="agent").session.agent_alias == "agent"


# --- lists and words ----------------------------------------------------------------------------------------------------


def test_sessions_are_listed_by_their_latest_activity_and_so_many(store: ChatStore) -> None:
    store.create(NewSession("later", "agent", "/work"))
    assert [session.id for session in store.listed()] == ["later", "s"]
    turn(store)
    assert [session.id for session in store.listed()] == ["s", "later"]
    assert [session.id for session in store.listed(limit=1)] == ["s"]
    assert store.listed(query=" \t") == store.listed(limit=MAX_LISTED)
    for limit in (0, MAX_LISTED + 1):
        with pytest.raises(ValueError, match="from 1 to 1000"):
            store.listed(limit=limit)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("tokyo", True),
        ("TOKYO trains", True),
        ("train", True),  # begun
        ("trai", True),
        ("tra tokyo", False),  # only the last word may be begun
        ("tokyo boats", False),
        ("creme brulee", True),
        ("CRÈME", True),
        ("cre\u0300me", True),
        ("東京", True),
        ("京", True),
        ("京東", False),
        ("ｔｏｋｙｏ", True),
        ("tokyo answer", False),  # in two messages
        ("answer", True),
        ("two files", False),  # a tool's words
        ("content : tokyo", False),
        ("NOT tokyo", False),
        ('"tokyo', True),
        ("tokyo*", True),
        ("(tokyo", True),
        ("tokyo\x00", True),
        ("!!!", False),
        ("!!! tokyo", True),
    ],
)
def test_words_find_what_was_said(store: ChatStore, query: str, found: bool) -> None:
    store.begin("s", "t", "Tokyo trains, crème brûlée, 東京の電車", BEGAN)
    store.finish("s", "t", EVENTS, [])
    assert bool(store.listed(query=query)) is found


def test_what_is_deleted_is_not_found_and_leaves_no_byte(store: ChatStore, tmp_path: Path) -> None:
    store.create(NewSession("other", "agent", "/work"))
    turn(store, "xylophone secretword", "xylophone")
    turn(store, "xylophone other", name="other")
    store.delete("s")
    assert [session.id for session in store.listed(query="xylophone")] == ["other"]
    store.close()
    assert b"secretword" not in database(tmp_path).read_bytes()
    assert [path.name for path in database(tmp_path).parent.iterdir()] == ["sessions.db"]


def test_a_file_of_an_early_release_is_brought_up_to_date(tmp_path: Path) -> None:
    chat_store_child.make_legacy(tmp_path)
    with closing(chat_store_at(tmp_path)) as store:
        assert [session.id for session in store.listed()] == ["bare", "old"]
        assert [session.id for session in store.listed(query="ancient")] == ["old"]
        assert store.resume("old").context == (UserMessage("ancient words"), AssistantMessage("hi"))
        assert store.resume("bare", agent_alias="agent").session.agent_alias == "agent"
        turn(store, "newer", name="old")
        assert [session.id for session in store.listed(query="newer")] == ["old"]
        store.delete("old")
    with closing(sqlite3.connect(database(tmp_path))) as raw:
        rows = raw.execute("SELECT content FROM sessions ORDER BY id").fetchall()
        assert rows == [("without metadata",), ("ancient words elsewhere",)]
        assert raw.execute("INSERT INTO sessions_fts (sessions_fts) VALUES ('integrity-check')")
        assert raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall() == []


def test_a_file_of_the_first_version_is_brought_up_to_date(store: ChatStore, tmp_path: Path) -> None:
    turn(store)
    before = store.entries("s")
    store.close()
    with closing(sqlite3.connect(database(tmp_path))) as raw, raw:
        raw.execute("ALTER TABLE session_metadata DROP COLUMN plan_json")
        raw.execute("DELETE FROM chat_schema WHERE version = 2")
    store.save_plan("s", ["on"])
    assert store.resume("s").session.plan == ["on"]
    assert store.entries("s") == before
    with pytest.raises(SessionNotFound):
        store.save_plan("absent", [])


def test_the_file_is_its_owner_s_alone(store: ChatStore, tmp_path: Path) -> None:
    for path in database(tmp_path).parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


# --- faults -------------------------------------------------------------------------------------------------------------

WRITES: dict[WritePoint, Callable[[ChatStore], object]] = {
    WritePoint.SESSION_CREATED: lambda it: it.create(NewSession("gone", "agent", "/work")),
    WritePoint.SESSION_RESUMED: lambda it: it.resume("s"),
    WritePoint.SESSION_RECOVERED: lambda it: it.recover("s"),
    WritePoint.TURN_BEGUN: lambda it: it.begin("old", "u", "look", BEGAN),
    WritePoint.PLAN_SAVED: lambda it: it.save_plan("s", []),
    WritePoint.TURN_FINISHED: lambda it: it.finish("s", "t2", EVENTS, CONTEXT, trimmed=True),
    WritePoint.TURN_FAILED: lambda it: it.fail("s", "t2"),
    WritePoint.SESSION_DELETED: lambda it: it.delete("s"),
}
READS: dict[str, Callable[[ChatStore], object]] = {
    "find": lambda it: it.find("s"),
    "listed": lambda it: it.listed(),
    "found": lambda it: it.listed(query="first"),
    "entries": lambda it: it.entries("s"),
    "page": lambda it: it.page("s"),
    "window": lambda it: it.window("s"),
}
every_write = pytest.mark.parametrize("point", list(WRITES))


def test_every_write_is_tried() -> None:
    assert {*WRITES, WritePoint.MIGRATED} == {point for point, _ in STORY}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A session in its second turn, and what an early release left."""
    tell(tmp_path, operations=11).close()
    return tmp_path


def shown(root: Path) -> dict[str, Any]:
    with closing(chat_store_at(root)) as store:
        return seen_of(store)


class Broken(StoreSteps):
    """Fails at one phase of every write, as a full disk does."""

    def __init__(self, phase: Phase) -> None:
        self.phase = phase

    def reached(self, point: WritePoint, phase: Phase) -> None:
        if phase is self.phase:
            error = sqlite3.OperationalError("no")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error


@every_write
@pytest.mark.parametrize("phase", list(Phase))
def test_a_write_that_fails_is_there_as_a_whole_or_not_at_all(
    root: Path, point: WritePoint, phase: Phase
) -> None:
    before = shown(root)
    with closing(chat_store_at(root, steps=Broken(phase))) as store, pytest.raises(SessionsUnavailable) as e:
        WRITES[point](store)
    assert e.value.details["reason"] == "failed"
    assert "first" not in repr(e.value) + str(e.value.causes())
    if phase is not Phase.COMMITTED:
        assert shown(root) == before
        with closing(chat_store_at(root)) as store:
            WRITES[point](store)
    elif point is not WritePoint.TURN_FAILED:
        assert shown(root) != before


@every_write
def test_another_program_in_the_way_is_told_and_does_not_keep_readers_out(
    root: Path, point: WritePoint
) -> None:
    before = shown(root)
    with closing(sqlite3.connect(database(root), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with closing(chat_store_at(root, busy_seconds=0.01)) as store:
            with pytest.raises(SessionsUnavailable) as caught:
                WRITES[point](store)
            assert caught.value.details["reason"] == "busy"
            for read in READS.values():
                read(store)
            other.execute("COMMIT")
    assert shown(root) == before


@pytest.mark.parametrize("operation", [*WRITES.values(), *READS.values()], ids=[*WRITES, *READS])
def test_a_damaged_database_is_neither_used_nor_replaced(
    root: Path, operation: Callable[[ChatStore], object]
) -> None:
    content = bytearray(database(root).read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    database(root).write_bytes(content)
    with closing(chat_store_at(root)) as store, pytest.raises(SessionsUnavailable) as caught:
        operation(store)
    assert caught.value.details["reason"] == "damaged"
    assert database(root).read_bytes() == content


@pytest.mark.parametrize(
    ("statement", "operation"),
    [
        ("UPDATE session_metadata SET retained_context_json = '[]'", lambda it: it.resume("s")),
        ("UPDATE session_metadata SET created_at = 'today'", lambda it: it.listed()),
        ("UPDATE session_metadata SET message_count = 'many'", lambda it: it.find("s")),
        ("UPDATE session_metadata SET plan_json = '{'", lambda it: it.find("s")),
        ("UPDATE sessions SET payload = '{'", lambda it: it.entries("s")),
        ("UPDATE sessions SET payload = '{\"calls\": 1}'", lambda it: it.entries("s")),
        ("UPDATE sessions SET payload = '{\"calls\": [1]}'", lambda it: it.page("s")),
        ("UPDATE sessions SET payload = '{\"result\": {}}'", lambda it: it.window("s")),
        ("UPDATE sessions SET content = x'00'", lambda it: it.entries("s")),
        ("UPDATE sessions SET entries = 'two'", lambda it: it.window("s")),
    ],
)
def test_a_row_that_was_never_written_so_is_damage(
    root: Path, statement: str, operation: Callable[[ChatStore], object]
) -> None:
    with closing(sqlite3.connect(database(root), isolation_level=None)) as other:
        other.execute(statement)
        before = list(other.iterdump())
        with closing(chat_store_at(root)) as store, pytest.raises(SessionsUnavailable) as caught:
            operation(store)
        assert caught.value.details["reason"] == "damaged"
        assert list(other.iterdump()) == before


def test_the_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    with closing(store_at(tmp_path)) as acp:
        acp.create(NewSession("s", "agent", "/work"))
    path = tmp_path / "sessions" / "acp-sessions.db"
    path.rename(database(tmp_path))
    before = database(tmp_path).read_bytes()
    with closing(chat_store_at(tmp_path)) as store, pytest.raises(SessionsUnavailable) as caught:
        store.listed()
    assert caught.value.details["reason"] == "foreign"
    assert database(tmp_path).read_bytes() == before


# --- kills --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for every write and phase, as the process left it that was killed there."""
    return left_by(chat_store_child.__file__, tmp_path_factory.mktemp("killed-chats"))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What a store shows after so many operations of the story, that nothing happened to."""
    root = tmp_path_factory.mktemp("told")
    chat_store_child.make_legacy(root)
    with closing(chat_store_at(root)) as store:
        found = [seen_of(store)]
        for _, operation in STORY:
            operation(store)
            found.append(seen_of(store))
    return found


def test_the_story_is_what_a_store_announces(tmp_path: Path) -> None:
    heard = Heard()
    tell(tmp_path, heard).close()
    assert heard.writes == [(point, phase) for point, _ in STORY for phase in Phase]


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("number", range(len(STORY)), ids=lambda n: f"{n}-{STORY[n][0].value}")
def test_a_kill_loses_nothing_that_was_told_and_shows_nothing_twice(
    killed: Path, told: list[dict[str, Any]], tmp_path: Path, number: int, phase: Phase
) -> None:
    shutil.copytree(killed / f"{number}-{phase.value}", tmp_path / "copy")
    with closing(chat_store_at(tmp_path / "copy")) as store:
        expected = told[number + (phase is Phase.COMMITTED)]
        assert seen_of(store) == expected
        for name in NAMES:
            if name in expected:
                entries, interrupted = expected[name][4], expected[name][3] is not None
                assert store.resume(name).recovered is interrupted
                assert store.resume(name).recovered is False
                turn(store, "go on", name=name)
                now = [entry_tuple(entry) for entry in store.entries(name)]
                assert now[: len(entries)] == entries
                assert now[len(entries) : -2] == [MARKER] * interrupted
        # The index goes with the rows.
        with closing(sqlite3.connect(database(tmp_path / "copy"))) as raw:
            raw.execute("INSERT INTO sessions_fts (sessions_fts) VALUES ('integrity-check')")
            (unfound,) = raw.execute(
                "SELECT count(*) FROM sessions WHERE role IN ('user', 'assistant') AND content <> ''"
                " AND id NOT IN (SELECT rowid FROM sessions_fts)"
            ).fetchone()
            (left,) = raw.execute(
                "SELECT count(*) FROM sessions_fts WHERE rowid NOT IN (SELECT id FROM sessions)"
            ).fetchone()
        assert (unfound, left) == (0, 0)


@pytest.mark.anyio
async def test_chats_are_used_from_the_event_loop(tmp_path: Path) -> None:
    chats = ChatSessions(chat_store_at(tmp_path))
    await chats.write(lambda store: store.create(NewSession("s", "agent", "/work")))
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(chats.write, lambda store: store.resume("s"))
    assert (await chats.read(lambda store: store.find("s"))) is not None
    await chats.write(lambda store: store.close())


def test_calls_are_kept_whatever_their_arguments_are(store: ChatStore) -> None:
    deep: Any = "x"
    for _ in range(250):
        deep = [deep]
    calls = [
        ToolCalled(str(n), "t", value) for n, value in enumerate([None, "text", deep, {"\ud800": 1e300}])
    ]
    store.begin("s", "t", "prompt", BEGAN)
    store.finish("s", "t", [(call, BEGAN) for call in calls], [])
    assert [entry.tool_input for entry in store.entries("s")[1:]] == [call.arguments for call in calls]
