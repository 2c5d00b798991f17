"""How the database of ``acp`` sessions is laid out."""

from __future__ import annotations

import sqlite3
from typing import Final

from zeroclaw_daemon.sessions.store.layout import Layout, add_missing, run

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
    run(raw, _FIRST)
    add_missing(raw, _LATER_COLUMNS)
    run(raw, _INDEXES)


ACP: Final = Layout("acp_schema", "acp_sessions", _FIRST + _INDEXES, (_one,))
"""The layout."""
