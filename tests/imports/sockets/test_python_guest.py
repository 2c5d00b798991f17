"""A Python component that uses ``sockets`` through its generated bindings, loaded and run as a tool."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import peers
import pytest
import trustme

from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.errors import ComponentMismatch, DeadlineExceeded, PluginError
from zeroclaw_host.sandbox.limits import Limits

Make = Callable[..., Any]
HOSTS = {"a.example": [["127.0.0.1"]]}
OWN = TlsProfile("own", ("a.example",), system_roots=False, custom_ca_secret="ca")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def run(tool: Make, settings: Make, authority: trustme.CA) -> Callable[..., list[Any]]:
    """Runs a script of steps in one call and gives what each step got."""

    def make(net: Any, *steps: Any, limits: Limits | None = None) -> list[Any]:
        stored = settings({"ca": authority.cert_pem.bytes().decode(), "token": "t"}, host_only={"ca"})
        result = tool("plugs", net, stored, limits=limits).execute_sync({"script": json.dumps(steps)})
        assert result.success, result
        found: list[Any] = json.loads(result.output)
        return found

    return make


@pytest.mark.req("PLG-013", "PLG-369", "PLG-356")
def test_plaintext_and_tls_reach_a_guest(run: Make, network: Make, peer: Make, secure: Make) -> None:
    net = network(HOSTS, tls_profiles=[OWN])
    plain, secured = peer(), peer(tls=secure())
    assert run(
        net,
        ["connect", "a", "a.example", plain.port],
        ["send", "a", "hello"],
        ["receive", "a", 5],
        ["pending", "a"],
        ["upgrade", "a"],
        ["negotiate", "a", "x"],
        ["connect", "b", "a.example", secured.port, "DIRECT_TLS", "own"],
        ["send", "b", "secret"],
        ["receive", "b", 6],
        ["connect", "c", "a.example", secured.port, "DIRECT_TLS"],
        ["connect", "d", "b.example", plain.port],
    ) == [
        "connected",
        None,
        "hello",
        0,
        "err invalid-state",
        "err invalid-state",
        "connected",
        None,
        "secret",
        "err tls-handshake-failed",
        "err access-denied",
    ]
    assert net.held == 0  # the call has ended, and with it what it held


@pytest.mark.req("PLG-013", "PLG-356")
def test_a_guest_goes_on_under_tls(run: Make, network: Make, peer: Make, secure: Make) -> None:
    context = secure()

    def serve(connection: socket.socket) -> None:
        connection.sendall(b"greeting")
        connection.recv(5)
        connection.sendall(b"go")
        with context.wrap_socket(connection, server_side=True) as upgraded:
            upgraded.sendall(upgraded.recv(100).upper())

    net = network(HOSTS, tls_profiles=[OWN])
    assert run(
        net,
        ["connect", "a", "a.example", peer(serve).port, "START_TLS", "own"],
        ["hear", "a", 8],
        ["negotiate", "a", "start"],
        ["hear", "a", 2],
        ["upgrade", "a"],
        ["send", "a", "quiet"],
        ["receive", "a", 5],
        ["receive", "a", 1],
    ) == ["connected", "greeting", None, "go", None, None, "QUIET", " closed peer-closed"]


@pytest.mark.req("PLG-124")
def test_closed_and_dropped_connections_make_room(run: Make, network: Make, peer: Make) -> None:
    net = network(HOSTS, max_connections=1)
    connect = ["a.example", peer().port]
    assert run(
        net,
        ["connect", "a", *connect],
        ["connect", "b", *connect],
        ["close", "a"],
        ["connect", "b", *connect],
        ["connect", "a", *connect],
        ["drop", "b"],
        ["connect", "a", *connect],
    ) == [
        "connected",
        "err connection-limit",
        None,
        "connected",
        "err connection-limit",
        None,
        "connected",
    ]
    assert net.held == 0


@pytest.mark.req("PAINS-3")
@pytest.mark.parametrize("end", ["trap", "sleep", "spin", "receive", "flood"])
def test_a_call_that_ends_badly_leaves_no_connection(run: Make, network: Make, peer: Make, end: str) -> None:
    """It traps, or its deadline comes while it sleeps, computes, waits for a peer that drips, or sends to a deaf one."""
    stop = threading.Event()

    def deaf(connection: socket.socket) -> None:
        stop.wait(peers.PATIENCE)

    def drip(connection: socket.socket) -> None:
        while not stop.wait(0.05):
            connection.sendall(b".")

    net = network(HOSTS)
    server = peer(drip if end == "receive" else deaf)
    limits = Limits() if end == "trap" else Limits(call_timeout_ms=5000, call_fuel=10**12)
    last = {"receive": ["receive", "a", 10**9], "flood": ["flood", "a"]}.get(end, [end])
    run(net, limits=limits)  # compiled, whatever it takes
    try:
        with pytest.raises(PluginError if end == "trap" else DeadlineExceeded) as caught:
            run(net, ["connect", "a", "a.example", server.port], last, limits=limits)
        assert net.resolver.asked == ["a.example"]  # it came so far
        assert net.held == 0
        if end != "trap":
            assert "deadline" in caught.value.message
            assert "fuel" not in caught.value.message
    finally:
        stop.set()


@pytest.mark.req("PLG-369", "PLG-013", "PLG-103")
def test_without_the_permission_the_component_does_not_load(
    tool: Make, network: Make, settings: Make
) -> None:
    with pytest.raises(ComponentMismatch) as caught:
        tool("plugs", network(HOSTS), settings(), permissions=["config_read"])
    assert "socket_client" in str(caught.value.details)


@pytest.mark.req("PLG-361")
def test_a_guest_reads_its_secrets_and_none_of_a_profiles(run: Make, network: Make) -> None:
    net = network(HOSTS, tls_profiles=[OWN])
    assert run(net, ["secret", "ca"], ["secret", "token"]) == ["err access-denied", "t"]
