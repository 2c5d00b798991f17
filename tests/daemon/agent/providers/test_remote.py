"""A provider and a server of models, over real connections."""

from __future__ import annotations

import gzip
import logging
import ssl
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, aclosing
from typing import Any

import anyio
import anyio.to_thread
import peers
import pytest
import trustme
from http_origins import Answer, Asked, reply, say
from model_streams import (
    STREAM,
    anthropic_answer,
    asked_for,
    begins,
    chunk,
    in_turn,
    message_end,
    message_start,
    openai_answer,
    says,
    sse,
    streamed,
    text_block,
)

from zeroclaw_daemon.agent.providers.anthropic import Anthropic
from zeroclaw_daemon.agent.providers.base import Ending, Finished, ProviderError, TextDelta, Usage
from zeroclaw_daemon.agent.providers.event_stream import StreamLimits
from zeroclaw_daemon.agent.providers.openai import OpenAi
from zeroclaw_daemon.agent.providers.reading import Dialect
from zeroclaw_daemon.agent.providers.remote import AddressInvalid, Remote, RemoteProvider, Surroundings
from zeroclaw_daemon.clock import ManualClock
from zeroclaw_host.errors import RemedyAction

from .conftest import KEY, REQUEST, Asking, until

pytestmark = pytest.mark.anyio

Make = Callable[..., tuple[Any, Asking]]
DIALECTS = pytest.mark.parametrize(
    ("dialect", "answer"),
    [
        (OpenAi(), streamed(*openai_answer("Hel", "lo"))),
        (Anthropic(), streamed(*anthropic_answer("Hel", "lo"), named=True)),
    ],
    ids=["openai", "anthropic"],
)
GOOD = streamed(*openai_answer("Hel", "lo"))
WHOLE = [TextDelta("Hel"), TextDelta("lo"), Finished(Ending.DONE, Usage(9, 2))]


class Counting(ManualClock):
    """Tells how many waits have begun."""

    begun = 0

    def move_on_after(self, seconds: float) -> AbstractContextManager[anyio.CancelScope]:
        self.begun += 1
        return super().move_on_after(seconds)


async def failure_of(asking: Asking) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await asking.answer()
    return caught.value


async def told_by(asking: Asking, got: list[object] | None = None) -> tuple[list[object], str]:
    """The events as far as they come, and what is said of the end where it is a failure."""
    got = [] if got is None else got
    try:
        async for event in asking.events():
            got.append(event)
    except ProviderError as error:
        return got, error.message
    return got, ""


def head(*lines: str) -> bytes:
    return "\r\n".join(
        ["HTTP/1.1 200 OK", "content-type: text/event-stream", *lines, "", ""]
    ).encode()  # fmt: skip


@DIALECTS
async def test_an_answer_is_streamed(asking: Make, dialect: Dialect, answer: Answer) -> None:
    origin, model = asking(answer, dialect=dialect)
    events = await model.answer()
    assert events[:2] == [TextDelta("Hel"), TextDelta("lo")]
    assert isinstance(events[2], Finished)
    assert len(events) == 3
    (request,) = origin.asked
    assert request.method == "POST"
    assert request.header("accept") == "text/event-stream"
    assert request.header("content-type") == "application/json"
    assert asked_for(origin.asked) == [dialect.body(REQUEST)]


async def test_each_protocol_says_who_asks_in_its_own_way(asking: Make) -> None:
    origin, model = asking(GOOD)
    await model.answer()
    assert origin.asked[0].target == "/base/chat/completions"
    assert origin.asked[0].header("authorization") == f"Bearer {KEY}"
    origin, model = asking(streamed(*anthropic_answer("a")), dialect=Anthropic())
    await model.answer()
    assert origin.asked[0].target == "/base/v1/messages"
    assert (origin.asked[0].header("x-api-key"), origin.asked[0].header("authorization")) == (KEY, None)
    assert origin.asked[0].header("anthropic-version") == "2023-06-01"


