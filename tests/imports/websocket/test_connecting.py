"""Connecting: what the network authority and the peer say, in the interface's own words."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

import peers
import pytest
import trustme
import websocket_peers
from hypothesis import given
from hypothesis import strategies as st
from websocket_peers import acceptance, request_of

from zeroclaw_host.contract import contract
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.decision import Check, Decision, Reason, Step
from zeroclaw_host.egress.failures import (
    ConnectFailed,
    ConnectionLimit,
    DialCancelled,
    EgressRefused,
    ResolutionFailed,
    Stage,
    TimeIsUp,
    TlsConfigurationFailed,
    TlsFailed,
)
from zeroclaw_host.egress.policy import EgressPolicy, PolicyInvalid, PolicyUnavailable
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.egress.request import EgressRequest, Transport
from zeroclaw_host.imports.websocket import CONNECT_SECONDS, INTERFACE
from zeroclaw_host.imports.websocket.failures import word_of
from zeroclaw_host.imports.websocket.options import ConnectOptions
from zeroclaw_host.imports.websocket.upgrade import MAX_RESPONSE_BYTES, Upgrade, UpgradeFailed
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.sandbox.frame import Phase
from zeroclaw_host.sandbox.values import Err

Make = Callable[..., Any]


@pytest.mark.req("PLG-369", "PLG-024")
def test_every_function_of_the_contract_is_there_and_charged() -> None:
    assert set(INTERFACE.functions) == {
        "connect",
        *(f"[method]connection.{name}" for name in ("send", "receive", "close", "negotiated-subprotocol")),
    }
    for function in INTERFACE.functions.values():
        assert function.charged
        assert function.exhausted == Err("unavailable")


# --- the authority's word -----------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-013", "PLG-369", "PAINS-16")
def test_nothing_granted_is_denied_and_no_packet_is_sent(guest: Make, peer: Make) -> None:
    origin = peer(peers.hold)
    tool = guest({"a.example": [["127.0.0.1"]]})
    tool.grant([])
    for host in ("a.example", "127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
        assert tool.connect(f"ws://{host}:{origin.port}/") == "destination-denied"
    assert tool.resolver.asked == []
    assert origin.accepted == 0
    assert tool.held == 0


@pytest.mark.req("PAINS-16")
@pytest.mark.parametrize("host", ["0x7f.0.0.1", "2130706433", "0177.0.0.1", "127.1"])
def test_an_address_in_another_spelling_is_no_host(host: str, guest: Make, peer: Make) -> None:
    origin = peer(peers.hold)
    tool = guest({"127.0.0.1": [["127.0.0.1"]]})
    assert tool.connect(f"ws://{host}:{origin.port}/") == "invalid-options"
    assert origin.accepted == 0


@pytest.mark.req("PAINS-16")
@pytest.mark.parametrize(
    "answer",
    [["127.0.0.1"], ["10.0.0.1"], ["192.0.2.1", "8.8.8.8"], ["169.254.169.254"], ["64:ff9b::7f00:1"]],
)
def test_a_name_with_an_address_that_is_not_global_is_denied(answer: list[str], guest: Make) -> None:
    tool = guest({"a.example": [answer]})
    tool.grant(["a.example"], private=False)
    assert tool.connect("ws://a.example:1/") == "destination-denied"


@pytest.mark.req("PLG-369")
def test_a_grant_counts_for_the_next_connection_and_its_end_too(guest: Make, server: Make) -> None:
    origin = server()
    url = f"ws://a.example:{origin.port}/"
    tool = guest()
    tool.grant([])
    assert tool.connect(url) == "destination-denied"
    tool.grant(["a.example"])
    connection = tool.connect(url)
    assert tool.word("send", connection, ("text", "x")) == "ok"
    tool.grant([])
    assert tool.connect(url) == "destination-denied"
    assert tool.receive(connection) == ("message", ("text", "x")), "what is open goes on"


@pytest.mark.req("PLG-013", "PLG-369")
def test_without_the_permission_access_is_denied_whatever_is_granted(guest: Make, peer: Make) -> None:
    origin = peer(peers.hold)
    for permissions in ('permissions = ["http_client", "socket_client"]', ""):
        tool = guest(
            manifest='name = "chat"\nversion = "1"\nwasm_path = "a.wasm"\ncapabilities = ["tool"]\n'
            + permissions
        )
        assert tool.connect(f"ws://a.example:{origin.port}/") == "access-denied"
        assert tool.connect("no url at all") == "access-denied", "said before the options are looked at"
    assert origin.accepted == 0


def test_a_frame_without_services_makes_no_connection(guest: Make, server: Make) -> None:
    origin = server()
    tool = guest()
    standing = tool.new_frame(phase=Phase.STANDARD)
    assert tool.connect(f"ws://a.example:{origin.port}/", frame=standing) == "unavailable"
    assert origin.requests == []
    wrong = tool.new_frame(phase=Phase.CHANNEL_SERVICE)
    assert tool.connect(f"ws://a.example:{origin.port}/", frame=wrong) == "unavailable"


@pytest.mark.req("PLG-226")
def test_a_deployment_that_cannot_be_a_policy_denies_every_connection(guest: Make, peer: Make) -> None:
    origin = peer(peers.hold)
    tool = guest()
    wrong: list[dict[str, Any]] = [{"nat64_prefixes": ["nonsense"]}, {"max_connections": 0}]
    for how in wrong:
        with pytest.raises(PolicyInvalid) as caught:
            EgressPolicy.of(["a.example"], ["a.example"], **how)
        tool.policies.set(tool.scope.identity, caught.value)
        assert tool.connect(f"ws://a.example:{origin.port}/") == "destination-denied"
    tool.policies.set(tool.scope.identity, PolicyUnavailable("the configuration cannot be read"))
    assert tool.connect(f"ws://a.example:{origin.port}/") == "unavailable"
    assert origin.accepted == 0


@pytest.mark.req("PLG-124")
def test_the_seventeenth_connection_is_refused_and_a_dropped_one_makes_room(
    guest: Make, server: Make
) -> None:
    origin = server()
    url = f"ws://a.example:{origin.port}/"
    tool = guest()
    connections = [tool.connect(url) for _ in range(16)]
    assert tool.held == 16
    assert tool.connect(url) == "connection-limit"
    connections[7].close()
    last = tool.connect(url)
    assert tool.held == 16
    assert tool.connect(url) == "connection-limit"
    assert tool.word("close", last, None) == "ok"
    assert tool.receive(last)[0] == "closed"
    assert tool.held == 15, "what ended does not count, though the guest holds it"


def test_a_name_that_cannot_be_found_and_one_without_addresses(guest: Make) -> None:
    tool = guest({"a.example": [[]], "b.example": [["127.0.0.1"]]})
    assert tool.connect("ws://a.example/") == "destination-denied"
    tool.grant(["c.example"])
    assert tool.connect("ws://c.example/") == "dns-failed"


def test_nobody_who_listens_is_a_failed_connection(guest: Make) -> None:
    tool = guest({"a.example": [["127.0.0.1", "127.0.0.2"]]})
    assert tool.connect(f"ws://a.example:{peers.unused_port()}/") == "connect-failed"


def test_a_refusal_of_the_authority_is_logged_and_says_the_transport(guest: Make) -> None:
    tool = guest()
    tool.grant([])
    assert tool.connect("ws://a.example/") == "destination-denied"
    [record] = tool.log.records
    assert record.error_key.value == "plugin_egress_denied"
    assert record.attributes["transport"] == "websocket"


def refusal(reason: Reason) -> EgressRefused:
    request = EgressRequest(
        identity=InstanceIdentity.default_tool("chat"),
        transport=Transport.WEBSOCKET,
        host="a.example",
        port=80,
    )
    return EgressRefused(Decision(request, reason=reason, steps=(Step(Check.POLICY, False, "x"),)))


WORDS = [
    (refusal(Reason.PERMISSION_MISSING), "access-denied"),
    (refusal(Reason.POLICY_UNAVAILABLE), "unavailable"),
    *(
        (refusal(reason), "destination-denied")
        for reason in Reason
        if reason
        not in (
            Reason.PERMISSION_MISSING,
            Reason.POLICY_UNAVAILABLE,
            Reason.HOST_INVALID,
            Reason.PORT_INVALID,
        )
    ),
    (refusal(Reason.HOST_INVALID), "invalid-options"),
    (refusal(Reason.PORT_INVALID), "invalid-options"),
    (ResolutionFailed("x"), "dns-failed"),
    (ResolutionFailed("x", empty=True), "destination-denied"),
    (ConnectionLimit(16, 16), "connection-limit"),
    (TlsConfigurationFailed("x"), "tls-failed"),
    (TlsFailed("x"), "tls-failed"),
    (ConnectFailed("x"), "connect-failed"),
    (UpgradeFailed("handshake-failed", "x"), "handshake-failed"),
    (UpgradeFailed("invalid-subprotocol", "x"), "invalid-subprotocol"),
    *((TimeIsUp(stage), "timeout") for stage in Stage),
    (DialCancelled(Stage.CONNECT), None),
]


@pytest.mark.parametrize(("error", "word"), WORDS, ids=lambda value: str(value)[:40])
def test_every_failure_of_the_authority_has_one_word(error: Any, word: str | None) -> None:
    assert word_of(error) == word
    if word is not None:
        assert word in dict(contract().interface("zeroclaw:plugin/websocket").types)["websocket-error"].cases


# --- the peer's word ----------------------------------------------------------------------------------------------------


def test_the_request_is_what_the_guest_asked_for_and_nothing_of_the_hosts(guest: Make, server: Make) -> None:
    origin = server(subprotocols=["chat.v2"])
    tool = guest()
    connection = tool.connect(
        f"ws://A.Example.:{origin.port}/a?b=c",
        headers=[("Authorization", "Bearer secret"), ("X-More", "1"), ("x-more", "2")],
        subprotocols=["chat.v1", "chat.v2"],
    )
    [(target, headers)] = origin.requests
    assert target == "/a?b=c"
    fixed = dict(headers)
    key = fixed.pop("Sec-WebSocket-Key")
    assert len(key) == 24
    assert [(name, value) for name, value in headers if name != "Sec-WebSocket-Key"] == [
        ("Host", f"a.example:{origin.port}"),
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Protocol", "chat.v1, chat.v2"),
        ("Authorization", "Bearer secret"),
        ("X-More", "1"),
        ("x-more", "2"),
    ]
    assert tool.call("[method]connection.negotiated-subprotocol", connection).value == "chat.v2"


def test_a_peer_that_chooses_no_subprotocol_is_fine(guest: Make, server: Make) -> None:
    origin = server()
    tool = guest()
    connection = tool.connect(f"ws://a.example:{origin.port}/", subprotocols=["chat"])
    assert tool.call("[method]connection.negotiated-subprotocol", connection).value is None


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ([], ["chat"]),
        (["chat"], ["Chat"]),
        (["chat"], ["mqtt"]),
        (["chat", "mqtt"], ["chat, mqtt"]),
        (["chat", "mqtt"], ["chat", "mqtt"]),
        (["chat"], [""]),
        (["chat"], ["a b"]),
    ],
)
def test_a_subprotocol_that_was_not_offered_is_refused(
    offered: list[str], chosen: list[str], guest: Make, peer: Make
) -> None:
    more = [f"Sec-WebSocket-Protocol: {name}" for name in chosen]
    origin = peer(websocket_peers.upgraded(peers.hold, *more))
    tool = guest()
    found = tool.connect(f"ws://a.example:{origin.port}/", subprotocols=offered)
    assert found == "invalid-subprotocol"
    assert tool.held == 0


def head(text: str) -> peers.Handler:
    """A peer that answers with these lines and goes on waiting; ``{key}`` is the right one."""

    def handle(plug: Any) -> None:
        accepted = websocket_peers.header_of(acceptance(request_of(plug)), "Sec-WebSocket-Accept")
        plug.sendall(text.replace("\n", "\r\n").replace("{key}", accepted).encode("latin-1"))
        peers.hold(plug)

    return handle


GOOD = "HTTP/1.1 101 x\nUpgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Accept: {key}\n"


@pytest.mark.parametrize(
    "answer",
    [
        "HTTP/1.1 200 OK\n\n",
        "HTTP/1.1 200 OK\nContent-Length: 1000000000\n\n",
        "HTTP/1.1 301 Moved\nLocation: ws://a.example/other\n\n",
        "HTTP/1.1 302 Found\nLocation: ws://b.example/\nContent-Length: 10\n\n",
        "HTTP/1.1 401 No\nTransfer-Encoding: chunked\n\n",
        "HTTP/1.1 403 No\n\n",
        "HTTP/1.1 100 Continue\n\n",
        "HTTP/1.1 103 Early Hints\n\n",
        "HTTP/1.1 500 No\n\n",
        GOOD.replace("HTTP/1.1", "HTTP/1.0") + "\n",
        GOOD.replace("HTTP/1.1", "HTTP/2") + "\n",
        GOOD.replace("{key}", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=") + "\n",
        GOOD.replace("Sec-WebSocket-Accept: {key}\n", "") + "\n",
        GOOD + "Sec-WebSocket-Accept: {key}\n\n",
        GOOD.replace("Upgrade: websocket", "Upgrade: h2c") + "\n",
        GOOD.replace("Upgrade: websocket\n", "") + "\n",
        GOOD.replace("Connection: Upgrade", "Connection: close") + "\n",
        GOOD + "Sec-WebSocket-Extensions: permessage-deflate\n\n",
        GOOD + "Sec-WebSocket-Extensions: permessage-deflate\nSec-WebSocket-Protocol: chat\n\n",
        GOOD + "a b: c\n\n",
        GOOD + "no colon\n\n",
        GOOD + " folded: line\n\n",
        "SSH-2.0-OpenSSH_9\n",
        "\n\n",
        "HTTP/1.1 101\n",
        "HTTP/1.1 abc x\n",
        "\xff\xfe\n",
    ],
)
def test_an_answer_that_is_no_upgrade_is_a_failed_handshake_at_once(
    answer: str, guest: Make, peer: Make
) -> None:
    """The peer holds the connection open, and says nothing more: nobody waits for the rest of a refusal."""
    origin = peer(head(answer))
    tool = guest()
    assert tool.connect(f"ws://a.example:{origin.port}/") == "handshake-failed"
    assert tool.held == 0
    assert origin.accepted == 1, "nothing is followed"


@pytest.mark.parametrize("answer", ["", "HTTP/1.1 101 x\r\n", "HTTP/1.1 101 x\r\nUpgrade: webso"])
def test_a_peer_that_ends_before_its_answer_does_is_a_failed_handshake(
    answer: str, guest: Make, peer: Make
) -> None:
    def handle(plug: Any) -> None:
        request_of(plug)
        plug.sendall(answer.encode())

    origin = peer(handle)
    assert guest().connect(f"ws://a.example:{origin.port}/") == "handshake-failed"


def test_an_answers_head_has_at_most_64_kib(guest: Make, peer: Make) -> None:
    def answering(size: int) -> peers.Handler:
        def handle(plug: Any) -> None:
            least = acceptance(request_of(plug))
            left = size - len(least)
            lines: list[bytes] = []
            while left:
                length = min(left, 4000)
                length -= 10 if 0 < left - length < 10 else 0
                lines.append(b"X: " + b"y" * (length - 5) + b"\r\n")
                left -= length
            plug.sendall(least[:-2] + b"".join(lines) + b"\r\n")
            peers.hold(plug)

        return handle

    tool = guest()
    fits = peer(answering(MAX_RESPONSE_BYTES))
    assert not isinstance(tool.connect(f"ws://a.example:{fits.port}/"), str)
    longer = peer(answering(MAX_RESPONSE_BYTES + 1))
    assert tool.connect(f"ws://a.example:{longer.port}/") == "handshake-failed"


def test_an_answer_without_end_is_bounded(guest: Make, peer: Make) -> None:
    def handle(plug: Any) -> None:
        plug.sendall(acceptance(request_of(plug))[:-2])
        while True:
            plug.sendall(b"X: y\r\n" * 100)

    origin = peer(handle)
    assert guest().connect(f"ws://a.example:{origin.port}/") == "handshake-failed"


def test_frames_behind_the_answer_are_the_first_to_arrive(guest: Make, peer: Make) -> None:
    """In the same packet, and more of them than are kept for the guest."""
    messages = [f"{number}" * 50 for number in range(20)]

    def handle(plug: Any) -> None:
        frames = b"".join(websocket_peers.frame(1, text.encode()) for text in messages)
        plug.sendall(acceptance(request_of(plug)) + frames + websocket_peers.closing(1000))
        peers.hold(plug)

    origin = peer(handle)
    tool = guest()
    connection = tool.connect(f"ws://a.example:{origin.port}/")
    assert [tool.receive(connection) for _ in messages] == [("message", ("text", text)) for text in messages]
    assert tool.receive(connection) == ("closed", {"code": ("normal", None), "reason": ""})


def test_the_next_address_is_tried_when_one_does_not_upgrade(guest: Make, peer: Make) -> None:
    first = peer(head("HTTP/1.1 503 x\n\n"))
    second = peer(
        websocket_peers.saying(websocket_peers.frame(1, b"here")), address="127.0.0.2", port=first.port
    )
    tool = guest({"a.example": [["127.0.0.1", "127.0.0.2"]]})
    connection = tool.connect(f"ws://a.example:{first.port}/")
    assert tool.receive(connection) == ("message", ("text", "here"))
    assert (first.accepted, second.accepted, tool.held) == (1, 1, 1)
    assert tool.resolver.asked == ["a.example"]


@given(
    answer=st.binary(max_size=200)
    | st.binary(max_size=60).map(b"HTTP/1.1 101 x\r\n".__add__)
    | st.tuples(st.integers(0, 160), st.binary(min_size=1, max_size=3))
)
def test_whatever_a_peer_answers_it_is_an_upgrade_or_a_failed_one(answer: Any) -> None:
    """Bytes, bytes behind a good status line, or a proper answer with a few bytes of it replaced."""
    record = {"url": "ws://a.example/", "headers": [], "subprotocols": [], "tls-profile": None}
    upgrade = Upgrade(ConnectOptions.read(record))

    class Plug:
        """What the upgrade needs of a connection."""

        sent = b""

        def send(self, data: bytes, deadline: Deadline) -> None:
            if isinstance(answer, bytes):
                self.left = answer
            else:
                at, put = answer
                good = acceptance(data)
                self.left = good[:at] + put + good[at + len(put) :]

        def receive(self, limit: int, deadline: Deadline) -> bytes:
            taken, self.left = self.left[:limit], self.left[limit:]
            return taken

    try:
        upgrade(Plug(), Deadline(peers.PATIENCE))  # type: ignore[arg-type]
    except UpgradeFailed as failed:
        word = failed.word
    else:
        word = "ok"
    assert word in {"ok", "handshake-failed", "invalid-subprotocol"}


# --- TLS ----------------------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-355")
def test_a_secure_connection_trusts_what_the_machine_trusts(
    guest: Make, server: Make, secure: Make, trusted: None
) -> None:
    origin = server(tls=secure("a.example"))
    tool = guest()
    connection = tool.connect(f"wss://a.example:{origin.port}/")
    message = ("binary", bytes(range(256)) * 1000)
    assert tool.word("send", connection, message) == "ok"
    assert tool.receive(connection) == ("message", message)
    assert tool.word("close", connection, None) == "ok"
    assert tool.receive(connection) == ("closed", None)


def test_messages_that_wait_inside_the_tls_layer_arrive(
    guest: Make, server: Make, secure: Make, trusted: None
) -> None:
    """More of them in one record than are kept for the guest: the descriptor is not readable again."""
    total = 200

    def talk(connection: Any) -> None:
        for number in range(total):
            connection.send(f"{number}")
        connection.recv()

    origin = server(talk, tls=secure("a.example"))
    tool = guest()
    connection = tool.connect(f"wss://a.example:{origin.port}/")
    for number in range(total):
        assert tool.receive(connection) == ("message", ("text", f"{number}"))
    assert tool.word("send", connection, ("text", "done")) == "ok"


@pytest.mark.req("PLG-355")
@pytest.mark.parametrize("case", ["untrusted", "another name", "no tls"])
def test_a_peer_that_is_not_trusted_gets_no_request(
    case: str, guest: Make, peer: Make, secure: Make, request: pytest.FixtureRequest
) -> None:
    if case != "untrusted":
        request.getfixturevalue("trusted")
    heard: list[bytes] = []
    tls = None if case == "no tls" else secure("b.example" if case == "another name" else "a.example")
    answer: Any = peers.say(b"220 hello\r\n") if tls is None else lambda plug: heard.append(plug.recv(1))
    origin = peer(answer, tls=tls)
    tool = guest()
    assert tool.connect(f"wss://a.example:{origin.port}/") == "tls-failed"
    assert b"".join(heard) == b""
    assert tool.held == 0


def profile(**how: Any) -> TlsProfile:
    return TlsProfile(**{"name": "private", "hosts": ("a.example",), "custom_ca_secret": "ca", **how})


@pytest.mark.req("PLG-374")
def test_a_profile_brings_its_own_authority_and_the_clients_certificate(
    guest: Make, server: Make, secure: Make, authority: trustme.CA
) -> None:
    clients = trustme.CA()
    own = clients.issue_cert("plugin@a.example")
    origin = server(tls=secure("a.example", clients=clients))
    secrets = {
        "ca": authority.cert_pem.bytes().decode(),
        "certificate": own.cert_chain_pems[0].bytes().decode(),
        "key": own.private_key_pem.bytes().decode(),
    }
    names = {"client_certificate_secret": "certificate", "client_private_key_secret": "key"}
    tool = guest(tls_profiles=[profile(**names)], secrets=secrets)
    connection = tool.connect(f"wss://a.example:{origin.port}/", profile="private")
    assert tool.word("send", connection, ("text", "x")) == "ok"
    assert tool.receive(connection) == ("message", ("text", "x"))


@pytest.mark.usefixtures("trusted")
@pytest.mark.req("PLG-356")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_demands_a_client_certificate_refuses_who_names_no_profile(
    guest: Make, server: Make, secure: Make, version: ssl.TLSVersion
) -> None:
    """In the later version it says so only after the handshake."""
    context = secure("a.example", clients=trustme.CA())
    context.minimum_version = context.maximum_version = version
    tool = guest()
    assert tool.connect(f"wss://a.example:{server(tls=context).port}/") == "tls-failed"
    assert tool.held == 0


@pytest.mark.req("PLG-374", "PLG-360")
def test_a_profile_that_does_not_fit_is_denied_before_anything_is_dialled(
    guest: Make, peer: Make, authority: trustme.CA
) -> None:
    origin = peer(peers.hold)
    tool = guest(
        {"a.example": [["127.0.0.1"]], "b.example": [["127.0.0.1"]]},
        tls_profiles=[profile(), profile(name="broken", hosts=())],
        secrets={"ca": authority.cert_pem.bytes().decode()},
    )
    asked = [
        (f"wss://b.example:{origin.port}/", "private"),  # granted, and outside the profile's hosts
        (f"wss://a.example:{origin.port}/", "unknown"),
        (f"wss://a.example:{origin.port}/", ""),
        (f"wss://a.example:{origin.port}/", "broken"),
        (f"ws://a.example:{origin.port}/", "private"),  # nothing to select certificates for
        (f"wss://c.example:{origin.port}/", "private"),  # not granted
    ]
    assert [tool.connect(url, profile=name) for url, name in asked] == ["destination-denied"] * len(asked)
    assert tool.resolver.asked == []
    assert origin.accepted == 0


@pytest.mark.parametrize("secrets", [{}, {"ca": ""}, {"ca": "no certificate"}])
def test_a_profile_whose_secrets_do_not_do_fails_as_tls_does(
    secrets: dict[str, str], guest: Make, peer: Make
) -> None:
    origin = peer(peers.hold)
    tool = guest(tls_profiles=[profile()], secrets=secrets)
    assert tool.connect(f"wss://a.example:{origin.port}/", profile="private") == "tls-failed"
    assert origin.accepted == 0
    assert tool.held == 0


def test_connecting_takes_thirty_seconds_at_most() -> None:
    assert CONNECT_SECONDS == 30
