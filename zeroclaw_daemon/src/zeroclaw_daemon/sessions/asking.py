"""Who is asked in a session, and what waits for their answer."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Final, Protocol

import anyio

from zeroclaw_daemon.agent.asking import (
    Answer,
    Answered,
    AnswerUnusable,
    CannotAsk,
    Consent,
    Unanswered,
)
from zeroclaw_daemon.agent.events import Approval, ApprovalRequested
from zeroclaw_daemon.clock import Clock, SystemClock
from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_host.visible import visible

MAX_SUMMARY: Final = 2_000
"""Characters of a call's arguments that a person is shown."""


class Decision(StrEnum):
    """What a person may say to a tool that waits (RPC-243)."""

    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT = "reject"
    REJECT_ONCE = "reject_once"
    REJECT_WITH_EDIT = "reject_with_edit"


_ALLOWING: Final = frozenset({Decision.ALLOW_ONCE, Decision.ALLOW_ALWAYS})
_CONSENTING: Final = _ALLOWING | {Decision.REJECT_WITH_EDIT}
"""What has something run, be it another thing. To stop a tool, no right is needed but the one to the session."""

Judge = Callable[[str, str | None], None]
"""Raises where somebody may not have this tool run in a turn of this scope."""


class Audience(Protocol):
    """The client that a session is bound to. Two of the same client and session are equal."""

    @property
    def gone(self) -> bool:
        """Whether it has hung up."""
        ...

    @property
    def takes_questions(self) -> bool:
        """Whether ``elicitation/create`` may be sent to it (D-40)."""
        ...

    def at_hang_up(self, call: Callable[[], None]) -> AbstractContextManager[None]:
        """Hear of its hanging up while a block runs; at once if it has already."""
        ...

    async def show(self, request: ApprovalRequested) -> None:
        """Show a tool that waits for consent."""
        ...

    async def elicit(self, message: str, schema: JsonValue) -> JsonValue:
        """Ask, and wait for the result of the request. Whoever calls bounds the time.

        :raises QuestionFailed: the client answered with an error, or went.
        """
        ...


class _Waiting:
    """One call that waits for consent, and in whose turn."""

    def __init__(self, tool: str, scope: str | None) -> None:
        self.tool = tool
        self.scope = scope
        self.decision: Decision | None = None
        self.replacement: JsonValue = None
        self._stirred = anyio.Event()

    def stir(self) -> None:
        """Have whoever waits look again."""
        self._stirred.set()

    async def stirred(self) -> None:
        """Wait until there is something to look at."""
        await self._stirred.wait()
        self._stirred = anyio.Event()


