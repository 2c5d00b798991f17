"""How a database is laid out, and how an earlier layout becomes this one. No row is ever dropped."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zeroclaw_host.private_database import make_with


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables of one database, through all versions.

    ``versions`` is the table that holds the version; ``known_by`` one by which a database without a version is known as of
    this family; ``whole`` the statements of an empty database; ``migrations`` each make one version of the one before, in a
    transaction that is already there, and are only ever appended to.
    """

    versions: str
    known_by: str
    whole: str
    migrations: tuple[Callable[[sqlite3.Connection], None], ...]

    @property
    def version(self) -> int:
        """The version of this release."""
        return len(self.migrations)

    def make_empty(self, path: Path) -> None:
        """A new database without rows, whole on the disk, that its owner alone can open."""
        stamps = "".join(
            f"INSERT INTO {self.versions} (version) VALUES ({version + 1});"
            for version in range(self.version)
        )
        make_with(
            path, f"PRAGMA journal_mode = WAL; BEGIN; {self._versions_table} {self.whole} {stamps} COMMIT;"
        )

    def version_of(self, raw: sqlite3.Connection) -> int | None:
        """The version of a database; 0 where it was made without one, None where it is none of ours."""
        tables = {row[0] for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if self.versions in tables:
            (version,) = raw.execute(f"SELECT max(version) FROM {self.versions}").fetchone()
            return version if isinstance(version, int) else 0
        return 0 if self.known_by in tables else None

    def migrate(self, raw: sqlite3.Connection) -> None:
        """Bring a database to this version, inside a transaction."""
        run(raw, self._versions_table)
        for version in range(self.version_of(raw) or 0, self.version):
            self.migrations[version](raw)
            raw.execute(f"INSERT INTO {self.versions} (version) VALUES (?)", (version + 1,))

    @property
    def _versions_table(self) -> str:
        return (
            f"CREATE TABLE IF NOT EXISTS {self.versions} (version INTEGER PRIMARY KEY,"
            " applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')));"
        )


def run(raw: sqlite3.Connection, statements: str) -> None:
    """Several statements, without the commit that a script would begin with."""
    for statement in statements.split(";"):
        if statement.strip():
            raw.execute(statement)


def add_missing(raw: sqlite3.Connection, columns: tuple[tuple[str, str, str], ...]) -> None:
    """Add the columns, of table, name and declaration each, that the database does not have yet."""
    for table, column, declaration in columns:
        if column not in {row[1] for row in raw.execute(f"PRAGMA table_info({table})")}:
            raw.execute(f"ALTER TABLE {table} ADD COLUMN {column} {declaration}")
