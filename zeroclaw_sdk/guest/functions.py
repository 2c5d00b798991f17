"""The contract's functions, read off the base classes that declare them.

A base class is the only list there is: each method that is a function of the contract carries a mark, its annotations say
what crosses the boundary, and whether a plugin's class defines the method itself is the capability flag.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final, TypeVar

from zeroclaw_sdk.guest.crossing import Crossing, crossing_of
from zeroclaw_sdk.guest.faults import DefinitionInvalid
from zeroclaw_sdk.guest.imported import encodable

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_MARK: Final = "__zeroclaw__"

_NEAR: Final = 0.88
"""How alike a method and a function of the contract are for the method to be taken for a slip of the pen: a letter too many or
two swapped, while `store_entries` is still a method of its own beside `store_entry`."""


class Fault(Enum):
    """What becomes of an exception in a function of the contract."""

    ANSWER = "answer"
    """The function's own error result carries its text."""
    FALSE = "false"
    """It is written to the log, and the answer is False."""
    END = "end"
    """The function has no way to say it: the instance ends, and the host reports the exception."""
    NONE = "none"
    """As END; but a :class:`CallError` is written to the log, and the answer is None."""
    WEBHOOK = "webhook"
    """As END; but a :class:`WebhookRejected` is the function's own error result."""


@dataclass(frozen=True)
class Mark:
    """What a base class says of one of its methods."""

    flags: tuple[str, ...] = ()
    """Capability flags that are set when a plugin defines the method; none: the host always calls it."""
    required: bool = False
    """Whether every plugin has to define it."""
    fault: Fault = Fault.ANSWER


def function(*flags: str, required: bool = False, fault: Fault = Fault.ANSWER) -> Callable[[F], F]:
    """Declare a method of a base class as a function of the contract."""

    def mark(method: F) -> F:
        setattr(method, _MARK, Mark(flags, required, fault))
        return method

    return mark


@dataclass(frozen=True)
class Function:
    """One function of the contract."""

    name: str
    mark: Mark
    parameters: Mapping[str, Crossing]
    result: Crossing


def functions_of(base: type) -> Mapping[str, Function]:
    """The functions a base class declares, by the name of their method."""
    found: dict[str, Function] = {}
    for name, method in vars(base).items():
        mark = getattr(method, _MARK, None)
        if isinstance(mark, Mark):
            where = f"{base.__name__}.{name}"
            hints = typing.get_type_hints(method, include_extras=True)
            result = crossing_of(hints.pop("return"), where)
            parameters = {each: crossing_of(hint, f"{where}: {each}") for each, hint in hints.items()}
            found[name] = Function(name, mark, parameters, result)
    return found


class Definition:
    """A plugin's class: its name, its capability flags, and the one instance that answers all calls.

    :param base: the class that declares the functions.
    :raises DefinitionInvalid: the class has no name, lacks a function, or has one that cannot be called as the contract
        calls it.
    """

    def __init__(self, base: type, cls: type) -> None:
        where = cls.__qualname__
        name: object = getattr(cls, "name", None)
        if not isinstance(name, str) or not name:
            raise DefinitionInvalid(f'{where}: set `name = "..."` on the class')
        self.cls = cls
        self.name = encodable(name)
        self.functions = functions_of(base)
        self.defined = frozenset(
            each for each in self.functions if getattr(cls, each) is not getattr(base, each)
        )
        """The functions that the plugin's class defines itself."""
        own = _own_methods(base, cls) - self.functions.keys()
        for each in self.functions.values():
            near = get_close_matches(each.name, own, 1, _NEAR)
            if each.name in self.defined:
                _callable(cls, each)
            elif each.mark.required:
                meant = f"; did you mean that by `{near[0]}`?" if near else ""
                raise DefinitionInvalid(f"{where}: define `{each.name}`{meant}")
            elif near:
                raise DefinitionInvalid(
                    f"{where}.{near[0]} is never called by the host: write `{each.name}`, or begin the name of a method of "
                    "your own with an underscore"
                )
        self.flags = frozenset(flag for each in self.defined for flag in self.functions[each].mark.flags)
        """The capability flags, in the contract's words."""
        self._instance: object | None = None

    @property
    def instance(self) -> object:
        """The one instance."""
        if self._instance is None:
            self._instance = self.cls()
        return self._instance

    def call(self, name: str, *arguments: object) -> Any:
        """Call a function on the one instance, which is made for the first call; the checked result.

        :raises AnswerInvalid: the result has no place in the contract.
        :raises Exception: whatever the author's code raised.
        """
        result: object = getattr(self.instance, name)(*arguments)
        return self.functions[name].result.check(result, f"{self.cls.__qualname__}.{name} returned")


def _own_methods(base: type, cls: type) -> set[str]:
    """The public methods that an author's classes bring with them."""
    return {
        name
        for each in cls.__mro__
        if each is not base and issubclass(each, base)
        for name, value in vars(each).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }


def _callable(cls: type, function: Function) -> None:
    where = f"{cls.__qualname__}.{function.name}"
    method = getattr(cls, function.name)
    if not inspect.isfunction(method):
        raise DefinitionInvalid(f"{where} must be a method")
    if inspect.iscoroutinefunction(method) or inspect.isgeneratorfunction(method):
        raise DefinitionInvalid(f"{where} must be a plain function, neither `async` nor a generator")
    try:
        inspect.signature(method).bind(None, *function.parameters)
    except TypeError:
        raise DefinitionInvalid(
            f"{where} must take (self, {', '.join(function.parameters)})"
            if function.parameters
            else f"{where} must take nothing but self"
        ) from None
