"""The rows of plugin instances in the file, seeded at an install."""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, cast

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.container import Container
from tomlkit.items import Array, InlineTable
from tomlkit.items import Table as TomlTable

from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.problems import ConfigFileInvalid
from zeroclaw_daemon.config.store import ConfigStore, Written
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.installation.rows import RowSeed

Table = MutableMapping[str, Any]


class LegacyRow(ZeroclawError):
    """A package's row still has the key it had before 1.0, which nothing reads. Whatever it grants is not in force."""

    code = "legacy_row"
    kind = Kind.CONFLICT

    def __init__(self, path: Path, seed: RowSeed) -> None:
        package = seed.identity.package
        super().__init__(
            f"the row named {package} in plugins.entries has the key it had before 1.0, which nothing reads; rename it to "
            f"{seed.key}, and its configuration and grants are in force again",
            remedy=Remedy(RemedyAction.EDIT_FILE, {"path": str(path)}),
            details={"path": str(path), "package": package, "key": seed.key},
        )


class ConfigRowStore:
    """Seeds ``[[plugins.entries]]`` rows in the configuration file (PLG-132). An existing row is never touched."""

    def __init__(self, store: ConfigStore) -> None:
        self._store = store

    def prepare(self, seed: RowSeed) -> FileRow:
        """What is to be written.

        :raises ConfigFileInvalid: the file, or its ``[plugins]`` section, cannot be read; nothing is installed then.
        :raises LegacyRow: the package's row has its key of before 1.0 (PLG-192, PLG-327).
        :raises ConfigOutdated: the row is missing, and the file has the layout of an earlier release (PLG-368).
        """
        snapshot = self._store.current()
        if snapshot.problems:
            raise ConfigFileInvalid(snapshot.problems)
        if any(row.name == seed.identity.package for row in snapshot.config.plugins.entries):
            raise LegacyRow(self._store.path, seed)
        creates = snapshot.config.plugins.entry(seed.key) is None
        if creates:
            self._store.check_writable()
        return FileRow(self._store, seed, creates=creates)


class FileRow:
    """One row, prepared."""

    def __init__(self, store: ConfigStore, seed: RowSeed, *, creates: bool) -> None:
        self._store = store
        self._seed = seed
        self._creates = creates
        self._written: Written | None = None

    @property
    def creates(self) -> bool:
        """Whether the row is missing."""
        return self._creates

    def commit(self) -> None:
        """Write the row, if it is still missing."""
        if self._creates:
            self._written = self._store.write(self._add)

    def undo(self) -> None:
        """The file as it was before; where somebody else changed it since, only the row goes."""
        written, self._written = self._written, None
        if written is not None and not self._store.take_back(written):
            self._store.commit(self._drop)

    def _add(self, draft: Draft) -> None:
        add_row(draft.document, self._seed)

    def _drop(self, draft: Draft) -> None:
        drop_row(draft.document, self._seed.key)


def add_row(document: TOMLDocument, seed: RowSeed) -> None:
    """Write a row, however the file writes its rows; one that is there already stays as it is."""
    plugins, inline = table_in(document, "plugins")
    if "entries" not in plugins:
        plugins["entries"] = tomlkit.array() if inline else tomlkit.aot()
    inline = isinstance(plugins["entries"], Array)
    rows = cast("list[Table]", plugins["entries"])
    if all(row.get("name") != seed.key for row in rows):
        row = new_table(inline=inline)
        row["name"] = seed.key
        row["egress_hosts"] = list(seed.egress_hosts)
        rows.append(row)


def drop_row(document: TOMLDocument, key: str) -> None:
    """Take the row of this name out, if there is one."""
    plugins = cast("Table", cast("Table", document).get("plugins", {}))
    rows = cast("list[Table]", plugins.get("entries", []))
    for index, row in enumerate(rows):
        if row.get("name") == key:
            del rows[index]
            break
    if not rows:
        plugins.pop("entries", None)
    drop_empty(document, "plugins")


def drop_empty(document: TOMLDocument, *path: str) -> None:
    """Take the table at a path out, and those above it, as long as nothing is in it and no header of its own shows it."""
    for depth in range(len(path), 0, -1):
        above = cast("Table", document)
        for key in path[: depth - 1]:
            above = cast("Table", above.get(key, {}))
        table = above.get(path[depth - 1])
        if not isinstance(table, TomlTable) or len(table) or not table.is_super_table():
            return
        del above[path[depth - 1]]


def table_in(document: TOMLDocument, *path: str) -> tuple[Table, bool]:
    """The table at a path, made where it is missing, and whether what is put into it is to be written on its line."""
    table, inline = cast("Table", document), False
    for key in path:
        if key not in table:
            table[key] = new_table(inline=inline, above=True)
        inline = inline or isinstance(table[key], InlineTable) or _is_dotted(table, key)
        table = cast("Table", table[key])
    return table, inline


def new_table(*, inline: bool, above: bool = False) -> Table:
    """An empty table; ``above`` that holds tables alone, which need no header of its own."""
    return cast("Table", tomlkit.inline_table() if inline else tomlkit.table(is_super_table=above))


def _is_dotted(table: Table, key: str) -> bool:
    """Whether the table of this name is there by dotted keys alone, so that no header may follow."""
    container = table.value if isinstance(table, TomlTable) else table
    body = container.body if isinstance(container, Container) else []
    return any(found is not None and found.key == key and found.is_dotted() for found, _ in body)
