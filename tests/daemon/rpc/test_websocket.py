"""WebSockets of other machines: a real port, a real TLS server under a private authority, and a client that is not ours."""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.server import ServerProtocol

from zeroclaw_daemon.agent.directory import Agent, FixedAgents
from zeroclaw_daemon.agent.providers.base import Provider, TextDelta
from zeroclaw_daemon.agent.providers.echo import EchoProvider
from zeroclaw_daemon.agent.providers.scripted import ScriptedProvider
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.authority.tokens import PairedTokens
from zeroclaw_daemon.clock import Clock, ManualClock, SystemClock
from zeroclaw_daemon.config.schema import Config, PermissionProfile, User
from zeroclaw_daemon.records import STRANGERS_RECORDED
from zeroclaw_daemon.rpc.limits import ConnectionLimits, ServerLimits
from zeroclaw_daemon.rpc.server import Server
from zeroclaw_daemon.rpc.transport.base import AcceptFailed
from zeroclaw_daemon.rpc.transport.memory import MemoryListener
from zeroclaw_daemon.rpc.transport.sockets import accepted
from zeroclaw_daemon.rpc.transport.upgrade import UpgradeRequest, UpgradeRules, is_local_name
from zeroclaw_daemon.rpc.transport.websocket import WebSocketLimits
from zeroclaw_daemon.rpc.transport.wss import (
    GatewayCertificateUnusable,
    GatewaySettings,
    GatewayUnavailable,
    WssListener,
)

pytestmark = pytest.mark.anyio

PATIENCE = 60
CONFIG = Config(
    users={"ada": User(uid=4_000_000_001, permission_profiles=("all",))},
    permission_profiles={"all": PermissionProfile(admin=True)},
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True)
class Certified:
    """A certificate for this machine, and what trusts it."""

    certificate: str
    private_key: str
    client: ssl.SSLContext
    key_bytes: bytes


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    directory = tmp_path_factory.mktemp("certificate")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    chain, key = directory / "chain.pem", directory / "key.pem"
    chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return Certified(str(chain), str(key), client, key.read_bytes())


@dataclass
class Gate:
    """A server with a way in for other machines."""

    server: Server
    listener: WssListener
    clock: Clock
    token: str
    local: MemoryListener
    tls: ssl.SSLContext | None

    @asynccontextmanager
    async def connect(self, *, greet: bool = True, **options: Any) -> AsyncGenerator[ClientConnection]:
        options = {"ping_interval": None, "close_timeout": PATIENCE, "max_size": None, **options}
        async with connect(options.pop("url", self.listener.endpoint), ssl=self.tls, **options) as peer:
            if greet:
                assert "result" in await ask(peer, "initialize", {"authToken": self.token})
            yield peer

    def raw(self, source: str = "127.0.0.1") -> socket.socket:
        """A connection that speaks nothing yet."""
        peer = socket.create_connection(
            ("127.0.0.1", int(self.listener.endpoint.split(":")[2].split("/")[0])), source_address=(source, 0)
        )
        peer.setblocking(False)
        return peer

    async def until(self, holds: Callable[[], bool]) -> None:
        with anyio.fail_after(PATIENCE):
            while not holds():  # noqa: ASYNC110 - what holds is a number of the daemon's, not an event
                await anyio.sleep(0.001)


async def ask(peer: ClientConnection, method: str, params: Any = None, number: int = 1) -> dict[str, Any]:
    """Call a method; the answer."""
    await peer.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}, "id": number}))
    while True:
        frame = await hear(peer)
        if frame.get("id") == number and "method" not in frame:
            return frame


async def hear(peer: ClientConnection) -> dict[str, Any]:
    """The next message, which is one JSON object without a line end."""
    with anyio.fail_after(PATIENCE):
        message = await peer.recv()
    assert isinstance(message, str)
    assert "\n" not in message
    return json.loads(message)


async def goodbye(peer: ClientConnection) -> int | None:
    """The code that the daemon closed with."""
    with anyio.fail_after(PATIENCE):
        try:
            while True:
                await peer.recv()
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd is not None else None


async def read_all(peer: socket.socket) -> bytes:
    """What a plain connection says until its end, which is a reset where nobody read what the client sent."""
    said = b""
    with anyio.fail_after(PATIENCE):
        while True:
            await anyio.wait_readable(peer)
            try:
                piece = peer.recv(65_536)
            except ConnectionResetError:
                return said
            if not piece:
                return said
            said += piece


Gates = Callable[..., Any]


