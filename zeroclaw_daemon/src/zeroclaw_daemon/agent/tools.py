"""The tools of an agent, by name. Whatever goes wrong with a call becomes words for the model, and the turn goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, cast

import jsonschema_rs

from zeroclaw_daemon.agent.asking import AnswerUnusable, CannotAsk, QuestionFailed
from zeroclaw_daemon.agent.messages import ToolCall
from zeroclaw_daemon.agent.providers.base import ToolSpec
from zeroclaw_daemon.records import record
from zeroclaw_daemon.strict_json import JsonValue, NotJson
from zeroclaw_host.errors import GuestFailure, PluginError, ZeroclawError
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.kinds import Tool, ToolResult

_MAX_VIOLATIONS: Final = 5
"""How many faults of its arguments the model is told at once."""

_MAX_FAULT_CHARACTERS: Final = 300
"""Of one fault. What is wrong is told with the argument in it, which may be as large as a line."""

_MAX_NAME_CHARACTERS: Final = 100
"""Of the name of a tool that there is not: a model makes it up."""

_MAX_EVIDENCE_LINES: Final = 12
"""How much of a plugin's traceback or output goes into the conversation, where every line costs."""

_NO_BUSINESS_OF_THE_OPERATOR: Final = (GuestFailure, CannotAsk, QuestionFailed, AnswerUnusable)
"""A tool's own answer, if a sad one, and what became of a question to the person at the client."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A tool, and arguments that fit its schema."""

    tool: Tool
    arguments: Mapping[str, JsonValue] = field(repr=False)

    async def run(self, call_site: CallSite) -> ToolResult:
        """Run the tool once. Never raises for what it did wrong: the result says it, with its causes."""
        try:
            return await self.tool.execute(self.arguments, call_site=call_site)
        except ZeroclawError as error:
            _log_failure(self.tool, error)
            return _failure(_told(error))
        except Exception as error:
            # Tools come from anywhere; one that breaks its promise fails alone.
            logger.exception("the tool %s failed unexpectedly", self.tool.name)
            return _failure(f"the tool failed unexpectedly ({type(error).__name__})")


class ToolRegistry:
    """Tools by name.

    :raises ValueError: two tools have one name.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._validators: dict[str, jsonschema_rs.Draft202012Validator] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ValueError(f"two tools are named {tool.name}")
            self._tools[tool.name] = tool

    def limited(self, allows: Callable[[str], bool]) -> ToolRegistry:
        """Only those whose names are allowed: the model hears of no other, and a call of another is a call of nothing. The
        same registry where all are allowed; it keeps compiled schemas.
        """
        allowed = [tool for name, tool in self._tools.items() if allows(name)]
        if len(allowed) == len(self._tools):
            return self
        limited = ToolRegistry(allowed)
        limited._validators = self._validators
        return limited

    @property
    def names(self) -> tuple[str, ...]:
        """The names, sorted."""
        return tuple(sorted(self._tools))

    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told, sorted by name."""
        tools = (self._tools[name] for name in self.names)
        return tuple(ToolSpec(tool.name, tool.description, tool.parameters_schema) for tool in tools)

    def checked(self, call: ToolCall) -> CheckedCall | ToolResult:
        """A call that can be made; or why it cannot, in words for the model."""
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self.names) or "none"
            return _failure(
                f"there is no tool {_cut(call.name, _MAX_NAME_CHARACTERS)}; the tools are: {known}"
            )
        try:
            arguments = call.parsed()
        except NotJson as error:
            return _failure(f"the arguments are not valid JSON: {error}")
        if not isinstance(arguments, dict):
            return _failure("the arguments must be a JSON object")
        if complaint := self._complaint(tool, arguments):
            return _failure(complaint)
        return CheckedCall(tool, cast("dict[str, JsonValue]", arguments))

    def _complaint(self, tool: Tool, arguments: JsonValue) -> str | None:
        """What is wrong with these arguments, or None."""
        try:
            validator = self._validator(tool)
        except ValueError as error:
            return (
                f"the tool {tool.name} cannot be called: its parameter schema is not usable ({error.args[0]})"
            )
        # One more than are told: whether there are further ones is worth saying, and to count them all is not.
        found = list(islice(validator.iter_errors(arguments), _MAX_VIOLATIONS + 1))
        if not found:
            return None
        faults = [
            _cut(
                f"{'.'.join(map(str, fault.instance_path)) or 'the object'}: {fault.message}",
                _MAX_FAULT_CHARACTERS,
            )
            for fault in found[:_MAX_VIOLATIONS]
        ]
        further = "; and more" if len(found) > _MAX_VIOLATIONS else ""
        return f"the arguments do not fit: {'; '.join(faults)}{further}"

    def _validator(self, tool: Tool) -> jsonschema_rs.Draft202012Validator:
        validator = self._validators.get(tool.name)
        if validator is None:
            # A schema comes with a package: it must not make the daemon read files or addresses, nor match for ever.
            validator = jsonschema_rs.Draft202012Validator(
                dict(tool.parameters_schema), offline=True, pattern_options=jsonschema_rs.RegexOptions()
            )
            self._validators[tool.name] = validator
        return validator


def _cut(text: str, characters: int) -> str:
    """The text, the middle left out where it is longer: how it begins says which argument it is, how it ends what is wrong."""
    if len(text) <= characters:
        return text
    half = (characters - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def _told(error: ZeroclawError) -> str:
    """What the model, and whoever reads along, is told of a call that failed.

    For a plugin's end its own words say more than the engine's, which are in the log.
    """
    if not isinstance(error, PluginError):
        told = error.message
        for cause in error.causes():
            if cause not in told:  # a message that quotes its cause has said it
                told = f"{told}: {cause}"
        return told
    evidence = (f"{label}:\n{text}" for label, text in error.evidence(lines=_MAX_EVIDENCE_LINES))
    return "\n".join((error.message, *evidence))


def _log_failure(tool: Tool, error: ZeroclawError) -> None:
    """For the operator: a call that did not end as it should, and what can be done about it."""
    if isinstance(error, _NO_BUSINESS_OF_THE_OPERATOR):
        return
    record(
        logger, logging.WARNING, f"the tool {tool.name} failed: {error.message}",
        action="tool_failed", category="tool", outcome="failure",
        code=error.code, causes=list(error.causes()), remedy=error.remedy,
    )  # fmt: skip


def _failure(message: str) -> ToolResult:
    return ToolResult(success=False, output="", error=message)
