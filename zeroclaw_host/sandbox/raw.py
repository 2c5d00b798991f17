"""The private names of wasmtime-py that the compiled codec stands on, in one place.

wasmtime-py converts values by asking the C API for their types again on every call, element by element. The codec
replaces that, and needs the C structures to do so. They are private and may change with any release; hence the exact
version in ``pyproject.toml``, the self-test of :mod:`zeroclaw_host.sandbox.conversion`, and the stock path beside it.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from ctypes import CFUNCTYPE, byref, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from wasmtime import Config, Engine, Store, WasmtimeError, _bindings  # pyright: ignore[reportPrivateUsage]
from wasmtime import _ffi as _typed_ffi  # pyright: ignore[reportPrivateUsage]
from wasmtime.component import Func, FuncType, LinkerInstance
from wasmtime.component import _types as wasm_types  # pyright: ignore[reportPrivateUsage]

ffi: Final[Any] = _typed_ffi  # its own annotations say nothing of what pointers point to

Value: Final[Any] = ffi.wasmtime_component_val_t
"""``wasmtime_component_val_t``: a kind and a union."""

Name: Final[Any] = ffi.wasm_name_t
RecordEntry: Final[Any] = ffi.wasmtime_component_valrecord_entry_t

VALUE_SIZE: Final = ctypes.sizeof(Value)
PAYLOAD_OFFSET: Final[int] = Value.of.offset
KIND_OFFSET: Final[int] = Value.kind.offset

Pointer = Any
"""A ctypes pointer or structure; the C API is untyped from here on."""


def kind(name: str) -> int:
    """The number of a value kind, by its name in the C header, such as ``STRING``."""
    number: int = getattr(ffi, f"WASMTIME_COMPONENT_{name}").value
    return number


def configure(config: Config, name: str, value: bool) -> None:
    """Switch one of the engine's features, by its name in the C API; not all of them have a public setter.

    :raises AttributeError: this wasmtime has no such switch. Better no engine than one with a feature left on.
    """
    getattr(ffi, f"wasmtime_config_{name}_set")(config.ptr(), value)


def import_count(kind: wasm_types.ComponentType, engine: Engine) -> int:
    """How many imports a component has, without looking at them: that takes time in the square of their number."""
    count: int = ffi.wasmtime_component_type_import_count(kind.ptr(), engine.ptr())
    return count


def export_count(kind: wasm_types.ComponentType | wasm_types.ComponentInstanceType, engine: Engine) -> int:
    """The same for the exports of a component or an instance."""
    what = "component" if isinstance(kind, wasm_types.ComponentType) else "component_instance"
    count: int = getattr(ffi, f"wasmtime_{what}_type_export_count")(kind.ptr(), engine.ptr())
    return count


def is_async(function: FuncType) -> bool:
    """Whether a function's type says that it may be waited for."""
    return bool(ffi.wasmtime_component_func_type_async(function.ptr()))


def _direct(name: str) -> Any:
    """A C function without the Python function that the library puts around it."""
    return getattr(_bindings, f"_{name}")


new_bytes: Final[Callable[[Pointer, int], None]] = _direct("wasm_byte_vec_new_uninitialized")
new_list: Final[Callable[[Pointer, int], None]] = _direct("wasmtime_component_vallist_new_uninit")
new_tuple: Final[Callable[[Pointer, int], None]] = _direct("wasmtime_component_valtuple_new_uninit")
new_record: Final[Callable[[Pointer, int], None]] = _direct("wasmtime_component_valrecord_new_uninit")
new_flags: Final[Callable[[Pointer, int], None]] = _direct("wasmtime_component_valflags_new_uninit")
box: Final[Callable[[Pointer], Pointer]] = _direct("wasmtime_component_val_new")
delete_value: Final[Callable[[Pointer], None]] = _direct("wasmtime_component_val_delete")


_pointer_to: Final[Callable[[Any], Any]] = ctypes.POINTER
_HostPointer: Final[Any] = _pointer_to(ffi.wasmtime_component_resource_host_t)
_AnyPointer: Final[Any] = _pointer_to(ffi.wasmtime_component_resource_any_t)


def handle_of(store: Pointer, value: Pointer) -> int:
    """The number of the host resource behind a resource value.

    A borrow must be turned into its host form by whoever received it; otherwise wasmtime counts it as still lent when
    the call returns, and traps.
    """
    host = _HostPointer()
    error = ffi.wasmtime_component_resource_any_to_host(store, value.of.resource, byref(host))
    if error:
        raise error_from(error)
    try:
        number: int = ffi.wasmtime_component_resource_host_rep(host)
        return number
    finally:
        ffi.wasmtime_component_resource_host_delete(host)


def own_handle(store: Pointer, number: int, resource_type: int) -> Pointer:
    """A resource value's payload: an owned handle to the host resource of that number."""
    host = ffi.wasmtime_component_resource_host_new(True, number, resource_type)
    anything = _AnyPointer()
    error = ffi.wasmtime_component_resource_host_to_any(store, host, byref(anything))
    ffi.wasmtime_component_resource_host_delete(host)
    if error:
        raise error_from(error)
    return anything


