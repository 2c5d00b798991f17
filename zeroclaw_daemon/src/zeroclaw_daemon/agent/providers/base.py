"""What the agent needs of a model, whoever runs it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
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


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer as the provider counts them; None where it does not say. ``input_tokens`` are all that were
    read, those that the provider had kept included.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None


class Ending(Enum):
    """Why an answer ended."""

    DONE = "done"
    """The model had nothing to add, or waits for its calls."""
    CUT = "cut"
    """There was no room for the rest: the answer is not whole, and its calls are not among the events."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of an answer, told last and at most once. A provider that knows nothing of it tells none."""

    ending: Ending = Ending.DONE
    usage: Usage | None = None


ModelEvent: TypeAlias = TextDelta | ThoughtDelta | ToolCall | Finished


class Provider(Protocol):
    """A source of answers."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The answer, piece by piece; calls come whole. The generator is closed by whoever began it, in the same task.

        :raises ProviderError: while it is read: the model failed.
        """
        ...
