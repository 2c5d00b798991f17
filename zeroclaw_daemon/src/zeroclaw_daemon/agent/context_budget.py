"""How much of a conversation a model is given: whole turns, the newest ones, within a budget of tokens (D-37). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from zeroclaw_daemon.agent.messages import AssistantMessage, Message, UserMessage

CHARACTERS_PER_TOKEN: Final = 4
TOKENS_PER_MESSAGE: Final = 4
"""What a message costs beside its text: who said it, where it ends."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """A conversation made smaller: ``history`` is what stays of the turns before the running one."""

    history: tuple[Message, ...]
    dropped_messages: int
    dropped_turns: int
    kept_turns: int
    tokens_before: int
    tokens_after: int


def tokens_of(messages: Iterable[Message]) -> int:
    """An estimate of what messages cost."""
    return sum(TOKENS_PER_MESSAGE + -(-_characters(message) // CHARACTERS_PER_TOKEN) for message in messages)


def reduced(history: Sequence[Message], running: Sequence[Message], budget: int) -> Reduction | None:
    """What to leave out so that the conversation fits its budget; None where nothing is to be left out.

    :param history: the turns before the running one, each begun by a message of the user. What stands before the first such
        message counts as a turn.
    :param running: the messages of the running turn. It always stays, even where it is larger than the budget.
    :param budget: tokens; 0 is no bound.
    """
    if not budget:
        return None
    turns = _turns(history)
    costs = [tokens_of(turn) for turn in turns]
    running_cost = tokens_of(running)
    before = after = sum(costs) + running_cost
    dropped = 0
    while after > budget and dropped < len(turns):
        after -= costs[dropped]
        dropped += 1
    if not dropped:
        return None
    kept = [message for turn in turns[dropped:] for message in turn]
    return Reduction(
        history=tuple(kept),
        dropped_messages=len(history) - len(kept),
        dropped_turns=dropped,
        kept_turns=len(turns) - dropped + 1,
        tokens_before=before,
        tokens_after=after,
    )


def _turns(history: Sequence[Message]) -> list[list[Message]]:
    turns: list[list[Message]] = []
    for message in history:
        if not turns or isinstance(message, UserMessage):
            turns.append([])
        turns[-1].append(message)
    return turns


def _characters(message: Message) -> int:
    match message:
        case UserMessage(text):
            return len(text)
        case AssistantMessage(text, calls):
            return len(text) + sum(len(call.name) + len(call.arguments) for call in calls)
        case _:
            return len(message.output)
