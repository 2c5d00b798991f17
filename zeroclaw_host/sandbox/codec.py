"""Whole functions across the boundary, converted by code compiled once per function.

Types come from the contract, with which the component was compared before: what is converted here has the type the
contract says, not one that the component chose.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref
from typing import TypeVar

from wasmtime import Store
from wasmtime.component import Func

from zeroclaw_host.contract import FunctionType
from zeroclaw_host.errors import GuestFailure
from zeroclaw_host.sandbox import raw
from zeroclaw_host.sandbox.lifting import lifter
from zeroclaw_host.sandbox.lowering import lowerer
from zeroclaw_host.sandbox.resources import ResourceTable
from zeroclaw_host.sandbox.values import ValueMismatch

T = TypeVar("T")


def taken(lift: Callable[..., T], *value: object) -> T:
    """A guest's result, read. A mismatch here is the guest's, not that of an argument: the caller must be able to tell them apart.

    :raises GuestFailure: it does not have its type.
    """
    try:
        return lift(*value)
    except ValueMismatch as error:
        raise GuestFailure(
            f"the plugin's answer does not have the type that the contract says: {error}"
        ) from error


class ImportCodec:
    """Arguments and result of a function the host offers."""

    def __init__(self, function: FunctionType) -> None:
        self._lifts = [lifter(kind) for _, kind in function.params]
        self._lower = None if function.result is None else lowerer(function.result)

    def arguments(
        self, table: ResourceTable, store: raw.Pointer, args: raw.Pointer, count: int
    ) -> list[object]:
        """The guest's arguments.

        :raises ValueMismatch: they are not what the contract says.
        """
        if count != len(self._lifts):
            raise ValueMismatch(f"{count} arguments came where {len(self._lifts)} belong")
        return [lift(table, store, args[index]) for index, lift in enumerate(self._lifts)]

    def result(
        self, table: ResourceTable, store: raw.Pointer, value: object, out: raw.Pointer, count: int
    ) -> None:
        """Hand the result to the guest.

        :raises ValueMismatch: the value is not what the contract says.
        """
        if self._lower is None:
            if value is not None:
                raise ValueMismatch("the function has no result")
        elif count != 1:
            raise ValueMismatch("the guest expects no result")
        else:
            self._lower(table, store, value, out[0])


class ExportCodec:
    """Arguments and result of a function a guest offers."""

    def __init__(self, function: FunctionType) -> None:
        self._lowers = [lowerer(kind) for _, kind in function.params]
        self._lift = None if function.result is None else lifter(function.result)

    def call(self, function: Func, store: Store, table: ResourceTable, values: tuple[object, ...]) -> object:
        """Call the guest.

        :raises ValueMismatch: an argument does not have its type; the guest was not called.
        :raises WasmtimeError: the call trapped.
        :raises PluginError: its result cannot be taken.
        """
        if len(values) != len(self._lowers):
            raise ValueMismatch(f"{len(values)} arguments were given where {len(self._lowers)} belong")
        context = raw.store_context(store)
        args = (raw.Value * len(values))()
        result = None if self._lift is None else raw.Value()
        try:
            for index, lower in enumerate(self._lowers):
                lower(table, context, values[index], args[index])
            raw.call_function(function, store, args, len(values), result)
            return None if self._lift is None else taken(self._lift, table, context, result)
        finally:
            for arg in args:
                raw.delete_value(byref(arg))
            if result is not None:
                raw.delete_value(byref(result))
