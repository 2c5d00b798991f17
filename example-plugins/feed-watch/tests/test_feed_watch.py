"""The plugin as plain Python: ``python -m pytest`` in its directory."""

import json

import app
import pytest
from app import ATTEMPTS, MAX_BYTES, FeedWatch
from feed import MAX_ENTRIES
from remembered import key_of

from zeroclaw_sdk.fake_network import Failure, FakeNetwork, Reply, deny
from zeroclaw_sdk.guest import StateError
from zeroclaw_sdk.testing import call

URL = "https://blog.example/feed.xml"


class Blog:
    """A feed that knows its version."""

    def __init__(self, *titles):
        self.titles = list(titles)
        self.asked = []
        self.network = FakeNetwork(self.answer)

    @property
    def etag(self):
        return f'"{"-".join(self.titles)}"'

    def answer(self, request):
        self.asked.append((request.headers.get("if-none-match"), request.headers.get("if-modified-since")))
        if request.headers.get("if-none-match") == self.etag:
            return Reply(304, {"ETag": self.etag})
        entries = "".join(f"<entry><id>{each}</id><title>{each}</title></entry>" for each in self.titles)
        document = f'<feed xmlns="http://www.w3.org/2005/Atom"><title>Blog</title>{entries}</feed>'
        return Reply(200, {"ETag": self.etag, "Last-Modified": "yesterday"}, document)


def watch(blog, kept, **arguments):
    answer = call(FeedWatch, {"url": URL} | arguments, state=kept, network=blog.network)
    assert answer.success, answer.error
    news = json.loads(answer.output)
    return [entry["title"] for entry in news["new"]], news["more"]


def refused(answer, **arguments):
    network = FakeNetwork([answer] if not callable(answer) else answer)
    done = call(FeedWatch, {"url": URL} | arguments, state={}, network=network)
    assert not done.success
    assert network.open == 0, "the connection was let go"
    return done.error


def test_each_entry_is_handed_on_once():
    blog, kept = Blog("2", "1"), {}
    assert watch(blog, kept) == (["2", "1"], 0)
    assert watch(blog, kept) == ([], 0)
    blog.titles.insert(0, "3")
    assert watch(blog, kept) == (["3"], 0)
    assert blog.asked == [(None, None), ('"2-1"', "yesterday"), ('"2-1"', "yesterday")]


def test_a_feed_that_has_not_changed_is_neither_read_nor_written():
    blog, kept = Blog("1"), {}
    watch(blog, kept)
    before = dict(kept)
    watch(blog, kept)
    assert kept == before


def test_what_did_not_fit_comes_with_the_next_call():
    blog, kept = Blog("3", "2", "1"), {}
    assert watch(blog, kept, max_entries=2) == (["3", "2"], 1)
    assert watch(blog, kept, max_entries=2) == (["1"], 0)
    assert blog.asked[1] == (None, None), "asked without a version: not all of it was handed on"
    assert watch(blog, kept) == ([], 0)
    assert blog.asked[2][0] == '"3-2-1"'


def test_feeds_are_kept_apart():
    kept = {}
    watch(Blog("1"), kept)
    assert watch(Blog("1"), kept, url="https://blog.example/other.xml") == (["1"], 0)
    assert set(kept) == {key_of(URL), key_of("https://blog.example/other.xml")}


def test_of_two_calls_at_once_each_hands_on_what_the_other_did_not(monkeypatch):
    """The other call hands on the oldest entry between this one's reading and writing."""
    blog, kept, put = Blog("2", "1"), {}, app.state.put

    def second(key, value, expected_revision):
        monkeypatch.setattr(app.state, "put", put)
        assert watch(Blog("1"), kept) == (["1"], 0)
        return put(key, value, expected_revision)

    monkeypatch.setattr(app.state, "put", second)
    assert watch(blog, kept) == (["2"], 0)
    assert watch(blog, kept) == ([], 0)


def test_it_gives_up_when_others_are_always_quicker(monkeypatch):
    tried = []

    def taken(*_):
        tried.append(1)
        raise StateError("put", "conflict")

    monkeypatch.setattr(app.state, "put", taken)
    answer = call(FeedWatch, {"url": URL}, state={}, network=Blog("1").network)
    assert "too many calls" in answer.error
    assert len(tried) == ATTEMPTS


def test_a_host_without_room_is_told_in_words(monkeypatch):
    def full(*_):
        raise StateError("put", "quota-exceeded")

    monkeypatch.setattr(app.state, "put", full)
    assert "too many feeds" in call(FeedWatch, {"url": URL}, state={}, network=Blog("1").network).error


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Reply(404), "status 404"),
        (Reply(304), "the feed is elsewhere"),
        (Reply(301, {"Location": "/new.xml"}), "the feed is elsewhere: https://blog.example/new.xml"),
        (Reply(301), "does not say where"),
        (Reply(301, {"Location": "http://["}), "cannot be fetched"),
        (Reply(200, body="<html/>"), "outermost element is html"),
        (Reply(200, body="<feed"), "unclosed token"),
        (Reply(200, body=[b"<feed>" + b" " * MAX_BYTES]), "larger than"),
        (Reply(200, body=[b"<?xml version='1.0'?>", Failure("HTTP-response-incomplete")]), "cannot be fetched"),
        (Failure("connection-refused"), "cannot be fetched"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_said_in_words(answer, error):
    assert error in refused(lambda _request: answer)


def test_a_feed_of_the_largest_size_is_read():
    body = b'<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id></entry></feed>'.ljust(MAX_BYTES)
    network = FakeNetwork(lambda _request: Reply(200, body=body))
    assert call(FeedWatch, {"url": URL}, state={}, network=network).success


def test_the_rest_of_a_long_feed_is_not_read():
    entries = "".join(f"<entry><id>{number}</id></entry>" for number in range(MAX_ENTRIES))
    document = f'<feed xmlns="http://www.w3.org/2005/Atom">{entries}'.encode()
    network = FakeNetwork(lambda _request: Reply(200, body=[document, Failure("HTTP-response-incomplete")]))
    answer = call(FeedWatch, {"url": URL}, state={}, network=network)
    assert json.loads(answer.output)["more"] == MAX_ENTRIES - 20
    assert network.open == 0


def test_a_feed_that_may_not_be_reached():
    assert "may not reach blog.example" in refused(deny("blog.example"))


def test_what_the_server_says_of_its_version_is_only_sent_back_where_it_can_be():
    kept = {}
    document = '<feed xmlns="http://www.w3.org/2005/Atom"/>'
    for headers in ({"ETag": "x" * 513}, {"ETag": ""}, {"Last-Modified": "é"}, {}):
        network = FakeNetwork(lambda _request, headers=headers: Reply(200, headers, document))
        assert call(FeedWatch, {"url": URL}, state=kept, network=network).success
        assert "if-none-match" not in network.requests[0].headers
        assert "if-modified-since" not in network.requests[0].headers


@pytest.mark.parametrize(
    "arguments",
    [{"url": "file:///etc/passwd"}, {"url": "https://a b"}, {"url": "https://" + "a" * 2000}, {"max_entries": 0}, {"max_entries": 101}],
)  # fmt: skip
def test_arguments_that_do_not_fit_ask_nobody(arguments):
    blog = Blog()
    assert not call(FeedWatch, {"url": URL} | arguments, state={}, network=blog.network).success
    assert blog.asked == []
