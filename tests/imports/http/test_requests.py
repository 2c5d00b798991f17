"""``outgoing-request``, ``request-options``, ``outgoing-response``, and everything a request is refused for before it is sent."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.contract import contract
from zeroclaw_host.egress import failures
from zeroclaw_host.egress.decision import authorise
from zeroclaw_host.egress.http.message import DEFAULT_SECONDS, Fault, HttpFailed, HttpTimes
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.request import EgressRequest, Transport
from zeroclaw_host.errors import GuestTrap
from zeroclaw_host.imports.http import OUTGOING_HANDLER, TYPES
from zeroclaw_host.imports.http.error_codes import NOT_PERMITTED, URI_INVALID, code_of
from zeroclaw_host.imports.http.fields import Fields
from zeroclaw_host.imports.http.options import RequestOptions
from zeroclaw_host.imports.http.requests import (
    MAX_PATH_BYTES,
    MAX_WORD_BYTES,
    OutgoingRequest,
    RequestRefused,
)
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.sandbox.holdings import Holdings
from zeroclaw_host.sandbox.resources import ResourceTable
from zeroclaw_host.sandbox.values import OK, Err, Ok

Make = Callable[..., Any]


def call(function: str, *values: Any) -> Any:
    """A function of the interface that looks at nothing of the frame but its table."""
    return TYPES.functions[function].implementation(SimpleNamespace(table=ResourceTable()), *values)


def new(headers: list[tuple[str, bytes]] | None = None) -> OutgoingRequest:
    """A request with these headers."""
    return OutgoingRequest(Fields(headers or []), Holdings().open())


@pytest.mark.req("PLG-007", "PLG-103")
@pytest.mark.parametrize("interface", [TYPES, OUTGOING_HANDLER], ids=lambda found: found.name)
def test_every_function_of_the_contract_is_there_and_no_other(interface: Any) -> None:
    assert set(interface.functions) == set(contract().interface(interface.name).functions)


def test_a_request_says_what_was_set_and_nothing_before() -> None:
    request = call("[constructor]outgoing-request", Fields())
    for name, empty, value in (
        ("method", ("get", None), ("other", "PURGE")),
        ("path-with-query", None, "/a?b"),
        ("scheme", None, ("other", "ftp")),
        ("authority", None, "a.example:1"),
    ):
        assert call(f"[method]outgoing-request.{name}", request) == empty
        assert call(f"[method]outgoing-request.set-{name}", request, value) == OK
        assert call(f"[method]outgoing-request.{name}", request) == value
    assert call("[method]outgoing-request.set-authority", request, None) == OK


def test_a_requests_headers_cannot_be_changed_any_more() -> None:
    headers = Fields([("a", b"1")])
    request = call("[constructor]outgoing-request", headers)
    seen = call("[method]outgoing-request.headers", request)
    assert call("[method]fields.append", seen, "b", b"2") == Err(("immutable", None))


BAD = {
    "method": [("other", ""), ("other", "A B"), ("other", "GET\r\n"), ("other", "ä")],
    "scheme": [("other", ""), ("other", "1a"), ("other", "a b"), ("other", "http:")],
    "path-with-query": ["a", "/ ", "/\r\n", "/#a", "/ä", "http://a/", "/\0", "**"],
    "authority": ["", "a b", "a/", "a\r\nb: c", "ä.example", "a\t", 'a"', "a\\b", "a#b", "a?b"],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD.items() for value in values]
)
def test_what_could_be_taken_for_something_else_is_not_set(name: str, value: Any) -> None:
    request = new()
    assert call(f"[method]outgoing-request.set-{name}", request, value) == Err()
    assert call(f"[method]outgoing-request.{name}", request) in (None, ("get", None))


@pytest.mark.parametrize("over", [0, 1])
def test_a_path_is_as_long_as_it_may_be_and_no_longer(over: int) -> None:
    path = "/" * (MAX_PATH_BYTES + over)
    request = new()
    assert call("[method]outgoing-request.set-path-with-query", request, path) == (Err() if over else OK)


@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("name", ["method", "scheme", "authority"])
def test_a_word_is_as_long_as_it_may_be_and_no_longer(name: str, over: int) -> None:
    word = "a" * (MAX_WORD_BYTES + over)
    value = word if name == "authority" else ("other", word)
    assert call(f"[method]outgoing-request.set-{name}", new(), value) == (Err() if over else OK)


def prepared(authority: str | None, **more: Any) -> Any:
    request = new(more.pop("headers", []))
    request.authority = authority
    for name, value in more.items():
        setattr(request, name, value)
    return request.prepare()


@pytest.mark.parametrize(
    ("authority", "scheme", "where"),
    [
        ("a.example", None, ("a.example", 443, True)),
        ("A.Example", ("HTTP", None), ("a.example", 80, False)),
        ("a.example:8443", ("HTTPS", None), ("a.example", 8443, True)),
        ("a.example:", ("HTTP", None), ("a.example", 80, False)),
        ("a.example:65535", ("HTTP", None), ("a.example", 65535, False)),
        ("[::1]:1", ("HTTP", None), ("::1", 1, False)),
    ],
)
def test_where_a_request_goes(authority: str, scheme: Any, where: Any) -> None:
    found = prepared(authority, scheme=scheme)
    assert (found.host, found.port, found.secure) == where


@pytest.mark.parametrize(
    "authority",
    [
        *(None, "u@a.example", "u:p@a.example", "a.example.", "a.example:0", "a.example:65536"),
        *("a.example:x", ":80", "a.example:-1", "[::1", "a.example.:80"),
        *("a.example[::1]", "[::1]x:80", "[::1][::2]", "[v1.a.example]", "[a.example]", "a:80:81", "::1"),
        *("a.example:+80", "a.example:8_0", "a.example:" + "0" * 200 + "81" * 200),
    ],
)
def test_an_authority_that_is_no_host_and_port_is_no_uri(authority: str | None) -> None:
    with pytest.raises(RequestRefused) as caught:
        prepared(authority)
    assert caught.value.code == URI_INVALID


@given(st.text(alphabet="ab.:@[]%-0189", max_size=12))
def test_any_authority_gives_a_destination_or_an_error_of_the_interface(authority: str) -> None:
    try:
        found = prepared(authority)
    except RequestRefused as refused:
        code = refused.code
    else:
        code = URI_INVALID
        assert found.host
        assert 0 < found.port < 65_536
        assert not found.host.endswith(".")
    assert code in (URI_INVALID, ("HTTP-protocol-error", None))


@pytest.mark.parametrize(
    ("path", "target"), [(None, b"/"), ("", b"/"), ("?a", b"/?a"), ("/a", b"/a"), ("*", b"*")]
)
def test_what_is_asked_for(path: str | None, target: bytes) -> None:
    assert prepared("a.example", path=path).head.event.target == target


@pytest.mark.parametrize("headers", [[("host", b"a"), ("host", b"b")], [("content-length", b"x")]])
def test_fields_that_contradict_themselves_are_not_sent(headers: Any) -> None:
    with pytest.raises(RequestRefused) as caught:
        prepared("a.example", headers=headers)
    assert caught.value.code == ("HTTP-protocol-error", None)


@pytest.mark.parametrize("length", [b"x", b"-1", b"1, 1", b"", b"1" * 20])
def test_a_body_of_a_length_that_is_none_is_not_opened(length: bytes) -> None:
    request = new([("content-length", length)])
    assert call("[method]outgoing-request.body", request) == Err()


def test_a_request_does_not_become_a_tunnel() -> None:
    for method in (("connect", None), ("other", "Connect")):
        with pytest.raises(RequestRefused) as caught:
            prepared("a.example", method=method)
        assert caught.value.code == ("HTTP-request-method-invalid", None)


def test_a_post_without_content_says_so() -> None:
    assert (b"content-length", b"0") in prepared("a.example", method=("post", None)).head.event.headers
    names = [name for name, _ in prepared("a.example").head.event.headers]
    assert names == [b"host", b"connection"]


# --- options --------------------------------------------------------------------------------------------------------


def test_times_are_what_was_set_and_ten_minutes_otherwise() -> None:
    options = call("[constructor]request-options")
    assert options.times() == HttpTimes(DEFAULT_SECONDS, DEFAULT_SECONDS, DEFAULT_SECONDS) == HttpTimes()
    assert DEFAULT_SECONDS == 600
    for number, name in enumerate(("connect", "first-byte", "between-bytes")):
        getter = f"[method]request-options.{name}-timeout"
        assert call(getter, options) is None
        setter = f"[method]request-options.set-{name}-timeout"
        assert call(setter, options, (number + 1) * 10**9) == OK
        assert call(getter, options) == (number + 1) * 10**9
    assert options.times() == HttpTimes(1, 2, 3)
    assert call("[method]request-options.set-connect-timeout", options, None) == OK
    assert options.times().connect == DEFAULT_SECONDS


def test_the_longest_time_there_is_can_be_waited_for() -> None:
    options = RequestOptions()
    options.durations["connect"] = 2**64 - 1
    assert options.times().connect > 10**10


# --- what is never there --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [name for name in TYPES.functions if "incoming-request" in name or "response-outparam" in name],
)
def test_what_cannot_exist_is_not_used(function: str) -> None:
    with pytest.raises(GuestTrap, match="cannot exist"):
        call(function, object())


def test_a_response_of_a_guest_goes_nowhere_and_can_be_made() -> None:
    response = call("[constructor]outgoing-response", Fields([("a", b"1")]))
    assert call("[method]outgoing-response.status-code", response) == 200
    assert call("[method]outgoing-response.set-status-code", response, 404) == OK
    assert call("[method]outgoing-response.status-code", response) == 404
    for wrong in (99, 1000):
        assert call("[method]outgoing-response.set-status-code", response, wrong) == Err()
    assert call("[method]fields.get", call("[method]outgoing-response.headers", response), "A") == [b"1"]
    assert isinstance(call("[method]outgoing-response.body", response), Ok)
    assert call("[method]outgoing-response.body", response) == Err()


# --- the table of errors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (failures.ResolutionFailed("x"), ("DNS-error", {"rcode": "address not available", "info-code": 0})),
        (failures.ConnectionLimit(1, 1), ("connection-limit-reached", None)),
        (failures.TimeIsUp(failures.Stage.TLS), ("connection-timeout", None)),
        (failures.ConnectFailed("x", refused=True), ("connection-refused", None)),
        (failures.TlsFailed("x"), ("TLS-protocol-error", None)),
        (failures.TlsConfigurationFailed("x"), ("TLS-protocol-error", None)),
        (failures.ConnectionBroken("x"), ("connection-terminated", None)),
        (HttpFailed(Fault.LATE, "x"), ("connection-read-timeout", None)),
        (HttpFailed(Fault.PROTOCOL, "x"), ("HTTP-protocol-error", None)),
        (HttpFailed(Fault.HOST, "x"), ("internal-error", None)),
    ],
    ids=lambda each: type(each).__name__,
)
def test_every_failure_has_its_code(failure: Any, code: Any) -> None:
    assert code_of(failure) == code


@pytest.mark.req("PLG-184")
def test_a_refusal_of_the_policy_has_one_text_and_no_reason() -> None:
    identity = InstanceIdentity.default_tool("weather")
    wanted = EgressRequest(identity=identity, transport=Transport.HTTP, host="a.example", port=80)
    decision: Any = authorise(wanted, EgressPolicy.of([]))
    assert code_of(failures.EgressRefused(decision)) == NOT_PERMITTED
    assert NOT_PERMITTED == (
        "internal-error",
        "zeroclaw plugin egress policy: destination not permitted",
    )


def test_every_fault_has_a_code_that_the_interface_knows() -> None:
    cases: Any = contract().interface("wasi:http/types").types["error-code"]
    known = {case[0] if isinstance(case, tuple) else case.name for case in cases.cases}
    for fault in Fault:
        assert code_of(HttpFailed(fault, "x"))[0] in known
