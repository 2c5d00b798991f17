"""The one engine of a sandbox and the thread that moves its epoch.

A host program that keeps a Python thread busy makes every guest call wait for the interpreter at each host function;
``sys.setswitchinterval(0.0005)`` shortens that wait tenfold. It is a setting of the whole process, so it is left to the
program.
"""

from __future__ import annotations

import hashlib
import json
import platform
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from wasmtime import Config, Engine, Module, WasmtimeError
from wasmtime.component import Component

from zeroclaw_host.sandbox import raw

EPOCH_SECONDS: Final = 0.005
"""Time between two epochs: how late a guest may notice its deadline."""

LINGER_SECONDS: Final = 1.0
"""Time for which the ticker goes on after the last guest left."""

SETTINGS: Final[Mapping[str, bool]] = {
    "consume_fuel": True,
    "epoch_interruption": True,
    # A shared memory escapes the store's limits, and an atomic wait sleeps where no epoch reaches it.
    "wasm_threads": False,
    "shared_memory": False,
    # No toolchain for this contract needs them; what is off cannot be attacked.
    "wasm_memory64": False,
    "wasm_gc": False,
    # With it, wasmtime 50.0.1 traps when a guest lends a host function two handles at once, as a poll of two does.
    "concurrency_support": False,
}
"""What both the compiling child and this process configure. Part of the key of every compiled artifact."""


CONCURRENT: Final[Mapping[str, bool]] = {**SETTINGS, "concurrency_support": True}
"""The same for components that import the component model's asynchronous built-ins, needed or not, as those of jco do."""


def new_engine(settings: Mapping[str, bool] = SETTINGS) -> Engine:
    """An engine with these settings."""
    config = Config()
    for name, value in settings.items():
        raw.configure(config, name, value)
    return Engine(config)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A component and the engine it can be used with.

    :param modules: core modules the host supplies, by the name under which the component imports them. None, unless the
        component was rewritten (:mod:`~zeroclaw_host.sandbox.compiling.sharing`).
    """

    component: Component
    engine: Engine
    modules: Mapping[str, Module] = field(default_factory=dict[str, Module])


class Engines:
    """The engine all components of a process share (PLG-101), and a second one, made when a component needs it."""

    def __init__(self) -> None:
        self.plain = new_engine()
        self._concurrent: Engine | None = None
        self._lock = threading.Lock()

    def concurrent(self) -> Engine:
        """The engine with :data:`CONCURRENT`."""
        with self._lock:
            if self._concurrent is None:
                self._concurrent = new_engine(CONCURRENT)
            return self._concurrent

    def open(self, path: str) -> Compiled:
        """Load an artifact into the engine it was compiled for. It must be one that can be trusted.

        :raises WasmtimeError: neither engine's.
        """
        try:
            return Compiled(Component.deserialize_file(self.plain, path), self.plain)
        except WasmtimeError:
            engine = self.concurrent()
            return Compiled(Component.deserialize_file(engine, path), engine)

    def open_component(self, path: str) -> Component:
        """Load an artifact into the plain engine alone. It must be one that can be trusted.

        :raises WasmtimeError: it is not of this engine, or not of a component.
        """
        return Component.deserialize_file(self.plain, path)

    def open_module(self, path: str) -> Module:
        """The same for the artifact of a core module.

        :raises WasmtimeError: it is not of this engine, or not of a core module.
        """
        return Module.deserialize_file(self.plain, path)

    def increment_epoch(self) -> None:
        """Move both epochs."""
        self.plain.increment_epoch()
        if self._concurrent is not None:
            self._concurrent.increment_epoch()


def fingerprint() -> str:
    """A digest of everything a compiled artifact depends on besides the component: release, settings, processor."""
    from importlib.metadata import version  # slow to import, and the compiling child needs none of it

    facts = {
        "wasmtime": version("wasmtime"),
        "settings": [dict(SETTINGS), dict(CONCURRENT)],
        "system": platform.system(),
        "machine": platform.machine(),
        "features": _processor_features(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _processor_features() -> str:
    """The instruction-set extensions of this processor, where the system tells them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    lines = (line.partition(":") for line in text.splitlines())
    return next((words.strip() for name, _, words in lines if name.strip() in ("flags", "Features")), "")


class EpochTicker:
    """Moves the engines' epoch while guests run, and a little longer; sleeps while none do.

    A little longer, because waking the thread costs a fifth of a short call, and calls come in series.
    """

    def __init__(
        self,
        engine: Engine | Engines,
        *,
        seconds: float = EPOCH_SECONDS,
        linger_seconds: float = LINGER_SECONDS,
    ) -> None:
        self._engine = engine
        self._seconds = seconds
        self._linger_ticks = round(linger_seconds / seconds)
        self._changed = threading.Condition()
        self._running = 0
        self._asleep = False
        self._closed = False
        self._thread = threading.Thread(target=self._tick, name="zeroclaw-epoch", daemon=True)
        self._thread.start()

    @contextmanager
    def guest(self) -> Generator[None]:
        """Keep ticking for the time of the block."""
        with self._changed:
            self._running += 1
            if self._asleep:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1

    def close(self) -> None:
        """Stop the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _tick(self) -> None:
        idle_ticks = 0
        with self._changed:
            while not self._closed:
                idle_ticks = 0 if self._running else idle_ticks + 1
                if idle_ticks > self._linger_ticks:
                    self._asleep = True
                    self._changed.wait()
                    self._asleep = False
                    continue
                self._engine.increment_epoch()
                self._changed.wait(self._seconds)
