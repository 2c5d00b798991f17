"""The rows of plugin instances in the file, seeded at an install."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.egress_standing import EgressStanding, deployment_refusal, standing_of
from zeroclaw_daemon.config.map_keys import INSTANCES, MapKeyExists, MapKeyNotFound
from zeroclaw_daemon.config.problems import ConfigFileInvalid
from zeroclaw_daemon.config.store import ConfigStore, Written
from zeroclaw_host.errors import Kind, ZeroclawError
from zeroclaw_host.installation.rows import RowSeed


class LegacyRow(ZeroclawError):
    """A package's row still has the key it had before 1.0, which nothing reads. Whatever it grants is not in force.

    Its remedies are the steps that bring it into force, as listings tell them. ``details`` holds ``path``, ``package`` and
    ``key``.
    """

    code = "legacy_row"
    kind = Kind.CONFLICT

    def __init__(self, path: Path, standing: EgressStanding) -> None:
        identity = standing.identity
        super().__init__(
            "; ".join(standing.verdict),
            remedies=standing.steps,
            details={"path": str(path), "package": identity.package, "key": identity.key},
        )


class ConfigRowStore:
    """Seeds ``[[plugins.entries]]`` rows in the configuration file (PLG-132). An existing row is never touched.

    :param installed: whether the packages that rows are asked for are installed already, as they are for an update.
    """

    def __init__(self, store: ConfigStore, *, installed: bool = False) -> None:
        self._store = store
        self._installed = installed

    def prepare(self, seed: RowSeed) -> FileRow:
        """What is to be written.

        :raises ConfigFileInvalid: the file, or its ``[plugins]`` section, cannot be read; nothing is installed then.
        :raises LegacyRow: the package's row has its key of before 1.0 (PLG-192, PLG-327).
        :raises DeploymentRefused: so it has, and no step about the row would help yet (PLG-193).
        :raises ConfigOutdated: the row is missing, and the file has the layout of an earlier release (PLG-368).
        """
        snapshot = self._store.current()
        if snapshot.problems:
            raise ConfigFileInvalid(snapshot.problems)
        standing = standing_of(
            seed.identity,
            seed.declaration,
            snapshot,
            outdated=self._store.is_outdated(),
            installed=self._installed,
        )
        if standing.legacy:
            raise deployment_refusal(snapshot.config) or LegacyRow(self._store.path, standing)
        creates = standing.row is None
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
