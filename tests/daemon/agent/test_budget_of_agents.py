"""What of a conversation an agent's model is given: what the operator lets it have, and never more than it can hold."""

from __future__ import annotations

import pytest

from zeroclaw_daemon.agent.directory import Agent
from zeroclaw_daemon.agent.providers.echo import EchoProvider


@pytest.mark.parametrize(
    ("budget", "window", "counts"),
    [(0, None, 0), (0, 100, 0), (50, None, 50), (50, 100, 50), (100, 100, 100), (101, 100, 100)],
)
def test_the_budget_is_never_more_than_the_model_can_hold(
    budget: int, window: int | None, counts: int
) -> None:
    agent = Agent("a", EchoProvider(), "m", max_context_tokens=budget, context_window=window)
    assert agent.context_budget == counts
