"""One story of chats, told to a store; as a process, the story killed at every write: ``chat_store_child.py DIRECTORY`` leaves a
directory ``NUMBER-PHASE`` for each.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from killed_stories import Story, kill_everywhere
from session_model import BEGAN, Ticking, entry_tuple

from zeroclaw_daemon.agent.events import MessageChunk, ToolCalled, ToolReturned
from zeroclaw_daemon.agent.messages import AssistantMessage, Message, UserMessage
from zeroclaw_daemon.sessions.store.chat import ChatStore
from zeroclaw_daemon.sessions.store.points import StoreSteps, WritePoint
from zeroclaw_daemon.sessions.store.records import NewSession

LEGACY = """
PRAGMA journal_mode = WAL;
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_key TEXT NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL,
    created_at TEXT NOT NULL
);
CREATE TABLE session_metadata (
    session_key TEXT PRIMARY KEY, created_at TEXT NOT NULL, last_activity TEXT NOT NULL,
    message_count INTEGER NOT NULL DEFAULT 0, name TEXT
);
CREATE VIRTUAL TABLE sessions_fts USING fts5(session_key, content, content = sessions, content_rowid = id);
CREATE TRIGGER sessions_ai AFTER INSERT ON sessions BEGIN
    INSERT INTO sessions_fts (rowid, session_key, content) VALUES (new.id, new.session_key, new.content);
END;
INSERT INTO session_metadata VALUES ('rpc_old', '2020-01-01T00:00:00Z', '2020-01-01T00:00:01Z', 2, 'greetings');
INSERT INTO sessions (session_key, role, content, created_at) VALUES
    ('rpc_old', 'user', 'ancient words', '2020-01-01T00:00:00Z'),
    ('rpc_old', 'assistant', 'hi', '2020-01-01T00:00:01Z'),
    ('rpc_bare', 'user', 'without metadata', '2020-01-02T00:00:00Z'),
    ('telegram_1', 'user', 'ancient words elsewhere', '2020-01-03T00:00:00Z');
"""
"""What an early release left: no version, few columns, an index of its own with a trigger, a session without metadata."""

NAMES = ("old", "bare", "s", "gone")
WORDS = ("ancient", "first", "answer", "second", "lost", "look")


def chat_store_at(root: Path, *, busy_seconds: float = 60, steps: StoreSteps | None = None) -> ChatStore:
    """A store as a daemon opens it."""
    path = root / "sessions" / "sessions.db"
    return ChatStore(path, busy_seconds=busy_seconds, steps=steps, now=Ticking())


def make_legacy(root: Path) -> Path:
    """The database of an early release, below the root."""
    path = root / "sessions" / "sessions.db"
    path.parent.mkdir(parents=True, mode=0o700)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(LEGACY)
    return path


def seen_of(store: ChatStore) -> dict[str, Any]:
    """Everything that a store shows; nothing is recovered."""
    found: dict[str, Any] = {}
    for name in NAMES:
        session = store.find(name)
        if session is not None:
            entries = [entry_tuple(entry) for entry in store.entries(name)]
            assert session.message_count == len(entries)
            found[name] = (
                session.agent_alias,
                session.owner,
                session.trimmed,
                session.turn_id,
                entries,
                session.plan,
            )
    found["words"] = {word: sorted(each.id for each in store.listed(query=word)) for word in WORDS}
    return found


def context_of(store: ChatStore, name: str) -> tuple[Message, ...]:
    """What the model is given of a session that is taken up again."""
    return store.resume(name).context


EVENTS = [
    (MessageChunk("let me "), BEGAN),
    (MessageChunk("look"), BEGAN),
    (ToolCalled("c", "bash", {"command": "ls", "in": None}), BEGAN),
    (ToolReturned("c", "bash", "two files", True), BEGAN),
    (MessageChunk("the answer"), BEGAN),
]
CONTEXT = [UserMessage("first"), AssistantMessage("the answer")]

STORY: Story = (
    (WritePoint.MIGRATED, lambda it: it.find("old")),
    (WritePoint.SESSION_CREATED, lambda it: it.create(NewSession("s", "agent", "/work", None, "u"))),
    (WritePoint.SESSION_CREATED, lambda it: it.create(NewSession("gone", "agent", "/work"))),
    (WritePoint.SESSION_RESUMED, lambda it: it.resume("old", agent_alias="agent")),
    (WritePoint.TURN_BEGUN, lambda it: it.begin("gone", "g", "lost?", BEGAN)),
    (WritePoint.SESSION_RECOVERED, lambda it: it.recover("gone")),
    (WritePoint.SESSION_DELETED, lambda it: it.delete("gone")),
    (WritePoint.TURN_BEGUN, lambda it: it.begin("s", "t1", "first", BEGAN)),
    (WritePoint.PLAN_SAVED, lambda it: it.save_plan("s", [{"content": "on", "status": "pending"}])),
    (WritePoint.TURN_FINISHED, lambda it: it.finish("s", "t1", EVENTS, CONTEXT)),
    (WritePoint.TURN_BEGUN, lambda it: it.begin("s", "t2", "second", BEGAN)),
    (WritePoint.TURN_FAILED, lambda it: it.fail("s", "t2")),
    (WritePoint.SESSION_RESUMED, lambda it: it.resume("s")),
    (WritePoint.TURN_BEGUN, lambda it: it.begin("s", "t3", "second again", BEGAN)),
    (
        WritePoint.TURN_FINISHED,
        lambda it: it.finish("s", "t3", EVENTS[:1], CONTEXT[1:], cancelled=True, trimmed=True),
    ),
)
"""Every write, and what it is announced as."""


def tell(root: Path, steps: StoreSteps | None = None, *, operations: int = len(STORY)) -> ChatStore:
    """Tell so much of the story to a store that begins with what an early release left."""
    make_legacy(root)
    store = chat_store_at(root, steps=steps)
    for _, operation in STORY[:operations]:
        operation(store)
    return store


if __name__ == "__main__":
    kill_everywhere(Path(sys.argv[1]), STORY, tell)
