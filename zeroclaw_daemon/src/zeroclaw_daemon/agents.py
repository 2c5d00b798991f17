"""The agents of the configuration, with the tools they have right now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, Protocol

import anyio.to_thread
from pydantic import SecretStr

from zeroclaw_daemon.agent.approval_policy import ApprovalPolicy
from zeroclaw_daemon.agent.built_in import BUILT_IN_TOOLS
from zeroclaw_daemon.agent.directory import Agent, AgentNotFound
from zeroclaw_daemon.agent.providers.anthropic import Anthropic
from zeroclaw_daemon.agent.providers.base import (
    NO_CHOICE,
    ModelChoice,
    Provider,
    ProviderError,
    ProviderNotFound,
)
from zeroclaw_daemon.agent.providers.echo import EchoProvider
from zeroclaw_daemon.agent.providers.health import HealthBoard, ProviderHealth, ProviderState
from zeroclaw_daemon.agent.providers.openai import OpenAi
from zeroclaw_daemon.agent.providers.remote import AddressInvalid, Remote, RemoteProvider
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.installation_key import installation_key
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.saving import storage_error
from zeroclaw_daemon.config.schema import BUILT_IN_PROVIDER, ModelProvider
from zeroclaw_daemon.config.schema import Agent as AgentSettings
from zeroclaw_daemon.records import record
from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.private_files import make_private
from zeroclaw_host.services.install_key import InstallKey, SealBroken, is_sealed
from zeroclaw_host.services.sealing import KeyFile, KeyUnavailable
from zeroclaw_host.worlds.kinds import Tool

BUILT_IN_AGENT: Final = "assistant"
"""Who answers while no agent is configured (D-26)."""
_BUILT_IN_SETTINGS: Final = AgentSettings()
_ECHO: Final = EchoProvider()
_DIALECTS: Final = {"openai": OpenAi(), "anthropic": Anthropic()}
_NO_KEY: Final = InstallKey(bytes(32))
"""Reads what is not sealed, and refuses what is no secret either."""
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


def _settings(alias: str, snapshot: Snapshot) -> AgentSettings:
    known = settings_of(snapshot)
    settings = known.get(alias)
    if settings is None:
        raise AgentNotFound(alias, tuple(sorted(known)))
    return settings


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model provider as it is configured.

    :param settings: the path of its settings.
    :param model: what it is asked for unless an agent or a session says otherwise.
    :param provider: None where its address cannot be used; ``fault`` then says why.
    :param context_window: tokens the model can hold, None where nobody says.
    """

    settings: str
    model: str | None
    provider: Provider | None
    fault: str = ""
    context_window: int | None = None


class ModelViews:
    """The model providers, made of one whole configuration and put in place in one step (RPC-084).

    What is in place belongs to one revision. While another is in force, because the file was edited by hand, its views are
    made when they are first wanted. Thread-safe.

    :param key_file: what the providers' keys are sealed with.
    """

    def __init__(self, key_file: KeyFile) -> None:
        self._key_file = key_file
        self._health = HealthBoard()
        self._installed: tuple[str, Mapping[str, Endpoint]] = ("", {})

    def prepare(self, candidate: Snapshot) -> Callable[[], None]:
        """Make the views of a candidate, which nobody sees; the returned step puts them in place.

        A provider whose address cannot be used is no reason to refuse a candidate: the turns that want it say so.
        """
        views = candidate.revision, self._endpoints(candidate)

        def install() -> None:
            self._installed = views

        return install

    def endpoint(self, name: str, snapshot: Snapshot) -> Endpoint:
        """The provider of this name under this configuration.

        :raises ProviderNotFound: there is none.
        """
        endpoints = self._of(snapshot)
        if name not in endpoints:
            raise ProviderNotFound(sorted(endpoints))
        return endpoints[name]

    def facts(self, snapshot: Snapshot) -> list[dict[str, JsonValue]]:
        """What ``status`` tells of the configured providers, by name; nothing in it is a secret."""
        return [
            {"name": name, "model": endpoint.model, **self._health_of(name, endpoint).facts()}
            for name, endpoint in sorted(self._of(snapshot).items())
            if endpoint.provider is not _ECHO
        ]

    def _health_of(self, name: str, endpoint: Endpoint) -> ProviderHealth:
        if endpoint.provider is not None:
            return self._health.of(name)
        fault = f"{endpoint.settings}.uri {endpoint.fault}"
        return replace(self._health.of(name), state=ProviderState.UNUSABLE, failure=fault)

    def _of(self, snapshot: Snapshot) -> Mapping[str, Endpoint]:
        revision, endpoints = self._installed
        if revision != snapshot.revision:
            endpoints = self._endpoints(snapshot)
            self._installed = snapshot.revision, endpoints
        return endpoints

    def _endpoints(self, snapshot: Snapshot) -> dict[str, Endpoint]:
        return _endpoints(snapshot, self._key_file, self._health)


