"""Stores over real files for tests, and ways to break a save."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.saving import Steps
from zeroclaw_daemon.config.source import ConfigSource, FileSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_host.services.sealing import KeyFile

STEPS = ("create", "write", "sync", "rename", "sync directory")
"""The steps of a save, in order."""

PATIENCE = 120.0
"""Seconds for another writer: only one that hangs takes so long."""

COMMENTED = """\
schema_version = 1
# kept for the auditors
[gateway]
port = 1 # the old one

[rpc]
max_local_connections = 1
"""


def key_of(file: Path) -> KeyFile:
    return KeyFile(file.with_name(".secret_key"))


def command(file: Path, env: Mapping[str, str] | None = None, steps: Steps | None = None) -> ConfigStore:
    """A store as a command has it."""
    return ConfigStore(FileSource(file, env or {}), key_of(file), steps=steps, lock_wait=PATIENCE)


def live(file: Path, env: Mapping[str, str] | None = None, steps: Steps | None = None) -> ConfigStore:
    """A store as the daemon has it."""
    return ConfigStore(ConfigSource(file, env or {}), key_of(file), steps=steps, lock_wait=PATIENCE)


def set_properties(
    file: Path, values: Sequence[tuple[str, object]], *, steps: Steps | None = None
) -> Snapshot:
    """Set properties as one command does."""
    return command(file, steps=steps).commit(lambda draft: [draft.set(path, value) for path, value in values])


def append_property(file: Path, path: str, value: str) -> Snapshot:
    """Add to a list as one command does."""
    return command(file).commit(lambda draft: draft.append(path, value))


def left_behind(file: Path) -> list[str]:
    """What lies beside the file that belongs to no finished save."""
    kept = {file.name, f"{file.name}.lock", ".secret_key"}
    return sorted(path.name for path in file.parent.iterdir() if path.name not in kept)


class Broken(Steps):
    """Does a step by half and then stops; afterwards every step works again, or none of its kind."""

    def __init__(self, step: str, number: int = errno.EIO) -> None:
        self.step = step
        self.number = number
        self.done: list[str] = []

    def fail(self) -> None:
        """What happens at the step: an error."""
        raise OSError(self.number, os.strerror(self.number))

    def _at(self, step: str) -> None:
        self.done.append(step)
        if step == self.step:
            self.fail()

    def create(self, path: Path) -> int:
        self._at("create")
        return super().create(path)

    def write(self, descriptor: int, data: bytes) -> None:
        if self.step == "write":
            super().write(descriptor, data[: len(data) // 2])
        self._at("write")
        super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self._at("sync directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync")
        super().sync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        self._at("rename")
        super().rename(source, target)


class Killed(Broken):
    """Ends the process at the step, as a machine does that loses its power."""

    def fail(self) -> None:
        os._exit(9)
