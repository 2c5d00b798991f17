"""What a memory keeps and is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from zeroclaw_sdk.guest.variant import Variant

DEFAULT_NAMESPACE: Final = "default"
"""The namespace of an entry that was stored without one."""


@dataclass(frozen=True)
class MemoryCategory(Variant):
    """What sort of memory an entry is: one of three, or one that an agent made up."""

    CASES: ClassVar[Mapping[str, bool]] = {
        "core": False,
        "daily": False,
        "conversation": False,
        "custom": True,
    }

    @classmethod
    def custom(cls, name: str) -> MemoryCategory:
        """A category of this name that is none of the three."""
        return cls("custom", name)


CORE: Final = MemoryCategory("core")
"""What holds for good."""
DAILY: Final = MemoryCategory("daily")
"""What happened on a day."""
CONVERSATION: Final = MemoryCategory("conversation")
"""What belongs to one conversation."""


@dataclass(frozen=True)
class MemoryEntry:
    """Something remembered. ``timestamp`` is RFC 3339; ``score`` says how well the entry answers a query."""

    id: str
    key: str
    content: str
    category: MemoryCategory
    timestamp: str
    session_id: str | None = None
    score: float | None = None
    namespace: str = DEFAULT_NAMESPACE
    importance: float | None = None
    superseded_by: str | None = None
    agent_alias: str | None = None
    agent_id: str | None = None


@dataclass(frozen=True)
class ExportFilter:
    """Which entries an export is of; None asks for nothing in particular. The times are RFC 3339, both included."""

    namespace: str | None = None
    session_id: str | None = None
    category: MemoryCategory | None = None
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True)
class ProceduralMessage:
    """One message of a conversation from which a procedure can be learnt."""

    role: str
    content: str
    name: str | None = None
