"""A memory backend, whoever provides it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from zeroclaw_host.errors import Kind, UsageError, ZeroclawError
from zeroclaw_host.services.logging import CallSite


class MemoryUnsupported(ZeroclawError):
    """The memory has no way to do what it was asked for. ``details`` holds ``function``."""

    code = "memory_unsupported"
    kind = Kind.USAGE


@dataclass(frozen=True, slots=True)
class MemoryCategory:
    """What sort of memory an entry is: one of three, or one that an agent made up.

    ``custom`` tells a made-up category from one of the three, whatever its name is.

    :raises ValueError: the name is none of the three, and the category is not said to be made up.
    """

    name: str
    custom: bool = False

    CORE: ClassVar[MemoryCategory]
    DAILY: ClassVar[MemoryCategory]
    CONVERSATION: ClassVar[MemoryCategory]

    def __post_init__(self) -> None:
        if not self.custom and self.name not in ("core", "daily", "conversation"):
            raise ValueError("a category is core, daily, conversation, or a custom one")

    def __str__(self) -> str:
        return self.name


MemoryCategory.CORE = MemoryCategory("core")
MemoryCategory.DAILY = MemoryCategory("daily")
MemoryCategory.CONVERSATION = MemoryCategory("conversation")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEntry:
    """Something remembered. ``timestamp`` is RFC 3339; ``score`` says how well the entry answers a query."""

    id: str
    key: str
    content: str
    category: MemoryCategory
    timestamp: str
    namespace: str
    session_id: str | None = None
    score: float | None = None
    importance: float | None = None
    superseded_by: str | None = None
    agent_alias: str | None = None
    agent_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFilter:
    """Which entries an export is of; None asks for nothing in particular. The times are RFC 3339, both included."""

    namespace: str | None = None
    session_id: str | None = None
    category: MemoryCategory | None = None
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class ProceduralMessage:
    """One message of a conversation from which a procedure can be learnt."""

    role: str
    content: str
    name: str | None = None


class Memory(ABC):
    """Where an agent keeps what it learns.

    ``call_site`` says for whom a call is made, in the records of the log. Every method may raise :class:`~zeroclaw_host.errors.ZeroclawError`. Those that are not abstract have an answer that
    needs nothing but the others (PLG-036); a backend that knows better overrides them.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What the memory is called."""

    # --- what every memory does --------------------------------------------------------------------------------------

    @abstractmethod
    async def store_entry(
        self,
        key: str,
        content: str,
        category: MemoryCategory,
        *,
        session_id: str | None = None,
        call_site: CallSite | None = None,
    ) -> None:
        """Remember something under a key."""

    @abstractmethod
    async def store_with_agent(
        self,
        key: str,
        content: str,
        category: MemoryCategory,
        *,
        session_id: str | None = None,
        namespace: str | None = None,
        importance: float | None = None,
        agent_id: str | None = None,
        call_site: CallSite | None = None,
    ) -> None:
        """Remember something under a key, with all that is known about it."""

    @abstractmethod
    async def recall(
        self,
        query: str,
        limit: int,
        *,
        session_id: str | None = None,
        since: str | None = None,
        until: str | None = None,
        call_site: CallSite | None = None,
    ) -> Sequence[MemoryEntry]:
        """At most ``limit`` entries that answer a query, the best first. The times are RFC 3339."""

    @abstractmethod
    async def recall_for_agents(
        self,
        agents: Sequence[str] | None,
        query: str,
        limit: int,
        *,
        session_id: str | None = None,
        since: str | None = None,
        until: str | None = None,
        call_site: CallSite | None = None,
    ) -> Sequence[MemoryEntry]:
        """As :meth:`recall`, of the entries of these agents; None or nobody means all of them."""

    @abstractmethod
    async def get(self, key: str, *, call_site: CallSite | None = None) -> MemoryEntry | None:
        """The entry under a key."""

    @abstractmethod
    async def list_entries(
        self,
        category: MemoryCategory | None = None,
        *,
        session_id: str | None = None,
        call_site: CallSite | None = None,
    ) -> Sequence[MemoryEntry]:
        """All entries, or those of a category or session."""

    @abstractmethod
    async def forget(self, key: str, *, call_site: CallSite | None = None) -> bool:
        """Forget the entry under a key; whether there was one."""

    @abstractmethod
    async def forget_for_agent(self, key: str, agent_id: str, *, call_site: CallSite | None = None) -> bool:
        """Forget the entry under a key if it is this agent's; whether it was."""

    @abstractmethod
    async def count(self, *, call_site: CallSite | None = None) -> int:
        """How many entries there are."""

    @abstractmethod
    async def health_check(self, *, call_site: CallSite | None = None) -> bool:
        """Whether the memory works."""

    # --- what some memories do better --------------------------------------------------------------------------------

    async def get_for_agent(
        self, key: str, agent_id: str, *, call_site: CallSite | None = None
    ) -> MemoryEntry | None:
        """The entry under a key if it is this agent's."""
        found = await self.get(key, call_site=call_site)
        return found if found is not None and found.agent_id == agent_id else None

    async def purge_namespace(self, namespace: str, *, call_site: CallSite | None = None) -> int:
        """Forget a whole namespace; how many entries that were.

        :raises MemoryUnsupported: the memory has no way to.
        """
        raise self._unsupported("purge_namespace")

    async def purge_session(self, session_id: str, *, call_site: CallSite | None = None) -> int:
        """Forget a session; how many entries that were.

        :raises MemoryUnsupported: the memory has no way to.
        """
        raise self._unsupported("purge_session")

    async def purge_session_for_agent(
        self, session_id: str, agent_id: str, *, call_site: CallSite | None = None
    ) -> int:
        """Forget what an agent remembers of a session; how many entries that were.

        :raises MemoryUnsupported: the memory has no way to.
        """
        raise self._unsupported("purge_session_for_agent")

    async def purge_agent(self, agent_alias: str, *, call_site: CallSite | None = None) -> int:
        """Forget all that an agent remembers; how many entries that were.

        :raises MemoryUnsupported: the memory has no way to.
        """
        raise self._unsupported("purge_agent")

    async def reindex(self, *, call_site: CallSite | None = None) -> int:
        """Make the index anew; how many entries are in it. A memory without an index has 0."""
        return 0

    async def store_procedural(  # noqa: B027 - nothing is what a memory does that does not learn
        self,
        messages: Sequence[ProceduralMessage],
        *,
        session_id: str | None = None,
        call_site: CallSite | None = None,
    ) -> None:
        """Learn from the messages of a conversation. A memory that does not learn does nothing."""

    async def ensure_agent_uuid(self, alias: str, *, call_site: CallSite | None = None) -> str:
        """The id under which an agent's entries are kept: its alias, unless the memory has ids of its own."""
        return alias

    async def recall_namespaced(
        self,
        namespace: str,
        query: str,
        limit: int,
        *,
        session_id: str | None = None,
        since: str | None = None,
        until: str | None = None,
        call_site: CallSite | None = None,
    ) -> Sequence[MemoryEntry]:
        """As :meth:`recall`, of one namespace."""

        async def recall(some: int, *, call_site: CallSite | None = None) -> Sequence[MemoryEntry]:
            return await self.recall(
                query, some, session_id=session_id, since=since, until=until, call_site=call_site
            )

        return await _recall_where(recall, lambda entry: entry.namespace == namespace, limit)

    async def export_entries(
        self, wanted: ExportFilter, *, call_site: CallSite | None = None
    ) -> Sequence[MemoryEntry]:
        """The entries that a filter lets pass. One whose own time cannot be read is not held back.

        :raises UsageError: a time of the filter is not RFC 3339.
        """
        since, until = _moment("since", wanted.since), _moment("until", wanted.until)
        return [
            entry
            for entry in await self.list_entries(
                wanted.category, session_id=wanted.session_id, call_site=call_site
            )
            if wanted.namespace in (None, entry.namespace) and _within(entry.timestamp, since, until)
        ]

    async def store_with_metadata(
        self,
        key: str,
        content: str,
        category: MemoryCategory,
        *,
        session_id: str | None = None,
        namespace: str | None = None,
        importance: float | None = None,
        call_site: CallSite | None = None,
    ) -> None:
        """As :meth:`store_with_agent`, of no agent. A memory that keeps no such facts remembers the entry without them."""
        await self.store_entry(key, content, category, session_id=session_id, call_site=call_site)

    def _unsupported(self, function: str) -> MemoryUnsupported:
        return MemoryUnsupported(
            f"{function} is not supported by the memory {self.name}", details={"function": function}
        )


async def _recall_where(
    recall: Callable[[int], Awaitable[Sequence[MemoryEntry]]],
    wanted: Callable[[MemoryEntry], bool],
    limit: int,
) -> list[MemoryEntry]:
    """The best ``limit`` entries that are wanted. As long as there are too few, more is asked for, until no more comes."""
    ask, before = limit, -1
    while True:
        found = await recall(ask)
        passed = [entry for entry in found if wanted(entry)]
        if len(passed) >= limit or len(found) < ask or len(found) <= before:
            return passed[:limit]
        ask, before = ask * 2, len(found)


def _moment(name: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    found = _parsed(text)
    if found is None:
        raise UsageError(f"{name} is no time in the form of RFC 3339, such as 2026-01-31T12:00:00Z")
    return found


def _parsed(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _within(timestamp: str, since: datetime | None, until: datetime | None) -> bool:
    moment = _parsed(timestamp)
    if moment is None:
        return True
    return (since is None or since <= moment) and (until is None or moment <= until)
