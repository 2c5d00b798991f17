"""Dialling: to the addresses of the decision, once resolved, and to nothing else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import peers
import pytest

from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.failures import (
    AttemptFailed,
    ConnectFailed,
    ConnectionBroken,
    ConnectionClosed,
    ConnectionLimit,
    EgressRefused,
    ResolutionFailed,
    Stage,
    TimeIsUp,
)
from zeroclaw_host.egress.policy import EgressPolicy, PolicyInvalid, PolicyUnavailable
from zeroclaw_host.egress.request import EgressRequest, TlsMode, Transport
from zeroclaw_host.errors import Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.instance import InstanceIdentity

Make = Callable[..., Any]
PLAIN: dict[str, Any] = {"tls": TlsMode.NONE}


def soon() -> Deadline:
    return Deadline(peers.PATIENCE)


def test_a_granted_host_is_reached_and_bytes_go_both_ways(ask: Make, network: Make, peer: Make) -> None:
    server = peer(peers.echo)
    net = network({"a.example": [["127.0.0.1"]]})
    data = bytes(range(256)) * 4096  # a mebibyte, more than the buffers on the way hold
    with net.dialer.open(ask("a.example", server.port, **PLAIN), soon()) as connection:
        assert str(connection.address) == "127.0.0.1"
        assert not connection.secured
        sender = threading.Thread(target=connection.send, args=(data, soon()))
        sender.start()
        got = b""
        while len(got) < len(data):
            got += connection.receive(65_536, soon())
        sender.join(peers.PATIENCE)
        assert got == data
    record = net.log.records[-1]
    assert record.error_key.value == "plugin_egress_connection"
    assert record.attributes["bytes_sent"] == record.attributes["bytes_received"] == len(data)
    assert record.attributes["address"] == "127.0.0.1"


def test_every_request_leaves_one_record_of_its_decision_and_a_connection_one_of_its_end(
    ask: Make, network: Make, peer: Make
) -> None:
    server = peer(peers.hold)
    net = network({"*.a.example": [], "x.a.example": [["127.0.0.1"]], "z.a.example": [["127.0.0.1"]]})
    with net.dialer.open(ask("x.a.example", server.port, **PLAIN), soon()):
        (opened,) = net.log.records
    assert opened.attributes["rule"] == "x.a.example"
    assert opened.attributes["addresses"] == ("127.0.0.1",)
    assert opened.attributes["address"] == "127.0.0.1"
    assert opened.attributes["address_class"] == "private"
    server.close()
    with pytest.raises(ConnectFailed):
        net.dialer.open(ask("z.a.example", server.port, **PLAIN), soon())
    with pytest.raises(TimeIsUp):
        net.dialer.open(ask("y.a.example"), Deadline(0))
    with pytest.raises(EgressRefused):
        net.dialer.open(ask("b.example"), soon())
    assert net.words() == [
        "plugin_egress_opened",
        "plugin_egress_connection",
        "plugin_egress_failed",
        "plugin_egress_failed",
        "plugin_egress_denied",
    ]
    refused, late = net.log.records[2:4]
    assert (refused.attributes["failure"], refused.attributes["stage"]) == ("connect_failed", None)
    assert (late.attributes["failure"], late.attributes["stage"]) == ("egress_timeout", "resolve")
    assert late.attributes["rule"] == "*.a.example"


def test_a_peers_end_is_an_empty_read(ask: Make, network: Make, peer: Make) -> None:
    server = peer(peers.say(b"bye"))
    net = network({"a.example": [["127.0.0.1"]]})
    with net.dialer.open(ask("a.example", server.port, **PLAIN), soon()) as connection:
        assert connection.receive(10, soon()) == b"bye"
        assert connection.receive(10, soon()) == b""


def test_a_loop_of_a_transports_own_reads_and_writes_without_waiting(
    ask: Make, network: Make, peer: Make
) -> None:
    server = peer(peers.echo)
    net = network({"a.example": [["127.0.0.1"]]})
    with net.dialer.open(ask("a.example", server.port, **PLAIN), soon()) as connection:
        assert connection.receive_now(10) is None
        assert not peers.readable(connection.fileno())
        assert connection.fileno() >= 0
        assert connection.send_now(b"hello") == 5
        assert peers.eventually(lambda: peers.readable(connection.fileno()))
        assert connection.receive_now(10) == b"hello"
    assert connection.fileno() == -1
    with pytest.raises(ConnectionClosed):
        connection.receive_now(1)


@pytest.mark.req("PAINS-16")
def test_the_address_that_was_checked_is_the_address_that_is_dialled(
    ask: Make, network: Make, peer: Make
) -> None:
    """A name server that answers otherwise the second time is not asked a second time."""
    checked = peer(peers.say(b"checked"))
    other = peer(peers.say(b"other"), address="127.0.0.2", port=checked.port)
    net = network({"a.example": [["127.0.0.1"], ["127.0.0.2"]]})
    with net.dialer.open(ask("a.example", checked.port, **PLAIN), soon()) as connection:
        assert connection.receive(10, soon()) == b"checked"
    assert net.resolver.asked == ["a.example"]
    assert other.accepted == 0
    with net.dialer.open(ask("a.example", checked.port, **PLAIN), soon()) as connection:
        assert connection.receive(10, soon()) == b"other"


@pytest.mark.req("PLG-174", "PLG-183", "PLG-184", "PLG-369", "PAINS-16")
@pytest.mark.parametrize("transport", Transport)
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (["127.0.0.1"], "private_address"),
        (["1.1.1.1", "127.0.0.1"], "mixed_addresses"),
        (["127.0.0.1", "169.254.169.254"], "metadata_address"),
        (["::ffff:127.0.0.1"], "private_address"),
    ],
)
def test_a_refused_answer_opens_no_connection_and_is_logged(
    ask: Make, network: Make, peer: Make, transport: Transport, answer: list[str], reason: str
) -> None:
    server = peer()
    net = network({"a.example": [answer]}, private=False)
    with pytest.raises(EgressRefused) as caught:
        net.dialer.open(ask("a.example", server.port, transport=transport, **PLAIN), soon())
    assert caught.value.decision.reason == reason
    assert server.accepted == 0
    (record,) = net.log.records
    assert record.error_key == "plugin_egress_denied"
    assert (
        record.attributes
        | {
            "plugin": "weather",
            "plugin_capability": "tool",
            "plugin_binding": "weather",
            "transport": transport.value,
            "host": "a.example",
            "reason": reason,
        }
        == record.attributes
    )
    assert bool(record.remedies) is (reason == "private_address")
    assert net.slots.held(ask("a.example").identity) == 0


@pytest.mark.req("PLG-174", "PLG-178", "PLG-369")
@pytest.mark.parametrize(
    "how", [{"host": "b.example"}, {"permitted": False}, {"port": 0}, {"host": "0x7f.1"}]
)
def test_a_request_that_is_refused_by_itself_is_not_resolved(
    ask: Make, network: Make, how: dict[str, Any]
) -> None:
    net = network({"a.example": [["127.0.0.1"]]})
    with pytest.raises(EgressRefused):
        net.dialer.open(ask(**{"host": "a.example", **how}), soon())
    assert net.resolver.asked == []
    assert net.words() == ["plugin_egress_denied"]


@pytest.mark.req("PLG-176", "PLG-369")
def test_the_policy_is_asked_for_anew_for_every_request(ask: Make, network: Make, peer: Make) -> None:
    server = peer()
    net = network({"a.example": [["127.0.0.1"]]})
    request: EgressRequest = ask("a.example", server.port, **PLAIN)
    net.dialer.open(request, soon()).close()
    net.policies.set(request.identity, EgressPolicy.of([]))
    with pytest.raises(EgressRefused):
        net.dialer.open(request, soon())
    net.policies.set(request.identity, EgressPolicy.of(["a.example"], ["a.example"]))
    net.dialer.open(request, soon()).close()


@pytest.mark.req("PLG-184", "PAINS-17")
def test_what_the_remedies_of_a_denial_set_makes_the_same_request_pass(
    ask: Make, network: Make, peer: Make
) -> None:
    server = peer()
    net = network({"a.example": [["127.0.0.1"]]})
    request: EgressRequest = ask("a.example", server.port, **PLAIN)
    lists: dict[str, str] = {}
    for expected in ("host_not_granted", "private_address"):
        values = [
            lists.get(name, "").split(",") if name in lists else []
            for name in ("egress_hosts", "egress_allow_private")
        ]
        net.policies.set(request.identity, EgressPolicy.of(*values))
        with pytest.raises(EgressRefused) as caught:
            net.dialer.open(request, soon())
        assert caught.value.decision.reason == expected
        for remedy in caught.value.decision.remedies:
            assert remedy.action is RemedyAction.SET_CONFIG
            lists[remedy.arguments["path"].rpartition(".")[2]] = remedy.arguments["value"]
    net.policies.set(
        request.identity, EgressPolicy.of([lists["egress_hosts"]], [lists["egress_allow_private"]])
    )
    net.dialer.open(request, soon()).close()


@pytest.mark.req("PLG-226")
@pytest.mark.parametrize("transport", Transport)
@pytest.mark.parametrize("settings", [{"nat64_prefixes": ["nonsense"]}, {"max_connections": 0}])
def test_a_bad_deployment_refuses_every_plugin_by_every_transport(
    ask: Make, network: Make, transport: Transport, settings: dict[str, Any]
) -> None:
    net = network({"a.example": [["127.0.0.1"]]})
    with pytest.raises(PolicyInvalid) as invalid:
        EgressPolicy.of(["a.example"], **settings)
    for package in ("one", "two", "three"):
        identity = InstanceIdentity.default_tool(package)
        net.policies.set(identity, invalid.value)
        with pytest.raises(EgressRefused) as caught:
            net.dialer.open(ask("a.example", transport=transport, identity=identity), soon())
        assert caught.value.decision.reason == "policy_invalid"
    assert net.resolver.asked == []


def test_an_unreadable_configuration_refuses(ask: Make, network: Make) -> None:
    net = network({"a.example": [["127.0.0.1"]]})
    net.policies.set(ask("a.example").identity, PolicyUnavailable("the configuration cannot be read"))
    with pytest.raises(EgressRefused) as caught:
        net.dialer.open(ask("a.example"), soon())
    assert caught.value.decision.reason == "policy_unavailable"


@pytest.mark.parametrize(("script", "empty"), [({}, False), ({"a.example": [[]]}, True)])
def test_a_host_without_addresses_is_no_denial(
    ask: Make, network: Make, script: dict[str, Any], empty: bool
) -> None:
    net = network({"a.example": [["127.0.0.1"]]})
    net.resolver._script = script  # what the policy grants, the script may lack
    with pytest.raises(ResolutionFailed) as caught:
        net.dialer.open(ask("a.example"), soon())
    assert caught.value.empty is empty
    (record,) = net.log.records
    assert record.error_key == "plugin_egress_failed"
    assert record.attributes["failure"] == "resolution_failed"
    assert record.attributes["rule"] == "a.example"


def test_the_addresses_are_tried_in_the_resolvers_order_until_one_answers(
    ask: Make, network: Make, peer: Make
) -> None:
    server = peer(peers.say(b"second"), address="127.0.0.2")
    peer(peers.say(b"third"), address="127.0.0.3", port=server.port)
    net = network({"a.example": [["127.0.0.1", "127.0.0.2", "127.0.0.3"]]})
    with net.dialer.open(ask("a.example", server.port, **PLAIN), soon()) as connection:
        assert connection.receive(10, soon()) == b"second"
    assert net.slots.held(connection.decision.request.identity) == 0


def test_thousands_of_addresses_are_all_tried(ask: Make, network: Make, peer: Make) -> None:
    server = peer(peers.say(b"last"), address="127.9.9.9")
    answer = [f"127.1.{number // 250}.{number % 250 + 1}" for number in range(2_000)]
    net = network({"a.example": [[*answer, "127.9.9.9"]]})
    with peers.nothing_left(), net.dialer.open(ask("a.example", server.port, **PLAIN), soon()) as connection:
        assert connection.receive(10, soon()) == b"last"


def test_a_host_that_refuses_at_every_address_is_said_to(ask: Make, network: Make) -> None:
    net = network({"a.example": [["127.0.0.1", "127.0.0.2"]]})
    with pytest.raises(ConnectFailed) as caught:
        net.dialer.open(ask("a.example", peers.unused_port(), **PLAIN), soon())
    assert caught.value.refused
    assert net.slots.held(ask("a.example").identity) == 0


def test_an_unreachable_address_is_no_refusal(ask: Make, network: Make) -> None:
    net = network({"a.example": [["127.0.0.1", "0.0.0.0", "255.255.255.255"]]})
    with pytest.raises(ConnectFailed) as caught:
        net.dialer.open(ask("a.example", peers.unused_port(), **PLAIN), soon())
    assert not caught.value.refused


def test_an_address_is_dialled_without_a_lookup(ask: Make, network: Make, peer: Make) -> None:
    server = peer(peers.say(b"here"))
    net = network({"127.0.0.1": []})
    with net.dialer.open(ask("127.0.0.1", server.port, **PLAIN), soon()) as connection:
        assert connection.receive(10, soon()) == b"here"
    assert net.resolver.asked == []


def test_the_systems_resolver_knows_this_machine(ask: Make, network: Make, peer: Make) -> None:
    server = peer(peers.say(b"here"))
    net = network({"localhost": []})
    dialer = Dialer(net.policies, net.log, slots=net.slots, anchors=net.anchors)
    with dialer.open(ask("LocalHost.", server.port, **PLAIN), soon()) as connection:
        assert connection.receive(10, soon()) == b"here"


def test_the_systems_resolver_says_when_there_is_no_such_host(ask: Make, network: Make) -> None:
    net = network({"no-such-host.invalid": []})  # RFC 6761: never resolves
    dialer = Dialer(net.policies, net.log, slots=net.slots)
    with pytest.raises(ResolutionFailed) as caught:
        dialer.open(ask("no-such-host.invalid"), soon())
    assert not caught.value.empty


# --- what a transport does of its own -----------------------------------------------------------------------------------


def test_a_transports_own_opening_is_part_of_an_addresss_attempt(
    ask: Make, network: Make, peer: Make
) -> None:
    first = peer(peers.say(b"no"))
    peer(peers.say(b"yes"), address="127.0.0.2", port=first.port)
    net = network({"a.example": [["127.0.0.1", "127.0.0.2"]]})
    heard: list[bytes] = []

    def greet(connection: Any, deadline: Deadline) -> None:
        heard.append(connection.receive(10, deadline))
        if heard[-1] == b"no":
            raise AttemptFailed("it does not want to")

    with net.dialer.open(ask("a.example", first.port, **PLAIN), soon(), establish=greet) as connection:
        assert str(connection.address) == "127.0.0.2"
        assert net.slots.held(connection.decision.request.identity) == 1
    assert heard == [b"no", b"yes"]
    assert net.slots.held(connection.decision.request.identity) == 0


@pytest.mark.parametrize("error", [AttemptFailed("no"), RuntimeError("a mistake"), KeyboardInterrupt()])
def test_whatever_an_opening_raises_nothing_is_left(
    ask: Make, network: Make, peer: Make, error: BaseException
) -> None:
    server = peer(peers.hold)
    net = network({"a.example": [["127.0.0.1"]]})

    def fail(connection: Any, deadline: Deadline) -> None:
        raise error

    with peers.nothing_left(), pytest.raises(type(error)):
        net.dialer.open(ask("a.example", server.port, **PLAIN), soon(), establish=fail)
    assert net.slots.held(ask("a.example").identity) == 0


def test_an_opening_that_closes_the_connection_leaves_no_slot(ask: Make, network: Make, peer: Make) -> None:
    server = peer(peers.hold)
    net = network({"a.example": [["127.0.0.1"]]})
    request = ask("a.example", server.port, **PLAIN)
    connection = net.dialer.open(request, soon(), establish=lambda opened, _: opened.close())
    assert connection.closed
    assert net.slots.held(request.identity) == 0


# --- broken, closed and dropped -----------------------------------------------------------------------------------------


def reset(connection: socket.socket) -> None:
    connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def test_a_reset_connection_is_broken(ask: Make, network: Make, peer: Make) -> None:
    server = peer(reset)
    net = network({"a.example": [["127.0.0.1"]]})
    with net.dialer.open(ask("a.example", server.port, **PLAIN), soon()) as connection:
        connection.send(b"x", soon())
        with pytest.raises(ConnectionBroken):
            connection.receive(10, soon())


@pytest.mark.parametrize("times", [1, 3])
def test_closing_ends_what_another_thread_waits_for(ask: Make, network: Make, peer: Make, times: int) -> None:
    server = peer(peers.hold)
    net = network({"a.example": [["127.0.0.1"]]})
    request = ask("a.example", server.port, **PLAIN)
    with peers.nothing_left():
        connection = net.dialer.open(request, soon())
        caught: list[ZeroclawError] = []

        def read() -> None:
            try:
                connection.receive(1, soon())
            except ZeroclawError as error:
                caught.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        closers = [threading.Thread(target=connection.close) for _ in range(times)]
        for closer in closers:
            closer.start()
        for thread in (*closers, reader):
            thread.join(peers.PATIENCE)
    assert [type(error) for error in caught] == [ConnectionClosed]
    assert net.slots.held(request.identity) == 0
    assert net.words() == ["plugin_egress_opened", "plugin_egress_connection"]


def test_a_connection_that_is_dropped_unclosed_leaves_nothing(ask: Make, network: Make, peer: Make) -> None:
    server = peer(peers.hold)
    net = network({"a.example": [["127.0.0.1"]]})
    request = ask("a.example", server.port, **PLAIN)
    with peers.nothing_left():
        connection = net.dialer.open(request, soon())
        assert net.slots.held(request.identity) == 1
        del connection
    assert net.slots.held(request.identity) == 0
    assert net.words() == ["plugin_egress_opened"]


def test_a_dropped_connection_may_be_found_while_its_thread_holds_the_count(
    ask: Make, network: Make, peer: Make
) -> None:
    """The collector runs at any point of any thread: giving back waits for no lock."""
    server = peer(peers.hold)
    net = network({"a.example": [["127.0.0.1"]]})
    request = ask("a.example", server.port, **PLAIN)
    connection = net.dialer.open(request, soon())
    with net.slots._lock:
        del connection
    assert net.slots.held(request.identity) == 0


# --- slots ----------------------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-124")
def test_all_transports_of_an_instance_share_its_places(ask: Make, network: Make, peer: Make) -> None:
    server = peer(peers.hold)
    net = network({"a.example": [["127.0.0.1"]]})
    other = InstanceIdentity.default_tool("other")
    net.policies.set(other, EgressPolicy.of(["a.example"], ["a.example"]))
    transports = list(Transport)
    held = [
        net.dialer.open(ask("a.example", server.port, transport=transports[number % 3], **PLAIN), soon())
        for number in range(16)
    ]
    for transport in transports:
        with pytest.raises(ConnectionLimit) as caught:
            net.dialer.open(ask("a.example", server.port, transport=transport, **PLAIN), soon())
        assert caught.value.remedy == Remedy(
            RemedyAction.RAISE_LIMIT, {"limit": "max_connections_per_instance"}
        )
    assert net.words() == ["plugin_egress_opened"] * 16 + ["plugin_egress_connection_limit"] * 3
    net.dialer.open(ask("a.example", server.port, identity=other, **PLAIN), soon()).close()
    held.pop().close()
    net.dialer.open(ask("a.example", server.port, **PLAIN), soon()).close()
    for connection in held:
        connection.close()
    assert net.slots.held(ask("a.example").identity) == 0


@pytest.mark.req("PLG-124")
def test_threads_that_dial_at_once_never_hold_more_than_the_limit(
    ask: Make, network: Make, peer: Make
) -> None:
    server = peer(peers.echo)
    net = network({"a.example": [["127.0.0.1"]]}, max_connections=3)
    request = ask("a.example", server.port, **PLAIN)
    held: list[int] = []
    refused: list[ConnectionLimit] = []

    def dial() -> None:
        for _ in range(20):
            try:
                connection = net.dialer.open(request, soon())
            except ConnectionLimit as error:
                refused.append(error)
                continue
            held.append(net.slots.held(request.identity))
            connection.close()

    with peers.nothing_left():
        threads = [threading.Thread(target=dial) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(peers.PATIENCE)
    assert len(held) + len(refused) == 160
    assert held
    assert max(held) <= 3
    assert net.slots.held(request.identity) == 0


@pytest.mark.req("PLG-124")
def test_the_limit_is_the_one_in_force_when_a_connection_is_asked_for(
    ask: Make, network: Make, peer: Make
) -> None:
    server = peer(peers.hold)
    net = network({"a.example": [["127.0.0.1"]]}, max_connections=2)
    request = ask("a.example", server.port, **PLAIN)
    held = [net.dialer.open(request, soon()) for _ in range(2)]
    net.policies.set(request.identity, EgressPolicy.of(["a.example"], ["a.example"], max_connections=3))
    held.append(net.dialer.open(request, soon()))
    net.policies.set(request.identity, EgressPolicy.of(["a.example"], ["a.example"], max_connections=1))
    held.pop().close()
    with pytest.raises(ConnectionLimit):
        net.dialer.open(request, soon())
    for connection in held:
        connection.close()


@pytest.mark.req("PLG-125")
def test_one_after_the_other_never_reaches_the_limit(ask: Make, network: Make, peer: Make) -> None:
    server = peer(peers.echo)
    net = network({"a.example": [["127.0.0.1"]]}, max_connections=1)
    for _ in range(100):
        net.dialer.open(ask("a.example", server.port, **PLAIN), soon()).close()


def test_a_thousand_dials_leave_nothing_behind(ask: Make, network: Make, peer: Make) -> None:
    """Good ones, refused ones, those that are no TLS, and those whose answer is not permitted."""
    server = peer(peers.say(b"this is no TLS\n" * 10))
    nobody = peers.unused_port()
    net = network({"a.example": [["127.0.0.1"]], "b.example": [["169.254.169.254"]]})
    requests = [
        (ask("a.example", server.port, **PLAIN), None),
        (ask("a.example", nobody, **PLAIN), ConnectFailed),
        (ask("b.example", server.port, **PLAIN), EgressRefused),
        (ask("a.example", server.port), AttemptFailed),
    ]
    net.anchors.context()
    with peers.nothing_left():
        for number in range(1_000):
            request, error = requests[number % len(requests)]
            if error is None:
                net.dialer.open(request, soon()).close()
            else:
                with pytest.raises(error):
                    net.dialer.open(request, soon())
    assert net.slots.held(ask("a.example").identity) == 0


def test_an_address_that_swallows_everything_leaves_time_for_the_next(
    ask: Make, network: Make, peer: Make
) -> None:
    """The first address accepts and says nothing; the others speak. The transport's opening waits for the first word."""

    def speak_elsewhere(connection: socket.socket) -> None:
        if connection.getsockname()[0] == "127.0.0.1":
            peers.hold(connection)
        connection.sendall(b"hello")

    server = peer(speak_elsewhere, address="0.0.0.0")
    net = network({"a.example": [[f"127.0.0.{number}" for number in range(1, 41)]]})
    with net.dialer.open(
        ask("a.example", server.port, **PLAIN),
        soon(),
        establish=lambda connection, deadline: connection.receive(10, deadline),
    ) as connection:
        assert str(connection.address) != "127.0.0.1"


def test_when_all_addresses_are_silent_the_time_is_up(ask: Make, network: Make, peer: Make) -> None:
    silent = peer(peers.hold)
    peer(peers.hold, address="127.0.0.2", port=silent.port)
    net = network({"a.example": [["127.0.0.1", "127.0.0.2"]]})
    with pytest.raises(TimeIsUp) as caught:
        net.dialer.open(
            ask("a.example", silent.port, **PLAIN),
            Deadline(0.3),
            establish=lambda connection, deadline: connection.receive(10, deadline),
        )
    assert caught.value.stage in (Stage.CONNECT, Stage.RECEIVE, Stage.RESOLVE)
    assert net.slots.held(ask("a.example").identity) == 0
