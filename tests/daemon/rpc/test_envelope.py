"""What one line is, by table and by property."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zeroclaw_daemon.rpc.envelope import (
    Dropped,
    Rejected,
    Request,
    Response,
    classify,
    error_line,
    result_line,
)
from zeroclaw_daemon.rpc.errors import INVALID_REQUEST, PARSE_ERROR, ErrorObject, error_object
from zeroclaw_daemon.strict_json import MAX_VALUES, TooManyValues, parse

NOT_JSON = [
    b"{",
    b"not json",
    b'{"a":1}}',
    b'{"jsonrpc":"2.0",}',
    b'{"jsonrpc":"2.0","method":"status","id":NaN}',
    b'{"jsonrpc":"2.0","method":"status","id":1,"params":{"a":Infinity}}',
    b'{"jsonrpc":"2.0","method":"status","id":1,"params":{"a":-Infinity}}',
    b'{"jsonrpc":"2.0","method":"a\tb","id":1}',
    b'{"jsonrpc":"2.0","method":"a\x00b","id":1}',
    b"{'jsonrpc':'2.0','method':'status','id':1}",
    b'{"jsonrpc":"2.0","method":"status","id":1} // comment',
    b'{"jsonrpc":"2.0",/* comment */"method":"status","id":1}',
    b'{"jsonrpc":"2.0","method":"status","id":1} trailing',
    b'\xef\xbb\xbf{"jsonrpc":"2.0","method":"status","id":1}',
    b'{"jsonrpc":"2.0","method":"status","id":1,"params":{"a":"\xff"}}',
    b'{"jsonrpc":"2.0","method":"status","id":1,"params":{"a":"\xed\xa0\x80"}}',
    b"\xc3(",
    b'{"jsonrpc":"2.0","method":"status","id":01}',
    b'{"jsonrpc":"2.0","method":"status","id":.5}',
    b'\x0c{"jsonrpc":"2.0","method":"status","id":1}',
]

TOO_MUCH = [
    b'{"jsonrpc":"2.0","method":"status","id":1,"params":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"jsonrpc":"2.0","method":"status","id":1,"params":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
    b"[" * 100_000,
    b'{"jsonrpc":"2.0","method":"status","id":' + b"9" * 5_000 + b"}",
    b'{"jsonrpc":"2.0","method":"status","id":1e400}',
    b'{"jsonrpc":"2.0","method":"status","id":1,"params":{"a":-1e400}}',
]


@pytest.mark.req("RPC-096", "RPC-232")
@pytest.mark.parametrize("line", NOT_JSON)
def test_what_is_not_json_is_a_parse_error_without_an_id(line: bytes) -> None:
    assert_rejected(classify(line), PARSE_ERROR, None)


@pytest.mark.req("RPC-233")
@pytest.mark.parametrize("line", TOO_MUCH, ids=range(len(TOO_MUCH)))
def test_json_that_cannot_be_held_is_a_parse_error_without_an_id(line: bytes) -> None:
    assert_rejected(classify(line), PARSE_ERROR, None)


@pytest.mark.parametrize(("depth", "accepted"), [(255, True), (256, False)])
def test_nesting_has_one_limit_on_every_python(depth: int, accepted: bool) -> None:
    line = b'{"jsonrpc":"2.0","method":"m","params":' + b"[" * depth + b"]" * depth + b"}"
    assert isinstance(classify(line), Request) is accepted


HOLDING: list[tuple[str, str, bool]] = [
    ("numbers", ",".join("0" * 9), True),
    ("one number more", ",".join("0" * 10), False),
    ("empty containers", "[],{},[],{}", True),
    ("one container more", "[],{},[],{},[]", False),
    ("members", '{"a":1,"b":[1,2,3,4,5,6]}', True),
    ("one member more", '{"a":1,"b":[1,2,3,4,5,6],"c":1}', False),
    ("marks in strings", r'"a,b,c,d,[,[,{,{,{,{,{,{","\\","\",,,,\",[[[[","\\\",,,,\\",0', True),
    ("marks after an escaped end", r'"\\",0,0,0,0,0,0,0,"\\\\",0', False),
    ("many strings", ",".join(['""'] * 40), False),
]


@pytest.mark.req("RPC-233")
@pytest.mark.parametrize(("inner", "accepted"), [row[1:] for row in HOLDING], ids=[row[0] for row in HOLDING])
def test_a_line_holds_a_bounded_number_of_values(inner: str, accepted: bool) -> None:
    """Ten: the array itself and nine in it, an empty container counted twice."""
    value = json.loads(f"[{inner}]")
    assert parse(f"[{inner}]", max_values=None) == value
    if accepted:
        assert parse(f"[{inner}]", max_values=10) == value
    else:
        with pytest.raises(TooManyValues) as caught:
            parse(f"[{inner}]", max_values=10)
        assert caught.value.limit == 10


def values_in(value: Any) -> int:
    """As the bound counts them."""
    match value:
        case {}:
            return 1 + sum(map(values_in, value.values())) if value else 2
        case [_, *_]:
            return 1 + sum(map(values_in, value))
        case []:
            return 2
        case _:
            return 1


@given(
    st.recursive(
        st.none() | st.integers() | st.text(alphabet='\\",[{a\n', max_size=6),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='\\",[', max_size=3), inner),
    )
)
def test_values_are_counted_whatever_strings_hold(value: Any) -> None:
    text, count = json.dumps(value), values_in(value)
    assert parse(text, max_values=count) == value
    if count > 1:
        with pytest.raises(TooManyValues):
            parse(text, max_values=count - 1)


@pytest.mark.req("RPC-233")
def test_a_line_of_too_many_values_is_a_parse_error_that_names_the_bound() -> None:
    rejected = classify(b'{"jsonrpc":"2.0","method":"m","id":1,"params":[' + b"0," * MAX_VALUES + b"0]}")
    assert isinstance(rejected, Rejected)
    error = error_object(rejected.error)
    assert (rejected.id, error.code) == (None, PARSE_ERROR)
    assert error.data == {"reason": "parse_error", "limit_values": MAX_VALUES}


@pytest.mark.parametrize(("digits", "accepted"), [(4_000, True), (4_001, False)])
def test_integers_have_one_limit_of_digits(digits: int, accepted: bool) -> None:
    line = b'{"jsonrpc":"2.0","method":"m","id":' + b"9" * digits + b"}"
    assert isinstance(classify(line), Request) is accepted


def test_an_integer_at_the_limit_can_be_written_again() -> None:
    assert b"9" * 4_000 in result_line(None, int("9" * 4_000))


@pytest.mark.req("RPC-097")
@pytest.mark.parametrize("line", [b"null", b"42", b'"x"', b"true", b"1.5"])
def test_a_scalar_is_no_message(line: bytes) -> None:
    assert_rejected(classify(line), INVALID_REQUEST, None)


@pytest.mark.req("RPC-098")
@pytest.mark.parametrize(
    "line", [b"[]", b'[{"jsonrpc":"2.0","method":"session/new","id":1}]', b'[1,{"a":2},null]']
)
def test_a_batch_is_one_invalid_request(line: bytes) -> None:
    assert_rejected(classify(line), INVALID_REQUEST, None)


REJECTED_REQUESTS: list[tuple[str, dict[str, Any], Any]] = [
    ("RPC-099", {"method": "status", "id": 1}, 1),
    ("RPC-100", {"jsonrpc": "1.0", "method": "status", "id": 1}, 1),
    ("RPC-100", {"jsonrpc": 2.0, "method": "status", "id": 1}, 1),
    ("RPC-100", {"jsonrpc": None, "method": "status", "id": "x"}, "x"),
    ("RPC-101", {"jsonrpc": "2.0", "method": None, "id": 6}, None),
    ("RPC-101", {"jsonrpc": "2.0", "method": 5, "id": 6}, None),
    ("RPC-101", {"jsonrpc": "2.0", "method": None, "id": 6, "result": 1}, None),
    ("RPC-102", {"jsonrpc": "2.0", "method": "status", "id": 7, "params": True}, 7),
    ("RPC-102", {"jsonrpc": "2.0", "method": "status", "id": 7, "params": "x"}, 7),
    ("RPC-102", {"jsonrpc": "2.0", "method": "status", "id": 7, "params": 3}, 7),
    ("RPC-103", {"jsonrpc": "2.0", "method": "status", "id": 8, "params": None}, 8),
    ("RPC-104", {"jsonrpc": "2.0", "method": "status", "params": None}, None),
    ("RPC-105", {"jsonrpc": "2.0", "method": "status", "id": {}}, None),
    ("RPC-105", {"jsonrpc": "2.0", "method": "status", "id": []}, None),
    ("RPC-105", {"jsonrpc": "2.0", "method": "status", "id": True}, None),
    ("RPC-106", {"jsonrpc": "2.0", "method": "status", "id": 9, "result": True}, None),
    ("RPC-106", {"jsonrpc": "2.0", "method": "status", "id": 9, "error": None}, None),
    ("RPC-107", {"jsonrpc": "2.0"}, None),
    ("RPC-107", {"jsonrpc": "2.0", "id": 3}, None),
    ("RPC-107", {"jsonrpc": "2.0", "id": 3, "params": {}}, None),
]


@pytest.mark.parametrize(
    ("message", "answered"),
    [
        pytest.param(message, answered, marks=pytest.mark.req(req))
        for req, message, answered in REJECTED_REQUESTS
    ],
)
def test_a_malformed_request_is_answered_with_its_id_where_it_surely_is_one(
    message: dict[str, Any], answered: Any
) -> None:
    assert_rejected(classify(json.dumps(message).encode()), INVALID_REQUEST, answered)


DROPPED: list[tuple[str, dict[str, Any]]] = [
    ("RPC-110", {"id": "zc-out-0", "result": True}),
    ("RPC-111", {"jsonrpc": "1.0", "id": "zc-out-0", "result": True}),
    ("RPC-112", {"jsonrpc": "2.0", "result": True}),
    ("RPC-113", {"jsonrpc": "2.0", "id": {"n": 5}, "result": True}),
    ("RPC-113", {"jsonrpc": "2.0", "id": [], "result": True}),
    ("RPC-113", {"jsonrpc": "2.0", "id": True, "result": True}),
    ("RPC-114", {"jsonrpc": "2.0", "id": "zc-out-0", "result": 1, "error": {"code": 1, "message": "x"}}),
    ("RPC-114", {"jsonrpc": "2.0", "id": "zc-out-0", "result": True, "error": None}),
    ("RPC-115", {"jsonrpc": "2.0", "id": 10, "result": True, "params": {}}),
    ("RPC-116", {"jsonrpc": "2.0", "id": 10, "error": {"code": "bad", "message": "x"}}),
    ("RPC-116", {"jsonrpc": "2.0", "id": 10, "error": {"code": True, "message": "x"}}),
    ("RPC-116", {"jsonrpc": "2.0", "id": 10, "error": {"code": 1.0, "message": "x"}}),
    ("RPC-116", {"jsonrpc": "2.0", "id": 10, "error": {"code": 1, "message": None}}),
    ("RPC-116", {"jsonrpc": "2.0", "id": 10, "error": 5}),
    ("RPC-116", {"jsonrpc": "2.0", "id": 10, "error": None}),
    ("RPC-116", {"jsonrpc": "2.0", "id": 10, "error": {}}),
]


@pytest.mark.parametrize(
    "message", [pytest.param(message, marks=pytest.mark.req(req)) for req, message in DROPPED]
)
def test_a_malformed_response_is_dropped(message: dict[str, Any]) -> None:
    assert isinstance(classify(json.dumps(message).encode()), Dropped)


@pytest.mark.req("RPC-108")
@pytest.mark.parametrize(
    ("member", "params"), [({}, None), ({"params": {}}, {}), ({"params": []}, []), ({"params": [1]}, [1])]
)
def test_params_may_be_absent_an_object_or_an_array(member: dict[str, Any], params: Any) -> None:
    envelope = classify(json.dumps({"jsonrpc": "2.0", "method": "m", "id": 1, **member}).encode())
    assert envelope == Request("m", params, 1, wants_reply=True)


@pytest.mark.req("RPC-109", "RPC-059")
def test_a_null_id_is_a_request_and_no_id_is_a_notification() -> None:
    assert classify(b'{"jsonrpc":"2.0","method":"m","id":null}') == Request("m", None, None, wants_reply=True)
    assert classify(b'{"jsonrpc":"2.0","method":"m"}') == Request("m", None, None, wants_reply=False)


@pytest.mark.req("RPC-091", "RPC-092", "RPC-118")
def test_responses_are_successes_even_with_null_or_failures() -> None:
    assert classify(b'{"jsonrpc":"2.0","id":"a","result":null}') == Response("a", None, None)
    assert classify(b'{"jsonrpc":"2.0","id":null,"result":1}') == Response(None, 1, None)
    assert classify(b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no","data":[1]}}') == Response(
        1, None, ErrorObject(-1, "no", [1])
    )


def test_members_nobody_knows_are_ignored() -> None:
    assert isinstance(classify(b'{"jsonrpc":"2.0","method":"m","id":1,"meta":{"x":1}}'), Request)


IDS = st.one_of(
    st.none(),
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=())),
)


@pytest.mark.parametrize(("length", "accepted"), [(16 * 1024, True), (16 * 1024 + 1, False)])
def test_an_id_has_a_bound_because_its_answer_repeats_it(length: int, accepted: bool) -> None:
    envelope = classify(b'{"jsonrpc":"2.0","method":"m","id":"' + b"x" * length + b'"}')
    if accepted:
        assert isinstance(envelope, Request)
    else:
        assert_rejected(envelope, INVALID_REQUEST, None)


@pytest.mark.req("RPC-088")
@given(IDS)
@example(2**53 + 1)
@example("")
@example("\ud800\x00")
@example("x" * 10_000)
def test_an_id_comes_back_with_its_type_and_value(request_id: Any) -> None:
    line = json.dumps({"jsonrpc": "2.0", "method": "m", "id": request_id}).encode()
    envelope = classify(line)
    assert isinstance(envelope, Request)
    written = result_line({}, envelope.id)
    assert written.endswith(b"\n")
    assert written.count(b"\n") == 1
    came_back = json.loads(written)["id"]
    assert came_back == request_id
    assert type(came_back) is type(request_id)


@pytest.mark.req("RPC-120", "RPC-253")
@given(st.one_of(st.binary(max_size=200), st.text().map(lambda text: text.encode("utf-8", "replace"))))
def test_every_sequence_of_bytes_is_exactly_one_thing(line: bytes) -> None:
    assert isinstance(classify(line), (Request, Response, Rejected, Dropped))


JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
    ),
    lambda children: st.one_of(
        st.lists(children, max_size=3), st.dictionaries(st.text(), children, max_size=3)
    ),
    max_leaves=5,
)
MEMBERS = st.dictionaries(
    st.sampled_from(["jsonrpc", "method", "params", "id", "result", "error", "other"]),
    st.one_of(JSON, st.just("2.0"), st.just("status"), st.just({"code": 1, "message": "m"})),
)


@pytest.mark.req("RPC-099", "RPC-107", "RPC-116")
@given(MEMBERS)
def test_only_what_looks_like_a_response_is_met_with_silence(message: dict[str, Any]) -> None:
    envelope = classify(json.dumps(message).encode())
    answers = "result" in message or "error" in message
    response_shaped = "method" not in message and answers
    assert isinstance(envelope, (Response, Dropped)) is response_shaped
    if isinstance(envelope, Rejected):
        request_shaped = isinstance(message.get("method"), str) and not answers
        assert envelope.id is None or request_shaped


@pytest.mark.req("RPC-233")
@given(JSON)
def test_nothing_the_daemon_writes_holds_a_number_json_does_not_have(value: Any) -> None:
    written = result_line(value, 1)
    assert json.loads(written, parse_constant=pytest.fail)["result"] == value


@pytest.mark.req("RPC-233")
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_none_cannot_be_written(number: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        result_line(number, 1)


@pytest.mark.req("RPC-237")
def test_an_error_is_written_with_code_message_and_reason() -> None:
    rejected = classify(b"{")
    assert isinstance(rejected, Rejected)
    error = json.loads(error_line(error_object(rejected.error), rejected.id))["error"]
    assert error["code"] == PARSE_ERROR
    assert error["data"]["reason"] == "parse_error"


@pytest.mark.req("RPC-119")
@given(st.text(min_size=8, max_size=8, alphabet="qwxz"))
def test_an_error_never_quotes_the_line(token: str) -> None:
    for line in (f'{{"{token}', f'{{"method":"{token}","id":1}}', f'{{"jsonrpc":"{token}","method":"m"}}'):
        rejected = classify(line.encode())
        assert isinstance(rejected, Rejected)
        assert token not in json.dumps(error_object(rejected.error).to_json())


def assert_rejected(envelope: Any, code: int, request_id: Any) -> None:
    assert isinstance(envelope, Rejected)
    assert error_object(envelope.error).code == code
    assert envelope.id == request_id
    assert type(envelope.id) is type(request_id)
