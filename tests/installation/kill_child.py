"""Runs commands on plugins directories, each in a child that kills itself at one step.

A program of its own, because a process with threads must not fork. One JSON object a line on standard input names the case,
the status of its child comes back on standard output.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from zeroclaw_host.installation.faults import Event, WatchedFileSystem
from zeroclaw_host.installation.filesystem import FileSystem, PosixFileSystem
from zeroclaw_host.installation.install import install
from zeroclaw_host.installation.offers import DirectoryOffer, UpdateSpec
from zeroclaw_host.installation.package_log import Journal, PackageLog
from zeroclaw_host.installation.remove import remove
from zeroclaw_host.installation.rows import MemoryRowStore
from zeroclaw_host.installation.update import Updater
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.worlds.loading import LoadVerdict

OPEN = SignaturePolicy()
NAME = "x"
LOG_STEP = "log: "
"""How the steps of the package log are told from those of the disk. They are announced ahead of the step alone."""


def run(command: str, home: Path, filesystem: FileSystem, journal: Journal) -> object:
    """One command in a home that holds ``plugins/`` and the sources ``1.0.0/`` and ``2.0.0/``."""
    plugins, rows = home / "plugins", MemoryRowStore()
    match command:
        case "install":
            reader = DirectoryReader(home / "1.0.0")
            return install(
                plugins,
                reader,
                policy=OPEN,
                load_check=None,
                rows=rows,
                filesystem=filesystem,
                journal=journal,
            )
        case "remove" | "recover":
            return remove(plugins, NAME, policy=OPEN, filesystem=filesystem, journal=journal)
        case "update":
            updater = Updater(
                plugins, OPEN, lambda _: LoadVerdict(loads=True), rows, filesystem, journal=journal
            )
            result = updater.update(UpdateSpec(NAME), DirectoryOffer(home / "2.0.0"))
            if result.error is not None:
                raise result.error
            return result
        case _:
            raise ValueError(command)


class Steps:
    """Counts the steps of a command, those of the disk and those of the log alike, and acts beside one of them."""

    def __init__(self, act: Callable[[int, str], object]) -> None:
        self.names: list[str] = []
        self._act = act

    def disk(self, event: Event) -> None:
        target = "" if event.target is None else f" to {event.target}"
        self._reach(f"{event.operation} {event.path}{target}")

    def log(self, step: str) -> None:
        self._reach(f"{LOG_STEP}{step}")

    def _reach(self, name: str) -> None:
        self.names.append(name)
        self._act(len(self.names) - 1, name)


def main() -> None:
    for line in sys.stdin:
        case = json.loads(line)
        child = os.fork()
        if child == 0:
            killed_at(case)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def killed_at(case: dict[str, object]) -> None:
    def act(number: int, name: str) -> None:
        del name
        if number == case["step"]:
            os.kill(os.getpid(), signal.SIGKILL)

    steps = Steps(act)
    home = Path(str(case["home"]))
    hook = {str(case["when"]): steps.disk}
    journal = PackageLog(home / "log" / "packages.jsonl", at=steps.log)
    try:
        run(str(case["command"]), home, WatchedFileSystem(PosixFileSystem(), **hook), journal)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
