"""The sandbox: one engine, its cache of compiled components, and the threads guests run on."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from wasmtime import Engine

from zeroclaw_host.errors import MemoryLimit
from zeroclaw_host.sandbox.cache import ComponentCache
from zeroclaw_host.sandbox.compile import CompileLimits, Progress
from zeroclaw_host.sandbox.conversion import Conversion, best_conversion
from zeroclaw_host.sandbox.engine import Engines, EpochTicker
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
    :param conversion: how values cross the boundary; the best one that works when left out.
    :raises StorageError: the cache directory cannot be used.
    """

    def __init__(
        self,
        cache_dir: Path,
        *,
        threads: int = DEFAULT_THREADS,
        compile_limits: CompileLimits | None = None,
        conversion: Conversion | None = None,
    ) -> None:
        self._engines = Engines()
        self.cache = ComponentCache(cache_dir, self._engines, limits=compile_limits)
        self.conversion = best_conversion() if conversion is None else conversion
        self.threads = GuestThreads(threads)
        self._ticker = EpochTicker(self._engines)
        self._linking = threading.Lock()

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
        compiled = self.cache.compiled(component, sha256=sha256, progress=progress)
        with self._linking:
            return link(compiled.engine, compiled.component, surface, self.conversion)

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

    def close(self) -> None:
        """End every call, then the threads."""
        self.threads.close()
        self._ticker.close()
