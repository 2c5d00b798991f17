"""Calling a plugin's tool as plain Python, for its author's tests.

    answer = call(Redact, {"text": "mail ada@example.org"}, config={"replacement": "*"})
    assert answer.output == "mail *"

Arguments and configuration take the same way as in the sandbox: they are checked, converted and reported on alike. What a
component adds (limits, the host's own checks) is what ``zeroclaw-plugin run`` shows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from zeroclaw_sdk.guest.host import LogEvent, RecordingHost, use_host
from zeroclaw_sdk.guest.tool import CONFIG_MEMBER, Tool, ToolDefinition

__all__ = ["Answer", "LogEvent", "call", "parameters_schema"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call ended with, and what the plugin logged meanwhile."""

    success: bool
    output: str
    error: str | None
    logs: tuple[LogEvent, ...]


def call(
    tool: type[Tool],
    arguments: Mapping[str, object],
    *,
    config: Mapping[str, object] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> Answer:
    """Call a tool once.

    :param arguments: the arguments object, as JSON values.
    :param config: the public configuration, as JSON values.
    :param secrets: secret properties by name.
    :raises DefinitionInvalid: the class cannot be turned into a tool.
    :raises Exception: whatever the tool raised, apart from ToolError, which is an answer.
    """
    host = RecordingHost(secrets=dict(secrets or {}))
    whole = dict(arguments) | ({CONFIG_MEMBER: dict(config)} if config else {})
    with use_host(host):
        outcome = ToolDefinition(tool).call(json.dumps(whole))
    return Answer(outcome.success, outcome.output, outcome.error, tuple(host.records))


def parameters_schema(tool: type[Tool]) -> Mapping[str, object]:
    """The JSON Schema that the model sees for this tool."""
    return ToolDefinition(tool).parameters_schema
