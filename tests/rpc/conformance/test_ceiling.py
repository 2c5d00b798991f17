"""How many connections a daemon serves that nobody told otherwise."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from raw_client import RawClient

CEILING = 512


@pytest.mark.req("RPC-033", "RPC-034", "RPC-036", "RPC-234")
def test_the_five_hundred_and_thirteenth_connection_is_refused(endpoint: Any) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(RawClient(endpoint.socket))
        first.initialize()
        others = first.call("status")["connections"] - 1
        clients = [stack.enter_context(RawClient(endpoint.socket)) for _ in range(CEILING - 1 - others)]
        clients[-1].initialize()
        assert first.call("status")["connections"] == CEILING
        with RawClient(endpoint.socket) as refused:
            refused.send("initialize", {}, 1)
            frame = refused.receive()
            assert (frame["id"], frame["error"]["code"]) == (None, -32004)
            assert frame["error"]["data"] == {"reason": "connection_limit", "limit": CEILING}
            assert refused.receive_or_end() is None
        clients.pop().close()
        until(first, CEILING - 1)
        with RawClient(endpoint.socket) as again:
            again.initialize()
        for client in clients:
            client.close()
        until(first, others + 1)
        first.leave()


def until(client: RawClient, connections: int) -> None:
    """Ask until the daemon has seen the end of all but this many connections."""
    while client.call("status")["connections"] > connections:
        pass
