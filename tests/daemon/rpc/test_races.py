"""Whatever meets a turn, and whenever: one answer to each request, and nothing is left behind.

Time is counted in turns of the event loop, which are the same in every run: nothing here waits for a clock, and no thread
takes part. A move is made after so many of them, and each number of them is tried, from before a turn has begun until after
it has ended.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rosters import InForce, config_of, grants
from sending import begin, chunk, digest_of, stored

from zeroclaw_daemon.agent.approval_policy import ApprovalPolicy
from zeroclaw_daemon.agent.built_in import BUILT_IN_TOOLS
from zeroclaw_daemon.agent.directory import Agent, FixedAgents
from zeroclaw_daemon.agent.messages import ToolCall
from zeroclaw_daemon.agent.providers.base import TextDelta, ThoughtDelta
from zeroclaw_daemon.agent.providers.scripted import Line, Pause, ScriptedProvider
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.sessions.durable import DurableSessions
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.kinds import Tool, ToolResult

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]
SESSION = "contested"
PROMPT = "the prompt"
MOST_MOVES = 5


class Look(Tool):
    """A tool that takes a few turns of the event loop."""

    name = "look"
    description = "looks"
    parameters_schema = {"type": "object"}  # noqa: RUF012

    async def execute(self, arguments: Any, *, call_site: CallSite) -> ToolResult:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        return ToolResult(True, "seen")


@dataclass(frozen=True)
class Scene:
    """What a turn does: it calls this tool, and says something before and after.

    ``kept``: it is written down as well. ``endless``: after the call the model says nothing more, until it is cancelled.
    """

    tool: str
    arguments: str = "{}"
    approval: ApprovalPolicy = ApprovalPolicy.AUTO
    kept: bool = False
    endless: bool = False
    calls: int = 1

    def provider(self) -> ScriptedProvider:
        calls: list[list[Line]] = [
            [TextDelta("a"), ToolCall(str(number), self.tool, self.arguments)] for number in range(self.calls)
        ]
        if self.endless:
            return ScriptedProvider(*calls, [TextDelta("b"), Pause()], *[[TextDelta("c")]] * MOST_MOVES)
        answer: list[Line] = [ThoughtDelta("hm"), TextDelta("b"), TextDelta("c")]
        return ScriptedProvider(*[*calls, answer] * (MOST_MOVES + 2))


SCENES = {
    "plain": Scene("look"),
    "asking": Scene("ask_user", '{"question": "?"}'),
    "asking twice": Scene("ask_user", '{"question": "?"}', calls=2),
    "approving": Scene("look", approval=ApprovalPolicy.ASK),
    "kept": Scene("look", kept=True),
    "endless": Scene("look", endless=True),
}


def is_question(frame: dict[str, Any]) -> bool:
    return (
        frame.get("method") == "elicitation/create"
        or frame.get("params", {}).get("type") == "approval_request"
    )


@dataclass
class Player:
    """A client, and everything it was told. It says yes to whatever it is asked."""

    wire: Any
    mode: str
    asked: list[str] = field(default_factory=list)
    frames: list[dict[str, Any]] = field(default_factory=list)
    gone: bool = False
    ended: bool = False
    replies: Any = field(default_factory=itertools.count)
    questions: list[dict[str, Any]] = field(default_factory=list)

    async def ask(self, method: str, request_id: str, **params: Any) -> None:
        if not self.gone:
            self.asked.append(request_id)
            await self.wire.send({"jsonrpc": "2.0", "method": method, "params": params, "id": request_id})

    def hang_up(self) -> None:
        self.gone = self.ended = True
        self.wire.close()

    def finish(self) -> None:
        self.gone = True
        self.wire.transport.end()

    @property
    def answers(self) -> Counter[str]:
        """How often each request was answered."""
        return Counter(frame["id"] for frame in self.frames if "id" in frame and "method" not in frame)

    async def look_up(self) -> None:
        """Read what has come, and wait for nothing."""
        while b"\n" in self.wire.unread or b"\n" in bytes(self.wire.transport._incoming.bytes):
            self.take(await self.wire.receive())

    def take(self, frame: dict[str, Any]) -> None:
        self.frames.append(frame)
        if is_question(frame):
            self.questions.append(frame)

    async def reply(self) -> None:
        """Say yes to every question that came."""
        while self.questions and not self.gone:
            question = self.questions.pop()
            if "id" in question:
                yes = {"action": "accept", "content": {"answer": "yes"}}
                await self.wire.send({"jsonrpc": "2.0", "id": question["id"], "result": yes})
            else:
                allowed = {"requestId": question["params"]["requestId"], "decision": "allow_once"}
                await self.ask("session/approve", f"reply {next(self.replies)}", sessionId=SESSION, **allowed)

    @property
    def heard_out(self) -> bool:
        """Whether everything that was asked is answered, or the stream has ended."""
        return self.ended or (not self.gone and set(self.asked) <= set(self.answers))

    async def hear_out(self, others: Sequence[Player] = (), done: Callable[[], None] = lambda: None) -> None:
        """Read until this client and the others have heard out the daemon, or the stream ends; then say so."""
        everybody = (self, *others)
        while not self.ended and not all(player.heard_out for player in everybody):
            frame = await self.wire.receive_or_end()
            if frame is None:
                self.ended = True
            else:
                self.take(frame)
                await self.reply()
        if all(player.heard_out for player in everybody):
            done()


def call(method: str, **params: Any) -> Callable[[Player, str], Any]:
    async def make(player: Player, request_id: str) -> None:
        await player.ask(method, request_id, **params)

    return make


async def rebind(player: Player, request_id: str) -> None:
    wanted = {"agentAlias": "assistant", "sessionId": SESSION, "chatMode": player.mode, "keep_siblings": True}
    await player.ask("session/new", request_id, **wanted)


async def hang_up(player: Player, request_id: str) -> None:
    player.hang_up()


async def finish(player: Player, request_id: str) -> None:
    if not player.gone:
        player.finish()


async def reply(player: Player, request_id: str) -> None:
    if not player.gone:
        await player.look_up()
        await player.reply()


MOVES = {
    "cancel": call("session/cancel", sessionId=SESSION),
    "close": call("session/close", sessionId=SESSION),
    "kill": call("session/kill", sessionId=SESSION),
    "delete": call("session/delete", sessionId=SESSION),
    "prompt": call("session/prompt", sessionId=SESSION, prompt="again"),
    "rebind": rebind,
    "look": call("session/state", sessionId=SESSION),
    "hang_up": hang_up,
    "finish": finish,
    "reply": reply,
}
Plan = list[tuple[int, str, bool]]
"""Turns of the event loop, what is done after them, and whether it is the prompting client that does it."""


class Stage:
    """Plays scenes in daemons, each with a store of its own where it keeps anything."""

    def __init__(self, serving: Serving, place: Path) -> None:
        self._serving = serving
        self._place = place
        self._numbers = itertools.count()

    async def play(self, name: str, plan: Plan, *, capacity: int = 65536) -> Player:
        """Have a turn met by some moves, and look at everything that must hold however they met it. The client that prompted."""
        scene, before = SCENES[name], len(anyio.get_running_tasks())
        durable = DurableSessions.at(self._place / str(next(self._numbers))) if scene.kept else None
        provider = scene.provider()
        tools = ToolRegistry([Look(), *BUILT_IN_TOOLS])
        agent = Agent(
            "assistant", provider, "m", tools=tools, workspace=str(self._place), approval=scene.approval
        )
        with closing(durable) if durable is not None else nullcontext():
            async with self._serving(
                agents=FixedAgents(agent), provider=provider, capacity=capacity, durable=durable
            ) as daemon:
                first = await self._meet(daemon, scene, plan)
                await daemon.until(lambda: daemon.server.open_connections == 0)
                assert provider.closed == len(provider.requests)
                await self._afterwards(daemon)
                assert provider.closed == len(provider.requests)
        assert len(anyio.get_running_tasks()) == before
        return first

    async def _meet(self, daemon: Any, scene: Scene, plan: Plan) -> Player:
        async with AsyncExitStack() as stack:
            mode = "acp" if scene.kept else "chat"
            first, second = [
                Player(await stack.enter_async_context(daemon.connect()), mode) for _ in range(2)
            ]
            await first.wire.new_session(sessionId=SESSION, chatMode=mode)
            await first.ask("session/prompt", PROMPT, sessionId=SESSION, prompt="hi")
            for number, (wait, move, own) in enumerate(plan):
                for _ in range(wait):
                    await anyio.lowlevel.checkpoint()
                await MOVES[move](first if own else second, f"{number} {move}")
            async with anyio.create_task_group() as hearing:
                for player, other in ((first, second), (second, first)):
                    hearing.start_soon(player.hear_out, [other], hearing.cancel_scope.cancel)
            for player in (first, second):
                await self._check(player)
            return first

    @staticmethod
    async def _check(player: Player) -> None:
        assert set(player.answers.values()) <= {1}, player.frames
        assert set(player.answers) <= set(player.asked), player.frames
        if not player.gone:
            assert set(player.answers) == set(player.asked)
            seen = len(player.frames)
            await player.ask("no/such/method", "the last")
            await player.hear_out()
            # Of a turn nothing more comes. A question may have been on its way when the turn ended.
            assert [frame for frame in player.frames[seen:-1] if not is_question(frame)] == []
        # Each prompt's end is told, once, before it is answered.
        told = ended = 0
        for frame in player.frames:
            told += frame.get("params", {}).get("type") == "turn_complete"
            ended += "prompt" in str(frame.get("id"))
            assert told >= ended
        prompts = sum("prompt" in request for request in player.asked)
        assert told <= prompts
        if told == prompts == 1:  # events of another turn of this client may come before an answer
            updates = [frame for frame in player.frames if "method" in frame and not is_question(frame)]
            assert updates[-1]["params"]["type"] == "turn_complete"

    @staticmethod
    async def _afterwards(daemon: Any) -> None:
        """Whoever comes next finds nothing in the way: the session takes a turn, or is gone."""
        session = daemon.server.sessions.find(SESSION)
        if session is not None:
            assert (session.permit.pending, session.prompts, session.running) == (0, [], None)
            assert session.closing == 0
        async with daemon.connect() as wire:
            assert (await wire.call("status"))["connections"] == 1
            late = Player(wire, "")
            await late.ask("session/prompt", "late prompt", sessionId=SESSION, prompt="hi")
            await late.hear_out()
            (answer,) = [frame for frame in late.frames if frame.get("id") == "late prompt"]
            if session is not None:
                assert answer["result"]["stopReason"] == "end_turn"
            else:
                assert "result" in answer or answer["error"]["code"] == -32000


@pytest.fixture
def stage(serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Work that goes to threads is done in the event loop here, where it can be cancelled before it begins, and not after."""

    async def run_sync(work: Callable[..., Any], *args: Any, limiter: Any = None, **_: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        async with limiter or nullcontext():
            with anyio.CancelScope(shield=True):
                result = work(*args)
                for _ in range(2):
                    await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint_if_cancelled()
        return result

    monkeypatch.setattr(anyio.to_thread, "run_sync", run_sync)
    return Stage(serving, tmp_path)


ENDING = ["cancel", "close", "kill", "delete", "hang_up", "finish"]
TICKS = {"plain": 40, "kept": 80}
"""More turns of the event loop than a turn takes that nothing meets."""


@pytest.mark.req("PAINS-22", "PAINS-23", "RPC-032", "RPC-242")
@pytest.mark.parametrize("move", [*ENDING, "prompt", "rebind"])
async def test_one_move_at_any_moment_of_a_turn(stage: Stage, move: str) -> None:
    for wait in range(TICKS["plain"]):
        first = await stage.play("plain", [(wait, move, wait % 2 == 0 or move in ("hang_up", "finish"))])
        if move == "cancel":
            (answer,) = [frame for frame in first.frames if frame.get("id") == PROMPT]
            assert answer["result"]["stopReason"] in ("end_turn", "cancelled")


@pytest.mark.req("PAINS-22", "PAINS-23", "RPC-032", "RPC-064", "RPC-242")
@pytest.mark.parametrize("move", ENDING)
async def test_a_turn_that_never_ends_by_itself_is_ended(stage: Stage, move: str) -> None:
    own = move in ("hang_up", "finish")
    for wait in range(10, TICKS["plain"], 3):  # before that, it may not be there to be cancelled yet
        await stage.play("endless", [(wait, move, own)])


@pytest.mark.req("PAINS-22", "PAINS-23", "RPC-061")
@pytest.mark.parametrize("own", [False, True], ids=["goes", "answers the first and goes"])
@pytest.mark.parametrize("scene", ["asking twice", "approving"])
async def test_whoever_is_asked_in_the_middle_of_anothers_turn_may_go(
    stage: Stage, scene: str, own: bool
) -> None:
    """Another client is asked from the middle of the turn on, and goes. Its question fails at once, and the turn goes on."""
    for wait in range(0, 24, 2):
        await stage.play(
            scene, [(30, "rebind", False), (wait, "reply", own), (20, "reply", True), (20, "hang_up", False)]
        )


@pytest.mark.req("PAINS-22", "PAINS-23", "RPC-088")
@pytest.mark.parametrize("scene", ["asking", "approving"])
@pytest.mark.parametrize("move", ["cancel", "hang_up", "close"])
async def test_an_answer_and_a_move_at_the_same_moment(stage: Stage, scene: str, move: str) -> None:
    """The question has come after so many turns of the event loop; the two meet in every order, close and less close."""
    for between in range(0, 16, 2):
        await stage.play(scene, [(30, "reply", True), (between, move, True)])
        await stage.play(scene, [(30, move, move == "hang_up"), (between, "reply", True)])


@pytest.mark.req("PAINS-22", "PAINS-23")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["asking", "approving", "plain"]),
    st.lists(
        st.tuples(st.integers(0, 25), st.sampled_from(sorted(MOVES)), st.booleans()),
        max_size=MOST_MOVES,
        min_size=2,
    ),
    st.sampled_from([64, 65536]),
)
@example("plain", [(5, "cancel", False), (0, "close", False), (0, "hang_up", True)], 65536)
@example(
    "plain", [(0, "prompt", False), (5, "cancel", True), (0, "hang_up", False), (0, "kill", True)], 65536
)
@example(
    "kept", [(20, "kill", False), (0, "prompt", False), (0, "rebind", False), (9, "delete", True)], 65536
)
async def test_some_moves_one_after_the_other(stage: Stage, scene: str, plan: Plan, capacity: int) -> None:
    await stage.play(scene, plan, capacity=capacity)