@DIALECTS
@pytest.mark.parametrize("key", [None, ""])
async def test_without_a_key_none_is_sent(
    asking: Make, dialect: Dialect, answer: Answer, key: str | None
) -> None:
    origin, model = asking(answer, dialect=dialect, key=key)
    await model.answer()
    assert origin.asked[0].header("authorization") is None
    assert origin.asked[0].header("x-api-key") is None


async def test_a_piece_is_given_out_before_the_server_says_more_and_closing_ends_the_connection(
    asking: Make,
) -> None:
    gone: list[bool] = []

    def answer(asked: Asked) -> None:
        begins(sse(chunk(content="first")))(asked)
        gone.append(True)

    _, model = asking(answer)
    await anyio.to_thread.run_sync(len, "")  # The event loop keeps the thread.
    with peers.nothing_left(), anyio.fail_after(peers.PATIENCE):
        async with aclosing(model.provider.stream(REQUEST)) as events:
            assert await anext(events) == TextDelta("first")
            assert not gone
        await until(lambda: bool(gone))


@pytest.mark.parametrize("began", [b"", sse(chunk(content="first"))], ids=["head", "stream"])
async def test_cancelling_ends_the_connection_at_once(asking: Make, began: bytes) -> None:
    reached: list[str] = []

    def answer(asked: Asked) -> None:
        asked.body()
        if began:
            asked.send(head() + began)
        reached.append("held")
        peers.hold(asked.connection)
        reached.append("gone")

    _, model = asking(answer)
    got: list[object] = []

    async def ask() -> None:
        async for event in model.events():
            got.append(event)

    with anyio.fail_after(peers.PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await until(lambda: bool(reached) and len(got) == bool(began))
            tasks.cancel_scope.cancel()
        await until(lambda: "gone" in reached)
    assert got == ([TextDelta("first")] if began else [])


async def test_a_wait_for_another_try_can_be_cancelled(asking: Make) -> None:
    clock = ManualClock()
    origin, model = asking(says("503 Busy", {}), clock=clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(model.answer)
        await until(lambda: len(origin.asked) == 1 and clock.waits == 1)
        tasks.cancel_scope.cancel()
    assert len(origin.asked) == 1
    assert clock.waits == 0


# Trying again.


async def test_a_server_that_is_busy_is_asked_again_when_it_wants(asking: Make) -> None:
    origin, model = asking(
        in_turn([
            says("429 Too Many Requests", {"error": {"message": "slow down"}}, retry_after="7"),
            says("503 Service Unavailable", b"", retry_after="Wed, 21 Oct 2026 07:28:20 GMT"),
            says("529 Overloaded", b"?"),
            GOOD,
        ])
    )  # fmt: skip
    assert await model.answer() == WHOLE
    assert model.slept == [7.5, 20.5, 3.0]
    assert len(origin.asked) == 4
    assert len({request.body() for request in origin.asked}) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 599])
async def test_a_server_that_stays_busy_has_failed(asking: Make, status: int) -> None:
    origin, model = asking(says(f"{status} No", {"error": {"message": "full"}}))
    error = await failure_of(model)
    assert error.message == f"the model provider openai.far answered {status}: full"
    assert error.details == {"provider": "openai.far", "status": status}
    assert len(origin.asked) == 4
    assert model.slept == [0.75, 1.5, 3.0]


async def test_a_server_that_wants_to_be_left_alone_for_long_has_failed(asking: Make) -> None:
    origin, model = asking(says("429 No", {}, retry_after="61"))
    assert "answered 429" in (await failure_of(model)).message
    assert (len(origin.asked), model.slept) == (1, [])


@pytest.mark.parametrize("coding", ["gzip, gzip", "GZIP,deflate", "br", "zstd"])
async def test_what_can_make_gigabytes_of_a_packet_is_not_looked_into(asking: Make, coding: str) -> None:
    twice = gzip.compress(gzip.compress(sse(chunk("stop"))))
    _, model = asking(reply(twice, headers={**STREAM, "content-encoding": coding}))
    assert (await failure_of(model)).message == (
        f"the model provider openai.far compresses its answer ({coding.lower()}), which it was asked not to"
    )
    words = gzip.compress(gzip.compress(b"full"))
    _, model = asking(reply(words, status="400 No", headers={"content-encoding": coding}))
    assert (await failure_of(model)).message == "the model provider openai.far answered 400"


