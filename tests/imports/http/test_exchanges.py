"""Requests and their responses: what arrives, what is held, and for how long."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import http_origins
import peers
import pytest
import trustme

from zeroclaw_host.egress.http import exchange
from zeroclaw_host.egress.http.body import BUFFER_BYTES
from zeroclaw_host.egress.http.exchange import MAX_OPENING
from zeroclaw_host.egress.http.message import MAX_HEAD_BYTES, MAX_INFORMATIONAL, MAX_RESPONSE_FIELDS
from zeroclaw_host.egress.policy import EgressPolicy, PolicyInvalid, PolicyUnavailable
from zeroclaw_host.errors import DeadlineExceeded, GuestTrap
from zeroclaw_host.imports.http.error_codes import NOT_PERMITTED
from zeroclaw_host.package.manifest import Permission
from zeroclaw_host.sandbox.frame import CallCancelled
from zeroclaw_host.sandbox.values import OK, Err, Ok

Make = Callable[..., Any]
BIG = bytes(range(256)) * 4096  # 1 MiB


def url(origin: Any, path: str = "/x") -> str:
    return f"http://a.example:{origin.port}{path}"


# --- what arrives ---------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-007", "PLG-177", "PLG-180", "PLG-352")
def test_a_request_arrives_as_it_was_made_and_the_response_as_it_was_answered(
    guest: Make, origin: Make
) -> None:
    server = origin(http_origins.reply(b"hello", headers={"X-One": "1", "connection": "close"}))
    net = guest()
    request = net.request(url(server, "/a/b?q=1&r=%20"), ("X-Two", b"\xe4 2 "), ("x-two", b"3"))
    response = net.answer(net.handle(request))
    assert net.call("[method]incoming-response.status", response) == 200
    headers = net.call("[method]incoming-response.headers", response)
    # What is about the connection is the host's, and is not passed on.
    assert net.call("[method]fields.entries", headers) == [("content-length", b"5"), ("x-one", b"1")]
    assert net.content(response) == b"hello"
    [asked] = server.asked
    assert (asked.method, asked.target) == ("GET", "/a/b?q=1&r=%20")
    assert asked.headers == [
        ("host", f"a.example:{server.port}"),
        ("x-two", "ä 2"),
        ("x-two", "3"),
        ("connection", "close"),
    ]


def test_a_guests_own_host_field_is_kept(guest: Make, origin: Make) -> None:
    server, net = origin(http_origins.reply()), guest()
    net.answer(net.get(url(server), ("Host", b"b.example"))).close()
    assert [value for name, value in server.asked[0].headers if name == "host"] == ["b.example"]


@pytest.mark.parametrize("status", ["301 Moved Permanently", "307 Temporary Redirect"])
def test_a_redirect_is_a_response_like_any_other(guest: Make, origin: Make, status: str) -> None:
    server = origin(http_origins.reply(status=status, headers={"location": "http://b.example/"}))
    net = guest()
    response = net.answer(net.get(url(server)))
    assert response.status == int(status[:3])
    assert response.headers.get("location") == [b"http://b.example/"]
    assert server.accepted == 1
    assert net.resolver.asked == ["a.example"]


def test_no_proxy_of_the_surroundings_is_used(
    guest: Make, origin: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    server, net = origin(http_origins.reply(b"direct")), guest()
    assert net.content(net.answer(net.get(url(server)))) == b"direct"


def send(net: Any, request: Any, content: bytes) -> tuple[Any, Any]:
    """A body with this in it, and the future; the body is not finished."""
    body = net.ok("[method]outgoing-request.body", request)
    stream = net.ok("[method]outgoing-body.write", body)
    future = net.handle(request)
    for start in range(0, len(content), 4096):
        portion = content[start : start + 4096]
        assert net.call("[method]output-stream.blocking-write-and-flush", stream, portion) == OK
    stream.close()
    return body, future


@pytest.mark.parametrize("declared", [False, True])
def test_content_goes_out_and_comes_back_while_it_goes(guest: Make, origin: Make, declared: bool) -> None:
    server, net = origin(http_origins.echo), guest()
    entries = [("content-length", str(len(BIG)).encode())] if declared else []
    request = net.request(url(server), *entries, method=("post", None))
    body = net.ok("[method]outgoing-request.body", request)
    stream = net.ok("[method]outgoing-body.write", body)
    response = None
    future = net.handle(request)
    found = bytearray()
    # The response begins before the request is whole, and is read in step with it: more than all buffers hold goes through.
    response = net.answer(future)
    incoming, arriving = net.body(response)
    for start in range(0, len(BIG), 4096):
        assert (
            net.call("[method]output-stream.blocking-write-and-flush", stream, BIG[start : start + 4096])
            == OK
        )
        found += net.call("[method]input-stream.read", arriving, 65_536).value
    stream.close()
    assert net.call("[static]outgoing-body.finish", body, None) == OK
    rest, error = net.read(arriving)
    assert (bytes(found) + rest, error) == (BIG, None)
    coding = server.asked[0].header("transfer-encoding")
    assert coding == (None if declared else "chunked")
    arriving.close()
    incoming.close()
    assert net.held == 0


def test_trailers_go_out_and_come_back(guest: Make, origin: Make) -> None:
    server, net = origin(http_origins.echo), guest()
    body, future = send(net, net.request(url(server), method=("post", None)), b"abc")
    assert net.call("[static]outgoing-body.finish", body, net.fields(("X-Sum", b"7"))) == OK
    response = net.answer(future)
    incoming, stream = net.body(response)
    assert net.read(stream) == (b"abc", None)
    stream.close()
    trailers = net.trailers(incoming)
    assert trailers.value.value.lines == [("x-sum", b"7")]


def test_trailers_after_content_of_a_declared_length_are_refused(guest: Make, origin: Make) -> None:
    server, net = origin(http_origins.echo), guest()
    request = net.request(url(server), ("content-length", b"3"), method=("post", None))
    body, future = send(net, request, b"abc")
    refused = net.call("[static]outgoing-body.finish", body, net.fields(("x-sum", b"7")))
    assert refused == Err(("HTTP-protocol-error", None))
    net.frame.table.push(future)
    net.frame.table.close()


@pytest.mark.parametrize("line", [("content-length", b"x"), ("host", b"b.example"), ("content-length", b"1")])
@pytest.mark.parametrize("when", ["before it is sent", "after it was sent"])
def test_trailers_that_belong_before_the_content_are_refused(
    guest: Make, origin: Make, when: str, line: tuple[str, bytes]
) -> None:
    server, net = origin(http_origins.echo), guest()
    request = net.request(url(server), method=("post", None))
    body = net.ok("[method]outgoing-request.body", request)
    future = net.handle(request) if when == "after it was sent" else None
    refused = net.call("[static]outgoing-body.finish", body, net.fields(line))
    assert refused == Err(("HTTP-protocol-error", None))
    future = net.handle(request) if future is None else future
    answer = net.answer(future)
    if not isinstance(answer, tuple):  # the peer answered before it had seen the whole request
        _, code = net.read(net.body(answer)[1])
        assert code == ("HTTP-protocol-error", None)
        answer.close()
    assert [each.trailers for each in server.asked if each.trailers] == []
    future.close()
    assert net.held == 0


def test_trailers_of_a_request_that_turns_out_to_have_none_are_refused(guest: Make, origin: Make) -> None:
    net = guest()
    request = net.request(url(origin(http_origins.echo)))  # a GET has no content unless it declares some
    body = net.ok("[method]outgoing-request.body", request)
    assert net.call("[static]outgoing-body.finish", body, net.fields(("x-sum", b"7"))) == OK
    assert net.call("handle", request, None) == Err(("HTTP-protocol-error", None))


def test_trailers_are_asked_for_without_reading_the_body_and_only_once(guest: Make, origin: Make) -> None:
    text = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n" % len(BIG) + BIG + b"\r\n"
    server, net = origin(http_origins.say(text + chunk + b"0\r\nx-a: 1\r\nUpgrade: no\r\n\r\n")), guest()
    body = net.ok("[method]incoming-response.consume", net.answer(net.get(url(server))))
    future = net.call("[static]incoming-body.finish", body)
    net.call("[method]pollable.block", net.call("[method]future-trailers.subscribe", future))
    assert net.call("[method]future-trailers.get", future).value.value.lines == [("x-a", b"1")]
    assert net.call("[method]future-trailers.get", future) == Err()
    assert net.held == 0


def test_a_response_without_trailers_has_none(guest: Make, origin: Make) -> None:
    server, net = origin(http_origins.reply(b"x")), guest()
    body = net.ok("[method]incoming-response.consume", net.answer(net.get(url(server))))
    assert net.trailers(body) == Ok(Ok(None))


@pytest.mark.usefixtures("trusted")
@pytest.mark.req("PLG-354")
def test_https_is_spoken_with_whoever_is_the_host_and_nobody_else(
    guest: Make, origin: Make, secure: Make
) -> None:
    net = guest({"a.example": [["127.0.0.1"]], "b.example": [["127.0.0.1"]]})
    server = origin(http_origins.reply(b"secret"), tls=secure("a.example"))
    assert net.content(net.answer(net.get(f"https://a.example:{server.port}/"))) == b"secret"
    assert net.answer(net.get(f"https://b.example:{server.port}/")) == ("TLS-protocol-error", None)
    net.grant("b.example")
    assert net.answer(net.get(f"https://a.example:{server.port}/")) == NOT_PERMITTED
    assert net.held == 0


@pytest.mark.usefixtures("trusted")
@pytest.mark.req("PLG-356")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_demands_a_client_certificate_is_a_failure_of_tls(
    guest: Make, origin: Make, secure: Make, authority: trustme.CA, version: ssl.TLSVersion
) -> None:
    """Nothing names a profile over HTTP. In the later version the server says so only after the handshake."""
    context = secure(clients=authority)
    context.minimum_version = context.maximum_version = version
    server, net = origin(http_origins.reply(b"secret"), tls=context), guest()
    assert net.answer(net.get(f"https://a.example:{server.port}/")) == ("TLS-protocol-error", None)
    assert server.asked == []
    assert net.held == 0


# --- what is held ---------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-124", "PLG-126")
def test_responses_hold_their_connections_until_they_are_read_or_dropped(guest: Make, origin: Make) -> None:
    server = origin({"/big": http_origins.reply(BIG), "/small": http_origins.reply(b"x")})
    net = guest()
    responses = [net.answer(net.get(url(server, "/small" if each % 2 else "/big"))) for each in range(16)]
    assert net.held == 16
    assert net.answer(net.get(url(server, "/small"))) == ("connection-limit-reached", None)
    assert net.log.records[-1].error_key.value == "plugin_egress_connection_limit"
    responses[0].close()
    assert net.held == 15
    assert net.content(responses[1]) == b"x"
    assert net.held == 14
    _, stream = net.body(responses[2])
    assert net.read(stream) == (BIG, None)
    assert net.held == 13  # it is read to its end; that the guest still has it does not matter
    for response in responses:
        response.close()
    assert net.held == 0


@pytest.mark.req("PLG-125")
def test_requests_one_after_the_other_never_reach_even_a_limit_of_one(guest: Make, origin: Make) -> None:
    server = origin({"/big": http_origins.reply(BIG), "/small": http_origins.reply(b"x")})
    net = guest(max_connections=1)
    for each in range(100):
        response = net.answer(net.get(url(server, "/small" if each % 2 else "/big")))
        if each % 3:
            response.close()
        else:
            net.content(response)
        assert net.held == 0


def test_a_body_that_was_read_is_read_although_the_guest_keeps_it(guest: Make, origin: Make) -> None:
    server, net = origin(http_origins.reply(b"")), guest()
    net.answer(net.get(url(server)))
    assert peers.eventually(lambda: net.held == 0)


def test_sixteen_responses_are_read_at_once(guest: Make, origin: Make) -> None:
    server, net = origin(http_origins.reply(BIG)), guest()
    futures = [net.get(url(server)) for _ in range(16)]
    streams = [net.body(net.answer(future))[1] for future in futures]
    found = [bytearray() for _ in streams]
    for _ in range(len(BIG) // 65_536 + 1):
        for stream, so_far in zip(streams, found, strict=True):
            if len(so_far) < len(BIG):
                so_far += net.ok("[method]input-stream.blocking-read", stream, 65_536)
    for stream, so_far in zip(streams, found, strict=True):
        so_far += net.read(stream)[0]
        assert so_far == BIG
    assert net.held == 0


@pytest.mark.req("PLG-124")
def test_what_a_peer_sends_is_kept_in_bounds_until_it_is_read(guest: Make, origin: Make) -> None:
    sent = 0

    def pour(asked: http_origins.Asked) -> None:
        nonlocal sent
        asked.body()
        asked.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % 2**30)
        while True:
            asked.send(bytes(65_536))
            sent += 65_536

    server, net = origin(pour), guest()
    response = net.answer(net.get(url(server)))
    _, stream = net.body(response)
    download = response.exchange.download
    assert peers.eventually(lambda: not download.has_room())
    assert len(download._buffer) <= BUFFER_BYTES + 65_536
    assert len(net.ok("[method]input-stream.blocking-read", stream, 65_536)) == 65_536
    response.exchange.close()
    assert net.held == 0


def test_what_a_guest_writes_is_kept_in_bounds_until_the_peer_reads(guest: Make, origin: Make) -> None:
    going = threading.Event()

    def late(asked: http_origins.Asked) -> None:
        going.wait(peers.PATIENCE)
        http_origins.reply(str(len(asked.body())).encode())(asked)

    server, net = origin(late), guest()
    request = net.request(url(server), method=("post", None))
    body = net.ok("[method]outgoing-request.body", request)
    stream = net.ok("[method]outgoing-body.write", body)
    # Before anybody takes it, exactly the buffer's size is taken.
    while permitted := net.ok("[method]output-stream.check-write", stream):
        assert net.call("[method]output-stream.write", stream, bytes(permitted)) == OK
    assert body.written == BUFFER_BYTES
    future = net.handle(request)
    going.set()
    net.call("[method]pollable.block", net.call("[method]output-stream.subscribe", stream))
    assert net.ok("[method]output-stream.check-write", stream) > 0
    stream.close()
    assert net.call("[static]outgoing-body.finish", body, None) == OK
    assert net.content(net.answer(future)) == str(BUFFER_BYTES).encode()


@pytest.mark.req("PAINS-16")
def test_as_many_requests_are_opened_at_once_as_may_and_no_more(guest: Make) -> None:
    stuck = threading.Event()

    def never() -> list[str]:
        stuck.wait(peers.PATIENCE)
        return []

    net = guest({"a.example": [never]})
    with peers.nothing_left():
        futures = [net.get("http://a.example/") for _ in range(MAX_OPENING)]
        refused = net.call("handle", net.request("http://a.example/"), None)
        assert refused == Err(("connection-limit-reached", None))
        stuck.set()
        for future in futures:
            future.close()
    net.get("http://a.example/").close()


# --- the policy -----------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-174", "PLG-178", "PLG-179", "PLG-183", "PLG-184", "PAINS-16")
def test_every_refusal_of_the_policy_reads_the_same_and_is_logged(guest: Make, origin: Make) -> None:
    server = origin(http_origins.reply())
    hosts = {"a.example": [["127.0.0.1"]], "mixed.example": [["127.0.0.1", "93.184.216.34"]]}
    net = guest({**hosts, "meta.example": [["169.254.169.254"]], "public.example": [["10.0.0.1"]]})
    targets = [f"mixed.example:{server.port}", "meta.example", "b.example", "169.254.169.254", "2130706433"]
    refused = [net.answer(net.get(f"http://{target}/")) for target in targets]
    net.grant("a.example", private=False)
    refused.append(net.answer(net.get(url(server))))
    net.grant()
    refused.append(net.answer(net.get(url(server))))
    net.policies.set(net.scope.identity, PolicyUnavailable("the configuration cannot be read"))
    refused.append(net.answer(net.get(url(server))))
    assert set(refused) == {NOT_PERMITTED}
    assert [record.error_key.value for record in net.log.records] == ["plugin_egress_denied"] * len(refused)
    assert server.accepted == 0


@pytest.mark.req("PLG-178")
def test_a_permission_that_is_no_longer_in_force_refuses(guest: Make, origin: Make) -> None:
    server, net = origin(http_origins.reply()), guest(grants=frozenset[Permission]())
    assert net.answer(net.get(url(server))) == NOT_PERMITTED
    assert server.accepted == 0


@pytest.mark.req("PLG-176")
def test_each_request_is_judged_by_the_grant_in_force_then(guest: Make, origin: Make) -> None:
    net = guest()

    def revoke(asked: http_origins.Asked) -> None:
        net.grant()
        http_origins.reply(b"the last")(asked)

    server = origin(revoke)
    assert net.content(net.answer(net.get(url(server)))) == b"the last"
    assert net.answer(net.get(url(server))) == NOT_PERMITTED
    net.grant("a.example")
    assert net.content(net.answer(net.get(url(server)))) == b"the last"


@pytest.mark.req("PLG-226")
@pytest.mark.parametrize("broken", [{"nat64_prefixes": ("10.0.0.0/8",)}, {"max_connections": 0}])
def test_a_deployment_whose_settings_are_broken_refuses_every_request(
    guest: Make, origin: Make, broken: dict[str, Any]
) -> None:
    server, net = origin(http_origins.reply()), guest()
    with pytest.raises(PolicyInvalid) as caught:
        EgressPolicy.of(["a.example"], ["a.example"], **broken)
    net.policies.set(net.scope.identity, caught.value)
    assert net.answer(net.get(url(server))) == NOT_PERMITTED
    assert server.accepted == 0


# --- what goes wrong ------------------------------------------------------------------------------------------------

OK_HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"", ("HTTP-response-incomplete", None)),
        (b"HTTP/1.1 200 OK\r\nx: 1", ("HTTP-response-incomplete", None)),
        (b"nonsense\r\n\r\n", ("HTTP-protocol-error", None)),
        (b"HTTP/2.0 200 OK\r\n\r\n", ("HTTP-protocol-error", None)),
        (OK_HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\n", ("HTTP-protocol-error", None)),
        (OK_HEAD + b"content-length: -1\r\n\r\n", ("HTTP-protocol-error", None)),
        (OK_HEAD + b"transfer-encoding: gzip\r\n\r\n", ("HTTP-protocol-error", None)),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n", ("HTTP-protocol-error", None)),
    ],
    ids=["nothing", "half a head", "no HTTP", "HTTP/2", "two lengths", "no length", "a coding", "an upgrade"],
)
def test_a_wrong_response_is_an_error_of_the_interface(
    guest: Make, origin: Make, said: bytes, code: Any
) -> None:
    server, net = origin(http_origins.say(said)), guest()
    assert net.answer(net.get(url(server))) == code
    assert net.held == 0


@pytest.mark.parametrize(
    ("said", "body", "code"),
    [
        (b"content-length: 10\r\n\r\nabc", b"abc", ("HTTP-response-incomplete", None)),
        (b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", b"abc", ("HTTP-response-incomplete", None)),
        (b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\nz\r\n", b"abc", ("HTTP-protocol-error", None)),
        (b"content-length: 3\r\n\r\nabcdef", b"abc", None),
        (b"\r\nabc", b"abc", None),
    ],
    ids=["short", "no last chunk", "no chunk", "more than declared", "until the end"],
)
def test_a_body_ends_as_it_was_declared_or_in_an_error(
    guest: Make, origin: Make, said: bytes, body: bytes, code: Any
) -> None:
    server, net = origin(http_origins.say(OK_HEAD + said)), guest()
    _, stream = net.body(net.answer(net.get(url(server))))
    assert net.read(stream) == (body, code)
    assert net.call("[method]input-stream.read", stream, 1).value[0] == (
        "closed" if code is None else "last-operation-failed"
    )
    assert net.held == 0


def head_of(size: int) -> bytes:
    """A head whose fields count as so many bytes, in a few lines."""
    rest = size - len("content-length") - 1 - 4
    return OK_HEAD + b"content-length: 0\r\nx: " + b"y" * (rest - 5) + b"\r\n\r\n"


@pytest.mark.parametrize("over", [0, 1])
def test_a_head_is_as_long_as_it_may_be_and_no_longer(guest: Make, origin: Make, over: int) -> None:
    server, net = origin(http_origins.say_and_hold(head_of(MAX_HEAD_BYTES + over))), guest()
    answer = net.answer(net.get(url(server)))
    if over:
        assert answer == ("HTTP-response-header-section-size", MAX_HEAD_BYTES + 1)
    else:
        assert answer.status == 200
        answer.close()
    assert net.held == 0


def test_a_head_that_never_ends_is_given_up(guest: Make, origin: Make) -> None:
    def endless(asked: http_origins.Asked) -> None:
        asked.send(OK_HEAD)
        while True:
            asked.send(b"x: " + b"y" * 60_000 + b"\r\n")

    net = guest()
    assert net.answer(net.get(url(origin(endless)))) == ("HTTP-response-header-section-size", None)


@pytest.mark.parametrize("over", [0, 1])
def test_a_response_has_as_many_fields_as_it_may_and_no_more(guest: Make, origin: Make, over: int) -> None:
    lines = b"x: 1\r\n" * (MAX_RESPONSE_FIELDS - 1 + over)
    server, net = origin(http_origins.say(OK_HEAD + b"content-length: 0\r\n" + lines + b"\r\n")), guest()
    answer = net.answer(net.get(url(server)))
    assert (answer[0] if over else answer.status) == ("HTTP-response-header-section-size" if over else 200)


@pytest.mark.parametrize("over", [0, 1])
def test_interim_responses_are_passed_over_but_not_for_ever(guest: Make, origin: Make, over: int) -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * (MAX_INFORMATIONAL + over)
    server, net = origin(http_origins.say(interim + OK_HEAD + b"content-length: 0\r\n\r\n")), guest()
    answer = net.answer(net.get(url(server)))
    assert (answer if over else answer.status) == (("HTTP-protocol-error", None) if over else 200)


def test_a_peer_may_answer_before_it_read_everything(guest: Make, origin: Make) -> None:
    def early(asked: http_origins.Asked) -> None:
        asked.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        peers.hold(asked.connection)

    net = guest()
    request = net.request(url(origin(early)), method=("post", None))
    body = net.ok("[method]outgoing-request.body", request)
    stream = net.ok("[method]outgoing-body.write", body)
    response = net.answer(net.handle(request))
    assert response.status == 413
    assert net.read(net.body(response)[1]) == (b"no", None)
    assert net.call("[method]output-stream.check-write", stream) == Err(("closed", None))
    stream.close()
    assert net.call("[static]outgoing-body.finish", body, None) == OK


# --- content that is not as declared --------------------------------------------------------------------------------


def test_content_that_is_shorter_than_declared_gives_the_request_up(guest: Make, origin: Make) -> None:
    net = guest()
    request = net.request(url(origin(http_origins.echo)), ("content-length", b"5"), method=("post", None))
    body, future = send(net, request, b"abcd")
    assert net.call("[static]outgoing-body.finish", body, None) == Err(("HTTP-request-body-size", 4))
    future.close()
    assert net.held == 0


def test_content_that_is_longer_than_declared_is_not_taken(guest: Make, origin: Make) -> None:
    net = guest()
    request = net.request(url(origin(http_origins.echo)), ("content-length", b"5"), method=("post", None))
    body = net.ok("[method]outgoing-request.body", request)
    stream = net.ok("[method]outgoing-body.write", body)
    refused = net.call("[method]output-stream.blocking-write-and-flush", stream, b"abcdef")
    kind, error = refused.value
    assert kind == "last-operation-failed"
    assert net.call("http-error-code", error) == ("HTTP-request-body-size", 6)
    assert net.call("[method]error.to-debug-string", error) == "HTTP-request-body-size"


def test_content_that_was_declared_and_never_opened_is_missing(guest: Make) -> None:
    net = guest()
    request = net.request("http://a.example/", ("content-length", b"5"), method=("post", None))
    assert net.call("handle", request, None) == Err(("HTTP-request-body-size", 0))


def test_a_body_that_is_dropped_unfinished_gives_the_request_up(guest: Make, origin: Make) -> None:
    def wait(asked: http_origins.Asked) -> None:
        asked.body()

    net = guest()
    body, future = send(net, net.request(url(origin(wait)), method=("post", None)), b"abc")
    body.close()
    assert net.answer(future) == ("HTTP-protocol-error", None)
    assert net.held == 0


def test_a_get_has_no_content_unless_it_says_so(guest: Make, origin: Make) -> None:
    server, net = origin(http_origins.echo), guest()
    request = net.request(url(server), ("content-length", b"3"))
    body, future = send(net, request, b"abc")
    assert net.call("[static]outgoing-body.finish", body, None) == OK
    assert net.content(net.answer(future)) == b"abc"
    request = net.request(url(server))
    body = net.ok("[method]outgoing-request.body", request)
    future = net.handle(request)
    assert net.call("[static]outgoing-body.finish", body, None) == OK
    assert net.content(net.answer(future)) == b""
    assert server.asked[1].header("transfer-encoding") is None


# --- handles --------------------------------------------------------------------------------------------------------


def test_everything_is_given_once(guest: Make, origin: Make) -> None:
    net = guest()
    future = net.get(url(origin(http_origins.reply(b"x"))))
    request = net.request("http://a.example/", method=("post", None))
    body = net.ok("[method]outgoing-request.body", request)
    assert net.call("[method]outgoing-request.body", request) == Err()
    net.ok("[method]outgoing-body.write", body)
    assert net.call("[method]outgoing-body.write", body) == Err()
    response = net.answer(future)
    assert net.call("[method]future-incoming-response.get", future) == Err()
    incoming = net.ok("[method]incoming-response.consume", response)
    assert net.call("[method]incoming-response.consume", response) == Err()
    net.ok("[method]incoming-body.stream", incoming)
    assert net.call("[method]incoming-body.stream", incoming) == Err()


@pytest.mark.parametrize("how", ["finish", "drop"])
@pytest.mark.parametrize("which", ["outgoing", "incoming"])
def test_a_body_that_goes_before_its_stream_ends_the_guest(
    guest: Make, origin: Make, which: str, how: str
) -> None:
    net = guest()
    if which == "incoming":
        body, stream = net.body(net.answer(net.get(url(origin(http_origins.reply(b"x"))))))
        finish = ("[static]incoming-body.finish", body)
    else:
        body = net.ok("[method]outgoing-request.body", net.request("http://a.example/", method=("put", None)))
        stream = net.ok("[method]outgoing-body.write", body)
        finish = ("[static]outgoing-body.finish", body, None)
    with pytest.raises(GuestTrap, match="before its stream"):
        net.call(*finish) if how == "finish" else body.close()
    stream.close()
    assert net.held == 0


def test_a_request_that_is_dropped_takes_no_content(guest: Make) -> None:
    net = guest()
    request = net.request("http://a.example/", method=("post", None))
    body = net.ok("[method]outgoing-request.body", request)
    stream = net.ok("[method]outgoing-body.write", body)
    request.close()
    assert net.call("[method]output-stream.check-write", stream) == Err(("closed", None))


@pytest.mark.req("PLG-124")
def test_what_a_warm_store_holds_goes_on_between_its_calls(guest: Make, origin: Make) -> None:
    going = threading.Event()

    def two_parts(asked: http_origins.Asked) -> None:
        asked.send(OK_HEAD + b"content-length: 6\r\n\r\nabc")
        going.wait(peers.PATIENCE)
        asked.send(b"def")

    net = guest()
    _, stream = net.body(net.answer(net.get(url(origin(two_parts)))))
    assert net.ok("[method]input-stream.blocking-read", stream, 3) == b"abc"
    table = net.frame.table
    net.frame = net.new_frame(
        table=table
    )  # the next call of the same store waits for what the first one began
    going.set()
    assert net.read(stream) == (b"def", None)


# --- time -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["connect", "first byte", "between bytes"])
def test_a_stage_that_takes_too_long_has_its_own_error(
    guest: Make, origin: Make, peer: Make, stage: str
) -> None:
    net = guest()
    if stage == "connect":
        target = f"https://a.example:{peer(peers.hold).port}/"  # says nothing in the handshake
        assert net.answer(net.get(target, connect=0.1)) == ("connection-timeout", None)
    elif stage == "first byte":
        server = origin(http_origins.say_and_hold(b"HTTP/1.1 103 Early Hints\r\n\r\n"))
        assert net.answer(net.get(url(server), first_byte=0.1)) == ("connection-read-timeout", None)
    else:
        server = origin(http_origins.say_and_hold(OK_HEAD + b"content-length: 5\r\n\r\nabc"))
        _, stream = net.body(net.answer(net.get(url(server), between_bytes=0.1)))
        assert net.read(stream) == (b"abc", ("connection-read-timeout", None))
    assert net.held == 0


def test_no_time_at_all_is_over_at_once(guest: Make, origin: Make) -> None:
    net = guest()
    assert net.answer(net.get(url(origin(http_origins.reply())), connect=0)) == ("connection-timeout", None)


STALLS = ("authorise", "resolve", "dial", "tls", "first byte", "slow head", "body", "slow body", "upload")


class Stall:
    """Somewhere where a request stays for ever. ``reached`` is set when it is there, where that can be seen from outside."""

    def __init__(self, stage: str, stack: ExitStack) -> None:
        self.reached, self._over = threading.Event(), threading.Event()
        self.stage = stage
        self.script: dict[str, list[Any]] = {"a.example": [["127.0.0.1"]]}
        self.port = 80
        if stage == "resolve":
            self.script = {"a.example": [self._never]}
        elif stage == "dial":
            self.port = stack.enter_context(peers.full_backlog())
            self.reached.set()
        elif stage != "authorise":
            server = peers.Peer(self._hold) if stage == "tls" else http_origins.Origin(self._stall)
            stack.callback(server.close)
            self.port = server.port
        stack.callback(self._over.set)  # first of all, so that the server's thread ends

    def meet(self, net: Any) -> None:
        """Where it is the host's configuration that answers too late, it is put in its place."""
        if self.stage == "authorise":
            policy = net.policies.policy
            net.policies.policy = lambda identity: (self._never(), policy(identity))[1]

    def _never(self) -> list[str]:
        self.reached.set()
        self._over.wait(peers.PATIENCE)
        return []

    def _hold(self, connection: socket.socket) -> None:
        self.reached.set()
        peers.hold(connection)

    def _stall(self, asked: http_origins.Asked) -> None:
        if "body" in self.stage:
            asked.send(OK_HEAD + b"content-length: 1000000\r\n\r\nabc")
        if self.stage == "slow head":
            asked.send(OK_HEAD + b"x-slow: ")
        self.reached.set()
        if "slow" in self.stage:
            while not self._over.wait(0.01):
                asked.send(b"y")  # a byte at a time, without end
        elif self.stage == "upload":
            self._over.wait(peers.PATIENCE)
        else:
            peers.hold(asked.connection)


