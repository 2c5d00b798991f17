"""In which order a write does what it does, and what others see of it meanwhile."""

from __future__ import annotations

import errno
import os
import tomllib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from rosters import config_of

from zeroclaw_daemon.authority.principal import Principal
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.saving import Steps, write_lock
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.rpc.errors import AUTHENTICATION_REQUIRED, FORBIDDEN, INTERNAL
from zeroclaw_daemon.rpc.methods.config import MAX_WRITERS
from zeroclaw_host.errors import StorageError

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

PORTS, STEPS = "rpc.max_local_connections", "agents.ada.max_steps"


def policy(*paths: str, grants: str = '["read", "update"]') -> str:
    """The daemon's own user is limited to writing some paths."""
    return f"""\
schema_version = 1
security.trust_daemon_uid = false

[permission_profiles.clerk]
config_write_paths = [{", ".join(f'"{path}"' for path in paths)}]
allowed_agents = ["*"]
grants = {{ config = {grants}, system = ["read"], sessions = ["create", "execute"] }}

[users.me]
uid = {os.geteuid()}
permission_profiles = ["clerk"]

[agents.ada]
model = "m1"
"""


def entries(*pairs: tuple[str, Any]) -> dict[str, Any]:
    return {"sets": [{"prop": prop, "value": value} for prop, value in pairs]}


def frame(params: Any, request_id: int = 7, method: str = "config/set-many") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params, "id": request_id}


