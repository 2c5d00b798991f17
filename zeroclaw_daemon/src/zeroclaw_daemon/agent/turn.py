"""One turn: the model speaks, its calls are made, it speaks again, until it has nothing more to call."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from itertools import chain, count
from typing import Final

from zeroclaw_daemon.agent.approval_policy import ApprovalPolicy, required
from zeroclaw_daemon.agent.asking import Consent
from zeroclaw_daemon.agent.context_budget import reduced
from zeroclaw_daemon.agent.directory import Agent
from zeroclaw_daemon.agent.events import (
    Approval,
    ContextUsed,
    HistoryTrimmed,
    MessageChunk,
    ThoughtChunk,
    ToolCalled,
    ToolReturned,
    TurnEvent,
)
from zeroclaw_daemon.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from zeroclaw_daemon.agent.providers.base import Ending, Finished, ModelRequest, TextDelta, ThoughtDelta
from zeroclaw_daemon.agent.surroundings import Surroundings, TurnSite
from zeroclaw_daemon.agent.tools import CheckedCall
from zeroclaw_daemon.records import record
from zeroclaw_daemon.strict_json import JsonValue, NotJson
from zeroclaw_host.errors import Kind, ZeroclawError
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.kinds import ToolResult

INTERRUPTED: Final = "[interrupted before the end]"
"""What the model is shown in place of the rest of a turn that was broken off."""

MAX_CALL_ID: Final = 256
"""Characters of the id of a call."""

logger = logging.getLogger(__name__)

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
    :param surroundings: where it takes place.
    :param call_ids: the ids of the calls made before in the conversation; those of this turn differ from them and are added.
    """

    def __init__(
        self,
        history: Sequence[Message],
        prompt: str,
        emit: Emit,
        call_site: CallSite,
        *,
        surroundings: Surroundings | None = None,
        call_ids: set[str] | None = None,
    ) -> None:
        self._history = tuple(history)
        self._prompt = prompt
        self._emit = emit
        self._call_site = call_site
        self._around = surroundings or Surroundings()
        self._recalled = ""
        self._finished: list[Message] = [UserMessage(prompt)]
        self._step_text: list[str] = []
        self._text: list[str] = []
        self.cut = False
        """Whether the model had no room for the rest of its last answer."""
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
        self._recalled = await self._recall(agent)
        for _ in range(agent.max_steps):
            await self._keep_to(agent.context_budget)
            calls = await self._ask(agent)
            if not calls:
                return self.text
            await self._make(calls, agent)
        limit = agent.max_steps
        raise StepLimit(f"the turn was ended after {limit} steps", details={"max_steps": limit})

    async def _recall(self, agent: Agent) -> str:
        """What the agent remembers for this turn; nothing where its memory fails."""
        try:
            return await agent.recall.recall(self._prompt)
        except ZeroclawError as error:
            record(
                logger, logging.WARNING, f"the turn goes on without what could be remembered: {error.message}",
                action="recall_failed", category="memory", outcome="failure", code=error.code,
                **self._call_site.attributes,
            )  # fmt: skip
            return ""

    async def _keep_to(self, budget: int) -> None:
        """Leave out the oldest turns where the conversation does not fit its budget."""
        reduction = reduced(self._history, self._finished, budget)
        if reduction is None:
            return
        self._history = reduction.history
        await self._emit(
            HistoryTrimmed(
                dropped_messages=reduction.dropped_messages,
                dropped_turns=reduction.dropped_turns,
                kept_turns=reduction.kept_turns,
                token_budget=budget,
                tokens_before=reduction.tokens_before,
                tokens_after=reduction.tokens_after,
                context=(*self._history, *self._finished),
                unsatisfiable=reduction.tokens_after > budget,
            )
        )

    async def _ask(self, agent: Agent) -> list[ToolCall]:
        """One question to the model: its text is streamed, its calls are returned."""
        request = ModelRequest(
            agent.model,
            "\n\n".join(filter(None, (agent.system_prompt, self._recalled))),
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
                    case Finished(ending, usage):
                        self.cut = ending is Ending.CUT
                        await self._emit(
                            ContextUsed(
                                None if usage is None else usage.input_tokens,
                                agent.context_budget or None,
                                agent.context_window,
                            )
                        )
        if not calls:
            self._finished.append(AssistantMessage("".join(self._step_text)))
            self._step_text.clear()
        return calls

    async def _make(self, calls: list[ToolCall], agent: Agent) -> None:
        """Make the calls of one step, in order. They enter the conversation together with their results."""
        results: list[ToolMessage] = []
        for call in calls:
            await self._emit(ToolCalled(call.id, call.name, _as_value(call)))
            site = TurnSite(
                {**self._call_site.attributes, "tool": call.name, "tool_call_id": call.id},
                self._around,
                agent.ask_seconds,
            )
            returned = await self._returned(call, agent, site)
            results.append(ToolMessage(call.id, call.name, returned.output, returned.success))
            for event in site.events:
                await self._emit(event)
            await self._emit(returned)
        self._finished.append(AssistantMessage("".join(self._step_text), tuple(calls)))
        self._finished.extend(results)
        self._step_text.clear()

    async def _returned(self, call: ToolCall, agent: Agent, site: TurnSite) -> ToolReturned:
        """What became of one call: it is checked, then let run or not, then run."""
        checked = agent.tools.checked(call)
        if isinstance(checked, ToolResult):
            return ToolReturned(call.id, call.name, _told(checked), False, ran=False)
        consent = await self._consent(checked, agent)
        if consent.refusal is not None:
            return ToolReturned(call.id, call.name, consent.refusal, False, consent.approval, ran=False)
        began = self._around.clock.now()
        result = await checked.run(site)
        duration = round((self._around.clock.now() - began) * 1000)
        return ToolReturned(
            call.id, call.name, _told(result), result.success, consent.approval, duration_ms=duration
        )

    async def _consent(self, call: CheckedCall, agent: Agent) -> Consent:
        match required(agent.approval, call.tool):
            case ApprovalPolicy.AUTO:
                return Consent(Approval.NOT_ASKED)
            case ApprovalPolicy.DENY:
                return Consent(Approval.REFUSED, "the tool was not run: this agent may not run any")
            case ApprovalPolicy.ASK:
                return await self._around.interlocutor.consent(
                    call.tool.name, call.arguments, agent.approval_seconds
                )

    def _with_own_id(self, call: ToolCall) -> ToolCall:
        """The call under an id that no other call of the conversation has; models are not always careful."""
        wanted = call.id if _names(call.id) else "call"
        names = chain([wanted], (f"{wanted}_{number}" for number in count(2)))
        unique = next(name for name in names if name not in self._call_ids)
        self._call_ids.add(unique)
        return ToolCall(unique, call.name, call.arguments)


def _names(call_id: str) -> bool:
    """Whether it can stand in every row, line and question after it: it is short, and no character in it is half of one."""
    return 0 < len(call_id) <= MAX_CALL_ID and call_id == call_id.encode(errors="ignore").decode()


def _as_value(call: ToolCall) -> JsonValue:
    """The arguments of a call, as a text where they are no value."""
    try:
        return call.parsed()
    except NotJson:
        return call.arguments


def _told(result: ToolResult) -> str:
    """What the model reads of a result."""
    if result.success:
        return result.output
    failure = f"error: {result.error or 'the tool failed'}"
    return f"{result.output}\n{failure}" if result.output else failure
