"""One story of sessions, told to a store or to a model; as a process, the story killed at every write:
``session_store_child.py DIRECTORY`` leaves a directory ``NUMBER-PHASE`` for each.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from killed_stories import Story, kill_everywhere
from session_model import BEGAN, Kept, Model, store_at

from zeroclaw_daemon.agent.events import MessageChunk, ToolCalled, ToolReturned
from zeroclaw_daemon.agent.messages import AssistantMessage, UserMessage
from zeroclaw_daemon.sessions.store.acp import AcpStore
from zeroclaw_daemon.sessions.store.points import StoreSteps, WritePoint
from zeroclaw_daemon.sessions.store.records import Approval, CallOutcome, NewSession, Settled

LEGACY = """
PRAGMA journal_mode = WAL;
CREATE TABLE acp_sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_uuid TEXT NOT NULL UNIQUE, agent_alias TEXT NOT NULL,
    workspace_dir TEXT NOT NULL, created_at TEXT NOT NULL, last_activity TEXT NOT NULL
);
CREATE TABLE acp_messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id INTEGER NOT NULL REFERENCES acp_sessions (id) ON DELETE CASCADE,
    role TEXT NOT NULL, content TEXT NOT NULL, created_at TEXT NOT NULL
);
INSERT INTO acp_sessions (session_uuid, agent_alias, workspace_dir, created_at, last_activity)
    VALUES ('old', 'agent', '/work', '2020-01-01T00:00:00Z', '2020-01-01T00:00:00Z');
INSERT INTO acp_messages (session_id, role, content, created_at) VALUES
    (1, 'system', 'be brief', '2020-01-01T00:00:00Z'),
    (1, 'user', 'hello', '2020-01-01T00:00:00Z'), (1, 'assistant', 'hi', '2020-01-01T00:00:01Z');
"""
"""What an early release left: no version, few columns, a session without a snapshot."""

NAMES = ("old", "s", "gone")


def make_legacy(root: Path) -> Path:
    """The database of an early release, below the root."""
    path = root / "sessions" / "acp-sessions.db"
    path.parent.mkdir(parents=True, mode=0o700)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(LEGACY)
    return path


def legacy_model() -> Model:
    """The model of it."""
    model = Model()
    entries = [
        (role, text, "message", None, None, None, None)
        for role, text in (("system", "be brief"), ("user", "hello"), ("assistant", "hi"))
    ]
    model.sessions["old"] = Kept("agent", None, None, entries, ["hello", MessageChunk("hi")])
    return model


class Numbering:
    """A store that is asked like a model: what a context covers is a number of events."""

    def __init__(self, store: AcpStore) -> None:
        self._store = store
        self._numbers: list[int] = []

    def begin(self, *values: Any) -> None:
        self._numbers = [self._store.begin(*values)]

    def append(self, *values: Any) -> None:
        self._numbers.append(self._store.append(*values))

    def reduce(self, session_id: str, turn_id: str, context: Any, covered: int) -> None:
        self._store.reduce(session_id, turn_id, context, self._numbers[covered - 1])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def _touched(told: Any) -> None:
    """The first use of the file, which brings it up to date."""
    if isinstance(told, Numbering):
        told.find("old")


def _call(call_id: str) -> ToolCalled:
    return ToolCalled(call_id, "bash", {"command": "ls"})


def _result(call_id: str) -> ToolReturned:
    return ToolReturned(call_id, "bash", f"output of {call_id}", True)


RAN = Settled(CallOutcome.SUCCEEDED, Approval.ALLOWED, 7)

STORY: Story = (
    (WritePoint.MIGRATED, _touched),
    (WritePoint.SESSION_CREATED, lambda it: it.create(NewSession("s", "agent", "/work", None, "u"))),
    (WritePoint.SESSION_CREATED, lambda it: it.create(NewSession("gone", "agent", "/work"))),
    (WritePoint.SESSION_RESUMED, lambda it: it.resume("old", surface="zerocode_code")),
    (WritePoint.TURN_BEGUN, lambda it: it.begin("gone", "g1", "lost?", BEGAN)),
    (WritePoint.EVENT_APPENDED, lambda it: it.append("gone", "g1", MessageChunk("no"))),
    (WritePoint.SESSION_RECOVERED, lambda it: it.recover("gone")),
    (WritePoint.TURN_BEGUN, lambda it: it.begin("gone", "g2", "again", BEGAN)),
    (WritePoint.SESSION_DELETED, lambda it: it.delete("gone")),
    (WritePoint.TURN_BEGUN, lambda it: it.begin("s", "t1", "first", BEGAN)),
    (WritePoint.EVENT_APPENDED, lambda it: it.append("s", "t1", MessageChunk("an"))),
    (WritePoint.EVENT_APPENDED, lambda it: it.append("s", "t1", MessageChunk("swer"))),
    (WritePoint.TOKENS_COUNTED, lambda it: it.count_tokens("s", 12)),
    (
        WritePoint.TURN_FINISHED,
        lambda it: it.finish("s", "t1", [UserMessage("first"), AssistantMessage("answer")]),
    ),
    (WritePoint.TURN_BEGUN, lambda it: it.begin("s", "t2", "second", BEGAN)),
    (WritePoint.EVENT_APPENDED, lambda it: it.append("s", "t2", MessageChunk("look"))),
    (WritePoint.EVENT_APPENDED, lambda it: it.append("s", "t2", _call("a"))),
    (WritePoint.EVENT_APPENDED, lambda it: it.append("s", "t2", _result("a"), RAN)),
    (WritePoint.CONTEXT_REDUCED, lambda it: it.reduce("s", "t2", [UserMessage("second, in short")], 4)),
    (WritePoint.PLAN_SAVED, lambda it: it.save_plan("s", [{"content": "on", "status": "pending"}])),
    (WritePoint.EVENT_APPENDED, lambda it: it.append("s", "t2", _call("b"))),
    (WritePoint.EVENT_APPENDED, lambda it: it.append("s", "t2", _result("b"), RAN)),
    (WritePoint.EVENT_APPENDED, lambda it: it.append("s", "t2", _call("c"))),
    (WritePoint.TURN_FAILED, lambda it: it.fail("s", "t2")),
    (WritePoint.SESSION_RESUMED, lambda it: it.resume("s")),
    (WritePoint.TURN_BEGUN, lambda it: it.begin("s", "t3", "third", BEGAN)),
    (WritePoint.EVENT_APPENDED, lambda it: it.append("s", "t3", MessageChunk("part"))),
    (WritePoint.TURN_FINISHED, lambda it: it.finish("s", "t3", [], cancelled=True)),
    (WritePoint.TURN_BEGUN, lambda it: it.begin("s", "t4", "fourth", BEGAN)),
    (WritePoint.SESSION_KILLED, lambda it: it.kill("s")),
)
"""Every write, and what it is announced as."""


def tell(root: Path, steps: StoreSteps) -> None:
    """Tell the whole story to a store that begins with what an early release left."""
    make_legacy(root)
    numbering = Numbering(store_at(root, steps=steps))
    for _, operation in STORY:
        operation(numbering)


if __name__ == "__main__":
    kill_everywhere(Path(sys.argv[1]), STORY, tell)
