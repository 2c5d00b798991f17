"""Storing a file, step by step; as a process, killed at every step: ``folder_child.py DIRECTORY`` leaves a directory
``CASE-NUMBER-PHASE`` for each.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zeroclaw_daemon.attachments.folder import FolderSteps, UploadsFolder

NAME = "name.txt"
OLD, NEW = b"old" * 1000, b"new" * 1000
CASES = ("empty", "edited")


def prepared(workspace: Path, case: str) -> Path:
    """A workspace as it is before the file is stored: without ``uploads``, or with other bytes under the name."""
    workspace.mkdir()
    if case == "edited":
        (workspace / "uploads").mkdir()
        (workspace / "uploads" / NAME).write_bytes(OLD)
    return workspace


class Watched(FolderSteps):
    """Calls back before and after every step."""

    def __init__(self, watch: Callable[[str, str], None]) -> None:
        self._watch = watch

    def _step(self, name: str, *arguments: Any) -> Any:
        self._watch(name, "before")
        done = getattr(super(), name)(*arguments)
        self._watch(name, "after")
        return done

    def make_directory(self, name: str, folder: int) -> None:
        self._step("make_directory", name, folder)

    def create(self, name: str, folder: int) -> int:
        return self._step("create", name, folder)

    def lock(self, descriptor: int) -> bool:
        return self._step("lock", descriptor)

    def write(self, descriptor: int, content: bytes | bytearray) -> None:
        self._watch("write", "before")
        os.write(descriptor, content[: len(content) // 2])
        self._watch("write", "half")
        super().write(descriptor, content[len(content) // 2 :])
        self._watch("write", "after")

    def sync(self, descriptor: int) -> None:
        self._step("sync", descriptor)

    def rename(self, name: str, target: str, folder: int) -> None:
        self._step("rename", name, target, folder)

    def remove(self, name: str, folder: int) -> None:
        self._step("remove", name, folder)


def steps_of(workspace: Path) -> list[tuple[str, str]]:
    """The steps of storing the new bytes here, in their order."""
    seen: list[tuple[str, str]] = []
    UploadsFolder(str(workspace), Watched(lambda name, phase: seen.append((name, phase)))).store(NAME, NEW)
    return seen


def killed_at(workspace: Path, number: int) -> None:
    """Store, and end without warning at this moment."""
    left = number

    def watch(name: str, phase: str) -> None:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    UploadsFolder(str(workspace), Watched(watch)).store(NAME, NEW)


def main(root: Path) -> None:
    for case in CASES:
        steps = steps_of(prepared(root / f"{case}-whole", case))
        for number, (name, phase) in enumerate(steps):
            workspace = prepared(root / f"{case}-{number:02}-{name}-{phase}", case)
            child = os.fork()
            if child == 0:
                killed_at(workspace, number)
                os._exit(1)
            _, status = os.waitpid(child, 0)
            assert os.WTERMSIG(status) == signal.SIGKILL, (case, number)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
