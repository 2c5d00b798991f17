"""A daemon in this process, and a client that knows only bytes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import anyio
import jsonschema_rs
import pytest
from kept_houses import House
from store_faults import Faults

from zeroclaw_daemon.agent.directory import Agent, AgentDirectory, FixedAgents
from zeroclaw_daemon.agent.providers.base import Provider
from zeroclaw_daemon.agent.providers.echo import EchoProvider
from zeroclaw_daemon.agent.providers.scripted import Line, ScriptedProvider
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.agents import ConfiguredAgents
from zeroclaw_daemon.attachments.folder import FolderSteps
from zeroclaw_daemon.authority.principal import Authority, PeerCredential
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.authority.tokens import PairedTokens
from zeroclaw_daemon.clock import Clock, ManualClock
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.config.source import ConfigSource
from zeroclaw_daemon.config.store import ConfigStore, Prepare
from zeroclaw_daemon.rpc.description.failures import failures_of
from zeroclaw_daemon.rpc.description.schemas import result_schema
from zeroclaw_daemon.rpc.limits import ServerLimits
from zeroclaw_daemon.rpc.methods.config import ConfigMethods
from zeroclaw_daemon.rpc.methods.table import TABLE
from zeroclaw_daemon.rpc.server import Server
from zeroclaw_daemon.rpc.transport.base import Peer, Transport, TransportClosed
from zeroclaw_daemon.rpc.transport.memory import MemoryListener
from zeroclaw_daemon.rpc.transport.unix import UnixListener, connect
from zeroclaw_daemon.sessions.durable import DurableSessions
from zeroclaw_daemon.uploads.staging import StagingLimits
from zeroclaw_host.services.sealing import KeyFile
from zeroclaw_host.worlds.kinds import Tool

PATIENCE = 60
"""Seconds after which a test that waits for the daemon has failed. No test waits this long otherwise."""

Frame = dict[str, Any]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@lru_cache
def documented_errors() -> frozenset[tuple[str, str]]:
    """Every (code, reason) of the table that users read (RPC-237)."""
    page = (Path(__file__).parents[3] / "docs" / "reference" / "errors.md").read_text()
    return frozenset(
        (code, word) for word, code in re.findall(r"^\| `(\w+)` \|.*?\| (-\d+) \|", page, re.MULTILINE)
    )


@lru_cache
def described(method: str) -> tuple[Any, frozenset[str]]:
    """The schema of a method's result and the words of its errors, as its description has them."""
    row = TABLE[method]
    words = frozenset(failure.code for failure in failures_of(row)) | {"internal"}
    return jsonschema_rs.validator_for(result_schema(row.result)), words


def check_answer(method: str, answer: Frame) -> None:
    """Every answer to a call is one that the description of its method has (RPC-237)."""
    if method not in TABLE:
        return
    result, words = described(method)
    if "result" in answer:
        result.validate(answer["result"])
    else:
        assert answer["error"]["data"]["reason"] in words, (method, answer["error"])