@pytest.fixture
def gate(tmp_path: Path, certified: Certified) -> Gates:
    @asynccontextmanager
    async def serve(
        *,
        tls: bool = True,
        origins: tuple[str, ...] = (),
        clock: Clock | None = None,
        limits: ServerLimits | None = None,
        web: WebSocketLimits | None = None,
        provider: Provider | None = None,
    ) -> AsyncGenerator[Gate]:
        clock = clock or SystemClock()
        tokens = PairedTokens(tmp_path / "paired-tokens.json")
        token = tokens.pair("ada").text
        found = (certified.certificate, certified.private_key) if tls else (None, None)
        listener = WssListener(
            GatewaySettings("127.0.0.1", 0, *found, allowed_origins=origins), clock=clock, limits=web
        )
        agent = Agent("assistant", provider or EchoProvider(clock), "echo-1", workspace=str(tmp_path))
        local = MemoryListener()
        server = Server(
            local,
            agents=FixedAgents(agent),
            authority=RosterAuthority(lambda: CONFIG, tokens, os.geteuid()),
            version="1",
            clock=clock,
            gateway=listener,
            gateway_limits=limits or ServerLimits(refusal_seconds=PATIENCE),
        )
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(PATIENCE):
                await tasks.start(server.serve)
            try:
                yield Gate(server, listener, clock, token, local, certified.client if tls else None)
            finally:
                server.stop()

    return serve


# One protocol, whatever carries it.


@pytest.mark.req("RPC-224", "RPC-227")
async def test_a_turn_over_tls_is_the_turn_of_the_socket(gate: Gates) -> None:
    async with gate() as served, served.connect() as peer:
        session = (await ask(peer, "session/new", {"agentAlias": "assistant"}))["result"]["sessionId"]
        prompt = {"sessionId": session, "prompt": "/chunks 3 abc"}
        await peer.send(json.dumps({"jsonrpc": "2.0", "method": "session/prompt", "params": prompt, "id": 7}))
        frames = [await hear(peer) for _ in range(5)]
        kinds = [frame["params"]["type"] for frame in frames[:-1]]
        assert kinds == ["agent_message_chunk"] * 3 + ["turn_complete"]
        assert frames[-1]["result"]["content"] == "abc"
        status = (await ask(peer, "status"))["result"]
        assert status["gateway"] == {
            "state": "listening", "endpoint": served.listener.endpoint, "connections": 1,
        }  # fmt: skip
        assert served.listener.endpoint.startswith("wss://127.0.0.1:")


@pytest.mark.req("RPC-224")
async def test_memory_and_websocket_carry_the_same_messages(gate: Gates) -> None:
    """The dispatcher is the same object; what differs is whom it takes for whom, so both show the same token."""
    frames = [
        {"method": "initialize", "params": {"tuiId": "tui_0000000a"}, "id": 1},
        {"method": "session/new", "params": {"agentAlias": "assistant", "sessionId": "s"}, "id": 2},
        {"method": "session/prompt", "params": {"sessionId": "s", "prompt": "/think a"}, "id": 3},
        {"method": "session/state", "params": {"sessionId": "t"}, "id": 4},
        {"method": "no/such", "id": 5},
        {"method": "session/close", "params": {"sessionId": "s"}, "id": 6},
    ]
    async with gate() as served:
        frames[0]["params"]["authToken"] = served.token  # type: ignore[index]
        lines = [json.dumps({"jsonrpc": "2.0", **frame}) for frame in frames]
        over_websocket: list[str] = []
        async with served.connect(greet=False) as peer:
            for number, line in enumerate(lines, 1):
                await peer.send(line)
                while json.loads(message := str(await peer.recv())).get("id") != number:
                    over_websocket.append(message)
                over_websocket.append(message)
        over_memory = b""
        near = served.local.connect()
        for number, line in enumerate(lines, 1):
            await near.send(memoryview(f"{line}\n".encode()))
            while f'"id":{number}'.encode() not in over_memory.rpartition(b"\n")[0].rpartition(b"\n")[2]:
                over_memory += await near.receive(65_536)
        near.close()
        assert over_memory.decode().splitlines() == over_websocket
        assert len(over_websocket) == 9