@pytest.mark.slow
@pytest.mark.req("PAINS-22", "PAINS-23", "RPC-242")
@pytest.mark.parametrize("move", [*ENDING, "prompt", "rebind"])
async def test_one_move_at_any_moment_of_a_turn_that_is_written_down(stage: Stage, move: str) -> None:
    for wait in range(0, TICKS["kept"], 2):
        await stage.play("kept", [(wait, move, wait % 4 == 0 or move in ("hang_up", "finish"))])


@pytest.mark.req("PAINS-22")
@pytest.mark.parametrize("scene", TICKS)
async def test_the_moments_that_are_tried_reach_beyond_the_turn(
    stage: Stage, serving: Serving, tmp_path: Path, scene: str
) -> None:
    provider = SCENES[scene].provider()
    durable = DurableSessions.at(tmp_path / "sessions") if SCENES[scene].kept else None
    agent = Agent("assistant", provider, "m", tools=ToolRegistry([Look()]), workspace=str(tmp_path))
    with closing(durable) if durable is not None else nullcontext():
        async with serving(agents=FixedAgents(agent), durable=durable) as daemon, daemon.connect() as wire:
            await wire.new_session(sessionId=SESSION, chatMode="acp")
            params = {"sessionId": SESSION, "prompt": "hi"}
            await wire.send({"jsonrpc": "2.0", "method": "session/prompt", "id": PROMPT, "params": params})
            for _ in range(TICKS[scene]):
                await anyio.lowlevel.checkpoint()
            said = [json.loads(line) for line in bytes(wire.transport._incoming.bytes).splitlines()]
            assert said[-1]["id"] == PROMPT


