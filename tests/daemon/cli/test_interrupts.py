"""What Ctrl-C does, at every moment at which it can be pressed."""

from __future__ import annotations

import signal

import anyio
import pytest

from zeroclaw_daemon.cli.interrupts import Interrupts

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def press() -> None:
    signal.raise_signal(signal.SIGINT)


async def settle() -> None:
    """Let the event loop do what it was told to do soon."""
    for _ in range(3):
        await anyio.lowlevel.checkpoint()


async def test_while_a_line_is_typed_it_raises_and_is_forgotten() -> None:
    interrupts = Interrupts()
    with interrupts.caught():
        with pytest.raises(KeyboardInterrupt), interrupts.ending():
            press()
        with interrupts.ending():
            pass


async def test_while_something_runs_each_press_calls() -> None:
    interrupts, calls = Interrupts(), []
    with interrupts.caught(), interrupts.calling(lambda: calls.append(1)):
        press()
        assert calls == []
        await settle()
        assert calls == [1]
        press()
        await settle()
        assert calls == [1, 1]


async def test_a_press_just_before_counts_for_what_begins() -> None:
    interrupts, calls = Interrupts(), []
    with interrupts.caught():
        press()
        with interrupts.calling(lambda: calls.append(1)):
            await settle()
        assert calls == [1]
        press()
        with pytest.raises(KeyboardInterrupt), interrupts.ending():
            pytest.fail("the line is not even begun")
        with interrupts.ending():
            pass


async def test_a_press_at_the_very_end_does_not_reach_the_next() -> None:
    interrupts, calls = Interrupts(), []
    with interrupts.caught():
        with interrupts.calling(lambda: calls.append("first")):
            press()
        with interrupts.calling(lambda: calls.append("second")):
            await settle()
    assert calls == []


async def test_afterwards_ctrl_c_is_what_it_was() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts().caught():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