class Wire:
    """A client that writes bytes and reads lines, and understands nothing."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.raw = b""
        self.unread = b""
        self.updates: list[Frame] = []
        self._next_id = 1000

    async def write(self, data: bytes) -> None:
        """Write all of it."""
        rest = memoryview(data)
        with anyio.fail_after(PATIENCE):
            while rest:
                rest = rest[await self.transport.send(rest) :]

    async def send(self, *frames: Frame | bytes) -> None:
        """Write frames, one a line, in one go."""
        await self.write(
            b"".join((f if isinstance(f, bytes) else json.dumps(f).encode()) + b"\n" for f in frames)
        )

    async def receive(self) -> Frame:
        """The next frame; fails at the end of the stream."""
        frame = await self.receive_or_end()
        assert frame is not None, "the stream ended"
        return frame

    async def receive_or_end(self) -> Frame | None:
        """The next frame, or None at the end of the stream."""
        while b"\n" not in self.unread:
            with anyio.fail_after(PATIENCE):
                data = await self.transport.receive(65536)
            if not data:
                assert not self.unread, "the stream ended inside a frame"
                return None
            self.raw += data
            self.unread += data
        line, self.unread = self.unread.split(b"\n", 1)
        frame = json.loads(line)
        assert isinstance(frame, dict)
        assert frame["jsonrpc"] == "2.0"
        if "error" in frame:
            self.check_error(frame["error"])
        return frame

    @staticmethod
    def check_error(error: Any) -> None:
        """Every error the daemon sends has this shape (RPC-237)."""
        assert isinstance(error["code"], int)
        assert isinstance(error["message"], str)
        assert error["data"]["reason"].replace("_", "").isalnum()
        assert error["data"]["reason"].islower()
        assert (str(error["code"]), error["data"]["reason"]) in documented_errors()

    async def rest(self) -> list[Frame]:
        """Every frame until the end of the stream."""
        frames: list[Frame] = []
        while (frame := await self.receive_or_end()) is not None:
            frames.append(frame)
        return frames

    async def answer_to(self, request_id: Any) -> Frame:
        """The answer with this id; notifications before it are kept in ``updates``, anything else fails."""
        while True:
            frame = await self.receive()
            if "method" in frame and "id" not in frame:
                self.updates.append(frame)
                continue
            assert frame["id"] == request_id, frame
            return frame

    async def update_of(self, kind: str) -> Frame:
        """The next ``session/update`` of this type, its parameters; those before it are kept in ``updates`` like it."""
        while True:
            frame = await self.receive()
            assert frame.get("method") == "session/update", frame
            self.updates.append(frame)
            if frame["params"]["type"] == kind:
                params: Frame = frame["params"]
                return params

    async def ask(self, method: str, params: Any = None) -> Frame:
        """Call a method; the whole answer."""
        self._next_id += 1
        frame: Frame = {"jsonrpc": "2.0", "method": method, "id": self._next_id}
        await self.send({**frame, "params": {} if params is None else params})
        answer = await self.answer_to(self._next_id)
        check_answer(method, answer)
        return answer

    async def call(self, method: str, params: Any = None) -> Any:
        """Call a method; its result."""
        answer = await self.ask(method, params)
        assert "result" in answer, answer
        return answer["result"]

    async def fail(self, method: str, params: Any = None) -> Any:
        """Call a method that must fail; the error."""
        answer = await self.ask(method, params)
        assert "error" in answer, answer
        return answer["error"]

    async def initialize(self, **params: Any) -> Any:
        return await self.call("initialize", {"protocolVersion": 1, **params})

    async def new_session(self, **params: Any) -> str:
        return (await self.call("session/new", {"agentAlias": "assistant", **params}))["sessionId"]

    async def assert_silent(self) -> None:
        """Nothing is on its way: the answer to a question asked now is the next thing to arrive."""
        seen = len(self.updates)
        await self.ask("no/such/method")
        assert len(self.updates) == seen

    def close(self) -> None:
        self.transport.close()


class NoTools:
    """A daemon without plugins."""

    def tools(self, snapshot: Snapshot) -> Sequence[Tool]:
        return ()


class Configured:
    """A real configuration file, with everything that reads and writes it."""

    def __init__(self, directory: Path, text: str, **parts: Any) -> None:
        env = {"HOME": str(directory), **parts.get("env", {})}
        self.paths = Paths.resolve(str(directory / "config"), env)
        self.file = Path(self.paths.config_file)
        self.file.parent.mkdir(mode=0o700, exist_ok=True)
        self.file.write_text(text, encoding="utf-8")
        self.source = ConfigSource(self.file, env)
        self.store = ConfigStore(
            self.source,
            KeyFile(Path(self.paths.key_file)),
            steps=parts.get("steps"),
            lock_wait=parts.get("lock_wait", PATIENCE),
        )
        self.tokens = PairedTokens(Path(self.paths.tokens_file))
        self.authority = RosterAuthority.over(self.source, self.tokens, os.geteuid())
        self.agents = ConfiguredAgents(self.source.current, self.paths, NoTools())
        self.reloads = 0

    async def reload(self) -> dict[str, Any]:
        self.reloads += 1
        return {"reloading": True, "changes": ["one"]}

    @property
    def text(self) -> str:
        """The file as it is now."""
        return self.file.read_text(encoding="utf-8")

    @property
    def left_over(self) -> list[str]:
        """Files beside the configuration that a save should not leave."""
        known = {
            "config.toml",
            "config.toml.lock",
            ".secret_key",
            "paired-tokens.json",
            "paired-tokens.json.lock",
            "agents",
        }
        return sorted({entry.name for entry in self.file.parent.iterdir()} - known)


@dataclass
class Daemon:
    """A server in this process."""

    server: Server
    clock: Clock
    connect_raw: Callable[..., AbstractAsyncContextManager[Wire]]
    provider: Provider
    path: Path | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    configured: Configured | None = None

    @property
    def config(self) -> Configured:
        """The configuration of a daemon that has one."""
        assert self.configured is not None
        return self.configured

    @asynccontextmanager
    async def connect(
        self, *, initialize: bool = True, uid: int | None = None, local: bool = True, **params: Any
    ) -> AsyncGenerator[Wire]:
        """A client; over memory it can be another user's, or one of another machine."""
        async with self.connect_raw(uid, local) as wire:
            if initialize:
                await wire.initialize(**params)
            yield wire

    async def until(self, holds: Callable[[], bool]) -> None:
        """Let the daemon run until something holds."""
        with anyio.fail_after(PATIENCE):
            while not holds():
                await anyio.lowlevel.checkpoint()


