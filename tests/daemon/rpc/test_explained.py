"""What ``zeroclaw auth explain`` says is what the daemon does: for every method, and profiles made at random."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any

import pytest
from rosters import config_of

from zeroclaw_daemon.authority.explaining import Explanation, explain
from zeroclaw_daemon.authority.policy import Policy
from zeroclaw_daemon.authority.principal import AuthenticationFailed, Evidence, PeerCredential
from zeroclaw_daemon.authority.rights import SHARED_OPERATOR, RuleKind
from zeroclaw_daemon.clock import SystemClock
from zeroclaw_daemon.rpc.errors import AUTHENTICATION_REQUIRED, FORBIDDEN
from zeroclaw_daemon.rpc.methods.table import TABLE
from zeroclaw_daemon.sessions.live import ChatMode, LiveSession
from zeroclaw_daemon.sessions.permit import TurnPermit
from zeroclaw_daemon.sessions.store.chat import ChatStore
from zeroclaw_daemon.sessions.store.records import NewSession

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

PATHS = (
    "agents", "agents.ada", "agents.ada.model", "agents.eve", "rpc.max_local_connections", "memory.backend", "users.me",
    "users.me.permission_profiles", "permission_profiles.p.grants", "permission_profiles.p.grants.config",
    "permission_profiles.p", "security.trust_daemon_uid", "plugins.entries.weather", "plugins.entries.weather.config.a.b",
    "no.such.path",
)  # fmt: skip
PATTERNS = (*PATHS, *(f"{path}.*" for path in PATHS), "*", "users.*", "plugins.*", "agents.*", ".*", "**")
AGENTS = ("ada", "eve", "none")
TOOLS = ("one", "two")
NEW = "new"
"""What a key is renamed to."""

HEAD = """\
schema_version = 1
[agents.ada]
[agents.eve]
[[plugins.entries]]
name = "weather"
config = { "a.b" = "plain" }
"""


def some(random: Random, known: tuple[str, ...], most: int = 3) -> list[str]:
    return random.sample(known, random.randrange(min(most, len(known)) + 1))


def file_of(random: Random) -> str:
    """A configuration in which the daemon's own user is trusted now and then, and is else a user or nobody."""
    profiles: list[str] = []
    most = random.choice([0, 4, 4, 4, 4, 4, 4])
    for name in ("p", "q"):
        grants = {
            resource: random.sample(("create", "read", "update", "delete", "execute"), random.randrange(6))
            for resource in some(random, ("system", "sessions", "config", "tools"), most)
        }
        written = ", ".join(f"{resource} = {json.dumps(verbs)}" for resource, verbs in grants.items())
        profiles.append(
            f"[permission_profiles.{name}]\n"
            f"admin = {json.dumps(random.random() < 0.12)}\n"
            f"allowed_agents = {json.dumps(some(random, (*AGENTS, '*')))}\n"
            f"allowed_tools = {json.dumps(some(random, (*TOOLS, '*')))}\n"
            f"config_write_paths = {json.dumps(some(random, PATTERNS, 6))}\n"
            f"grants = {{ {written} }}\n"
        )
    uid = 77777 if random.random() < 0.05 else os.geteuid()
    user = (
        f"[users.me]\nuid = {uid}\npermission_profiles = {json.dumps(random.choice([['p'], ['p', 'q']]))}\n"
    )
    trust = json.dumps(random.random() < 0.1)
    return f"{HEAD}[security]\ntrust_daemon_uid = {trust}\n{''.join(profiles)}{user}"


Question = dict[str, Any]


def calls(method: str) -> Iterator[tuple[dict[str, Any], list[Question]]]:
    """Calls of a method, and what is to be explained for each. None has an effect that outlives it by itself."""
    row = TABLE[method]
    if row.writes:
        for path in PATHS:
            map_path, _, key = path.rpartition(".")
            other = f"{map_path}.{NEW}"
            match method:
                case "config/set":
                    yield {"prop": path, "value": {"no": "such value"}}, [{"path": path}]
                case "config/set-many":
                    sets = [{"prop": path, "value": {"no": 1}}, {"prop": PATHS[0], "value": {"no": 1}}]
                    yield {"sets": sets}, [{"path": path}, {"path": PATHS[0]}]
                case "config/delete":
                    yield {"prop": path}, [{"path": path}]
                case "config/map-key-rename" if map_path:
                    yield {"path": map_path, "from": key, "to": NEW}, [{"path": path}, {"path": other}]
                case _ if map_path:
                    yield {"path": map_path, "key": key}, [{"path": path}]
                case _:
                    continue
    elif method == "session/new":
        for agent in AGENTS:
            yield {"agentAlias": agent}, [{"agent": agent}]
    elif row.agent:
        for agent in AGENTS[:2]:
            yield {"sessionId": agent, "prompt": "hi", "overrides": {}}, [{"agent": agent}]
    elif method.startswith("session/"):
        yield {"sessionId": "ada"}, [{}]
    else:
        yield {"path": "agents"}, [{}]


