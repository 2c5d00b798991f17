"""The rows of plugin instances in the file, seeded at an install."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.map_keys import INSTANCES, MapKeyExists, MapKeyNotFound
from zeroclaw_daemon.config.problems import ConfigFileInvalid
from zeroclaw_daemon.config.store import ConfigStore, Written
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.installation.rows import RowSeed


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
        add_row(draft, self._seed)

    def _drop(self, draft: Draft) -> None:
        drop_row(draft, self._seed)


def add_row(draft: Draft, seed: RowSeed) -> None:
    """Write a row; one that is there already stays as it is."""
    try:
        draft.create_key(INSTANCES, seed.key)
    except MapKeyExists:
        return
    draft.set(f"{INSTANCES}.{seed.key}.egress_hosts", list(seed.egress_hosts))


def drop_row(draft: Draft, seed: RowSeed) -> None:
    """Take the row out, if it is there."""
    with suppress(MapKeyNotFound):
        draft.delete_key(INSTANCES, seed.key)
