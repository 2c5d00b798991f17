"""The rows of plugin instances in the file: seeding them at install, reading them at a call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, cast

import tomlkit
from tomlkit import TOMLDocument

from zeroclaw_daemon.config.file import Snapshot, edit, load, read_bytes, restore
from zeroclaw_daemon.config.problems import ConfigFileInvalid
from zeroclaw_host.installation.rows import RowSeed
from zeroclaw_host.instance import InstanceScope
from zeroclaw_host.package.config_schema import ConfigSchema
from zeroclaw_host.services.config import ResolvedConfig, resolve_config

Table = MutableMapping[str, Any]


class ConfigRowStore:
    """Seeds ``[[plugins.entries]]`` rows in the configuration file (PLG-132). An existing row is never touched."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def prepare(self, seed: RowSeed) -> FileRow:
        """What is to be written.

        :raises ConfigFileInvalid: the file, or its ``[plugins]`` section, cannot be read; nothing is installed then.
        """
        snapshot = load(self._path)
        if snapshot.problems:
            raise ConfigFileInvalid(snapshot.problems)
        return FileRow(self._path, seed, creates=snapshot.config.plugins.entry(seed.key) is None)


class FileRow:
    """One row, prepared."""

    def __init__(self, path: Path, seed: RowSeed, *, creates: bool) -> None:
        self._path = path
        self._seed = seed
        self._creates = creates
        self._before: bytes | None = None
        self._after: bytes | None = None

    @property
    def creates(self) -> bool:
        """Whether the row is missing."""
        return self._creates

    def commit(self) -> None:
        """Write the row, if it is still missing."""
        if not self._creates:
            return
        before = read_bytes(self._path)
        edit(self._path, self._add)
        self._before, self._after = before, read_bytes(self._path)

    def undo(self) -> None:
        """The file as it was before; where somebody else changed it since, only the row goes."""
        if self._after is None:
            return
        if not restore(self._path, expected=self._after, previous=self._before):
            edit(self._path, self._drop)
        self._after = None

    def _add(self, document: TOMLDocument) -> None:
        plugins = cast("Table", document.setdefault("plugins", tomlkit.table(is_super_table=True)))
        if "entries" not in plugins:
            plugins["entries"] = tomlkit.aot()
        rows = cast("list[Table]", plugins["entries"])
        if all(row.get("name") != self._seed.key for row in rows):
            row = tomlkit.table()
            row["name"] = self._seed.key
            row["egress_hosts"] = list(self._seed.egress_hosts)
            rows.append(cast("Table", row))

    def _drop(self, document: TOMLDocument) -> None:
        plugins = cast("Table", document["plugins"])
        rows = cast("list[Table]", plugins["entries"])
        for index, row in enumerate(rows):
            if row.get("name") == self._seed.key:
                del rows[index]
                return


class EntryResolver:
    """Resolves an instance's configuration from its row, as the file is at that moment (PLG-135, PLG-169).

    Only the row under the instance's own key counts (PLG-171).

    :param current: the configuration in force.
    """

    def __init__(self, current: Callable[[], Snapshot]) -> None:
        self._current = current
        self._schemas: dict[str, ConfigSchema] = {}

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        """The typed, validated configuration of this instance; nothing is read for one that may not read it (PLG-151).

        :raises ConfigInvalid: the row's values do not satisfy the package's schema.
        """
        raw = scope.manifest.config_schema
        schema = self._schema(raw) if raw is not None else None
        return resolve_config(scope, schema, lambda: self._values(scope.identity.key))

    def _values(self, key: str) -> dict[str, str]:
        entry = self._current().config.plugins.entry(key)
        return (
            {name: text.get_secret_value() for name, text in entry.config.items()}
            if entry is not None
            else {}
        )

    def _schema(self, raw: Mapping[str, object]) -> ConfigSchema:
        """The compiled schema; compiled once for each text of it."""
        key = json.dumps(raw, sort_keys=True)
        found = self._schemas.get(key)
        if found is None:
            found = self._schemas[key] = ConfigSchema.compile(raw)
        return found
