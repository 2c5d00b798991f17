"""The base class of a tool plugin."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final, NoReturn, cast

from zeroclaw_sdk.guest import log
from zeroclaw_sdk.guest.annotations import (
    described,
    hints_of,
    is_dataclass_type,
    json_form,
    object_of,
    shape_of,
)
from zeroclaw_sdk.guest.config import config_class
from zeroclaw_sdk.guest.docs import parameter_texts, summary
from zeroclaw_sdk.guest.faults import ArgumentsInvalid, DefinitionInvalid, ToolError
from zeroclaw_sdk.guest.shapes import MISSING, Member, Object

CONFIG_MEMBER: Final = "__config"
"""The member of the arguments object in which the host hands over public configuration."""


class Tool:
    """A function the model can call. A plugin defines one subclass::

        class Hello(Tool):
            name = "hello"
            description = "Greets somebody."

            def run(self, name: str, excited: bool = False) -> str:
                return f"Hello, {name}{'!' if excited else '.'}"

    The parameters of :meth:`run` are the parameters the model sees: their annotations give the JSON Schema, their
    defaults make them optional, and docstrings describe them. A single parameter that is a dataclass stands for all
    parameters at once.

    Every call gets a new instance in a sandbox of its own, so nothing an instance or a module remembers outlives a
    call. A subclass that annotates ``config`` with a dataclass finds its configuration there
    (:mod:`zeroclaw_sdk.guest.config`).
    """

    name: ClassVar[str] = ""
    """The name the model calls it by."""
    description: ClassVar[str] = ""
    """What it does, for the model. The class's docstring when left out."""
    config: Any = None

    def run(self, *arguments: Any, **named: Any) -> object:
        """Do the work. Subclasses define it with their own parameters.

        A text is the output as it is; a dataclass, a mapping, a list, a number or a boolean becomes JSON; None becomes
        an empty output. Raise :class:`ToolError` for a failure the model should read.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Outcome:
    """What a call ended with: ``error`` says what failed when ``success`` is false."""

    success: bool
    output: str
    error: str | None = None


class ToolDefinition:
    """Everything there is to know about a tool class, derived once.

    :raises DefinitionInvalid: the class has no name, no usable ``run``, or an annotation without a JSON form.
    """

    def __init__(self, cls: type[Tool]) -> None:
        where = cls.__qualname__
        if not cls.name:
            raise DefinitionInvalid(f'{where}: set `name = "..."` on the class')
        if cls.run is Tool.run:
            raise DefinitionInvalid(f"{where}: define `run`")
        if inspect.iscoroutinefunction(cls.run):
            raise DefinitionInvalid(f"{where}.run must be a plain function, not `async def`")
        self.cls = cls
        self.name = cls.name
        self.function = f"{where}.run"
        self.description = cls.description or summary(cls)
        self.config = config_class(cls)
        self._parameters, self._invoke = _parameters(cls)

    @property
    def parameters_schema(self) -> Mapping[str, object]:
        """The JSON Schema of the arguments object."""
        return self._parameters.schema()

    def call(self, arguments: str) -> Outcome:
        """Run the tool once.

        :param arguments: a JSON object as text; the host's ``__config`` member is taken out of it.
        :returns: an outcome without success where the arguments do not fit or the author raised ToolError.
        :raises Exception: whatever else the author's code raised, and ConfigInvalid.
        """
        try:
            given = _decode(arguments)
            values = given.pop(CONFIG_MEMBER, {})
            problems: list[str] = []
            typed = self._parameters.read(given, "", problems)
            if problems:
                raise ArgumentsInvalid(problems)
            tool = self.cls()
            if self.config is not None:
                tool.config = self.config.read(cast("Mapping[str, object]", values))
            return Outcome(True, _output(self._invoke(tool, typed)))
        except ToolError as error:
            log.warn(
                f"{self.name} refused the call",
                action=log.Action.REJECT,
                outcome=log.Outcome.FAILURE,
                function=self.function,
            )
            return Outcome(False, "", str(error) or type(error).__name__)


def _parameters(cls: type[Tool]) -> tuple[Object, Callable[[Tool, Any], object]]:
    """The shape of the arguments, and how ``run`` is called with the value read by it."""
    where = f"{cls.__qualname__}.run"
    parameters = list(inspect.signature(cls.run).parameters.values())[1:]
    hints = hints_of(cls.run, where)
    if len(parameters) == 1 and is_dataclass_type(only := hints.get(parameters[0].name)):
        return object_of(only), lambda tool, value: tool.run(value)
    texts = parameter_texts(cls) | parameter_texts(cls.run)
    members: list[Member] = []
    for each in parameters:
        if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            raise DefinitionInvalid(f"{where}: parameter {each.name} cannot be given by name")
        if each.name not in hints:
            raise DefinitionInvalid(f"{where}: parameter {each.name} has no annotation")
        shape = described(shape_of(hints[each.name], f"{where}: parameter {each.name}"), texts.get(each.name))
        absent = each.default is inspect.Parameter.empty
        members.append(
            Member(each.name, shape, MISSING if absent else json_form(each.default), optional=not absent)
        )
    return Object(tuple(members)), lambda tool, value: tool.run(**value)


def _decode(arguments: str) -> dict[str, Any]:
    try:
        value: object = json.loads(arguments, parse_constant=_no_constant)
    except ValueError as error:
        raise ArgumentsInvalid([f"the arguments are not JSON: {error}"]) from None
    if not isinstance(value, dict):
        raise ArgumentsInvalid(["the arguments must be a JSON object"])
    return cast("dict[str, Any]", value)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON value")


def _output(value: object) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case _:
            return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: object) -> object:
    if is_dataclass_type(type(value)):
        return asdict(cast(Any, value))
    if isinstance(value, set | frozenset):
        return sorted(cast("typing.AbstractSet[Any]", value))
    raise TypeError(f"run returned a {type(value).__name__}, which has no JSON form")
