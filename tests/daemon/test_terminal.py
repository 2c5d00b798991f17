"""Standard error, whether or not anybody reads it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator

import pytest

from zeroclaw_daemon.terminal import Terminal


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe that holds one page."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    try:
        yield reading, writing
    finally:
        for descriptor in (reading, writing):
            os.close(descriptor)


def test_what_is_said_arrives_in_order(pipe: tuple[int, int]) -> None:
    terminal = Terminal(pipe[1])
    for number in range(3):
        terminal.say(f"é {number}")
    terminal.close()
    terminal.say("too late")
    assert os.read(pipe[0], 4096).decode() == "é 0\né 1\né 2\n"


def test_bytes_of_a_path_that_are_no_text_are_shown_and_silence_nothing(pipe: tuple[int, int]) -> None:
    terminal = Terminal(pipe[1])
    terminal.say("it is " + os.fsdecode(b"/tmp/caf\xe9"))
    terminal.say("and goes on")
    terminal.close()
    assert os.read(pipe[0], 4096) == b"it is /tmp/caf\\udce9\nand goes on\n"


def test_a_reader_that_reads_nothing_holds_nobody_up_and_is_told_what_it_missed(
    pipe: tuple[int, int],
) -> None:
    terminal = Terminal(pipe[1], capacity=4)
    for number in range(1_000):
        terminal.say(f"{number} {'x' * 1000}")
    terminal.close(seconds=0.05)  # a reader that wakes up too late is not waited for
    said = b""
    while b"dropped" not in said:
        piece = os.read(pipe[0], 4096)
        assert piece, said
        said += piece


def test_a_reader_that_is_gone_harms_nobody() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    terminal = Terminal(writing)
    for _ in range(100):
        terminal.say("hello")
    terminal.close()
    os.close(writing)
