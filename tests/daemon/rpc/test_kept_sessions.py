"""Sessions that are not live any more, and what is there of them when somebody comes back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_daemon.sessions.durable import DurableSessions

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.mark.parametrize("mode", ["acp", "chat"])
@pytest.mark.req("RPC-152")
async def test_a_closed_session_goes_on_where_it_was(serving: Serving, tmp_path: Path, mode: str) -> None:
    durable = DurableSessions.at(tmp_path / "sessions")
    async with serving(durable=durable) as daemon, daemon.connect() as wire:
        session = await wire.new_session(chatMode=mode)
        await wire.call("session/prompt", {"sessionId": session, "prompt": "one"})
        await wire.call("session/close", {"sessionId": session})
        assert (await wire.call("status"))["sessionIds"] == []
        answer = await wire.call("session/prompt", {"sessionId": session, "prompt": "two"})
        assert answer["content"] == "two"
        await wire.call("session/close", {"sessionId": session})
        again = await wire.call(
            "session/new", {"agentAlias": "assistant", "sessionId": session, "chatMode": mode}
        )
        assert again["messageCount"] == 4
    durable.close()
