"""How the database of ``acp`` sessions is laid out, and how an earlier layout becomes this one. Nothing is ever dropped."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from zeroclaw_host.private_database import make_with

_VERSIONS: Final = """
CREATE TABLE IF NOT EXISTS acp_schema (
    version INTEGER PRIMARY KEY,
    applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
"""

_FIRST: Final = """
CREATE TABLE IF NOT EXISTS acp_sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_uuid TEXT NOT NULL UNIQUE,
    agent_alias TEXT NOT NULL,
    workspace_dir TEXT NOT NULL,
    interaction_surface TEXT,
    token_count INTEGER NOT NULL DEFAULT 0,
    killed_at TEXT,
    retained_context_json TEXT,
    retained_context_frontier INTEGER,
    created_at TEXT NOT NULL,
    last_activity TEXT NOT NULL,
    plan_json TEXT,
    projected_message_count INTEGER NOT NULL DEFAULT 0,
    projected_count_through INTEGER,
    trim_breadcrumb INTEGER,
    principal_id TEXT
);
CREATE TABLE IF NOT EXISTS acp_messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id INTEGER NOT NULL REFERENCES acp_sessions (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    reasoning_content TEXT,
    created_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS acp_tool_calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id INTEGER NOT NULL REFERENCES acp_messages (id) ON DELETE CASCADE,
    tool_call_id TEXT NOT NULL,
    tool_name TEXT NOT NULL,
    event_kind TEXT NOT NULL CHECK (event_kind IN ('in', 'out')),
    payload TEXT NOT NULL,
    outcome TEXT,
    created_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS acp_session_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id INTEGER NOT NULL REFERENCES acp_sessions (id) ON DELETE CASCADE,
    action TEXT NOT NULL,
    outcome TEXT NOT NULL,
    payload TEXT,
    created_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS acp_turn_checkpoints (
    session_id INTEGER PRIMARY KEY REFERENCES acp_sessions (id) ON DELETE CASCADE,
    turn_id TEXT NOT NULL,
    started_at TEXT
);
CREATE TABLE IF NOT EXISTS acp_turn_checkpoint_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id INTEGER NOT NULL REFERENCES acp_turn_checkpoints (session_id) ON DELETE CASCADE,
    payload TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS acp_tool_receipts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id INTEGER NOT NULL REFERENCES acp_sessions (id) ON DELETE CASCADE,
    turn_id TEXT NOT NULL,
    tool_call_id TEXT NOT NULL,
    tool_name TEXT NOT NULL,
    arguments_sha256 TEXT NOT NULL,
    approval TEXT,
    outcome TEXT,
    duration_ms INTEGER,
    created_at TEXT NOT NULL
);
"""

_LATER_COLUMNS: Final = (
    ("acp_sessions", "interaction_surface", "TEXT"),
    ("acp_sessions", "token_count", "INTEGER NOT NULL DEFAULT 0"),
    ("acp_sessions", "killed_at", "TEXT"),
    ("acp_sessions", "retained_context_json", "TEXT"),
    ("acp_sessions", "retained_context_frontier", "INTEGER"),
    ("acp_sessions", "plan_json", "TEXT"),
    ("acp_sessions", "projected_message_count", "INTEGER NOT NULL DEFAULT 0"),
    ("acp_sessions", "projected_count_through", "INTEGER"),
    ("acp_sessions", "trim_breadcrumb", "INTEGER"),
    ("acp_sessions", "principal_id", "TEXT"),
    ("acp_messages", "reasoning_content", "TEXT"),
    ("acp_tool_calls", "outcome", "TEXT"),
    ("acp_session_events", "payload", "TEXT"),
    ("acp_turn_checkpoints", "started_at", "TEXT"),
)
"""What databases of other releases may lack."""

_INDEXES: Final = """
CREATE INDEX IF NOT EXISTS acp_sessions_alias ON acp_sessions (agent_alias);
CREATE INDEX IF NOT EXISTS acp_sessions_principal ON acp_sessions (principal_id);
CREATE INDEX IF NOT EXISTS acp_messages_session ON acp_messages (session_id, id);
CREATE INDEX IF NOT EXISTS acp_tool_calls_message ON acp_tool_calls (message_id);
CREATE INDEX IF NOT EXISTS acp_session_events_session ON acp_session_events (session_id);
CREATE INDEX IF NOT EXISTS acp_turn_checkpoint_events_session ON acp_turn_checkpoint_events (session_id, id);
CREATE INDEX IF NOT EXISTS acp_tool_receipts_session ON acp_tool_receipts (session_id, turn_id);
"""


def _one(raw: sqlite3.Connection) -> None:
    """A database that has no version yet: one of another program of this family, whose rows are kept."""
    _run(raw, _FIRST)
    for table, column, declaration in _LATER_COLUMNS:
        if column not in {row[1] for row in raw.execute(f"PRAGMA table_info({table})")}:
            raw.execute(f"ALTER TABLE {table} ADD COLUMN {column} {declaration}")
    _run(raw, _INDEXES)


MIGRATIONS: Final = (_one,)
"""Each makes one version of the one before, in a transaction that is already there. Only ever appended to."""

VERSION: Final = len(MIGRATIONS)


def make_empty(path: Path) -> None:
    """A new database without rows, whole on the disk, that its owner alone can open."""
    stamps = "".join(
        f"INSERT INTO acp_schema (version) VALUES ({version + 1});" for version in range(VERSION)
    )
    make_with(path, f"PRAGMA journal_mode = WAL; BEGIN; {_VERSIONS} {_FIRST} {_INDEXES} {stamps} COMMIT;")


def version_of(raw: sqlite3.Connection) -> int | None:
    """The version of the layout; 0 where it was made without one, None where the database is none of ours."""
    tables = {row[0] for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "acp_schema" in tables:
        (version,) = raw.execute("SELECT max(version) FROM acp_schema").fetchone()
        return version if isinstance(version, int) else 0
    return 0 if "acp_sessions" in tables else None


def migrate(raw: sqlite3.Connection) -> None:
    """Bring the layout to this version, inside a transaction."""
    _run(raw, _VERSIONS)
    for version in range(version_of(raw) or 0, VERSION):
        MIGRATIONS[version](raw)
        raw.execute("INSERT INTO acp_schema (version) VALUES (?)", (version + 1,))


def _run(raw: sqlite3.Connection, statements: str) -> None:
    """Several statements, without the commit that a script would begin with."""
    for statement in statements.split(";"):
        if statement.strip():
            raw.execute(statement)