async def test_without_a_token_a_peer_of_another_machine_is_nobody(gate: Gates) -> None:
    async with gate() as served, served.connect(greet=False) as peer:
        assert (await ask(peer, "status"))["error"]["data"]["reason"] == "initialize_required"
        assert (await ask(peer, "initialize"))["error"]["data"]["reason"] == "authentication_failed"
        assert "result" in await ask(peer, "initialize", {"authToken": served.token})


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("{", "parse_error"),
        ('"a\nb"', "parse_error"),
        ("[]", "invalid_request"),
        ('{"jsonrpc":\n"2.0",\r\n"id":1}', "invalid_request"),
    ],
)
async def test_a_message_is_one_line_whatever_blanks_are_in_it(
    gate: Gates, message: str, reason: str
) -> None:
    async with gate(tls=False) as served, served.connect() as peer:
        await peer.send(message)
        assert (await hear(peer))["error"]["data"]["reason"] == reason
        pretty = json.dumps({"jsonrpc": "2.0", "method": "status", "id": 5}, indent=2)
        assert "\n" in pretty
        await peer.send("")
        await peer.send(pretty)
        assert (await hear(peer))["id"] == 5


async def test_a_message_may_come_in_pieces(gate: Gates) -> None:
    async with gate(tls=False) as served, served.connect() as peer:
        await peer.send(iter(['{"jsonrpc":"2.0",', '"method":"status"', ',"id":5}']))
        assert (await hear(peer))["id"] == 5


async def test_a_message_that_is_broken_off_is_nothing(gate: Gates, caplog: pytest.LogCaptureFixture) -> None:
    async with gate(tls=False) as served, served.connect() as peer:
        sessions = served.server.sessions

        async def halves() -> AsyncGenerator[str]:
            # What has been sent is a whole request already, and the message is not over.
            yield '{"jsonrpc":"2.0","method":"session/new","params":{"agentAlias":"assistant"},"id":5}'
            await peer.ping()
            peer.transport.abort()
            await peer.wait_closed()

        with pytest.raises(ConnectionClosed):
            await peer.send(halves())
        await served.until(lambda: served.server.open_connections == 0)
        assert len(sessions) == 0


async def test_bytes_are_no_messages(gate: Gates) -> None:
    async with gate(tls=False) as served, served.connect() as peer:
        await peer.send(iter([b'{"jsonrpc":"2.0",', b'"method":"session/new","id":5}']))
        assert await goodbye(peer) == 1003
        assert len(served.server.sessions) == 0


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frames=st.lists(st.binary(max_size=200), max_size=6))
async def test_no_bytes_after_the_upgrade_harm_anybody(gate: Gates, frames: list[bytes]) -> None:
    async with gate(tls=False) as served, served.connect() as other:
        async with served.connect(greet=False) as peer:
            for data in frames:
                peer.transport.write(data)
            peer.transport.write_eof()
            await peer.wait_closed()
        assert "result" in await ask(other, "status")


@pytest.mark.req("RPC-198")
async def test_large_files_are_sent_by_local_clients_alone(gate: Gates, tmp_path: Path) -> None:
    async with gate() as served, served.connect() as peer:
        session = (await ask(peer, "session/new", {"agentAlias": "assistant"}))["result"]["sessionId"]
        for method, params in (
            ("file/upload/begin", {"session_id": session, "size_bytes": 1}),
            ("file/upload/chunk", {"upload_id": "0" * 32, "offset": 0, "data_b64": "QQ=="}),
            ("file/upload/commit", {"upload_id": "0" * 32}),
        ):
            error = (await ask(peer, method, params))["error"]
            assert (error["code"], error["data"]["rule"]) == (-32012, "local_only"), method
        files = {"session_id": session, "files": [{"data_b64": "QUJD", "filename": "a.txt"}]}
        entry = (await ask(peer, "file/attach", files))["result"]["files"][0]
        assert entry["size_bytes"] == 3
        by_path = {"session_id": session, "files": [{"path": str(tmp_path / "paired-tokens.json")}]}
        assert (await ask(peer, "file/attach", by_path))["error"]["data"]["rule"] == "local_only"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    said=st.one_of(
        st.binary(max_size=300),
        st.builds(
            lambda line, rest: line + rest,
            st.sampled_from([b"GET /rpc HTTP/1.1\r\n", b"GET /rpc HTTP/1.1\r\nHost: localhost\r\n", b"GET "]),
            st.binary(max_size=200),
        ),
    )
)
async def test_no_bytes_before_the_upgrade_open_anything(gate: Gates, said: bytes) -> None:
    async with gate(tls=False) as served, served.connect() as other:
        with served.raw() as peer:
            peer.send(said)
            peer.shutdown(socket.SHUT_WR)
            assert b" 101 " not in await read_all(peer)
        assert "result" in await ask(other, "status")


# Who may connect.


