"""Tool calls of an answer, put together from the pieces they come in."""

from __future__ import annotations

from dataclasses import dataclass, field

from zeroclaw_daemon.agent.messages import ToolCall

NO_ARGUMENTS = "{}"


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
        """One piece. Empty texts say nothing."""
        call = self._call_of(index, call_id)
        call.id = call.id or call_id
        # The whole name comes once, or again with each piece; a few servers cut it.
        if name != call.name:
            call.name += name
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
        self._calls.append(_Pieces(index))
        return self._calls[-1]


def _place(pair: tuple[int, _Pieces]) -> int:
    position, call = pair
    return position if call.index is None else call.index
