"""The steps of a rotation, announced; as a process, a rotation that is killed at one: ``rotation_child.py CONFIG_DIR NUMBER``."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import key_child

from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.saving import Steps
from zeroclaw_daemon.config.source import FileSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_daemon.secrets_rotation import Rotation, rotate
from zeroclaw_host.services.sealing import KeyFile
from zeroclaw_host.services.state_store import DurableState


class Watched(Steps):
    """The steps of a save, announced."""

    def __init__(self, reached: Callable[[str], None]) -> None:
        self.reached = reached

    def create(self, path: Path) -> int:
        self.reached("config create")
        return super().create(path)

    def write(self, descriptor: int, data: bytes) -> None:
        self.reached("config write")
        super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self.reached("config sync")
        super().sync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        self.reached("config rename")
        super().rename(source, target)
        self.reached("config renamed")


def announced(
    work: Callable[[Steps, key_child.KeySteps], Rotation], reached: Callable[[str], None]
) -> Rotation:
    """A rotation that says each of its steps: in key files, in the configuration, and each statement that changes state."""
    connect = sqlite3.connect
    inside: list[str] = []

    def announce(step: str) -> None:
        if not inside:  # what is done at a step is no step
            inside.append(step)
            try:
                reached(step)
            finally:
                inside.clear()

    def watched(*arguments: object, **more: object) -> sqlite3.Connection:
        raw: sqlite3.Connection = connect(*arguments, **more)  # type: ignore[call-overload]
        raw.set_trace_callback(
            lambda statement: (
                announce(f"state {statement.split()[0]}")
                if statement.startswith(("BEGIN", "INSERT", "DELETE", "COMMIT"))
                else None
            )
        )
        return raw

    with mock.patch.object(sqlite3, "connect", watched):
        return work(Watched(announce), key_child.StoppingSteps(announce))


def main() -> None:
    paths, left = Paths.resolve(sys.argv[1], {}), [int(sys.argv[2])]

    def stop(step: str) -> None:
        if left[0] == 0:
            print(step, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    def work(steps: Steps, key_steps: key_child.KeySteps) -> Rotation:
        config = ConfigStore(
            FileSource(Path(paths.config_file), {}),
            KeyFile(Path(paths.key_file), steps=key_steps),
            steps=steps,
        )
        return rotate(config, DurableState(Path(paths.state_file), config.key_file))

    announced(work, stop)


if __name__ == "__main__":
    main()
