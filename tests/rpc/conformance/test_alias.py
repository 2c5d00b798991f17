"""The agent that there is without a configuration, and a session that brings no id."""

from __future__ import annotations

from typing import Any

import pytest
from raw_client import RawClient


@pytest.mark.req("RPC-060")
def test_an_alias_alone_opens_a_session_of_the_agent_that_nobody_configured(endpoint: Any) -> None:
    if endpoint.home is not None:
        assert not (endpoint.home / ".zeroclaw" / "config.toml").exists()
    with RawClient(endpoint.socket) as client:
        client.initialize()
        opened = [
            client.call("session/new", {"agentAlias": "assistant", "keepSiblings": True}) for _ in range(2)
        ]
        ids = {each["sessionId"] for each in opened}
        assert len(ids) == 2
        assert ids <= set(client.call("status")["sessionIds"])
        for each in opened:
            assert each["agentAlias"] == "assistant"
            client.call("session/close", {"sessionId": each["sessionId"]})
        client.leave()