@pytest.mark.parametrize("coding", ["identity", "Identity, gzip", "utf-8"])
async def test_a_coding_of_one_layer_is_read(asking: Make, coding: str) -> None:
    plain = sse(chunk(content="a"), chunk("stop"))
    body = gzip.compress(plain) if "gzip" in coding else plain
    _, model = asking(reply(body, headers={**STREAM, "content-encoding": coding}))
    assert await model.answer() == [TextDelta("a"), Finished()]


@pytest.mark.parametrize("status", [400, 402, 404, 408, 413, 418, 499, 201, 204])
async def test_other_answers_are_final(asking: Make, status: int) -> None:
    origin, model = asking(says(f"{status} No", b""))
    error = await failure_of(model)
    assert error.message == f"the model provider openai.far answered {status}"
    assert (len(origin.asked), model.slept) == (1, [])


@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_that_is_refused_is_named(asking: Make, status: int) -> None:
    origin, model = asking(
        says(f"{status} No", {"error": {"message": f"Incorrect API key provided: {KEY}."}})
    )
    error = await failure_of(model)
    assert error.message == (
        f"the model provider openai.far did not accept the key ({status}): Incorrect API key provided: [the key]."
    )
    assert error.remedy is not None
    assert error.remedy.action is RemedyAction.SET_CONFIG
    assert error.remedy.arguments == {"path": "providers.models.openai.far.api_key"}
    assert len(origin.asked) == 1


async def test_a_stream_that_fails_before_anything_was_given_out_is_asked_for_again(asking: Make) -> None:
    failed = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    good = streamed(message_start(), *text_block(0, "a"), *message_end())
    origin, model = asking(in_turn([streamed(message_start(), failed), good]), dialect=Anthropic())
    assert TextDelta("a") in await model.answer()
    assert len(origin.asked) == 2


@pytest.mark.parametrize("first", [chunk(content="half"), chunk(reasoning="hm")])
async def test_nothing_is_asked_again_after_a_piece_was_given_out(asking: Make, first: object) -> None:
    origin, model = asking(in_turn([streamed(first, {"error": {"message": "full", "code": 503}}), GOOD]))
    got, said = await told_by(model)
    assert len(got) == 1
    assert said == "the model provider openai.far failed: full"
    assert (len(origin.asked), model.slept) == (1, [])


# Time.


