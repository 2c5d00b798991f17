"""The files of compiled artifacts in one directory: their names, who uses them, and how much room they may take.

Several processes of one user share the directory. Who uses an artifact, or writes one, holds the file's lock, and others
are removed first. The locks save work and protect nothing: what is removed while somebody has it mapped stays mapped.

Nothing here trusts what a file holds; that is for :mod:`~zeroclaw_host.sandbox.compiling.artifacts`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zeroclaw_host.sandbox.compiling.private_directory import PARTIAL, storage_errors

DEFAULT_CACHE_BYTES: Final = 4 * 1024**3
"""Room for the artifacts of about a hundred Python plugins, each in its own form of 40 MB."""

TOUCH_SECONDS: Final = 3600.0
"""How exact the time of an artifact's last use is. To be more exact would be to write to the disk at every load."""

_SUFFIX: Final = ".artifact"
_LOCK: Final = ".lock"
_FINGERPRINT_DIGITS: Final = 16
_FILE: Final = re.compile(r"([a-z]+)-([0-9a-f]{64})-([0-9a-f]{16})\.artifact")

_ABANDONED_SECONDS: Final = 60.0
"""Age of a file nobody holds from which it is taken for abandoned: longer than any process takes from making a file to
locking it. A file as far in the future is of before the clock was set back."""

_NOT_OURS: Final = frozenset({errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO, errno.ENODEV})
"""How the system refuses to open a link, what this user may not read, or what is no file: nothing of the cache's. Any other
refusal, as for want of descriptors, says nothing about the file."""

_LEASE_TRIES: Final = 20
_LEASE_SECONDS: Final = 0.001


