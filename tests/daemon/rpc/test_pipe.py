"""The named pipe, through its seam: a factory that makes instances as Windows does, out of Unix sockets."""

from __future__ import annotations

import inspect
import json
import os
import socket
from pathlib import Path
from typing import Any

import anyio
import pytest

from zeroclaw_daemon.agent.directory import Agent, FixedAgents
from zeroclaw_daemon.agent.providers.echo import EchoProvider
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.schema import Config, PermissionProfile, User
from zeroclaw_daemon.rpc.server import Server
from zeroclaw_daemon.rpc.transport.base import AcceptFailed
from zeroclaw_daemon.rpc.transport.claim import EndpointBusy
from zeroclaw_daemon.rpc.transport.endpoint import listener_at
from zeroclaw_daemon.rpc.transport.pipe import PipeFactory, PipeInstance, PipeListener
from zeroclaw_daemon.rpc.transport.unix import UnixListener

pytestmark = pytest.mark.anyio

NAME = r"\\.\pipe\zeroclaw-0123456789abcdef"
PATIENCE = 60


class Instance:
    """An instance over a socket pair."""

    def __init__(self) -> None:
        self._mine, self._client = socket.socketpair()
        self._mine.setblocking(False)
        self._taken = anyio.Event()
        self.fault: OSError | None = None
        self.closed = False
        self._handed_out = False

    def take(self) -> socket.socket:
        """The client's end."""
        self._taken.set()
        self._handed_out = True
        self._client.setblocking(False)
        return self._client

    def fail(self, error: OSError) -> None:
        self.fault = error
        self._taken.set()

    async def connected(self) -> None:
        await self._taken.wait()
        if self.fault is not None:
            raise self.fault

    async def read(self, max_bytes: int) -> bytes:
        while True:
            try:
                return self._mine.recv(max_bytes)
            except BlockingIOError:
                try:
                    await anyio.wait_readable(self._mine)
                except anyio.ClosedResourceError:
                    return b""
            except OSError:
                return b""

    async def write(self, data: memoryview) -> int:
        return self._mine.send(data)

    async def gone(self) -> None:
        while await self.read(65_536):
            pass

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            anyio.notify_closing(self._mine)
            self._mine.close()
            if not self._handed_out:
                self._client.close()


