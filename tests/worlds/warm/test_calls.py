"""One instance serves all calls, each with the whole of its bounds."""

from __future__ import annotations

import pytest
from warm_guests import call, count

from zeroclaw_host.errors import (
    GuestTrap,
    UsageError,
)
from zeroclaw_host.sandbox.frame import Phase, current_frame
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.values import Ok
from zeroclaw_host.services.logging import CallSite


@pytest.mark.req("PLG-031", "PLG-106")
def test_a_hundred_calls_at_half_their_fuel_are_served_by_one_instance(new_store):
    store = new_store(limits=Limits(call_fuel=12_000))
    counts = [call(store, "purge-session", "x") for _ in range(100)]
    assert counts == [Ok(number) for number in range(1, 101)]
    left = store._instance._guest.fuel_left()
    assert 12_000 * 0.3 < left < 12_000 * 0.6, "the test means half of the fuel"
    assert store.rebuilds == 0


@pytest.mark.req("PLG-106")
def test_every_call_has_the_whole_deadline(new_store, sink, clock):
    store = new_store(limits=Limits(call_timeout_ms=30_000))
    left = list[float]()
    sink.hook = lambda: left.append(current_frame().remaining())
    for _ in range(3):
        call(store, "reindex")
        clock.seconds += 29
    assert left == [30, 30, 30]


def test_handles_live_as_long_as_the_store_and_output_belongs_to_each_call(store, sink):
    for number in (1, 2):
        site = CallSite({"turn": str(number)})
        store.call_sync("purge-namespace", f"line {number}", phase=Phase.STANDARD, call_site=site)
    assert [(record.message, record.source, record.call_site.attributes) for record in sink.records] == [
        ("line 1", "stdout", {"turn": "1"}),
        ("line 2", "stdout", {"turn": "2"}),
    ]
    table = store._instance._table
    assert len(table) == 1, "the stream it took in the first call"
    with pytest.raises(GuestTrap):
        call(store, "get", "x")
    assert len(table) == 0


def test_an_argument_that_is_none_is_refused_and_the_instance_stays(store):
    count(store)
    with pytest.raises(UsageError, match="argument of purge-session"):
        call(store, "purge-session", "half a pair: \ud800")
    assert count(store) == 2
