"""How often a plugin that keeps failing may have a new instance."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.worlds.rebuild import FREE_REBUILDS, WINDOW_SECONDS, RebuildPace


def rebuilt(pace: RebuildPace, *moments: float) -> RebuildPace:
    """The pace after rebuilds at these moments, each of an instance that failed at once."""
    for moment in moments:
        pace = pace.rebuilt(moment).lost(moment)
    return pace


def due(pace: RebuildPace, start: float, times: int) -> list[float]:
    """When rebuilds happen if the plugin fails at once, every time, and somebody always waits for it."""
    moments: list[float] = []
    now = start
    for _ in range(times):
        now = max(now, pace.earliest(now))
        moments.append(now)
        pace = rebuilt(pace, now)
    return moments


@pytest.mark.req("PLG-110")
def test_three_rebuilds_are_immediate_and_then_the_waits_double_up_to_a_minute():
    moments = due(RebuildPace(), 100.0, 12)
    waits = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert moments[:3] == [100.0, 100.0, 100.0]
    assert waits == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.req("PLG-110")
def test_a_plugin_that_never_recovers_is_tried_once_a_minute_for_ever():
    moments = due(RebuildPace(), 0.0, 5000)
    assert moments[-1] - moments[-2] == WINDOW_SECONDS


@pytest.mark.req("PLG-110")
def test_rebuilds_that_are_a_minute_apart_never_wait():
    pace = RebuildPace()
    for moment in range(0, 6000, 60):
        assert pace.earliest(float(moment)) <= moment
        pace = pace.rebuilt(float(moment)).lost(moment + 59.0)


@pytest.mark.req("PLG-110")
@pytest.mark.parametrize(("age", "waits"), [(59.999, True), (60.0, False)])
def test_a_rebuild_counts_for_a_minute(age, waits):
    pace = rebuilt(RebuildPace(), 0.0, 59.0, 59.5)
    now = age
    assert (pace.rebuilt(now).wait > 0) is waits


@pytest.mark.req("PLG-110")
@pytest.mark.parametrize(("lived", "forgiven"), [(59.999, False), (60.0, True)])
def test_an_instance_that_lived_a_minute_lets_the_past_be_forgotten(lived, forgiven):
    moments = due(RebuildPace(), 0.0, 6)
    pace = rebuilt(RebuildPace(), *moments[:-1]).rebuilt(moments[-1])
    failed = moments[-1] + lived
    assert (pace.lost(failed) == RebuildPace()) is forgiven


@pytest.mark.req("PLG-110")
def test_time_in_which_nobody_asked_forgives_nothing():
    pace = rebuilt(RebuildPace(), *due(RebuildPace(), 0.0, 6))
    later = pace.recent[-1] + 3600
    assert pace.earliest(later) <= later, "the wait is over"
    assert pace.rebuilt(later).wait == 2 * pace.wait, "but the next one is longer"


@pytest.mark.req("PLG-110")
def test_the_wait_counts_from_the_last_rebuild():
    pace = rebuilt(RebuildPace(), *due(RebuildPace(), 0.0, 5))
    last = pace.recent[-1]
    assert pace.earliest(last + 0.5) == pace.earliest(last + 3.5) == last + 4


@given(st.lists(st.tuples(st.floats(0, 200), st.floats(0, 200)), max_size=40))
def test_whatever_happens_a_window_holds_few_rebuilds_and_no_wait_is_longer_than_it(steps):
    pace, now, moments = RebuildPace(), 0.0, list[float]()
    for lives, idles in steps:
        now += lives
        pace = pace.lost(now)
        now += idles
        assert pace.earliest(now) <= now + WINDOW_SECONDS
        now = max(now, pace.earliest(now))
        pace = pace.rebuilt(now)
        moments.append(now)
        in_window = [moment for moment in moments if now - moment < WINDOW_SECONDS]
        assert len(in_window) <= FREE_REBUILDS + 6, "1, 2, 4, 8, 16 and 32 seconds do not fill a minute"
