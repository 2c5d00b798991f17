"""HTTP as a plugin's author writes it, over a scripted network: what is sent, what comes back, how it fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_sdk.guest import Tool, ToolError, http
from zeroclaw_sdk.guest.headers import Headers, encoded
from zeroclaw_sdk.guest.host import RecordingHost, use_host
from zeroclaw_sdk.guest.http.target import Target
from zeroclaw_sdk.guest.network import Exchange, HttpRequest
from zeroclaw_sdk.testing import (
    Failure,
    FakeNetwork,
    Reply,
    SentRequest,
    Unscripted,
    call,
    channel,
    deny,
    fail,
    reply,
)

URL = "https://api.example.com/v1/now"


def over(network: FakeNetwork) -> use_host:
    return use_host(RecordingHost(network=network))


def sent(ask: Callable[[], Any], answer: Reply | Failure | None = None) -> SentRequest:
    """The one request that a function sends."""
    network = FakeNetwork(lambda _: answer or Reply())
    with over(network):
        ask()
    assert network.open == 0 or not isinstance(answer, Failure)
    return network.requests[0]


# What is sent


@pytest.mark.parametrize("method", ["get", "post", "put", "patch", "delete", "head"])
def test_each_shortcut_sends_its_method(method: str):
    assert sent(lambda: getattr(http, method)(URL)).method == method.upper()


@pytest.mark.parametrize(
    ("ask", "opened"),
    [
        (lambda: http.get(URL), False),
        (lambda: http.delete(URL), False),
        (lambda: http.request("GET", URL, data=b""), False),
        (lambda: http.post(URL), True),
        (lambda: http.request("GET", URL, data=b"x"), True),
        (lambda: http.request("GET", URL, data=[]), True),
    ],
)
def test_a_body_is_opened_only_where_there_may_be_one(ask: Callable[[], Any], opened: bool):
    class Seen(FakeNetwork):
        def http(self, request: HttpRequest) -> Exchange:
            contents.append(request.content)
            return super().http(request)

    contents: list[bool] = []
    with over(Seen(lambda _: Reply())):
        ask()
    assert contents == [opened]


def test_parameters_follow_what_the_url_has_of_a_query():
    asked = sent(
        lambda: http.get(
            f"{URL}?a=1#part", params={"b": ["x y", "&"], "c": None, "d": True, "e": 2.5, "ü": "ö"}
        )
    )
    assert asked.url.startswith(f"{URL}?a=1&")
    assert parse_qsl(urlsplit(asked.url).query) == [
        ("a", "1"),
        ("b", "x y"),
        ("b", "&"),
        ("d", "true"),
        ("e", "2.5"),
        ("ü", "ö"),
    ]


def test_a_list_of_pairs_keeps_its_order():
    asked = sent(
        lambda: http.get(URL, params=[("b", 1), ("a", 2), ("b", 3)], headers=[("X", "1"), ("x", "2")])
    )
    assert asked.url.endswith("?b=1&a=2&b=3")
    assert asked.headers.all("x") == ("1", "2")


@pytest.mark.parametrize(
    ("given_url", "requested"),
    [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://example.com/a b".replace(" ", "%20"), "https://example.com/a%20b"),
        ("https://example.com/ü?ß=ß", "https://example.com/%C3%BC?%C3%9F=%C3%9F"),
        ("http://[::1]:8080/x", "http://[::1]:8080/x"),
        ("https://example.com/%2F/a?b=%26", "https://example.com/%2F/a?b=%26"),
        ("https://example.com?a=b", "https://example.com/?a=b"),
    ],
)
def test_urls_are_sent_as_they_are_meant(given_url: str, requested: str):
    assert sent(lambda: http.get(given_url)).url == requested


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "/path",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://",
        "https:///path",
        "https://user:hunter2@example.com/",
        "https://exa mple.com/",
        "https://example.com\\@other.example/",
        "https://example.com/\r\nhost: other",
        "https://example.com/\t",
        "https://bücher.example/",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://example.com:/",
        "https://example.com:x/",
        "https://[::1/",
        "https://[fe80::1%25eth0]/",
        "https://example.com/\ud800",
    ],
)
def test_a_url_that_cannot_be_requested_is_refused_before_anything_is_sent(url: str):
    network = FakeNetwork()
    with over(network), pytest.raises(ValueError, match=r"URL") as refused:
        http.get(url)
    assert network.open == 0
    assert "hunter2" not in str(refused.value)
    assert ("header Authorization" in str(refused.value)) == ("hunter2" in url)


@given(st.text(), st.dictionaries(st.text(min_size=1), st.text() | st.integers() | st.booleans()))
def test_a_url_gives_a_target_in_ascii_or_a_value_error(path: str, params: dict[str, Any]):
    try:
        target = Target.of(f"https://example.com/{path}", params)
    except ValueError:
        return
    assert target.authority == "example.com"
    assert target.path.startswith("/")
    assert all("!" <= character <= "~" for character in target.path)
    assert "#" not in target.path


@given(st.text())
def test_a_url_of_anything_never_names_another_host_than_the_one_that_is_shown(url: str):
    try:
        target = Target.of(url)
    except ValueError:
        return
    assert urlsplit(target.url).hostname == target.host


def test_a_json_body_brings_its_type_and_length():
    asked = sent(lambda: http.post(URL, json={"a": "ü"}))
    assert asked.json == {"a": "ü"}
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.headers["content-length"] == str(len(asked.body))


@pytest.mark.parametrize(
    ("data", "body", "kind"),
    [
        (b"\x00\xff", b"\x00\xff", None),
        (bytearray(b"ab"), b"ab", None),
        ("ü", "ü".encode(), "text/plain; charset=utf-8"),
        ({"a": "1 2", "b": ["x", "y"]}, b"a=1+2&b=x&b=y", "application/x-www-form-urlencoded"),
        ((part for part in (b"one", b"", b"two")), b"onetwo", None),
        (None, b"", None),
    ],
)
def test_a_body_is_what_it_was_given_as(data: Any, body: bytes, kind: str | None):
    asked = sent(lambda: http.put(URL, data=data))
    assert asked.body == body
    assert asked.headers.get("content-type") == kind


def test_a_body_of_unknown_length_has_none_and_one_that_is_empty_says_so():
    assert "content-length" not in sent(lambda: http.post(URL, data=iter([b"x"]))).headers
    assert sent(lambda: http.post(URL)).headers["content-length"] == "0"
    assert "content-length" not in sent(lambda: http.get(URL)).headers


def test_fields_of_the_author_win():
    asked = sent(lambda: http.post(URL, json=1, headers={"Content-Type": "application/vnd.api+json"}))
    assert asked.headers.all("content-type") == ("application/vnd.api+json",)


@pytest.mark.parametrize("arguments", [{"json": 1, "data": b"x"}, {"json": float("nan")}, {"data": "\ud800"}])
def test_a_body_that_cannot_be_sent_is_a_value_error(arguments: dict[str, Any]):
    network = FakeNetwork()
    with over(network), pytest.raises(ValueError, match=r"."):
        http.post(URL, **arguments)
    assert network.open == 0


def test_a_piece_that_is_no_bytes_is_a_type_error_and_nothing_stays_open():
    network = FakeNetwork(lambda _: Reply())
    with over(network), pytest.raises(TypeError, match="not str"):
        http.post(URL, data=["text"])
    assert network.open == 0


def test_an_error_in_the_authors_body_ends_the_request():
    def body() -> Iterable[bytes]:
        yield b"a"
        raise LookupError("no more")

    network = FakeNetwork(lambda _: Reply())
    with over(network), pytest.raises(LookupError, match="no more"):
        http.post(URL, data=body())
    assert (network.open, network.requests) == (0, [])


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [
        (None, (None, None, None)),
        (2.5, (2.5, 2.5, 2.5)),
        (http.Timeout(connect=1, between_bytes=3), (1, None, 3)),
    ],
)
def test_limits_of_time_are_the_three_of_the_interface(timeout: Any, seconds: tuple[float | None, ...]):
    assert sent(lambda: http.get(URL, timeout=timeout)).timeouts == seconds


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_limit_of_no_time_is_refused(timeout: float):
    with over(FakeNetwork()), pytest.raises(ValueError, match="more than 0"):
        http.get(URL, timeout=timeout)


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({"a b": "1"}, ValueError),
        ({"": "1"}, ValueError),
        ({"ü": "1"}, ValueError),
        ({"a": "1\r\nhost: other"}, ValueError),
        ({"a": "1\x00"}, ValueError),
        ({"a": "\ud800"}, ValueError),
        ({"a": 1}, TypeError),
        ({"a": ["1", 2]}, TypeError),
    ],
)
def test_a_header_that_would_be_something_else_is_refused(headers: Any, error: type[Exception]):
    network = FakeNetwork()
    with over(network), pytest.raises(error, match="header"):
        http.get(URL, headers=headers)
    assert network.open == 0


@given(st.lists(st.tuples(st.from_regex(r"[A-Za-z0-9-]{1,9}", fullmatch=True), st.text())))
def test_headers_that_are_taken_come_back_the_same(pairs: list[tuple[str, str]]):
    try:
        fields = encoded(pairs)
    except ValueError:
        return
    read = Headers(fields)
    assert [name for name, _ in read.pairs] == [name for name, _ in pairs]
    assert [value for _, value in read.pairs] == [value.strip(" \t") for _, value in pairs]
    for name, _ in pairs:
        assert name.swapcase() in read
        assert read.all(name.upper()) == read.all(name.lower())
        assert read[name] == ", ".join(read.all(name))
    assert not any(set(value) & set(b"\r\n\0") for _, value in fields)


# What comes back


def answered(answer: Reply) -> http.Response:
    with over(FakeNetwork(lambda _: answer)):
        return http.get(URL)


def test_a_response_is_read_as_often_as_one_likes():
    response = answered(Reply(201, {"ETag": '"1"', "set-cookie": ["a=1", "b=2"]}, json={"degrees": 7}))
    assert (response.status, response.ok, response.url) == (201, True, URL)
    assert response.read() == response.read() == b'{"degrees": 7}'
    assert response.json() == json.loads(response.text)
    assert response.headers["etag"] == '"1"'
    assert response.headers.all("Set-Cookie") == ("a=1", "b=2")
    assert response.headers["set-cookie"] == "a=1, b=2"
    assert "x" not in response.headers
    assert list(response.headers) == ["etag", "set-cookie", "content-type"]
    response.close()
    assert response.json() == {"degrees": 7}


@pytest.mark.parametrize("body", [b"", b"hunter2", b'{"a": hunter2}', b"\xff\xfe", b"[" * 100_000])
def test_an_answer_that_is_no_json_says_so_and_shows_nothing_of_it(body: bytes):
    with pytest.raises(ValueError, match=r"is no JSON") as failed:
        answered(Reply(302, body=body)).json()
    assert f"GET https://api.example.com: the body of this answer (status 302, {len(body)} bytes)" in str(
        failed.value
    )
    assert "hunter2" not in str(failed.value)
    assert failed.value.__cause__ is None


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/plain; charset=ISO-8859-1", b"\xfc", "ü"),
        ('text/plain; charset="windows-1252"', b"\x80", "€"),
        ("text/plain; charset=iso-8859-15", b"\xa4", "€"),
        ("text/plain; charset=utf-16", "ü".encode("utf-16"), "ü"),
        ("text/plain; charset=utf-8", b"\xff!", "\ufffd!"),
        ("text/plain; charset=klingon", "ü".encode(), "ü"),
        ("text/plain; charset=base64", "ü".encode(), "ü"),
        ("text/plain; charset=", "ü".encode(), "ü"),
        ("text/plain", "ü".encode(), "ü"),
        (None, "ü".encode(), "ü"),
    ],
)
def test_a_text_is_in_the_charset_that_is_named(kind: str | None, body: bytes, text: str):
    assert answered(Reply(headers={"content-type": kind} if kind else {}, body=body)).text == text


def test_a_body_in_pieces_comes_once_and_lets_go_at_its_end():
    network = FakeNetwork(lambda _: Reply(body=[b"one", b"", b"two"]))
    with over(network):
        response = http.get(URL)
        assert network.open == 1
        assert list(response) == [b"one", b"two"]
        assert network.open == 0
    with pytest.raises(RuntimeError, match="taken already"):
        response.read()
    with pytest.raises(RuntimeError, match="taken already"):
        list(response)


def test_a_block_lets_go_of_what_was_not_read():
    network = FakeNetwork(lambda _: Reply(body=[b"one", b"two"]))
    with over(network):
        with http.get(URL) as response:
            assert next(iter(response)) == b"one"
        assert network.open == 0
        with pytest.raises(LookupError), http.get(URL):
            raise LookupError
        assert network.open == 0
    with pytest.raises(RuntimeError, match="closed"):
        response.read()


@pytest.mark.parametrize(("size", "read"), [(9, True), (10, True), (11, False)])
def test_a_reader_may_bound_the_body(size: int, read: bool):
    network = FakeNetwork(lambda _: Reply(body=[b"x"] * size))
    with over(network):
        response = http.get(URL)
        if read:
            assert len(response.read(10)) == size
        else:
            with pytest.raises(http.BodyTooLarge, match="more than 10 bytes"):
                response.read(10)
    assert network.open == 0


def test_a_redirect_is_an_answer_like_any_other():
    asked: list[str] = []

    def answer(request: SentRequest) -> Reply:
        asked.append(request.url)
        return Reply(302, {"location": "../other?x=1"})

    with over(FakeNetwork(answer)):
        response = http.get(URL)
    assert asked == [URL]
    assert (response.status, response.ok) == (302, True)
    assert response.location == "https://api.example.com/other?x=1"
    assert answered(Reply(302, {"Location": "https://b.example/"})).location == "https://b.example/"
    assert answered(Reply()).location is None


@pytest.mark.parametrize(("status", "fine"), [(200, True), (399, True), (400, False), (599, False)])
def test_a_status_is_an_error_where_the_author_says_so(status: int, fine: bool):
    response = answered(Reply(status, body=b"why"))
    if fine:
        assert response.raise_for_status() is response
        return
    with pytest.raises(http.StatusError, match=f"status {status}") as raised:
        response.raise_for_status()
    assert raised.value.status == status
    assert response.text == "why"


# How it fails


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("connection-limit-reached", http.ConnectionLimit),
        ("connection-timeout", http.TimedOut),
        ("connection-read-timeout", http.TimedOut),
        ("DNS-error", http.NameNotFound),
        ("connection-refused", http.ConnectFailed),
        ("TLS-protocol-error", http.TlsFailed),
        ("HTTP-protocol-error", http.Broken),
        ("HTTP-response-incomplete", http.Broken),
        ("HTTP-request-URI-invalid", http.RequestRefused),
        ("configuration-error", http.HttpError),
        ("internal-error", http.HttpError),
    ],
)
def test_a_failure_has_the_interfaces_word_and_a_class(code: str, kind: type[http.HttpError]):
    network = FakeNetwork([fail("GET", URL, code, "more")])
    with over(network), pytest.raises(http.HttpError, match=r"GET https://api\.example\.com: ") as failed:
        http.get(f"{URL}?key=hunter2")
    assert type(failed.value) is kind
    assert (failed.value.code, failed.value.detail) == (code, "more")
    assert code in str(failed.value)
    assert "hunter2" not in str(failed.value)
    assert network.open == 0


@pytest.mark.req("PLG-184")
def test_a_refused_destination_tells_the_author_what_to_declare():
    with over(FakeNetwork([deny("api.example.com")])), pytest.raises(http.Denied) as denied:
        http.get(URL)
    assert '[egress] hosts = ["api.example.com"]' in str(denied.value)
    assert "says no more" in str(denied.value)
    assert denied.value.code == "internal-error"


def test_a_body_that_breaks_is_an_error_where_it_is_read():
    network = FakeNetwork(lambda _: Reply(body=[b"one", Failure("HTTP-response-incomplete")]))
    with over(network):
        response = http.get(URL)
        pieces = iter(response)
        assert next(pieces) == b"one"
        with pytest.raises(http.Broken):
            next(pieces)
        with pytest.raises(http.Broken):
            http.get(URL).read()
    assert network.open == 0


def test_without_the_permission_the_error_names_it():
    with use_host(RecordingHost()), pytest.raises(http.HttpError, match="permission http_client"):
        http.get(URL)


def test_nothing_that_is_shown_holds_a_path_a_query_or_a_header():
    url = "https://api.example.com/bot-hunter2/send?key=hunter2"
    network = FakeNetwork(lambda _: Reply(headers={"set-cookie": "hunter2"}))
    with over(network):
        response = http.get(url, headers={"authorization": "hunter2"})
    shown = [repr(response), repr(response.headers), repr(Target.of(url))]
    shown.append(repr(http.Request("GET", url, headers={"authorization": "hunter2"})))
    assert not [each for each in shown if "hunter2" in each]


# Several at once


def numbered(request: SentRequest) -> Reply | Failure:
    number = int(request.url.rpartition("/")[2])
    return Failure("connection-refused") if number == 3 else Reply(json=number)


def requests(count: int) -> list[http.Request]:
    return [http.Request("GET", f"https://api.example.com/{number}") for number in range(10, 10 + count)]


@pytest.mark.parametrize("count", [0, 1, 16, 17, 40])
def test_many_responses_come_in_order_and_hold_nothing(count: int):
    network = FakeNetwork(numbered)
    with over(network):
        responses = http.many(requests(count))
        assert [each.json() for each in responses] == list(range(10, 10 + count))
    assert network.open == 0


class Counting(FakeNetwork):
    """Remembers how many exchanges were open at a time."""

    def __init__(self) -> None:
        super().__init__(numbered)
        self.most = 0

    def http(self, request: Any) -> Any:
        exchange = super().http(request)
        self.most = max(self.most, self.open)
        return exchange


@pytest.mark.parametrize(("at_once", "most"), [(1, 1), (3, 3), (http.AT_ONCE, 16)])
def test_no_more_than_asked_for_are_under_way(at_once: int, most: int):
    network = Counting()
    with over(network):
        http.many(requests(40), at_once=at_once)
    assert network.most == most


def test_the_first_failure_gives_the_others_up_unless_they_are_wanted():
    asked = [http.Request("GET", f"https://api.example.com/{number}") for number in range(1, 6)]
    network = FakeNetwork(numbered)
    with over(network):
        with pytest.raises(http.ConnectFailed):
            http.many(asked)
        assert network.open == 0
        outcomes = http.many(asked, errors=True)
    assert [type(each) for each in outcomes] == [
        http.Response,
        http.Response,
        http.ConnectFailed,
        http.Response,
        http.Response,
    ]
    assert network.open == 0


def test_one_that_cannot_be_sent_gives_the_others_up():
    network = FakeNetwork(numbered)
    with over(network), pytest.raises(ValueError, match="URL"):
        http.many([*requests(3), http.Request("GET", "nowhere")])
    assert network.open == 0


# An author's tests


class Weather(Tool):
    name = "weather"

    def run(self, city: str) -> str:
        """Say it."""
        try:
            answer = http.get(URL, params={"city": city}, headers={"authorization": "Bearer key"})
        except http.Denied as error:
            raise ToolError("not permitted") from error
        if answer.status == 304:
            return "as before"
        return f"{answer.raise_for_status().json()['degrees']} degrees"


def test_a_tool_is_tested_with_scripted_answers():
    answer = call(Weather, {"city": "Oslo"}, http=[reply("GET", URL, json={"degrees": 7})])
    assert answer.output == "7 degrees"
    (asked,) = answer.requests
    assert (asked.method, asked.url) == ("GET", f"{URL}?city=Oslo")
    assert asked.headers["Authorization"] == "Bearer key"


def test_answers_to_one_request_come_one_after_the_other_and_the_last_again():
    network = FakeNetwork([reply("GET", URL, json={"degrees": 1}), reply("GET", URL, 304)])
    outputs = [call(Weather, {"city": "Oslo"}, network=network) for _ in range(3)]
    assert [each.output for each in outputs] == ["1 degrees", "as before", "as before"]
    assert [len(each.requests) for each in outputs] == [1, 1, 1]


def test_a_route_with_a_query_is_for_that_query_alone():
    routes = [reply("GET", f"{URL}?city=Oslo", json={"degrees": 1}), reply("GET", URL, json={"degrees": 2})]
    assert call(Weather, {"city": "Rome"}, http=routes).output == "2 degrees"


def test_a_refused_host_is_an_answer_of_the_test():
    assert call(Weather, {"city": "Oslo"}, http=[deny("api.example.com")]).error == "not permitted"


def test_what_no_test_wrote_down_fails_the_test_and_is_no_network_error():
    with pytest.raises(Unscripted, match=r"GET https://api\.example\.com/v1/now\?city=Oslo; there is POST"):
        call(Weather, {"city": "Oslo"}, http=[reply("POST", URL)])


def test_a_channel_has_a_network_too():
    from zeroclaw_sdk.guest import Channel

    class Sender(Channel):
        name = "sender"

        def send(self, message: Any) -> None:
            http.post(URL, json={"text": message.content}).raise_for_status().read()

        def poll_message(self) -> None:
            return None

    from zeroclaw_sdk.guest import SendMessage

    network = FakeNetwork([reply("POST", URL, 204)])
    with channel(Sender, network=network) as (sender, _):
        sender.send(SendMessage("hi", recipient="ada"))
    assert network.requests[0].json == {"text": "hi"}
