"""The configuration as a running program sees it: the newest good snapshot of a file that may change at any moment."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from zeroclaw_daemon.config.file import Snapshot, load
from zeroclaw_host.errors import StorageError, ZeroclawError

Stamp = tuple[int, int, int, int] | None
"""Device, inode, size and time of last change of a file; None while there is none."""


def _ignore_error(error: ZeroclawError) -> None:
    del error


def _ignore_snapshot(snapshot: Snapshot) -> None:
    del snapshot


class ConfigSource:
    """Reads the file again when it is another file than before (D-17). Safe to use from several threads.

    A file that cannot be read, or breaks a rule outside ``[plugins]``, leaves the last good snapshot in force;
    :attr:`error` says so until the file is good again. One that could not be read is tried again at every use, since the
    reason need not lie in the file: a process that has no descriptor left now may have one in a moment.

    :param on_error: told once of each change of the file that is not usable.
    :param on_change: told of each new snapshot.
    :raises ZeroclawError: at construction, what :func:`~zeroclaw_daemon.config.file.load` raises: there is no good
        snapshot yet to keep.
    """

    def __init__(
        self,
        path: Path,
        env: Mapping[str, str],
        *,
        on_error: Callable[[ZeroclawError], None] = _ignore_error,
        on_change: Callable[[Snapshot], None] = _ignore_snapshot,
    ) -> None:
        self._path: Final = path
        self._env: Final = dict(env)
        self._on_error = on_error
        self._on_change = on_change
        self._lock = threading.Lock()
        self._stamp = _stamp(path)
        self._snapshot = load(path, self._env)
        self._error: ZeroclawError | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def error(self) -> ZeroclawError | None:
        """What is wrong with the file as it is now, while an older snapshot is in force."""
        return self._error

    def current(self) -> Snapshot:
        """The snapshot in force, after a look at the file."""
        with self._lock:
            stamp = _stamp(self._path)
            if stamp != self._stamp or isinstance(self._error, StorageError):
                self._reload(changed=stamp != self._stamp)
                self._stamp = stamp
            return self._snapshot

    def _reload(self, *, changed: bool) -> None:
        try:
            snapshot = load(self._path, self._env)
        except ZeroclawError as error:
            known = not changed and self._error is not None and error.message == self._error.message
            self._error = error
            if not known:
                self._on_error(error)
            return
        self._error = None
        if snapshot.revision != self._snapshot.revision:
            self._snapshot = snapshot
            self._on_change(snapshot)


def _stamp(path: Path) -> Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116 — one call, no wrapper, on a path used for every request
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
