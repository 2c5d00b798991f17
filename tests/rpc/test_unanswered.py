"""A question that nobody answers, in real time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from raw_client import RawClient

CONFIGURATION = "schema_version = 1\n\n[agents.hasty]\nask_timeout_secs = 1\n"
TOOLS = {
    "ask_user": {"question": "Go on?"},
    "poll": {"question": "Which?", "options": ["tea", "water"]},
}


@pytest.mark.realtime
@pytest.mark.req("RPC-093", "RPC-094", "RPC-252")
def test_each_question_has_a_time_of_its_own_and_an_answer_after_it_is_to_nothing(
    configured_daemon: Callable[[str], AbstractContextManager[Any]],
) -> None:
    with configured_daemon(CONFIGURATION) as endpoint, RawClient(endpoint.socket) as client:
        client.initialize()
        session = client.call("session/new", {"agentAlias": "hasty"})["sessionId"]
        for number, (tool, arguments) in enumerate(TOOLS.items()):
            began = time.monotonic()
            prompt = f"/tool {tool} {json.dumps(arguments)}"
            client.send("session/prompt", {"sessionId": session, "prompt": prompt}, "the prompt")
            seen: list[dict[str, Any]] = []
            while not seen or seen[-1].get("id") != "the prompt":
                seen.append(client.receive())
            assert time.monotonic() - began >= 0.99
            (question,) = [frame for frame in seen if frame.get("method") == "elicitation/create"]
            assert question["id"] == f"zc-out-{number}"
            (told,) = [f["params"] for f in seen if f.get("params", {}).get("type") == "tool_result"]
            assert told["rawOutput"].startswith("no answer")
            assert seen[-1]["result"]["stopReason"] == "end_turn"
            late = {"action": "accept", "content": {"answer": "late"}}
            client.write(
                json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": late}).encode() + b"\n"
            )
            client.call("status")
