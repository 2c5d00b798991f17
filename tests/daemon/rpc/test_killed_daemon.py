"""A daemon that is killed at any write of a turn: whoever comes back finds what was told, once, and the model goes on from it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import killed_daemon_child
import pytest
from killed_daemon_child import PLAN, SESSION, WRITES, converse, model_after, talking
from session_model import MARKER, entry_tuple

from zeroclaw_daemon.agent.messages import UserMessage
from zeroclaw_daemon.agent.providers.base import TextDelta
from zeroclaw_daemon.agent.providers.scripted import ScriptedProvider
from zeroclaw_daemon.sessions.durable import DurableSessions
from zeroclaw_daemon.sessions.store.acp import AcpStore
from zeroclaw_daemon.sessions.store.points import Phase, StoreSteps, WritePoint

pytestmark = pytest.mark.anyio

BOUND = 240
"""Seconds after which a process that hangs is given up."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for every write and phase, as the daemon left it that was killed there."""
    root = tmp_path_factory.mktemp("killed")
    program = Path(killed_daemon_child.__file__)
    done = subprocess.run(
        [sys.executable, str(program), str(root)], capture_output=True, timeout=BOUND, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return root


async def test_the_writes_are_what_a_daemon_announces(tmp_path: Path) -> None:
    reached: list[tuple[WritePoint, Phase]] = []

    class Listening(StoreSteps):
        def reached(self, point: WritePoint, phase: Phase) -> None:
            reached.append((point, phase))

    await converse(tmp_path, Listening(), lambda _: None)
    assert reached == [(point, phase) for point, _ in WRITES for phase in Phase]


def stored(root: Path) -> AcpStore:
    return DurableSessions.at(root / "sessions").acp._store


@pytest.mark.req("RPC-140", "RPC-141", "RPC-142", "RPC-149", "RPC-150")
@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("number", range(1, len(WRITES)), ids=lambda n: f"{n}-{WRITES[n][0].value}")
async def test_every_visible_piece_is_there_once_and_the_model_goes_on_from_it(
    killed: Path, tmp_path: Path, number: int, phase: Phase
) -> None:
    root = tmp_path / "copy"
    shutil.copytree(killed / f"{number}-{phase.value}", root)
    model = model_after(number + (phase is Phase.COMMITTED))
    kept = model.sessions[SESSION]
    interrupted = kept.turn is not None
    told = [json.loads(line) for line in (root / "heard").read_text().splitlines()]

    model.resume(SESSION)
    provider = ScriptedProvider([TextDelta("I do")])
    heard: list[dict[str, Any]] = []
    async with talking(root, provider, heard.append) as client:
        new: dict[str, Any] = {"agentAlias": "assistant", "sessionId": SESSION, "chatMode": "acp"}
        for _ in range(2):
            opened = (await client.ask("session/new", **new))["result"]
            assert opened["messageCount"] == len(kept.entries)
            await client.ask("session/close", sessionId=SESSION)
        assert [update["entries"] for update in heard if update["type"] == "plan"] == (
            [[PLAN.to_json()]] * 2 if kept.plan else []
        )
        assert [update["type"] for update in heard].count("history_trimmed") == 2 * kept.trimmed
        del heard[:]
        assert (await client.ask("session/prompt", sessionId=SESSION, prompt="go on"))["result"][
            "content"
        ] == "I do"

    assert list(provider.requests[0].messages) == [*kept.given(), UserMessage("go on")]
    entries = [entry_tuple(entry) for entry in stored(root).entries(SESSION)]
    assert entries[:-2] == kept.entries
    assert entries[-1][:2] == ("assistant", "I do")
    assert entries.count(MARKER) == interrupted
    assert "[stream interrupted]" not in repr(provider.requests)
    for update in told:
        match update:
            case {"type": "agent_message_chunk", "text": text}:
                assert sum(text in entry[1] for entry in entries if entry[0] == "assistant") == 1
            case {"type": "tool_call" | "tool_result" as kind, "toolCallId": call_id}:
                assert [entry[2:4] for entry in entries].count((kind, call_id)) == 1
            case _:
                pass