def wait_for_ever(net: Any, stall: Stall) -> None:
    """What a guest does that does not know of the stall. All that it holds is in the frame's table."""
    scheme = "https" if stall.stage == "tls" else "http"
    method = "post" if stall.stage == "upload" else "get"
    hold = net.frame.table.push
    request = net.request(f"{scheme}://a.example:{stall.port}/", method=(method, None))
    leaving = net.ok("[method]outgoing-request.body", request) if stall.stage == "upload" else None
    future = net.handle(request)
    hold(future)
    if leaving is not None:
        hold(leaving)
        stream = net.ok("[method]outgoing-body.write", leaving)
        hold(stream)
        while True:
            net.call("[method]output-stream.blocking-write-and-flush", stream, bytes(4096))
    response = net.answer(future)
    hold(response)
    for each in net.body(response):
        hold(each)
    net.read(each)


@pytest.mark.req("PAINS-3")
@pytest.mark.parametrize("how", ["deadline", "cancel"])
@pytest.mark.parametrize("stage", STALLS)
def test_a_call_that_ends_in_any_stage_leaves_nothing(guest: Make, stage: str, how: str) -> None:
    caught: list[BaseException] = []
    with peers.nothing_left(), ExitStack() as stack:
        stall = Stall(stage, stack)
        net = guest(stall.script)
        stall.meet(net)
        late = 0.0
        net.frame = net.new_frame(timeout_ms=PLENTY, clock=lambda: time.monotonic() + late)

        def run() -> None:
            try:
                wait_for_ever(net, stall)
            except BaseException as error:  # noqa: BLE001 - looked at below
                caught.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert stall.reached.wait(peers.PATIENCE)
        if how == "cancel":
            net.frame.cancel()
        else:
            late = PLENTY / 1_000  # as far as the call can tell, its time is over
            net.frame.notify()
        thread.join(peers.PATIENCE)
        [error] = caught
        assert isinstance(error, DeadlineExceeded if how == "deadline" else CallCancelled)
        assert how == "cancel" or "deadline" in error.message
        net.frame.table.close()
        assert net.held == 0


