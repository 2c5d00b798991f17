"""Which agents there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from zeroclaw_daemon.agent.approval_policy import ApprovalPolicy
from zeroclaw_daemon.agent.providers.base import NO_CHOICE, ModelChoice, Provider, ProviderNotFound
from zeroclaw_daemon.agent.recall import NoRecall, Recall
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_host.errors import Kind, ZeroclawError

DEFAULT_MAX_STEPS: Final = 25
"""Questions to the model in one turn: enough for long work, few enough that a loop of tool calls ends."""

DEFAULT_APPROVAL_SECONDS: Final = 120
DEFAULT_ASK_SECONDS: Final = 300
"""How long a person may take (D-33)."""


class AgentNotFound(ZeroclawError):
    """No agent has this alias. ``details`` holds the ``known`` aliases."""

    code = "agent_not_found"
    kind = Kind.NOT_FOUND

    def __init__(self, alias: str, known: tuple[str, ...]) -> None:
        super().__init__("there is no such agent", details={"known": list(known)})
        self.alias = alias


@dataclass(frozen=True, slots=True)
class Agent:
    """A model with instructions and tools, ready to take turns.

    ``workspace`` is the absolute directory it works in, where a session names none. ``approval`` None leaves it to the tools.
    ``max_context_tokens`` is what a conversation is reduced to, 0 for never (D-37); ``context_window`` what the model can hold,
    None where nobody says. ``recall`` is what it remembers from elsewhere.
    """

    alias: str
    provider: Provider
    model: str
    system_prompt: str = ""
    tools: ToolRegistry = field(default_factory=ToolRegistry)
    max_steps: int = DEFAULT_MAX_STEPS
    workspace: str = "/"
    temperature: float | None = None
    approval: ApprovalPolicy | None = None
    approval_seconds: int = DEFAULT_APPROVAL_SECONDS
    ask_seconds: int = DEFAULT_ASK_SECONDS
    max_context_tokens: int = 0
    context_window: int | None = None
    recall: Recall = field(default_factory=NoRecall)

    @property
    def context_budget(self) -> int:
        """Tokens that a conversation is reduced to, never more than the model can hold; 0 for never."""
        return min(self.max_context_tokens, self.context_window or self.max_context_tokens)

    def with_tools(self, allows: Callable[[str], bool] | None) -> Agent:
        """The same agent with only the tools whose names are allowed; None allows all."""
        return self if allows is None else replace(self, tools=self.tools.limited(allows))


class AgentDirectory(Protocol):
    """Finds agents. Asked at every turn, so that a change of configuration counts from the next one. May wait: an agent's
    tools may have to be loaded first, which never happens on the event loop.
    """

    async def agent(self, alias: str, choice: ModelChoice = NO_CHOICE) -> Agent:
        """The agent of this alias as it is now.

        :param choice: what it is to talk to instead of what it is configured with.
        :raises AgentNotFound: there is none.
        :raises ProviderNotFound: the chosen provider does not exist.
        """
        ...

    def workspace(self, alias: str) -> str:
        """The absolute directory that the agent of this alias works in; it exists. Blocks, and may be called from any thread.

        :raises AgentNotFound: there is none.
        :raises StorageError: it cannot be made.
        """
        ...


class FixedAgents:
    """A directory that never changes."""

    def __init__(self, *agents: Agent) -> None:
        self._agents: Mapping[str, Agent] = {agent.alias: agent for agent in agents}

    async def agent(self, alias: str, choice: ModelChoice = NO_CHOICE) -> Agent:
        """The agent given under this alias. There are no other providers than those given with the agents."""
        agent = self._agents.get(alias)
        if agent is None:
            raise AgentNotFound(alias, tuple(sorted(self._agents)))
        if choice.provider is not None:
            raise ProviderNotFound(())
        return replace(agent, model=choice.model or agent.model, temperature=choice.temperature)

    def workspace(self, alias: str) -> str:
        """The workspace of the agent given under this alias."""
        agent = self._agents.get(alias)
        if agent is None:
            raise AgentNotFound(alias, tuple(sorted(self._agents)))
        return agent.workspace
