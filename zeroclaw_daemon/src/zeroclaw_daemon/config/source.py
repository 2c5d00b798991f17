"""The configuration as a running program sees it: the newest good snapshot of a file that may change at any moment."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final

from zeroclaw_daemon.config.file import Snapshot, load, parse, read_bytes, revision_of
from zeroclaw_daemon.config.saving import LOCK_WAIT_SECONDS, ConfigBusy, Stamp, stamp_of
from zeroclaw_host.errors import StorageError, ZeroclawError


def _ignore_error(error: ZeroclawError) -> None:
    del error


def _ignore_snapshot(snapshot: Snapshot) -> None:
    del snapshot


_SETTLED_NS: Final = 2_000_000_000
"""The coarsest clock of a file system in use counts two seconds."""


class ConfigSource:
    """Reads the file again when it is another file than before (D-17). Safe to use from several threads.

    A file that cannot be read, or breaks a rule outside ``[plugins]``, leaves the last good snapshot in force;
    :attr:`error` says so until the file is good again. One that could not be read is tried again at every use, since the
    reason need not lie in the file: a process that has no descriptor left now may have one in a moment.

    A file's stamp does not tell two writings within one tick of the file system's clock apart. So the bytes of a file that
    was young when it was read are compared at the next use as well: a right that was withdrawn must not live on by that.

    :meth:`held` keeps the snapshot in force for a while, whatever happens to the file (RPC-211).

    :param on_error: told once of each change of the file that is not usable.
    :param on_change: told of each new snapshot, before anybody else has it.
    :param now: the clock that files are stamped with, in nanoseconds since 1970.
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
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._path: Final = path
        self._env: Final = dict(env)
        self._on_error = on_error
        self._on_change = on_change
        self._now = now
        self._lock = threading.RLock()
        self._turn = threading.Condition(self._lock)
        self._holds = 0
        self._replacing = 0
        self._error: ZeroclawError | None = None
        began, self._stamp = now(), _stamp(path)
        self._settled = _is_settled(self._stamp, began)
        self._snapshot = load(path, self._env)
        self._seen = self._snapshot.revision

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def env(self) -> Mapping[str, str]:
        """The environment whose variables override the file (D-38)."""
        return self._env

    @property
    def error(self) -> ZeroclawError | None:
        """What is wrong with the file as it is now, while an older snapshot is in force."""
        return self._error

    def current(self) -> Snapshot:
        """The snapshot in force, after a look at the file, unless it is held."""
        with self._lock:
            if self._holds:
                return self._snapshot
            began, stamp = self._now(), _stamp(self._path)
            if stamp != self._stamp or not self._settled or isinstance(self._error, StorageError):
                self._look()
                self._stamp, self._settled = stamp, _is_settled(stamp, began)
            return self._snapshot

    def newest(self, wait: float = LOCK_WAIT_SECONDS) -> Snapshot:
        """The snapshot in force after a look at the file, once nobody holds another: what was edited just before counts. Blocks.

        :raises ConfigBusy: somebody holds one for longer than ``wait`` seconds.
        """
        with self.between_holds(wait):
            return self.current()

    def adopt(self, snapshot: Snapshot, stamp: Stamp) -> None:
        """Put a snapshot in force that was just saved, without reading the file again.

        :param stamp: of the file that was saved. Where the file has another by now, it is read again at the next use.
        """
        with self._lock:
            self._stamp, self._settled = stamp, False
            self._seen, self._error = snapshot.revision, None
            self._put_in_force(snapshot)

    @contextmanager
    def held(self, wait: float = LOCK_WAIT_SECONDS) -> Generator[None]:
        """Keep the snapshot in force while the block runs, after a last look at the file: what is saved waits for it, what is
        edited by hand is not looked at before its end (RPC-211). Blocks while something is being saved.

        :param wait: the longest, in seconds.
        :raises ConfigBusy: something is being saved for longer.
        """
        with self._turn:
            if not self._turn.wait_for(lambda: not self._replacing, wait):
                raise ConfigBusy(
                    f"the configuration has been being saved for more than {wait:g} seconds",
                    details={"path": str(self._path)},
                )
            self.current()
            self._holds += 1
        try:
            yield
        finally:
            with self._turn:
                self._holds -= 1
                self._turn.notify_all()

    @contextmanager
    def between_holds(self, wait: float) -> Generator[None]:
        """Wait until nobody holds the snapshot, and let nobody hold it while the block runs. Blocks.

        :param wait: the longest, in seconds.
        :raises ConfigBusy: somebody holds it for longer.
        """
        with self._turn:
            self._replacing += 1
        try:
            with self._turn:
                if not self._turn.wait_for(lambda: not self._holds, wait):
                    raise ConfigBusy(
                        f"a file that is being stored has kept the configuration as it is for more than {wait:g} seconds",
                        details={"path": str(self._path)},
                    )
            yield
        finally:
            with self._turn:
                self._replacing -= 1
                self._turn.notify_all()

    def _look(self) -> None:
        """Read the file, and believe it if it says something else than before and is good."""
        try:
            raw = read_bytes(self._path)
        except ZeroclawError as error:
            self._seen = ""
            self._fail(error)
            return
        seen = revision_of(raw or b"", self._env)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            snapshot = parse(raw or b"", self._path, env=self._env, exists=raw is not None)
        except ZeroclawError as error:
            self._fail(error)
            return
        self._error = None
        self._put_in_force(snapshot)

    def _fail(self, error: ZeroclawError) -> None:
        known = self._error is not None and error.message == self._error.message
        self._error = error
        if not known:
            self._on_error(error)

    def _put_in_force(self, snapshot: Snapshot) -> None:
        if snapshot.revision != self._snapshot.revision:
            self._snapshot = snapshot
            self._on_change(snapshot)


class FileSource:
    """A configuration for one command: read whenever it is asked for, kept nowhere, so that a broken file can be mended.

    :param env: the environment whose variables override the file.
    """

    def __init__(self, path: Path, env: Mapping[str, str]) -> None:
        self._path: Final = path
        self._env: Final = dict(env)

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def env(self) -> Mapping[str, str]:
        """The environment whose variables override the file."""
        return self._env

    def current(self) -> Snapshot:
        """The snapshot of the file as it is; errors as in :func:`~zeroclaw_daemon.config.file.load`."""
        return load(self._path, self._env)

    def adopt(self, snapshot: Snapshot, stamp: Stamp) -> None:
        """Nothing is kept."""

    def between_holds(self, wait: float) -> AbstractContextManager[None]:
        """Nobody holds anything."""
        return nullcontext()


def _is_settled(stamp: Stamp, began: int) -> bool:
    """Whether any further change would give the file another stamp.

    Two changes within one tick of the file system's clock have one time; the second may go unnoticed when the size is the
    same. A file that changed just before it was looked at is therefore read again until its time is past.
    """
    return stamp is None or stamp[-1] + _SETTLED_NS < began


def _stamp(path: Path) -> Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116 — one call, no wrapper, on a path used for every request
    except OSError:
        return None
    return stamp_of(status)
