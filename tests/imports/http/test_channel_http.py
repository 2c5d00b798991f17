"""A channel's requests: what one call begins goes on between its calls and in the next ones, and ends with its store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import http_origins
import peers
import pytest
from built_plugins import built_plugin

from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import admit
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.worlds.channel import ChannelPlugin
from zeroclaw_host.worlds.kinds import SendMessage

pytestmark = pytest.mark.slow

Make = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[3]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n"
IDENTITY = InstanceIdentity("longpoll", Capability.CHANNEL, "ops")


@pytest.fixture
def channel(guest: Make) -> Iterator[tuple[ChannelPlugin, Any]]:
    """The channel, and the guest whose network it has."""
    net = guest()
    net.policies.set(IDENTITY, EgressPolicy.of(["a.example"], ["a.example"]))
    directory = built_plugin(Path(__file__).parent / "guests" / "longpoll")
    package = admit(DirectoryReader(directory), SignaturePolicy())
    scope = InstanceScope.admit(IDENTITY, package.manifest)
    limits = Limits(call_timeout_ms=120_000)
    with Sandbox(ROOT / ".cache" / "compiled", threads=2) as sandbox:
        loaded = ChannelPlugin.load(sandbox, package, scope, net.services, limits)
        yield loaded, net
        loaded.close()


def begin(channel: ChannelPlugin, port: int) -> None:
    message = SendMessage(content=f"http://a.example:{port}/", recipient="peer")
    channel.run_sync(lambda it: it.send(message))


def polled(channel: ChannelPlugin) -> str | None:
    found = channel.run_sync(lambda it: it.poll_message())
    return None if found is None else found.content


@pytest.mark.req("PLG-007", "PLG-103", "PLG-124")
def test_a_response_that_one_call_began_is_read_by_the_next_ones(
    channel: tuple[ChannelPlugin, Any], origin: Make
) -> None:
    plugin, net = channel
    going = threading.Event()

    def two_parts(asked: http_origins.Asked) -> None:
        asked.send(HEAD + b"abc")
        going.wait(peers.PATIENCE)
        asked.send(b"def")

    begin(plugin, origin(two_parts).port)
    assert net.slots.held(IDENTITY) == 1  # between the calls, too
    assert polled(plugin) == "abc"
    net.policies.set(IDENTITY, EgressPolicy.of([]))  # what was begun goes on
    going.set()
    assert polled(plugin) == "def"
    assert polled(plugin) is None
    assert net.slots.held(IDENTITY) == 0


@pytest.mark.req("PLG-124", "PAINS-3")
def test_what_a_channel_holds_ends_with_it(channel: tuple[ChannelPlugin, Any], origin: Make) -> None:
    plugin, net = channel
    gone = threading.Event()

    def half(asked: http_origins.Asked) -> None:
        asked.send(HEAD + b"abc")
        peers.hold(asked.connection)
        gone.set()

    begin(plugin, origin(half).port)
    assert net.slots.held(IDENTITY) == 1
    plugin.close()
    assert gone.wait(peers.PATIENCE)
    assert net.slots.held(IDENTITY) == 0
