"""A change of policy that arrives while a file is being stored takes effect once it is stored (RPC-211)."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest
from paused_folder import PATIENCE, PausedFolder
from sending import b64, digest_of, staged, stored

from zeroclaw_daemon.config.saving import write_lock
from zeroclaw_daemon.rpc.errors import AUTHENTICATION_REQUIRED, FORBIDDEN, INTERNAL, SESSION_NOT_FOUND

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

CONFIG = """\
schema_version = 1
[agents.assistant]
[users.ada]
uid = 4000000000
permission_profiles = ["p"]
[permission_profiles.p]
allowed_agents = ["assistant"]
[permission_profiles.p.grants]
sessions = ["create"]
files = ["create"]
"""

Begun = Callable[[Any, str], Awaitable[dict[str, Any]]]


async def commit(wire: Any, session: str) -> dict[str, Any]:
    """A request that stores a file sent in chunks."""
    upload = await staged(wire, session, b"abc")
    return {"method": "file/upload/commit", "params": {"upload_id": upload}}


async def attach(wire: Any, session: str) -> dict[str, Any]:
    """A request that stores a file sent whole."""
    return {"method": "file/attach", "params": {"session_id": session, "files": [{"data_b64": b64(b"abc")}]}}


class Scene:
    """Ada, whom a token proves, has a file being stored; the operator is there as well."""

    def __init__(
        self, daemon: Any, ada: Any, operator: Any, token: Any, steps: PausedFolder, session: str
    ) -> None:
        self.daemon, self.ada, self.operator, self.token, self.steps = daemon, ada, operator, token, steps
        self.id = session

    @property
    def stored(self) -> list[str]:
        return stored(self.daemon.config.file.parent / "agents" / "assistant" / "workspace")

    async def finish(self) -> None:
        """The file is stored after all."""
        self.steps.go.set()
        assert "result" in await self.ada.answer_to("f")
        assert self.stored == [digest_of(b"abc")]

    async def next_request(self) -> int:
        """The code with which Ada's next request for the same is refused."""
        answer = await self.ada.ask(
            "file/attach", {"session_id": self.id, "files": [{"data_b64": b64(b"next")}]}
        )
        return answer["error"]["code"]


@pytest.fixture(params=[commit, attach], ids=["commit", "attach"])
def scene(
    serving: Serving, request: pytest.FixtureRequest
) -> Callable[[], AbstractAsyncContextManager[Scene]]:
    begun: Begun = request.param

    @asynccontextmanager
    async def play() -> AsyncGenerator[Scene]:
        steps = PausedFolder()
        async with serving(config=CONFIG, folder=steps) as daemon, daemon.connect() as operator:
            issued = daemon.config.tokens.pair("ada")
            async with daemon.connect(authToken=issued.text) as ada:
                session = await ada.new_session()
                frame = await begun(ada, session)
                try:
                    await ada.send({"jsonrpc": "2.0", "id": "f", **frame})
                    await daemon.until(steps.reached.is_set)
                    yield Scene(daemon, ada, operator, issued.token, steps, session)
                finally:
                    steps.go.set()

    return play


@pytest.mark.req("RPC-211", "RPC-212")
async def test_a_policy_that_is_published_waits(
    scene: Callable[[], AbstractAsyncContextManager[Scene]],
) -> None:
    async with scene() as here:
        waits = threading.Event()
        source = here.daemon.config.source
        between = source.between_holds

        def watched(wait: float) -> AbstractContextManager[None]:
            waits.set()
            return between(wait)

        source.between_holds = watched
        prop = "permission_profiles.p.grants.files"
        await here.operator.send(
            {"jsonrpc": "2.0", "id": 1, "method": "config/set", "params": {"prop": prop, "value": ["read"]}}
        )
        await here.daemon.until(waits.is_set)
        assert here.daemon.config.text == CONFIG
        assert here.stored == []
        await here.finish()
        assert (await here.operator.answer_to(1))["result"]["set"] is True
        assert await here.next_request() == FORBIDDEN


@pytest.mark.req("RPC-211", "RPC-212")
async def test_a_policy_in_an_edited_file_waits(
    scene: Callable[[], AbstractAsyncContextManager[Scene]],
) -> None:
    async with scene() as here:
        here.daemon.config.file.write_text(CONFIG.replace('files = ["create"]', 'files = ["read"]'))
        # Others are served meanwhile, by what is held.
        shown = await here.operator.call("config/get", {"prop": "permission_profiles.p.grants.files"})
        assert "create" in shown["value"]
        assert here.stored == []
        await here.finish()
        assert await here.next_request() == FORBIDDEN


