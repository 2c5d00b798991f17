"""A file system that can be watched, failed or killed at every single operation.

For tests of what is left on the disk when a transaction stops anywhere, in this project and in programs that embed it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zeroclaw_host.installation.filesystem import FileSystem, Operation


@dataclass(frozen=True, slots=True)
class Event:
    """One operation: the ``number``-th, counted from 0 over the life of the file system object."""

    number: int
    operation: Operation
    path: str
    target: str | None = None


def _ignore(event: Event) -> None:
    del event


class WatchedFileSystem:
    """Passes every operation on to ``inner`` and tells of it.

    ``before`` runs ahead of each operation: what it raises (an :class:`OSError`, say) is raised in place of the
    operation. A failed write leaves half of the bytes behind, as a full disk does. ``after`` runs behind each operation
    that succeeded. ``events`` lists everything attempted.
    """

    def __init__(
        self,
        inner: FileSystem,
        *,
        before: Callable[[Event], None] = _ignore,
        after: Callable[[Event], None] = _ignore,
    ) -> None:
        self.events: list[Event] = []
        self._inner = inner
        self._before = before
        self._after = after

    def make(self, root: int, path: str, mode: int) -> None:
        """See :class:`~zeroclaw_host.installation.filesystem.FileSystem`."""
        event = self._announce(Operation.MAKE, path)
        self._inner.make(root, path, mode)
        self._after(event)

    def write(self, root: int, path: str, data: bytes) -> None:
        """See :class:`~zeroclaw_host.installation.filesystem.FileSystem`."""
        try:
            event = self._announce(Operation.WRITE, path)
        except OSError:
            self._inner.write(root, path, data[: len(data) // 2])
            raise
        self._inner.write(root, path, data)
        self._after(event)

    def sync(self, root: int, path: str) -> None:
        """See :class:`~zeroclaw_host.installation.filesystem.FileSystem`."""
        event = self._announce(Operation.SYNC, path)
        self._inner.sync(root, path)
        self._after(event)

    def rename_no_replace(self, root: int, source: str, target: str) -> None:
        """See :class:`~zeroclaw_host.installation.filesystem.FileSystem`."""
        event = self._announce(Operation.RENAME, source, target)
        self._inner.rename_no_replace(root, source, target)
        self._after(event)

    def mark(self, root: int, path: str) -> None:
        """See :class:`~zeroclaw_host.installation.filesystem.FileSystem`."""
        event = self._announce(Operation.MARK, path)
        self._inner.mark(root, path)
        self._after(event)

    def drop(self, root: int, path: str) -> None:
        """See :class:`~zeroclaw_host.installation.filesystem.FileSystem`."""
        event = self._announce(Operation.DROP, path)
        self._inner.drop(root, path)
        self._after(event)

    def _announce(self, operation: Operation, path: str, target: str | None = None) -> Event:
        event = Event(len(self.events), operation, path, target)
        self.events.append(event)
        self._before(event)
        return event
