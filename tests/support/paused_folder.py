"""Storing a file with a stop between the check and the write."""

from __future__ import annotations

import threading
from collections.abc import Callable

from zeroclaw_daemon.attachments.folder import FolderSteps

PATIENCE = 60


class PausedFolder(FolderSteps):
    """Stops before the first file is made: ``reached`` is set there, and it goes on once ``go`` is.

    :param meanwhile: called there, in the storing thread, in place of waiting.
    """

    def __init__(self, meanwhile: Callable[[], None] | None = None) -> None:
        self.reached = threading.Event()
        self.go = threading.Event()
        self.threads: set[int] = set()
        self._meanwhile = meanwhile

    def create(self, name: str, folder: int) -> int:
        if not self.reached.is_set():
            self.reached.set()
            if self._meanwhile is not None:
                self._meanwhile()
            else:
                assert self.go.wait(PATIENCE)
        return super().create(name, folder)

    def sync(self, descriptor: int) -> None:
        self.threads.add(threading.get_ident())
        super().sync(descriptor)