# A file that is stored while its session, or the right to it, is taken away.

ANN, ROOT = 5001, 5002
SENDER = grants(
    "sessions:create", "sessions:update", "sessions:read", "files:create", allowed_agents=["assistant"]
)
RECEIVER = grants("sessions:create", "sessions:update", "sessions:read", allowed_agents=["assistant"])
STORED_WITHIN = 16
"""More turns of the event loop than a file takes to be stored."""


def people(profile: Any) -> Config:
    users = {
        "ann": {"uid": ANN, "permission_profiles": ["her"]},
        "root": {"uid": ROOT, "permission_profiles": ["all"]},
    }
    return config_of({"users": users, "permission_profiles": {"her": profile, "all": {"admin": True}}})


@pytest.mark.req("PAINS-22", "PAINS-23", "RPC-203", "RPC-205", "RPC-208")
@pytest.mark.parametrize("taken_first", [False, True], ids=["commit first", "commit second"])
@pytest.mark.parametrize("move", ["revoke", "close", "kill", "replace", "hang_up"])
async def test_a_file_is_stored_and_told_or_neither(
    stage: Stage, serving: Serving, tmp_path: Path, move: str, taken_first: bool
) -> None:
    refused = 0
    for wait in range(STORED_WITHIN):
        in_force = InForce(people(SENDER))
        authority = RosterAuthority(in_force, None, os.geteuid())
        shutil.rmtree(tmp_path / "uploads", ignore_errors=True)
        before = len(anyio.get_running_tasks())
        async with serving(authority=authority) as daemon:
            async with daemon.connect(uid=ANN) as wire, daemon.connect(uid=ROOT) as other:
                ann, root = Player(wire, ""), Player(other, "")
                session = await wire.new_session()
                upload = await begin(wire, session, 3)
                assert await chunk(wire, upload, 0, b"abc") == 3

                async def take_away(
                    ann: Player = ann,
                    root: Player = root,
                    in_force: InForce = in_force,
                    session: str = session,
                ) -> None:
                    match move:
                        case "revoke":
                            in_force.config = people(RECEIVER)
                        case "hang_up":
                            ann.hang_up()
                        case "replace":
                            again = {"agentAlias": "assistant", "sessionId": session, "chatMode": "acp"}
                            await root.ask("session/new", "move", **again)
                        case _:
                            await root.ask(f"session/{move}", "move", sessionId=session)

                if taken_first:
                    await take_away()
                else:
                    await ann.ask("file/upload/commit", "commit", upload_id=upload)
                for _ in range(wait):
                    await anyio.lowlevel.checkpoint()
                if taken_first:
                    await ann.ask("file/upload/commit", "commit", upload_id=upload)
                else:
                    await take_away()
                if not ann.gone:
                    await ann.hear_out()
                    (answer,) = ann.frames
                    kept = stored(tmp_path)
                    if "result" in answer:
                        assert kept == [digest_of(b"abc")]
                    else:
                        refused += 1
                        assert answer["error"]["code"] in (-32000, -32012), answer
                        assert kept == []
                    await wire.assert_silent()
                await root.hear_out()
                assert set(root.answers.values()) <= {1}
            await daemon.until(lambda daemon=daemon: daemon.server.open_connections == 0)
            assert daemon.server.staging.used_bytes == 0
            assert set(stored(tmp_path)) <= {digest_of(b"abc")}
        assert len(anyio.get_running_tasks()) == before
    if move != "hang_up":
        assert (refused > 0) if taken_first or move == "revoke" else (refused < STORED_WITHIN)


