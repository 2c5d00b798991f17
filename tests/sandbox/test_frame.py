"""What a call frame knows: time, output, handles, configuration."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import ConfigInvalid, DeadlineExceeded, Remedy, RemedyAction
from zeroclaw_host.sandbox.frame import (
    MAX_HOST_CALLS,
    CallCancelled,
    NoCallFrame,
    OutputCapture,
    Phase,
    current_frame,
    entered,
)
from zeroclaw_host.sandbox.interface import resource_id
from zeroclaw_host.sandbox.limits import LimitInvalid, Limits
from zeroclaw_host.sandbox.resources import MAX_HANDLES, ResourceTable, TooManyHandles, UnknownHandle
from zeroclaw_host.services.config import ResolvedConfig


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.req("PLG-018")
def test_time_runs_out_exactly_at_the_deadline(new_frame):
    clock = Clock()
    frame = new_frame(Limits(call_timeout_ms=1000), clock=clock)
    clock.now += 0.999
    assert frame.remaining() == pytest.approx(0.001)
    clock.now += 0.001
    with pytest.raises(DeadlineExceeded) as caught:
        frame.remaining()
    assert caught.value.remedy == Remedy(RemedyAction.RAISE_LIMIT, {"limit": "call_timeout_ms"})


@pytest.mark.req("PAINS-4")
def test_the_error_tells_guest_time_from_host_time(new_frame):
    clock = Clock()
    frame = new_frame(Limits(call_timeout_ms=1000), clock=clock)
    clock.now += 0.25
    frame.enter_host()
    clock.now += 0.5
    frame.leave_host()
    frame.enter_host()
    clock.now += 0.5
    with pytest.raises(DeadlineExceeded) as caught:
        frame.remaining("a reply")
    assert caught.value.details == {
        "timeout_ms": 1000,
        "guest_ms": 250,
        "host_ms": 1000,
        "waited_for": "a reply",
    }


def test_waiting_for_a_thread_is_not_the_plugins_time(new_frame):
    clock = Clock()
    frame = new_frame(Limits(call_timeout_ms=1000), clock=clock)
    clock.now += 100
    frame.begin()
    assert frame.remaining() == 1


def test_a_wait_ends_when_a_worker_says_so(new_frame):
    frame = new_frame()
    arrived: list[int] = []

    def worker() -> None:
        arrived.append(1)
        frame.notify()

    threading.Timer(0.01, worker).start()
    assert frame.wait(lambda: bool(arrived), "the worker")


def test_a_wait_with_a_moment_of_its_own_ends_there_without_error(new_frame):
    frame = new_frame()
    assert frame.wait(lambda: False, "nothing", until=frame.now()) is False


def test_cancelling_ends_a_wait_at_once(new_frame):
    frame = new_frame()
    threading.Timer(0.01, frame.cancel).start()
    with pytest.raises(CallCancelled):
        frame.wait(lambda: False, "nothing")


@pytest.mark.req("PLG-024")
def test_the_budget_is_a_thousand_calls_a_frame(new_frame):
    frame = new_frame()
    assert all(frame.charge() for _ in range(MAX_HOST_CALLS))
    assert not frame.charge()
    assert new_frame().charge()
    assert MAX_HOST_CALLS == 1000


@pytest.mark.parametrize(
    ("phase", "serves"), [(Phase.STANDARD, False), (Phase.TOOL_EXECUTE, True), (Phase.CHANNEL_SERVICE, False)]
)
def test_services_answer_only_in_the_phase_of_the_instances_own_capability(phase, serves, new_frame):
    assert new_frame(phase=phase).serves is serves


def test_configuration_is_resolved_once_in_a_frame_a_failure_included(new_frame, scope):
    class Failing:
        times = 0

        def resolve(self, scope) -> ResolvedConfig:
            self.times += 1
            raise ConfigInvalid("no")

    frame = new_frame()
    resolver = Failing()
    object.__setattr__(frame.services, "config", resolver)
    for _ in range(3):
        with pytest.raises(ConfigInvalid):
            frame.config()
    assert resolver.times == 1


def test_a_configuration_of_another_issue_of_the_scope_is_not_taken(new_frame, scope):
    import dataclasses

    class Confused:
        def resolve(self, scope) -> ResolvedConfig:
            return ResolvedConfig(dataclasses.replace(scope), {}, {})

    frame = new_frame()
    object.__setattr__(frame.services, "config", Confused())
    with pytest.raises(ConfigInvalid, match="another instance"):
        frame.config()


def test_a_thread_is_in_the_innermost_frame_it_entered(new_frame):
    outer, inner = new_frame(), new_frame()
    with pytest.raises(NoCallFrame):
        current_frame()
    with entered(outer):
        with entered(inner):
            assert current_frame() is inner
        assert current_frame() is outer
    with pytest.raises(NoCallFrame):
        current_frame()


@given(st.lists(st.binary(max_size=40)), st.integers(1, 64))
def test_captured_output_is_the_end_of_what_was_written(chunks: list[bytes], limit: int):
    capture = OutputCapture(limit)
    for chunk in chunks:
        capture.write(chunk)
    whole = b"".join(chunks)
    assert capture.text() == whole[-limit:].decode("utf-8", "replace")
    assert capture.total == len(whole)
    assert capture.truncated is (len(whole) > limit)


# --- limits -------------------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-023")
def test_the_defaults_are_the_specified_ones():
    assert Limits() == Limits(
        call_fuel=1_000_000_000,
        call_timeout_ms=30_000,
        max_memory_mb=256,
        max_table_elements=100_000,
        max_instances=64,
    )


@pytest.mark.req("PLG-021")
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("call_fuel", 2**63 - 1),
        ("call_timeout_ms", 7 * 24 * 3600 * 1000),
        ("max_memory_mb", 16 * 1024),
        ("max_table_elements", 10_000_000),
        ("max_instances", 100_000),
    ],
)
def test_a_limit_so_large_that_it_is_none_is_refused_by_name(name, most):
    with pytest.raises(LimitInvalid, match=f"{name} must be at most {most}") as caught:
        Limits(**{name: most + 1})
    assert caught.value.details == {"limit": name, "maximum": most}
    assert getattr(Limits(**{name: most}), name) == most


@pytest.mark.req("PLG-021")
@pytest.mark.parametrize("name", sorted(Limits.__dataclass_fields__))
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1"])
def test_a_limit_that_is_not_a_positive_whole_number_is_refused_by_name(name, value):
    with pytest.raises(LimitInvalid, match=name) as caught:
        Limits(**{name: value})
    assert caught.value.details["limit"] == name
    assert getattr(Limits(**{name: 1}), name) == 1


# --- handles ------------------------------------------------------------------------------------------------------------


def test_a_handle_is_good_until_it_is_given_away_and_never_comes_back():
    table = ResourceTable()
    thing = object()
    handle = table.push(thing)
    assert table.get(handle) is thing
    assert table.pop(handle) is thing
    for use in (table.get, table.pop):
        with pytest.raises(UnknownHandle):
            use(handle)
    assert table.push(thing) != handle


def test_as_many_handles_as_allowed_and_not_one_more():
    table = ResourceTable()
    for _ in range(MAX_HANDLES):
        table.push(object())
    with pytest.raises(TooManyHandles):
        table.push(object())


def test_closing_goes_from_the_newest_to_the_oldest_and_past_failures():
    closed: list[str] = []

    class Thing:
        def __init__(self, name: str) -> None:
            self.name = name

        def close(self) -> None:
            closed.append(self.name)
            if self.name == "second":
                raise OSError("would not close")

    table = ResourceTable()
    for name in ("first", "second", "third"):
        table.push(Thing(name))
    with pytest.raises(OSError, match="would not close"):
        table.close()
    assert closed == ["third", "second", "first"]
    table.close()
    assert len(closed) == 3


def test_a_resource_has_one_number_in_a_process():
    assert resource_id("a:b/c#d") == resource_id("a:b/c#d") != resource_id("a:b/c#e")
