"""What the built-in tools have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from zeroclaw_daemon.agent.approval_policy import Reach
from zeroclaw_daemon.agent.providers.base import ToolSpec
from zeroclaw_daemon.agent.surroundings import TurnSite
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.kinds import Tool, ToolResult


class BuiltIn(Tool):
    """A tool that needs to know the turn it is called in."""

    spec: ClassVar[ToolSpec]
    reach: ClassVar[Reach]

    @property
    def name(self) -> str:
        """The name the model calls it by."""
        return self.spec.name

    @property
    def description(self) -> str:
        """What it does, for the model."""
        return self.spec.description

    @property
    def parameters_schema(self) -> Mapping[str, object]:
        """A JSON Schema of the arguments object."""
        return self.spec.parameters

    async def execute(self, arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        """Run the tool once.

        :raises ZeroclawError: the call did not end with a result.
        """
        if not isinstance(call_site, TurnSite):
            return ToolResult(False, "", "this tool works only inside a turn")
        return await self.perform(arguments, call_site)

    @abstractmethod
    async def perform(self, arguments: Mapping[str, object], site: TurnSite) -> ToolResult:
        """Run the tool once, with arguments that fit its schema.

        :raises ZeroclawError: the call did not end with a result.
        """
