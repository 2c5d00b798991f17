"""The tool ``plan``: the agent says what it is going to do, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from zeroclaw_daemon.agent.approval_policy import Reach
from zeroclaw_daemon.agent.built_in.base import BuiltIn
from zeroclaw_daemon.agent.events import PlanChanged, PlanEntry, PlanPriority, PlanStatus
from zeroclaw_daemon.agent.providers.base import ToolSpec
from zeroclaw_daemon.agent.surroundings import TurnSite
from zeroclaw_host.worlds.kinds import ToolResult

MAX_ENTRIES: Final = 100
MAX_ENTRY_CHARACTERS: Final = 1_000


class Plan(BuiltIn):
    """Replaces the plan of the session."""

    spec = ToolSpec(
        name="plan",
        description=(
            "Show the user what you are going to do and how far you are. Give the whole plan every time: it replaces the one before, "
            "and no entries take it away. Have at most one entry in progress."
        ),
        parameters={
            "type": "object",
            "properties": {
                "entries": {
                    "type": "array",
                    "maxItems": MAX_ENTRIES,
                    "items": {
                        "type": "object",
                        "properties": {
                            "content": {"type": "string", "minLength": 1, "maxLength": MAX_ENTRY_CHARACTERS},
                            "status": {"enum": [status.value for status in PlanStatus]},
                            "priority": {"enum": [priority.value for priority in PlanPriority]},
                            "activeForm": {
                                "type": "string",
                                "maxLength": MAX_ENTRY_CHARACTERS,
                                "description": "What the entry is called while it is in progress.",
                            },
                        },
                        "required": ["content", "status"],
                        "additionalProperties": False,
                    },
                }
            },
            "required": ["entries"],
            "additionalProperties": False,
        },
    )
    reach = Reach.CONVERSATION

    async def perform(self, arguments: Mapping[str, object], site: TurnSite) -> ToolResult:
        """Have the turn tell of the new plan."""
        given = cast("list[Mapping[str, Any]]", arguments["entries"])
        entries = tuple(_entry(each) for each in given)
        site.events.append(PlanChanged(entries))
        done = sum(entry.status is PlanStatus.COMPLETED for entry in entries)
        return ToolResult(True, f"the plan has {len(entries)} entries, {done} of them completed")


def _entry(given: Mapping[str, Any]) -> PlanEntry:
    return PlanEntry(
        given["content"],
        PlanStatus(given["status"]),
        PlanPriority(given.get("priority", PlanPriority.MEDIUM)),
        given.get("activeForm"),
    )
