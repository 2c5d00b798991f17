"""The agents of the configuration, with the tools they have right now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import anyio.to_thread

from zeroclaw_daemon.agent.directory import Agent, AgentNotFound
from zeroclaw_daemon.agent.providers.base import Provider, ProviderError
from zeroclaw_daemon.agent.providers.echo import EchoProvider
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.saving import make_private, storage_error
from zeroclaw_daemon.config.schema import BUILT_IN_PROVIDER
from zeroclaw_daemon.config.schema import Agent as AgentSettings
from zeroclaw_daemon.records import record
from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.worlds.kinds import Tool

BUILT_IN_AGENT: Final = "assistant"
"""Who answers while no agent is configured (D-26)."""
_BUILT_IN_SETTINGS: Final = AgentSettings()
_ECHO: Final = EchoProvider()
ALL_TOOLS: Final = "*"

logger = logging.getLogger(__name__)


class ToolSource(Protocol):
    """Where tools come from."""

    def tools(self, snapshot: Snapshot) -> Sequence[Tool]:
        """The tools there are now. May take long and is never called on the event loop."""
        ...


def settings_of(snapshot: Snapshot) -> dict[str, AgentSettings]:
    """The agents that exist, by name: the enabled ones, or the built-in one while none is configured at all."""
    configured = snapshot.config.agents
    if not configured:
        return {BUILT_IN_AGENT: _BUILT_IN_SETTINGS}
    return {alias: agent for alias, agent in configured.items() if agent.enabled}


@dataclass(frozen=True, slots=True)
class ModelView:
    """What one agent talks to. ``provider`` is None where this daemon has none of this ``kind``."""

    kind: str
    model: str
    provider: Provider | None


class ModelViews:
    """The models of all agents, made of one whole configuration and put in place in one step (RPC-084).

    What is in place belongs to one revision. While another is in force, because the file was edited by hand, its views are
    made when they are first wanted. Thread-safe.
    """

    def __init__(self) -> None:
        self._installed: tuple[str, Mapping[str, ModelView]] = ("", {})

    def prepare(self, candidate: Snapshot) -> Callable[[], None]:
        """Make the views of a candidate, which nobody sees; the returned step puts them in place.

        An agent whose provider this daemon does not have is no reason to refuse a candidate: its turns say so.
        """
        views = candidate.revision, _views(candidate)

        def install() -> None:
            self._installed = views

        return install

    def view(self, alias: str, snapshot: Snapshot) -> ModelView:
        """What this agent talks to under this configuration."""
        revision, views = self._installed
        if revision != snapshot.revision:
            views = _views(snapshot)
            self._installed = snapshot.revision, views
        return views[alias]


class ConfiguredAgents:
    """An :class:`~zeroclaw_daemon.agent.directory.AgentDirectory` over the configuration in force.

    :param current: the configuration in force.
    :param tools: where tools come from.
    """

    def __init__(self, current: Callable[[], Snapshot], paths: Paths, tools: ToolSource) -> None:
        self._current = current
        self._paths = paths
        self._tools = tools
        self.models: Final = ModelViews()
        self._registries: dict[str, tuple[tuple[Tool, ...], ToolRegistry]] = {}
        self._withheld: set[str] = set()

    async def agent(self, alias: str) -> Agent:
        """The agent as it is now; its tools are those installed now (D-17).

        :raises AgentNotFound: there is none of that name.
        :raises ProviderError: its provider is of a kind this daemon does not have.
        :raises StorageError: its workspace cannot be made.
        """
        snapshot = self._current()
        known = settings_of(snapshot)
        settings = known.get(alias)
        if settings is None:
            raise AgentNotFound(alias, tuple(sorted(known)))
        return await anyio.to_thread.run_sync(self._build, alias, settings, snapshot)

    def _build(self, alias: str, settings: AgentSettings, snapshot: Snapshot) -> Agent:
        model = self.models.view(alias, snapshot)
        if model.provider is None:
            raise ProviderError(
                f"agent {alias} wants a model provider of kind {model.kind}, which this daemon does not have",
                remedy=Remedy(
                    RemedyAction.SET_CONFIG, {"path": f"agents.{alias}.provider", "value": BUILT_IN_PROVIDER}
                ),
            )
        return Agent(
            alias=alias,
            provider=model.provider,
            model=model.model,
            system_prompt=settings.system_prompt,
            tools=self._registry(alias, settings, snapshot),
            max_steps=settings.max_steps,
            workspace=self._workspace(alias, settings),
        )

    def _registry(self, alias: str, settings: AgentSettings, snapshot: Snapshot) -> ToolRegistry:
        """The agent's tools by name, the same object as long as they are the same: it keeps compiled schemas."""
        if settings.approval != "auto":
            self._say_withheld(alias, settings.approval)
            return ToolRegistry()
        chosen = tuple(
            tool
            for tool in self._tools.tools(snapshot)
            if ALL_TOOLS in settings.tools or tool.name in settings.tools
        )
        known = self._registries.get(alias)
        if known is None or known[0] != chosen:
            known = (chosen, ToolRegistry(_distinct(chosen)))
            self._registries[alias] = known
        return known[1]

    def _say_withheld(self, alias: str, approval: str) -> None:
        """What must be asked about must not run unasked, and nothing can ask yet."""
        if alias not in self._withheld:
            self._withheld.add(alias)
            record(
                logger, logging.WARNING, f"agent {alias} gets no tools: agents.{alias}.approval is {approval}",
                action="tools_withheld", category="agent", agent=alias, approval=approval,
            )  # fmt: skip

    def _workspace(self, alias: str, settings: AgentSettings) -> str:
        base = Path(self._paths.config_dir)
        default = base / "agents" / alias / "workspace"
        workspace = (
            base / Path(settings.workspace).expanduser() if settings.workspace is not None else default
        )
        try:
            make_private(workspace)
        except OSError as error:
            raise storage_error(error, str(workspace), f"make the workspace of agent {alias}") from error
        return str(workspace)


def _views(snapshot: Snapshot) -> dict[str, ModelView]:
    return {alias: _view(settings, snapshot) for alias, settings in settings_of(snapshot).items()}


def _view(settings: AgentSettings, snapshot: Snapshot) -> ModelView:
    kind, _, name = settings.provider.partition(".")
    models = {str(key): value for key, value in snapshot.config.providers.models.items()}
    endpoint = models.get(kind, {}).get(name)
    model = settings.model or (endpoint.model if endpoint is not None else None) or kind
    return ModelView(kind, model, _ECHO if kind == BUILT_IN_PROVIDER else None)


def _distinct(tools: Sequence[Tool]) -> list[Tool]:
    """The first of several tools with one name; the others are logged and left out."""
    found: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in found:
            record(
                logger, logging.WARNING, f"two tools are named {tool.name}; the first one is used",
                action="tool_shadowed", category="plugin", tool=tool.name,
            )  # fmt: skip
        else:
            found[tool.name] = tool
    return list(found.values())
