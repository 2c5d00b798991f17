"""A store that cannot be written or read: each operation says so, changes nothing, and works once the cause is gone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from session_model import BEGAN, shown_by, store_at

from zeroclaw_daemon.agent.events import MessageChunk
from zeroclaw_daemon.agent.messages import UserMessage
from zeroclaw_daemon.sessions.store.acp import AcpStore
from zeroclaw_daemon.sessions.store.file import SessionsUnavailable
from zeroclaw_daemon.sessions.store.points import Phase, StoreSteps, WritePoint
from zeroclaw_daemon.sessions.store.records import NewSession
from zeroclaw_host.errors import RemedyAction

NAMES = ("s", "idle", "new")
SECRET = "what was said"

WRITES: dict[WritePoint, Callable[[AcpStore], object]] = {
    WritePoint.SESSION_CREATED: lambda store: store.create(NewSession("new", "agent", "/work")),
    WritePoint.SESSION_RESUMED: lambda store: store.resume("s"),
    WritePoint.SESSION_RECOVERED: lambda store: store.recover("s"),
    WritePoint.TURN_BEGUN: lambda store: store.begin("idle", "u", "hi", BEGAN),
    WritePoint.EVENT_APPENDED: lambda store: store.append("s", "t", MessageChunk("more")),
    WritePoint.CONTEXT_REDUCED: lambda store: store.reduce("s", "t", [UserMessage("short")], 1),
    WritePoint.TURN_FINISHED: lambda store: store.finish("s", "t", [UserMessage("all")]),
    WritePoint.TURN_FAILED: lambda store: store.fail("s", "t"),
    WritePoint.PLAN_SAVED: lambda store: store.save_plan("s", []),
    WritePoint.TOKENS_COUNTED: lambda store: store.count_tokens("s", 5),
    WritePoint.SESSION_KILLED: lambda store: store.kill("s"),
    WritePoint.SESSION_DELETED: lambda store: store.delete("s"),
}
READS: dict[str, Callable[[AcpStore], object]] = {
    "find": lambda store: store.find("s"),
    "listed": lambda store: store.listed(),
    "entries": lambda store: store.entries("idle"),
    "page": lambda store: store.page("idle"),
    "receipts": lambda store: store.receipts("s"),
    "verdicts": lambda store: store.verdicts("s"),
}
every_write = pytest.mark.parametrize("point", list(WRITES))


def test_every_write_is_tried() -> None:
    assert {*WRITES, WritePoint.MIGRATED} == set(WritePoint)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A session in a turn, and an idle one with a transcript."""
    store = store_at(tmp_path)
    for name in ("s", "idle"):
        store.create(NewSession(name, "agent", "/work"))
        store.begin(name, "t", SECRET, BEGAN)
        store.append(name, "t", MessageChunk("an answer"))
    store.finish("idle", "t", [UserMessage(SECRET)])
    store.close()
    return tmp_path


def database(root: Path) -> Path:
    return root / "sessions" / "acp-sessions.db"


def shown(root: Path) -> object:
    with closing(store_at(root)) as store:
        return shown_by(store, NAMES)


@contextmanager
def refused(root: Path, reason: str) -> Generator[list[SessionsUnavailable]]:
    """That the block is told why, in words that say nothing of what is stored, and changes nothing; the error, afterwards."""
    before = shown(root)
    errors: list[SessionsUnavailable] = []
    with pytest.raises(SessionsUnavailable) as caught:
        yield errors
    errors.append(caught.value)
    assert caught.value.details["reason"] == reason
    assert SECRET not in repr(caught.value) + str(caught.value.details) + str(caught.value.causes())
    assert shown(root) == before


def fault(code: int) -> sqlite3.OperationalError:
    """What the database raises for one of its codes."""
    error = sqlite3.OperationalError("no")
    error.sqlite_errorcode = code
    return error


class Broken(StoreSteps):
    """Fails at one phase of every write."""

    def __init__(self, phase: Phase, error: Exception) -> None:
        self.phase, self.error = phase, error

    def reached(self, point: WritePoint, phase: Phase) -> None:
        if phase is self.phase:
            raise self.error


@every_write
@pytest.mark.parametrize("phase", [Phase.BEGUN, Phase.WRITTEN])
def test_a_full_disk_changes_nothing(root: Path, point: WritePoint, phase: Phase) -> None:
    with closing(store_at(root, steps=Broken(phase, fault(sqlite3.SQLITE_FULL)))) as store:
        with refused(root, "failed") as caught:
            WRITES[point](store)
        assert [remedy.action for remedy in caught[0].remedies] == [RemedyAction.FREE_SPACE]
    with closing(store_at(root)) as store:
        WRITES[point](store)


@every_write
def test_a_fault_after_the_commit_leaves_what_was_written(root: Path, point: WritePoint) -> None:
    before = shown(root)
    steps = Broken(Phase.COMMITTED, fault(sqlite3.SQLITE_IOERR))
    with closing(store_at(root, steps=steps)) as store, pytest.raises(SessionsUnavailable):
        WRITES[point](store)
    if point is WritePoint.EVENT_APPENDED:
        with closing(store_at(root)) as store:
            store.recover("s")
            assert store.entries("s")[1].content == "an answermore"
    elif point is not WritePoint.CONTEXT_REDUCED:
        assert shown(root) != before


