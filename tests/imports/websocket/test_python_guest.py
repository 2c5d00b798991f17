"""A Python plugin that speaks WebSocket: through the whole host, from its bindings to a real server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peers
import pytest
import websocket_peers

from zeroclaw_host.errors import ComponentMismatch, DeadlineExceeded, PluginError
from zeroclaw_host.sandbox.frame import MAX_HOST_CALLS
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.services.logging import MemoryLogSink

pytestmark = pytest.mark.slow

Make = Callable[..., Any]
GUESTS = Path(__file__).parent / "guests"


@pytest.fixture(scope="module")
def component(python_guest: Make) -> bytes:
    return python_guest("chat", GUESTS, "speaking")


@pytest.fixture
def chat(component: bytes, load_tool: Make, guest: Make) -> Make:
    """Loads the plugin as an instance with a network; ``run(*steps)`` calls it once."""

    def load(*, limits: Limits | None = None, **how: Any) -> Any:
        tool = guest(**how)
        loaded = load_tool(
            component,
            limits or Limits(),
            MemoryLogSink(),
            manifest_bytes=tool.manifest,
            services=tool.services,
        )

        def run(*steps: Any) -> Any:
            return json.loads(loaded.execute_sync({"steps": steps}).output)

        tool.run = run
        return tool

    return load


def test_a_plugin_talks_to_a_server(chat: Make, server: Make) -> None:
    origin = server(subprotocols=["chat.v2"])
    tool = chat()
    url = f"ws://a.example:{origin.port}/"
    with peers.nothing_left():
        assert tool.run(
            ["connect", url, [["X-Key", "k"]], ["chat.v1", "chat.v2"]],
            ["subprotocol", 0],
            ["send", 0, "héllo"],
            ["receive", 0],
            ["send_bytes", 0, 200_000],
            ["receive", 0],
            ["look", 0],
            ["close", 0, "Other", 4000, "done"],
            ["send", 0, "too late"],
            ["close", 0],
            ["receive", 0],
            ["look", 0],
            ["drop", 0],
        ) == [
            "connected",
            "chat.v2",
            "sent",
            ["text", "héllo"],
            "sent",
            ["binary", 200_000],
            None,
            "closing",
            ["error", "CLOSED"],
            ["error", "CLOSED"],
            ["closed", [["Other", 4000], "done"]],
            ["error", "CLOSED"],
            "dropped",
        ]
    assert ("X-Key", "k") in origin.requests[0][1]


@pytest.mark.req("PLG-369", "PLG-013")
def test_a_plugin_is_told_what_it_may_not_and_what_it_did_wrong(chat: Make, server: Make) -> None:
    origin = server()
    url = f"ws://a.example:{origin.port}/"
    tool = chat()
    tool.grant([])
    assert tool.run(["connect", url]) == [["error", "DESTINATION_DENIED"]]
    assert origin.requests == []
    tool.grant(["a.example"])
    assert tool.run(
        ["connect", url],
        ["connect", "http://a.example/"],
        ["connect", url, [["Host", "b.example"]]],
        ["connect", url, [], ["a", "a"]],
        ["close", 0, "Other", 1005],
        ["close", 0, "Normal", None, "x" * 124],
        ["close", 0, "GoingAway", None, "x" * 123],
        ["receive", 0],
    ) == [
        "connected",
        ["error", "INVALID_OPTIONS"],
        ["error", "RESERVED_HEADER"],
        ["error", "INVALID_SUBPROTOCOL"],
        ["error", "INVALID_CLOSE"],
        ["error", "INVALID_CLOSE"],
        "closing",
        ["closed", [["GoingAway", None], "x" * 123]],
    ]


@pytest.mark.req("PLG-369", "PLG-103")
def test_without_the_permission_the_plugin_does_not_load(component: bytes, load_tool: Make) -> None:
    with pytest.raises(ComponentMismatch, match="websocket_client"):
        load_tool(component, Limits(), MemoryLogSink())


@pytest.mark.req("PLG-024")
def test_looking_is_charged_and_says_when_the_calls_budget_is_spent(chat: Make, server: Make) -> None:
    origin = server()
    tool = chat()
    answers = tool.run(["connect", f"ws://a.example:{origin.port}/"], ["looks", 0, 2000], ["send", 0, "x"])
    assert answers == ["connected", [MAX_HOST_CALLS - 1, "UNAVAILABLE"], ["error", "UNAVAILABLE"]]


@pytest.mark.req("PLG-124")
def test_two_calls_share_the_count_of_connections(chat: Make, server: Make) -> None:
    origin = server()
    url = f"ws://a.example:{origin.port}/"
    tool = chat()
    connected = threading.Event()
    release = threading.Event()

    def talk(connection: Any) -> None:
        connected.set()
        release.wait(peers.PATIENCE)
        connection.send("go on")

    holding = server(talk)
    first: list[Any] = []
    steps = [["connect", url]] * 9 + [["connect", f"ws://a.example:{holding.port}/"], ["receive", 9]]
    calling = threading.Thread(target=lambda: first.extend(tool.run(*steps)))
    calling.start()
    assert connected.wait(peers.PATIENCE)
    second = tool.run(*[["connect", url]] * 7)
    release.set()
    calling.join(peers.PATIENCE)
    assert second == ["connected"] * 6 + [["error", "CONNECTION_LIMIT"]]
    assert first == ["connected"] * 10 + [["text", "go on"]]
    assert tool.held == 0


@pytest.mark.req("PLG-124", "PLG-018")
@pytest.mark.realtime
@pytest.mark.parametrize("end", ["trap", "deadline", "connecting"])
def test_a_call_that_fails_leaves_no_connection(end: str, chat: Make, peer: Make) -> None:
    origin, silent = peer(websocket_peers.upgraded(peers.hold)), peer(peers.hold)
    limits = Limits() if end == "trap" else Limits(call_timeout_ms=3000)
    tool = chat(limits=limits)
    tool.run()  # what is loaded once is loaded
    last = {
        "trap": ["trap"],
        "deadline": ["sleep", 10**6],
        "connecting": ["connect", f"ws://a.example:{silent.port}/"],
    }
    with peers.nothing_left():
        with pytest.raises(PluginError if end == "trap" else DeadlineExceeded):
            tool.run(["connect", f"ws://a.example:{origin.port}/"], last[end])
        assert peers.eventually(lambda: tool.held == 0)
