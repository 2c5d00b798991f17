"""Reading from a socket that stays registered with the event loop: every byte once, in order, and no busy waiting."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zeroclaw_daemon.rpc.transport.sockets import SocketStream

pytestmark = pytest.mark.anyio
PATIENCE = 60


class Registrations:
    """What the running loop was asked to watch, and the loop itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = asyncio.get_running_loop()
        self.made: list[str] = []
        for name in ("add_reader", "remove_reader"):
            monkeypatch.setattr(self.loop, name, self._noting(name, getattr(self.loop, name)))

    def _noting(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any) -> Any:
            self.made.append(name)
            return call(*args)

        return noted


@pytest.fixture
def both() -> Generator[tuple[SocketStream, socket.socket]]:
    """A stream, and the socket at its other end."""
    near, far = socket.socketpair()
    with near, far:
        yield SocketStream(near), far


async def reading(stream: SocketStream, max_bytes: int = 65536) -> bytes:
    with anyio.fail_after(PATIENCE):
        return await stream.read(max_bytes)


async def test_one_registration_is_enough_for_many_reads(
    both: tuple[SocketStream, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    (stream, far), seen = both, Registrations(monkeypatch)
    for number in range(5):

        async def send(number: int = number) -> None:
            far.send(b"%d" % number)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            assert await reading(stream) == b"%d" % number
    assert seen.made == ["add_reader"]
    stream.close()
    assert seen.made == ["add_reader", "remove_reader"]


async def test_what_nobody_reads_does_not_keep_the_loop_awake(
    both: tuple[SocketStream, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    (stream, far), seen = both, Registrations(monkeypatch)
    far.send(b"a")
    assert await reading(stream) == b"a"
    far.send(b"b")
    with anyio.fail_after(PATIENCE):
        while seen.made[-1] != "remove_reader":
            await anyio.lowlevel.checkpoint()
    assert await reading(stream) == b"b"
    far.shutdown(socket.SHUT_WR)
    assert await reading(stream) == b""
    assert await reading(stream) == b""
    stream.close()


async def test_a_read_ends_with_its_side(both: tuple[SocketStream, socket.socket]) -> None:
    stream, _ = both
    found: list[bytes] = []

    async def read() -> None:
        found.append(await reading(stream))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        stream.close()
    assert found == [b""]
    assert await reading(stream) == b""
    stream.close()


async def test_two_cannot_read_at_once(both: tuple[SocketStream, socket.socket]) -> None:
    stream, far = both
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reading, stream)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(anyio.BusyResourceError):
            await reading(stream)
        far.send(b"a")
    stream.close()


async def test_a_loop_that_watches_no_sockets_is_done_without(
    both: tuple[SocketStream, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Windows has one."""

    def refuse(*args: Any) -> None:
        raise NotImplementedError

    stream, far = both
    far.send(b"ab")
    with monkeypatch.context() as without:
        for name in ("add_reader", "remove_reader"):
            without.setattr(asyncio.get_running_loop(), name, refuse)
        assert await reading(stream, 1) == b"a"
        assert await reading(stream, 1) == b"b"
        stream.close()


STEPS = st.tuples(
    st.binary(max_size=3), st.binary(max_size=3), st.integers(0, 3), st.integers(1, 4), st.booleans()
)


@given(st.lists(STEPS, max_size=12))
@example([(b"a", b"", 1, 1, True)])  # given up just before the loop takes what came
@example([(b"ab", b"", 2, 1, True), (b"c", b"", 0, 1, False)])  # and just after that
def test_a_read_that_is_given_up_loses_nothing(steps: list[tuple[bytes, bytes, int, int, bool]]) -> None:
    """Each step: bytes, some turns of the loop, and more bytes, while a read waits that is given up in the end or not."""

    async def run() -> bytes:
        near, far = socket.socketpair()
        stream, found = SocketStream(near), b""
        faults: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        with far:
            for first, second, turns, portion, gives_up in steps:
                # anyio spares a task whose wait has just ended; the event loop's own way to cancel does not.
                read = asyncio.create_task(stream.read(portion))
                await anyio.lowlevel.checkpoint()
                far.send(first)
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                far.send(second)
                if gives_up or not (first or second):
                    read.cancel()
                with suppress(asyncio.CancelledError):
                    found += await read
            far.shutdown(socket.SHUT_WR)
            while data := await reading(stream, 3):
                assert len(data) <= 3
                found += data
        stream.close()
        assert faults == []
        return found

    assert anyio.run(run) == b"".join(first + second for first, second, *_ in steps)
