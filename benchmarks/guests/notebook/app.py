"""A memory that is a dictionary, so that what is measured is the way there and back."""

from zeroclaw_sdk.guest import Memory, MemoryCategory, MemoryEntry


class Notebook(Memory):
    """Keeps entries by key and recalls those that hold the words of a query."""

    name = "notebook"

    def __init__(self) -> None:
        self.entries: dict[str, MemoryEntry] = {}

    def store_with_agent(
        self,
        key: str,
        content: str,
        category: MemoryCategory,
        session_id: str | None,
        namespace: str | None,
        importance: float | None,
        agent_id: str | None,
    ) -> None:
        self.entries[key] = MemoryEntry(
            id=key, key=key, content=content, category=category, timestamp="2026-01-01T00:00:00Z"
        )

    def recall(
        self, query: str, limit: int, session_id: str | None, since: str | None, until: str | None
    ) -> list[MemoryEntry]:
        return [entry for entry in self.entries.values() if query in entry.content][:limit]

    def get(self, key: str) -> MemoryEntry | None:
        return self.entries.get(key)

    def list_entries(self, category: MemoryCategory | None, session_id: str | None) -> list[MemoryEntry]:
        return list(self.entries.values())

    def forget(self, key: str) -> bool:
        return self.entries.pop(key, None) is not None
