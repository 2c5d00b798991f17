"""First come, first served, for threads and tasks alike."""

from __future__ import annotations

import threading

import anyio
import pytest
from plugin_parts import PATIENCE

from zeroclaw_host.worlds.turns import Turns


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


def test_everybody_can_be_woken_without_a_turn():
    turns, told = Turns(), list[int]()
    with turns.queued(lambda: told.append(0)), turns.queued(lambda: told.append(1)) as second:
        turns.wake_all()
        assert not second.come
    assert told == [0, 1]


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
    alarm.ring()
    assert not alarm._event.is_set()
