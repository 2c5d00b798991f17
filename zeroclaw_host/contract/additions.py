"""What was added to an interface after components for it were already about.

An optional function arrives as a flag and a function, and a component that was built before has neither. It still loads,
and the host treats the flag as one that is not set (PLG-037, D-09). Nothing else may differ from the contract.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Final

from zeroclaw_host.contract.types import FlagsType, FunctionType, InterfaceType


@dataclass(frozen=True, slots=True)
class Addition:
    """One label and its functions, without which an interface was once complete.

    :param interface: without version.
    :param label: the last one of the interface's flags at that time.
    :param functions: those that mean something only with the flag.
    """

    interface: str
    label: str
    functions: tuple[str, ...]


ADDITIONS: Final = (
    Addition("zeroclaw:plugin/channel", "webhook-ingress", ("webhook-path", "parse-webhook")),
)  # fmt: skip
"""In the order in which they were added; the next one goes to the end."""


def as_built(interface: InterfaceType, exported: Container[str]) -> InterfaceType:
    """The interface as it was when a component that exports these functions of it was built.

    :param exported: the names of the functions that the component exports.
    :returns: the interface without the latest additions of which the component has no function at all. That it has not the
        labels either is for the comparison to find out.
    """
    for addition in reversed(ADDITIONS):
        if addition.interface != interface.name:
            continue
        if any(function in exported for function in addition.functions):
            break
        interface = _without(interface, addition)
    return interface


def _without(interface: InterfaceType, addition: Addition) -> InterfaceType:
    functions = {
        name: _without_label(function, addition.label)
        for name, function in interface.functions.items()
        if name not in addition.functions
    }
    return replace(interface, functions=functions)


def _without_label(function: FunctionType, label: str) -> FunctionType:
    """The function that reads the flags, with flags that lack the label; any other as it is."""
    match function.result:
        case FlagsType((*earlier, last)) if last == label:
            return replace(function, result=FlagsType(tuple(earlier)))
        case _:
            return function
