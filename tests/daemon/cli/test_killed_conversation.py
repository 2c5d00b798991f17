"""A daemon that is killed in the middle of an answer, and the one that is started after it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from daemon_process import RunningDaemon
from raw_client import RawClient

LONG = "/slow 600000 never to be heard to its end"


@pytest.mark.req("RPC-140", "RPC-141", "RPC-149", "RPC-153")
def test_a_conversation_goes_on_after_its_daemon_was_killed(
    start_daemon: Callable[..., RunningDaemon], home: Any
) -> None:
    daemon = start_daemon()
    new = {"agentAlias": "assistant", "sessionId": "s", "chatMode": "acp", "keepSiblings": True}
    with RawClient(home.socket) as client:
        client.initialize()
        assert client.call("session/new", new)["messageCount"] == 0
        client.call("session/new", {**new, "sessionId": "killed"})
        assert client.call("session/kill", {"sessionId": "killed"})["killed"] is True
        client.send("session/prompt", {"sessionId": "s", "prompt": LONG}, 1)
        told = client.receive()["params"]
        assert (told["type"], told["text"]) == ("agent_message_chunk", "never ")
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()

    start_daemon()
    with RawClient(home.socket) as client:
        client.initialize()
        for _ in range(2):
            assert client.call("session/new", new)["messageCount"] == 3
            client.call("session/close", {"sessionId": "s"})
        entries = client.call("session/messages", {"sessionId": "s"})["messages"]
        assert [(entry["role"], entry["content"]) for entry in entries] == [
            ("user", LONG), ("assistant", "never "), ("system", "[stream interrupted]"),
        ]  # fmt: skip
        client.send("session/prompt", {"sessionId": "s", "prompt": "hello"}, 2)
        while "id" not in (frame := client.receive()):
            pass
        assert frame["result"]["content"] == "hello"
        error = client.ask("session/new", {**new, "sessionId": "killed"})["error"]
        assert (error["code"], error["data"]["reason"]) == (-32000, "session_killed")
