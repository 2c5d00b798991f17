"""Compiled artifacts on disk, whatever they are compiled from.

Loading compiled code trusts it: wasmtime runs what the file says. So a file is used only if it ends with the keyed digest
(HMAC-SHA256, under a random key of this directory alone) of its own bytes and of everything it depends on. It is opened
once, checked, and loaded through the same descriptor, so that what was checked is what runs. Whatever does not check
out (forged, damaged, from another release or processor) is discarded and compiled again.

Several processes of one user share a directory. Who uses an artifact, or writes one, holds the file's lock, so that
:mod:`~zeroclaw_host.sandbox.pruning` takes others first. The locks save work and protect nothing: an artifact that is
removed while somebody has it mapped stays mapped.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import mmap
import os
import re
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zeroclaw_host.sandbox import private_directory
from zeroclaw_host.sandbox.private_directory import storage_errors

SUFFIX: Final = ".artifact"
LOCK: Final = ".lock"
TOUCH_SECONDS: Final = 3600.0
"""How exact the time of an artifact's last use is. To be more exact would be to write to the disk at every load."""

_DIGEST_BYTES: Final = 32
_DOMAIN: Final = b"zeroclaw.artifacts.v1\0"
_FINGERPRINT_DIGITS: Final = 16
_LOCK_SECONDS: Final = 0.05
"""How often a process that waits for another one's compilation looks again."""

_FILE: Final = re.compile(
    r"(?P<kind>[a-z]+)-(?P<digest>[0-9a-f]{64})-(?P<fingerprint>[0-9a-f]{16})\.artifact"
)

Waiting = Callable[[float], None]
"""Told the seconds spent waiting so far."""


@dataclass(frozen=True, slots=True)
class ArtifactName:
    """What an artifact was compiled from.

    :param kind: what was made of it, in lowercase letters: ``component``, ``module``.
    :param digest: the SHA-256 (hex) of the bytes it was compiled from.
    """

    kind: str
    digest: str

    def __post_init__(self) -> None:
        if not _FILE.fullmatch(f"{self.kind}-{self.digest}-{'0' * _FINGERPRINT_DIGITS}{SUFFIX}"):
            raise ValueError("an artifact is named by a word and a SHA-256")


