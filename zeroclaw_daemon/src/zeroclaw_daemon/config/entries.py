"""The rows of plugin instances in the file: seeding them at install, reading them at a call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import tomlkit
from tomlkit import TOMLDocument

from zeroclaw_daemon.config.file import Snapshot, edit, load, read_bytes, restore
from zeroclaw_daemon.config.problems import ConfigFileInvalid
from zeroclaw_host.errors import ConfigInvalid, Kind, Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.installation.rows import RowSeed
from zeroclaw_host.instance import IdentityInvalid, InstanceIdentity, InstanceScope
from zeroclaw_host.package.config_schema import ConfigSchema
from zeroclaw_host.package.manifest import Capability, Manifest
from zeroclaw_host.services.config import ResolvedConfig, resolve_config

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

    def __init__(self, path: Path) -> None:
        self._path = path

    def prepare(self, seed: RowSeed) -> FileRow:
        """What is to be written.

        :raises ConfigFileInvalid: the file, or its ``[plugins]`` section, cannot be read; nothing is installed then.
        :raises LegacyRow: the package's row has its key of before 1.0 (PLG-192, PLG-327).
        """
        snapshot = load(self._path)
        if snapshot.problems:
            raise ConfigFileInvalid(snapshot.problems)
        if any(row.name == seed.identity.package for row in snapshot.config.plugins.entries):
            raise LegacyRow(self._path, seed)
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


def unfit_instances(manifest: Manifest, snapshot: Snapshot) -> list[tuple[InstanceIdentity, ConfigInvalid]]:
    """The instances of a package whose configuration does not fit its schema: they do not load until it does (PLG-326)."""
    if manifest.config_schema is None:
        return []
    resolver = EntryResolver(lambda: snapshot)
    found: list[tuple[InstanceIdentity, ConfigInvalid]] = []
    for identity in sorted(_instances(manifest, snapshot)):
        try:
            resolver.resolve(InstanceScope.admit(identity, manifest))
        except ConfigInvalid as error:
            found.append((identity, error))
    return found


def _instances(manifest: Manifest, snapshot: Snapshot) -> Iterator[InstanceIdentity]:
    """The default tool binding, and every instance that has a row of its own."""
    if Capability.TOOL in manifest.capabilities:
        yield InstanceIdentity.default_tool(manifest.name)
    for row in snapshot.config.plugins.entries:
        with suppress(IdentityInvalid):
            identity = InstanceIdentity.parse(row.name)
            wanted = identity.package == manifest.name and identity.capability in manifest.capabilities
            if wanted and identity != InstanceIdentity.default_tool(manifest.name):
                yield identity


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
