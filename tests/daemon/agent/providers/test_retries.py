"""When a question is asked again."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.agent.providers.retries import RetryRule, retry_after

RULE = RetryRule(questions=4, first=1.0, longest=3.0, patience=60.0)
CHANCES = st.floats(0, 1)


@given(failures=st.integers(1, 3), chance=CHANCES)
def test_a_wait_of_our_own_doubles_up_to_a_bound_and_is_half_chance(failures: int, chance: float) -> None:
    whole = {1: 1.0, 2: 2.0, 3: 3.0}[failures]
    wait = RULE.wait(failures, None, chance)
    assert wait is not None
    assert whole / 2 <= wait <= whole
    assert wait == pytest.approx(whole * (1 + chance) / 2)


@given(after=st.floats(0, 60), chance=CHANCES)
def test_nobody_is_asked_earlier_than_he_wants(after: float, chance: float) -> None:
    wait = RULE.wait(1, after, chance)
    assert wait is not None
    assert after <= wait <= after + 1.0


@given(after=st.none() | st.floats(0, 60), chance=CHANCES)
def test_the_last_failure_is_the_last(after: float | None, chance: float) -> None:
    assert RULE.wait(3, after, chance) is not None
    assert RULE.wait(4, after, chance) is None


def test_nobody_is_waited_for_for_ever() -> None:
    assert RULE.wait(1, 60.0, 0.0) == 60.0
    assert RULE.wait(1, 60.1, 0.0) is None
    assert RULE.wait(1, math.inf, 0.0) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        (" 0 ", 0.0),
        ("999999999", 999_999_999.0),
        ("1000000000", 1e9),
        ("9" * 400, math.inf),
        ("Wed, 21 Oct 2026 07:28:05 GMT", 5.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0.0),
        (None, None),
        ("", None),
        ("-1", None),
        ("soon", None),
        ("٣", None),
        ("Wed, 99 Oct 2026 07:28:05 GMT", None),
    ],
)
def test_a_server_says_seconds_or_a_date(text: str | None, seconds: float | None) -> None:
    assert retry_after(text, now=1_792_567_680.0) == seconds


@given(st.text())
def test_no_text_is_a_fault(text: str) -> None:
    assert (retry_after(text, 0.0) or 0.0) >= 0.0
