"""{{name}}: a memory that runs inside the sandbox."""

from datetime import UTC, datetime

from zeroclaw_sdk.guest import CallError, Memory, MemoryCategory, MemoryEntry, log


class {{class_name}}(Memory):
    """Remembers entries and finds them by their words."""

    name = "{{function_name}}"

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
        """Remember something under a key, in place of what was there."""
        if not key:
            raise CallError("an entry needs a key")
        self.entries[key] = MemoryEntry(
            id=key,
            key=key,
            content=content,
            category=category,
            timestamp=datetime.now(UTC).isoformat(timespec="seconds"),
            session_id=session_id,
            namespace=namespace or "default",
            importance=importance,
            agent_id=agent_id,
        )
        log.debug("remembered something", action=log.Action.SAVE, attrs={"entries": len(self.entries)})

    def recall(
        self, query: str, limit: int, session_id: str | None, since: str | None, until: str | None
    ) -> list[MemoryEntry]:
        """The entries with most of the query's words, the best first."""
        words = set(query.lower().split())
        scored = [
            (len(words & set(entry.content.lower().split())), entry)
            for entry in self.list_entries(None, session_id)
            if (since is None or since <= entry.timestamp) and (until is None or entry.timestamp <= until)
        ]
        best = sorted((each for each in scored if each[0]), key=lambda each: each[0], reverse=True)
        return [entry for _, entry in best[:limit]]

    def get(self, key: str) -> MemoryEntry | None:
        """The entry under a key."""
        return self.entries.get(key)

    def list_entries(self, category: MemoryCategory | None, session_id: str | None) -> list[MemoryEntry]:
        """All entries, or those of a category or session."""
        return [
            entry
            for entry in self.entries.values()
            if category in (None, entry.category) and session_id in (None, entry.session_id)
        ]

    def forget(self, key: str) -> bool:
        """Forget the entry under a key; whether there was one."""
        return self.entries.pop(key, None) is not None