UPGRADE = (
    "GET {target} HTTP/1.1\r\n{headers}Upgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        ("/rpc", "Host: localhost:1\r\n", 101),
        ("/rpc", "Host: 127.0.0.1\r\n", 101),
        ("/rpc", "Host: localhost\r\nOrigin: https://good.example\r\n", 101),
        ("/rpc", "Host: localhost\r\nOrigin: https://evil.example\r\n", 403),
        ("/rpc", "Host: localhost\r\nOrigin: null\r\n", 403),
        ("/rpc", "Host: localhost\r\nOrigin: https://good.example\r\nOrigin: https://good.example\r\n", 403),
        ("/rpc", "Host: rebound.example\r\n", 421),
        ("/rpc", "", 421),
        ("/rpc", "Host: localhost\r\nHost: localhost\r\n", 421),
        ("/rpc?token=abc", "Host: localhost\r\n", 400),
        ("/rpc?", "Host: localhost\r\n", 400),
        ("/", "Host: localhost\r\n", 404),
        ("/rpc/", "Host: localhost\r\n", 404),
        ("http://localhost/rpc", "Host: localhost\r\n", 404),
    ],
)
async def test_a_request_becomes_a_websocket_or_is_told_why_not(
    gate: Gates, caplog: pytest.LogCaptureFixture, target: str, headers: str, status: int
) -> None:
    caplog.set_level("INFO", "zeroclaw_daemon")
    async with gate(tls=False, origins=("https://good.example",)) as served:
        with served.raw() as peer:
            # What is sent ahead of the answer must not count, whatever the answer is.
            peer.send(UPGRADE.format(target=target, headers=headers).encode())
            await anyio.wait_readable(peer)
            said = peer.recv(65_536).decode()
        assert said.startswith(f"HTTP/1.1 {status} ")
        assert "abc" not in said
        await served.until(lambda: served.server.open_connections == 0)
    refused = [
        r.zeroclaw for r in caplog.records if getattr(r, "zeroclaw", {}).get("action") == "upgrade_refused"
    ]
    assert len(refused) == (status != 101)
    assert "abc" not in caplog.text + json.dumps(refused)


@pytest.mark.parametrize("status", [403, 101])
async def test_nobody_speaks_ahead_of_the_decision(gate: Gates, status: int) -> None:
    origin = "" if status == 101 else "Origin: https://evil.example\r\n"
    request = UPGRADE.format(target="/rpc", headers=f"Host: localhost\r\n{origin}").encode()
    text = b'{"jsonrpc":"2.0","method":"session/new","id":5}'
    frame = bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text
    async with gate(tls=False) as served:
        with served.raw() as peer:
            peer.send(request + frame)
            assert b"jsonrpc" not in await read_all(peer)
        await served.until(lambda: served.server.open_connections == 0)


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\xa5", b"{}\n", b"POST /rpc HTTP/1.1\r\n\r\n", b""]
)
@pytest.mark.parametrize("tls", [True, False])
async def test_who_speaks_something_else_gets_nothing_of_the_daemon(
    gate: Gates, tls: bool, said: bytes
) -> None:
    async with gate(tls=tls) as served, served.connect() as other:
        with served.raw() as peer:
            peer.send(said)
            peer.shutdown(socket.SHUT_WR)
            assert b"jsonrpc" not in await read_all(peer)
        assert "result" in await ask(other, "status")


async def test_a_client_that_trusts_another_authority_does_not_connect(gate: Gates) -> None:
    async with gate() as served:
        served.tls = ssl.create_default_context()
        with pytest.raises(ssl.SSLCertVerificationError):
            async with served.connect():
                pass
        await served.until(lambda: served.server.open_connections == 0)


@pytest.mark.parametrize(
    ("name", "local"),
    [
        ("localhost", True), ("LOCALHOST:42617", True), ("127.0.0.1", True), ("127.9.9.9:1", True),
        ("[::1]", True), ("[::1]:42617", True), ("::1", True),
        ("", False), ("localhost.", False), ("localhost.evil.example", False), ("10.0.0.1", False),
        ("[::1]evil", False), ("[::1", False), ("0.0.0.0", False), ("2130706433", False), ("127.1", False),
        ("evil.example:localhost", False),
    ],
)  # fmt: skip
def test_which_names_are_this_machine_s_own(name: str, local: bool) -> None:
    assert is_local_name(name) is local


@given(
    target=st.text(max_size=20),
    origins=st.lists(st.text(max_size=20), max_size=2),
    hosts=st.lists(st.text(), max_size=2),
)
def test_the_rules_answer_everything_and_quote_nothing(
    target: str, origins: list[str], hosts: list[str]
) -> None:
    rules = UpgradeRules(frozenset({"https://good.example"}))
    refusal = rules.refusal(UpgradeRequest(target, origins, hosts))
    allowed = target == "/rpc" and set(origins) <= {"https://good.example"} and len(origins) < 2
    assert (refusal is None) == (allowed and len(hosts) == 1 and is_local_name(hosts[0]))