class Pipes:
    """Makes instances; as Windows, it lets one program be the first of a name."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []
        self.instances: list[Instance] = []
        self.full = 0

    def __call__(self, name: str, *, first: bool) -> PipeInstance:
        self.asked.append((name, first))
        if first and any(not instance.closed for instance in self.instances):
            raise PermissionError(5, "Access is denied")
        if self.full:
            self.full -= 1
            raise OSError(231, "All pipe instances are busy")
        self.instances.append(Instance())
        return self.instances[-1]


async def ask(client: socket.socket, *frames: dict[str, Any]) -> list[dict[str, Any]]:
    """Send requests and read as many answers."""
    client.send(b"".join(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n" for frame in frames))
    data = b""
    with anyio.fail_after(PATIENCE):
        while data.count(b"\n") < len(frames):
            await anyio.wait_readable(client)
            piece = client.recv(65_536)
            assert piece, "the stream ended"
            data += piece
    return [json.loads(line) for line in data.splitlines()]


INITIALIZE = {"method": "initialize", "params": {"protocolVersion": 1}, "id": 1}
STATUS = {"method": "status", "params": {}, "id": 2}


@pytest.mark.req("RPC-014", "RPC-013")
@pytest.mark.parametrize(
    "named", [{}, {"ZEROCLAW_SOCKET": r"\\.\pipe\my-zeroclaw"}], ids=["default", "named"]
)
async def test_the_pipe_that_is_asked_for_is_the_one_the_paths_name(
    named: dict[str, str], tmp_path: Path
) -> None:
    paths = Paths.resolve(None, {"USERPROFILE": "C:\\u", **named}, platform="win32", cwd="C:\\")
    pipes = Pipes()
    listener = listener_at(paths.endpoint, data_dir=tmp_path, pipes=pipes)
    async with listener.opened():
        assert listener.endpoint == paths.endpoint
    assert pipes.asked == [(named.get("ZEROCLAW_SOCKET", paths.endpoint), True)]


@pytest.mark.req("RPC-054")
async def test_the_first_instance_is_exclusive_and_no_descriptor_is_given() -> None:
    pipes = Pipes()
    factory: PipeFactory = pipes
    assert list(inspect.signature(PipeFactory.__call__).parameters) == ["self", "name", "first"]
    listener, second = PipeListener(NAME, factory), PipeListener(NAME, factory)
    async with listener.opened():
        with pytest.raises(EndpointBusy) as refused:
            async with second.opened():
                pytest.fail("two programs serve one name")
        assert refused.value.details == {"path": NAME}
        clients = [pipes.instances[0].take()]
        (await listener.accept()).close()
        clients.append(pipes.instances[1].take())
        (await listener.accept()).close()
    assert pipes.asked == [(NAME, True), (NAME, True), (NAME, False), (NAME, False)]
    assert all(instance.closed for instance in pipes.instances)
    async with second.opened():
        pass
    for client in clients:
        client.close()


@pytest.mark.req("RPC-054")
def test_the_page_on_authority_says_what_the_default_grants() -> None:
    page = (Path(__file__).parents[3] / "docs" / "authority.md").read_text(encoding="utf-8")
    section = " ".join(page.partition("\n## On Windows\n")[2].partition("\n## ")[0].split())
    granted = (
        "full control for the user who made it, for administrators and for SYSTEM",
        "Everyone and anonymous users may read",
    )
    code = " ".join(str(inspect.getdoc(PipeFactory)).split())
    for words in granted:
        assert words in section
        assert words in code


@pytest.mark.req("RPC-055")
async def test_a_client_of_the_pipe_is_recorded_as_local_without_process_or_user(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    pipes = Pipes()
    config = Config()
    authority = RosterAuthority(lambda: config, None, os.geteuid())
    server = Server(PipeListener(NAME, pipes), agents=FixedAgents(), authority=authority, version="1")
    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(PATIENCE):
            await tasks.start(server.serve)
        with pipes.instances[0].take() as client:
            [bound, status] = await ask(client, INITIALIZE, STATUS)
            assert bound["result"]["principalId"] == "shared-operator"
            assert status["result"]["localIpcEndpoint"] == NAME
            # The system does not tell users apart, so with a roster nobody is known without a token.
            ada = User(uid=1, permission_profiles=("all",))
            config = Config(users={"ada": ada}, permission_profiles={"all": PermissionProfile(admin=True)})
            answers = await ask(client, STATUS, INITIALIZE)
            assert [answer["error"]["code"] for answer in answers] == [-32010, -32010]
        server.stop()
    facts = [record.zeroclaw for record in caplog.records if hasattr(record, "zeroclaw")]
    audited = [fact for fact in facts if fact["category"] == "audit"]
    assert {fact["action"] for fact in audited} == {"connected", "principal_bound", "denied", "disconnected"}
    assert {fact["peer"] for fact in audited} == {"pipe:local"}
    assert not any({"pid", "uid"} & fact.keys() for fact in audited)


async def test_an_instance_that_fails_is_replaced() -> None:
    pipes = Pipes()
    listener = PipeListener(NAME, pipes)
    async with listener.opened():
        pipes.instances[0].fail(OSError(232, "The pipe is being closed"))
        with pytest.raises(AcceptFailed):
            await listener.accept()
        pipes.full = 1
        with pytest.raises(AcceptFailed):
            await listener.accept()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served, listener, b"one")
            with anyio.fail_after(PATIENCE):
                while len(pipes.instances) < 2:
                    await anyio.lowlevel.checkpoint()
            pipes.full = 1  # the next instance cannot be made, and this client is served all the same
            with pipes.instances[1].take() as client:
                client.send(b"one")
        assert pipes.full == 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served, listener, b"two")
            with anyio.fail_after(PATIENCE):
                while len(pipes.instances) < 3:
                    await anyio.lowlevel.checkpoint()
            with pipes.instances[2].take() as client:
                client.send(b"two")
    assert pipes.asked.count((NAME, True)) == 1


async def served(listener: PipeListener, said: bytes) -> None:
    """Accept one client and hear what it says."""
    transport = await listener.accept()
    with anyio.fail_after(PATIENCE):
        assert await transport.receive(10) == said
    transport.close()


TRANSCRIPT = (
    b'{"jsonrpc":"2.0","method":"status","id":0}\n',
    b'{"jsonrpc":"2.0","method":"initialize","params":{"tuiId":"tui_0000000a"},"id":1}\r\n\n',
    b'{"jsonrpc":"2.0","method":"session/new","params":{"agentAlias":"assistant","sessionId":"s","cwd":"/"},"id":2}\n{',
    b'\n[]\n{"id":"zc-out-0","result":1}\n{"jsonrpc":"2.0","method":"no/such","id":"\xc3\xbc\\ud800"}\n',
    b'{"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"s","prompt":"/chunks 9 abcdefghi"},"id":3}\n',
)
ANSWERED = 7
"""Requests and malformed frames of the transcript."""


@pytest.mark.req("RPC-020", "RPC-224")
async def test_the_pipe_carries_the_bytes_of_the_socket(short_path: Path) -> None:
    pipes, path = Pipes(), short_path / "daemon.sock"
    agents = FixedAgents(Agent("assistant", EchoProvider(), "m"))
    said: list[bytes] = []
    for listener in (PipeListener(NAME, pipes), UnixListener(path, data_dir=short_path)):
        authority = RosterAuthority(Config, None, os.geteuid())
        server = Server(listener, agents=agents, authority=authority, version="1")
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(PATIENCE):
                await tasks.start(server.serve)
            if pipes.instances and not said:
                client = pipes.instances[0].take()
            else:
                client = socket.socket(socket.AF_UNIX)
                client.connect(str(path))
                client.setblocking(False)
            with client:
                said.append(await converse(client))
            server.stop()
    assert said[0] == said[1]
    assert said[0].count(b"\n") == ANSWERED + 9 + 1


async def converse(client: socket.socket) -> bytes:
    """Send the transcript piece by piece; every byte that comes until the prompt is answered."""
    data = b""
    with anyio.fail_after(PATIENCE):
        for piece in TRANSCRIPT:
            client.send(piece)
        while b'"id":3}' not in data:
            await anyio.wait_readable(client)
            data += client.recv(65_536)
    return data
