"""A function the model can call, whoever provides it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from zeroclaw_host.services.logging import CallSite


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool call ended with: ``output`` is for the model; ``error`` says what failed when ``success`` is false."""

    success: bool
    output: str
    error: str | None = None


class Tool(ABC):
    """A function the model can call."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name the model calls it by."""

    @property
    @abstractmethod
    def description(self) -> str:
        """What it does, for the model."""

    @property
    @abstractmethod
    def parameters_schema(self) -> Mapping[str, object]:
        """A JSON Schema of the arguments object."""

    @abstractmethod
    async def execute(self, arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        """Run the tool once.

        :raises ZeroclawError: the call did not end with a result.
        """
