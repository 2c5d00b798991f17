"""Agents as the configuration has them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_daemon.agent.approval_policy import ApprovalPolicy, Reach, reach_of, required
from zeroclaw_daemon.agent.built_in import BUILT_IN_TOOLS
from zeroclaw_daemon.agent.directory import Agent
from zeroclaw_daemon.agents import ConfiguredAgents
from zeroclaw_daemon.config.file import Snapshot, load
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.kinds import Tool, ToolResult

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Named(Tool):
    """A tool of a plugin, by its name."""

    description = "does nothing"
    parameters_schema: Mapping[str, object] = {}

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def execute(self, arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        return ToolResult(True, "plugin")


class Tools:
    """Where tools of plugins come from."""

    def __init__(self, *names: str) -> None:
        self._tools = [Named(name) for name in names]

    def tools(self, snapshot: Snapshot) -> Sequence[Tool]:
        return self._tools


def configured(tmp_path: Path, text: str, tools: Tools) -> ConfiguredAgents:
    paths = Paths.resolve(str(tmp_path / "config"), {"HOME": str(tmp_path)})
    Path(paths.config_dir).mkdir(mode=0o700)
    Path(paths.config_file).write_text(text)
    snapshot = load(Path(paths.config_file))
    return ConfiguredAgents(lambda: snapshot, paths, tools)


async def agent_of(tmp_path: Path, text: str, *plugins: str) -> Agent:
    return await configured(tmp_path, text, Tools(*plugins)).agent("ada")


HEAD = "schema_version = 1\n[agents.ada]\n"


async def test_an_agent_of_which_nothing_is_said_has_the_defaults(tmp_path: Path) -> None:
    agent = await agent_of(tmp_path, HEAD)
    assert (agent.approval, agent.approval_seconds, agent.ask_seconds) == (None, 120, 300)
    assert (agent.max_context_tokens, agent.context_window) == (32_000, None)
    assert agent.tools.names == ("ask_user", "bash", "plan", "poll")


async def test_what_is_said_of_an_agent_is_what_its_turns_go_by(tmp_path: Path) -> None:
    agent = await agent_of(
        tmp_path,
        HEAD
        + 'approval = "deny"\napproval_timeout_secs = 7\nask_timeout_secs = 8\nmax_context_tokens = 0\n'
        + 'provider = "openai.a"\n[providers.models.openai.a]\nmodel = "m"\ncontext_window = 9\n',
    )
    assert (agent.approval, agent.approval_seconds, agent.ask_seconds) == (ApprovalPolicy.DENY, 7, 8)
    assert (agent.max_context_tokens, agent.context_window) == (0, 9)


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        ('["*"]', ("ask_user", "bash", "plan", "poll", "weather")),
        ('["weather", "plan"]', ("plan", "weather")),
        ("[]", ()),
    ],
)
async def test_an_agent_has_the_tools_it_lists_whoever_provides_them(
    tmp_path: Path, tools: str, names: tuple[str, ...]
) -> None:
    agent = await agent_of(tmp_path, f"{HEAD}tools = {tools}\n", "weather")
    assert agent.tools.names == names


async def test_no_plugin_takes_the_place_of_a_built_in_tool(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    agent = await agent_of(tmp_path, HEAD, "bash")
    specs = {spec.name: spec.description for spec in agent.tools.specs()}
    assert specs["bash"] != Named.description
    assert "two tools are named bash" in caplog.text


REACHES: dict[str, Reach] = {
    "ask_user": Reach.CONVERSATION, "poll": Reach.CONVERSATION, "plan": Reach.CONVERSATION, "bash": Reach.SYSTEM,
    "weather": Reach.TOOL,
}  # fmt: skip
AUTO, ASK, DENY = ApprovalPolicy.AUTO, ApprovalPolicy.ASK, ApprovalPolicy.DENY


@pytest.mark.req("PLG-027")
@pytest.mark.parametrize(
    ("policy", "happens"),
    [
        (None, {Reach.CONVERSATION: AUTO, Reach.TOOL: AUTO, Reach.SYSTEM: ASK}),
        (AUTO, {Reach.CONVERSATION: AUTO, Reach.TOOL: AUTO, Reach.SYSTEM: AUTO}),
        (ASK, {Reach.CONVERSATION: AUTO, Reach.TOOL: ASK, Reach.SYSTEM: ASK}),
        (DENY, {Reach.CONVERSATION: DENY, Reach.TOOL: DENY, Reach.SYSTEM: DENY}),
    ],
)
def test_what_happens_before_a_tool_runs(
    policy: ApprovalPolicy | None, happens: dict[Reach, ApprovalPolicy]
) -> None:
    tools: list[Tool] = [*BUILT_IN_TOOLS, Named("weather")]
    assert {tool.name: reach_of(tool) for tool in tools} == REACHES
    assert {tool.name: required(policy, tool) for tool in tools} == {
        name: happens[reach] for name, reach in REACHES.items()
    }


def test_a_tool_that_makes_up_how_far_it_reaches_is_a_tool_like_every_other() -> None:
    tool: Any = Named("weather")
    tool.reach = "conversation"
    assert reach_of(tool) is Reach.TOOL


async def test_a_built_in_tool_outside_of_a_turn_says_that_it_cannot_work() -> None:
    for tool in BUILT_IN_TOOLS:
        assert isinstance(tool, Tool)
        result = await tool.execute({}, call_site=CallSite())
        assert (result.success, result.error) == (False, "this tool works only inside a turn")
