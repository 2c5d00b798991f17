"""A plugin's memory: one warm guest that keeps the entries (PLG-032, PLG-112)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar, cast

from zeroclaw_host.errors import GuestFailure
from zeroclaw_host.instance import InstanceScope
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.sandbox.compiling.compile import Progress
from zeroclaw_host.sandbox.frame import Phase
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.sandbox.values import Err, Ok
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.blocking import Blocking
from zeroclaw_host.worlds.instance import Ask
from zeroclaw_host.worlds.kinds import ExportFilter, Memory, MemoryCategory, MemoryEntry, ProceduralMessage
from zeroclaw_host.worlds.loading import link_package
from zeroclaw_host.worlds.memory_values import (
    agents_to_guest,
    best_entries,
    category_to_guest,
    entries_from_guest,
    filter_to_guest,
    message_to_guest,
    optional_category,
    optional_entry,
    within_ok,
)
from zeroclaw_host.worlds.metadata import Metadata
from zeroclaw_host.worlds.warm import Take, WarmStore, as_it_is

_INTERFACE: Final = "zeroclaw:plugin/memory"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemoryMetadata:
    """What a memory says about itself."""

    name: str
    capabilities: frozenset[str]
    """The flags it sets, in the contract's words."""


class MemoryPlugin(Blocking, Memory):
    """One memory instance of one package.

    Its entries live in the guest alone. After a call that ended without a result the guest is gone, and every call fails
    at once with :class:`~zeroclaw_host.errors.PluginUnavailable`, until the owner of the memory calls :meth:`rebuild`;
    the rebuilt memory is empty (PLG-107, PLG-108, PLG-111, PLG-112). A call neither waits for that nor does it.

    Methods are for tasks; :meth:`run_sync` is for threads without an event loop.
    """

    def __init__(self, warm: WarmStore, metadata: Metadata[MemoryMetadata]) -> None:
        self._warm = warm
        self._metadata = metadata

    @classmethod
    def load(
        cls,
        sandbox: Sandbox,
        package: AdmittedPackage,
        scope: InstanceScope,
        services: InstanceServices,
        limits: Limits,
        *,
        progress: Progress | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Self:
        """Link the package's component, start its instance, and read what it says about itself.

        :param scope: a memory instance of that package.
        :param services: of which a memory has the log alone; its configuration is not even read (PLG-118).
        :param progress: told the seconds spent while the component is compiled for the first time.
        :raises ComponentMismatch: the component does not fit the memory world.
        :raises PluginError: the guest did not start, or failed while it was asked.
        """
        metadata = Metadata(_read_metadata)
        warm = WarmStore(
            sandbox,
            link_package(sandbox, package, scope, progress=progress),
            scope,
            services,
            limits,
            interface=_INTERFACE,
            start=metadata,
            self_healing=False,
            clock=clock,
        )
        warm.start_sync()
        return cls(warm, metadata)

    @property
    def name(self) -> str:
        """See :attr:`Memory.name`."""
        return self._metadata.known.name

    @property
    def capabilities(self) -> frozenset[str]:
        """The flags the plugin sets. They were read when it was loaded; a rebuild must find the same (PLG-033)."""
        return self._metadata.known.capabilities

    @property
    def scope(self) -> InstanceScope:
        """The instance this memory is, and what it may do."""
        return self._warm.scope

    # --- the owner's ------------------------------------------------------------------------------------------------------

    @property
    def available(self) -> bool:
        """Whether calls reach the plugin; if not, :meth:`rebuild` is due."""
        return self._warm.alive

    @property
    def rebuilds(self) -> int:
        """How often a further instance was begun after the first."""
        return self._warm.rebuilds

    async def rebuild(self, *, call_site: CallSite | None = None) -> None:
        """Start a new, empty instance, if there is none. Waits when the plugin failed too often of late (D-11).

        :raises MetadataChanged: the new instance says something else about itself; there still is none.
        :raises DeadlineExceeded: the wait is longer than a call may take.
        :raises PluginUnavailable: the memory is closed.
        :raises PluginError: the guest did not start.
        """
        if self._blocking:
            self._warm.start_sync(call_site=call_site)
        else:
            await self._warm.start(call_site=call_site)

    def close(self) -> None:
        """End the running call and drop the instance with all its entries. May be called twice; a task uses :meth:`aclose`."""
        self._warm.close()

    async def aclose(self) -> None:
        """The same for tasks."""
        await self._warm.aclose()

    # --- what every memory does -------------------------------------------------------------------------------------------

    async def store_entry(
        self,
        key: str,
        content: str,
        category: MemoryCategory,
        *,
        session_id: str | None = None,
        call_site: CallSite | None = None,
    ) -> None:
        """See :meth:`Memory.store_entry`."""
        arguments = (key, content, category_to_guest(category), session_id)
        await self._ask("store-entry", *arguments, call_site=call_site)

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
        """See :meth:`Memory.store_with_agent`."""
        arguments = (key, content, category_to_guest(category), session_id, namespace, importance, agent_id)
        await self._ask("store-with-agent", *arguments, call_site=call_site)

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
        """See :meth:`Memory.recall`."""
        arguments = (query, limit, session_id, since, until)
        return await self._ask("recall", *arguments, call_site=call_site, take=best_entries(limit))

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
        """See :meth:`Memory.recall_for_agents`."""
        arguments = (agents_to_guest(agents), query, limit, session_id, since, until)
        return await self._ask("recall-for-agents", *arguments, call_site=call_site, take=best_entries(limit))

    async def get(self, key: str, *, call_site: CallSite | None = None) -> MemoryEntry | None:
        """See :meth:`Memory.get`."""
        return await self._ask("get", key, call_site=call_site, take=optional_entry)

    async def list_entries(
        self,
        category: MemoryCategory | None = None,
        *,
        session_id: str | None = None,
        call_site: CallSite | None = None,
    ) -> Sequence[MemoryEntry]:
        """See :meth:`Memory.list_entries`."""
        arguments = (optional_category(category), session_id)
        return await self._ask("list-entries", *arguments, call_site=call_site, take=entries_from_guest)

    async def forget(self, key: str, *, call_site: CallSite | None = None) -> bool:
        """See :meth:`Memory.forget`."""
        return await self._ask("forget", key, call_site=call_site)

    async def forget_for_agent(self, key: str, agent_id: str, *, call_site: CallSite | None = None) -> bool:
        """See :meth:`Memory.forget_for_agent`."""
        return await self._ask("forget-for-agent", key, agent_id, call_site=call_site)

    async def count(self, *, call_site: CallSite | None = None) -> int:
        """See :meth:`Memory.count`."""
        return await self._ask("count", call_site=call_site)

    async def health_check(self, *, call_site: CallSite | None = None) -> bool:
        """See :meth:`Memory.health_check`."""
        return await self._ask("health-check", call_site=call_site)

    # --- what some memories do better: the export of a flag that is set, the default of one that is not (PLG-034) ---------

    async def get_for_agent(
        self, key: str, agent_id: str, *, call_site: CallSite | None = None
    ) -> MemoryEntry | None:
        """See :meth:`Memory.get_for_agent`."""
        if "get-for-agent" not in self.capabilities:
            return await super().get_for_agent(key, agent_id, call_site=call_site)
        return await self._ask("get-for-agent", key, agent_id, call_site=call_site, take=optional_entry)

    async def purge_namespace(self, namespace: str, *, call_site: CallSite | None = None) -> int:
        """See :meth:`Memory.purge_namespace`."""
        if "purge-namespace" not in self.capabilities:
            return await super().purge_namespace(namespace, call_site=call_site)
        return await self._ask("purge-namespace", namespace, call_site=call_site)

    async def purge_session(self, session_id: str, *, call_site: CallSite | None = None) -> int:
        """See :meth:`Memory.purge_session`."""
        if "purge-session" not in self.capabilities:
            return await super().purge_session(session_id, call_site=call_site)
        return await self._ask("purge-session", session_id, call_site=call_site)

    async def purge_session_for_agent(
        self, session_id: str, agent_id: str, *, call_site: CallSite | None = None
    ) -> int:
        """See :meth:`Memory.purge_session_for_agent`."""
        if "purge-session-for-agent" not in self.capabilities:
            return await super().purge_session_for_agent(session_id, agent_id, call_site=call_site)
        return await self._ask("purge-session-for-agent", session_id, agent_id, call_site=call_site)

    async def purge_agent(self, agent_alias: str, *, call_site: CallSite | None = None) -> int:
        """See :meth:`Memory.purge_agent`."""
        if "purge-agent" not in self.capabilities:
            return await super().purge_agent(agent_alias, call_site=call_site)
        return await self._ask("purge-agent", agent_alias, call_site=call_site)

    async def reindex(self, *, call_site: CallSite | None = None) -> int:
        """See :meth:`Memory.reindex`."""
        if "reindex" not in self.capabilities:
            return await super().reindex(call_site=call_site)
        return await self._ask("reindex", call_site=call_site)

    async def store_procedural(
        self,
        messages: Sequence[ProceduralMessage],
        *,
        session_id: str | None = None,
        call_site: CallSite | None = None,
    ) -> None:
        """See :meth:`Memory.store_procedural`."""
        if "store-procedural" in self.capabilities:
            values = [message_to_guest(each) for each in messages]
            await self._ask("store-procedural", values, session_id, call_site=call_site)

    async def ensure_agent_uuid(self, alias: str, *, call_site: CallSite | None = None) -> str:
        """See :meth:`Memory.ensure_agent_uuid`."""
        if "ensure-agent-uuid" not in self.capabilities:
            return await super().ensure_agent_uuid(alias, call_site=call_site)
        return await self._ask("ensure-agent-uuid", alias, call_site=call_site)

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
        """See :meth:`Memory.recall_namespaced`."""
        if "recall-namespaced" not in self.capabilities:
            return await super().recall_namespaced(
                namespace, query, limit, session_id=session_id, since=since, until=until, call_site=call_site
            )
        arguments = (namespace, query, limit, session_id, since, until)
        return await self._ask("recall-namespaced", *arguments, call_site=call_site, take=best_entries(limit))

    async def export_entries(
        self, wanted: ExportFilter, *, call_site: CallSite | None = None
    ) -> Sequence[MemoryEntry]:
        """See :meth:`Memory.export_entries`."""
        if "export-entries" not in self.capabilities:
            return await super().export_entries(wanted, call_site=call_site)
        arguments = filter_to_guest(wanted)
        return await self._ask("export-entries", arguments, call_site=call_site, take=entries_from_guest)

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
        """See :meth:`Memory.store_with_metadata`."""
        if "store-with-metadata" not in self.capabilities:
            await super().store_with_metadata(
                key,
                content,
                category,
                session_id=session_id,
                namespace=namespace,
                importance=importance,
                call_site=call_site,
            )
            return
        arguments = (key, content, category_to_guest(category), session_id, namespace, importance)
        await self._ask("store-with-metadata", *arguments, call_site=call_site)

    async def _ask(
        self, function: str, *arguments: object, call_site: CallSite | None, take: Take = as_it_is
    ) -> Any:
        """One call, in a frame in which nothing but the log answers.

        :param take: makes of a result what is returned, on the guest's thread: there can be very many entries.
        :raises GuestFailure: the plugin answered with an error.
        """
        how: dict[str, Any] = {"phase": Phase.STANDARD, "call_site": call_site, "take": within_ok(take)}
        answer = await self._call_on(self._warm, function, *arguments, **how)
        match answer:
            case Ok(value):
                return value
            case Err(message):
                raise GuestFailure(str(message) or "the plugin answered with an error without a text")
            case _:
                return answer


def _read_metadata(ask: Ask) -> MemoryMetadata:
    name = cast("str", ask("name"))
    if not name:
        raise GuestFailure("the plugin's memory has no name")
    return MemoryMetadata(name, cast("frozenset[str]", ask("get-memory-capabilities")))
