"""What the agent needs of a model, whoever runs it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from zeroclaw_daemon.agent.messages import Message, ToolCall
from zeroclaw_host.errors import Kind, ZeroclawError


class ProviderError(ZeroclawError):
    """A model did not answer, or not with anything usable."""

    code = "provider_failed"
    kind = Kind.UNAVAILABLE


class ProviderNotFound(ZeroclawError):
    """No model provider has this name. ``details`` holds the ``known`` names."""

    code = "provider_not_found"
    kind = Kind.NOT_FOUND

    def __init__(self, known: Sequence[str]) -> None:
        super().__init__("there is no such model provider", details={"known": list(known)})


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """What a session wants in place of what its agent is configured with; None keeps that (RPC-245)."""

    provider: str | None = None
    model: str | None = None
    temperature: float | None = None


NO_CHOICE: Final = ModelChoice()


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model is told of it."""

    name: str
    description: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question to a model: everything it is to know. ``temperature`` None leaves it to the model."""

    model: str
    system_prompt: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    """A piece of reasoning."""

    text: str


ModelEvent: TypeAlias = TextDelta | ThoughtDelta | ToolCall


class Provider(Protocol):
    """A source of answers."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The answer, piece by piece; calls come whole. The generator is closed by whoever began it, in the same task.

        :raises ProviderError: while it is read: the model failed.
        """
        ...
