"""A plugin's tool in a turn: asked about, run, told and recorded as one that is built into the daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

import pytest
from forge import Forge
from plugin_parts import Config, admitted, manifest_text

from zeroclaw_daemon.agent.approval_policy import ApprovalPolicy
from zeroclaw_daemon.agent.directory import Agent, FixedAgents
from zeroclaw_daemon.agent.messages import ToolCall
from zeroclaw_daemon.agent.providers.base import TextDelta
from zeroclaw_daemon.agent.providers.scripted import ScriptedProvider
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.sessions.durable import DurableSessions
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.sandbox.values import Ok
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import CallSite, MemoryLogSink
from zeroclaw_host.worlds.kinds import Tool, ToolResult
from zeroclaw_host.worlds.tool import ToolPlugin

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]
CACHE = Path(__file__).resolve().parents[3] / ".cache" / "test-guests" / "compiled"


class Forecast(Tool):
    """The same tool, built in."""

    name = "forecast"
    description = "Says what comes."
    parameters_schema = {"type": "object"}  # noqa: RUF012

    async def execute(self, arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        return ToolResult(True, "rain")


@pytest.fixture
def plugin() -> Iterator[ToolPlugin]:
    """A tool in the sandbox."""
    component = Forge().component(
        returns={
            "tool.name": Forecast.name,
            "tool.description": Forecast.description,
            "tool.parameters-schema": '{"type": "object"}',
            "tool.execute": Ok({"success": True, "output": "rain", "error": None}),
        }
    )
    package = admitted(manifest_text(Capability.TOOL).encode(), component)
    scope = InstanceScope.admit(InstanceIdentity.default_tool("forged"), package.manifest)
    with Sandbox(CACHE, threads=1) as sandbox:
        yield ToolPlugin.load(sandbox, package, scope, InstanceServices(Config(), MemoryLogSink()), Limits())


async def turn_with(tool: Tool, decision: str, serving: Serving, root: Path) -> dict[str, Any]:
    """Everything that client, model and store learn of a turn that calls this tool; without what is made up for each turn."""
    provider = ScriptedProvider([ToolCall("c", "forecast", '{"day": 1}')], [TextDelta("done")])
    agent = Agent("assistant", provider, "m", tools=ToolRegistry([tool]), approval=ApprovalPolicy.ASK)
    with closing(DurableSessions.at(root)) as durable:
        async with serving(agents=FixedAgents(agent), durable=durable) as daemon, daemon.connect() as wire:
            await wire.new_session(sessionId="s", chatMode="acp")
            prompt = {"sessionId": "s", "prompt": "go"}
            await wire.send({"jsonrpc": "2.0", "method": "session/prompt", "params": prompt, "id": 7})
            asked = await wire.update_of("approval_request")
            named = {"sessionId": "s", "requestId": asked["requestId"], "decision": decision}
            assert (await wire.call("session/approve", named))["acknowledged"]
            answer = await wire.answer_to(7)
            receipts = await durable.acp.read(lambda store: store.receipts("s"))
            for update in wire.updates:
                update["params"].pop("requestId", None)
            return {
                "offered": provider.requests[0].tools,
                "updates": wire.updates,
                "answer": answer,
                "heard": provider.requests[1].messages,
                "receipts": [
                    (each.call_id, each.tool, each.arguments_sha256, each.settled) for each in receipts
                ],
            }


@pytest.mark.req("PLG-027")
@pytest.mark.parametrize("decision", ["allow_once", "reject"])
async def test_a_plugins_tool_is_asked_about_and_recorded_as_a_built_in_one(
    serving: Serving, plugin: ToolPlugin, tmp_path: Path, decision: str
) -> None:
    found = await turn_with(plugin, decision, serving, tmp_path / "plugin")
    assert found == await turn_with(Forecast(), decision, serving, tmp_path / "built-in")
    [receipt] = found["receipts"]
    assert receipt[3] is not None
    assert [update["params"]["type"] for update in found["updates"]][:2] == ["tool_call", "approval_request"]