@dataclass(frozen=True, slots=True)
class ArtifactName:
    """What an artifact was compiled from.

    :param kind: what was made of it, in lowercase letters: ``component``, ``module``.
    :param digest: the SHA-256 (hex) of the bytes it was compiled from.
    """

    kind: str
    digest: str

    def __post_init__(self) -> None:
        if not _FILE.fullmatch(f"{self.kind}-{self.digest}-{'0' * _FINGERPRINT_DIGITS}{_SUFFIX}"):
            raise ValueError("an artifact is named by a word and a SHA-256")


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """One artifact's file.

    :param name: what it was compiled from; None when the file's name does not say it.
    :param last_used: seconds since the epoch, exact to :data:`TOUCH_SECONDS`.
    :param stale: made by another release or for other settings or another processor, so of no use here.
    :param in_use: some process has it loaded.
    """

    path: Path
    name: ArtifactName | None
    size: int
    last_used: float
    stale: bool
    in_use: bool


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed, and what is there now."""

    removed: tuple[StoredArtifact, ...]
    kept: tuple[StoredArtifact, ...]

    @property
    def freed_bytes(self) -> int:
        """Size of what was removed."""
        return sum(artifact.size for artifact in self.removed)

    @property
    def kept_bytes(self) -> int:
        """Size of what is there."""
        return sum(artifact.size for artifact in self.kept)


class Shelf:
    """The artifacts of one directory.

    :param directory: need not exist, and is never made here.
    :param fingerprint: a digest (hex) of everything an artifact depends on besides its source.
    """

    def __init__(self, directory: Path, fingerprint: str) -> None:
        self.directory = directory
        self._fingerprint = fingerprint[:_FINGERPRINT_DIGITS]

    def path(self, name: ArtifactName) -> Path:
        """Where the artifact lies, if there is one."""
        return self.directory / f"{name.kind}-{name.digest}-{self._fingerprint}{_SUFFIX}"

    def lock_path(self, name: ArtifactName) -> Path:
        """The file whose lock whoever compiles this holds."""
        return self.directory / f".{name.kind}-{name.digest}{_LOCK}"

    def stored(self) -> tuple[StoredArtifact, ...]:
        """Every artifact, in the order in which they would be removed: stale ones, then the least recently used.

        :raises StorageError: the directory cannot be read. A missing one holds nothing.
        """
        with storage_errors(self.directory):
            if not self.directory.exists():
                return ()
            found = [self._look_at(path) for path in self.directory.iterdir() if path.suffix == _SUFFIX]
        soon = time.time() + TOUCH_SECONDS
        return tuple(
            sorted(
                (artifact for artifact in found if artifact is not None),
                key=lambda artifact: (
                    not artifact.stale,
                    artifact.last_used <= soon,  # what was used in the future is of a clock that went wrong
                    artifact.last_used,
                    artifact.path.name,
                ),
            )
        )

    def prune(self, maximum_bytes: int, *, also: Iterable[StoredArtifact] = ()) -> Pruned:
        """Remove artifacts until the others fit, and what was never finished. What is in use stays, however much it is.

        :param also: to be removed in any case, unless in use.
        :raises StorageError: the directory cannot be read.
        """
        self.sweep()
        unwanted = {artifact.path for artifact in also}
        found = self.stored()
        total = sum(artifact.size for artifact in found)
        removed: list[StoredArtifact] = []
        kept: list[StoredArtifact] = []
        for artifact in found:
            if (total > maximum_bytes or artifact.path in unwanted) and _remove_unless_held(artifact.path):
                removed.append(artifact)
                total -= artifact.size
            else:
                kept.append(artifact)
        return Pruned(tuple(removed), tuple(kept))

    def clear(self) -> Pruned:
        """Remove every artifact. Processes that use one go on with it.

        :raises StorageError: one of them cannot be removed.
        """
        self.sweep()
        found = self.stored()
        with storage_errors(self.directory):
            for artifact in found:
                artifact.path.unlink(missing_ok=True)
        return Pruned(found, ())

    def supersede(self, name: ArtifactName) -> None:
        """Remove what another release or processor made of the same source."""
        for path in self.directory.glob(f"{name.kind}-{name.digest}-*{_SUFFIX}"):
            if path != self.path(name):
                _remove_unless_held(path)

    def sweep(self) -> None:
        """Remove what processes that were killed left half-written."""
        for path in (*self.directory.glob(f".*{PARTIAL}"), *self.directory.glob(f".*{_LOCK}")):
            with suppress(OSError):
                if abs(time.time() - path.lstat().st_mtime) > _ABANDONED_SECONDS:
                    _remove_unless_held(path, only_if_known=True)

    def _look_at(self, path: Path) -> StoredArtifact | None:
        try:
            found = path.lstat()
        except FileNotFoundError:
            return None
        parts = _FILE.fullmatch(path.name)
        return StoredArtifact(
            path,
            None if parts is None else ArtifactName(parts[1], parts[2]),
            found.st_size,
            found.st_mtime,
            stale=parts is None or parts[3] != self._fingerprint,
            in_use=stat.S_ISREG(found.st_mode) and _is_held(path),
        )


def lock(descriptor: int, operation: int) -> bool | None:
    """Take a file's lock if it is free: True. False when somebody else has it, None when this file system has no locks.

    :param operation: ``fcntl.LOCK_SH`` or ``fcntl.LOCK_EX``.
    """
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def touch(descriptor: int) -> None:
    """Note that an artifact is used now, if what its file says is too old."""
    with suppress(OSError):
        if abs(time.time() - os.fstat(descriptor).st_mtime) > TOUCH_SECONDS:
            os.utime(descriptor)


def lease(descriptor: int) -> None:
    """Count a file as in use while the descriptor is open.

    Whoever wants to know whether it is in use, or removes it, has it for a moment alone; that moment is waited for.
    """
    for _ in range(_LEASE_TRIES):
        if lock(descriptor, fcntl.LOCK_SH) is not False:
            return
        time.sleep(_LEASE_SECONDS)


def open_own(path: Path) -> int | None:
    """A descriptor of a file of the cache; None when what is there is none.

    :raises OSError: there is nothing of that name, or the system opens nothing at the moment.
    """
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _NOT_OURS:
            return None
        raise


def _is_held(path: Path) -> bool:
    try:
        descriptor = open_own(path)
    except OSError as error:
        return error.errno != errno.ENOENT  # as far as anybody can tell
    if descriptor is None:
        return False
    try:
        return lock(descriptor, fcntl.LOCK_EX) is False
    finally:
        os.close(descriptor)


def _remove_unless_held(path: Path, *, only_if_known: bool = False) -> bool:
    """Whether the file is gone.

    :param only_if_known: keep it also where the file system cannot tell.
    """
    descriptor: int | None = None
    try:
        descriptor = open_own(path)
        if descriptor is not None:
            free = lock(descriptor, fcntl.LOCK_EX)
            if free is False or (free is None and only_if_known):
                return False
        path.unlink(missing_ok=True)
        return True
    except FileNotFoundError:
        return True
    except OSError:
        return False
    finally:
        if descriptor is not None:
            os.close(descriptor)