class Watched(RosterAuthority):
    """Counts who has passed the first check of a write, after which only the lock is left to wait for."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.passed = 0

    def require_config_paths(
        self, principal: Principal, verb: str, paths: Sequence[str], *, config: Config | None = None
    ) -> None:
        super().require_config_paths(principal, verb, paths, config=config)
        self.passed += config is None


def watch(daemon: Any) -> Watched:
    """Have the daemon judge by an authority that is watched."""
    watched = Watched(lambda: daemon.config.source.current().config, daemon.config.tokens, os.geteuid())
    daemon.judge.behind = watched
    return watched


class Judge:
    """An authority that is chosen once the daemon is there."""

    behind: RosterAuthority

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


@pytest.fixture
def watched(serving: Serving) -> Serving:
    """As ``serving``, with an authority that is watched."""

    @asynccontextmanager
    async def serve(**parts: Any) -> AsyncGenerator[Any]:
        judge: Any = Judge()
        async with serving(authority=judge, **parts) as daemon:
            daemon.judge = judge
            daemon.watched = watch(daemon)
            yield daemon

    return serve


@pytest.mark.req("RPC-082")
async def test_what_is_forbidden_is_said_before_what_is_invalid(serving: Serving) -> None:
    async with serving(config=policy("rpc.*", "agents.*")) as daemon, daemon.connect() as wire:
        for invalid in (("rpc.no_such", 1), (STEPS, "many"), ("rpc.max_local_connections", 0)):
            before = daemon.config.file.read_bytes()
            error = await wire.fail("config/set-many", entries(invalid, ("users.me.uid", 0)))
            assert (error["code"], error["data"]["index"]) == (FORBIDDEN, 1)
            assert error["data"]["path"] == "users.me.uid"
            assert daemon.config.file.read_bytes() == before


@pytest.mark.req("RPC-081")
async def test_of_two_forbidden_entries_the_first_is_named(serving: Serving) -> None:
    async with serving(config=policy(PORTS)) as daemon, daemon.connect() as wire:
        await wire.call("config/set-many", entries((PORTS, 5)))
        for batch, index in (
            (entries((PORTS, 6), (STEPS, 2), ("users.me.uid", 0)), 1),
            (entries((STEPS, 2), (PORTS, 6)), 0),
            (entries((PORTS, 6), (PORTS, 7), (PORTS, 8), (STEPS, 2)), 3),
        ):
            before = daemon.config.file.read_bytes()
            error = await wire.fail("config/set-many", batch)
            assert (error["code"], error["data"]["index"]) == (FORBIDDEN, index)
            assert daemon.config.file.read_bytes() == before
            assert (await wire.call("config/get", {"prop": PORTS}))["value"] == "5"


@pytest.mark.req("RPC-080", "RPC-079")
async def test_a_batch_needs_the_grant_and_every_path(serving: Serving) -> None:
    for text, batch, allowed in (
        (policy(PORTS), entries((PORTS, 5)), True),
        (policy(PORTS), entries((PORTS, 5), (STEPS, 5)), False),
        (policy(PORTS, STEPS), entries((PORTS, 5), (STEPS, 5)), True),
        (policy("*"), entries((PORTS, 5), (STEPS, 5)), True),
        (policy("rpc.*"), entries((PORTS, 5)), True),
        (policy("rpc"), entries((PORTS, 5)), False),
        (policy(), entries((PORTS, 5)), False),
        (policy("*", grants='["read"]'), entries((PORTS, 5)), False),
        (policy("*", grants='["create", "delete", "read"]'), entries((PORTS, 5)), False),
    ):
        async with serving(config=text) as daemon, daemon.connect() as wire:
            answer = await wire.ask("config/set-many", batch)
            assert ("result" in answer) is allowed
            if not allowed:
                assert answer["error"]["code"] == FORBIDDEN
                assert daemon.config.text == text


@pytest.mark.req("RPC-079", "RPC-080")
async def test_every_write_is_held_to_its_verb_and_its_paths(serving: Serving) -> None:
    every = '["create", "read", "update", "delete"]'
    writes = (
        ("config/set", {"prop": "agents.ada.model", "value": "m2"}, "update"),
        ("config/delete", {"prop": "agents.ada.model"}, "delete"),
        ("config/map-key-create", {"path": "agents", "key": "ben"}, "create"),
        ("config/map-key-rename", {"path": "agents", "from": "ben", "to": "eve"}, "update"),
        ("config/map-key-delete", {"path": "agents", "key": "eve"}, "delete"),
    )
    allowed_paths = ("agents.ada.model", "agents.ben.*", "agents.eve.*")
    async with serving(config=policy(*allowed_paths, grants=every)) as daemon, daemon.connect() as wire:
        for method, params, verb in writes:
            text = daemon.config.text
            for refused in (
                policy(*allowed_paths, grants=every.replace(f'"{verb}"', '"read"')),
                policy("agents.ben.*", grants=every)
                if verb != "create"
                else policy("agents.ada.*", grants=every),
                policy("agents", grants=every),
            ):
                daemon.config.file.write_text(refused)
                error = await wire.fail(method, params)
                assert error["code"] == FORBIDDEN
                assert "index" not in error["data"]
                assert daemon.config.text == refused
            daemon.config.file.write_text(text)
            await wire.call(method, params)


REVOKED = {
    "the path": (policy(PORTS), FORBIDDEN, 1),
    "the grant": (policy(PORTS, STEPS, grants='["read"]'), FORBIDDEN, None),
    "the user": (
        policy(PORTS, STEPS).replace(f"uid = {os.geteuid()}", "uid = 4000000000"),
        AUTHENTICATION_REQUIRED,
        None,
    ),
    "nothing": (policy(PORTS, STEPS).replace("m1", "m3"), 0, None),
}


@pytest.mark.req("RPC-083")
@pytest.mark.parametrize("what", REVOKED)
async def test_what_is_revoked_while_a_batch_waits_for_the_lock_refuses_it(
    watched: Serving, what: str
) -> None:
    after, code, index = REVOKED[what]
    async with watched(config=policy(PORTS, STEPS), socket=True) as daemon, daemon.connect() as wire:
        with write_lock(daemon.config.file):
            await wire.send(frame(entries((PORTS, 5), (STEPS, 5))))
            await daemon.until(lambda: daemon.watched.passed == 1)
            daemon.config.file.write_text(after)
        answer = await wire.answer_to(7)
        if not code:
            assert answer["result"]["set"] is True
            written = tomllib.loads(daemon.config.text)
            assert (written["rpc"]["max_local_connections"], written["agents"]["ada"]) == (
                5, {"model": "m3", "max_steps": 5},
            )  # fmt: skip
        else:
            assert answer["error"]["code"] == code
            assert answer["error"]["data"].get("index") == index
            assert daemon.config.text == after
            assert daemon.config.source.current().config.agents["ada"].max_steps == 25


@pytest.mark.req("RPC-082", "RPC-083")
async def test_under_the_lock_too_the_refusal_comes_before_what_is_invalid(watched: Serving) -> None:
    async with watched(config=policy(PORTS, STEPS)) as daemon, daemon.connect() as wire:
        with write_lock(daemon.config.file):
            await wire.send(frame(entries((PORTS, "no number"), (STEPS, 5))))
            await daemon.until(lambda: daemon.watched.passed == 1)
            daemon.config.file.write_text(policy(PORTS))
        error = (await wire.answer_to(7))["error"]
        assert (error["code"], error["data"]["index"]) == (FORBIDDEN, 1)


@pytest.mark.req("RPC-082", "RPC-083")
async def test_under_the_lock_the_file_is_what_judges(serving: Serving) -> None:
    """Whatever the authority holds to be in force: it may be behind the file."""
    stale = config_of(tomllib.loads(policy(PORTS, STEPS)))
    authority = RosterAuthority(lambda: stale, None, os.geteuid())
    async with serving(config=policy(PORTS), authority=authority) as daemon, daemon.connect() as wire:
        error = await wire.fail("config/set-many", entries((PORTS, 5), (STEPS, 5)))
        assert (error["code"], error["data"]["index"]) == (FORBIDDEN, 1)
        assert daemon.config.text == policy(PORTS)


@pytest.mark.req("RPC-083", "RPC-238")
async def test_a_token_that_is_unpaired_while_its_batch_waits_refuses_it(watched: Serving) -> None:
    text = policy(PORTS)
    async with watched(config=text, socket=True) as daemon:
        issued = daemon.config.tokens.pair("me")
        async with daemon.connect(authToken=issued.text) as wire:
            with write_lock(daemon.config.file):
                await wire.send(frame(entries((PORTS, 5))))
                await daemon.until(lambda: daemon.watched.passed == 1)
                daemon.config.tokens.unpair(issued.token.id)
            assert (await wire.answer_to(7))["error"]["code"] == AUTHENTICATION_REQUIRED
            assert daemon.config.text == text


async def test_while_writes_wait_for_the_lock_everybody_else_is_served(watched: Serving) -> None:
    """More writes than there are threads for everybody, and a turn, which needs one as well."""
    writers = int(anyio.to_thread.current_default_thread_limiter().total_tokens) + 2
    assert writers > MAX_WRITERS
    async with watched(config=policy("*")) as daemon:
        async with anyio.create_task_group() as tasks:
            done: list[Any] = []

            async def write(number: int) -> None:
                async with daemon.connect() as wire:
                    done.append(
                        await wire.ask("config/set", {"prop": f"agents.a{number}.model", "value": "m"})
                    )

            with write_lock(daemon.config.file):
                for number in range(writers):
                    tasks.start_soon(write, number)
                await daemon.until(lambda: daemon.watched.passed == writers)
                async with daemon.connect() as other:
                    assert (await other.call("config/get", {"prop": "agents.ada.model"}))["value"] == "m1"
                    session = await other.new_session(agentAlias="ada")
                    answer = await other.call("session/prompt", {"sessionId": session, "prompt": "/model"})
                    assert answer["content"] == "m1"
                assert not done
        assert [answer["result"]["set"] for answer in done] == [True] * (writers)
        agents = tomllib.loads(daemon.config.text)["agents"]
        assert sorted(agents) == sorted(["ada", *(f"a{number}" for number in range(writers))])


@pytest.mark.parametrize("socket", [False, True], ids=["memory", "socket"])
async def test_a_write_that_was_begun_is_finished_though_its_client_hangs_up(
    watched: Serving, socket: bool
) -> None:
    async with watched(config=policy("*"), socket=socket) as daemon:
        async with daemon.connect() as wire:
            with write_lock(daemon.config.file):
                await wire.send(frame(entries((PORTS, 5), (STEPS, 5))))
                await daemon.until(lambda: daemon.watched.passed == 1)
                wire.close()
        await daemon.until(lambda: daemon.server.open_connections == 0)
        written = tomllib.loads(daemon.config.text)
        assert (written["rpc"], written["agents"]["ada"]) == (
            {"max_local_connections": 5}, {"model": "m1", "max_steps": 5},
        )  # fmt: skip
        assert daemon.config.source.current().config.agents["ada"].max_steps == 5
        assert daemon.config.left_over == []


async def test_a_writer_that_never_ends_is_an_error_and_no_hang(serving: Serving) -> None:
    async with serving(config=policy("*"), lock_wait=0.05) as daemon, daemon.connect() as wire:
        with write_lock(daemon.config.file):
            error = await wire.fail("config/set-many", entries((PORTS, 5)))
        assert (error["code"], error["data"]["reason"]) == (INTERNAL, "config_busy")
        assert daemon.config.text == policy("*")
        await wire.call("config/set-many", entries((PORTS, 5)))


# Models (RPC-084).


async def model_of(wire: Any, session: str) -> str:
    answer = await wire.call("session/prompt", {"sessionId": session, "prompt": "/model"})
    return str(answer["content"])


@pytest.mark.req("RPC-084")
@pytest.mark.parametrize("socket", [False, True], ids=["memory", "socket"])
async def test_a_batch_that_changes_the_model_counts_from_the_next_turn_of_a_live_session(
    serving: Serving, socket: bool
) -> None:
    async with serving(config=policy("*"), socket=socket) as daemon, daemon.connect() as wire:
        session = await wire.new_session(agentAlias="ada")
        assert await model_of(wire, session) == "m1"
        await wire.call("config/set-many", entries(("agents.ada.model", "m2")))
        assert await model_of(wire, session) == "m2"
        # A provider's model, through entries that are right only together.
        await wire.call(
            "config/set-many",
            entries(
                ("agents.ada.model", None),
                ("agents.ada.provider", "echo.house"),
                ("providers.models.echo.house.model", "m3"),
            ),
        )
        assert await model_of(wire, session) == "m3"
        await wire.call("config/set", {"prop": "providers.models.echo.house.model", "value": "m4"})
        assert await model_of(wire, session) == "m4"
        # A file that was edited by hand counts as well.
        daemon.config.file.write_text(daemon.config.text.replace("m4", "m5"))
        assert await model_of(wire, session) == "m5"


@pytest.mark.req("RPC-084")
async def test_a_preparation_that_fails_leaves_everything_as_it_was(serving: Serving) -> None:
    class Broken(Exception):
        """A fault of ours."""

    failures: list[Exception] = [StorageError("no room for the models"), Broken("words of a fault")]

    def prepare(candidate: Snapshot) -> Callable[[], None]:
        assert candidate.config.agents["ada"].model == "m2"
        raise failures.pop(0)

    async with serving(config=policy("*"), prepare=prepare) as daemon, daemon.connect() as wire:
        session = await wire.new_session(agentAlias="ada")
        before = daemon.config.file.read_bytes()
        for reason in ("storage_failed", "internal"):
            error = await wire.fail("config/set-many", entries((PORTS, 5), ("agents.ada.model", "m2")))
            assert (error["code"], error["data"]["reason"]) == (INTERNAL, reason)
            assert "words" not in error["message"]
            assert daemon.config.file.read_bytes() == before
            assert await model_of(wire, session) == "m1"
            assert (await wire.call("config/get", {"prop": PORTS}))["value"] == "512"
        assert daemon.config.left_over == []


@pytest.mark.req("RPC-084")
async def test_a_save_that_fails_installs_nothing(serving: Serving) -> None:
    class Full(Steps):
        def rename(self, source: Path, target: Path) -> None:
            raise OSError(errno.ENOSPC, "full")

    async with serving(config=policy("*"), steps=Full()) as daemon, daemon.connect() as wire:
        session = await wire.new_session(agentAlias="ada")
        error = await wire.fail("config/set-many", entries(("agents.ada.model", "m2")))
        assert (error["code"], error["data"]["reason"]) == (INTERNAL, "storage_failed")
        assert await model_of(wire, session) == "m1"


@pytest.mark.req("RPC-084")
async def test_views_are_prepared_from_the_whole_candidate_and_installed_after_the_save(
    serving: Serving,
) -> None:
    log: list[str] = []
    daemons: list[Any] = []

    def seen() -> str:
        config = daemons[0].config
        in_force = config.source.current().config.agents["ada"].model
        return f"file {tomllib.loads(config.text)['agents']['ada']['model']}, in force {in_force}"

    def prepare(candidate: Snapshot) -> Callable[[], None]:
        agent = candidate.config.agents["ada"]
        log.append(f"prepare {agent.model} {agent.max_steps}: {seen()}")
        return lambda: log.append(f"install: {seen()}")

    class Told(Steps):
        def rename(self, source: Path, target: Path) -> None:
            log.append(f"save: {seen()}")
            super().rename(source, target)

    async with serving(config=policy("*"), prepare=prepare, steps=Told()) as daemon, daemon.connect() as wire:
        daemons.append(daemon)
        await wire.call("config/set-many", entries(("agents.ada.model", "m2"), (STEPS, 9)))
        assert log == [
            "prepare m2 9: file m1, in force m1",
            "save: file m1, in force m1",
            "install: file m2, in force m2",
        ]


@pytest.mark.req("RPC-074")
async def test_writes_of_many_clients_at_once_all_are_in_the_file_and_no_reader_sees_half(
    serving: Serving,
) -> None:
    clients, rounds = 4, 6
    async with serving(config=policy("*"), socket=True) as daemon:
        halves: list[Any] = []
        busy = clients

        async def write(client: int) -> None:
            nonlocal busy
            async with daemon.connect() as wire:
                for number in range(rounds):
                    alias = f"agents.c{client}_{number}"
                    batch = entries((f"{alias}.model", "x"), (f"{alias}.system_prompt", "y"))
                    assert (await wire.call("config/set-many", batch))["set"] is True
            busy -= 1

        async def read() -> None:
            async with daemon.connect() as wire:
                while busy:
                    whole = await wire.call("config/get")
                    halves.extend(
                        alias for alias, agent in whole["agents"].items()
                        if alias != "ada" and (agent["model"], agent["system_prompt"]) != ("x", "y")
                    )  # fmt: skip

        async with anyio.create_task_group() as tasks:
            for client in range(clients):
                tasks.start_soon(write, client)
            tasks.start_soon(read)
        assert not halves
        assert len(tomllib.loads(daemon.config.text)["agents"]) == 1 + clients * rounds