async def overdue(model: Asking, clock: ManualClock, waiting: Callable[[], bool]) -> str:
    """What is said once the server has been silent for its two minutes, and not a moment earlier."""
    said: list[str] = []

    async def ask() -> None:
        said.append((await failure_of(model)).message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await until(lambda: waiting() and clock.waits == 1)
        clock.advance(119.9)
        assert clock.waits == 1
        clock.advance(0.1)
    assert clock.waits == 0
    return said[0]


async def test_a_server_that_does_not_begin_is_not_waited_for(asking: Make) -> None:
    clock = ManualClock()
    origin, model = asking(lambda asked: (asked.body(), peers.hold(asked.connection)), clock=clock)
    said = await overdue(model, clock, lambda: bool(origin.asked))
    assert said == "the model provider openai.far did not answer within 120 seconds"


@pytest.mark.parametrize(
    "more", [b"", b"da", b": thinking\n\n", sse(chunk(content="b"))], ids=["event", "half", "comment", "next"]
)
async def test_a_server_that_stops_is_not_waited_for(asking: Make, more: bytes) -> None:
    clock = ManualClock()

    def answer(asked: Asked) -> None:
        asked.body()
        asked.send(head() + sse(chunk(content="a")) + more)
        peers.hold(asked.connection)

    _, model = asking(answer, clock=clock)
    got: list[object] = []
    said: list[str] = []

    async def ask() -> None:
        said.append((await told_by(model, got))[1])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await until(lambda: len(got) == 1 + (b"data" in more) and clock.waits == 1)
        clock.advance(120.0)
    assert said == ["the model provider openai.far sent nothing for 120 seconds in the middle of its answer"]


@pytest.mark.parametrize(("sign", "lives"), [(b": still here\n", True), (b"x", False)])
async def test_a_line_is_a_sign_of_life_and_half_a_line_is_none(
    asking: Make, sign: bytes, lives: bool
) -> None:
    """The clock moves under the server's pieces: each comes 100 seconds after the last."""
    clock = Counting()
    given = []

    def answer(asked: Asked) -> None:
        asked.body()
        given.append(asked)  # before the client hears anything
        asked.send(head() + sse(chunk(content="a")))
        peers.hold(asked.connection)

    _, model = asking(answer, clock=clock)
    got: list[object] = []
    said: list[str] = []

    async def ask() -> None:
        said.extend(filter(None, [(await told_by(model, got))[1]]))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await until(lambda: len(got) == 1 and clock.waits == 1)
        for _ in range(3):
            begun = clock.begun
            clock.advance(100.0)
            if clock.waits == 0:
                break
            given[0].send(sign)
            await until(lambda begun=begun: clock.begun > begun)
        if lives:
            given[0].send(sse(chunk("stop"), "[DONE]"))
    assert bool(said) is not lives


async def test_a_server_that_cannot_be_reached_is_not_asked_again(asking: Make) -> None:
    model = Asking(f"http://127.0.0.1:{peers.unused_port()}")
    error = await failure_of(model)
    assert error.message.startswith("the model provider openai.far cannot be reached: ")
    assert model.slept == []


async def test_a_connection_that_does_not_come_about_is_not_waited_for() -> None:
    with peers.full_backlog() as port:
        model = Asking(f"http://127.0.0.1:{port}", around=Surroundings(connect_seconds=0.1))
        assert (
            await failure_of(model)
        ).message == "the model provider openai.far could not be reached in time"


# Streams that are none.


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (says("200 OK", {"error": {"message": "no streams here"}}), "answered application/json and no stream of events: no streams here"),
        (reply(b"<html>", headers={"content-type": "text/html"}), "answered text/html and no stream of events"),
        (reply(b"", headers={}), "answered something and no stream of events"),
        (streamed(chunk(content="a")), "broke off before its answer was whole"),
        (reply(sse(chunk("stop"))[:-1], headers=STREAM), "broke off before its answer was whole"),
        (streamed("{nonsense"), "sent an event that is not JSON"),
        (say(head("content-length: 999") + sse(chunk(content="a"))), "broke off the connection"),
        (say(head("transfer-encoding: chunked") + b"5\r\ndata:"), "broke off the connection"),
        (say(b"nonsense\r\n\r\n"), "broke off the connection"),
        (say(b""), "broke off the connection"),
        (say(head("content-encoding: gzip") + b"no gzip"), "sent bytes that are not compressed the way it says"),
    ],
)  # fmt: skip
async def test_what_is_no_stream_is_told(asking: Make, answer: Answer, said: str) -> None:
    origin, model = asking(answer)
    assert (await failure_of(model)).message == f"the model provider openai.far {said}"
    assert len(origin.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        say(head("content-length: 999") + sse(chunk(content="a"), chunk("stop"))),
        say(head() + sse(chunk(content="a"), chunk("stop"))),
        begins(sse(chunk(content="a"), chunk("stop"), "[DONE]")),
        reply(gzip.compress(sse(chunk(content="a"), chunk("stop"))), headers={**STREAM, "content-encoding": "gzip"}),
    ],
    ids=["cut", "ended", "held", "compressed"],
)  # fmt: skip
async def test_a_whole_answer_is_one_however_its_stream_ends(asking: Make, answer: Answer) -> None:
    _, model = asking(answer)
    assert await model.answer() == [TextDelta("a"), Finished()]


