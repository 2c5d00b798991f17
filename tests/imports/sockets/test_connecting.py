"""Connecting: every refusal and failure has its word, nothing is sent before leave is given, and nothing stays behind."""

from __future__ import annotations

import errno
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

import peers
import pytest
import trustme

from zeroclaw_host.egress import io_loop
from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.decision import Reason
from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.failures import ResolutionFailed
from zeroclaw_host.egress.policy import PolicyUnavailable
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.egress.request import EgressRequest, Transport
from zeroclaw_host.egress.source import EgressRow, EgressSettings, RowPolicies
from zeroclaw_host.errors import ConfigInvalid
from zeroclaw_host.imports import sockets
from zeroclaw_host.imports.sockets.failures import REFUSALS
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.sandbox.values import OK, Err, Ok
from zeroclaw_host.services.config import ResolvedConfig

Make = Callable[..., Any]
HOSTS = {"a.example": [["127.0.0.1"]], "b.example": [["127.0.0.1"]]}
OTHER = InstanceIdentity.default_tool("other")


def pem(authority: trustme.CA) -> str:
    return authority.cert_pem.bytes().decode()


def client_texts(authority: trustme.CA) -> dict[str, str]:
    """A client's certificate and key, as the secrets of a profile."""
    issued = authority.issue_cert("client@a.example")
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems).decode()
    return {"certificate": chain, "key": issued.private_key_pem.bytes().decode()}


OWN = TlsProfile("own", ("a.example",), system_roots=False, custom_ca_secret="ca")
CLIENT = TlsProfile(
    "client",
    ("a.example",),
    system_roots=False,
    custom_ca_secret="ca",
    client_certificate_secret="certificate",
    client_private_key_secret="key",
)

# --- leave ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-369", "PLG-013")
def test_the_row_in_force_decides_about_each_connection(network: Make, guest: Make, peer: Make) -> None:
    """Nothing granted, then granted, then no more: without a restart, and without a packet where it is refused."""
    net = network(HOSTS)
    server = peer()
    one = guest(net)
    net.grant([])
    assert one.try_connect(server.port) == Err("access-denied")
    assert net.resolver.asked == []
    assert server.accepted == 0
    net.grant(["a.example"])
    plug = one.connect(server.port)
    net.grant([])
    assert one.try_connect(server.port) == Err("access-denied")
    assert plug.send(b"open before") == OK  # a grant is asked for by connecting, not by sending
    assert plug.arrive(11) == b"open before"
    assert server.accepted == 1
    assert net.refusals() == ["host_not_granted"] * 2
    assert net.log.records[0].remedies


@pytest.mark.req("PLG-369", "PLG-013")
@pytest.mark.parametrize("permissions", [(), ("http_client", "websocket_client")])
def test_no_other_permission_stands_for_this_one(
    network: Make, guest: Make, peer: Make, permissions: tuple[str, ...]
) -> None:
    net = network(HOSTS)
    server = peer()
    assert guest(net, permissions=permissions).try_connect(server.port) == Err("access-denied")
    assert (server.accepted, net.resolver.asked) == (0, [])
    assert net.refusals() == ["permission_missing"]


@pytest.mark.req("PLG-226")
@pytest.mark.parametrize(
    "settings_of_all",
    [
        EgressSettings(nat64_prefixes=("64:ff9b::/97",)),
        EgressSettings(max_connections=0),
        PolicyUnavailable("the configuration cannot be read"),
    ],
    ids=["prefix", "no connections", "unreadable"],
)
def test_a_policy_that_cannot_be_had_lets_nothing_through(
    network: Make, guest: Make, peer: Make, settings_of_all: Any
) -> None:
    def read(identity: InstanceIdentity) -> tuple[EgressSettings, EgressRow]:
        if isinstance(settings_of_all, Exception):
            raise settings_of_all
        return settings_of_all, EgressRow(("a.example",), ("a.example",))

    net = network(HOSTS)
    net.dialer = Dialer(RowPolicies(read), net.log, resolver=net.resolver, slots=net.slots)
    server = peer()
    for mode in ("plaintext", "direct-tls", "start-tls"):
        assert guest(net).try_connect(server.port, mode=mode) == Err("host-unavailable")
    assert (server.accepted, net.resolver.asked, net.held) == (0, [], 0)


