"""Compiled components on disk.

Loading compiled code trusts it: wasmtime runs what the file says. So a file is used only if it ends with the keyed digest
(HMAC-SHA256, under a random key of this cache alone) of its own bytes and of everything it depends on. It is opened
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
import secrets
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from wasmtime import WasmtimeError
from wasmtime.component import Component

from zeroclaw_host.errors import NO_SPACE, Remedy, RemedyAction, StorageError
from zeroclaw_host.sandbox.compile import (
    CompileLimits,
    CompilerFailed,
    Progress,
    check_header,
    compile_component,
)
from zeroclaw_host.sandbox.engine import Compiled, Engines, fingerprint

_KEY_FILE: Final = "key"
_KEY_BYTES: Final = 32
_SUFFIX: Final = ".artifact"
_DIGEST_BYTES: Final = 32
_DOMAIN: Final = b"zeroclaw.component-cache.v1\0"
_PARTIAL: Final = ".partial"
_LOCK: Final = ".lock"
_ABANDONED_SECONDS: Final = 3600
"""Far longer than any compilation may take."""
_LOCK_SECONDS: Final = 0.05
"""How often a process that waits for another one's compilation looks again."""
_MEMO_SIZE: Final = 32
"""Components kept loaded in one process though nobody uses them at the moment."""


