"""A built plugin that uses the SDK's network code: through the whole host, to real servers on loopback."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import origins
import peers
import pytest
import websocket_peers

from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.records import ErrorKey, MemoryEgressLog
from zeroclaw_host.egress.slots import ConnectionSlots
from zeroclaw_host.egress.testing import ScriptedResolver, SettablePolicies
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import MemoryConfigResolver
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.tool import ToolPlugin
from zeroclaw_sdk.project import Project
from zeroclaw_sdk.scaffold import new_plugin

pytestmark = pytest.mark.slow

IDENTITY = InstanceIdentity.default_tool("network")
LIMITS = Limits(call_timeout_ms=120_000, call_fuel=20_000_000_000)


class Plugin:
    """The plugin, and how many connections it holds."""

    def __init__(self, package: AdmittedPackage, sandbox: Sandbox) -> None:
        self.policies = SettablePolicies()
        self.slots = ConnectionSlots()
        self.grant("a.example")
        resolver = ScriptedResolver({"a.example": [["127.0.0.1"]], "b.example": [["127.0.0.1"]]})
        self.log = MemoryEgressLog()
        dialer = Dialer(self.policies, self.log, resolver=resolver, slots=self.slots)
        services = InstanceServices(MemoryConfigResolver({}), MemoryLogSink(), network=dialer)
        scope = InstanceScope.admit(IDENTITY, package.manifest)
        self._tool = ToolPlugin.load(sandbox, package, scope, services, LIMITS)

    def grant(self, *hosts: str, **how: Any) -> None:
        self.policies.set(IDENTITY, EgressPolicy.of(hosts, hosts, **how))

    def __call__(self, how: str, **arguments: Any) -> Any:
        with peers.nothing_left():
            result = self._tool.execute_sync({"how": how} | arguments)
        assert peers.eventually(lambda: self.slots.held(IDENTITY) == 0)
        assert result.success, result.error
        try:
            return json.loads(result.output)
        except ValueError:
            return result.output


@pytest.fixture(scope="module")
def package(built_plugin: Callable[[str], Path]) -> AdmittedPackage:
    return admit(DirectoryReader(built_plugin("network")), SignaturePolicy())


@pytest.fixture
def plugin(package: AdmittedPackage, sandbox: Sandbox) -> Plugin:
    return Plugin(package, sandbox)


@pytest.fixture
def serve() -> Iterator[Callable[..., Any]]:
    """Servers that end with the test: an HTTP service, a raw handler, or a WebSocket conversation; its URL."""
    with ExitStack() as stack:

        def start(what: Any, kind: str = "http") -> Any:
            if kind == "http":
                origin = stack.enter_context(origins.Origin(what))
                return f"http://a.example:{origin.port}"
            server = peers.Peer(what) if kind == "raw" else websocket_peers.Server(what, subprotocols=["v1"])
            stack.callback(server.close)
            return server.port

        yield start


ONE_TRANSPORT = """
from zeroclaw_sdk.guest import Tool, {module}

class Sample(Tool):
    name = "sample"

    def run(self) -> str:
        return {module}.__name__
