"""The shipped time limits, waited for. All of them at once, because each is half a minute or a whole one.

Nothing here must be quick: each limit is bounded from below, and a limit that were put off by what the client does would
never be reached, because the client goes on doing it.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from raw_client import RawClient

pytestmark = [pytest.mark.realtime, pytest.mark.slow]

LIMIT = 29.9
"""Seconds that each limit has at least; 30, and what two clocks may differ by."""
GIVE_UP = 240.0


def patient(path: Path) -> RawClient:
    client = RawClient(path)
    client.socket.settimeout(GIVE_UP)
    return client


def initialized(path: Path) -> RawClient:
    client = patient(path)
    client.initialize()
    return client


def repeat_until_end(client: RawClient, data: bytes, seconds: float) -> None:
    """Send this again and again, and read whatever comes, until the stream ends."""
    client.socket.settimeout(seconds)
    began = time.monotonic()
    while time.monotonic() - began < GIVE_UP:
        with suppress(BrokenPipeError):
            client.write(data)
        try:
            while client.receive_or_end() is not None:
                pass
        except TimeoutError:
            continue
        return
    raise AssertionError("the stream does not end")


def silence(path: Path) -> RawClient:
    client = patient(path)
    assert client.receive_or_end() is None
    return client


def rejected_calls(path: Path) -> RawClient:
    client = patient(path)
    calls = (
        b'{"jsonrpc":"2.0","method":"status","id":1}\n'
        b'{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":2},"id":2}\n'
    )
    repeat_until_end(client, calls, 5)
    return client


def a_beginning_before_initialize(path: Path) -> RawClient:
    client = patient(path)
    client.write(b"{")
    assert client.receive_or_end() is None
    return client


def a_beginning(path: Path) -> RawClient:
    client = initialized(path)
    client.write(b"{")
    while client.receive_or_end() is not None:
        pass
    return client


def a_trickle(path: Path) -> RawClient:
    client = initialized(path)
    repeat_until_end(client, b"x", 1)
    return client


def idleness(path: Path) -> RawClient:
    client = initialized(path)
    client.socket.settimeout(61)
    with pytest.raises(TimeoutError):
        client.receive_or_end()
    client.socket.settimeout(GIVE_UP)
    client.call("status")
    return client


def no_reading(path: Path) -> RawClient:
    """Ask for more than fits between two processes, take nothing of it, and see that nobody else is held up."""
    client, other = initialized(path), initialized(path)
    with other:
        session = client.call("session/new", {"agentAlias": "assistant", "keep_siblings": True})["sessionId"]
        prompt = "/chunks 4000 " + "x" * 4_000_000
        client.send("session/prompt", {"sessionId": session, "prompt": prompt}, 1)
        while other.call("session/state", {"sessionId": session})["state"] != "running":
            pass
        other.call("status")
        hang_up = select.poll()
        hang_up.register(client.socket, 0)
        assert hang_up.poll(GIVE_UP * 1000), "the connection does not end"
        while other.call("session/state", {"sessionId": session})["state"] != "idle":
            pass
        other.call("session/close", {"sessionId": session})
    return client


Observed = Callable[[Callable[[Path], RawClient]], tuple[RawClient, float]]
WATCHED = (
    idleness, silence, rejected_calls, a_beginning_before_initialize, a_beginning, a_trickle, no_reading,
)  # fmt: skip


@pytest.fixture(scope="module")
def observed(endpoint: Any) -> Iterator[Observed]:
    """What became of each client, and how long it took."""

    def watch(scene: Callable[[Path], RawClient]) -> tuple[RawClient, float]:
        began = time.monotonic()
        with scene(endpoint.socket) as client:
            return client, time.monotonic() - began

    with ThreadPoolExecutor(len(WATCHED)) as pool:
        scenes: dict[Any, Future[tuple[RawClient, float]]] = {
            scene: pool.submit(watch, scene) for scene in WATCHED
        }
        yield lambda scene: scenes[scene].result()


@pytest.mark.req("RPC-024")
def test_who_says_nothing_hears_nothing_and_is_gone_after_thirty_seconds(observed: Observed) -> None:
    client, seconds = observed(silence)
    assert (client.frames, seconds >= LIMIT) == ([], True)


@pytest.mark.req("RPC-025")
def test_calls_that_are_rejected_put_nothing_off(observed: Observed) -> None:
    client, seconds = observed(rejected_calls)
    assert {frame["error"]["code"] for frame in client.frames} == {-32010, -32011}
    assert seconds >= LIMIT


@pytest.mark.req("RPC-027")
def test_before_initialize_an_unfinished_line_ends_in_silence(observed: Observed) -> None:
    client, seconds = observed(a_beginning_before_initialize)
    assert (client.frames, seconds >= LIMIT) == ([], True)


@pytest.mark.req("RPC-027")
def test_an_unfinished_line_is_told_after_thirty_seconds(observed: Observed) -> None:
    client, seconds = observed(a_beginning)
    assert_frame_timeout(client)
    assert seconds >= LIMIT


@pytest.mark.req("RPC-028")
def test_a_trickle_puts_nothing_off(observed: Observed) -> None:
    client, seconds = observed(a_trickle)
    assert_frame_timeout(client)
    assert seconds >= LIMIT


@pytest.mark.req("RPC-029")
def test_between_lines_a_minute_of_silence_is_nothing(observed: Observed) -> None:
    client, seconds = observed(idleness)
    assert len(client.frames) == 2
    assert seconds >= 60


@pytest.mark.req("RPC-030", "RPC-031", "RPC-032")
def test_who_takes_no_bytes_for_thirty_seconds_is_disconnected_and_its_turn_ends(observed: Observed) -> None:
    _, seconds = observed(no_reading)
    assert seconds >= LIMIT


def assert_frame_timeout(client: RawClient) -> None:
    """The last frame, and the only one after the answer to ``initialize``."""
    _, last = client.frames
    assert (last["id"], last["error"]["code"]) == (None, -32600)
    assert last["error"]["data"] == {"reason": "frame_timeout", "limit_ms": 30_000}
