"""What a conversation is made of, as the model sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model wants made. ``arguments`` is its own JSON text, which need not be valid."""

    id: str
    name: str
    arguments: str


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