class Asking:
    """Asks in one live session: an :class:`~zeroclaw_daemon.agent.asking.Interlocutor`.

    A ``scope`` is the principal that a caller is held to, None for those that see every session. In a turn only its own scope is
    asked, and those that see every session: it has their rights, and maybe secrets in its environment (RPC-243, RPC-247).

    Tools that were allowed for good are allowed in the turns of one scope in this session, and forgotten with it.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._audience: Audience | None = None
        self._waiting: dict[str, _Waiting] = {}
        self._always: set[tuple[str | None, str]] = set()
        self._running = False
        self._scope: str | None = None
        self._joined: Audience | None = None

    @property
    def audience(self) -> Audience | None:
        """The client that the session is bound to, or None when that one is gone."""
        return None if self._audience is None or self._audience.gone else self._audience

    @audience.setter
    def audience(self, audience: Audience | None) -> None:
        """Bind the session to another client, which is shown what waits now (RPC-061)."""
        if audience != self._audience:
            self._audience = audience
            for waiting in self._waiting.values():
                waiting.stir()

    def begin(self, scope: str | None, audience: Audience | None) -> None:
        """A turn begins that was asked for by this scope, from this client; left out, the session stays bound as it is."""
        self._running, self._scope = True, scope
        if audience is not None:
            self.audience = audience

    def end(self) -> None:
        """The turn is over. Who joined and could not be asked in it is from now on."""
        self._running, joined, self._joined = False, self._joined, None
        if joined is not None and not joined.gone:
            self.audience = joined

    def join(self, audience: Audience, scope: str | None) -> None:
        """Bind the session to a client that opened it (RPC-061): at once, or after a turn in which it may not be asked."""
        if self._running and scope is not None and scope != self._scope:
            self._joined = audience
        else:
            self._joined, self.audience = None, audience

    def resolve(
        self, request_id: str, decision: Decision, replacement: JsonValue = None, *, judge: Judge
    ) -> bool:
        """Decide on a call that waits; False where none of this id does. The first decision counts.

        :param judge: is asked before a decision counts that has something run. What it raises is raised, and the call waits on.
        """
        waiting = self._waiting.get(request_id)
        if waiting is None or waiting.decision is not None:
            return False
        if decision in _CONSENTING:
            judge(waiting.tool, waiting.scope)
        waiting.decision, waiting.replacement = decision, replacement
        waiting.stir()
        return True

    async def consent(self, tool: str, arguments: JsonValue, seconds: int) -> Consent:
        """Whether a tool may run. Somebody who is gone, or silent for that long, lets nothing run (D-33)."""
        scope = self._scope
        if (scope, tool) in self._always:
            return Consent(Approval.ALLOWED)
        request = ApprovalRequested(str(uuid.uuid4()), tool, summary(arguments), seconds)
        waiting = self._waiting[request.request_id] = _Waiting(tool, scope)
        try:
            with self._clock.move_on_after(seconds):
                await self._decided(request, waiting)
        finally:
            del self._waiting[request.request_id]
        if waiting.decision is Decision.ALLOW_ALWAYS:
            self._always.add((scope, tool))
        return _consent(waiting, gone=self.audience is None)

    async def _decided(self, request: ApprovalRequested, waiting: _Waiting) -> None:
        """Wait for a decision, or for there being nobody left to make one."""
        shown_to: Audience | None = None
        while waiting.decision is None and (audience := self.audience) is not None:
            with audience.at_hang_up(waiting.stir):
                if audience != shown_to:
                    shown_to = audience
                    await audience.show(request)
                await waiting.stirred()

    async def ask(self, message: str, schema: JsonValue, seconds: int) -> Answer:
        """The answer of the client that the session is bound to now; one that comes later is answered by nobody (RPC-094)."""
        audience = self.audience
        if audience is None:
            raise CannotAsk("there is no client that can be asked")
        if not audience.takes_questions:
            raise CannotAsk("the client cannot be asked: it declared its capabilities without elicitation")
        result: JsonValue = None
        with self._clock.move_on_after(seconds) as scope:
            result = await audience.elicit(message, schema)
        return Unanswered.SILENT if scope.cancelled_caught else _answer(result)


def summary(arguments: JsonValue) -> str:
    """The arguments of a call as one line for a person: bounded, and nothing in it moves a terminal. What is cut says how much
    there is, so that nobody takes a part for the whole.
    """
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    shown = visible(text[: MAX_SUMMARY + 1])
    if len(shown) <= MAX_SUMMARY:
        return shown
    cut = f"… [cut: {len(text)} characters in all]"
    return shown[: MAX_SUMMARY - len(cut)] + cut


def _consent(waiting: _Waiting, *, gone: bool) -> Consent:
    decision = waiting.decision
    if decision is None:
        why = "nobody is there who could allow it" if gone else "nobody allowed it in time"
        return Consent(Approval.UNANSWERED, f"the tool was not run: {why}")
    if decision in _ALLOWING:
        return Consent(Approval.ALLOWED)
    told = "the tool was not run: the user rejected it"
    if decision is Decision.REJECT_WITH_EDIT:
        told = f"{told} and wants this instead: {_text(waiting.replacement)}"
    return Consent(Approval.REFUSED, told)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _answer(result: JsonValue) -> Answer:
    """What a client's result means (RPC-091, RPC-252)."""
    match result:
        case None:
            return Answered(None)
        case {"action": "accept", "content": dict()} if result["content"]:
            return Answered(result["content"])
        case {"action": "decline" | "cancel" as action}:
            return Unanswered(action)
        case {"action": "accept"}:
            raise AnswerUnusable("the client accepted the question without an answer")
        case _:
            raise AnswerUnusable("the client's answer has no action that is known")
