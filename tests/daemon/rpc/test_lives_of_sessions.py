"""Sessions of both modes under the same ids, through everything that can be done with them, beside a model of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from killed_daemon_child import Client, talking
from store_faults import Faults

from zeroclaw_daemon.agent.providers.echo import EchoProvider
from zeroclaw_daemon.rpc.errors import INTERNAL, INVALID_PARAMS, SESSION_NOT_FOUND
from zeroclaw_daemon.sessions.store.points import WritePoint

pytestmark = pytest.mark.anyio

MODES = ("acp", "chat")
GONE = (SESSION_NOT_FOUND, "session_not_found")
KILLED = (SESSION_NOT_FOUND, "session_killed")
AMBIGUOUS = (INVALID_PARAMS, "session_ambiguous")
UNWRITTEN = (INTERNAL, "turn_failed")

Answer = Any
"""A code and a reason, or what of the result matters."""


@dataclass
class Kept:
    """One session: how many entries a client sees, and how many more once the turn that broke off is recovered."""

    entries: int = 0
    broken: int = 0
    killed: bool = False

    def recover(self) -> None:
        self.entries, self.broken = self.entries + self.broken, 0


@dataclass
class Model:
    """What is kept, and what is live."""

    kept: dict[tuple[str, str], Kept] = field(default_factory=dict)
    live: dict[str, str] = field(default_factory=dict)

    def new(self, name: str, mode: str) -> Answer:
        if self.live.get(name) != mode:
            kept = self.kept.setdefault((mode, name), Kept())
            if kept.killed:
                return KILLED
            kept.recover()
            self.live[name] = mode
        return self.kept[mode, name].entries

    def prompt(self, name: str, *, written: bool = True) -> Answer:
        if name not in self.live:
            mode = self._only(name)
            if mode not in MODES:
                return mode
            if self.kept[mode, name].killed:
                return KILLED
            self.kept[mode, name].recover()
            self.live[name] = mode
        kept = self.kept[self.live[name], name]
        if written:
            kept.entries += 2
            return "hello"
        # The prompt and a marker; of what was answered, only an acp session has written anything.
        kept.broken = 3 if self.live[name] == "acp" else 1
        kept.entries += self.live[name] == "chat"
        del self.live[name]
        return UNWRITTEN

    def close(self, name: str) -> Answer:
        return GONE if self.live.pop(name, None) is None else True

    def kill(self, name: str) -> Answer:
        mode = self.live.pop(name, "acp")
        if mode == "chat":
            return True
        kept = self.kept.get((mode, name))
        if kept is None:
            return GONE
        before, kept.killed = kept.killed, True
        return not before

    def delete(self, name: str) -> Answer:
        mode = self.live.pop(name, None) or self._only(name)
        if mode not in MODES:
            return mode
        del self.kept[mode, name]
        return True

    def restart(self) -> None:
        self.live.clear()

    def _only(self, name: str) -> Any:
        modes = [mode for mode in MODES if (mode, name) in self.kept]
        return modes[0] if len(modes) == 1 else AMBIGUOUS if modes else GONE


async def done(client: Client, faults: Faults, action: str, name: str, mode: str) -> Answer:
    """What a daemon answers."""
    session: dict[str, Any] = {"sessionId": name}
    match action:
        case "new":
            wanted = {"agentAlias": "assistant", "chatMode": mode, "keepSiblings": True}
            answer = await client.ask("session/new", **session, **wanted)
        case "prompt" | "lose":
            faults.failing = {WritePoint.TURN_FINISHED} if action == "lose" else set()
            answer = await client.ask("session/prompt", **session, prompt="hello")
            faults.failing = set()
        case _:
            answer = await client.ask(f"session/{action}", **session)
    if "error" in answer:
        return (answer["error"]["code"], answer["error"]["data"]["reason"])
    result = answer["result"]
    return next(
        result[member]
        for member in ("messageCount", "content", "closed", "killed", "deleted")
        if member in result
    )


def foretold(model: Model, action: str, name: str, mode: str) -> Answer:
    match action:
        case "new":
            return model.new(name, mode)
        case "prompt" | "lose":
            return model.prompt(name, written=action == "prompt")
        case _:
            return getattr(model, action)(name)


ACTIONS = st.tuples(
    st.sampled_from(["new", "new", "prompt", "prompt", "lose", "close", "kill", "delete", "restart"]),
    st.sampled_from(["x", "y"]),
    st.sampled_from(MODES),
)
_ids = itertools.count()


def both(*then: tuple[str, str, str]) -> list[tuple[str, str, str]]:
    """One id in both modes, none live; then this."""
    return [("new", "x", "acp"), ("close", "x", ""), ("new", "x", "chat"), ("close", "x", ""), *then]


@pytest.mark.req("RPC-152", "RPC-153", "RPC-155", "RPC-156", "RPC-255", "RPC-256", "RPC-141")
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(plan=both(("prompt", "x", ""), ("delete", "x", ""), ("kill", "x", ""), ("prompt", "x", "")))
@example(
    plan=[
        ("new", "x", "acp"),
        ("lose", "x", ""),
        ("restart", "", ""),
        ("new", "x", "acp"),
        ("prompt", "x", ""),
    ]
)
@example(
    plan=[
        ("new", "x", "chat"),
        ("lose", "x", ""),
        ("prompt", "x", ""),
        ("kill", "x", ""),
        ("new", "x", "acp"),
    ]
)
@example(
    plan=[
        ("new", "x", "acp"),
        ("prompt", "x", ""),
        ("close", "x", ""),
        ("new", "x", "chat"),
        ("delete", "x", ""),
    ]
)
@example(
    plan=[
        ("new", "x", "acp"),
        ("prompt", "x", ""),
        ("close", "x", ""),
        ("new", "x", "chat"),
        ("kill", "x", ""),
    ]
)
@given(plan=st.lists(ACTIONS, max_size=14))
async def test_sessions_live_as_the_model_says(tmp_path: Path, plan: list[tuple[str, str, str]]) -> None:
    root = tmp_path / str(next(_ids))
    model, waiting = Model(), [*plan, *(("new", name, mode) for name in ("x", "y") for mode in MODES)]
    while waiting:
        faults = Faults()
        async with talking(root, EchoProvider(), lambda _: None, faults) as client:
            while waiting:
                action, name, mode = waiting.pop(0)
                if action == "restart":
                    break
                expected = foretold(model, action, name, mode)
                assert await done(client, faults, action, name, mode) == expected, (action, name, mode)
            live = (await client.ask("status"))["result"]["sessionIds"]
            assert sorted(live) == sorted(model.live)
        model.restart()
