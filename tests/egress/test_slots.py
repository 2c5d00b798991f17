"""The count of an instance's connections."""

from __future__ import annotations

import threading

import peers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.egress.failures import ConnectionLimit
from zeroclaw_host.egress.slots import PROCESS_SLOTS, ConnectionSlots, Slot
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability

ONE = InstanceIdentity.default_tool("one")


@pytest.mark.req("PLG-124")
def test_the_last_place_is_given_and_one_more_is_not() -> None:
    slots = ConnectionSlots()
    held = [slots.take(ONE, 16) for _ in range(16)]
    with pytest.raises(ConnectionLimit) as caught:
        slots.take(ONE, 16)
    assert caught.value.details == {"limit": 16, "held": 16}
    held[0].release()
    slots.take(ONE, 16)


@pytest.mark.req("PLG-124")
def test_each_instance_has_its_own_count() -> None:
    slots = ConnectionSlots()
    for identity in (
        ONE,
        InstanceIdentity.default_tool("two"),
        InstanceIdentity("one", Capability.CHANNEL, "one"),
        InstanceIdentity("one", Capability.CHANNEL, "ops"),
    ):
        slots.take(identity, 1)
        with pytest.raises(ConnectionLimit):
            slots.take(identity, 1)


def test_a_slot_is_given_back_once() -> None:
    slots = ConnectionSlots()
    first, second = slots.take(ONE, 2), slots.take(ONE, 2)
    for _ in range(3):
        first.release()
    assert slots.held(ONE) == 1
    second.release()
    assert slots.held(ONE) == 0


def test_threads_never_hold_more_than_the_limit_and_leave_none() -> None:
    slots = ConnectionSlots()
    most: list[int] = []

    def work() -> None:
        for _ in range(300):
            try:
                slot = slots.take(ONE, 5)
            except ConnectionLimit:
                continue
            most.append(slots.held(ONE))
            both = [threading.Thread(target=slot.release) for _ in range(2)] if len(most) % 50 == 0 else []
            for thread in both:
                thread.start()
            slot.release()
            for thread in both:
                thread.join(peers.PATIENCE)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(peers.PATIENCE)
    assert most
    assert max(most) <= 5
    assert slots.held(ONE) == 0


@given(st.lists(st.integers(0, 7)), st.integers(1, 4))
def test_the_count_is_that_of_what_was_taken_and_not_given_back(moves: list[int], limit: int) -> None:
    slots = ConnectionSlots()
    held: list[Slot] = []
    for move in moves:
        if move < 4:
            try:
                held.append(slots.take(ONE, limit))
            except ConnectionLimit:
                assert len(held) == limit
        elif held:
            held.pop(move % len(held)).release()
        assert slots.held(ONE) == len(held) <= limit


def test_the_process_has_one_count() -> None:
    assert isinstance(PROCESS_SLOTS, ConnectionSlots)
    assert PROCESS_SLOTS.held(InstanceIdentity.default_tool("nobody")) == 0
