"""What a memory plugin is given and gives, between the contract's values and the memory's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from zeroclaw_host.sandbox.values import Ok
from zeroclaw_host.worlds.kinds import ExportFilter, MemoryCategory, MemoryEntry, ProceduralMessage

Variant = tuple[str, object]


def category_to_guest(category: MemoryCategory) -> Variant:
    """A ``memory-category``."""
    return ("custom", category.name) if category.custom else (category.name, None)


def optional_category(category: MemoryCategory | None) -> Variant | None:
    """An optional ``memory-category``."""
    return None if category is None else category_to_guest(category)


def agents_to_guest(agents: Sequence[str] | None) -> Variant:
    """An ``agent-filter``: nobody in particular means everybody."""
    return ("some", list(agents)) if agents else ("all", None)


def filter_to_guest(wanted: ExportFilter) -> dict[str, object]:
    """An ``export-filter``."""
    return {
        "namespace": wanted.namespace,
        "session-id": wanted.session_id,
        "category": optional_category(wanted.category),
        "since": wanted.since,
        "until": wanted.until,
    }


def message_to_guest(message: ProceduralMessage) -> dict[str, object]:
    """A ``procedural-message``."""
    return {"role": message.role, "content": message.content, "name": message.name}


def entry_from_guest(value: Mapping[str, Any]) -> MemoryEntry:
    """A ``memory-entry``. A score or importance that is no finite number says nothing, and neither compares nor is JSON."""
    word, name = cast("tuple[str, str | None]", value["category"])
    category = MemoryCategory(word) if name is None else MemoryCategory(name, custom=True)
    return MemoryEntry(
        id=value["id"],
        key=value["key"],
        content=value["content"],
        category=category,
        timestamp=value["timestamp"],
        namespace=value["namespace"],
        session_id=value["session-id"],
        score=_finite(value["score"]),
        importance=_finite(value["importance"]),
        superseded_by=value["superseded-by"],
        agent_alias=value["agent-alias"],
        agent_id=value["agent-id"],
    )


def optional_entry(value: object) -> MemoryEntry | None:
    """An optional ``memory-entry``."""
    return None if value is None else entry_from_guest(cast("Mapping[str, Any]", value))


def within_ok(take: Callable[[object], object]) -> Callable[[object], object]:
    """Makes of the ``ok`` of a result what ``take`` makes of it, and leaves everything else as it is."""
    return lambda value: Ok(take(value.value)) if isinstance(value, Ok) else value


def best_entries(limit: int) -> Callable[[object], list[MemoryEntry]]:
    """The first of a list of ``memory-entry``, however many there are."""
    return lambda value: entries_from_guest(cast("Sequence[object]", value)[:limit])


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def entries_from_guest(value: object) -> list[MemoryEntry]:
    """A list of ``memory-entry``."""
    return [entry_from_guest(each) for each in cast("Sequence[Mapping[str, Any]]", value)]