def lay_out(daemon: Any, text: str, kept: ChatStore) -> None:
    """The file and the sessions as they were before any call; the sessions are the limited user's, live and kept."""
    if daemon.config.text != text:
        daemon.config.file.write_text(text)
    for session in daemon.server.sessions.all():
        daemon.server.sessions.remove(session)
    workspace = str(daemon.config.file.parent)
    for agent in AGENTS[:2]:
        if kept.find(agent) is None:
            kept.create(NewSession(agent, agent, workspace, None, "user:me"))
        permit = TurnPermit(SystemClock())
        daemon.server.sessions.add(
            LiveSession(agent, agent, ChatMode.CHAT, workspace, permit, owner="user:me")
        )


def explained(policy: Policy, user: str, method: str, question: Question) -> Explanation:
    row = TABLE[method]
    path = question.get("path")
    return explain(
        policy, user, row.grant,
        paths=() if path is None else row.written(path), agent=question.get("agent"), tool=question.get("tool"),
    )  # fmt: skip


@pytest.mark.req("RPC-052", "RPC-079", "RPC-080")
@pytest.mark.parametrize("seed", range(30))
async def test_an_explanation_is_what_the_daemon_does(serving: Serving, seed: int) -> None:
    text = file_of(Random(seed))
    async with serving(config=text, socket=True) as daemon, daemon.connect(initialize=False) as wire:
        kept = ChatStore(daemon.path.parent / "sessions" / "sessions.db")
        config = daemon.config.source.current().config
        policy = Policy.of(config)
        mine = config.users["me"].uid == os.geteuid()
        user = SHARED_OPERATOR if policy.trust_daemon_uid else "me" if mine else "a stranger"
        entered = "result" in await wire.ask("initialize", {})
        assert explained(policy, user, "initialize", {}).allowed is entered
        for method in TABLE:
            for params, questions in calls(method) if method != "initialize" else ():
                lay_out(daemon, text, kept)
                code = (await wire.ask(method, params)).get("error", {"code": 0})["code"]
                told = all(explained(policy, user, method, each).allowed for each in questions)
                assert told is (code not in (FORBIDDEN, AUTHENTICATION_REQUIRED)), (method, params, code)
        lay_out(daemon, text, kept)
        for tool in TOOLS:
            assert explained(policy, user, "session/prompt", {"tool": tool}).answers[-1].decision.allowed is (
                await runs(daemon, tool)
            )


async def runs(daemon: Any, tool: str) -> bool:
    """Whether the tool may run for the daemon's own user on the socket."""
    authority = daemon.config.authority
    try:
        principal = await authority.authenticate(Evidence(PeerCredential(1, os.geteuid()), local=True))
    except AuthenticationFailed:
        return False
    return bool(authority.allows_tool(principal, tool))


def test_the_profiles_made_at_random_allow_and_deny_by_every_rule() -> None:
    """What is compared above is worth something."""
    rules: set[str] = set()
    for seed in range(30):
        policy = Policy.of(config_of(tomllib.loads(file_of(Random(seed)))))
        user = SHARED_OPERATOR if policy.trust_daemon_uid else "me"
        for method in TABLE:
            for _, questions in calls(method):
                for question in questions:
                    answers = explained(policy, user, method, question).answers
                    rules |= {answer.decision.rule.kind for answer in answers}
        answers = explained(policy, user, "session/prompt", {"tool": "one"}).answers
        rules |= {answer.decision.rule.kind for answer in answers}
    never = {RuleKind.NOBODY, RuleKind.AMBIGUOUS, RuleKind.PROFILE_MISSING, RuleKind.OPERATOR_DISTRUSTED}
    assert rules == set(RuleKind) - never