# Bounds.


@pytest.mark.req("RPC-024", "RPC-225")
@pytest.mark.parametrize("far", ["nothing", "tls", "upgraded"])
async def test_the_time_to_introduce_oneself_covers_the_negotiation(gate: Gates, far: str) -> None:
    clock = ManualClock()
    async with gate(clock=clock) as served:
        if far == "upgraded":
            async with served.connect(greet=False) as peer:
                await ask(peer, "no/such/method")
                clock.advance(30.1)
                assert await goodbye(peer) is None
        else:
            with served.raw() as peer:
                if far == "tls":
                    peer.send(b"\x16\x03\x01\x02\x00\x01")
                await served.until(lambda: served.server.open_connections == 1 and clock.waits > 0)
                clock.advance(30.1)
                assert await read_all(peer) == b""
        await served.until(lambda: served.server.open_connections == 0)


@pytest.mark.req("RPC-033", "RPC-034", "RPC-036")
async def test_the_ceiling_counts_who_has_not_negotiated_yet(gate: Gates) -> None:
    limits = ServerLimits(max_connections=2, refusal_seconds=PATIENCE)
    async with gate(limits=limits) as served:
        async with served.connect():
            with served.raw() as silent:
                await served.until(lambda: served.server.open_connections == 2)
                async with served.connect(), served.connect(greet=False) as refused:
                    assert await read_all(silent) == b""
                    assert (await hear(refused))["error"]["data"] == {
                        "reason": "connection_limit",
                        "limit": 2,
                    }
                    assert await goodbye(refused) == 1001
        await served.until(lambda: served.server.open_connections == 0)
        async with served.connect() as peer:
            assert "result" in await ask(peer, "status")


@pytest.mark.req("RPC-035")
async def test_silent_connections_keep_nobody_out_who_has_a_token(
    gate: Gates, caplog: pytest.LogCaptureFixture
) -> None:
    limits = ServerLimits(max_connections=3, refusal_seconds=PATIENCE)
    async with gate(limits=limits) as served:
        silent = [served.raw() for _ in range(9)]
        await served.until(lambda: served.server.open_connections == 3)
        async with served.connect() as first, served.connect() as second, served.connect() as third:
            for peer in silent:
                assert await read_all(peer) == b""
                peer.close()
            for peer in (first, second, third):
                assert "result" in await ask(peer, "status")
            async with served.connect(greet=False) as refused:
                assert (await hear(refused))["error"]["data"]["reason"] == "connection_limit"
        await served.until(lambda: served.server.open_connections == 0)
    told = [getattr(record, "zeroclaw", {}).get("action") for record in caplog.records]
    assert told.count("connection_limit") == 1


async def test_of_the_strangers_one_of_the_host_gives_way_that_has_the_most(gate: Gates) -> None:
    async with gate(limits=ServerLimits(max_connections=3)) as served:
        lone = served.raw("127.0.0.2")
        crowd = [served.raw("127.0.0.3"), served.raw("127.0.0.3")]
        await served.until(lambda: served.server.open_connections == 3)
        async with served.connect() as peer:
            assert await read_all(crowd[0]) == b""
            assert "result" in await ask(peer, "status")
            for waiting in (lone, crowd[1]):
                with pytest.raises(BlockingIOError):
                    waiting.recv(1)
        for each in (lone, *crowd):
            each.close()


@pytest.mark.req("RPC-021", "RPC-023")
async def test_a_message_of_the_limit_is_served_and_one_byte_more_closes(gate: Gates) -> None:
    limits = ServerLimits(connection=ConnectionLimits(frame_bytes=5001))
    frame = json.dumps({"jsonrpc": "2.0", "method": "status", "id": 3})
    async with gate(limits=limits, web=WebSocketLimits(message_bytes=5000)) as served:
        async with served.connect() as peer:
            await peer.send(frame.ljust(5000))
            assert (await hear(peer))["id"] == 3
            await peer.send(frame.ljust(5001))
            assert await goodbye(peer) == 1009
        async with served.connect() as peer:
            await peer.send(frame[:10] for _ in range(501))
            assert await goodbye(peer) == 1009


async def test_a_stranger_sends_less(gate: Gates) -> None:
    frame = json.dumps({"jsonrpc": "2.0", "method": "status", "id": 3})
    async with gate(web=WebSocketLimits(stranger_bytes=500)) as served:
        async with served.connect(greet=False) as peer:
            await peer.send(frame.ljust(500))
            assert (await hear(peer))["error"]["data"]["reason"] == "initialize_required"
            await peer.send(frame.ljust(501))
            assert await goodbye(peer) == 1009
        async with served.connect() as peer:
            await peer.send(frame.ljust(501))
            assert (await hear(peer))["id"] == 3


