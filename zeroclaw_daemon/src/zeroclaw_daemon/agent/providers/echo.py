"""The model that is always there: deterministic, offline, and driven by what it is told (D-32).

===================  =====================================================================================
``/tool NAME JSON``  calls a tool; its output is the answer
``/think TEXT``      thinks TEXT, then answers ``done``
``/chunks N TEXT``   answers TEXT in N pieces
``/slow MS TEXT``    answers TEXT word by word and waits after each
``/fail TEXT``       fails
``/twice A ;; B``    does A, then B; after a tool call, B is a step of its own
``/model``           answers the model's name
===================  =====================================================================================

Anything else, a directive with an unusable argument included, is answered with itself, word by word.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from itertools import pairwise
from typing import Final

from zeroclaw_daemon.agent.messages import Message, ToolCall, ToolMessage, UserMessage
from zeroclaw_daemon.agent.providers.base import (
    ModelEvent,
    ModelRequest,
    ProviderError,
    TextDelta,
    ThoughtDelta,
)
from zeroclaw_daemon.clock import Clock, SystemClock

_WORD: Final = re.compile(r"\s*\S+\s*")
_TWICE: Final = "/twice"
_SEPARATOR: Final = ";;"
_MAX_PARTS: Final = 100
"""Parts of one prompt; what would be a further one belongs to the last."""
_TOOL: Final = re.compile(r"/tool\s+(\S+)(?:\s+(.*))?", re.DOTALL)
_COUNTED: Final = re.compile(r"/(chunks|slow)\s+(\d{1,9})\s(.*)", re.DOTALL)
_TEXTUAL: Final = re.compile(r"/(think|fail)\s+(.*)", re.DOTALL)


class EchoProvider:
    """Answers with what it was told. See the module for the directives."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The answer to the newest message of the user, given the tool results that came after it."""
        prompt, results = _current(request.messages)
        steps = _directives(prompt)
        todo = _after_calls(steps, len(results))
        if not todo and results:
            for piece in _words(results[-1].output):
                yield TextDelta(piece)
        for directive in todo:
            if call := _TOOL.fullmatch(directive):
                yield ToolCall(f"tc_{len(results) + 1}", call[1], call[2] or "{}")
                return
            async for event in self._say(directive, request.model):
                yield event

    async def _say(self, directive: str, model: str) -> AsyncGenerator[ModelEvent, None]:
        if directive == "/model":
            yield TextDelta(model)
        elif counted := _COUNTED.fullmatch(directive):
            slow, number, text = counted[1] == "slow", int(counted[2]), counted[3]
            for piece in _words(text) if slow else _pieces(text, number):
                yield TextDelta(piece)
                if slow:
                    await self._clock.sleep(number / 1000)
        elif textual := _TEXTUAL.fullmatch(directive):
            if textual[1] == "fail":
                raise ProviderError(textual[2])
            yield ThoughtDelta(textual[2])
            yield TextDelta("done")
        else:
            for piece in _words(directive):
                yield TextDelta(piece)


def _current(messages: Sequence[Message]) -> tuple[str, list[ToolMessage]]:
    """The newest prompt and the tool results since."""
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            return message.text, results[::-1]
        if isinstance(message, ToolMessage):
            results.append(message)
    return "", results[::-1]


def _directives(prompt: str) -> list[str]:
    """The prompt's parts, in order: one, unless it says ``/twice``. Takes time in proportion to the prompt's length, which
    is up to whoever writes it.
    """
    parts: list[str] = []
    pieces = prompt.split(_SEPARATOR, _MAX_PARTS)
    while len(pieces) > 1 and (first := _of_twice(pieces[0])) is not None:
        parts.append(first)
        pieces = pieces[1:]
    rest = _SEPARATOR.join(pieces)
    return [*parts, rest.strip() if parts or rest.lstrip().startswith("/") else rest]


def _of_twice(piece: str) -> str | None:
    """The A of ``/twice A``, or None where it is something else."""
    word, rest = piece.lstrip()[: len(_TWICE)], piece.lstrip()[len(_TWICE) :]
    return rest.strip() if word == _TWICE and rest[:1].isspace() else None


def _after_calls(directives: list[str], calls: int) -> list[str]:
    """What is left to do once this many calls were made."""
    for index, directive in enumerate(directives):
        if not calls:
            return directives[index:]
        calls -= bool(_TOOL.fullmatch(directive))
    return [] if not calls else directives[len(directives) :]


def _words(text: str) -> list[str]:
    """The text cut after each word; joined, the pieces are the text."""
    if not text or text.isspace():
        return [text] if text else []
    return _WORD.findall(text)


def _pieces(text: str, number: int) -> list[str]:
    """The text cut into this many pieces, or into its characters if it has fewer."""
    number = max(1, min(number, len(text)))
    size, longer = divmod(len(text), number)
    ends = [0]
    for index in range(number):
        ends.append(ends[-1] + size + (index < longer))
    return [text[start:end] for start, end in pairwise(ends)]
