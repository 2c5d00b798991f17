"""Interfaces that exist so that a guest links, and refuse whatever it asks of them.

Their functions are read from the contract, not listed by hand: what answers with a result answers with the refusal. What
cannot answer that way belongs to resources that nobody can ever get, since every function that would make one refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zeroclaw_host.contract import contract
from zeroclaw_host.contract.types import ResultType
from zeroclaw_host.imports.wasi.streams import broken_rule
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction, HostInterface
from zeroclaw_host.sandbox.values import Err

Implementation = Callable[..., object]


def refusing(
    name: str,
    *,
    error: str,
    resources: Mapping[str, type] | None = None,
    answers: Mapping[str, Implementation] | None = None,
) -> HostInterface:
    """An interface of the contract that refuses.

    :param name: without version.
    :param error: the case of the interface's ``error-code`` every refusal carries.
    :param resources: the class behind each resource the interface defines.
    :param answers: functions that have something better to say, by name.
    """
    given = answers or {}

    def refuse(frame: CallFrame, *values: object) -> Err:
        return Err(error)

    def implementation(function: str, refusable: bool) -> Implementation:
        return given.get(function) or (refuse if refusable else _unreachable(f"{name}#{function}"))

    functions = {
        function: HostFunction(
            function, implementation(function, refusable=isinstance(signature.result, ResultType))
        )
        for function, signature in contract().interface(name).functions.items()
    }
    return HostInterface(name, functions, dict(resources or {}))


def _unreachable(function: str) -> Implementation:
    def unreachable(frame: CallFrame, *values: object) -> object:
        raise broken_rule(f"{function} was called on a resource that cannot exist")

    return unreachable