def test_the_shipped_bounds() -> None:
    limits = WebSocketLimits()
    assert limits.message_bytes == ConnectionLimits().frame_bytes - 1 == 8_388_607
    assert (limits.stranger_bytes, limits.ping_seconds, limits.pong_seconds) == (65_536, 20, 20)


async def test_a_peer_that_gives_no_sign_of_life_is_given_up(gate: Gates) -> None:
    clock = ManualClock()
    async with gate(clock=clock, tls=False) as served:
        with served.raw() as peer:
            peer.send(UPGRADE.format(target="/rpc", headers="Host: localhost\r\n").encode())
            await anyio.wait_readable(peer)
            assert b"101" in peer.recv(4096)
            await served.until(lambda: clock.waits == 2)
            clock.advance(20.1)
            await anyio.wait_readable(peer)
            assert peer.recv(100) == b"\x89\x00"
            peer.send(b"\x8a\x80\x00\x00\x00\x00")  # the answer, and with it another 20 s
            peer.send(b"\x89\x80\x00\x00\x00\x00")
            await anyio.wait_readable(peer)
            assert peer.recv(100) == b"\x8a\x00"
            assert served.server.open_connections == 1
            clock.advance(10)
            assert await read_all(peer) == b""  # no initialize within 30 s


async def test_an_unanswered_ping_ends_the_connection_of_a_known_peer(
    gate: Gates, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    async with gate(clock=clock) as served, served.connect() as peer:
        peer.transport.pause_reading()
        await served.until(lambda: clock.waits == 1)
        clock.advance(20.1)
        await served.until(lambda: clock.waits == 1)
        assert served.server.open_connections == 1
        clock.advance(20.1)
        await served.until(lambda: served.server.open_connections == 0)
        peer.transport.abort()
    actions = [getattr(record, "zeroclaw", {}).get("action") for record in caplog.records]
    assert "ping_timeout" in actions


async def test_peers_that_answer_pings_stay(gate: Gates) -> None:
    clock = ManualClock()
    async with gate(clock=clock) as served, served.connect() as peer:
        for _ in range(10):
            await served.until(lambda: clock.waits == 1)
            clock.advance(19.9)
            assert "result" in await ask(peer, "status")
            await (await peer.ping())


@pytest.mark.req("RPC-030", "RPC-031", "RPC-032")
async def test_a_peer_that_takes_nothing_ends_alone_and_its_turn_with_it(gate: Gates) -> None:
    clock = ManualClock()
    provider = ScriptedProvider([TextDelta("x" * 100_000) for _ in range(1000)])
    async with gate(clock=clock, provider=provider) as served, served.connect() as other:
        async with served.connect() as stalled:
            session = (await ask(stalled, "session/new", {"agentAlias": "assistant"}))["result"]["sessionId"]
            stalled.transport.pause_reading()
            prompt = {"sessionId": session, "prompt": "x"}
            await stalled.send(
                json.dumps({"jsonrpc": "2.0", "method": "session/prompt", "params": prompt, "id": 7})
            )
            await served.until(
                lambda: clock.waits == 3
            )  # two wait for pings, and one for the peer to take a frame
            for number in range(20):
                assert "result" in await ask(other, "status", number=number)
            assert (await ask(other, "session/state", {"sessionId": session}))["result"]["state"] == "running"
            clock.advance(30.1)
            await (await other.ping())
            await served.until(lambda: served.server.open_connections == 1)
            assert provider.closed == 1
            stalled.transport.abort()
        assert (await ask(other, "session/state", {"sessionId": session}))["result"]["state"] == "idle"


@pytest.mark.req("RPC-030")
async def test_a_peer_that_sends_pings_and_reads_no_answer_ends(gate: Gates) -> None:
    clock = ManualClock()
    # A client's frame is masked; with a mask of zeros it is as it would be without.
    ping = b"\x89\xfd" + bytes(4) + bytes(125)
    async with (
        gate(clock=clock, tls=False, web=WebSocketLimits(ping_seconds=1e9)) as served,
        served.connect() as peer,
    ):
        peer.transport.pause_reading()
        await served.until(lambda: clock.waits == 1)

        def given_up() -> bool:
            while not (peer.transport.is_closing() or peer.transport.get_write_buffer_size()):
                peer.transport.write(ping * 500)
            clock.advance(30.1)  # nothing ends by that but a write that the peer does not take
            return served.server.open_connections == 0

        await served.until(given_up)
        peer.transport.abort()


async def test_the_smallest_frames_are_looked_at_a_part_at_a_time(
    gate: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    ping = b"\x89\x80" + bytes(4)
    seen: list[int] = []
    receive = ServerProtocol.receive_data

    def noted(protocol: ServerProtocol, data: bytes) -> None:
        seen.append(len(data))
        receive(protocol, data)

    async with gate() as served, served.connect() as peer:
        monkeypatch.setattr(ServerProtocol, "receive_data", noted)
        peer.transport.write(ping * 20_000)
        assert "result" in await ask(peer, "status", number=2)
    assert sum(seen) > len(ping) * 20_000
    assert max(seen) <= 8 * 1024


async def test_those_who_get_no_websocket_cannot_wash_out_the_log(
    gate: Gates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with gate(tls=False) as served:
        for number in range(STRANGERS_RECORDED + 5):
            with served.raw() as peer:
                if number % 2:
                    await anyio.to_thread.run_sync(peer.sendall, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    await read_all(peer)
            await served.until(lambda: served.server.open_connections == 0)
    actions = [record.zeroclaw["action"] for record in caplog.records if hasattr(record, "zeroclaw")]
    found = [action for action in actions if action.startswith("upgrade_")]
    assert len(found) == STRANGERS_RECORDED
    assert set(found) == {"upgrade_failed", "upgrade_refused"}


# The end.


async def test_who_closes_is_gone_at_once_and_a_stop_says_goodbye(gate: Gates) -> None:
    async with gate() as served:
        async with served.connect() as peer:
            await peer.close()
            assert peer.close_code == 1000
        await served.until(lambda: served.server.open_connections == 0)
        async with served.connect() as peer:
            served.server.stop()
            assert await goodbye(peer) == 1001


@pytest.mark.req("PAINS-23")
async def test_a_peer_that_takes_nothing_does_not_hold_up_the_end(gate: Gates) -> None:
    clock = ManualClock()
    provider = ScriptedProvider([TextDelta("x" * 100_000) for _ in range(1000)])
    async with gate(clock=clock, provider=provider) as served, served.connect() as stalled:
        session = (await ask(stalled, "session/new", {"agentAlias": "assistant"}))["result"]["sessionId"]
        stalled.transport.pause_reading()
        prompt = {"sessionId": session, "prompt": "x"}
        await stalled.send(
            json.dumps({"jsonrpc": "2.0", "method": "session/prompt", "params": prompt, "id": 7})
        )
        await served.until(lambda: clock.waits == 2)  # for its next ping, and for it to take a frame
        served.server.stop()
        await served.until(lambda: served.server.gateway_facts()["state"] != "listening")
        clock.advance(5.6)
        await served.until(lambda: served.server.open_connections == 0)
        assert provider.closed == 1
        stalled.transport.abort()


@pytest.mark.req("RPC-227")
async def test_a_port_that_is_taken_is_told_and_the_socket_serves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        local = MemoryListener()
        server = Server(
            local,
            agents=FixedAgents(),
            authority=RosterAuthority(lambda: CONFIG, PairedTokens(tmp_path / "t.json"), os.geteuid()),
            version="1",
            gateway=WssListener(GatewaySettings(port=port)),
        )
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(PATIENCE):
                await tasks.start(server.serve)
            facts = server.gateway_facts()
            assert facts["state"] == "failed"
            assert facts["endpoint"] == f"ws://127.0.0.1:{port}/rpc"
            assert facts["error"]["reason"] == "gateway_unavailable"
            assert str(port) in facts["error"]["message"]
            local.connect().close()
            server.stop()
    assert [r.zeroclaw["action"] for r in caplog.records if r.levelname == "ERROR"] == ["gateway_failed"]


async def test_a_system_that_gives_no_socket_is_told_like_a_taken_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One without IPv6, or a process that has as many descriptors as it may."""

    def refused(*_: object) -> socket.socket:
        raise OSError(errno.EAFNOSUPPORT, "none")

    monkeypatch.setattr("zeroclaw_daemon.rpc.transport.wss.socket.socket", refused)
    with pytest.raises(GatewayUnavailable) as caught:
        async with WssListener(GatewaySettings(host="::1")).opened():
            pass
    assert caught.value.details["errno"] == errno.EAFNOSUPPORT


async def test_a_port_that_nobody_holds_any_more_is_free_again() -> None:
    listener = WssListener(GatewaySettings())
    async with listener.opened():
        port = int(listener.endpoint.split(":")[2].split("/")[0])
        with pytest.raises(GatewayUnavailable):
            async with WssListener(GatewaySettings(port=port)).opened():
                pytest.fail("two listeners on one port")
    async with WssListener(GatewaySettings(port=port)).opened():
        pass


class Failing:
    """A socket that listens, and whose accept fails."""

    def __init__(self, number: int) -> None:
        self._number = number

    def accept(self) -> Any:
        raise OSError(self._number, os.strerror(self._number))


@pytest.mark.req("RPC-227")
@pytest.mark.parametrize(
    "name", ["ENETDOWN", "EHOSTUNREACH", "ENETUNREACH", "EPERM", "EMFILE", "ECONNABORTED"]
)
async def test_what_befalls_one_connection_of_a_network_ends_no_listener(name: str) -> None:
    listening: Any = Failing(getattr(errno, name))
    with pytest.raises(AcceptFailed):
        await accepted(listening)


class Breaking(MemoryListener):
    """A listener that opens, and whose system then fails it."""

    async def accept(self) -> Any:
        await super().accept()
        raise OSError(errno.EBADF, "Bad file descriptor")


@pytest.mark.req("RPC-227")
async def test_a_gateway_that_breaks_is_told_and_the_socket_serves_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    local, far = MemoryListener(), Breaking()
    authority = RosterAuthority(lambda: CONFIG, PairedTokens(tmp_path / "t.json"), os.geteuid())
    server = Server(local, agents=FixedAgents(), authority=authority, version="1", gateway=far)
    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(PATIENCE):
            await tasks.start(server.serve)
            assert server.gateway_facts()["state"] == "listening"
            far.connect().close()
            while server.gateway_facts()["state"] == "listening":
                await anyio.lowlevel.checkpoint()
            assert server.gateway_facts()["error"]["reason"] == "gateway_lost"
            client = local.connect()
            await client.send(memoryview(b'{"jsonrpc":"2.0","method":"no","id":1}\n'))
            assert b'"id":1' in await client.receive(4096)
            server.stop()
    assert [r.zeroclaw["action"] for r in caplog.records if r.levelname == "ERROR"] == ["gateway_failed"]


async def test_a_listener_that_is_broken_says_so() -> None:
    listening: Any = Failing(errno.EBADF)
    with pytest.raises(OSError, match="Bad file descriptor"):
        await accepted(listening)


@pytest.mark.parametrize("given", ["certificate", "private_key"])
async def test_half_a_certificate_is_no_plain_text(certified: Certified, given: str) -> None:
    listener = WssListener(GatewaySettings(**{given: getattr(certified, given)}))
    assert listener.endpoint.startswith("wss://")
    with pytest.raises(GatewayCertificateUnusable, match="needs both") as raised:
        async with listener.opened():
            pytest.fail("it listens")
    other = ({"certificate", "private_key"} - {given}).pop()
    assert raised.value.remedy is not None
    assert raised.value.remedy.arguments == {"path": f"gateway.{other}"}


@pytest.mark.parametrize("fault", ["absent", "no_pem", "another_key", "encrypted"])
async def test_a_certificate_that_cannot_be_used_is_named(
    tmp_path: Path, certified: Certified, fault: str
) -> None:
    chain, key = certified.certificate, certified.private_key
    bad = tmp_path / "bad.pem"
    if fault == "absent":
        chain = str(bad)
    elif fault == "no_pem":
        bad.write_text("certificate")
        chain = str(bad)
    elif fault == "another_key":
        bad.write_bytes(trustme.CA().issue_cert("localhost").private_key_pem.bytes())
        key = str(bad)
    else:
        from cryptography.hazmat.primitives.serialization import (
            BestAvailableEncryption,
            Encoding,
            PrivateFormat,
            load_pem_private_key,
        )

        plain = load_pem_private_key(certified.key_bytes, None)
        bad.write_bytes(
            plain.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
        )
        key = str(bad)
    settings = GatewaySettings(certificate=chain, private_key=key)
    with pytest.raises(GatewayCertificateUnusable, match=r"bad\.pem") as raised:
        async with WssListener(settings).opened():
            pytest.fail("it listens")
    assert raised.value.details == {"certificate": chain, "private_key": key}
    assert raised.value.remedy is not None


async def test_a_plain_client_is_refused_an_upgrade_it_did_not_ask_for(gate: Gates) -> None:
    async with gate(tls=False) as served:
        with pytest.raises(InvalidStatus) as refused:
            async with served.connect(greet=False, origin="https://evil.example"):
                pass
        assert refused.value.response.status_code == 403
