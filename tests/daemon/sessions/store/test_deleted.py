"""What is deleted can be read in no file of the store, while the daemon goes on as well, and the log beside the database is
bounded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from chat_store_child import chat_store_at
from session_model import BEGAN, store_at

from zeroclaw_daemon.agent.events import MessageChunk, ToolCalled, ToolReturned
from zeroclaw_daemon.agent.messages import AssistantMessage, UserMessage
from zeroclaw_daemon.sessions.store.acp import AcpStore
from zeroclaw_daemon.sessions.store.chat import ChatStore
from zeroclaw_daemon.sessions.store.chat_schema import CHAT
from zeroclaw_daemon.sessions.store.file import MAX_LOG_BYTES, SessionFile
from zeroclaw_daemon.sessions.store.points import Phase, StoreSteps, WritePoint
from zeroclaw_daemon.sessions.store.records import NewSession

WORD = "veryprivateword"


def events(word: str) -> tuple[MessageChunk | ToolCalled | ToolReturned, ...]:
    return (
        MessageChunk(f"answer {word}"),
        ToolCalled("c", "bash", {"command": word}),
        ToolReturned("c", "bash", f"output {word} " * 400, True),
    )


def chat_at(root: Path, steps: StoreSteps | None = None) -> ChatStore:
    return chat_store_at(root, steps=steps)


def acp_at(root: Path, steps: StoreSteps | None = None) -> AcpStore:
    return store_at(root, steps=steps)


both = pytest.mark.parametrize("at", [acp_at, chat_at])
At = Callable[..., AcpStore | ChatStore]


def turn(store: AcpStore | ChatStore, name: str, number: int, word: str) -> None:
    """One turn, with words of every size in every place."""
    prompt = f"{word} {number} " * (1 << (number % 12))
    context = [UserMessage(prompt), AssistantMessage(word)]
    store.begin(name, f"t{number}", prompt, BEGAN)
    if isinstance(store, AcpStore):
        for event in events(word):
            store.append(name, f"t{number}", event)
        store.save_plan(name, [{"content": word}])
        store.finish(name, f"t{number}", context)
    else:
        store.finish(name, f"t{number}", [(event, BEGAN) for event in events(word)], context)


def files_with(root: Path, word: str) -> list[str]:
    """The files of the store that hold a word, in upper or lower case."""
    return sorted(
        path.name for path in (root / "sessions").iterdir() if word.encode() in path.read_bytes().lower()
    )


def log_of(root: Path) -> Path:
    return next((root / "sessions").glob("*.db-wal"))


@pytest.mark.req("RPC-155")
@both
def test_what_is_deleted_is_in_no_file_while_the_store_is_open(tmp_path: Path, at: At) -> None:
    with closing(at(tmp_path)) as store:
        store.create(NewSession("other", "agent", "/work"))
        store.create(NewSession("s", "agent", f"/work/{WORD}"))
        for number in range(14):
            turn(store, "s", number, WORD)
            turn(store, "other", number, "kept")
        store.begin("s", "broken off", WORD, BEGAN)
        assert files_with(tmp_path, WORD)  # what is looked for can be found
        store.delete("s")
        assert files_with(tmp_path, WORD) == []
        assert len(store.entries("other")) == 14 * 4


@both
def test_what_somebody_reads_while_it_is_deleted_goes_when_he_has_read(tmp_path: Path, at: At) -> None:
    with closing(at(tmp_path)) as store:
        store.create(NewSession("s", "agent", "/work"))
        turn(store, "s", 1, WORD)
        path = next((tmp_path / "sessions").glob("*.db"))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM sqlite_master").fetchone()
            store.delete("s")
            assert files_with(tmp_path, WORD)
            assert store.find("s") is None
            assert files_with(tmp_path, WORD)
            other.execute("COMMIT")
            assert store.find("s") is None
            assert files_with(tmp_path, WORD) == []


@both
def test_what_a_daemon_deleted_that_was_killed_goes_with_the_first_use_of_the_next(
    tmp_path: Path, at: At
) -> None:
    class Killed(BaseException):
        pass

    class Killing(StoreSteps):
        def reached(self, point: WritePoint, phase: Phase) -> None:
            if (point, phase) == (WritePoint.SESSION_DELETED, Phase.COMMITTED):
                raise Killed

    first = at(tmp_path, Killing())
    first.create(NewSession("s", "agent", "/work"))
    turn(first, "s", 1, WORD)
    path = next((tmp_path / "sessions").glob("*.db"))
    with closing(sqlite3.connect(path)) as holds_the_log:  # as after a kill: nobody closes it away
        holds_the_log.execute("SELECT count(*) FROM sqlite_master").fetchone()
        with pytest.raises(Killed):
            first.delete("s")
        first.close()
        assert files_with(tmp_path, WORD)
        with closing(at(tmp_path)) as second:
            assert second.find("s") is None
            assert files_with(tmp_path, WORD) == []


@both
def test_the_log_does_not_stay_as_large_as_it_ever_was(tmp_path: Path, at: At) -> None:
    with closing(at(tmp_path)) as store:
        store.create(NewSession("s", "agent", "/work"))
        store.begin("s", "t", "x" * (MAX_LOG_BYTES + 1), BEGAN)
        assert log_of(tmp_path).stat().st_size > MAX_LOG_BYTES
        store.create(NewSession("next", "agent", "/work"))
        assert log_of(tmp_path).stat().st_size <= MAX_LOG_BYTES


@both
def test_what_is_deleted_is_told_even_if_another_program_writes_at_once(tmp_path: Path, at: At) -> None:
    others: list[sqlite3.Connection] = []

    class Beside(StoreSteps):
        def reached(self, point: WritePoint, phase: Phase) -> None:
            if (point, phase) == (WritePoint.SESSION_DELETED, Phase.COMMITTED):
                path = next((tmp_path / "sessions").glob("*.db"))
                others.append(sqlite3.connect(path, isolation_level=None))
                others[0].execute("BEGIN IMMEDIATE")

    with closing(at(tmp_path, Beside())) as store:
        store.create(NewSession("s", "agent", "/work"))
        turn(store, "s", 1, WORD)
        store.delete("s")
        with closing(others[0]):
            assert log_of(tmp_path).stat().st_size
            others[0].execute("COMMIT")
        assert store.find("s") is None
        assert log_of(tmp_path).stat().st_size == 0
        store.create(NewSession("s", "agent", "/work"))  # and it is written to as before


def test_a_database_that_holds_too_much_is_not_written_anew(tmp_path: Path) -> None:
    def unused(name: str, limit: int) -> tuple[int, int]:
        """The bytes that are in use after a delete, and the pages that are not."""
        with closing(SessionFile(tmp_path / name, CHAT, max_rebuilt=limit)) as file:
            with file.write(WritePoint.SESSION_CREATED) as raw:
                raw.execute("INSERT INTO session_metadata (session_key, created_at, last_activity) VALUES (?, '', '')",
                            ("x" * 100_000,))  # fmt: skip
            with file.write(WritePoint.SESSION_DELETED) as raw:
                raw.execute("DELETE FROM session_metadata")
            with file.read() as raw:
                pages, free, size = (
                    raw.execute(f"PRAGMA {of}").fetchone()[0]
                    for of in ("page_count", "freelist_count", "page_size")
                )
            return (pages - free) * size, free

    held, free = unused("never", 0)
    assert free > 0
    assert unused("one too many", held - 1)[1] == free
    assert unused("at the limit", held)[1] == 0