class ComponentCache:
    """Compiled components under one directory, shared by processes of one user.

    :param directory: made with mode 0700 if it is missing; must be a real directory of this user's, closed to others.
    :raises StorageError: it is not, or its key cannot be read or made.
    """

    def __init__(self, directory: Path, engines: Engines, *, limits: CompileLimits | None = None) -> None:
        self.directory = directory
        self._engines = engines
        self._limits = limits or CompileLimits()
        self._fingerprint = fingerprint()
        self._lock = threading.Lock()
        self._loading: dict[str, threading.Lock] = {}
        self._memo: OrderedDict[str, Compiled] = OrderedDict()
        with _storage(directory):
            _own_directory(directory)
            _sweep(directory)
        self._key = _read_or_make_key(directory / _KEY_FILE)

    def compiled(
        self, component: bytes, *, sha256: str | None = None, progress: Progress | None = None
    ) -> Compiled:
        """The compiled component: from memory, from disk, or compiled now in a child process.

        :param sha256: the digest (hex) of exactly these bytes, from a caller that computed it when it read them.
        :param progress: called with the seconds spent so far while compiling.
        :raises ComponentInvalid: the bytes are no component, or the compiler refuses them.
        :raises CompileLimit: compiling took more memory or time than allowed.
        :raises StorageError: the artifact cannot be written; nothing half-written is left.
        """
        check_header(component)
        digest = sha256 or hashlib.sha256(component).hexdigest()
        with self._only_one(digest):
            found = self._remembered(digest)
            if found is None:
                found = self._from_disk(digest)
            if found is None:
                with self._across_processes(digest, progress):
                    found = self._from_disk(digest) or self._compile(component, digest, progress)
            self._remember(digest, found)
            return found

    def load(
        self, component: bytes, *, sha256: str | None = None, progress: Progress | None = None
    ) -> Component:
        """The same without its engine."""
        return self.compiled(component, sha256=sha256, progress=progress).component

    def holds(self, digest: str) -> bool:
        """Whether a component of this SHA-256 (hex) would load without being compiled."""
        return self._remembered(digest) is not None or self._from_disk(digest) is not None

    def path(self, digest: str) -> Path:
        """Where the artifact of a component of this SHA-256 (hex) lies."""
        return self.directory / f"{digest}-{self._fingerprint[:16]}{_SUFFIX}"

    # --- memory ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def _only_one(self, digest: str) -> Generator[None]:
        """Threads that want the same component wait for the first one instead of compiling it again."""
        with self._lock:
            lock = self._loading.setdefault(digest, threading.Lock())
        with lock:
            yield

    @contextmanager
    def _across_processes(self, digest: str, progress: Progress | None) -> Generator[None]:
        """The same among processes. The lock saves work, no more: without it both would compile, and either file is good.

        So nobody waits longer for the holder, who may have been stopped, than a compilation may take.
        """
        path = self.directory / f".{digest[:16]}{_LOCK}"
        with _storage(self.directory):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            started = time.monotonic()
            while not _locked(descriptor) and (spent := time.monotonic() - started) < self._limits.seconds:
                if progress is not None:
                    progress(spent)
                time.sleep(_LOCK_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _remembered(self, digest: str) -> Compiled | None:
        with self._lock:
            found = self._memo.get(digest)
            if found is not None:
                self._memo.move_to_end(digest)
            return found

    def _remember(self, digest: str, component: Compiled) -> None:
        with self._lock:
            self._memo[digest] = component
            self._memo.move_to_end(digest)
            while len(self._memo) > _MEMO_SIZE:
                self._memo.popitem(last=False)

    # --- disk -----------------------------------------------------------------------------------------------------------

    def _from_disk(self, digest: str) -> Compiled | None:
        path = self.path(digest)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError:
            _discard(path)  # a link, or unreadable: nothing this cache wrote
            return None
        try:
            if _is_private_file(os.fstat(descriptor)) and self._authentic(descriptor, digest):
                return self._engines.open(f"/proc/self/fd/{descriptor}")
        except WasmtimeError:
            pass  # authentic, yet not what this wasmtime reads: as good as stale
        finally:
            os.close(descriptor)
        _discard(path)
        return None

    def _authentic(self, descriptor: int, digest: str) -> bool:
        if os.fstat(descriptor).st_size <= _DIGEST_BYTES:
            return False
        with (
            mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as content,
            memoryview(content) as view,
            view[:-_DIGEST_BYTES] as body,
            view[-_DIGEST_BYTES:] as end,
        ):
            return hmac.compare_digest(self._authenticator(body, digest), bytes(end))

    def _authenticator(self, artifact: memoryview, digest: str) -> bytes:
        keyed = hmac.new(self._key, _DOMAIN, hashlib.sha256)
        keyed.update(f"{digest}\0{self._fingerprint}\0".encode())
        keyed.update(artifact)
        return keyed.digest()

    def _compile(self, component: bytes, digest: str, progress: Progress | None) -> Compiled:
        """Compile beside the final place, then move there in one step."""
        temporary = self.directory / f".{digest[:16]}-{secrets.token_hex(8)}{_PARTIAL}"
        with _storage(self.directory):
            descriptor = os.open(
                temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
        try:
            with _storage(self.directory):
                compile_component(component, descriptor, limits=self._limits, progress=progress)
                self._seal(descriptor, digest)
                os.fsync(descriptor)
                compiled = self._engines.open(f"/proc/self/fd/{descriptor}")
                self._discard_others(digest)
                temporary.replace(self.path(digest))
                _sync_directory(self.directory)
            return compiled
        except WasmtimeError as error:
            raise CompilerFailed("the compiler wrote what this process cannot load") from error
        finally:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)

    def _discard_others(self, digest: str) -> None:
        """Remove what another release or processor made of the same component."""
        for path in self.directory.glob(f"{digest}-*{_SUFFIX}"):
            if path != self.path(digest):
                _discard(path)

    def _seal(self, descriptor: int, digest: str) -> None:
        with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as content, memoryview(content) as artifact:
            end = self._authenticator(artifact, digest)
        os.lseek(descriptor, 0, os.SEEK_END)
        if os.write(descriptor, end) != len(end):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def _storage(path: Path) -> Generator[None]:
    """Turn the system's errors into ours."""
    try:
        yield
    except OSError as error:
        full = error.errno in NO_SPACE
        action = RemedyAction.FREE_SPACE if full else RemedyAction.MAKE_DIRECTORY
        what = "the file system is full" if full else (error.strerror or "the system refused")
        raise StorageError(
            f"the cache of compiled components cannot be used: {what}",
            remedy=Remedy(action, {"path": str(path)}),
            details={"path": str(error.filename or path), "errno": error.errno},
        ) from error


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _own_directory(directory: Path) -> None:
    """Make the directory, or see that it is a real one that only its owner can enter."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(errno.ENOTDIR, "it is not a directory of its own", str(directory))
    if found.st_uid != os.geteuid():
        raise OSError(errno.EPERM, "it belongs to another user", str(directory))
    if stat.S_IMODE(found.st_mode) & 0o077:
        directory.chmod(0o700)


def _sweep(directory: Path) -> None:
    """Remove what processes that were killed left half-written."""
    for path in (*directory.glob(f".*{_PARTIAL}"), *directory.glob(f".*{_LOCK}")):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > _ABANDONED_SECONDS:
                path.unlink()


def _is_private_file(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _read_or_make_key(path: Path) -> bytes:
    """This cache's key. Two processes that start at once agree on one, because only one can link its file there."""
    with _storage(path):
        for _ in range(2):
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                _make_key(path)
                continue
            with os.fdopen(descriptor, "rb") as file:
                key = file.read(_KEY_BYTES + 1)
                if len(key) == _KEY_BYTES and _is_private_file(os.fstat(file.fileno())):
                    return key
            raise OSError(errno.EPERM, "its key is damaged or open to others", str(path))
        raise OSError(errno.ENOENT, "its key vanished", str(path))


def _make_key(path: Path) -> None:
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}{_PARTIAL}")
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _discard(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
