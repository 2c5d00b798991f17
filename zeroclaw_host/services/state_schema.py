"""How the database of durable state is laid out, made and recognised (PLG-157)."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from zeroclaw_host.private_database import make_with

_VERSION: Final = 1

_SCHEMA: Final = f"""
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE plugin_state (
    owner BLOB NOT NULL,
    locator BLOB PRIMARY KEY,
    ciphertext TEXT NOT NULL CHECK (ciphertext LIKE 'enc2:%')
) WITHOUT ROWID;
CREATE INDEX plugin_state_owner ON plugin_state (owner);
CREATE TABLE plugin_state_revisions (
    owner BLOB PRIMARY KEY,
    last_revision INTEGER NOT NULL CHECK (last_revision > 0)
) WITHOUT ROWID;
PRAGMA user_version = {_VERSION};
COMMIT;
"""

_OBJECTS: Final = {
    ("table", "plugin_state"),
    ("table", "plugin_state_revisions"),
    ("index", "plugin_state_owner"),
}
_COLUMNS: Final = {
    "plugin_state": ["owner", "locator", "ciphertext"],
    "plugin_state_revisions": ["owner", "last_revision"],
}

SETTINGS: Final = """
PRAGMA synchronous = FULL;
PRAGMA fullfsync = ON;
PRAGMA secure_delete = ON;
PRAGMA trusted_schema = OFF;
PRAGMA cell_size_check = ON;
"""
"""What every connection is set to: nothing is told as written before it is on the disk, and what is deleted is gone."""


def make_empty(path: Path) -> None:
    """A new database without rows, whole on the disk, that its owner alone can open."""
    make_with(path, SETTINGS + _SCHEMA)


def is_ours(raw: sqlite3.Connection) -> bool:
    """Whether the database has our version, our tables and nothing else that could act in it."""
    (version,) = raw.execute("PRAGMA user_version").fetchone()
    names = raw.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    if version != _VERSION or set(names) != _OBJECTS:
        return False
    return all(
        [row[1] for row in raw.execute(f"PRAGMA table_info({table})")] == columns
        for table, columns in _COLUMNS.items()
    )
