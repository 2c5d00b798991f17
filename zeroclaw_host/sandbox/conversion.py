"""Two ways to carry values across the boundary, and the choice between them.

The compiled way is three to ten times as fast and stands on wasmtime-py's private structures. Before it is used, once
in a process, it has to prove itself on a component made for that; otherwise the stock way does the same work slowly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from importlib.metadata import version
from typing import Any, Final, Protocol

from wasmtime import Store, WasmtimeError
from wasmtime.component import Func, LinkerInstance

from zeroclaw_host.contract import FunctionType
from zeroclaw_host.sandbox import raw, stock
from zeroclaw_host.sandbox.codec import ExportCodec, ImportCodec, taken
from zeroclaw_host.sandbox.frame import CONVERTING, CallFrame, current_frame
from zeroclaw_host.sandbox.gate import HOST_FAILURE, Gated
from zeroclaw_host.sandbox.resources import ResourceTable
from zeroclaw_host.sandbox.selftest import codec_works, right_release

CallExport = Callable[[Func, Store, ResourceTable, tuple[object, ...]], object]
"""``(function, store, table, arguments) -> result``. Raises ValueMismatch before the call, WasmtimeError from it."""


class Conversion(Protocol):
    """A way to carry values across the boundary."""

    name: str

    def define(self, instance: LinkerInstance, name: str, gated: Gated, function: FunctionType) -> None:
        """Define a host function of this type in a linker."""
        ...

    def export(self, function: FunctionType) -> CallExport:
        """How to call a guest's function of this type."""
        ...

    def exclusively(self) -> AbstractContextManager[Any]:
        """Held around each stay in a guest."""
        ...


class CompiledConversion:
    """Own codecs on the C structures."""

    name = "compiled"

    def define(self, instance: LinkerInstance, name: str, gated: Gated, function: FunctionType) -> None:
        """See :meth:`Conversion.define`."""
        codec = ImportCodec(function)

        def callback(
            store: raw.Pointer, args: raw.Pointer, count: int, results: raw.Pointer, slots: int
        ) -> int:
            worked, _ = gated.pass_through(
                lambda frame: codec.arguments(frame.table, store, args, count),
                lambda frame, value: codec.result(frame.table, store, value, results, slots),
            )
            return 0 if worked else raw.give_error(HOST_FAILURE)

        raw.define_function(instance, name, callback)

    def export(self, function: FunctionType) -> CallExport:
        """See :meth:`Conversion.export`."""
        return ExportCodec(function).call

    def exclusively(self) -> AbstractContextManager[Any]:
        """Nothing: threads do not meet here."""
        return nullcontext()


class StockConversion:
    """wasmtime-py's own conversions, one guest at a time."""

    name = "stock"

    _lock: Final = threading.RLock()
    """The library's globals are the process's, so the lock is too."""

    def define(self, instance: LinkerInstance, name: str, gated: Gated, function: FunctionType) -> None:
        """See :meth:`Conversion.define`."""
        params = [stock.from_library(kind) for _, kind in function.params]
        result = None if function.result is None else stock.to_library(function.result)

        def callback(store: Any, *args: Any) -> Any:
            def arguments(frame: CallFrame) -> list[object]:
                return [param(frame.table, store, arg) for param, arg in zip(params, args, strict=True)]

            def deliver(frame: CallFrame, value: object) -> Any:
                return None if result is None else result(frame.table, store, value)

            worked, value = gated.pass_through(arguments, deliver)
            if not worked:
                raise WasmtimeError(HOST_FAILURE)
            return value

        instance.add_func(name, callback)

    def export(self, function: FunctionType) -> CallExport:
        """See :meth:`Conversion.export`."""
        params = [stock.to_library(kind) for _, kind in function.params]
        result = None if function.result is None else stock.from_library(function.result)

        def call(export: Func, store: Store, table: ResourceTable, values: tuple[object, ...]) -> object:
            args = [param(table, store, value) for param, value in zip(params, values, strict=True)]
            found = export(store, *args)
            current_frame().remaining(
                CONVERTING
            )  # the library reads lists to their end, however long that takes
            return None if result is None else taken(result, table, store, found)

        return call

    def exclusively(self) -> AbstractContextManager[Any]:
        """The process's lock."""
        return self._lock


@lru_cache(maxsize=1)
def best_conversion() -> Conversion:
    """The compiled way if it works with the wasmtime at hand, the stock way otherwise."""
    return CompiledConversion() if right_release(version("wasmtime")) and codec_works() else StockConversion()
