"""Messages both ways with a real server, and how conversations end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import websocket_peers

Make = Callable[..., Any]


def test_messages_go_both_ways(guest: Make, server: Make) -> None:
    origin = server(websocket_peers.echo)
    tool = guest()
    connection = tool.connect(f"ws://a.example:{origin.port}/chat?room=1")
    for message in (("text", "héllo"), ("binary", b"\x00\xff"), ("text", "")):
        assert tool.word("send", connection, message) == "ok"
        assert tool.receive(connection) == ("message", message)
    assert tool.word("close", connection, {"code": ("normal", None), "reason": "done"}) == "ok"
    assert tool.receive(connection) == ("closed", {"code": ("normal", None), "reason": "done"})
    assert tool.look(connection) == "closed"
    assert [path for path, _ in origin.requests] == ["/chat?room=1"]
    assert tool.held == 0