def test_every_reason_of_the_policy_has_a_word() -> None:
    words = {reason: word.value for reason, word in REFUSALS.items()}
    assert set(words) == set(Reason)
    assert {reason for reason, word in words.items() if word == "access-denied"} == {
        Reason.PERMISSION_MISSING,
        Reason.HOST_NOT_GRANTED,
        Reason.TLS_PROFILE_HOST,
        Reason.LOCAL_NAME,
        Reason.LOCAL_NAME_ELSEWHERE,
        Reason.LITERAL_MISMATCH,
        Reason.METADATA_ADDRESS,
        Reason.PRIVATE_ADDRESS,
        Reason.MIXED_ADDRESSES,
    }


@pytest.mark.req("PAINS-16")
@pytest.mark.parametrize(
    ("addresses", "private"),
    [
        (["127.0.0.1"], False),
        (["::ffff:127.0.0.1"], False),
        (["64:ff9b::7f00:1"], False),
        (["8.8.8.8", "127.0.0.1"], True),
        (["169.254.169.254"], True),
        (["127.0.0.1", "169.254.169.254"], True),
    ],
)
def test_an_address_that_may_not_be_reached_is_not(
    network: Make, guest: Make, peer: Make, addresses: list[str], private: bool
) -> None:
    server = peer()
    net = network({"a.example": [addresses]}, private=private)
    assert guest(net).try_connect(server.port) == Err("access-denied")
    assert (server.accepted, net.held) == (0, 0)


@pytest.mark.req("PAINS-16")
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::1]", "[::ffff:127.0.0.1]"]
)
def test_no_spelling_of_an_address_is_granted_by_nothing(
    network: Make, guest: Make, peer: Make, host: str
) -> None:
    server = peer()
    net = network({})
    refused = guest(net).try_connect(server.port, host=host)
    assert refused in (Err("access-denied"), Err("invalid-request"))
    assert (server.accepted, net.resolver.asked) == (0, [])


@pytest.mark.parametrize(
    "how",
    [
        {"host": "a.example/"},
        {"host": ""},
        {"host": "é.example"},
        {"port": 0},
        {"mode": "plaintext", "profile": "own"},
        {"mode": "direct-tls", "profile": "unknown"},
        {"mode": "start-tls", "profile": "unknown"},
        {"mode": "direct-tls", "profile": "faulty"},
    ],
)
@pytest.mark.req("PLG-374")
def test_a_request_that_makes_no_sense_is_called_invalid(
    network: Make, guest: Make, peer: Make, how: dict[str, Any]
) -> None:
    server = peer()
    net = network(HOSTS, tls_profiles=[OWN, TlsProfile("faulty", ("c.example",))])
    assert guest(net).try_connect(how.pop("port", server.port), **how) == Err("invalid-request")
    assert (server.accepted, net.resolver.asked) == (0, [])


# --- failures -------------------------------------------------------------------------------------------------------


def nowhere() -> list[str]:
    raise ResolutionFailed("there is no such host")


@pytest.mark.parametrize("answer", [nowhere, []], ids=["unknown", "empty"])
def test_a_host_without_addresses_cannot_be_resolved(network: Make, guest: Make, answer: Any) -> None:
    net = network({"a.example": [answer]})
    assert guest(net).try_connect(1) == Err("resolution-failed")


def test_a_port_that_nobody_listens_on_fails_to_connect(network: Make, guest: Make) -> None:
    net = network(HOSTS)
    assert guest(net).try_connect(peers.unused_port()) == Err("connect-failed")
    assert net.held == 0