async def test_a_server_that_forgets_to_end_its_whole_answer_is_let_go(asking: Make) -> None:
    clock = ManualClock()
    _, model = asking(begins(sse(chunk(content="a"), chunk("stop"))), clock=clock)
    got: list[object] = []

    async def ask() -> None:
        async for event in model.events():
            got.append(event)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await until(lambda: len(got) == 1 and clock.waits == 1)
        clock.advance(120.0)
    assert got == [TextDelta("a"), Finished()]


async def test_an_event_is_bounded(asking: Make) -> None:
    big = chunk(content="a" * 5_000)
    around = Surroundings(limits=StreamLimits(event_characters=5_000))
    _, model = asking(streamed(big, chunk("stop")), around=around)
    assert "an event that is too large" in (await failure_of(model)).message


async def test_an_error_without_an_end_is_bounded(asking: Make) -> None:
    def answer(asked: Asked) -> None:
        asked.body()
        asked.send(b"HTTP/1.1 400 No\r\ncontent-type: text/plain\r\n\r\n")
        while True:
            asked.send(b"words " * 1_000)

    _, model = asking(answer)
    error = await failure_of(model)
    assert error.message.startswith("the model provider openai.far answered 400: words words")
    assert error.message.endswith("…")
    assert len(error.message) < 500


