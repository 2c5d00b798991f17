"""A memory that behaves in every way a test asks for: a query says how."""

from zeroclaw_sdk.guest import (
    CallError,
    ExportFilter,
    Memory,
    MemoryCategory,
    MemoryEntry,
    ProceduralMessage,
    SecretError,
    StateError,
    config,
    inbound,
    log,
    secrets,
    state,
)


class Notes(Memory):
    name = "notes"

    def __init__(self) -> None:
        self.entries: dict[str, MemoryEntry] = {}
        self.learnt: list[str] = []

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
        if not key:
            raise CallError("an entry needs a key")
        self.entries[key] = MemoryEntry(
            id=f"n{len(self.entries)}",
            key=key,
            content=content,
            category=category,
            timestamp="2026-01-01T00:00:00Z",
            session_id=session_id,
            namespace=namespace or "default",
            importance=importance,
            agent_id=agent_id,
        )
        log.debug("stored", action=log.Action.SAVE)

    def recall(
        self, query: str, limit: int, session_id: str | None, since: str | None, until: str | None
    ) -> list[MemoryEntry]:
        match query:
            case "spin":
                while True:
                    pass
            case "recurse":
                return self.recall(query, limit, session_id, since, until)
            case "memory":
                return [bytearray(10_000_000) for _ in range(100)]
            case "raise":
                raise LookupError("no index")
            case "wrong":
                return [query]
            case "services":
                return [self._service(each) for each in ("secret", "config", "state", "inbound")]
        found = [each for each in self.entries.values() if query in each.content]
        return found[:limit]

    def _service(self, what: str) -> MemoryEntry:
        try:
            match what:
                case "secret":
                    said = secrets.get("token")
                case "config":
                    said = str(config.get())
                case "state":
                    said = str(state.put("a", b""))
                case _:
                    said = f"{inbound.pending()} {inbound.poll()}"
        except (SecretError, StateError, config.ConfigError) as error:
            said = str(error)
        return MemoryEntry(what, what, said, MemoryCategory.custom("said"), "")

    def get(self, key: str) -> MemoryEntry | None:
        return self.entries.get(key)

    def list_entries(self, category: MemoryCategory | None, session_id: str | None) -> list[MemoryEntry]:
        return [
            each
            for each in self.entries.values()
            if category in (None, each.category) and session_id in (None, each.session_id)
        ]

    def forget(self, key: str) -> bool:
        return self.entries.pop(key, None) is not None

    def health_check(self) -> bool:
        if len(self.entries) > 2:
            raise RuntimeError("full")
        return True

    def purge_namespace(self, namespace: str) -> int:
        gone = [each.key for each in self.entries.values() if each.namespace == namespace]
        return sum(self.forget(key) for key in gone)

    def store_procedural(self, messages: tuple[ProceduralMessage, ...], session_id: str | None) -> None:
        for each in messages:
            self.store_entry(
                each.name or each.role, each.content, MemoryCategory.custom("learnt"), session_id
            )

    def export_entries(self, filter: ExportFilter) -> list[MemoryEntry]:
        log.info(f"{filter}")
        return self.list_entries(filter.category, filter.session_id)
