"""The base class of a memory plugin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, cast

from zeroclaw_sdk.guest.annotations import hints_of
from zeroclaw_sdk.guest.crossing import crossing_of
from zeroclaw_sdk.guest.entries import ExportFilter, MemoryCategory, MemoryEntry, ProceduralMessage
from zeroclaw_sdk.guest.faults import DefinitionInvalid
from zeroclaw_sdk.guest.functions import Definition, Fault, function


class _AgentFilter:
    """The contract's ``agent-filter``: None means every agent, and so does an empty list."""

    noun = "a list of agent ids or None"

    def __init__(self) -> None:
        self._ids = crossing_of(tuple[str, ...] | None, "")

    def check(self, value: object, where: str) -> Any:
        return self._ids.check(value, where) or None

    def outward(self, value: Any, wit: Any) -> object:
        raise NotImplementedError("only a host asks for agents")

    def inward(self, value: Any) -> object:
        ids = cast("Sequence[str]", getattr(value, "value", ()))
        return tuple(ids) or None


class Memory:
    """A memory backend. A plugin defines one subclass; five methods are the least it can do with::

        class Notebook(Memory):
            name = "notebook"

            def store_with_agent(self, key, content, category, session_id, namespace, importance, agent_id): ...
            def recall(self, query, limit, session_id, since, until): ...
            def get(self, key): ...
            def list_entries(self, category, session_id): ...
            def forget(self, key): ...

    One instance answers all calls, one at a time, and its entries live in it alone: after a call that ran past its
    limits it is gone, and the next one starts empty. A memory has the log; configuration, secrets, state and the network
    are not for it.

    The methods without a flag answer by those five unless a class knows better. The others it may define; the host never
    asks for what a class does not define, and does without. Raise :class:`~zeroclaw_sdk.guest.CallError` for a failure
    that the caller should read.
    """

    name: ClassVar[str] = ""
    """What the memory is called."""

    @function()
    def store_entry(self, key: str, content: str, category: MemoryCategory, session_id: str | None) -> None:
        """Remember something under a key, in place of what was there."""
        self.store_with_agent(key, content, category, session_id, None, None, None)

    @function(required=True)
    def recall(
        self, query: str, limit: int, session_id: str | None, since: str | None, until: str | None
    ) -> Sequence[MemoryEntry]:
        """At most ``limit`` entries that answer a query, the best first. The times are RFC 3339."""
        raise NotImplementedError

    @function(required=True)
    def get(self, key: str) -> MemoryEntry | None:
        """The entry under a key, or None."""
        raise NotImplementedError

    @function(required=True)
    def list_entries(self, category: MemoryCategory | None, session_id: str | None) -> Sequence[MemoryEntry]:
        """All entries, or those of a category or session."""
        raise NotImplementedError

    @function(required=True)
    def forget(self, key: str) -> bool:
        """Forget the entry under a key; whether there was one."""
        raise NotImplementedError

    @function()
    def forget_for_agent(self, key: str, agent_id: str) -> bool:
        """Forget the entry under a key if it is this agent's; whether it was."""
        found = self.get(key)
        return found is not None and found.agent_id == agent_id and self.forget(key)

    @function()
    def count(self) -> int:
        """How many entries there are."""
        return len(self.list_entries(None, None))

    @function(fault=Fault.FALSE)
    def health_check(self) -> bool:
        """Whether the memory works. An exception counts as no."""
        return True

    @function(required=True)
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
        """Remember something under a key, in place of what was there, with all that is known about it."""
        raise NotImplementedError

    @function()
    def recall_for_agents(
        self,
        agents: Annotated[tuple[str, ...] | None, _AgentFilter()],
        query: str,
        limit: int,
        session_id: str | None,
        since: str | None,
        until: str | None,
    ) -> Sequence[MemoryEntry]:
        """As :meth:`recall`, of the entries of these agents; None means all of them."""
        if agents is None:
            return self.recall(query, limit, session_id, since, until)
        found = self.recall(query, self.count(), session_id, since, until)
        return [each for each in found if each.agent_id in agents][:limit]

    @function("get-for-agent")
    def get_for_agent(self, key: str, agent_id: str) -> MemoryEntry | None:
        """The entry under a key if it is this agent's."""
        raise NotImplementedError

    @function("purge-namespace")
    def purge_namespace(self, namespace: str) -> int:
        """Forget a whole namespace; how many entries that were."""
        raise NotImplementedError

    @function("purge-session")
    def purge_session(self, session_id: str) -> int:
        """Forget a session; how many entries that were."""
        raise NotImplementedError

    @function("purge-session-for-agent")
    def purge_session_for_agent(self, session_id: str, agent_id: str) -> int:
        """Forget what an agent remembers of a session; how many entries that were."""
        raise NotImplementedError

    @function("purge-agent")
    def purge_agent(self, agent_alias: str) -> int:
        """Forget all that an agent remembers; how many entries that were."""
        raise NotImplementedError

    @function("reindex")
    def reindex(self) -> int:
        """Make the index anew; how many entries are in it."""
        raise NotImplementedError

    @function("store-procedural")
    def store_procedural(self, messages: Sequence[ProceduralMessage], session_id: str | None) -> None:
        """Learn from the messages of a conversation."""
        raise NotImplementedError

    @function("ensure-agent-uuid")
    def ensure_agent_uuid(self, alias: str) -> str:
        """The id under which an agent's entries are kept."""
        raise NotImplementedError

    @function("recall-namespaced")
    def recall_namespaced(
        self,
        namespace: str,
        query: str,
        limit: int,
        session_id: str | None,
        since: str | None,
        until: str | None,
    ) -> Sequence[MemoryEntry]:
        """As :meth:`recall`, of one namespace."""
        raise NotImplementedError

    @function("export-entries")
    def export_entries(self, filter: ExportFilter) -> Sequence[MemoryEntry]:
        """The entries that a filter lets pass."""
        raise NotImplementedError

    @function("store-with-metadata")
    def store_with_metadata(
        self,
        key: str,
        content: str,
        category: MemoryCategory,
        session_id: str | None,
        namespace: str | None,
        importance: float | None,
    ) -> None:
        """As :meth:`store_with_agent`, of no agent."""
        raise NotImplementedError


class MemoryDefinition(Definition):
    """Everything there is to know about a memory class, derived once.

    :raises DefinitionInvalid: as for :class:`Definition`; also where the class wants configuration.
    """

    def __init__(self, cls: type[Memory]) -> None:
        super().__init__(Memory, cls)
        if "config" in hints_of(cls, cls.__qualname__):
            raise DefinitionInvalid(f"{cls.__qualname__}.config: a memory plugin has no configuration")
