"""How much of a conversation the model is given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.agent.context_budget import reduced, tokens_of
from zeroclaw_daemon.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

TEXTS = st.text(max_size=60)
CALLS = st.builds(ToolCall, TEXTS, TEXTS, TEXTS)
ANSWERS: st.SearchStrategy[Message] = st.one_of(
    st.builds(AssistantMessage, TEXTS, st.lists(CALLS, max_size=2).map(tuple)),
    st.builds(ToolMessage, TEXTS, TEXTS, TEXTS),
)
TURNS = st.builds(
    lambda user, rest: [user, *rest], st.builds(UserMessage, TEXTS), st.lists(ANSWERS, max_size=4)
)
CONVERSATIONS = st.builds(
    lambda before, turns: [*before, *(message for turn in turns for message in turn)],
    st.lists(ANSWERS, max_size=2),
    st.lists(TURNS, max_size=6),
)


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (UserMessage(""), 4),
        (UserMessage("abcd"), 5),
        (UserMessage("abcde"), 6),
        (AssistantMessage("ab", (ToolCall("an id", "cd", "efgh"),)), 6),
        (ToolMessage("an id", "a name", "abcdefgh"), 6),
    ],
)
def test_an_estimate_is_a_quarter_of_the_characters_and_four_a_message(message: Message, tokens: int) -> None:
    assert tokens_of([message]) == tokens
    assert tokens_of([message, message]) == 2 * tokens


def turn(number: int) -> list[Message]:
    """A turn of 10 tokens."""
    return [UserMessage(str(number) * 4), AssistantMessage("a" * 4)]


def test_whole_turns_go_from_the_oldest_until_the_rest_fits_exactly() -> None:
    history = [*turn(1), *turn(2), *turn(3)]
    running = [UserMessage("now.")]
    assert tokens_of([*history, *running]) == 35
    assert reduced(history, running, 35) is None
    found = reduced(history, running, 34)
    assert found is not None
    assert found.history == (*turn(2), *turn(3))
    assert (found.dropped_messages, found.dropped_turns, found.kept_turns) == (2, 1, 3)
    assert (found.tokens_before, found.tokens_after) == (35, 25)
    at_the_limit, past_it = reduced(history, running, 25), reduced(history, running, 24)
    assert at_the_limit == found
    assert past_it is not None
    assert past_it.history == tuple(turn(3))


def test_the_running_turn_stays_however_large_it_is() -> None:
    running = [UserMessage("x" * 1000)]
    found = reduced(turn(1), running, 10)
    assert found is not None
    assert (found.history, found.kept_turns, found.tokens_after) == ((), 1, 254)
    assert reduced([], running, 10) is None


def test_no_budget_is_no_bound() -> None:
    assert reduced([UserMessage("x" * 10**6)], [UserMessage("now")], 0) is None


@pytest.mark.req("RPC-133")
@given(history=CONVERSATIONS, running=TURNS, budget=st.integers(0, 300))
def test_what_stays_is_the_newest_part_and_no_more_is_left_out_than_has_to_be(
    history: list[Message], running: list[Message], budget: int
) -> None:
    before = list(history)
    found = reduced(history, running, budget)
    assert history == before
    if found is None:
        assert not budget or not history or tokens_of([*history, *running]) <= budget
        return
    assert found.dropped_messages > 0
    assert found.dropped_turns > 0
    assert list(found.history) == history[found.dropped_messages :]
    assert found.tokens_before == tokens_of([*history, *running]) > budget
    assert found.tokens_after == tokens_of([*found.history, *running])
    # Cut between turns.
    assert not found.history or isinstance(found.history[0], UserMessage)
    assert found.kept_turns == sum(isinstance(message, UserMessage) for message in found.history) + 1
    # Nothing more could stay.
    dropped = history[: found.dropped_messages]
    newest_dropped = max((n for n, m in enumerate(dropped) if isinstance(m, UserMessage)), default=0)
    assert tokens_of([*history[newest_dropped:], *running]) > budget
    assert not found.history or found.tokens_after <= budget