def error_from(pointer: Pointer) -> WasmtimeError:
    """The exception that owns an error of the C API."""
    return WasmtimeError._from_ptr(pointer)  # pyright: ignore[reportPrivateUsage]


def give_error(message: str) -> int:
    """A new error of the C API, as the address a callback returns."""
    error = WasmtimeError(message)
    address = ctypes.cast(error._consume(), c_void_p).value  # pyright: ignore[reportPrivateUsage]
    assert address is not None
    return address


Callback = Callable[[Pointer, Pointer, int, Pointer, int], int]
"""``(store, arguments, count, results, result count) -> 0 or the address of an error``. Never raises."""

_callbacks: Final[dict[int, Callback]] = {}
_numbers: Final = itertools.count(1)


@ffi.wasmtime_component_func_callback_t
def _call(data: Any, store: Any, _type: Any, args: Any, count: Any, results: Any, result_count: Any) -> int:
    return _callbacks[data](store, args, count, results, result_count)


@CFUNCTYPE(None, c_void_p)
def _forget(data: Any) -> None:
    _callbacks.pop(data, None)


def define_function(instance: LinkerInstance, name: str, callback: Callback) -> None:
    """Define a host function on raw values. The callback lives as long as the linker and the stores made from it."""
    encoded = name.encode()
    number = next(_numbers)
    _callbacks[number] = callback
    error = ffi.wasmtime_component_linker_instance_add_func(
        instance.ptr(), ctypes.create_string_buffer(encoded), len(encoded), _call, number, _forget
    )
    if error:
        raise error_from(error)


def live_callbacks() -> int:
    """How many host functions are defined in live linkers of this process; a test watches that it does not grow."""
    return len(_callbacks)


def store_context(store: Store) -> Pointer:
    """The store as the C API's functions take it."""
    return store._context()  # pyright: ignore[reportPrivateUsage]


def call_function(function: Func, store: Store, args: Pointer, count: int, result: Pointer | None) -> None:
    """Call an export on raw values.

    :raises WasmtimeError: the guest trapped, or a host function it called failed.
    """
    raw = function._func  # pyright: ignore[reportPrivateUsage]
    slot, slots = (None, 0) if result is None else (byref(result), 1)
    error = ffi.wasmtime_component_func_call(byref(raw), store_context(store), args, count, slot, slots)
    if error:
        raise error_from(error)


_UPDATE_DEADLINE_CONTINUE: Final = 0
_EpochCallback: Final[Any] = CFUNCTYPE(
    ctypes.c_size_t,
    _pointer_to(ffi.wasmtime_context_t),
    c_void_p,
    _pointer_to(ctypes.c_uint64),
    _pointer_to(ctypes.c_uint8),
)
_NO_FINALIZER: Final[Any] = CFUNCTYPE(None, c_void_p)(0)


def epoch_callback(check: Callable[[], str | None]) -> Pointer:
    """A callback for :func:`on_epoch`. ``check`` never raises; it returns why the guest must stop, or None."""

    def callback(_store: Any, _data: Any, delta: Any, update: Any) -> int:
        reason = check()
        if reason is not None:
            return give_error(reason)
        delta[0] = 1
        update[0] = _UPDATE_DEADLINE_CONTINUE
        return 0

    return _EpochCallback(callback)


def on_epoch(store: Store, callback: Pointer) -> None:
    """Call back at the next epoch tick of the store's guest, and at each one after. The caller keeps the callback."""
    ffi.wasmtime_store_epoch_deadline_callback(store.ptr(), callback, None, _NO_FINALIZER)
    store.set_epoch_deadline(1)


def strides(values: Pointer, count: int) -> memoryview:
    """The memory of an array of values, as bytes to slice with a stride of one value."""
    size = count * VALUE_SIZE
    return memoryview((ctypes.c_uint8 * size).from_address(ctypes.addressof(values.contents))).cast("B")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A value together with the case that it is of, for a type whose cases the library does not tag."""

    case: str
    content: object


@cache
def library_takes_chosen() -> bool:
    """Have the library's own conversion take a :class:`Chosen`; whether that is possible with the release at hand.

    Left to itself it asks case by case whether the value's class will do, and so takes a boolean for an integer and
    anything at all for a case that may be None. The change is the process's, and touches no value of another class.
    """
    owner: Any = getattr(wasm_types, "VariantLikeType", None)
    by_class = getattr(owner, "_lower", None)
    if by_class is None or not hasattr(owner, "_cases"):
        return False

    def by_name(self: Any, store: Any, value: Any) -> tuple[str, Any]:
        if not isinstance(value, Chosen):
            return by_class(self, store, value)
        for name, kind in self._cases():
            if name == value.case and kind is None:
                return name, None
            if name == value.case:
                payload = Value()
                kind.convert_to_c(store, value.content, ctypes.pointer(payload))
                return name, box(byref(payload))
        raise ValueError("the type has no such case")

    owner._lower = by_name
    return True
