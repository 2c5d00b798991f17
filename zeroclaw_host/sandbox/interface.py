"""How the rooms above describe what they offer a guest.

The sandbox knows no interface by heart. An import room writes plain functions over plain values (see
:mod:`zeroclaw_host.sandbox.values`) and describes them here; the gate wraps each of them exactly once.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class HostFunction:
    """One function a guest can call.

    :param name: exactly as the component's import has it: ``get``, ``[method]pollable.block``, ``[static]fields.from-list``.
    :param implementation: called as ``implementation(frame, *values)``; returns the result's value, ``None`` where the
        function has no result. Whatever it raises ends the guest call and reaches the caller of the plugin.
    :param charged: whether a call counts against the frame's budget of host calls (PLG-024).
    :param exhausted: the result once that budget is spent.
    """

    name: str
    implementation: Callable[..., object]
    charged: bool = False
    exhausted: object = None


@dataclass(frozen=True, slots=True)
class HostInterface:
    """One interface of the host.

    :param name: without version, ``wasi:io/poll``.
    :param functions: by function name.
    :param resources: the Python class behind each resource the interface defines, by the resource's WIT name. An object
        of a subclass will do as well. Dropping a handle calls the object's ``close`` where it has one.
    """

    name: str
    functions: Mapping[str, HostFunction]
    resources: Mapping[str, type] = field(default_factory=dict[str, type])


def interface(
    name: str, *functions: HostFunction, resources: Mapping[str, type] | None = None
) -> HostInterface:
    """An interface from its functions."""
    return HostInterface(name, {function.name: function for function in functions}, dict(resources or {}))


_ids: dict[str, int] = {}
_next_id: Final = itertools.count(1)
_lock: Final = threading.Lock()


def resource_id(qualified: str) -> int:
    """The number under which wasmtime knows a host resource, ``wasi:io/poll#pollable``. Stable within the process."""
    with _lock:
        found = _ids.get(qualified)
        if found is None:
            found = _ids[qualified] = next(_next_id)
        return found
