"""The sandbox: one engine, its cache of compiled components, and the threads guests run on.

A component is compiled in one of two forms. The shared form (:mod:`~zeroclaw_host.sandbox.compiling.shared_forms`) is there soonest,
the plain one starts instances faster. :meth:`Sandbox.load` takes what is there, or makes the first; who has time to spare
calls :meth:`Sandbox.improve`, and everybody goes over to the second.
"""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from types import TracebackType
from typing import Self
from weakref import WeakSet

from wasmtime import Engine

from zeroclaw_host.errors import MemoryLimit
from zeroclaw_host.sandbox.compiling.cache import ComponentCache
from zeroclaw_host.sandbox.compiling.compile import Progress
from zeroclaw_host.sandbox.compiling.compile_limits import CompileLimits
from zeroclaw_host.sandbox.compiling.shared_forms import SharedForms
from zeroclaw_host.sandbox.compiling.shelf import DEFAULT_CACHE_BYTES
from zeroclaw_host.sandbox.conversion import Conversion, best_conversion
from zeroclaw_host.sandbox.engine import Compiled, Engines, EpochTicker
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.limits import MAX_MEMORIES
from zeroclaw_host.sandbox.linker import LinkedComponent, Surface, link
from zeroclaw_host.sandbox.store import Guest
from zeroclaw_host.sandbox.threads import DEFAULT_THREADS, GuestThreads


class Sandbox:
    """Where all plugins of a process live (PLG-101). Close it, or use it as a context manager.

    :param cache_dir: where compiled components are kept; made if missing.
    :param threads: guest calls at once; more wait their turn.
    :param compile_limits: memory and time of one compilation.
    :param share_core_modules: compile what plugins have in common once. Otherwise every component is compiled as it is.
    :param cache_bytes: size of all compiled components on disk that is kept to.
    :param conversion: how values cross the boundary; the best one that works when left out.
    :raises StorageError: the cache directory cannot be used.
    """

    def __init__(
        self,
        cache_dir: Path,
        *,
        threads: int = DEFAULT_THREADS,
        compile_limits: CompileLimits | None = None,
        share_core_modules: bool = True,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        conversion: Conversion | None = None,
    ) -> None:
        self._engines = Engines()
        limits = compile_limits or CompileLimits()
        self.cache = ComponentCache(cache_dir, self._engines, limits=limits, maximum_bytes=cache_bytes)
        self._shared = (
            SharedForms(self.cache.artifacts, self._engines, limits) if share_core_modules else None
        )
        self.conversion = best_conversion() if conversion is None else conversion
        self.threads = GuestThreads(threads)
        self._ticker = EpochTicker(self._engines)
        self._linking = threading.Lock()
        self._improvable: WeakSet[LinkedComponent] = WeakSet()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def engine(self) -> Engine:
        """The engine that all components share which need no other."""
        return self._engines.plain

    def load(
        self,
        component: bytes,
        surface: Surface,
        *,
        sha256: str | None = None,
        progress: Progress | None = None,
    ) -> LinkedComponent:
        """Compile a component, or find it compiled; compare it with the contract; link it.

        :param sha256: the digest (hex) of exactly these bytes, from a caller that computed it when it read them.
        :raises ComponentInvalid: the bytes are no component, or the compiler refuses them.
        :raises CompileLimit: compiling took more memory or time than allowed.
        :raises ComponentMismatch: it does not fit the contract.
        :raises StorageError: the compiled component cannot be kept.
        """
        digest = sha256 or hashlib.sha256(component).hexdigest()
        compiled = self._compiled(component, digest, progress)
        with self._linking:
            linked = LinkedComponent(digest, surface, link(compiled, surface, self.conversion))
            if compiled.modules:
                self._improvable.add(linked)
            return linked

    def improvable(self) -> frozenset[str]:
        """The digests of the components in use that :meth:`improve` would make faster."""
        with self._linking:
            return frozenset(linked.sha256 for linked in self._improvable)

    def improve(
        self, component: bytes, *, sha256: str | None = None, progress: Progress | None = None
    ) -> None:
        """Compile a component in its plain form, at low priority, and let everybody who uses it go over to that.

        Instances that were made before stay what they are. For a component that is compiled so already this costs what
        loading it does.

        :param sha256: the digest (hex) of exactly these bytes, from a caller that computed it when it read them.
        :param progress: called with the seconds spent so far; whoever raises there ends the compiler, and nothing is left.
        :raises ComponentInvalid: the compiler refuses the component.
        :raises CompileLimit: compiling took more memory, or ten times the time, than allowed.
        :raises StorageError: the compiled component cannot be kept.
        """
        digest = sha256 or hashlib.sha256(component).hexdigest()
        compiled = self.cache.compiled(component, sha256=digest, progress=progress, background=True)
        with self._linking:
            for linked in [linked for linked in self._improvable if linked.sha256 == digest]:
                linked.form = link(compiled, linked.surface, self.conversion)
                self._improvable.discard(linked)
        if self._shared is not None:
            self._shared.discard(digest)

    def guest(self, linked: LinkedComponent, frame: CallFrame) -> Guest:
        """A new instance of a component for this frame, with the frame's limits. To be used on a guest thread.

        :raises PluginError: it does not instantiate.
        """
        while True:
            shares = linked.memories
            guest = Guest(self._ticker, self.conversion, linked, frame.limits, frame.table)
            try:
                guest.start(frame)
                return guest
            except MemoryLimit as error:
                guest.close()
                if error.details.get("limit") != "memories" or shares >= MAX_MEMORIES:
                    raise
                linked.memories = max(
                    linked.memories, shares * 2
                )  # how many a component has is known only when it asks for them
            except BaseException:
                guest.close()
                raise

    def _compiled(self, component: bytes, digest: str, progress: Progress | None) -> Compiled:
        """The best form there is, or else the one that is made soonest."""
        found = self.cache.find(digest)
        if found is None and self._shared is not None:
            found = self._shared.find(digest) or self._shared.make(component, digest, progress=progress)
        return found or self.cache.compiled(component, sha256=digest, progress=progress)

    def close(self) -> None:
        """End every call, then the threads. A forked process has neither, and leaves those of the other alone."""
        if self.threads.forked:
            return
        self.threads.close()
        self._ticker.close()