PLENTY = 120_000


@pytest.mark.realtime
@pytest.mark.req("PAINS-3")
def test_many_requests_that_something_keeps_end_as_late_as_one(
    guest: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds, count = 0.5, 100
    monkeypatch.setattr(exchange, "_PARTING_SECONDS", seconds)
    with peers.nothing_left(), ExitStack() as stack:
        stall = Stall("authorise", stack)
        net = guest(stall.script)
        stall.meet(net)
        for _ in range(count):
            net.frame.table.push(net.get("http://a.example/"))
        assert stall.reached.wait(peers.PATIENCE)
        began = time.monotonic()
        net.frame.table.close()
        assert time.monotonic() - began < seconds * count / 4  # one after the other they took four times this


@pytest.mark.slow
def test_a_thousand_requests_leave_nothing(guest: Make, origin: Make) -> None:
    server, net = origin({"/x": http_origins.reply(b"x" * 1024), "/cut": http_origins.say(b"")}), guest()
    net.content(net.answer(net.get(url(server))))
    with peers.nothing_left():
        for each in range(1_000):
            if each % 3 == 0:
                assert net.answer(net.get(url(server, "/cut"))) == ("HTTP-response-incomplete", None)
            elif each % 3 == 1:
                net.get(url(server)).close()
            else:
                assert net.content(net.answer(net.get(url(server)))) == b"x" * 1024
        assert net.held == 0
