"""A process that makes or replaces a key and is killed on the way: ``key_child.py FILE WORK STEP before|after``."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zeroclaw_host.services.sealing import KeyFile, KeySteps

STEPS = {
    "create": ("create", "write", "sync", "publish", "drop", "sync-directory"),
    "begin": ("create", "write", "sync", "publish", "drop", "sync-directory"),
    "finish": ("replace", "sync-directory"),
}
"""The steps each work has, in their order."""


class StoppingSteps(KeySteps):
    """Calls ``stop`` before and after every step, with its name."""

    def __init__(self, stop: Callable[[str], None]) -> None:
        self._stop = stop
        self._synced = 0

    def _do(self, name: str, step: Callable[..., Any], *arguments: Any) -> Any:
        self._stop(f"before {name}")
        result = step(*arguments)
        self._stop(f"after {name}")
        return result

    def create(self, path: Path) -> int:
        return int(self._do("create", super().create, path))

    def write(self, descriptor: int, data: bytes) -> None:
        self._do("write", super().write, descriptor, data)

    def sync(self, descriptor: int) -> None:
        directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        self._do("sync-directory" if directory else "sync", super().sync, descriptor)

    def publish(self, source: Path, target: Path) -> None:
        self._do("publish", super().publish, source, target)

    def drop(self, path: Path) -> None:
        self._do("drop", super().drop, path)

    def replace(self, source: Path, target: Path) -> None:
        self._do("replace", super().replace, source, target)


def work(key_file: KeyFile, name: str) -> None:
    """Do one of the works of :data:`STEPS`."""
    match name:
        case "create":
            key_file.read_or_create()
        case "begin":
            key_file.begin_rotation()
        case _:
            key_file.finish_rotation()


def main() -> None:
    path, name, moment = Path(sys.argv[1]), sys.argv[2], " ".join(sys.argv[3:])

    def stop(reached: str) -> None:
        if reached == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    work(KeyFile(path, steps=StoppingSteps(stop)), name)


if __name__ == "__main__":
    main()