async def test_an_error_that_stops_is_not_waited_for(asking: Make) -> None:
    clock = Counting()

    def answer(asked: Asked) -> None:
        asked.body()
        asked.send(b"HTTP/1.1 400 No\r\n\r\nwor")
        peers.hold(asked.connection)

    _, model = asking(answer, clock=clock)
    said: list[str] = []

    async def ask() -> None:
        said.append((await failure_of(model)).message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await until(lambda: clock.begun == 2)
        clock.advance(120.0)
    assert said == ["the model provider openai.far answered 400: wor"]


# Secrets, and texts of others.


@pytest.mark.parametrize(
    "answer",
    [
        says("400 Bad", {"error": {"message": f"you said {KEY}"}}),
        says("400 Bad", f"you said {KEY}".encode()),
        *(says("400 Bad", {"error": f"{'x' * length}{KEY}"}) for length in range(364, 388, 2)),
        streamed({"error": {"message": f"you said {KEY}"}}),
        says("200 OK", {"error": {"message": KEY}}),
        says("302 Found", b"", location=f"http://127.0.0.1/?key={KEY}"),
        streamed(f'{{"choices": "{KEY}"}}'),
        streamed(KEY),
        says("503 Busy", {"error": {"message": KEY}}),
    ],
)
async def test_the_key_is_in_no_error_no_record_and_no_repr(
    asking: Make, answer: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    _, model = asking(answer)
    error = await failure_of(model)
    told = [
        repr(error), str(error), repr(error.details), repr(error.remedy), *error.causes(),
        *traceback.format_exception(error), repr(model.provider), repr(Remote("a", "b", key=lambda: KEY)),
        *(repr(vars(record)) for record in caplog.records if record.name.startswith("zeroclaw")),
    ]  # fmt: skip
    assert not [text for text in told if KEY in text or KEY[:12] in text]


@pytest.mark.parametrize(
    "key", ["sk-hunter2\n", "sk hunter2\r\nx: y", "sk-hünter2", " sk-hunter2", "sk-hunter2\x7f"]
)
async def test_a_key_that_cannot_be_sent_is_not_and_is_not_shown(asking: Make, key: str) -> None:
    origin, model = asking(GOOD, key=key)
    error = await failure_of(model)
    assert error.message == "the model provider openai.far has a key with characters that no key has"
    assert error.remedy is not None
    assert error.remedy.arguments == {"path": "providers.models.openai.far.api_key"}
    assert not [text for text in traceback.format_exception(error) if "nter2" in text]
    assert origin.asked == []


async def test_a_key_that_cannot_be_read_is_an_error_of_its_own() -> None:
    def key() -> str:
        raise ProviderError("the key is sealed")

    provider = RemoteProvider(Remote("a", "b", "http://127.0.0.1:1", key), OpenAi())
    with pytest.raises(ProviderError, match="the key is sealed"):
        await anext(provider.stream(REQUEST))


async def test_a_servers_words_are_shown_as_one_short_safe_line(asking: Make) -> None:
    _, model = asking(says("400 Bad", {"error": {"message": "red \x1b[31m\r\nline\u202e" + "x" * 1_000}}))
    message = (await failure_of(model)).message
    assert "red \\x1b[31m\\x0d\\x0aline\\u202exxx" in message
    assert message.isprintable()
    assert len(message) == len("the model provider openai.far ") + 400


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_nobody_is_told_the_key_by_a_redirect(
    asking: Make, server: Callable[..., Any], status: int
) -> None:
    other = server(GOOD)
    origin, model = asking(says(f"{status} Moved", b"", location=f"http://127.0.0.1:{other.port}/"))
    error = await failure_of(model)
    assert error.message == (
        f"the model provider openai.far answered {status} and leads to http://127.0.0.1:{other.port}/"
    )
    assert error.remedy is not None
    assert error.remedy.arguments == {"path": "providers.models.openai.far.uri"}
    assert (len(origin.asked), other.accepted) == (1, 0)


async def test_the_environment_sends_nobody_elsewhere(
    asking: Make, server: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = server(GOOD)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    _, model = asking(GOOD)
    assert await model.answer() == WHOLE
    assert proxy.accepted == 0


# TLS.


async def test_a_server_must_be_trusted(
    asking: Make, secure: Callable[..., ssl.SSLContext], authority: trustme.CA
) -> None:
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    origin, model = asking(
        GOOD, tls=secure("127.0.0.1"), around=Surroundings(trust=lambda: trust)
    )  # fmt: skip
    assert await model.answer() == WHOLE
    model.around = Surroundings(trust=ssl.create_default_context)
    error = await failure_of(model)
    assert "cannot be reached" in error.message
    assert "CERTIFICATE_VERIFY_FAILED" in error.message
    assert len(origin.asked) == 1


async def test_a_handshake_that_stops_is_not_waited_for(asking: Make) -> None:
    peer = peers.Peer(peers.hold)
    try:
        model = Asking(f"https://127.0.0.1:{peer.port}", around=Surroundings(connect_seconds=0.1))
        assert (
            await failure_of(model)
        ).message == "the model provider openai.far could not be reached in time"
    finally:
        peer.close()


# Addresses.


@pytest.mark.parametrize(
    ("dialect", "uri", "url"),
    [
        (OpenAi(), None, "https://api.openai.com/v1/chat/completions"),
        (OpenAi(), "http://localhost:11434/v1/", "http://localhost:11434/v1/chat/completions"),
        (OpenAi(), " https://a.example/x//", "https://a.example/x/chat/completions"),
        (OpenAi(), "https://a.example", "https://a.example/chat/completions"),
        (Anthropic(), None, "https://api.anthropic.com/v1/messages"),
        (Anthropic(), "https://a.example/v1/", "https://a.example/v1/messages"),
        (Anthropic(), "https://a.example/llm", "https://a.example/llm/v1/messages"),
    ],
)
def test_the_address_of_a_question_is_under_the_base_address(
    dialect: Dialect, uri: str | None, url: str
) -> None:
    provider = RemoteProvider(Remote("a", "b", uri), dialect)
    assert str(provider._url) == url


@pytest.mark.parametrize(
    "uri",
    [
        "far", "", "ftp://a.example", "http://", "//a.example", "http://me:hunter2@a.example", "http://a.example/?key=hunter2",
        "http://a.example/#x", "http://a.example:99999", "http://[::1", "http://a.example/\x00hunter2",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_refused_and_not_shown(uri: str) -> None:
    with pytest.raises(AddressInvalid) as caught:
        RemoteProvider(Remote("a", "b", uri or " "), OpenAi())
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
