"""Single changes of the configuration, for commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.saving import Steps
from zeroclaw_daemon.config.source import FileSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_host.services.sealing import KeyFile


def set_properties(
    path: Path, values: Sequence[tuple[str, object]], *, steps: Steps | None = None
) -> Snapshot:
    """Set properties in the file, all or none, in this order; errors as :meth:`ConfigStore.commit` and :meth:`Draft.set`."""

    def change(draft: Draft) -> None:
        for dotted, value in values:
            draft.set(dotted, value)

    return _store(path, steps).commit(change)


def append_property(path: Path, dotted: str, value: str, *, steps: Steps | None = None) -> Snapshot:
    """Add elements to a list property of the file, leaving out those it has."""
    return _store(path, steps).commit(lambda draft: draft.append(dotted, value))


def unset_property(path: Path, dotted: str, *, steps: Steps | None = None) -> Snapshot:
    """Take a property out of the file, secrets included. One that is not there is left out already."""
    return _store(path, steps).commit(lambda draft: draft.unset(dotted))


def _store(path: Path, steps: Steps | None) -> ConfigStore:
    return ConfigStore(FileSource(path, {}), KeyFile(path.with_name(".secret_key")), steps=steps)
