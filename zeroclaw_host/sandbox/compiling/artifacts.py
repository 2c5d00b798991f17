"""Compiled artifacts on disk, whatever they are compiled from.

Loading compiled code trusts it: wasmtime runs what the file says. So a file is used only if it ends with the keyed digest
(HMAC-SHA256, under a random key of this directory alone) of its own bytes and of everything it depends on. It is opened
once, checked, and loaded through the same descriptor, so that what was checked is what runs. Whatever does not check
out (forged, damaged, from another release or processor) is discarded and compiled again.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import mmap
import os
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from zeroclaw_host import private_files
from zeroclaw_host.errors import StorageError
from zeroclaw_host.sandbox.compiling import private_directory
from zeroclaw_host.sandbox.compiling.private_directory import storage_errors
from zeroclaw_host.sandbox.compiling.shelf import (
    DEFAULT_CACHE_BYTES,
    ArtifactName,
    Shelf,
    lease,
    lock,
    open_own,
    touch,
)

_DIGEST_BYTES: Final = 32
_DOMAIN: Final = b"zeroclaw.artifacts.v1\0"
_LOCK_SECONDS: Final = 0.05
"""How often a process that waits for another one's compilation looks again."""

Waiting = Callable[[float], None]
"""Told the seconds spent waiting so far."""


class Artifact:
    """An open artifact whose bytes can be trusted."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def path(self) -> str:
        """What to load: the open file itself, whatever happens to its name."""
        return f"/proc/self/fd/{self._descriptor}"

    def keep_while(self, user: object) -> None:
        """Count the artifact as in use for as long as this object lives, if there is a descriptor left for that."""
        with suppress(OSError):
            weakref.finalize(user, _end_lease, os.dup(self._descriptor))  # shares the lock


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
            lease(self._descriptor)  # from here on in use, like one that was opened
            self._temporary.replace(self._store.shelf.path(self._name))
            private_files.sync_directory(self._store.directory)
        self._store.tidy(self._name)


class ArtifactStore:
    """The artifacts in one directory, shared by processes of one user.

    :param directory: made with mode 0700 if it is missing; must be a real directory of this user's, closed to others.
    :param fingerprint: a digest (hex) of everything an artifact depends on besides its source.
    :param maximum_bytes: size of all artifacts together that is kept to whenever one is added.
    :raises StorageError: the directory is not so, or its key cannot be read or made.
    """

    def __init__(
        self, directory: Path, fingerprint: str, *, maximum_bytes: int = DEFAULT_CACHE_BYTES
    ) -> None:
        self.directory = directory
        self.shelf = Shelf(directory, fingerprint)
        self._fingerprint = fingerprint
        self._maximum_bytes = maximum_bytes
        with storage_errors(directory):
            private_directory.own(directory)
            self.shelf.sweep()
            self._key = private_directory.read_or_make_key(directory)

    @contextmanager
    def open(self, name: ArtifactName) -> Generator[Artifact | None]:
        """The artifact, checked, for the time of the block; None when there is none that can be trusted.

        :raises StorageError: the system does not let it be looked at, for want of descriptors or memory.
        """
        with storage_errors(self.directory):
            descriptor = self._open(name)
        try:
            yield None if descriptor is None else Artifact(descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    @contextmanager
    def draft(self, name: ArtifactName) -> Generator[Draft]:
        """A file to compile into. If the block ends without having published it, nothing is left.

        :raises StorageError: it cannot be made.
        """
        temporary = private_directory.partial(self.directory, name.digest[:16])
        with storage_errors(self.directory):
            descriptor = private_files.create(temporary)
        try:
            lock(descriptor, fcntl.LOCK_EX)
            yield Draft(self, name, descriptor, temporary)
        finally:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)

    @contextmanager
    def turn(self, *names: ArtifactName, seconds: float, waiting: Waiting | None = None) -> Generator[None]:
        """Wait while others, processes or threads, compile the same, and no longer than that may take.

        The locks save work, no more: without them both would compile, and either file is good. So nobody waits longer for
        a holder, who may have been stopped.

        :param seconds: the longest wait for all of them together.
        :param waiting: told the time spent so far; whoever raises there gives up.
        :raises StorageError: a lock's file cannot be made.
        """
        started = time.monotonic()
        with ExitStack() as held:
            for name in sorted(
                names, key=lambda name: (name.kind, name.digest)
            ):  # one order, or two wait for ever
                held.enter_context(self._locked(name, started, seconds, waiting))
            yield

    @contextmanager
    def _locked(
        self, name: ArtifactName, started: float, seconds: float, waiting: Waiting | None
    ) -> Generator[None]:
        path = self.shelf.lock_path(name)
        with storage_errors(self.directory):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        held = False
        try:
            held = _wait_for_lock(descriptor, started, seconds, waiting)
            yield
        finally:
            if held:  # whoever waits has the file open, and finds the artifact when its turn comes
                with suppress(OSError):
                    path.unlink()
            os.close(descriptor)

    def discard(self, name: ArtifactName) -> None:
        """Remove an artifact that turned out to be of no use."""
        with suppress(OSError):
            self.shelf.path(name).unlink()

    def tidy(self, name: ArtifactName) -> None:
        """Make room after an artifact was added. Whoever added it has it, so failing to is not worth an error."""
        with suppress(StorageError):
            self.shelf.supersede(name)
            self.shelf.prune(self._maximum_bytes)

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
        path = self.shelf.path(name)
        try:
            descriptor = open_own(path)
        except FileNotFoundError:
            return None
        if descriptor is None:
            self.discard(name)
            return None
        try:
            if self._authentic(name, descriptor):
                lease(descriptor)
                touch(descriptor)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        self.discard(name)
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


def _wait_for_lock(descriptor: int, started: float, seconds: float, waiting: Waiting | None) -> bool:
    """Whether the lock was free in time. A file system without locks keeps nobody waiting."""
    while (locked := lock(descriptor, fcntl.LOCK_EX)) is False:
        spent = time.monotonic() - started
        if spent >= seconds:
            return False
        if waiting is not None:
            waiting(spent)
        time.sleep(_LOCK_SECONDS)
    return locked is True


def _end_lease(descriptor: int) -> None:
    touch(descriptor)
    os.close(descriptor)
