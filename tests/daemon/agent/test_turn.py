"""One turn of an agent."""

from __future__ import annotations

import json
from collections.abc import Mapping

import anyio
import pytest

from zeroclaw_daemon.agent.directory import Agent, AgentNotFound, FixedAgents
from zeroclaw_daemon.agent.events import MessageChunk, ThoughtChunk, ToolCalled, ToolReturned, TurnEvent
from zeroclaw_daemon.agent.messages import (
    MAX_ARGUMENT_DEPTH,
    AssistantMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from zeroclaw_daemon.agent.providers.base import ProviderError, TextDelta, ThoughtDelta
from zeroclaw_daemon.agent.providers.scripted import Line, Pause, ScriptedProvider
from zeroclaw_daemon.agent.surroundings import Surroundings
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.agent.turn import INTERRUPTED, StepLimit, Turn
from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.strict_json import encode, parse
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.kinds import Tool, ToolResult

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Upper(Tool):
    """A tool that shouts, or fails at numbers."""

    name = "upper"
    description = "upper case"
    parameters_schema: Mapping[str, object] = {"required": ["text"]}

    def __init__(self) -> None:
        self.sites: list[Mapping[str, str]] = []

    async def execute(self, arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        self.sites.append(call_site.attributes)
        text = str(arguments["text"])
        return ToolResult(True, text.upper()) if text.isalpha() else ToolResult(False, "seen", "no letters")


def upper(call_id: str, text: str) -> ToolCall:
    return ToolCall(call_id, "upper", json.dumps({"text": text}))


class Run:
    """A turn with a scripted model, and what it emitted."""

    def __init__(self, *scripts: list[Line], max_steps: int = 10) -> None:
        self.provider = ScriptedProvider(*scripts)
        self.tool = Upper()
        self.agent = Agent(
            "a", self.provider, "m", "be brief", ToolRegistry([self.tool]), max_steps=max_steps
        )
        self.events: list[TurnEvent] = []
        self.turn = Turn(
            [UserMessage("before"), AssistantMessage("indeed")],
            "now",
            self.emit,
            CallSite({"turn": "t"}),
            surroundings=Surroundings(clock=ManualClock()),
        )

    async def take(self) -> str:
        return await self.turn.run(self.agent)

    async def emit(self, event: TurnEvent) -> None:
        self.events.append(event)


async def test_the_answer_is_what_was_streamed() -> None:
    run = Run([TextDelta("a"), ThoughtDelta("hm"), TextDelta("b")])
    assert await run.take() == run.turn.text == "ab"
    assert run.events == [MessageChunk("a"), ThoughtChunk("hm"), MessageChunk("b")]
    assert run.turn.messages == (UserMessage("now"), AssistantMessage("ab"))
    request = run.provider.requests[0]
    assert (request.model, request.system_prompt) == ("m", "be brief")
    assert request.messages == (UserMessage("before"), AssistantMessage("indeed"), UserMessage("now"))
    assert [spec.name for spec in request.tools] == ["upper"]


async def test_calls_are_made_in_order_and_shown_to_the_model() -> None:
    run = Run([TextDelta("see: "), upper("1", "x"), upper("2", "5")], [TextDelta("fine")])
    assert await run.take() == "see: fine"
    assert run.events == [
        MessageChunk("see: "),
        ToolCalled("1", "upper", {"text": "x"}),
        ToolReturned("1", "upper", "X", True, duration_ms=0),
        ToolCalled("2", "upper", {"text": "5"}),
        ToolReturned("2", "upper", "seen\nerror: no letters", False, duration_ms=0),
        MessageChunk("fine"),
    ]
    assert run.provider.requests[1].messages[3:] == (
        AssistantMessage("see: ", (upper("1", "x"), upper("2", "5"))),
        ToolMessage("1", "upper", "X", True),
        ToolMessage("2", "upper", "seen\nerror: no letters", False),
    )
    assert run.turn.messages[-1] == AssistantMessage("fine")
    assert run.tool.sites[0] == {"turn": "t", "tool": "upper", "tool_call_id": "1"}


@pytest.mark.parametrize("beyond", [0, 1])
async def test_arguments_are_told_as_a_value_that_fits_into_a_message_or_as_their_text(beyond: int) -> None:
    levels = MAX_ARGUMENT_DEPTH + beyond
    arguments = "[" * levels + "]" * levels
    run = Run([ToolCall("1", "upper", arguments)], [TextDelta("ok")])
    await run.take()
    told = run.events[0]
    assert isinstance(told, ToolCalled)
    assert told.arguments == (arguments if beyond else json.loads(arguments))
    # Whoever reads it inside of other messages has room for their levels.
    line = encode({"jsonrpc": "2.0", "result": {"messages": [{"toolCall": {"input": told.arguments}}]}})
    assert parse(line)["jsonrpc"] == "2.0"


@pytest.mark.req("RPC-127")
async def test_a_call_is_told_before_it_is_made() -> None:
    run = Run([upper("1", "x")], [TextDelta("ok")])
    told: list[int] = []
    execute = run.tool.execute

    async def watched(arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        told.append(len(run.events))
        return await execute(arguments, call_site=call_site)

    run.tool.execute = watched  # type: ignore[method-assign]
    await run.take()
    assert told == [1]
    assert run.events[0] == ToolCalled("1", "upper", {"text": "x"})


async def test_a_call_that_cannot_be_made_is_told_to_the_model_and_the_turn_goes_on() -> None:
    run = Run([ToolCall("1", "nothing", "{}"), ToolCall("2", "upper", "not json")], [TextDelta("sorry")])
    assert await run.take() == "sorry"
    results = [event for event in run.events if isinstance(event, ToolReturned)]
    assert [result.success for result in results] == [False, False]
    assert "there is no tool nothing" in results[0].output
    assert ToolCalled("2", "upper", "not json") in run.events


async def test_every_call_has_an_id_of_its_own() -> None:
    run = Run([upper("", "a"), upper("1", "b"), upper("1", "c")], [upper("1", "d")], [TextDelta("ok")])
    await run.take()
    ids = [event.call_id for event in run.events if isinstance(event, ToolCalled)]
    assert len(set(ids)) == 4
    assert all(ids)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("\ud800", "call"),
        ("x" * 257, "call"),
        ("x" * 256, "x" * 256),
        ("\U0001f600", "\U0001f600"),
        ("", "call"),
    ],
)
async def test_an_id_that_cannot_be_one_gives_way_to_another(given: str, kept: str) -> None:
    run = Run([upper(given, "a"), upper(given, "b")], [TextDelta("done")])
    await run.take()
    ids = [event.call_id for event in run.events if isinstance(event, ToolCalled)]
    assert ids == [kept, f"{kept}_2"]


@pytest.mark.parametrize(("max_steps", "ends"), [(3, True), (2, False)])
async def test_a_model_that_never_stops_calling_is_stopped(max_steps: int, ends: bool) -> None:
    run = Run([upper("1", "a")], [upper("2", "b")], [TextDelta("end")], max_steps=max_steps)
    if ends:
        assert await run.take() == "end"
    else:
        with pytest.raises(StepLimit) as caught:
            await run.take()
        assert caught.value.details == {"max_steps": 2}
    assert len(run.provider.requests) == max_steps


async def test_a_model_that_fails_leaves_what_it_had_said() -> None:
    run = Run([TextDelta("half"), ProviderError("gone")])
    with pytest.raises(ProviderError, match="gone"):
        await run.take()
    assert run.turn.text == "half"
    assert run.turn.broken_off() == (UserMessage("now"), AssistantMessage(f"half\n{INTERRUPTED}"))


async def test_a_cancelled_turn_closes_the_models_stream_and_keeps_whole_steps() -> None:
    pause = Pause()
    run = Run([upper("1", "a")], [TextDelta("half"), pause])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.take)
        await pause.reached.wait()
        tasks.cancel_scope.cancel()
    assert run.provider.closed == 2
    assert run.turn.broken_off() == (
        UserMessage("now"),
        AssistantMessage("", (upper("1", "a"),)),
        ToolMessage("1", "upper", "A"),
        AssistantMessage(f"half\n{INTERRUPTED}"),
    )


async def test_an_agent_that_is_not_there_is_an_error_that_names_those_that_are() -> None:
    agents = FixedAgents(Agent("b", ScriptedProvider(), "m"), Agent("a", ScriptedProvider(), "m"))
    with pytest.raises(AgentNotFound) as caught:
        await agents.agent("c")
    assert caught.value.details == {"known": ["a", "b"]}
