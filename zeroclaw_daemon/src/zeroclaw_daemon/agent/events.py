"""What happens in a turn, as it happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from zeroclaw_daemon.strict_json import JsonValue


@dataclass(frozen=True, slots=True)
class MessageChunk:
    """A piece of the answer. The pieces of a turn, joined in order, are its content."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtChunk:
    """A piece of the model's reasoning, which is no part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A tool is about to run. ``arguments`` is the JSON value the model sent, or its text where that is not JSON."""

    call_id: str
    name: str
    arguments: JsonValue


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool has run, or could not; ``output`` is what the model is told."""

    call_id: str
    name: str
    output: str
    success: bool


TurnEvent: TypeAlias = MessageChunk | ThoughtChunk | ToolCalled | ToolReturned