def test_an_address_that_answers_nothing_fails_after_its_time(
    network: Make, guest: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sockets.CONNECT_SECONDS == 30.0
    monkeypatch.setattr(sockets, "CONNECT_SECONDS", 0.2)
    with FullListener() as port:
        net = network(HOSTS)
        assert guest(net).try_connect(port) == Err("connect-failed")
        assert net.held == 0


class FullListener:
    """A port whose queue of connections is full, so that the system answers nobody."""

    def __enter__(self) -> int:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        where = self._listener.getsockname()
        self._fillers: list[socket.socket] = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(where)
            self._fillers.append(filler)
        return where[1]

    def __exit__(self, *_: object) -> None:
        for one in (*self._fillers, self._listener):
            one.close()


@pytest.mark.req("PLG-124")
def test_the_connections_of_an_instance_are_counted_together(network: Make, guest: Make, peer: Make) -> None:
    """16 by default, over calls; another instance has its own; each that ends makes room for one."""
    net = network(HOSTS)
    server = peer()
    first, second = guest(net), guest(net)
    plugs = [first.connect(server.port) for _ in range(10)] + [second.connect(server.port) for _ in range(6)]
    assert second.try_connect(server.port) == Err("connection-limit")
    assert first.try_connect(server.port) == Err("connection-limit")
    assert net.slots.held(OTHER) == 0
    plugs[0].close()
    first.connect(server.port)
    assert second.try_connect(server.port) == Err("connection-limit")
    net.grant(["a.example"], max_connections=17)  # the limit is the one in force
    second.connect(server.port)
    assert net.held == 17
    first.frame.table.close()
    assert net.held == 7


@pytest.mark.req("PLG-124")
def test_sockets_are_counted_with_the_other_transports(network: Make, guest: Make, peer: Make) -> None:
    net = network(HOSTS)
    server = peer()
    one = guest(net)
    others: list[Connection] = []
    for transport in (Transport.HTTP, Transport.WEBSOCKET, Transport.SOCKETS) * 3:
        request = EgressRequest(
            identity=one.frame.scope.identity,
            transport=transport,
            host="a.example",
            port=server.port,
            permitted=True,
        )
        others.append(net.dialer.open(request, Deadline(peers.PATIENCE)))
    for _ in range(16 - len(others)):
        one.connect(server.port)
    assert one.try_connect(server.port) == Err("connection-limit")
    others.pop().close()
    one.connect(server.port)
    assert one.try_connect(server.port) == Err("connection-limit")
    for connection in others:
        connection.close()


def test_a_process_without_descriptors_says_that_the_host_is_at_fault(
    network: Make, guest: Make, peer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more() -> None:
        raise OSError(errno.EMFILE, "too many open files")

    net = network(HOSTS)
    server = peer()
    monkeypatch.setattr(io_loop.PROCESS_LOOP, "attach", lambda connection, handler: no_more())
    assert guest(net).try_connect(server.port) == Err("host-unavailable")
    assert net.held == 0


# --- TLS ------------------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-355")
@pytest.mark.usefixtures("trusted")
def test_the_machines_authorities_are_trusted(network: Make, guest: Make, peer: Make, secure: Make) -> None:
    net = network(HOSTS)
    plug = guest(net).connect(peer(tls=secure()).port, mode="direct-tls")
    assert plug.send(b"hello") == OK
    assert plug.arrive(5) == b"hello"


@pytest.mark.req("PLG-355", "PLG-356")
@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("wrong", ["name", "authority"])
def test_a_peer_that_is_another_one_gets_nothing(
    network: Make, guest: Make, peer: Make, secure: Make, wrong: str
) -> None:
    context = secure("b.example") if wrong == "name" else secure(issuer=trustme.CA())
    got: list[bytes] = []
    server = peer(lambda connection: got.append(connection.recv(100)), tls=context)
    net = network(HOSTS)
    assert guest(net).try_connect(server.port, mode="direct-tls") == Err("tls-handshake-failed")
    assert (got, net.held) == ([], 0)


@pytest.mark.parametrize(
    "answer", [peers.say(b"not TLS at all\r\n"), lambda connection: None], ids=["text", "end"]
)
def test_a_peer_that_does_not_speak_tls_fails_the_handshake(
    network: Make, guest: Make, peer: Make, answer: peers.Handler
) -> None:
    net = network(HOSTS)
    assert guest(net).try_connect(peer(answer).port, mode="direct-tls") == Err("tls-handshake-failed")
    assert net.held == 0


def test_a_handshake_without_answer_fails_after_its_time(
    network: Make, guest: Make, peer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sockets.connections.TLS_SECONDS == 30.0
    monkeypatch.setattr(sockets.connections, "TLS_SECONDS", 0.2)
    net = network(HOSTS)
    server = peer(peers.hold)
    assert guest(net).try_connect(server.port, mode="direct-tls") == Err("tls-handshake-failed")
    assert net.held == 0


@pytest.mark.req("PLG-357")
@pytest.mark.usefixtures("trusted")
def test_a_profile_without_system_roots_trusts_its_own_authority_alone(
    network: Make, guest: Make, peer: Make, secure: Make, settings: Make
) -> None:
    """The machine trusts the first peer's authority, and the profile the second one's."""
    own = trustme.CA()
    net = network(HOSTS, tls_profiles=[OWN])
    one = guest(net, settings=settings({"ca": pem(own)}))
    public, private = peer(tls=secure()), peer(tls=secure(issuer=own))
    assert isinstance(one.try_connect(public.port, mode="direct-tls"), Ok)
    assert one.try_connect(public.port, mode="direct-tls", profile="own") == Err("tls-handshake-failed")
    assert isinstance(one.try_connect(private.port, mode="direct-tls", profile="own"), Ok)
    assert one.try_connect(private.port, mode="direct-tls") == Err("tls-handshake-failed")


@pytest.mark.req("PLG-356")
@pytest.mark.parametrize("mode", ["direct-tls", "start-tls"])
def test_a_server_that_demands_a_client_certificate_gets_the_profiles(
    network: Make, guest: Make, peer: Make, secure: Make, settings: Make, authority: trustme.CA, mode: str
) -> None:
    context = secure(clients=authority)
    presented: list[object] = []

    def look(connection: socket.socket) -> None:
        if isinstance(connection, ssl.SSLSocket):
            presented.append(connection.getpeercert())
            peers.echo(connection)
            return
        with context.wrap_socket(connection, server_side=True) as upgraded:
            look(upgraded)

    server = peer(look, tls=context if mode == "direct-tls" else None)
    net = network(HOSTS, tls_profiles=[CLIENT, OWN])
    one = guest(net, settings=settings({"ca": pem(authority), **client_texts(authority)}))
    plug = one.connect(server.port, mode=mode, profile="client")
    if mode == "start-tls":
        assert plug.call("upgrade-tls") == OK
    assert plug.send(b"known") == OK
    assert plug.arrive(5) == b"known"
    assert len(presented) == 1
    # TLS 1.3 lets a client find out at its first read.
    refused = one.try_connect(server.port, mode=mode, profile="own")
    assert isinstance(refused, Ok)
    plug.resource = refused.value
    if mode == "start-tls":
        plug.call("upgrade-tls")
    assert plug.arrives() in (("closed", "io-error"), ("closed", "peer-closed"))
    assert len(presented) == 1


@pytest.mark.req("PLG-356")
def test_a_rotated_secret_counts_from_the_next_call_on(
    network: Make, guest: Make, peer: Make, secure: Make, settings: Make, authority: trustme.CA
) -> None:
    net = network(HOSTS, tls_profiles=[OWN])
    stored = settings({"ca": pem(trustme.CA())})
    server = peer(tls=secure())
    assert guest(net, settings=stored).try_connect(server.port, mode="direct-tls", profile="own") == Err(
        "tls-handshake-failed"
    )
    stored.secrets["ca"] = pem(authority)
    guest(net, settings=stored).connect(server.port, mode="direct-tls", profile="own")


@pytest.mark.parametrize("mode", ["direct-tls", "start-tls"])
@pytest.mark.parametrize(
    "secrets", [{}, {"ca": "no certificate"}, {"ca": ""}], ids=["missing", "no PEM", "empty"]
)
def test_a_profile_whose_secret_is_of_no_use_connects_to_nobody(
    network: Make, guest: Make, peer: Make, settings: Make, mode: str, secrets: dict[str, str]
) -> None:
    """With start-tls, too: what a handshake will need is read before there is a connection."""
    server = peer()
    net = network(HOSTS, tls_profiles=[OWN])
    one = guest(net, settings=settings(secrets))
    assert one.try_connect(server.port, mode=mode, profile="own") == Err("tls-configuration-failed")
    assert (server.accepted, net.held) == (0, 0)


class Broken:
    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        raise ConfigInvalid("it is not valid")


def test_a_configuration_that_does_not_resolve_has_no_certificates(
    network: Make, guest: Make, peer: Make
) -> None:
    server = peer()
    one = guest(network(HOSTS, tls_profiles=[OWN]), settings=Broken())
    assert one.try_connect(server.port, mode="direct-tls", profile="own") == Err("tls-configuration-failed")
    assert server.accepted == 0
    one.connect(server.port)  # who needs none is served


@pytest.mark.req("PLG-360", "PLG-374")
def test_a_profile_serves_its_own_hosts_and_grants_none(
    network: Make, guest: Make, peer: Make, secure: Make, settings: Make, authority: trustme.CA
) -> None:
    server = peer(tls=secure("a.example", "b.example", clients=authority))
    net = network(HOSTS, tls_profiles=[CLIENT])
    stored = settings({"ca": pem(authority), **client_texts(authority)})
    one = guest(net, settings=stored)
    for mode in ("direct-tls", "start-tls"):
        how = {"host": "b.example", "mode": mode, "profile": "client"}
        assert one.try_connect(server.port, **how) == Err("access-denied")
    net.grant([], tls_profiles=[])
    assert one.try_connect(server.port, mode="direct-tls", profile="client") == Err("access-denied")
    assert (server.accepted, net.resolver.asked) == (0, [])
    assert net.refusals() == ["tls_profile_host", "tls_profile_host", "host_not_granted"]


# --- given up -------------------------------------------------------------------------------------------------------


def resolving(entered: threading.Event, leave: threading.Event) -> Callable[[], list[str]]:
    def answer() -> list[str]:
        entered.set()
        leave.wait(peers.PATIENCE)
        return ["127.0.0.1"]

    return answer


@pytest.mark.req("PAINS-3")
@pytest.mark.parametrize("end", ["cancel", "deadline"])
@pytest.mark.parametrize("stage", ["authorise", "resolve", "connect", "tls"])
def test_a_connect_ends_with_its_call_wherever_it_is(
    network: Make, guest: Make, peer: Make, waiting: Make, stage: str, end: str
) -> None:
    there, leave = threading.Event(), threading.Event()

    def handshake(connection: socket.socket) -> None:
        there.set()
        peers.hold(connection)

    server = peer(handshake)
    with FullListener() as full, peers.nothing_left():
        script = {"a.example": [resolving(there, leave) if stage == "resolve" else ["127.0.0.1"]]}
        net = network(script)
        if stage == "authorise":
            policy, answer = net.policies.policy, resolving(there, leave)
            net.policies.policy = lambda identity: (answer(), policy(identity))[1]
        one = guest(net)
        port = full if stage == "connect" else server.port
        call = waiting(lambda: one.try_connect(port, mode="direct-tls"))
        if stage == "connect":
            assert peers.eventually(lambda: net.held == 1 or call.over)
        else:
            assert there.wait(peers.PATIENCE)
        with pytest.raises(one.end_by(end)) as caught:
            call.join()
        assert end == "cancel" or "waiting for a connection to a.example" in caught.value.message
        assert "fuel" not in caught.value.message
        assert peers.eventually(lambda: net.held == 0)
        leave.set()
