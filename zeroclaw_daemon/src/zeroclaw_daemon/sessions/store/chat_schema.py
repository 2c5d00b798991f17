"""How the database of ``chat`` sessions is laid out.

``sessions`` holds the messages, one a row, ``session_metadata`` what there is once for a session, ``sessions_fts`` what can be
found by its words. The index is made of the messages and is made anew where another release left one of its own.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from zeroclaw_daemon.sessions.store.layout import Layout, add_missing, run
from zeroclaw_daemon.sessions.store.rows import number, text
from zeroclaw_daemon.sessions.store.searching import searchable

SEARCHED_ROLES: Final = ("user", "assistant")
"""Whose words can be found: not those of tools."""

_FIRST: Final = """
CREATE TABLE IF NOT EXISTS sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_key TEXT NOT NULL,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    created_at TEXT NOT NULL,
    payload TEXT,
    entries INTEGER NOT NULL DEFAULT 1
);
CREATE TABLE IF NOT EXISTS session_metadata (
    session_key TEXT PRIMARY KEY,
    created_at TEXT NOT NULL,
    last_activity TEXT NOT NULL,
    message_count INTEGER NOT NULL DEFAULT 0,
    name TEXT,
    state TEXT NOT NULL DEFAULT 'idle',
    turn_id TEXT,
    turn_started_at TEXT,
    agent_alias TEXT,
    channel_id TEXT,
    principal_id TEXT,
    workspace_dir TEXT,
    retained_context_json TEXT,
    trim_breadcrumb INTEGER,
    plan_json TEXT
);
"""

_LATER_COLUMNS: Final = (
    ("sessions", "payload", "TEXT"),
    ("sessions", "entries", "INTEGER NOT NULL DEFAULT 1"),
    ("session_metadata", "name", "TEXT"),
    ("session_metadata", "state", "TEXT NOT NULL DEFAULT 'idle'"),
    ("session_metadata", "turn_id", "TEXT"),
    ("session_metadata", "turn_started_at", "TEXT"),
    ("session_metadata", "agent_alias", "TEXT"),
    ("session_metadata", "channel_id", "TEXT"),
    ("session_metadata", "principal_id", "TEXT"),
    ("session_metadata", "workspace_dir", "TEXT"),
    ("session_metadata", "retained_context_json", "TEXT"),
    ("session_metadata", "trim_breadcrumb", "INTEGER"),
    ("session_metadata", "plan_json", "TEXT"),
)
"""What databases of other releases may lack."""

_INDEXES: Final = """
CREATE INDEX IF NOT EXISTS sessions_key ON sessions (session_key, id);
CREATE INDEX IF NOT EXISTS session_metadata_activity ON session_metadata (last_activity);
CREATE INDEX IF NOT EXISTS session_metadata_principal ON session_metadata (principal_id);
CREATE VIRTUAL TABLE sessions_fts USING fts5(content, tokenize = 'unicode61 remove_diacritics 2');
"""


def _one(raw: sqlite3.Connection) -> None:
    """A database that has no version yet: one of another program of this family, whose rows are kept."""
    run(raw, _FIRST)
    add_missing(raw, _LATER_COLUMNS)
    raw.execute(
        "INSERT OR IGNORE INTO session_metadata (session_key, created_at, last_activity, message_count)"
        " SELECT session_key, min(created_at), max(created_at), count(*) FROM sessions GROUP BY session_key"
    )
    # Its triggers would write into the index that is gone.
    for (name,) in raw.execute(
        "SELECT name FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%sessions_fts%'"
    ).fetchall():
        raw.execute(f"DROP TRIGGER {_quoted(name)}")
    raw.execute("DROP TABLE IF EXISTS sessions_fts")
    run(raw, _INDEXES)
    for row, role, content in raw.execute("SELECT id, role, content FROM sessions ORDER BY id"):
        index(raw, number(row), text(role), text(content))


def _two(raw: sqlite3.Connection) -> None:
    """The first version kept no plans."""
    add_missing(raw, _LATER_COLUMNS)


CHAT: Final = Layout("chat_schema", "session_metadata", _FIRST + _INDEXES, (_one, _two))
"""The layout."""


def index(raw: sqlite3.Connection, row: int, role: str, content: str) -> None:
    """Let a row of messages be found by its words."""
    if role in SEARCHED_ROLES and content:
        raw.execute("INSERT INTO sessions_fts (rowid, content) VALUES (?, ?)", (row, searchable(content)))


def unindex(raw: sqlite3.Connection, session_key: str) -> None:
    """Take the words of a session out of the index, before its rows go. What is left of them in the index file is
    overwritten.
    """
    raw.execute(
        "DELETE FROM sessions_fts WHERE rowid IN (SELECT id FROM sessions WHERE session_key = ?)",
        (session_key,),
    )
    raw.execute("INSERT INTO sessions_fts (sessions_fts) VALUES ('optimize')")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
