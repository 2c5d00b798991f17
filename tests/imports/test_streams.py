"""``wasi:io``: errors, pollables and streams over a frame whose clock the test holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import DeadlineExceeded, GuestTrap
from zeroclaw_host.imports.wasi import INTERFACES
from zeroclaw_host.imports.wasi.streams import (
    MAX_BLOCKING_WRITE,
    MAX_CHUNK,
    InputStream,
    IoError,
    NoInput,
    OutputStream,
    Pollable,
    StreamEnded,
)
from zeroclaw_host.sandbox.frame import CallCancelled, CallFrame
from zeroclaw_host.sandbox.resources import MAX_HANDLES
from zeroclaw_host.sandbox.values import OK, Err, Ok

CLOSED = Err(("closed", None))


def call(function: str, *arguments: Any) -> Any:
    """Call a function of ``wasi:io`` by the name a component has for it."""
    for name in ("wasi:io/error", "wasi:io/poll", "wasi:io/streams"):
        if found := INTERFACES[name].functions.get(function):
            return found.implementation(*arguments)
    raise KeyError(function)


class Pipe(InputStream, OutputStream):
    """Bytes in and out of one buffer of limited size; ``ended`` ends it for writers, and for readers once it is empty."""

    def __init__(self, size: int = 8) -> None:
        super().__init__()
        self.size = size
        self.buffer = bytearray()
        self.ended: StreamEnded | None = None
        self.held_back = False

    def ready(self) -> bool:
        return bool(self.buffer) or self.ended is not None

    def read(self, limit: int) -> bytes:
        if self.ended and not self.buffer:
            raise self.ended
        data = bytes(self.buffer[:limit])
        del self.buffer[:limit]
        return data

    def budget(self) -> int:
        if self.ended:
            raise self.ended
        return self.size - len(self.buffer)

    def accept(self, frame: CallFrame, contents: bytes) -> None:
        assert len(contents) <= self.budget()
        self.buffer += contents

    def flushed(self) -> bool:
        return not self.held_back


class Drain(Pipe):
    """A pipe seen from its writing end: ready when there is room."""

    def ready(self) -> bool:
        return self.ended is not None or len(self.buffer) < self.size


# --- errors and pollables -------------------------------------------------------------------------------------------


def test_an_error_says_what_it_was_given(frame: CallFrame) -> None:
    assert (
        call("[method]error.to-debug-string", frame, IoError("connection reset", 104)) == "connection reset"
    )


def test_a_pollable_is_ready_when_its_condition_holds_or_its_moment_has_come(
    frame: CallFrame, clock: Any
) -> None:
    never, always = Pollable(), Pollable(lambda: True)
    timer = Pollable(at=frame.now() + 5)
    assert [call("[method]pollable.ready", frame, each) for each in (never, always, timer)] == [
        False,
        True,
        False,
    ]
    clock.advance(5)
    assert call("[method]pollable.ready", frame, timer) is True


def test_poll_gives_the_positions_of_all_that_are_ready(frame: CallFrame) -> None:
    never, always = Pollable(), Pollable(lambda: True)
    assert call("poll", frame, [never, always, never, always]) == [1, 3]


@pytest.mark.req("PLG-019")
def test_poll_of_nothing_is_a_trap_since_it_would_wait_forever(frame: CallFrame) -> None:
    with pytest.raises(GuestTrap, match="at least one pollable"):
        call("poll", frame, [])


def test_poll_takes_as_many_entries_as_there_can_be_handles_and_no_more(frame: CallFrame) -> None:
    always = Pollable(lambda: True)
    assert len(call("poll", frame, [always] * MAX_HANDLES)) == MAX_HANDLES
    with pytest.raises(GuestTrap, match="at most"):
        call("poll", frame, [always] * (MAX_HANDLES + 1))


def test_a_wait_ends_when_another_thread_says_that_something_changed(
    frame: CallFrame, waiting: Callable[..., Any]
) -> None:
    happened: list[bool] = []
    wait = waiting(lambda: call("poll", frame, [Pollable(), Pollable(lambda: bool(happened))]))
    happened.append(True)
    frame.notify()
    assert wait.join() == [1]


def test_a_timer_ends_a_wait_at_its_moment(frame: CallFrame, clock: Any, waiting: Callable[..., Any]) -> None:
    early, late = Pollable(at=frame.now() + 3), Pollable(at=frame.now() + 6)
    wait = waiting(lambda: call("poll", frame, [late, early]))
    clock.advance(3)
    frame.notify()
    assert wait.join() == [1]


@pytest.mark.req("PLG-018", "PLG-019", "PAINS-3")
@pytest.mark.parametrize("seconds", [30.0, 31.0, 1e10, None], ids=str)
def test_no_wait_outlives_the_deadline_and_the_error_names_the_wait(
    frame: CallFrame, clock: Any, waiting: Callable[..., Any], seconds: float | None
) -> None:
    pollable = Pollable(at=None if seconds is None else frame.now() + seconds + 0.001)
    wait = waiting(lambda: call("[method]pollable.block", frame, pollable))
    clock.advance(30)
    frame.notify()
    with pytest.raises(DeadlineExceeded, match="past its deadline while waiting for a timer") as caught:
        wait.join()
    assert caught.value.details["waited_for"] == "a timer or an event"


@pytest.mark.req("PLG-018")
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("[method]input-stream.blocking-read", (Pipe(), 1)),
        ("[method]input-stream.blocking-skip", (Pipe(), 1)),
        ("[method]output-stream.blocking-write-and-flush", (Drain(size=0), b"x")),
        ("[method]output-stream.blocking-write-zeroes-and-flush", (Drain(size=0), 1)),
        ("[method]output-stream.blocking-splice", (Drain(size=0), NoInput(), 1)),
        ("[method]output-stream.blocking-splice", (Drain(), Pipe(), 1)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_blocking_stream_function_ends_at_the_deadline(
    frame: CallFrame, clock: Any, waiting: Callable[..., Any], function: str, arguments: tuple[Any, ...]
) -> None:
    wait = waiting(lambda: call(function, frame, *arguments))
    clock.advance(31)
    frame.notify()
    with pytest.raises(DeadlineExceeded):
        wait.join()


@pytest.mark.req("PLG-018")
def test_a_flush_that_never_comes_through_ends_at_the_deadline(
    frame: CallFrame, clock: Any, waiting: Callable[..., Any]
) -> None:
    stream = Drain()
    stream.held_back = True
    wait = waiting(lambda: call("[method]output-stream.blocking-flush", frame, stream))
    clock.advance(31)
    frame.notify()
    with pytest.raises(DeadlineExceeded, match="output to leave"):
        wait.join()


def test_a_cancelled_call_leaves_its_wait_at_once(frame: CallFrame, waiting: Callable[..., Any]) -> None:
    wait = waiting(lambda: call("[method]pollable.block", frame, Pollable()))
    frame.cancel()
    with pytest.raises(CallCancelled):
        wait.join()


# --- input ----------------------------------------------------------------------------------------------------------


def test_a_read_gives_what_is_there_and_nothing_when_nothing_is(frame: CallFrame) -> None:
    pipe = Pipe()
    assert call("[method]input-stream.read", frame, pipe, 5) == Ok(b"")
    pipe.buffer += b"abcdefg"
    assert call("[method]input-stream.read", frame, pipe, 5) == Ok(b"abcde")
    assert call("[method]input-stream.skip", frame, pipe, 1) == Ok(1)
    assert call("[method]input-stream.read", frame, pipe, 5) == Ok(b"g")


def test_a_read_of_any_size_gives_one_chunk(frame: CallFrame) -> None:
    pipe = Pipe(size=2 * MAX_CHUNK)
    pipe.buffer += bytes(MAX_CHUNK + 1)
    assert call("[method]input-stream.read", frame, pipe, 2**64 - 1) == Ok(bytes(MAX_CHUNK))
    assert call("[method]input-stream.skip", frame, pipe, 2**64 - 1) == Ok(1)


@pytest.mark.parametrize("function", ["read", "blocking-read", "skip", "blocking-skip"])
def test_the_end_of_input_is_closed_and_a_failure_carries_its_error(frame: CallFrame, function: str) -> None:
    assert call(f"[method]input-stream.{function}", frame, NoInput(), 10) == CLOSED
    pipe, error = Pipe(), IoError("reset")
    pipe.ended = StreamEnded(error)
    assert call(f"[method]input-stream.{function}", frame, pipe, 10) == Err(("last-operation-failed", error))


def test_a_blocking_read_waits_for_the_first_byte(frame: CallFrame, waiting: Callable[..., Any]) -> None:
    pipe = Pipe()
    wait = waiting(lambda: call("[method]input-stream.blocking-read", frame, pipe, 100))
    pipe.buffer += b"late"
    frame.notify()
    assert wait.join() == Ok(b"late")


def test_a_blocking_read_of_no_bytes_gives_none(frame: CallFrame) -> None:
    pipe = Pipe()
    pipe.buffer += b"x"
    assert call("[method]input-stream.blocking-read", frame, pipe, 0) == Ok(b"")
    assert pipe.buffer == b"x"


def test_the_pollable_of_a_stream_follows_the_stream(frame: CallFrame) -> None:
    pipe = Pipe()
    pollable = call("[method]input-stream.subscribe", frame, pipe)
    assert call("[method]pollable.ready", frame, pollable) is False
    pipe.buffer += b"x"
    assert call("[method]pollable.ready", frame, pollable) is True


# --- output ---------------------------------------------------------------------------------------------------------


def test_a_write_within_what_was_permitted_is_taken(frame: CallFrame) -> None:
    stream = Drain(size=8)
    assert call("[method]output-stream.check-write", frame, stream) == Ok(8)
    assert call("[method]output-stream.write", frame, stream, b"12345678") is OK
    assert call("[method]output-stream.check-write", frame, stream) == Ok(0)
    assert bytes(stream.buffer) == b"12345678"


def test_one_byte_beyond_what_was_permitted_is_a_trap(frame: CallFrame) -> None:
    stream = Drain(size=8)
    call("[method]output-stream.check-write", frame, stream)
    with pytest.raises(GuestTrap, match="beyond what check-write permitted"):
        call("[method]output-stream.write", frame, stream, b"123456789")
    assert not stream.buffer


def test_a_write_without_permission_is_a_trap(frame: CallFrame) -> None:
    with pytest.raises(GuestTrap):
        call("[method]output-stream.write", frame, Drain(), b"1")


def test_a_permission_is_used_up_by_writes_of_any_kind(frame: CallFrame) -> None:
    stream = Drain(size=10)
    call("[method]output-stream.check-write", frame, stream)
    call("[method]output-stream.write", frame, stream, b"1234")
    call("[method]output-stream.blocking-write-and-flush", frame, stream, b"5678")
    call("[method]output-stream.write-zeroes", frame, stream, 2)
    assert bytes(stream.buffer) == b"12345678\0\0"
    with pytest.raises(GuestTrap):
        call("[method]output-stream.write", frame, stream, b"9")


def test_zeroes_beyond_what_was_permitted_are_never_made(frame: CallFrame) -> None:
    stream = Drain(size=8)
    call("[method]output-stream.check-write", frame, stream)
    with pytest.raises(GuestTrap):
        call("[method]output-stream.write-zeroes", frame, stream, 2**64 - 1)


@pytest.mark.parametrize(
    ("function", "largest", "one_more"),
    [
        ("blocking-write-and-flush", bytes(MAX_BLOCKING_WRITE), bytes(MAX_BLOCKING_WRITE + 1)),
        ("blocking-write-zeroes-and-flush", MAX_BLOCKING_WRITE, MAX_BLOCKING_WRITE + 1),
    ],
)
def test_a_blocking_write_takes_its_limit_and_traps_one_past(
    frame: CallFrame, function: str, largest: Any, one_more: Any
) -> None:
    stream = Drain(size=2 * MAX_BLOCKING_WRITE)
    assert call(f"[method]output-stream.{function}", frame, stream, largest) is OK
    assert len(stream.buffer) == MAX_BLOCKING_WRITE
    with pytest.raises(GuestTrap, match="at most 4096"):
        call(f"[method]output-stream.{function}", frame, stream, one_more)


def test_a_blocking_write_goes_in_portions_as_room_comes(
    frame: CallFrame, waiting: Callable[..., Any]
) -> None:
    stream, seen = Drain(size=3), bytearray()

    def emptied() -> bool:
        seen.extend(stream.read(3))
        return len(stream.buffer) < stream.size

    stream.ready = emptied  # the reader takes what is there whenever the writer looks for room
    assert call("[method]output-stream.blocking-write-and-flush", frame, stream, b"abcdefgh") is OK
    assert bytes(seen + stream.buffer) == b"abcdefgh"


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("check-write", ()),
        ("blocking-write-and-flush", (b"x",)),
        ("blocking-write-zeroes-and-flush", (1,)),
        ("splice", (NoInput(), 1)),
        ("blocking-splice", (NoInput(), 1)),
    ],
)
def test_output_that_ended_says_so(frame: CallFrame, function: str, arguments: tuple[Any, ...]) -> None:
    stream = Drain()
    stream.ended = StreamEnded()
    assert call(f"[method]output-stream.{function}", frame, stream, *arguments) == CLOSED


def test_output_that_ends_between_permission_and_write_says_so(frame: CallFrame) -> None:
    class Ending(Drain):
        def accept(self, frame: CallFrame, contents: bytes) -> None:
            raise StreamEnded

        def flush(self) -> None:
            raise StreamEnded

    stream = Ending()
    call("[method]output-stream.check-write", frame, stream)
    assert call("[method]output-stream.write", frame, stream, b"x") == CLOSED
    assert call("[method]output-stream.write-zeroes", frame, stream, 1) == CLOSED
    assert call("[method]output-stream.flush", frame, stream) == CLOSED
    assert call("[method]output-stream.blocking-flush", frame, stream) == CLOSED


def test_a_splice_moves_what_both_sides_allow(frame: CallFrame) -> None:
    source, target = Pipe(), Drain(size=4)
    assert call("[method]output-stream.splice", frame, target, source, 100) == Ok(0)
    source.buffer += b"abcdef"
    assert call("[method]output-stream.splice", frame, target, source, 3) == Ok(3)
    assert call("[method]output-stream.blocking-splice", frame, target, source, 2**64 - 1) == Ok(1)
    assert (bytes(source.buffer), bytes(target.buffer)) == (b"ef", b"abcd")
    assert call("[method]output-stream.splice", frame, target, source, 100) == Ok(0)
    assert bytes(source.buffer) == b"ef"


@given(
    size=st.integers(1, 64),
    steps=st.lists(st.one_of(st.tuples(st.just("write"), st.integers(0, 80)), st.just(("check", 0)))),
)
def test_a_stream_never_takes_more_than_it_permitted(size: int, steps: list[tuple[str, int]]) -> None:
    stream, permitted = Drain(size), 0
    for step, length in steps:
        if step == "check":
            permitted = stream.permit()
        elif length <= permitted:
            stream.spend(length)
            permitted -= length
            stream.buffer += bytes(length)
        else:
            with pytest.raises(GuestTrap):
                stream.spend(length)
    assert len(stream.buffer) <= size


def test_both_ends_of_a_stream_are_what_the_interface_declares() -> None:
    resources = INTERFACES["wasi:io/streams"].resources
    assert resources == {"input-stream": InputStream, "output-stream": OutputStream}
