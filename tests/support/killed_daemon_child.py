"""A conversation with a daemon, and what it writes; as a process, the daemon killed at every write of it:
``killed_daemon_child.py DIRECTORY`` leaves a directory ``NUMBER-PHASE`` for each, with what the client had been told.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from session_model import BEGAN, Model

from zeroclaw_daemon.agent.directory import Agent, FixedAgents
from zeroclaw_daemon.agent.events import MessageChunk, PlanChanged, PlanEntry, ToolCalled, ToolReturned
from zeroclaw_daemon.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from zeroclaw_daemon.agent.providers.base import Provider, TextDelta
from zeroclaw_daemon.agent.providers.scripted import ScriptedProvider
from zeroclaw_daemon.agent.surroundings import TurnSite
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.authority.principal import PeerCredential
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.rpc.server import Server
from zeroclaw_daemon.rpc.transport.base import Peer, Transport
from zeroclaw_daemon.rpc.transport.memory import MemoryListener
from zeroclaw_daemon.sessions.durable import DurableSessions
from zeroclaw_daemon.sessions.store.points import Phase, StoreSteps, WritePoint
from zeroclaw_daemon.sessions.store.records import NewSession
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.kinds import Tool, ToolResult

SESSION = "s"
BUDGET = 15
"""Tokens: the first turn and the second prompt do not fit together."""

PLAN = PlanEntry("look around")
CALL = ToolCall("tc_1", "look", "{}")


class Look(Tool):
    """A tool that makes a plan while it looks."""

    name = "look"
    description = "looks"
    parameters_schema = {"type": "object"}  # noqa: RUF012

    async def execute(self, arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        assert isinstance(call_site, TurnSite)
        call_site.events.append(PlanChanged((PLAN,)))
        return ToolResult(True, "seen")


SCRIPTS = (
    (TextDelta("an"), TextDelta("swer")),
    (TextDelta("look"), CALL),
    (TextDelta("done"),),
)

FIRST: tuple[Message, ...] = (UserMessage("first"), AssistantMessage("answer"))
SECOND: tuple[Message, ...] = (
    UserMessage("second"),
    AssistantMessage("look", (CALL,)),
    ToolMessage("tc_1", "look", "seen"),
    AssistantMessage("done"),
)

WRITES: tuple[tuple[WritePoint, Callable[[Any], object]], ...] = (
    (WritePoint.SESSION_CREATED, lambda it: it.create(NewSession(SESSION, "assistant", "/"))),
    (WritePoint.TURN_BEGUN, lambda it: it.begin(SESSION, "t1", "first", BEGAN)),
    (WritePoint.EVENT_APPENDED, lambda it: it.append(SESSION, "t1", MessageChunk("an"))),
    (WritePoint.EVENT_APPENDED, lambda it: it.append(SESSION, "t1", MessageChunk("swer"))),
    (WritePoint.TURN_FINISHED, lambda it: it.finish(SESSION, "t1", FIRST)),
    (WritePoint.TURN_BEGUN, lambda it: it.begin(SESSION, "t2", "second", BEGAN)),
    (WritePoint.CONTEXT_REDUCED, lambda it: it.reduce(SESSION, "t2", SECOND[:1], 1)),
    (WritePoint.EVENT_APPENDED, lambda it: it.append(SESSION, "t2", MessageChunk("look"))),
    (WritePoint.EVENT_APPENDED, lambda it: it.append(SESSION, "t2", ToolCalled("tc_1", "look", {}))),
    (WritePoint.PLAN_SAVED, lambda it: it.save_plan(SESSION, [PLAN.to_json()])),
    (WritePoint.EVENT_APPENDED, lambda it: it.append(SESSION, "t2", ToolReturned("tc_1", "look", "seen", True))),
    (WritePoint.EVENT_APPENDED, lambda it: it.append(SESSION, "t2", MessageChunk("done"))),
    (WritePoint.TURN_FINISHED, lambda it: it.finish(SESSION, "t2", SECOND)),
)  # fmt: skip
"""Every write of the conversation, in order, as a model of the store is told of it."""


def model_after(writes: int) -> Model:
    """What is stored once so many writes are committed."""
    model = Model()
    for _, operation in WRITES[:writes]:
        operation(model)
    return model


class Client:
    """A client of a daemon in the same process."""

    def __init__(self, transport: Transport, heard: Callable[[dict[str, Any]], object]) -> None:
        self._transport, self._heard, self._unread = transport, heard, b""

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method; the whole answer, and every frame before it to ``heard``."""
        frame = {"jsonrpc": "2.0", "method": method, "params": params, "id": 1}
        rest = memoryview(json.dumps(frame).encode() + b"\n")
        while rest:
            rest = rest[await self._transport.send(rest) :]
        while True:
            while b"\n" not in self._unread:
                self._unread += await self._transport.receive(65536)
            line, self._unread = self._unread.split(b"\n", 1)
            got = json.loads(line)
            if "id" in got:
                return got
            self._heard(got["params"])


@asynccontextmanager
async def talking(
    root: Path,
    provider: Provider,
    heard: Callable[[dict[str, Any]], object],
    steps: StoreSteps | None = None,
    budget: int = 0,
) -> AsyncGenerator[Client]:
    """A daemon whose stores are below this directory, and a client of it.

    :param budget: tokens that the model is given at most; 0 is no bound.
    """
    durable = DurableSessions.at(root / "sessions", steps)
    agent = Agent("assistant", provider, "m", tools=ToolRegistry([Look()]), max_context_tokens=budget)
    listener = MemoryListener(peer=Peer("memory:client", PeerCredential(os.getpid(), os.geteuid())))
    authority = RosterAuthority(Config, None, os.geteuid())
    server = Server(listener, agents=FixedAgents(agent), authority=authority, version="1", durable=durable)
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.serve)
        client = Client(listener.connect(), heard)
        await client.ask("initialize")
        yield client
        server.stop()
    durable.close()


async def converse(root: Path, steps: StoreSteps, heard: Callable[[dict[str, Any]], object]) -> None:
    """The whole conversation."""
    async with talking(root, ScriptedProvider(*SCRIPTS), heard, steps, BUDGET) as client:
        await client.ask("session/new", agentAlias="assistant", sessionId=SESSION, chatMode="acp")
        for prompt in ("first", "second"):
            answer = await client.ask("session/prompt", sessionId=SESSION, prompt=prompt)
            assert "result" in answer, answer


class Fatal(StoreSteps):
    """Ends the process at one write, as a power cut does: without a word."""

    def __init__(self, number: int, phase: Phase) -> None:
        self._number, self._phase, self._now = number, phase, -1

    def reached(self, point: WritePoint, phase: Phase) -> None:
        if phase is Phase.BEGUN:
            self._now += 1
        if (self._now, phase) == (self._number, self._phase):
            os.kill(os.getpid(), signal.SIGKILL)


def main(root: Path) -> None:
    for number in range(len(WRITES)):
        for phase in Phase:
            child = os.fork()
            if child == 0:
                place = root / f"{number}-{phase.value}"
                place.mkdir()
                told = os.open(place / "heard", os.O_CREAT | os.O_WRONLY, 0o600)
                anyio.run(
                    converse,
                    place,
                    Fatal(number, phase),
                    lambda params, told=told: os.write(told, json.dumps(params).encode() + b"\n"),
                )
                os._exit(1)
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status), (number, phase, status)
            assert os.WTERMSIG(status) == signal.SIGKILL


if __name__ == "__main__":
    main(Path(sys.argv[1]))
