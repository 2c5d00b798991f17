"""Our client and the daemon of another machine: a real gateway, with a certificate of a private authority."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.agent.directory import Agent, FixedAgents
from zeroclaw_daemon.agent.providers.echo import EchoProvider
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.authority.tokens import PairedTokens
from zeroclaw_daemon.client import (
    AnswerChunk,
    ConnectionLost,
    FrameTooLarge,
    RemoteError,
    TurnComplete,
    open_daemon,
)
from zeroclaw_daemon.clock import ManualClock, SystemClock
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.schema import Config, PermissionProfile, User
from zeroclaw_daemon.rpc import transport
from zeroclaw_daemon.rpc.server import Server
from zeroclaw_daemon.rpc.transport import dialing
from zeroclaw_daemon.rpc.transport.absent import GatewayNotInstalled
from zeroclaw_daemon.rpc.transport.memory import MemoryListener
from zeroclaw_daemon.rpc.transport.unix import DaemonUnreachable
from zeroclaw_daemon.rpc.transport.wss import GatewaySettings, WssListener
from zeroclaw_daemon.sessions.live import ChatMode

PATIENCE = 60
CONFIG = Config(
    users={"ada": User(uid=4_000_000_001, permission_profiles=("all",))},
    permission_profiles={"all": PermissionProfile(admin=True)},
)


@dataclass(frozen=True)
class Certificates:
    """What a gateway shows, and the files of two authorities: the one that issued it and another one."""

    chain: str
    key: str
    authority: Path
    stranger: Path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    directory = tmp_path_factory.mktemp("certificates")
    issued = (authority := trustme.CA()).issue_cert("localhost", "127.0.0.1")
    chain, key = directory / "chain.pem", directory / "key.pem"
    chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    authority.cert_pem.write_to_path(str(directory / "authority.pem"))
    trustme.CA().cert_pem.write_to_path(str(directory / "stranger.pem"))
    return Certificates(str(chain), str(key), directory / "authority.pem", directory / "stranger.pem")


@dataclass
class Far:
    """A daemon with a gateway."""

    server: Server
    url: str
    environ: dict[str, str]


Serving = Callable[..., AbstractAsyncContextManager[Far]]


@pytest.fixture
def far(tmp_path: Path, certificates: Certificates) -> Serving:
    @asynccontextmanager
    async def serve(*, tls: bool = True) -> AsyncGenerator[Far]:
        tokens = PairedTokens(tmp_path / "paired-tokens.json")
        shown = (certificates.chain, certificates.key) if tls else (None, None)
        listener = WssListener(GatewaySettings("127.0.0.1", 0, *shown))
        agent = Agent("assistant", EchoProvider(SystemClock()), "echo-1", workspace=str(tmp_path))
        server = Server(
            MemoryListener(),
            agents=FixedAgents(agent),
            authority=RosterAuthority(lambda: CONFIG, tokens, os.geteuid()),
            version="1",
            gateway=listener,
        )
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(PATIENCE):
                await tasks.start(server.serve)
            environ = {
                "HOME": str(tmp_path),
                "ZEROCLAW_GATEWAY": f" {listener.endpoint} ",
                "ZEROCLAW_GATEWAY_CA": str(certificates.authority),
                "ZEROCLAW_AUTH_TOKEN": tokens.pair("ada").text,
            }
            try:
                yield Far(server, listener.endpoint, environ)
            finally:
                server.stop()

    return serve


@pytest.mark.anyio
@pytest.mark.req("RPC-224", "RPC-251")
@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
async def test_a_conversation_with_the_daemon_of_another_machine(
    far: Serving, tmp_path: Path, tls: bool
) -> None:
    async with far(tls=tls) as daemon:
        async with open_daemon(environ=daemon.environ) as client:
            assert client.introduced is not None
            assert client.introduced.principal_id == "user:ada"
            session = (await client.new_session("assistant", chat_mode=ChatMode.CHAT)).session_id
            said = "x" * 200_000  # in more pieces than one
            turn = client.prompt(session, said)
            with anyio.fail_after(PATIENCE):
                updates = [update async for update in turn]
            assert "".join(each.text for each in updates if isinstance(each, AnswerChunk)) == said
            assert isinstance(updates[-1], TurnComplete)
            assert turn.result.content == said
            # Pieces of files are for local clients; what fits in a line is sent whole.
            entry = await client.upload(session, b"notes", filename="notes.txt")
            assert (tmp_path / entry.workspace_path).read_bytes() == b"notes"
            with pytest.raises(FrameTooLarge):
                await client.upload(session, bytes(7 * 1024 * 1024))
        with anyio.fail_after(PATIENCE):
            while daemon.server.open_connections:  # noqa: ASYNC110 - a number of the daemon's, not an event
                await anyio.sleep(0.001)


@pytest.mark.anyio
@pytest.mark.req("RPC-251")
async def test_a_daemon_that_stops_ends_the_turns_of_its_far_clients(far: Serving) -> None:
    async with far() as daemon, open_daemon(environ=daemon.environ) as client:
        session = (await client.new_session("assistant", chat_mode=ChatMode.CHAT)).session_id
        turn = client.prompt(session, "/slow 1000000 word")
        with anyio.fail_after(PATIENCE):
            while (await client.session_state(session)).state != "running":
                pass
            daemon.server.stop()
            assert (await turn.finished()).stop_reason == "cancelled"
            await client.peer.ended()
            with pytest.raises(ConnectionLost):
                await client.status()


@pytest.mark.anyio
async def test_a_far_client_without_a_token_is_nobody(far: Serving) -> None:
    async with far() as daemon:
        del daemon.environ["ZEROCLAW_AUTH_TOKEN"]
        with pytest.raises(RemoteError, match="a token says who is calling"):
            async with open_daemon(environ=daemon.environ):
                pass


@pytest.mark.anyio
async def test_only_whom_the_named_authority_vouches_for_is_told_anything(
    far: Serving, certificates: Certificates
) -> None:
    async with far() as daemon:
        for authority in (certificates.stranger, None):  # another one, and those of the system
            with pytest.raises(dialing.GatewayNotTrusted):
                await dialing.connect(daemon.url, authority=authority)


@pytest.mark.anyio
async def test_a_certificate_of_another_host_is_not_trusted(far: Serving, certificates: Certificates) -> None:
    async with far() as daemon:
        listening = daemon.url.replace("127.0.0.1", "[::ffff:127.0.0.1]")
        with pytest.raises(dialing.GatewayNotTrusted):
            await dialing.connect(listening, authority=certificates.authority)


@pytest.mark.anyio
async def test_what_answers_and_is_no_gateway_is_named_with_its_status(far: Serving) -> None:
    async def answer(stream: Any) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\nSECRET")

    async def babble(stream: Any) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"220 mail.example\r\n")

    async def leave(stream: Any) -> None:
        await stream.aclose()

    for talk, words in ((answer, "status 403"), (babble, "no gateway"), (leave, "hung up")):
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, talk)
            port = listener.extra(anyio.abc.SocketAttribute.local_port)
            with pytest.raises(dialing.GatewayUnreachable, match=words) as caught:
                await dialing.connect(f"ws://127.0.0.1:{port}")
            assert "SECRET" not in caught.value.message
            with pytest.raises(dialing.GatewayUnreachable):
                await dialing.connect(f"wss://127.0.0.1:{port}")
            tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_gateway_that_says_nothing_is_waited_for_thirty_seconds() -> None:
    clock = ManualClock()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    outcome: list[str] = []

    async def dial() -> None:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        with pytest.raises(dialing.GatewayUnreachable) as caught:
            await dialing.connect(f"wss://127.0.0.1:{port}", clock=clock)
        outcome.append(caught.value.message)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(dial)
        with anyio.fail_after(PATIENCE):
            while not clock.waits:  # noqa: ASYNC110 - a number of the clock's, not an event
                await anyio.sleep(0.001)
        clock.advance(29.9)
        await anyio.wait_all_tasks_blocked()
        assert outcome == []
        clock.advance(0.2)
    assert "30 seconds" in outcome[0]


@pytest.mark.anyio
async def test_nobody_at_the_address_is_told_as_that(tmp_path: Path) -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    await listener.aclose()
    for url in (f"ws://127.0.0.1:{port}", f"wss://{'x' * 64}.invalid"):
        with pytest.raises(dialing.GatewayUnreachable, match="no daemon answers at"):
            await dialing.connect(url)


@pytest.mark.anyio
@pytest.mark.parametrize("content", [None, b"", b"no certificate"], ids=["missing", "empty", "other"])
async def test_a_file_of_authorities_that_is_none_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "authority.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(dialing.AuthorityFileUnusable, match=r"authority\.pem") as caught:
        await dialing.connect("wss://127.0.0.1:1", authority=file)
    assert caught.value.details == {"path": str(file)}
    with pytest.raises(dialing.AuthorityFileUnusable):
        await dialing.connect("wss://127.0.0.1:1", authority=Path("no\0path"))


REFUSED = {
    "http://example.org/rpc": "form",
    "example.org:42617": "form",
    "wss://": "form",
    "wss://example.org:port": "form",
    "wss://example.org/rpc#part": "form",
    "wss://..:1": "form",
    "wss://ada:SECRET@example.org": "parameters",
    "wss://example.org/rpc?token=SECRET": "parameters",
    "wss://example.org/other": "path",
    "ws://example.org/rpc": "plain",
    "ws://192.0.2.1:42617": "plain",
    "ws://[2001:db8::1]:42617": "plain",
}


@pytest.mark.anyio
@pytest.mark.parametrize("url", REFUSED)
async def test_an_address_that_is_none_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(dialing.GatewayAddressInvalid) as caught:
        await dialing.connect(url)
    assert caught.value.details == {"fault": REFUSED[url]}
    assert "SECRET" not in caught.value.message
    with pytest.raises(dialing.GatewayAddressInvalid, match="ZEROCLAW_GATEWAY: this is no address"):
        async with open_daemon(environ={"ZEROCLAW_GATEWAY": url}):
            pass


@given(st.text(max_size=40) | st.text("ws:/[]@?#.1a", max_size=20).map(lambda rest: f"wss://{rest}"))
def test_whatever_an_address_is_it_is_taken_or_refused(url: str) -> None:
    try:
        place = dialing.Place.of(url)
    except dialing.GatewayAddressInvalid:
        return
    assert dialing.Place.of(place.url).url == place.url


@pytest.mark.anyio
async def test_without_an_address_the_daemon_of_the_installation_is_meant(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "ZEROCLAW_GATEWAY": " ", "ZEROCLAW_SOCKET": str(tmp_path / "s")}
    with pytest.raises(DaemonUnreachable, match=str(tmp_path)):
        async with open_daemon(Paths.resolve(None, environ), environ=environ):
            pass


@pytest.mark.anyio
async def test_without_its_library_the_gateway_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zeroclaw_daemon.rpc.transport.dialing", None)
    monkeypatch.delattr(transport, "dialing")
    with pytest.raises(GatewayNotInstalled):
        async with open_daemon(environ={"ZEROCLAW_GATEWAY": "wss://example.org"}):
            pass