@pytest.mark.req("RPC-239", "PAINS-22", "PAINS-23")
@pytest.mark.parametrize("all_of_it", [False, True], ids=["a grant", "everything"])
async def test_a_right_that_is_taken_away_in_the_middle_of_a_turn(
    stage: Stage, serving: Serving, tmp_path: Path, all_of_it: bool
) -> None:
    """The turn goes on to its end; what is called after that is refused, and everything is answered once."""
    executor = ("sessions:create", "sessions:execute", "sessions:update", "sessions:read")
    outcomes: set[tuple[str, int]] = set()
    turns = 0
    for wait in range(0, TICKS["plain"], 2):
        in_force = InForce(people(grants(*executor, allowed_agents=["assistant"])))
        provider = SCENES["plain"].provider()
        agent = Agent("assistant", provider, "m", tools=ToolRegistry([Look()]), workspace=str(tmp_path))
        authority = RosterAuthority(in_force, None, os.geteuid())
        async with serving(agents=FixedAgents(agent), authority=authority) as daemon:
            async with daemon.connect(uid=ANN) as wire:
                ann, session = Player(wire, ""), await wire.new_session()
                await ann.ask("session/prompt", PROMPT, sessionId=session, prompt="hi")
                for _ in range(wait):
                    await anyio.lowlevel.checkpoint()
                kept = () if all_of_it else executor[:2]
                in_force.config = people(grants(*kept, allowed_agents=["assistant"]))
                await ann.ask("session/cancel", "cancel", sessionId=session)
                await ann.hear_out()
                await ann.ask("session/state", "state", sessionId=session)
                await ann.hear_out()
                assert set(ann.answers.values()) == {1}
                answers = {frame["id"]: frame for frame in ann.frames if "id" in frame}
                if "error" in answers[PROMPT]:  # it came after the right was gone, and nothing was begun
                    assert provider.requests == []
                    outcomes.add((PROMPT, answers[PROMPT]["error"]["code"]))
                else:
                    assert answers[PROMPT]["result"]["stopReason"] == "end_turn"
                    turns += 1
                outcomes |= {(name, answers[name]["error"]["code"]) for name in ("cancel", "state")}
            await daemon.until(lambda daemon=daemon: daemon.server.open_connections == 0)
        assert provider.closed == len(provider.requests)
    refusal = -32010 if all_of_it else -32012
    assert outcomes - {(PROMPT, refusal)} == {("cancel", refusal), ("state", refusal)}
    assert turns > TICKS["plain"] // 4