Serving = Callable[..., AbstractAsyncContextManager[Daemon]]


@pytest.fixture
def tmp_path(short_path: Path) -> Path:
    """One whose path leaves room for a socket's."""
    return short_path


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    """Start a daemon: over memory, or with ``socket=True`` over a real socket."""

    @asynccontextmanager
    async def serve(
        *,
        socket: bool = False,
        provider: Provider | None = None,
        agents: AgentDirectory | None = None,
        tools: ToolRegistry | None = None,
        authority: Authority | None = None,
        limits: ServerLimits | None = None,
        clock: Clock | None = None,
        capacity: int = 65536,
        uid: int | None = None,
        path: Path | None = None,
        config: str | None = None,
        prepare: Prepare | None = None,
        durable: DurableSessions | None = None,
        staging: StagingLimits | None = None,
        folder: FolderSteps | None = None,
        **parts: Any,
    ) -> AsyncGenerator[Daemon]:
        """With ``config``, the text of a file, the daemon has a real configuration, agents and authority by it."""
        clock = clock or ManualClock()
        provider = provider or EchoProvider(clock)
        agent = Agent(
            "assistant", provider, "echo-1", "be brief", tools or ToolRegistry(), workspace=str(tmp_path)
        )
        facts: dict[str, Any] = {}
        credential = PeerCredential(os.getpid(), os.geteuid() if uid is None else uid)
        memory = MemoryListener(peer=Peer("memory:client", credential), capacity=capacity)
        data_dir = tmp_path / "data"
        path = path or data_dir / "daemon.sock"
        configured = Configured(tmp_path, config, **parts) if config is not None else None
        methods: ConfigMethods | None = None
        if configured is not None:
            authority = authority or configured.authority
            agents = agents or configured.agents
            methods = ConfigMethods(
                configured.store,
                authority,
                prepare=prepare or configured.agents.models.prepare,
                reload=configured.reload,
            )
        if durable is None and config is not None:
            durable = DurableSessions.at(data_dir / "sessions")
        server = Server(
            UnixListener(path, data_dir=data_dir) if socket else memory,
            agents=agents or FixedAgents(agent, Agent("other", provider, "echo-1")),
            authority=authority or RosterAuthority(Config, None, os.geteuid()),
            config=methods,
            version="9.8.7",
            facts=lambda: facts,
            limits=limits,
            clock=clock,
            durable=durable,
            staging=staging,
            folder=folder,
        )

        @asynccontextmanager
        async def connect_raw(user: int | None = None, local: bool = True) -> AsyncGenerator[Wire]:
            assert (user is None and local) or not socket, "the peers of a socket are who they are"
            peer = None if user is None else Peer(f"memory:{user}", PeerCredential(os.getpid(), user))
            peer = peer if local else Peer("memory:afar", local=False)
            wire = Wire(await connect(path) if socket else memory.connect(peer=peer))
            try:
                yield wire
            finally:
                wire.close()

        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(PATIENCE):
                await tasks.start(server.serve)
            try:
                yield Daemon(server, clock, connect_raw, provider, path, facts, configured)
            finally:
                server.stop()

    return serve


@pytest.fixture
def wire_over() -> Callable[[Transport], Wire]:
    """A client that knows only bytes, over any transport."""
    return Wire


@pytest.fixture
def request_frame() -> Callable[..., Frame]:
    """A request as a frame."""

    def frame(method: str, params: Mapping[str, Any] | None = None, request_id: Any = 1) -> Frame:
        return {"jsonrpc": "2.0", "method": method, "params": dict(params or {}), "id": request_id}

    return frame


@pytest.fixture
def closed_transport() -> type[Exception]:
    """What a transport raises once the peer takes nothing more."""
    return TransportClosed


@pytest.fixture
def house(serving: Serving, tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[House]]:
    """Start a daemon with stores; those of an earlier one, if there was one."""

    @asynccontextmanager
    async def opened(*scripts: list[Line], **parts: Any) -> AsyncGenerator[House]:
        faults = Faults()
        durable = DurableSessions.at(tmp_path / "sessions", faults)
        provider = ScriptedProvider(*scripts)
        async with serving(durable=durable, provider=provider, **parts) as daemon, daemon.connect() as wire:
            yield House(daemon, wire, faults, durable, provider, tmp_path)
        durable.close()

    return opened