def test_a_database_without_room_for_a_page_is_full(root: Path) -> None:
    class Small(StoreSteps):
        def connect(self, path: Path, busy_seconds: float) -> sqlite3.Connection:
            raw = super().connect(path, busy_seconds)
            raw.execute("PRAGMA max_page_count = 1")  # which is as many as there are
            return raw

    with closing(store_at(root, steps=Small())) as store:
        with refused(root, "failed") as caught:
            store.append("s", "t", MessageChunk("x" * 100_000))
        assert [remedy.action for remedy in caught[0].remedies] == [RemedyAction.FREE_SPACE]
        store.append("s", "t", MessageChunk("y"))


@every_write
def test_a_locked_database_is_waited_for_and_then_refused(root: Path, point: WritePoint) -> None:
    with closing(sqlite3.connect(database(root), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with closing(store_at(root, busy_seconds=0.01)) as store:
            with refused(root, "busy"):
                WRITES[point](store)
            for read in READS.values():
                read(store)
            other.execute("COMMIT")
            WRITES[point](store)


@every_write
def test_a_database_that_cannot_be_written_is_still_read(root: Path, point: WritePoint) -> None:
    class ReadOnly(StoreSteps):
        def connect(self, path: Path, busy_seconds: float) -> sqlite3.Connection:
            super().connect(path, busy_seconds).close()
            return sqlite3.connect(
                f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
            )

    with closing(store_at(root, steps=ReadOnly())) as store:
        with refused(root, "failed"):
            WRITES[point](store)
        for read in READS.values():
            read(store)


@pytest.mark.parametrize("operation", [*WRITES.values(), *READS.values()], ids=[*WRITES, *READS])
def test_a_damaged_database_is_neither_used_nor_replaced(
    root: Path, operation: Callable[[AcpStore], object]
) -> None:
    content = bytearray(database(root).read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    database(root).write_bytes(content)
    with closing(store_at(root)) as store, pytest.raises(SessionsUnavailable) as caught:
        operation(store)
    assert caught.value.details["reason"] == "damaged"
    assert database(root).read_bytes() == content


def test_damage_where_an_operation_does_not_look_is_found_at_the_first_use(root: Path) -> None:
    with closing(store_at(root)) as store:
        store.append("s", "t", MessageChunk("x" * 100_000))
    content = bytearray(database(root).read_bytes())
    content[-4096:] = b"\xa5" * 4096
    database(root).write_bytes(content)
    with closing(store_at(root)) as store, pytest.raises(SessionsUnavailable) as caught:
        store.find("idle")
    assert caught.value.details["reason"] == "damaged"


@pytest.mark.parametrize(
    ("statement", "operation"),
    [
        ("UPDATE acp_sessions SET retained_context_json = '[]'", lambda store: store.resume("idle")),
        (
            "UPDATE acp_sessions SET retained_context_json = '{\"messages\": 1}'",
            lambda store: store.resume("s"),
        ),
        ("UPDATE acp_sessions SET retained_context_json = x'ff'", lambda store: store.resume("s")),
        ("UPDATE acp_sessions SET plan_json = '{'", lambda store: store.find("s")),
        ("UPDATE acp_sessions SET created_at = 'today'", lambda store: store.listed()),
        (
            'UPDATE acp_turn_checkpoint_events SET payload = \'{"type": "text"}\'',
            lambda store: store.resume("s"),
        ),
        ("UPDATE acp_turn_checkpoint_events SET payload = '!'", lambda store: store.finish("s", "t", [])),
        ("UPDATE acp_messages SET content = x'00'", lambda store: store.entries("idle")),
        ("UPDATE acp_session_events SET outcome = 'perhaps'", lambda store: store.verdicts("idle")),
    ],
)
def test_a_row_that_was_never_written_so_is_damage(
    root: Path, statement: str, operation: Callable[[AcpStore], object]
) -> None:
    with closing(sqlite3.connect(database(root), isolation_level=None)) as other:
        other.execute(statement)
        before = list(other.iterdump())
        with closing(store_at(root)) as store, pytest.raises(SessionsUnavailable) as caught:
            operation(store)
        assert caught.value.details["reason"] == "damaged"
        assert list(other.iterdump()) == before


def test_a_fault_is_told_once_and_the_same_store_goes_on(root: Path) -> None:
    steps = Broken(Phase.WRITTEN, fault(sqlite3.SQLITE_IOERR))
    with closing(store_at(root, steps=steps)) as store:
        with refused(root, "failed"):
            store.append("s", "t", MessageChunk("more"))
        steps.error = ValueError("a fault of the program")
        with pytest.raises(ValueError, match="of the program"):
            store.append("s", "t", MessageChunk("more"))
        steps.phase = Phase.COMMITTED
        steps.reached = lambda point, phase: None
        store.append("s", "t", MessageChunk("more"))
        store.recover("s")
        assert store.entries("s")[1].content == "an answermore"
