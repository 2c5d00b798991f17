"""A guest in a store of its own: bounded from its first instruction, closed on every path."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from wasmtime import Store, WasiConfig, WasmtimeError
from wasmtime.component import Instance

from zeroclaw_host.errors import PluginError, PluginUnavailable
from zeroclaw_host.sandbox import raw
from zeroclaw_host.sandbox.conversion import Conversion
from zeroclaw_host.sandbox.engine import EpochTicker
from zeroclaw_host.sandbox.fault import explain
from zeroclaw_host.sandbox.frame import CallFrame, entered
from zeroclaw_host.sandbox.gate import check_deadline
from zeroclaw_host.sandbox.limits import MAX_TABLES, Limits
from zeroclaw_host.sandbox.linker import LinkedComponent
from zeroclaw_host.sandbox.resources import ResourceTable

_ON_EPOCH: Final = raw.epoch_callback(check_deadline)


class Guest:
    """One instance of a component. Not for two threads at once, never for the main thread or an event loop.

    After any failed call the guest is dead: the store's state is whatever the trap left, and is never entered again.
    """

    def __init__(
        self,
        ticker: EpochTicker,
        conversion: Conversion,
        linked: LinkedComponent,
        limits: Limits,
        table: ResourceTable,
    ) -> None:
        self._ticker = ticker
        self._conversion = conversion
        self._form = linked.form
        self._limits = limits
        self._table = table
        self._instance: Instance | None = None
        self._store = Store(self._form.compiled.engine)
        self._store.set_limits(
            # wasmtime bounds each memory by itself; with shares the operator's ceiling is that of the sum.
            memory_size=limits.max_memory_bytes // linked.memories,
            table_elements=limits.max_table_elements,
            instances=limits.max_instances,
            tables=MAX_TABLES,
            memories=linked.memories,
        )
        self._store.set_wasi(WasiConfig())  # nothing preopened, inherited or allowed
        raw.on_epoch(self._store, _ON_EPOCH)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def start(self, frame: CallFrame) -> None:
        """Instantiate the component, which may run code of it.

        :raises PluginError: that failed.
        """
        with self._conversion.exclusively(), entered(frame), self._ticker.guest():
            self._refuel()
            try:
                self._instance = self._form.linker.instantiate(self._store, self._form.compiled.component)
                return
            except WasmtimeError as error:
                failure = explain(error, frame)
        raise failure  # out here, so that its own cause stays the one it has

    def call(self, frame: CallFrame, interface: str, function: str, *arguments: object) -> object:
        """Call one exported function with a fresh budget of fuel.

        :param interface: without version, ``zeroclaw:plugin/tool``.
        :raises PluginError: the call ended without a result; the guest is dead.
        :raises ValueMismatch: an argument does not have its type.
        """
        instance = self._instance
        if instance is None:
            raise PluginUnavailable("plugin instance is unavailable")
        export = self._form.exports[interface, function]
        with self._conversion.exclusively(), entered(frame), self._ticker.guest():
            self._refuel()
            try:
                target = instance.get_func(self._store, export.index)
                assert target is not None, "compared at load"
                return export.call(target, self._store, self._table, arguments)
            except WasmtimeError as error:
                self._instance = None
                failure = explain(error, frame)
            except PluginError:
                self._instance = None  # its answer is more than the host takes
                raise
        raise failure

    @property
    def alive(self) -> bool:
        """Whether another call may be made."""
        return self._instance is not None

    def fuel_left(self) -> int:
        """Units of work left of the last call's budget."""
        return self._store.get_fuel()

    def close(self) -> None:
        """Drop the store, then everything the guest still held of the host. May be called twice."""
        self._instance = None
        self._store.close()
        self._table.close()

    def _refuel(self) -> None:
        self._store.set_fuel(self._limits.call_fuel)
        self._store.set_epoch_deadline(1)
