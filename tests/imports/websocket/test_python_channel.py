"""A Python channel that keeps a WebSocket open: its warm store holds it from call to call, and it ends with the store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peers
import pytest
import websocket_peers
from plugin_parts import admitted

from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.errors import GuestFailure, PluginError
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import Capability, parse_manifest
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.worlds.channel import ChannelPlugin
from zeroclaw_host.worlds.kinds import SendMessage

pytestmark = pytest.mark.slow

Make = Callable[..., Any]
GUESTS = Path(__file__).parent / "guests"
MANIFEST = (
    b'name = "listener"\nversion = "1.0.0"\nwasm_path = "a.wasm"\ncapabilities = ["channel"]\n'
    b'permissions = ["websocket_client"]\n'
)
IDENTITY = InstanceIdentity("listener", Capability.CHANNEL, "room")


@pytest.fixture(scope="module")
def component(python_guest: Make) -> bytes:
    return python_guest("listener", GUESTS, "listening")


class Listener:
    """The channel, loaded as an instance of a guest's network."""

    def __init__(self, sandbox: Any, component: bytes, tool: Any) -> None:
        manifest = parse_manifest(MANIFEST)
        package = admitted(MANIFEST, component)
        tool.policies.set(IDENTITY, EgressPolicy.of(["a.example"], ["a.example"]))
        self._slots = tool.slots
        scope = InstanceScope.admit(IDENTITY, manifest)
        self.channel = ChannelPlugin.load(sandbox, package, scope, tool.services, Limits())

    @property
    def held(self) -> int:
        return self._slots.held(IDENTITY)

    def send(self, text: str) -> None:
        self.channel.run_sync(lambda it: it.send(SendMessage(content=text, recipient="room")))

    def poll(self) -> str:
        """The next message, by polling as the host does."""
        found: list[str] = []

        def arrived() -> bool:
            message = self.channel.run_sync(lambda it: it.poll_message())
            if message is not None:
                found.append(message.content)
            return bool(found)

        assert peers.eventually(arrived)
        return found[0]


@pytest.mark.req("PLG-124", "PLG-369")
def test_a_channel_keeps_its_connection_from_call_to_call_until_it_is_closed(
    component: bytes, sandbox: Any, guest: Make, server: Make
) -> None:
    gone = threading.Event()

    def talk(connection: Any) -> None:
        websocket_peers.echo(connection)
        gone.set()

    origin = server(talk)
    listener = Listener(sandbox, component, guest())
    listener.send(f"ws://a.example:{origin.port}/")
    assert listener.held == 1
    for word in ("one", "two"):
        listener.send(word)
        assert listener.poll() == word
    assert listener.held == 1
    listener.channel.close()
    assert listener.held == 0
    assert gone.wait(peers.PATIENCE)


@pytest.mark.req("PLG-124")
def test_a_call_that_fails_inside_the_channel_ends_its_connections_with_its_store(
    component: bytes, sandbox: Any, guest: Make, server: Make
) -> None:
    origin = server()
    url = f"ws://a.example:{origin.port}/"
    listener = Listener(sandbox, component, guest())
    listener.send(url)
    with pytest.raises(PluginError):
        listener.send("trap")
    assert listener.held == 0
    listener.send(url)
    assert listener.held == 1, "the next call has a new instance, which connects anew"
    listener.channel.close()


@pytest.mark.req("PLG-369")
def test_a_channel_is_told_that_a_destination_is_not_granted(
    component: bytes, sandbox: Any, guest: Make, server: Make
) -> None:
    origin = server()
    tool = guest()
    listener = Listener(sandbox, component, tool)
    tool.policies.set(IDENTITY, EgressPolicy.of([]))
    with pytest.raises(GuestFailure, match="DESTINATION_DENIED"):
        listener.send(f"ws://a.example:{origin.port}/")
    assert origin.requests == []
    listener.channel.close()
