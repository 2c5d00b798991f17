"""What is on disk of a conversation whose beginning the model has forgotten, and of the tools that ran in it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_daemon.agent.approval_policy import ApprovalPolicy
from zeroclaw_daemon.agent.built_in import BUILT_IN_TOOLS
from zeroclaw_daemon.agent.directory import Agent, FixedAgents
from zeroclaw_daemon.agent.events import Approval
from zeroclaw_daemon.agent.messages import ToolCall
from zeroclaw_daemon.agent.providers.base import TextDelta, ThoughtDelta
from zeroclaw_daemon.agent.providers.scripted import Line, Pause, ScriptedProvider
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.rpc.errors import INTERNAL
from zeroclaw_daemon.sessions.durable import DurableSessions
from zeroclaw_daemon.sessions.store.points import Phase, StoreSteps, WritePoint
from zeroclaw_daemon.sessions.store.records import CallOutcome

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]
Keeping = Callable[..., AbstractAsyncContextManager[tuple[Any, DurableSessions]]]
BUDGET = 38
"""Tokens: a prompt of two characters and an answer of a hundred cost 34, a further prompt 5."""


@pytest.fixture
def keeping(serving: Serving, tmp_path: Path) -> Keeping:
    """A daemon whose sessions are kept, with an agent that says what is scripted."""

    @asynccontextmanager
    async def start(
        *scripts: list[Line], steps: StoreSteps | None = None, **settings: Any
    ) -> AsyncGenerator[tuple[Any, DurableSessions]]:
        agent = Agent(
            "assistant",
            ScriptedProvider(*scripts),
            "m",
            tools=ToolRegistry(BUILT_IN_TOOLS),
            workspace=str(tmp_path),
        )
        with closing(DurableSessions.at(tmp_path / "sessions", steps)) as durable:
            async with serving(agents=FixedAgents(replace(agent, **settings)), durable=durable) as daemon:
                yield daemon, durable

    return start


def rows(tmp_path: Path, query: str) -> list[tuple[Any, ...]]:
    """What another reader of the database sees now."""
    database = tmp_path / "sessions" / "acp-sessions.db"
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as raw:
        return raw.execute(query).fetchall()


def snapshot(tmp_path: Path) -> tuple[Any, ...]:
    (row,) = rows(
        tmp_path, "SELECT retained_context_json, retained_context_frontier, trim_breadcrumb FROM acp_sessions"
    )
    return row


def prompt(session: str, text: str = "go", request_id: Any = 7) -> dict[str, Any]:
    params = {"sessionId": session, "prompt": text}
    return {"jsonrpc": "2.0", "method": "session/prompt", "params": params, "id": request_id}


@pytest.mark.req("RPC-133", "RPC-134", "RPC-135")
async def test_who_is_told_of_a_reduction_finds_it_written(keeping: Keeping, tmp_path: Path) -> None:
    pause = Pause()
    scripts: list[list[Line]] = [[TextDelta("1" * 100)], [pause, TextDelta("two")]]
    async with keeping(*scripts, max_context_tokens=BUDGET) as (daemon, _), daemon.connect() as wire:
        session = await wire.new_session(chatMode="acp")
        await wire.call("session/prompt", {"sessionId": session, "prompt": "oldest"})
        transcript = rows(tmp_path, "SELECT * FROM acp_messages ORDER BY id")
        assert len(transcript) == 2
        await wire.send(prompt(session))
        await wire.update_of("history_trimmed")
        context, frontier, breadcrumb = snapshot(tmp_path)
        assert [message["text"] for message in json.loads(context)["messages"]] == ["go"]
        ((newest,),) = rows(tmp_path, "SELECT max(id) FROM acp_turn_checkpoint_events")
        assert (frontier, breadcrumb) == (newest, 1)
        assert rows(tmp_path, "SELECT * FROM acp_messages ORDER BY id") == transcript
        pause.go.set()
        await wire.answer_to(7)
        assert rows(tmp_path, "SELECT * FROM acp_messages ORDER BY id")[:2] == transcript
        context, frontier, breadcrumb = snapshot(tmp_path)
        assert [message["text"] for message in json.loads(context)["messages"]] == ["go", "two"]
        assert (frontier, breadcrumb) == (0, 1)


class FailsOnce(StoreSteps):
    """A store whose write of a reduction fails at one place, the first time."""

    def __init__(self, phase: Phase) -> None:
        self.phase: Phase | None = phase

    def reached(self, point: WritePoint, phase: Phase) -> None:
        if point is WritePoint.CONTEXT_REDUCED and phase is self.phase:
            self.phase = None
            raise sqlite3.OperationalError("disk I/O error")


@pytest.mark.req("RPC-135", "RPC-136")
@pytest.mark.parametrize("phase", [Phase.BEGUN, Phase.WRITTEN])
async def test_a_reduction_that_cannot_be_written_is_not_told_and_fails_the_turn(
    keeping: Keeping, tmp_path: Path, phase: Phase
) -> None:
    scripts: list[list[Line]] = [[TextDelta("1" * 100)], [TextDelta("two")], [TextDelta("three")]]
    async with (
        keeping(*scripts, steps=FailsOnce(phase), max_context_tokens=BUDGET) as (daemon, _),
        daemon.connect() as wire,
    ):
        session = await wire.new_session(chatMode="acp")
        await wire.call("session/prompt", {"sessionId": session, "prompt": "oldest"})
        before = snapshot(tmp_path)
        wire.updates.clear()
        error = await wire.fail("session/prompt", {"sessionId": session, "prompt": "go"})
        assert error["code"] == INTERNAL
        assert [update["params"]["type"] for update in wire.updates] == ["turn_complete"]
        assert wire.updates[0]["params"]["outcome"] == "failed"
        assert snapshot(tmp_path) == before
        # The next prompt takes it up again.
        await wire.call("session/prompt", {"sessionId": session, "prompt": "again"})
        assert "history_trimmed" in [update["params"]["type"] for update in wire.updates]


class Remembering:
    """A memory that always brings the same to mind."""

    async def recall(self, prompt: str) -> str:
        return "token-recalled"


@pytest.mark.req("RPC-137", "RPC-138", "RPC-139")
async def test_what_only_the_model_hears_is_not_kept(keeping: Keeping, tmp_path: Path) -> None:
    scripts: list[list[Line]] = [
        [ThoughtDelta("token-thought"), TextDelta("1" * 100)],
        [ThoughtDelta("token-thought"), TextDelta("said")],
    ]
    settings = {"system_prompt": "token-system", "recall": Remembering(), "max_context_tokens": BUDGET}
    async with keeping(*scripts, **settings) as (daemon, _), daemon.connect() as wire:
        session = await wire.new_session(chatMode="acp")
        for _ in range(2):
            await wire.call("session/prompt", {"sessionId": session, "prompt": "go"})
        assert "history_trimmed" in [update["params"]["type"] for update in wire.updates]
        context, _, _ = snapshot(tmp_path)
        assert "said" in context
        shown = await wire.call("session/messages", {"sessionId": session})
        assert "token-" not in json.dumps(shown)
    for file in (tmp_path / "sessions").iterdir():
        assert b"token-" not in file.read_bytes()


@pytest.mark.req("RPC-243")
async def test_the_receipt_of_a_call_says_who_let_it_run(keeping: Keeping, tmp_path: Path) -> None:
    scripts: list[list[Line]] = [
        [ToolCall(f"c{number}", "bash", json.dumps({"command": command}))]
        for number, command in enumerate(("true", "false", "true", "true"))
    ]
    scripts.append([ToolCall("c4", "plan", '{"entries": []}')])
    scripts.append([ToolCall("c5", "bash", "{}")])
    scripts.append([TextDelta("done")])
    settings = {"approval": ApprovalPolicy.ASK, "approval_seconds": 5}
    async with keeping(*scripts, **settings) as (daemon, durable), daemon.connect() as wire:
        session = await wire.new_session(chatMode="acp")
        await wire.send(prompt(session))
        for decision in ("allow_once", "allow_once", "reject", None):
            asked = await wire.update_of("approval_request")
            named = {"sessionId": session, "requestId": asked["requestId"], "decision": decision}
            if decision is not None:
                await wire.call("session/approve", named)
            else:
                daemon.clock.advance(5)
        await wire.answer_to(7)
        receipts = await durable.acp.read(lambda store: store.receipts(session))
    settled = [
        (each.call_id, each.settled.outcome, each.settled.approval) for each in receipts if each.settled
    ]
    assert settled == [
        ("c0", CallOutcome.SUCCEEDED, Approval.ALLOWED),
        ("c1", CallOutcome.FAILED, Approval.ALLOWED),
        ("c2", CallOutcome.NOT_RUN, Approval.REFUSED),
        ("c3", CallOutcome.NOT_RUN, Approval.UNANSWERED),
        ("c4", CallOutcome.SUCCEEDED, Approval.NOT_ASKED),
        ("c5", CallOutcome.NOT_RUN, Approval.NOT_ASKED),
    ]
    durations = [each.settled.duration_ms for each in receipts if each.settled]
    assert [duration is None for duration in durations] == [False, False, True, True, False, True]