class Artifact:
    """An open artifact whose bytes can be trusted."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def path(self) -> str:
        """What to load: the open file itself, whatever happens to its name."""
        return f"/proc/self/fd/{self._descriptor}"

    def keep_while(self, user: object) -> None:
        """Count the artifact as in use for as long as this object lives."""
        lease = os.dup(self._descriptor)  # shares the lock
        weakref.finalize(user, _end_lease, lease)


class Draft(Artifact):
    """A new, empty file that becomes an artifact when it is published, and nothing at all otherwise."""

    def __init__(self, store: ArtifactStore, name: ArtifactName, descriptor: int, temporary: Path) -> None:
        super().__init__(descriptor)
        self._store = store
        self._name = name
        self._temporary = temporary

    @property
    def descriptor(self) -> int:
        """Where to write the compiled code."""
        return self._descriptor

    def publish(self) -> None:
        """Authenticate what was written and give it its name, in one step that no reader sees half of.

        :raises StorageError: it cannot be written; nothing changed.
        """
        with storage_errors(self._store.directory):
            self._store.seal(self._name, self._descriptor)
            os.fsync(self._descriptor)
            self._temporary.replace(self._store.path(self._name))
            private_directory.sync(self._store.directory)
        _lock(self._descriptor, fcntl.LOCK_SH)  # written no more, in use


class ArtifactStore:
    """The artifacts in one directory, shared by processes of one user.

    :param directory: made with mode 0700 if it is missing; must be a real directory of this user's, closed to others.
    :param fingerprint: a digest (hex) of everything an artifact depends on besides its source.
    :raises StorageError: the directory is not so, or its key cannot be read or made.
    """

    def __init__(self, directory: Path, fingerprint: str) -> None:
        self.directory = directory
        self._fingerprint = fingerprint
        with storage_errors(directory):
            private_directory.own(directory)
            self._key = private_directory.read_or_make_key(directory)

    def path(self, name: ArtifactName) -> Path:
        """Where the artifact lies, if there is one."""
        return self.directory / f"{name.kind}-{name.digest}-{self._fingerprint[:_FINGERPRINT_DIGITS]}{SUFFIX}"

    def name_of(self, path: Path) -> ArtifactName | None:
        """The name of an artifact in this directory; None when it is not one that this process could use."""
        found = _FILE.fullmatch(path.name)
        if found is None or found["fingerprint"] != self._fingerprint[:_FINGERPRINT_DIGITS]:
            return None
        return ArtifactName(found["kind"], found["digest"])

    @contextmanager
    def open(self, name: ArtifactName) -> Generator[Artifact | None]:
        """The artifact, checked, for the time of the block; None when there is none that can be trusted."""
        descriptor = self._open(name)
        try:
            yield None if descriptor is None else Artifact(descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def holds(self, name: ArtifactName) -> bool:
        """Whether there is an artifact of this name that can be trusted."""
        with self.open(name) as artifact:
            return artifact is not None

    @contextmanager
    def draft(self, name: ArtifactName) -> Generator[Draft]:
        """A file to compile into. If the block ends without having published it, nothing is left.

        :raises StorageError: it cannot be made.
        """
        temporary = private_directory.partial(self.directory, name.digest[:16])
        with storage_errors(self.directory):
            descriptor = private_directory.create(temporary)
        try:
            _lock(descriptor, fcntl.LOCK_EX)
            yield Draft(self, name, descriptor, temporary)
        finally:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)

    @contextmanager
    def turn(self, name: ArtifactName, *, seconds: float, waiting: Waiting | None = None) -> Generator[None]:
        """Wait while another process compiles the same, and no longer than that may take.

        The lock saves work, no more: without it both would compile, and either file is good. So nobody waits longer for
        the holder, who may have been stopped.

        :param waiting: told the time spent so far; whoever raises there gives up.
        :raises StorageError: the lock's file cannot be made.
        """
        path = self.directory / f".{name.kind}-{name.digest[:16]}{LOCK}"
        with storage_errors(self.directory):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            started = time.monotonic()
            while not _lock(descriptor, fcntl.LOCK_EX) and (spent := time.monotonic() - started) < seconds:
                if waiting is not None:
                    waiting(spent)
                time.sleep(_LOCK_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def discard(self, name: ArtifactName) -> None:
        """Remove an artifact that turned out to be of no use."""
        _remove(self.path(name))

    def seal(self, name: ArtifactName, descriptor: int) -> None:
        """Write the keyed digest behind the compiled code.

        :raises OSError: it cannot be written.
        """
        with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as content, memoryview(content) as artifact:
            end = self._authenticator(name, artifact)
        os.lseek(descriptor, 0, os.SEEK_END)
        if os.write(descriptor, end) != len(end):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _open(self, name: ArtifactName) -> int | None:
        path = self.path(name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError:
            _remove(path)  # a link, or unreadable: nothing this store wrote
            return None
        try:
            if self._authentic(name, descriptor):
                _lock(descriptor, fcntl.LOCK_SH)
                _touch(descriptor)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        _remove(path)
        return None

    def _authentic(self, name: ArtifactName, descriptor: int) -> bool:
        found = os.fstat(descriptor)
        if not private_directory.is_private_file(found) or found.st_size <= _DIGEST_BYTES:
            return False
        with (
            mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as content,
            memoryview(content) as view,
            view[:-_DIGEST_BYTES] as body,
            view[-_DIGEST_BYTES:] as end,
        ):
            return hmac.compare_digest(self._authenticator(name, body), bytes(end))

    def _authenticator(self, name: ArtifactName, artifact: memoryview) -> bytes:
        keyed = hmac.new(self._key, _DOMAIN, hashlib.sha256)
        keyed.update(f"{name.kind}\0{name.digest}\0{self._fingerprint}\0".encode())
        keyed.update(artifact)
        return keyed.digest()


def _end_lease(descriptor: int) -> None:
    _touch(descriptor)
    os.close(descriptor)


def _touch(descriptor: int) -> None:
    """Note the time of use, which is the file's time of change, if what it says is too old."""
    with suppress(OSError):
        if abs(time.time() - os.fstat(descriptor).st_mtime) > TOUCH_SECONDS:
            os.utime(descriptor)


def _lock(descriptor: int, operation: int) -> bool:
    """Take a file's lock if it is free. A file system without locks keeps nobody waiting."""
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