"""


def network_imports(built: Path) -> set[str]:
    """What a component imports of the network, as another tool reads it."""
    manifest = Project.open(built)
    done = subprocess.run(
        [Path(sys.executable).with_name("wasm-tools"), "component", "wit", manifest.component_path],
        check=True,
        capture_output=True,
        text=True,
    )
    names = re.findall(r"^  import ([a-z:/-]+)", done.stdout, re.MULTILINE)
    return {name for name in names if name in EVERY_TRANSPORT}


HTTP = {"wasi:http/types", "wasi:http/outgoing-handler"}
WEBSOCKET = {"zeroclaw:plugin/websocket"}
SOCKETS = {"zeroclaw:plugin/sockets"}
EVERY_TRANSPORT = HTTP | WEBSOCKET | SOCKETS


@pytest.mark.req("PLG-007", "PLG-178", "PLG-369")
def test_a_component_imports_the_transports_of_its_permissions_and_no_others(
    built_plugin: Callable[[str], Path],
):
    assert network_imports(built_plugin("network")) == EVERY_TRANSPORT
    assert network_imports(built_plugin("hello")) == set()


@pytest.mark.req("PLG-007", "PLG-369")
@pytest.mark.parametrize(
    ("permission", "module", "imported"),
    [
        ("http_client", "http", HTTP),
        ("websocket_client", "websocket", WEBSOCKET),
        ("socket_client", "sockets", SOCKETS),
    ],
)
def test_one_permission_is_one_transport(
    built_once: Callable[[Path], Path], tmp_path: Path, permission: str, module: str, imported: set[str]
):
    target = new_plugin("tool", "sample", tmp_path)
    (target / "app.py").write_text(ONE_TRANSPORT.format(module=module))
    manifest = target / "manifest.toml"
    asking = manifest.read_text().replace("permissions = []", f'permissions = ["{permission}"]')
    manifest.write_text(asking)
    assert network_imports(built_once(target)) == imported


# HTTP


def test_a_request_and_its_response_arrive_as_they_were_meant(plugin: Plugin, serve: Callable[..., Any]):
    asked: list[origins.Asked] = []

    def service(request: origins.Asked) -> origins.Answer:
        asked.append(request)
        return origins.Answer(
            302, {"Location": "/other", "content-type": "text/plain; charset=windows-1252"}, b"\x80"
        )

    url = serve(service)
    seen = plugin("get", url=f"{url}/path?a=1")
    assert (seen["status"], seen["text"], seen["location"]) == (302, "€", f"{url}/other")
    assert ["Location", "/other"] in [[name.title(), value] for name, value in seen["headers"]]
    (request,) = asked
    assert (request.path, request.query) == ("/path", {"a": "1", "q": "ü"})
    assert request.headers["host"] == url.removeprefix("http://")


def test_bodies_cross_both_ways(plugin: Plugin, serve: Callable[..., Any]):
    url = serve(lambda request: origins.json_answer(json.loads(request.body)))
    assert plugin("json", url=url) == {"a": [1, "ü"]}


@pytest.mark.parametrize("count", [0, 1, 16, 40])
def test_a_body_is_sent_in_pieces(plugin: Plugin, serve: Callable[..., Any], count: int):
    def collect(connection: socket.socket) -> None:
        with connection.makefile("rb") as lines:
            while lines.readline().strip():
                pass
            size = 0
            while length := int(lines.readline(), 16):
                size += len(lines.read(length))
                lines.readline()
            lines.readline()
        text = str(size).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(text), text))

    port = serve(collect, "raw")
    assert plugin("upload", url=f"http://a.example:{port}/", count=count) == count * 65_536


def test_a_server_that_answers_before_it_has_read_everything_is_heard(
    plugin: Plugin, serve: Callable[..., Any]
):
    def refuse(connection: socket.socket) -> None:
        connection.recv(1)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\ncontent-length: 6\r\n\r\nno way")
        peers.hold(connection)

    port = serve(refuse, "raw")
    assert plugin("upload", url=f"http://a.example:{port}/", count=200) == "no way"


@pytest.mark.parametrize("size", [0, 1, 1024 * 1024, 5 * 1024 * 1024])
def test_a_large_body_comes_in_pieces(plugin: Plugin, serve: Callable[..., Any], size: int):
    url = serve(lambda _: origins.Answer(body=b"x" * size))
    seen = plugin("download", url=url) if size else {"size": 0, "largest": 0}
    assert seen["size"] == size
    assert seen["largest"] <= 65_536


def test_every_method_arrives(plugin: Plugin, serve: Callable[..., Any]):
    methods: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(65_536)
        methods.append(head.split()[0])
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    port = serve(answer, "raw")
    assert plugin("method", url=f"http://a.example:{port}/") == [204, 204, 204, 204]
    assert methods == [b"PUT", b"DELETE", b"HEAD", b"PROPFIND"]


@pytest.mark.parametrize("count", [16, 20])
def test_sixteen_are_under_way_in_one_call(plugin: Plugin, serve: Callable[..., Any], count: int):
    url = serve(lambda request: origins.json_answer(request.path))
    assert plugin("many", url=url, count=count) == [f"/{number}" for number in range(count)]


@pytest.mark.req("PLG-124")
def test_a_connection_too_many_is_an_error_with_its_class(plugin: Plugin, serve: Callable[..., Any]):
    def answer_after_the_other_was_refused(connection: socket.socket) -> None:
        limit = ErrorKey.CONNECTION_LIMIT
        assert peers.eventually(lambda: limit in [record.error_key for record in plugin.log.records])
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    port = serve(answer_after_the_other_was_refused, "raw")
    plugin.grant("a.example", max_connections=1)
    refused, answered = sorted(plugin("errors", url=f"http://a.example:{port}/", count=2), reverse=True)
    assert answered.startswith("<Response 200")
    assert "connection-limit-reached" in refused


def test_a_limit_of_time_is_an_error_with_its_class(plugin: Plugin, serve: Callable[..., Any]):
    port = serve(peers.hold, "raw")
    assert plugin("failure", url=f"http://a.example:{port}/") == ["TimedOut", "connection-read-timeout"]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", "HTTP-response-incomplete"),
        (b"nonsense\r\n\r\n", "HTTP-protocol-error"),
        (b"", "HTTP-protocol-error"),
    ],
)
def test_what_is_no_whole_response_is_an_error(
    plugin: Plugin, serve: Callable[..., Any], said: bytes, error: str
):
    port = serve(peers.say(said), "raw")
    name, code = plugin("failure", url=f"http://a.example:{port}/")
    assert name == "Broken"
    assert code in (error, "connection-terminated", "HTTP-response-incomplete")


def test_nobody_there_is_an_error(plugin: Plugin):
    url = f"http://a.example:{peers.unused_port()}/"
    assert plugin("failure", url=url) == ["ConnectFailed", "connection-refused"]


@pytest.mark.req("PLG-184", "PLG-369")
def test_a_host_that_is_not_granted_is_refused_for_every_transport(plugin: Plugin):
    assert plugin("failure", url="http://b.example/") == ["Denied", "internal-error"]
    name, code, said = plugin("no websocket", url="ws://b.example/")
    assert (name, code) == ("Denied", "destination-denied")
    assert 'hosts = ["b.example"]' in said
    name, code, said = plugin("no socket", host="b.example", port=1, count=0)
    assert (name, code) == ("Denied", "access-denied")
    assert 'hosts = ["b.example"]' in said


def test_a_header_that_is_the_hosts_is_named(plugin: Plugin):
    said = plugin("header", url="http://a.example/")
    assert said.startswith("header connection: the host does not let a plugin set it")


def test_what_a_call_left_open_is_let_go_with_it(plugin: Plugin, serve: Callable[..., Any]):
    url = serve(lambda _: origins.Answer(body=b"x" * 200_000))
    assert plugin("held", url=url, count=3) == 3
    assert plugin("begun", url=url) is True


def test_a_response_that_is_forgotten_lets_go_of_its_connection(plugin: Plugin, serve: Callable[..., Any]):
    url = serve(lambda _: origins.Answer(body=b"x" * 200_000))
    assert plugin("forgotten", url=url, count=40) == [200] * 40


# WebSockets and streams


def test_a_websocket_conversation(plugin: Plugin, serve: Callable[..., Any]):
    def talk(connection: Any) -> None:
        for message in connection:
            if message == "bye":
                connection.send("farewell")
                return
            connection.send(message)

    port = serve(talk, "websocket")
    seen = plugin("websocket", url=f"ws://a.example:{port}/", count=20)
    assert seen == ["v1", *map(str, range(20)), 1000, "farewell"]


def test_a_wait_that_ends_leaves_the_connection_and_the_budget(plugin: Plugin, serve: Callable[..., Any]):
    port = serve(websocket_peers.echo, "websocket")
    assert plugin("wait", url=f"ws://a.example:{port}/") == "still here"


def test_a_stream_carries_more_than_one_piece(plugin: Plugin, serve: Callable[..., Any]):
    def answer(connection: socket.socket) -> None:
        connection.sendall(b"ready\r\n")
        with connection.makefile("rb") as lines:
            connection.sendall(lines.read(int(lines.readline())))
            assert lines.readline() == b"quit\n"
        connection.sendall(b"bye")

    port = serve(answer, "raw")
    assert plugin("socket", host="a.example", port=port, count=8) == ["ready", True, "bye", ""]


def test_a_stream_that_nobody_takes_is_an_error(plugin: Plugin):
    name, code, _ = plugin("no socket", host="a.example", port=peers.unused_port(), count=0)
    assert (name, code) == ("SocketError", "connect-failed")
