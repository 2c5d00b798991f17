"""Lookups run on bounded threads: a name server that does not answer costs whoever asked it, and no other."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import peers
import pytest

from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.failures import DialCancelled, ResolutionFailed, TimeIsUp
from zeroclaw_host.egress.resolving import MAX_LOOKUPS, MAX_LOOKUPS_OF_ONE, Lookups
from zeroclaw_host.egress.testing import ScriptedResolver
from zeroclaw_host.instance import InstanceIdentity

ONE, OTHER = InstanceIdentity.default_tool("one"), InstanceIdentity.default_tool("other")


class Stuck:
    """A name server that answers when it is told to."""

    def __init__(self) -> None:
        self.answers = threading.Event()

    def __call__(self) -> list[str]:
        self.answers.wait(peers.PATIENCE)
        return ["1.1.1.1"]


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    one = Stuck()
    yield one
    one.answers.set()


def texts(found: object) -> list[str]:
    return list(map(str, found))  # type: ignore[call-overload]


def test_an_instance_that_asks_in_vain_takes_its_own_threads_and_no_more(stuck: Stuck) -> None:
    lookups = Lookups(ScriptedResolver({"stuck.example": [stuck], "a.example": [["8.8.8.8"]]}))
    with peers.nothing_left():
        for _ in range(3 * MAX_LOOKUPS_OF_ONE):
            with pytest.raises(TimeIsUp):
                lookups.resolve(ONE, "stuck.example", Deadline(0.01))
        assert lookups.running <= MAX_LOOKUPS_OF_ONE < MAX_LOOKUPS
        assert texts(lookups.resolve(OTHER, "a.example", Deadline(peers.PATIENCE))) == ["8.8.8.8"]
        stuck.answers.set()
        assert texts(lookups.resolve(ONE, "a.example", Deadline(peers.PATIENCE))) == ["8.8.8.8"]
    assert lookups.running == 0


@pytest.mark.parametrize("most", [1, 3])
def test_all_instances_together_take_no_more_than_there_are(stuck: Stuck, most: int) -> None:
    lookups = Lookups(ScriptedResolver({"stuck.example": [stuck], "a.example": [["8.8.8.8"]]}), most=most)
    for number in range(most):
        while lookups.running <= number:  # however slow the machine, until one more has begun
            with pytest.raises(TimeIsUp):
                lookups.resolve(InstanceIdentity.default_tool(f"p{number}"), "stuck.example", Deadline(0.05))
    assert lookups.running == most
    with pytest.raises(TimeIsUp):
        lookups.resolve(OTHER, "a.example", Deadline(0.05))
    assert lookups.running == most


def test_whoever_waits_for_a_thread_gets_one_when_it_is_free(stuck: Stuck) -> None:
    resolver = ScriptedResolver({"stuck.example": [stuck], "a.example": [["8.8.8.8"]]})
    lookups = Lookups(resolver, most=1)
    found: list[str] = []
    first = threading.Thread(target=lookups.resolve, args=(ONE, "stuck.example", Deadline(peers.PATIENCE)))
    first.start()
    assert peers.eventually(lambda: bool(resolver.asked))
    second = threading.Thread(
        target=lambda: found.extend(texts(lookups.resolve(OTHER, "a.example", Deadline(peers.PATIENCE))))
    )
    second.start()
    stuck.answers.set()
    for thread in (first, second):
        thread.join(peers.PATIENCE)
    assert found == ["8.8.8.8"]


def test_whoever_waits_for_a_thread_can_give_up(stuck: Stuck) -> None:
    lookups = Lookups(ScriptedResolver({"stuck.example": [stuck]}), most_of_one=1)
    deadlines = [Deadline(peers.PATIENCE), Deadline(peers.PATIENCE)]
    caught: list[BaseException] = []

    def ask(deadline: Deadline) -> None:
        try:
            lookups.resolve(ONE, "stuck.example", deadline)
        except DialCancelled as error:
            caught.append(error)

    threads = [threading.Thread(target=ask, args=(deadline,)) for deadline in deadlines]
    for thread in threads:
        thread.start()
    for deadline in deadlines:
        deadline.cancel()
    for thread in threads:
        thread.join(peers.PATIENCE)
    assert len(caught) == 2
    assert lookups.running <= 1


def test_what_a_resolver_raises_reaches_whoever_asked() -> None:
    def fail() -> list[str]:
        raise RuntimeError("a mistake in an embedder's resolver")

    lookups = Lookups(ScriptedResolver({"bad.example": [fail], "nonsense.example": [["nonsense"]]}))
    with pytest.raises(RuntimeError):
        lookups.resolve(ONE, "bad.example", Deadline(peers.PATIENCE))
    with pytest.raises(ValueError, match="nonsense"):
        lookups.resolve(ONE, "nonsense.example", Deadline(peers.PATIENCE))
    with pytest.raises(ResolutionFailed):
        lookups.resolve(ONE, "absent.example", Deadline(peers.PATIENCE))
    assert lookups.running == 0


def test_many_threads_ask_and_each_gets_its_answer() -> None:
    script = {f"h{number}.example": [[f"1.1.{number}.1"]] for number in range(100)}
    lookups = Lookups(ScriptedResolver(script), most=5, most_of_one=3)
    found: dict[int, list[str]] = {}

    def ask(number: int) -> None:
        identity = InstanceIdentity.default_tool(f"p{number % 3}")
        found[number] = texts(lookups.resolve(identity, f"h{number}.example", Deadline(peers.PATIENCE)))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(peers.PATIENCE)
    assert found == {number: [f"1.1.{number}.1"] for number in range(100)}
    assert lookups.running == 0
