"""Compiled components: from memory, from disk, or compiled now."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

from wasmtime import WasmtimeError
from wasmtime.component import Component

from zeroclaw_host.sandbox.compiling.artifacts import ArtifactStore
from zeroclaw_host.sandbox.compiling.compile import CompilerFailed, Progress, Source, compile_sources
from zeroclaw_host.sandbox.compiling.compile_limits import CompileLimits
from zeroclaw_host.sandbox.compiling.compiler import Form
from zeroclaw_host.sandbox.compiling.header import check_header
from zeroclaw_host.sandbox.compiling.private_directory import storage_errors
from zeroclaw_host.sandbox.compiling.shelf import DEFAULT_CACHE_BYTES, ArtifactName
from zeroclaw_host.sandbox.engine import Compiled, Engines, fingerprint

COMPONENT: Final = "component"
"""The kind of artifact that is made of a component as it was delivered."""

_MEMO_SIZE: Final = 32
"""Components kept loaded in one process though nobody uses them at the moment."""


class ComponentCache:
    """Compiled components under one directory, shared by processes of one user.

    :param directory: made with mode 0700 if it is missing; must be a real directory of this user's, closed to others.
    :param limits: memory and time of one compilation.
    :param maximum_bytes: size of all artifacts on disk that is kept to.
    :raises StorageError: it is not, or its key cannot be read or made.
    """

    def __init__(
        self,
        directory: Path,
        engines: Engines,
        *,
        limits: CompileLimits | None = None,
        maximum_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self.directory = directory
        self.artifacts = ArtifactStore(directory, fingerprint(), maximum_bytes=maximum_bytes)
        self._engines = engines
        self._limits = limits or CompileLimits()
        self._lock = threading.Lock()
        self._memo: OrderedDict[str, Compiled] = OrderedDict()

    def compiled(
        self,
        component: bytes,
        *,
        sha256: str | None = None,
        progress: Progress | None = None,
        background: bool = False,
    ) -> Compiled:
        """The compiled component: from memory, from disk, or compiled now in a child process.

        :param sha256: the digest (hex) of exactly these bytes, from a caller that computed it when it read them.
        :param progress: called with the seconds spent so far while compiling.
        :param background: compile at the lowest priority, and allow for its taking longer.
        :raises ComponentInvalid: the bytes are no component, or the compiler refuses them.
        :raises CompileLimit: compiling took more memory or time than allowed.
        :raises StorageError: the artifact cannot be read or written; nothing half-written is left.
        """
        check_header(component)
        digest = sha256 or hashlib.sha256(component).hexdigest()
        found = self.find(digest)
        if found is not None:
            return found
        name = ArtifactName(COMPONENT, digest)
        patience = self._limits.of(len(component)).seconds
        with self.artifacts.turn(name, seconds=patience, waiting=progress):
            return self.find(digest) or self._compile(component, name, progress, background)

    def find(self, digest: str) -> Compiled | None:
        """The compiled component of this SHA-256 (hex), if it need not be compiled. Waits for nobody who compiles it.

        :raises StorageError: the system does not let an artifact be looked at.
        """
        found = self._remembered(digest)
        if found is None:
            found = self._from_disk(ArtifactName(COMPONENT, digest))
        return found

    def load(
        self, component: bytes, *, sha256: str | None = None, progress: Progress | None = None
    ) -> Component:
        """The same without its engine."""
        return self.compiled(component, sha256=sha256, progress=progress).component

    def _remembered(self, digest: str) -> Compiled | None:
        with self._lock:
            found = self._memo.get(digest)
            if found is not None:
                self._memo.move_to_end(digest)
            return found

    def _remember(self, digest: str, compiled: Compiled) -> Compiled:
        """The same for everybody, also if two threads loaded it at once."""
        with self._lock:
            found = self._memo.setdefault(digest, compiled)
            self._memo.move_to_end(digest)
            while len(self._memo) > _MEMO_SIZE:
                self._memo.popitem(last=False)
            return found

    def _from_disk(self, name: ArtifactName) -> Compiled | None:
        with self.artifacts.open(name) as artifact:
            if artifact is None:
                return None
            try:
                compiled = self._engines.open(artifact.path)
            except WasmtimeError:  # authentic, yet not what this wasmtime reads: as good as stale
                self.artifacts.discard(name)
                return None
            artifact.keep_while(compiled.component)
            return self._remember(name.digest, compiled)

    def _compile(
        self, component: bytes, name: ArtifactName, progress: Progress | None, background: bool
    ) -> Compiled:
        with self.artifacts.draft(name) as draft:
            with storage_errors(self.directory):
                compile_sources(
                    [Source(Form.COMPONENT, component, draft.descriptor)],
                    limits=self._limits,
                    progress=progress,
                    background=background,
                )
            try:
                compiled = self._engines.open(draft.path)
            except WasmtimeError as error:
                raise CompilerFailed("the compiler wrote what this process cannot load") from error
            draft.publish()
            draft.keep_while(compiled.component)
            return self._remember(name.digest, compiled)