class ConfiguredAgents:
    """An :class:`~zeroclaw_daemon.agent.directory.AgentDirectory` over the configuration in force.

    :param current: the configuration in force.
    :param tools: where tools come from.
    """

    def __init__(self, current: Callable[[], Snapshot], paths: Paths, tools: ToolSource) -> None:
        self._current = current
        self._paths = paths
        self._tools = tools
        self.models: Final = ModelViews(installation_key(paths))
        self._registries: dict[str, tuple[tuple[Tool, ...], ToolRegistry]] = {}

    async def agent(self, alias: str, choice: ModelChoice = NO_CHOICE) -> Agent:
        """The agent as it is now; its tools are those installed now (D-17).

        :raises AgentNotFound: there is none of that name.
        :raises ProviderNotFound: the chosen provider is not configured.
        :raises ProviderError: its provider's address cannot be used, or no model is named.
        :raises StorageError: its workspace cannot be made.
        """
        snapshot = self._current()
        settings = _settings(alias, snapshot)
        return await anyio.to_thread.run_sync(self._build, alias, settings, choice, snapshot)

    def workspace(self, alias: str) -> str:
        """The directory that the agent works in, made where it is not there yet.

        :raises AgentNotFound: there is no agent of that name.
        :raises StorageError: it cannot be made.
        """
        return self._workspace(alias, _settings(alias, self._current()))

    def _build(self, alias: str, settings: AgentSettings, choice: ModelChoice, snapshot: Snapshot) -> Agent:
        name = choice.provider or settings.provider
        endpoint = self.models.endpoint(name, snapshot)
        if endpoint.provider is None:
            raise _unusable(f"{endpoint.settings}.uri {endpoint.fault}", endpoint, "uri")
        # The agent's model belongs to the agent's provider.
        own = settings.model if choice.provider is None else None
        model = choice.model or own or endpoint.model
        if not model:
            raise _unusable(f"no model is named for the model provider {name}", endpoint, "model")
        return Agent(
            alias=alias,
            provider=endpoint.provider,
            model=model,
            temperature=choice.temperature,
            system_prompt=settings.system_prompt,
            tools=self._registry(alias, settings, snapshot),
            max_steps=settings.max_steps,
            workspace=self._workspace(alias, settings),
            approval=ApprovalPolicy(settings.approval) if settings.approval is not None else None,
            approval_seconds=settings.approval_timeout_secs,
            ask_seconds=settings.ask_timeout_secs,
            max_context_tokens=settings.max_context_tokens,
            context_window=endpoint.context_window,
        )

    def _registry(self, alias: str, settings: AgentSettings, snapshot: Snapshot) -> ToolRegistry:
        """The agent's tools by name, the same object as long as they are the same: it keeps compiled schemas."""
        chosen = tuple(
            tool
            for tool in (*BUILT_IN_TOOLS, *self._tools.tools(snapshot))
            if ALL_TOOLS in settings.tools or tool.name in settings.tools
        )
        known = self._registries.get(alias)
        if known is None or known[0] != chosen:
            known = (chosen, ToolRegistry(_distinct(chosen)))
            self._registries[alias] = known
        return known[1]

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


def _unusable(message: str, endpoint: Endpoint, setting: str) -> ProviderError:
    remedy = Remedy(RemedyAction.SET_CONFIG, {"path": f"{endpoint.settings}.{setting}"})
    return ProviderError(message, remedy=remedy)


def _endpoints(snapshot: Snapshot, key_file: KeyFile, health: HealthBoard) -> dict[str, Endpoint]:
    echo = Endpoint(f"providers.models.{BUILT_IN_PROVIDER}", BUILT_IN_PROVIDER, _ECHO)
    found = {BUILT_IN_PROVIDER: echo}
    for kind, named in snapshot.config.providers.models.items():
        for alias, settings in named.items():
            path = f"providers.models.{kind}.{alias}"
            if kind == BUILT_IN_PROVIDER:
                found[f"{kind}.{alias}"] = Endpoint(path, settings.model or BUILT_IN_PROVIDER, _ECHO)
            else:
                found[f"{kind}.{alias}"] = _remote(kind, alias, settings, key_file, health)
    return found


def _remote(
    kind: Literal["openai", "anthropic"],
    alias: str,
    settings: ModelProvider,
    key_file: KeyFile,
    health: HealthBoard,
) -> Endpoint:
    path = f"providers.models.{kind}.{alias}"
    remote = Remote(
        f"{kind}.{alias}",
        path,
        settings.uri,
        partial(_key, settings.api_key, f"{path}.api_key", key_file),
        float(settings.timeout_secs),
    )
    try:
        return Endpoint(
            path,
            settings.model,
            RemoteProvider(remote, _DIALECTS[kind], health=health),
            context_window=settings.context_window,
        )
    except AddressInvalid as error:
        return Endpoint(path, settings.model, None, str(error))


def _key(sealed: SecretStr | None, path: str, key_file: KeyFile) -> str | None:
    """A provider's key as it is sent; None where it has none.

    :raises ProviderError: it cannot be unsealed.
    """
    text = sealed.get_secret_value() if sealed is not None else ""
    if not text:
        return None
    again = Remedy(RemedyAction.SET_CONFIG, {"path": path})
    try:
        return (key_file.read() if is_sealed(text) else _NO_KEY).unseal(text)
    except KeyUnavailable as error:
        raise ProviderError(f"{path} cannot be read: {error.message}", remedy=error.remedy) from error
    except SealBroken as error:
        raise ProviderError(f"{path} cannot be read: {error.message}", remedy=again) from error


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
