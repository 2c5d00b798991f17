"""The one step in which a file becomes part of a session: its order, and what stands still meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest
from paused_folder import PausedFolder
from rosters import InForce, config_of, grants
from sending import digest_of, stored

from zeroclaw_daemon.agent.directory import Agent, AgentNotFound, FixedAgents
from zeroclaw_daemon.agent.providers.echo import EchoProvider
from zeroclaw_daemon.attachments.content import SentFile
from zeroclaw_daemon.attachments.folder import FolderSteps
from zeroclaw_daemon.authority.principal import AuthenticationFailed, Forbidden, Principal, Proof
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.authority.tokens import PairedTokens
from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.rpc.errors import AUTHENTICATION_REQUIRED, FORBIDDEN, SESSION_NOT_FOUND, code_of
from zeroclaw_daemon.sessions.errors import SessionNotFound
from zeroclaw_daemon.sessions.live import ChatMode, LiveSession, LiveSessions
from zeroclaw_daemon.sessions.permit import TurnPermit
from zeroclaw_daemon.uploads.binding import Binding
from zeroclaw_daemon.uploads.placing import FilePlacer
from zeroclaw_host.errors import StorageError, ZeroclawError

pytestmark = pytest.mark.anyio

SENDER = grants("files:create", "sessions:create", allowed_agents=["assistant"])
FILE = SentFile.of(b"abc", "a.txt")


class House:
    """A session of Ada, whom a paired token proves, and everything that a file passes on its way to it."""

    def __init__(self, directory: Path, steps: FolderSteps | None = None) -> None:
        self.workspace = directory / "workspace"
        self.workspace.mkdir()
        self.in_force = InForce(self.config())
        self.tokens = PairedTokens(directory / "paired-tokens.json", lock_wait=0)
        self.token = self.tokens.pair("ada").token
        self.ada = Principal("user:ada", "native", Proof(token=self.token))
        self.held = 0
        self.authority = RosterAuthority(self.in_force, self.tokens, 0, hold=self._hold)
        self.sessions = LiveSessions()
        self.session = self.live()
        self.sessions.add(self.session)
        agents = FixedAgents(Agent("assistant", EchoProvider(), "echo", workspace=str(self.workspace)))
        self.placer = FilePlacer(self.sessions, self.authority, agents, steps=steps)

    @staticmethod
    def config(**profile: Any) -> Any:
        users = {"ada": {"uid": 5001, "permission_profiles": ["p"]}}
        return config_of({"users": users, "permission_profiles": {"p": {**SENDER, **profile}}})

    @staticmethod
    def live(owner: str = "user:ada", agent: str = "assistant") -> LiveSession:
        return LiveSession("s", agent, ChatMode.CHAT, "/", TurnPermit(ManualClock()), owner=owner)

    @contextmanager
    def _hold(self) -> Generator[None]:
        self.held += 1
        try:
            yield
        finally:
            self.held -= 1

    async def place(self, file: SentFile = FILE, binding: Binding | None = None) -> Any:
        return await self.placer.place(self.ada, binding or Binding.of(self.session), file)

    @property
    def names(self) -> list[str]:
        return stored(self.workspace)


@pytest.mark.req("RPC-205", "RPC-183")
async def test_a_file_is_written_and_then_known(tmp_path: Path) -> None:
    house = House(tmp_path)
    placed = await house.place()
    name = f"{digest_of(b'abc')}.txt"
    assert house.names == [name]
    assert not placed.deduplicated
    assert house.session.attachments.find(FILE.ref_id) == placed.attachment
    assert placed.attachment.path == str(house.workspace / "uploads" / name)
    assert (await house.place()).deduplicated


def _reowned(house: House) -> None:
    house.session.owner = "user:eve"


def _reagented(house: House) -> None:
    house.session.agent_alias = "other"


def _closed(house: House) -> None:
    house.sessions.remove(house.session)


def _replaced(house: House) -> None:
    house.sessions.add(house.live())


@pytest.mark.req("RPC-202", "RPC-203", "RPC-204", "RPC-206", "RPC-212")
@pytest.mark.parametrize("happened", [_reowned, _reagented, _closed, _replaced])
async def test_another_session_than_was_meant_gets_no_file(
    tmp_path: Path, happened: Callable[[House], None]
) -> None:
    """Even where nothing else is right any more, the session is what is told of."""
    house = House(tmp_path)
    binding = Binding.of(house.session)
    happened(house)
    house.tokens.unpair(house.token.id)
    house.in_force.config = house.config(grants={}, allowed_agents=[])
    with pytest.raises(SessionNotFound):
        await house.place(binding=binding)
    assert house.names == []
    assert not any(len(session.attachments) for session in house.sessions.all())


@pytest.mark.req("RPC-206", "RPC-207", "RPC-208", "RPC-209", "RPC-210", "RPC-261")
async def test_of_everything_that_is_wrong_the_first_in_the_order_is_told(tmp_path: Path) -> None:
    house = House(tmp_path)
    stranger = house.live(owner="user:eve")
    binding = Binding.of(stranger)
    paired = house.tokens.path.read_bytes()
    house.tokens.unpair(house.token.id)
    house.in_force.config = house.config(grants={"system": ["read"]}, allowed_agents=["none"])

    async def refusal() -> ZeroclawError:
        with pytest.raises(ZeroclawError) as caught:
            await house.place(binding=binding)
        assert house.names == []
        assert len(stranger.attachments) == 0
        return caught.value

    error = await refusal()
    assert isinstance(error, SessionNotFound)
    assert code_of(error) == SESSION_NOT_FOUND
    house.sessions.add(stranger)
    error = await refusal()
    assert isinstance(error, AuthenticationFailed)
    assert code_of(error) == AUTHENTICATION_REQUIRED
    house.tokens.path.write_bytes(paired)
    error = await refusal()
    assert isinstance(error, Forbidden)
    assert code_of(error) == FORBIDDEN
    assert error.details == {"rule": "grant_missing", "grant": "files:create"}
    house.in_force.config = house.config(allowed_agents=["none"])
    error = await refusal()
    assert isinstance(error, Forbidden)
    assert code_of(error) == FORBIDDEN
    assert error.details == {"rule": "session_not_owned"}
    stranger.owner = "user:ada"
    binding = Binding.of(stranger)
    error = await refusal()
    assert isinstance(error, Forbidden)
    assert code_of(error) == FORBIDDEN
    assert error.details == {"rule": "agent_not_allowed", "agent": "assistant"}
    house.in_force.config = house.config()
    await house.place(binding=binding)
    assert len(house.names) == len(stranger.attachments) == 1


@pytest.mark.req("RPC-258")
async def test_where_a_file_was_read_is_judged_within_the_step(tmp_path: Path) -> None:
    house = House(tmp_path)
    binding = Binding.of(house.session)
    with pytest.raises(Forbidden) as caught:
        await house.placer.place(house.ada, binding, FILE, path="/etc/passwd")
    assert caught.value.details == {"rule": "path_outside_workspace"}
    assert (house.names, len(house.session.attachments)) == ([], 0)
    await house.placer.place(house.ada, binding, FILE, path=str(house.workspace.resolve() / "a.txt"))
    assert len(house.names) == len(house.session.attachments) == 1


@pytest.mark.req("RPC-200", "RPC-209")
async def test_an_administrator_sends_to_sessions_of_others(tmp_path: Path) -> None:
    house = House(tmp_path)
    of_eve = house.live(owner="user:eve")
    house.sessions.add(of_eve)
    house.in_force.config = house.config(admin=True, grants={}, allowed_agents=[])
    await house.place(binding=Binding.of(of_eve))
    assert len(house.names) == len(of_eve.attachments) == 1


class Expiring(RosterAuthority):
    """Knows one credential, which is good until a moment."""

    def __init__(self, clock: ManualClock, until: float, config: InForce) -> None:
        super().__init__(config, None, 0)
        self._clock, self._until = clock, until

    def rights(self, principal: Principal, *, config: Any = None) -> Any:
        if self._clock.now() >= self._until:
            raise AuthenticationFailed("the credential is over")
        return super().rights(principal, config=config)


@pytest.mark.req("RPC-207")
async def test_a_credential_that_expired_stores_nothing(tmp_path: Path) -> None:
    house, clock = House(tmp_path), ManualClock()
    authority = Expiring(clock, 10, house.in_force)
    agents = FixedAgents(Agent("assistant", EchoProvider(), "echo", workspace=str(house.workspace)))
    placer = FilePlacer(house.sessions, authority, agents)
    ada = Principal("user:ada", "peercred", Proof(uid=5001))
    clock.advance(10)
    with pytest.raises(AuthenticationFailed):
        await placer.place(ada, Binding.of(house.session), FILE)
    assert house.names == []


@pytest.mark.req("RPC-205", "RPC-211")
async def test_the_lock_and_what_decides_are_held_from_the_check_to_the_index(tmp_path: Path) -> None:
    seen: list[str] = []

    def meanwhile() -> None:
        with pytest.raises(anyio.WouldBlock):
            anyio.from_thread.run_sync(house.sessions.lock.acquire_nowait)
        assert house.held == 1
        with pytest.raises(ZeroclawError, match="paired tokens"):
            PairedTokens(house.tokens.path, lock_wait=0).unpair(house.token.id)
        house.tokens.path.write_text('{"version":1,"tokens":[]}')
        assert house.authority.rights(house.ada).grants
        seen.append("checked")

    house = House(tmp_path, PausedFolder(meanwhile))
    await house.place()
    assert seen == ["checked"]
    assert (len(house.names), house.held) == (1, 0)
    with pytest.raises(AuthenticationFailed):
        await house.place()
    house.sessions.lock.acquire_nowait()


@pytest.mark.req("RPC-205")
async def test_a_session_is_replaced_wholly_before_or_wholly_after(tmp_path: Path) -> None:
    steps = PausedFolder()
    house = House(tmp_path, steps)
    order: list[str] = []

    async def replace() -> None:
        async with house.sessions.lock:
            order.append(f"replaced with {len(house.session.attachments)} known, {len(house.names)} stored")
            house.sessions.add(house.live())

    async def place() -> None:
        await house.place()
        order.append("placed")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(place)
        await anyio.to_thread.run_sync(steps.reached.wait)
        tasks.start_soon(replace)
        await anyio.lowlevel.checkpoint()
        steps.go.set()
    assert sorted(order) == ["placed", "replaced with 1 known, 1 stored"]
    with pytest.raises(SessionNotFound):
        await house.place(SentFile.of(b"late", None))


async def test_a_file_that_was_begun_is_stored_and_known_though_its_sender_is_gone(tmp_path: Path) -> None:
    steps = PausedFolder()
    house = House(tmp_path, steps)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.place)
        await anyio.to_thread.run_sync(steps.reached.wait)
        tasks.cancel_scope.cancel()
        steps.go.set()
    assert len(house.names) == 1
    assert len(house.session.attachments) == 1
    house.sessions.lock.acquire_nowait()


async def test_a_sender_that_is_gone_before_its_turn_comes_stores_nothing(tmp_path: Path) -> None:
    house = House(tmp_path)
    async with house.sessions.lock, anyio.create_task_group() as tasks:
        tasks.start_soon(house.place)
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert house.names == []


async def test_nothing_of_it_is_done_on_the_event_loop(tmp_path: Path) -> None:
    steps = PausedFolder()
    steps.go.set()
    house = House(tmp_path, steps)
    await house.place()
    assert steps.threads
    assert threading.get_ident() not in steps.threads


async def test_a_file_that_cannot_be_stored_is_not_known(tmp_path: Path) -> None:
    house = House(tmp_path)
    (house.workspace / "uploads").mkdir()
    (house.workspace / "uploads" / FILE.stored_name).mkdir()
    with pytest.raises(StorageError):
        await house.place()
    assert len(house.session.attachments) == 0
    assert house.held == 0
    house.tokens.pair("ada")  # its lock is free again


async def test_a_session_whose_agent_is_gone_gets_no_file(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.in_force.config = house.config(allowed_agents=["*"])
    session = house.live(agent="gone")
    house.sessions.add(session)
    with pytest.raises(AgentNotFound):
        await house.place(binding=Binding.of(session))
    assert house.names == []


@pytest.mark.req("RPC-213")
async def test_a_known_file_stays_where_it_was_when_the_agent_moves(tmp_path: Path) -> None:
    house = House(tmp_path)
    placed = await house.place()
    moved = tmp_path / "moved"
    moved.mkdir()
    agents = FixedAgents(Agent("assistant", EchoProvider(), "echo", workspace=str(moved)))
    placer = FilePlacer(house.sessions, house.authority, agents)
    (house.workspace / "uploads" / placed.attachment.name).unlink()
    again = await placer.place(house.ada, Binding.of(house.session), FILE)
    assert again.attachment == placed.attachment
    assert (len(house.names), stored(moved)) == (1, [])
    await placer.place(house.ada, Binding.of(house.session), SentFile.of(b"new", None))
    assert len(stored(moved)) == 1
