"""First come, first served, for threads and tasks alike."""

from __future__ import annotations

import threading
import weakref

import anyio
import pytest
from plugin_parts import PATIENCE

from zeroclaw_host.worlds.turns import Turn, Turns


def test_who_is_alone_has_the_turn_at_once():
    with Turns().queued(lambda: None) as turn:
        assert turn.come


@pytest.mark.req("PLG-031")
def test_turns_come_in_the_order_of_arrival_and_each_is_told():
    turns, told = Turns(), list[int]()
    first = turns.queued(lambda: told.append(0))
    second = turns.queued(lambda: told.append(1))
    third = turns.queued(lambda: told.append(2))
    places = [first.__enter__(), second.__enter__(), third.__enter__()]
    assert [place.come for place in places] == [True, False, False]
    told.clear()
    first.__exit__(None, None, None)
    assert ([place.come for place in places[1:]], told) == ([True, False], [1])
    second.__exit__(None, None, None)
    assert (places[2].come, told) == (True, [1, 2])


def test_who_gives_up_is_passed_over():
    turns = Turns()
    first, second, third = (turns.queued(lambda: None) for _ in range(3))
    first.__enter__()
    second.__enter__()
    last = third.__enter__()
    second.__exit__(None, None, None)
    assert not last.come, "the first is still there"
    first.__exit__(None, None, None)
    assert last.come


def test_who_does_not_hear_that_it_is_next_is_passed_over():
    turns = Turns()
    first, deaf, third = turns.queued(lambda: None), turns.queued(lambda: False), turns.queued(lambda: None)
    first.__enter__()
    deaf.__enter__()
    last = third.__enter__()
    first.__exit__(None, None, None)
    assert last.come
    deaf.__exit__(None, None, None)
    third.__exit__(None, None, None)
    with turns.queued(lambda: None) as turn:
        assert turn.come


def test_whoever_has_the_turn_and_hears_nothing_any_more_loses_it_to_the_next_who_comes():
    turns, hears = Turns(), [True]
    first = turns.queued(lambda: hears[0])
    first.__enter__()
    hears[0] = False
    with turns.queued(lambda: None) as turn:
        assert turn.come


def test_a_place_that_nobody_can_leave_any_more_is_free():
    turns = Turns()
    lost = Turn(lambda: None)
    turns._queue.append(weakref.ref(lost, turns._leave))  # as after an interrupt in the act of leaving
    with turns.queued(lambda: None) as turn:
        assert not turn.come
        del lost
        assert turn.come


def test_everybody_can_be_woken_without_a_turn():
    turns, told = Turns(), list[int]()
    with turns.queued(lambda: told.append(0)), turns.queued(lambda: told.append(1)) as second:
        told.clear()
        turns.wake_all()
        assert (second.come, told) == (False, [0, 1])


def test_two_event_loops_that_wake_each_other_do_not_wait_for_each_other():
    from zeroclaw_host.worlds.turns import TaskAlarm

    both = threading.Barrier(2, timeout=PATIENCE)
    alarms = list[TaskAlarm]()
    finished = list[bool]()

    class Frame:
        def remaining(self, what: str) -> float:
            return PATIENCE

    async def main() -> None:
        alarm = TaskAlarm(Frame())  # type: ignore[arg-type]
        alarms.append(alarm)
        both.wait()
        others = [other for other in alarms if other is not alarm]
        for _ in range(200):
            others[0].ring()
        finished.append(True)
        both.wait()  # blocks this loop while the other one rings: nobody needs an answer
        await alarm.wait(lambda: len(finished) == 2, "the other loop")

    loops = [threading.Thread(target=anyio.run, args=(main,), daemon=True) for _ in range(2)]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join(PATIENCE)
    assert finished == [True, True]


def test_an_alarm_rung_for_a_loop_that_is_over_disturbs_nobody():
    from zeroclaw_host.worlds.turns import TaskAlarm

    async def main() -> TaskAlarm:
        return TaskAlarm(None)  # type: ignore[arg-type]

    alarm = anyio.run(main)
    assert not alarm.ring()
    assert not alarm._event.is_set()