@pytest.mark.req("RPC-211", "RPC-212")
async def test_an_unpairing_waits(scene: Callable[[], AbstractAsyncContextManager[Scene]]) -> None:
    async with scene() as here:
        order: list[str] = []
        began = anyio.Event()

        def unpair() -> None:
            anyio.from_thread.run_sync(began.set)
            here.daemon.config.tokens.unpair(here.token.id)
            order.append(f"unpaired, {len(here.stored)} stored")

        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(PATIENCE):
                tasks.start_soon(anyio.to_thread.run_sync, unpair)
                await began.wait()
                assert order == []
                await here.finish()
        assert order == ["unpaired, 1 stored"]
        assert await here.next_request() == AUTHENTICATION_REQUIRED


@pytest.mark.req("RPC-205")
async def test_a_close_waits_and_others_are_served(
    scene: Callable[[], AbstractAsyncContextManager[Scene]],
) -> None:
    async with scene() as here:
        session = here.daemon.server.sessions.get(here.id)
        await here.operator.send(
            {"jsonrpc": "2.0", "id": 1, "method": "session/close", "params": {"sessionId": here.id}}
        )
        async with here.daemon.connect() as other:
            assert (await other.call("status"))["sessionIds"] == [here.id]
        assert here.daemon.server.sessions.is_live(session)
        await here.finish()
        assert (await here.operator.answer_to(1))["result"]["closed"] is True
        assert len(session.attachments) == 1


async def test_a_sender_that_hangs_up_meanwhile_has_its_file_stored_and_its_charge_back(
    scene: Callable[[], AbstractAsyncContextManager[Scene]],
) -> None:
    async with scene() as here:
        here.ada.close()
        here.steps.go.set()
        await here.daemon.until(lambda: here.daemon.server.open_connections == 1)
        assert here.stored == [digest_of(b"abc")]
        assert here.daemon.server.staging.used_bytes == 0
        assert len(here.daemon.server.sessions.get(here.id).attachments) == 1


@pytest.mark.req("RPC-212")
async def test_a_session_that_goes_between_two_files_gets_the_first_alone(serving: Serving) -> None:
    """Whoever wants the lock while a file is stored has it before the next one is."""
    steps = PausedFolder()
    async with (
        serving(config=CONFIG, folder=steps) as daemon,
        daemon.connect() as wire,
        daemon.connect() as other,
    ):
        session = await wire.new_session()
        kept = daemon.server.sessions.get(session)
        files = [{"data_b64": b64(b"one")}, {"data_b64": b64(b"two")}]
        params = {"session_id": session, "files": files}
        try:
            await wire.send({"jsonrpc": "2.0", "id": "f", "method": "file/attach", "params": params})
            await daemon.until(steps.reached.is_set)
            close = {"jsonrpc": "2.0", "id": 1, "method": "session/close", "params": {"sessionId": session}}
            await other.send(close)
            await daemon.until(lambda: daemon.server.sessions.lock.statistics().tasks_waiting == 1)
        finally:
            steps.go.set()
        error = (await wire.answer_to("f"))["error"]
        assert (error["code"], error["data"]) == (
            SESSION_NOT_FOUND, {"reason": "session_not_found", "index": 1},
        )  # fmt: skip
        assert (await other.answer_to(1))["result"]["closed"] is True
        workspace = daemon.config.file.parent / "agents" / "assistant" / "workspace"
        assert stored(workspace) == [digest_of(b"one")]
        assert len(kept.attachments) == 1


@pytest.mark.req("RPC-211")
@pytest.mark.parametrize("begun", [commit, attach], ids=["commit", "attach"])
async def test_tokens_that_are_being_written_for_too_long_are_an_error_and_no_hang(
    serving: Serving, begun: Begun
) -> None:
    async with serving(config=CONFIG) as daemon:
        tokens = daemon.config.tokens
        issued = tokens.pair("ada")
        tokens._lock_wait = 0.05
        async with daemon.connect(authToken=issued.text) as ada:
            frame = await begun(ada, await ada.new_session())
            with write_lock(tokens.path):
                error = await ada.fail(frame["method"], frame["params"])
            assert (error["code"], error["data"]["reason"]) == (INTERNAL, "config_busy")
            assert stored(daemon.config.file.parent / "agents" / "assistant" / "workspace") == []
