"""One turn: the model speaks, its calls are made, it speaks again, until it has nothing more to call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from itertools import count
from typing import Final

from zeroclaw_daemon.agent.directory import Agent
from zeroclaw_daemon.agent.events import MessageChunk, ThoughtChunk, ToolCalled, ToolReturned, TurnEvent
from zeroclaw_daemon.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from zeroclaw_daemon.agent.providers.base import Finished, ModelRequest, TextDelta, ThoughtDelta
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.strict_json import JsonValue, NotJson, parse
from zeroclaw_host.errors import Kind, ZeroclawError
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.kinds import ToolResult

INTERRUPTED: Final = "[interrupted before the end]"
"""What the model is shown in place of the rest of a turn that was broken off."""

Emit = Callable[[TurnEvent], Awaitable[None]]
"""Takes the events of a turn in order. A slow taker slows the turn."""


class StepLimit(ZeroclawError):
    """The model kept calling tools. ``details`` holds ``max_steps``."""

    code = "turn_step_limit"
    kind = Kind.LIMIT


class Turn:
    """One turn. After :meth:`run` ended, however it ended, the rest says how far it came.

    :param history: the conversation before this turn.
    :param call_site: whom log records of tools are attributed to; each call adds its tool.
    :param call_ids: the ids of the calls made before in the conversation; those of this turn differ from them and are added.
    """

    def __init__(
        self,
        history: Sequence[Message],
        prompt: str,
        emit: Emit,
        call_site: CallSite,
        *,
        call_ids: set[str] | None = None,
    ) -> None:
        self._history = tuple(history)
        self._emit = emit
        self._call_site = call_site
        self._finished: list[Message] = [UserMessage(prompt)]
        self._step_text: list[str] = []
        self._text: list[str] = []
        self._call_ids: set[str] = set() if call_ids is None else call_ids

    @property
    def history(self) -> tuple[Message, ...]:
        """What of the conversation before this turn the model still hears."""
        return self._history

    @property
    def text(self) -> str:
        """Everything the model has said so far, without its thoughts."""
        return "".join(self._text)

    @property
    def messages(self) -> tuple[Message, ...]:
        """What a whole turn adds to the conversation."""
        return tuple(self._finished)

    def broken_off(self) -> tuple[Message, ...]:
        """What a turn that did not end adds to the conversation: a call is in it only with its result, and a note says to
        the model that it was interrupted.
        """
        said = "".join(self._step_text)
        return (*self._finished, AssistantMessage(f"{said}\n{INTERRUPTED}" if said else INTERRUPTED))

    async def run(self, agent: Agent) -> str:
        """Let this agent take the turn; the text of the answer.

        :raises ProviderError: the model failed.
        :raises StepLimit: it has asked the model as often as the agent may.
        """
        for _ in range(agent.max_steps):
            calls = await self._ask(agent)
            if not calls:
                return self.text
            await self._make(calls, agent.tools)
        limit = agent.max_steps
        raise StepLimit(f"the turn was ended after {limit} steps", details={"max_steps": limit})

    async def _ask(self, agent: Agent) -> list[ToolCall]:
        """One question to the model: its text is streamed, its calls are returned."""
        request = ModelRequest(
            agent.model,
            agent.system_prompt,
            (*self._history, *self._finished),
            agent.tools.specs(),
            agent.temperature,
        )
        calls: list[ToolCall] = []
        async with aclosing(agent.provider.stream(request)) as events:
            async for event in events:
                match event:
                    case TextDelta(text):
                        self._step_text.append(text)
                        self._text.append(text)
                        await self._emit(MessageChunk(text))
                    case ThoughtDelta(text):
                        await self._emit(ThoughtChunk(text))
                    case ToolCall():
                        calls.append(self._with_own_id(event))
                    case Finished():
                        pass  # The end of the stream says the same.
        if not calls:
            self._finished.append(AssistantMessage("".join(self._step_text)))
            self._step_text.clear()
        return calls

    async def _make(self, calls: list[ToolCall], tools: ToolRegistry) -> None:
        """Make the calls of one step, in order. They enter the conversation together with their results."""
        results: list[ToolMessage] = []
        for call in calls:
            await self._emit(ToolCalled(call.id, call.name, _as_value(call.arguments)))
            site = CallSite({**self._call_site.attributes, "tool": call.name, "tool_call_id": call.id})
            result = await tools.call(call, site)
            results.append(ToolMessage(call.id, call.name, _told(result), result.success))
            await self._emit(ToolReturned(call.id, call.name, _told(result), result.success))
        self._finished.append(AssistantMessage("".join(self._step_text), tuple(calls)))
        self._finished.extend(results)
        self._step_text.clear()

    def _with_own_id(self, call: ToolCall) -> ToolCall:
        """The call under an id that no other call of the conversation has; models are not always careful."""
        names: Iterator[str] = (f"{call.id or 'call'}_{number}" for number in count(2))
        unique = (
            call.id
            if call.id and call.id not in self._call_ids
            else next(n for n in names if n not in self._call_ids)
        )
        self._call_ids.add(unique)
        return ToolCall(unique, call.name, call.arguments)


def _as_value(arguments: str) -> JsonValue:
    try:
        return parse(arguments)
    except NotJson:
        return arguments


def _told(result: ToolResult) -> str:
    """What the model reads of a result."""
    if result.success:
        return result.output
    failure = f"error: {result.error or 'the tool failed'}"
    return f"{result.output}\n{failure}" if result.output else failure
