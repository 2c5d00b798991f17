"""A ceiling that the configuration names, in a daemon that was started with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from raw_client import RawClient

CONFIGURATION = "schema_version = 1\n\n[rpc]\nmax_local_connections = 2\n"


def assert_refused(endpoint: Any) -> None:
    with RawClient(endpoint.socket) as client:
        client.send("initialize", {}, 1)
        frame = client.receive()
        assert (frame["id"], frame["error"]["code"]) == (None, -32004)
        assert frame["error"]["data"] == {"reason": "connection_limit", "limit": 2}
        assert client.receive_or_end() is None


def warnings(endpoint: Any) -> int:
    """How many there are; to be asked while nobody comes or goes, for a line that is being written is half a line."""
    records = [json.loads(line) for line in endpoint.log.read_text(encoding="utf-8").splitlines()]
    return sum(record["event"]["action"] == "connection_limit" for record in records)


@pytest.mark.req("RPC-033", "RPC-034", "RPC-035", "RPC-036", "RPC-037", "RPC-234")
def test_the_ceiling_is_the_one_the_daemon_started_with(
    configured_daemon: Callable[[str], AbstractContextManager[Any]],
) -> None:
    with configured_daemon(CONFIGURATION) as endpoint, RawClient(endpoint.socket) as first:
        first.initialize()
        with RawClient(endpoint.socket) as second:
            second.initialize()
            assert_refused(endpoint)
            changed = first.call("config/set", {"prop": "rpc.max_local_connections", "value": 10})
            assert changed == {"prop": "rpc.max_local_connections", "set": True}
            for _ in range(4):
                assert_refused(endpoint)
            assert warnings(endpoint) == 1
        while first.call("status")["connections"] == 2:
            pass  # the daemon sees the end of the second client when it sees it
        with RawClient(endpoint.socket) as third:
            third.initialize()
            assert_refused(endpoint)
            assert warnings(endpoint) == 2
