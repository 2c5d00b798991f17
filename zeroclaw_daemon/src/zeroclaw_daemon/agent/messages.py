"""What a conversation is made of, as the model sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from zeroclaw_daemon.strict_json import MAX_DEPTH, JsonValue, parse

MAX_ARGUMENT_DEPTH: Final = MAX_DEPTH // 2
"""Containers inside each other in the arguments of a call. They are repeated inside other messages, which a reader takes up to
its own bound.
"""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model wants made. ``arguments`` is its own JSON text, which need not be valid."""

    id: str
    name: str
    arguments: str

    def parsed(self) -> JsonValue:
        """The value of the arguments.

        :raises NotJson: they are none, or nest deeper than :data:`MAX_ARGUMENT_DEPTH`.
        """
        return parse(self.arguments, max_depth=MAX_ARGUMENT_DEPTH)


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the user said."""

    text: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What the model said, and the calls it made after it."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """What one call ended with; ``output`` is the failure where it was none."""

    call_id: str
    name: str
    output: str
    success: bool = True


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage
