"""Tool calls of an answer, put together from the pieces they come in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from zeroclaw_daemon.agent.messages import ToolCall
from zeroclaw_daemon.agent.providers.failures import Failure

NO_ARGUMENTS: Final = "{}"

MAX_CALLS: Final = 256
"""Tool calls of one answer. No model makes nearly as many, and each piece is compared with each of them."""

MAX_NAME: Final = 256
"""Characters of the name of a tool."""


@dataclass(slots=True)
class _Pieces:
    """One call so far."""

    index: int | None
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])


class ToolCallPieces:
    """Takes the pieces of all calls of one answer.

    The protocol says which call a piece belongs to by ``index``. Servers also leave it out, leave gaps, mix the pieces of
    several calls, and give all calls the same; then the ``id`` tells them apart.
    """

    def __init__(self) -> None:
        self._calls: list[_Pieces] = []

    def add(self, index: int | None, call_id: str, name: str, arguments: str) -> None:
        """One piece. Empty texts say nothing.

        :raises Failure: there are more calls than an answer may have, or a name is too long.
        """
        call = self._call_of(index, call_id)
        call.id = call.id or call_id
        # The whole name comes once, or again with each piece; a few servers cut it.
        if name != call.name:
            call.name += name
            check_name(call.name)
        call.arguments.append(arguments)

    def calls(self) -> tuple[ToolCall, ...]:
        """The calls in the order of their index; those without stand where they began."""
        ordered = sorted(enumerate(self._calls), key=lambda pair: (_place(pair), pair[0]))
        return tuple(
            ToolCall(call.id, call.name, "".join(call.arguments) or NO_ARGUMENTS) for _, call in ordered
        )

    def _call_of(self, index: int | None, call_id: str) -> _Pieces:
        """The call that a piece belongs to: the newest that neither its index nor its id speaks against."""
        for call in reversed(self._calls):
            if index is not None and call.index is not None and call.index != index:
                continue
            if call_id and call.id and call.id != call_id:
                continue
            if index is None and call_id and not call.id:
                continue
            return call
        check_number(len(self._calls) + 1)
        self._calls.append(_Pieces(index))
        return self._calls[-1]


def check_number(calls: int) -> None:
    """:raises Failure: no answer may have so many calls."""
    if calls > MAX_CALLS:
        raise Failure(f"sent more than {MAX_CALLS} tool calls in one answer")


def check_name(name: str) -> None:
    """:raises Failure: no tool may have so long a name."""
    if len(name) > MAX_NAME:
        raise Failure("sent a tool call whose name is too long")


def _place(pair: tuple[int, _Pieces]) -> int:
    position, call = pair
    return position if call.index is None else call.index
