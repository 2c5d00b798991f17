"""The model that is always there."""

from __future__ import annotations

import time

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from zeroclaw_daemon.agent.providers.base import (
    ModelEvent,
    ModelRequest,
    ProviderError,
    TextDelta,
    ThoughtDelta,
)
from zeroclaw_daemon.agent.providers.echo import EchoProvider
from zeroclaw_daemon.clock import ManualClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def say(*messages: Message | str, clock: ManualClock | None = None) -> list[ModelEvent]:
    conversation = tuple(UserMessage(m) if isinstance(m, str) else m for m in messages)
    provider = EchoProvider(clock or ManualClock())
    return [event async for event in provider.stream(ModelRequest("echo-1", "", conversation))]


def text(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@given(st.text(min_size=1).filter(lambda prompt: not prompt.lstrip().startswith("/")))
async def test_what_is_no_directive_comes_back_in_pieces(prompt: str) -> None:
    assert text(await say(prompt)) == prompt


@given(st.text().map(lambda rest: "/" + rest))
async def test_no_directive_whatever_it_is_breaks_the_provider(prompt: str) -> None:
    clock = ManualClock()
    if prompt.startswith(("/slow", "/fail")) or "/twice" in prompt:
        return
    for event in await say(prompt, clock=clock):
        assert isinstance(event, (TextDelta, ThoughtDelta, ToolCall))


async def test_a_tool_is_called_and_its_output_is_the_answer() -> None:
    call = ToolCall("tc_1", "redact", '{"text": "a b"}')
    assert await say('/tool redact {"text": "a b"}') == [call]
    assert await say("/tool  x") == [ToolCall("tc_1", "x", "{}")]
    after = await say(
        '/tool redact {"text": "a b"}', AssistantMessage("", (call,)), ToolMessage("tc_1", "redact", "x y")
    )
    assert text(after) == "x y"


async def test_a_tool_result_of_an_earlier_turn_is_not_answered_again() -> None:
    earlier = (UserMessage("/tool x {}"), ToolMessage("tc_1", "x", "old"), AssistantMessage("old"))
    assert text(await say(*earlier, "new words")) == "new words"


async def test_thinking_is_not_answering() -> None:
    assert await say("/think deep thoughts") == [ThoughtDelta("deep thoughts"), TextDelta("done")]


@pytest.mark.parametrize(
    ("prompt", "pieces"),
    [("/chunks 2 Hello", ["Hel", "lo"]), ("/chunks 5 abc", ["a", "b", "c"]), ("/chunks 1 a b", ["a b"]),
     ("/chunks 0 ab", ["ab"]), ("/chunks x ab", ["/chunks ", "x ", "ab"]), ("/chunks 3 ", ["/chunks ", "3"])],
)  # fmt: skip
async def test_text_can_be_cut_into_so_many_pieces(prompt: str, pieces: list[str]) -> None:
    assert await say(prompt) == [TextDelta(piece) for piece in pieces]


async def test_slow_text_waits_after_each_word() -> None:
    clock = ManualClock()
    provider = EchoProvider(clock)
    stream = provider.stream(ModelRequest("m", "", (UserMessage("/slow 250 one two"),)))
    assert await anext(stream) == TextDelta("one ")
    async with anyio.create_task_group() as tasks:
        got: list[ModelEvent] = []

        async def more() -> None:
            got.append(await anext(stream))

        tasks.start_soon(more)
        while not clock.waits:
            await anyio.lowlevel.checkpoint()
        clock.advance(0.2)
        await anyio.wait_all_tasks_blocked()
        assert not got
        clock.advance(0.1)
    assert got == [TextDelta("two")]
    await stream.aclose()


async def test_it_fails_when_told_to() -> None:
    with pytest.raises(ProviderError, match="out of order"):
        await say("/fail out of order")


async def test_it_names_its_model() -> None:
    assert text(await say("/model")) == "echo-1"


async def test_twice_is_one_thing_and_then_another() -> None:
    assert text(await say("/twice one ;; two")) == "onetwo"
    prompt = "/twice /tool a {} ;; /tool b {}"
    first, second = ToolMessage("tc_1", "a", "A"), ToolMessage("tc_2", "b", "B")
    assert await say(prompt) == [ToolCall("tc_1", "a", "{}")]
    assert await say(prompt, first) == [ToolCall("tc_2", "b", "{}")]
    assert text(await say(prompt, first, second)) == "B"
    assert text(await say("/twice /tool a {} ;; the end", first)) == "the end"
    assert text(await say("/twice one ;; /twice /model ;; three")) == "oneecho-1three"


@pytest.mark.parametrize(
    "prompt",
    [
        "/twice a" + " " * 200_000 + "b",
        "/twice " + " " * 200_000 + "b",
        "/twice a ;; " * 50_000,
        "/twice ;;" * 50_000,
    ],
    ids=["no separator", "no first part", "many parts", "many empty parts"],
)
async def test_a_long_prompt_takes_no_longer_than_it_is_long(prompt: str) -> None:
    began = time.monotonic()
    await say(prompt)
    # Reading a prompt again and again from its middle takes minutes for these; reading it once takes milliseconds.
    assert time.monotonic() - began < 10


async def test_a_tool_result_of_blanks_comes_back_quickly() -> None:
    blanks = " " * 200_000
    began = time.monotonic()
    events = await say("/tool t {}", ToolMessage("tc_1", "t", blanks, True))
    assert text(events) == blanks
    assert time.monotonic() - began < 10
