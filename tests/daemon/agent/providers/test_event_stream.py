"""The bytes of a stream, however they are cut."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from itertools import pairwise
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_streams import (
    anthropic_answer,
    block,
    call_piece,
    chunk,
    message_end,
    message_start,
    openai_answer,
    openai_call,
    sse,
    text_block,
    use_block,
)

from zeroclaw_daemon.agent.messages import ToolCall
from zeroclaw_daemon.agent.providers.anthropic import Anthropic
from zeroclaw_daemon.agent.providers.base import ModelEvent
from zeroclaw_daemon.agent.providers.event_stream import StreamLimits, event_data
from zeroclaw_daemon.agent.providers.failures import Failure
from zeroclaw_daemon.agent.providers.openai import OpenAi
from zeroclaw_daemon.agent.providers.reading import Reader
from zeroclaw_daemon.clock import SystemClock

PATIENT = 3_600.0


class Pieces(httpx.AsyncByteStream):
    """A body that comes in these pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


def data_of(
    pieces: Iterable[bytes],
    limits: StreamLimits | None = None,
    headers: Mapping[str, str] | None = None,
) -> list[str]:
    async def collect() -> list[str]:
        response = httpx.Response(200, headers=headers, stream=Pieces(pieces))
        more = {} if limits is None else {"limits": limits}
        events = event_data(response, clock=SystemClock(), seconds=PATIENT, **more)
        async with aclosing(events):
            return [data async for data in events]

    return anyio.run(collect)


def read(reader: Reader, pieces: Iterable[bytes]) -> list[ModelEvent]:
    found: list[ModelEvent] = []
    for data in data_of(pieces):
        found += reader.read(data)
    return [*found, *reader.finish()]


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


STREAMS: list[tuple[Callable[[], Reader], bytes]] = [
    (OpenAi().reader, sse(*openai_answer("Grüße ", "🦀 \u2028\x85 \\n", "\r\n"))),
    (OpenAi().reader, b": thinking\n\n" + sse(chunk(reasoning="hm"), *openai_call("upper", {"text": "ä🦀"}))),
    (OpenAi().reader, sse(*openai_call("upper", {"text": "x"})).replace(b"\n", b"\r\n")),
    (
        Anthropic().reader,
        sse(message_start(), *block(0, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "hm…"}),
            *text_block(1, "Grüße ", "🦀"), *use_block(2, "a", "alpha", '{"n"', ': "ä"}'), *message_end("tool_use"), named=True),
    ),
    (Anthropic().reader, "\ufeff".encode() + sse(*anthropic_answer("a", "b"), named=True).replace(b"\n", b"\r")),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(STREAMS)))
@given(places=st.lists(st.integers(min_value=0), max_size=40))
def test_a_stream_says_the_same_however_its_bytes_are_cut(number: int, places: list[int]) -> None:
    reader, data = STREAMS[number]
    whole = read(reader(), [data])
    assert len(whole) > 1
    assert read(reader(), cut(data, places)) == whole


@pytest.mark.parametrize("number", range(len(STREAMS)))
def test_a_stream_may_come_byte_by_byte(number: int) -> None:
    reader, data = STREAMS[number]
    assert read(reader(), [data[at : at + 1] for at in range(len(data))]) == read(reader(), [data])


@given(cut_at=st.integers(min_value=0), number=st.integers(0, len(STREAMS) - 1))
def test_a_stream_that_breaks_off_says_a_beginning_of_it_and_fails_or_all(number: int, cut_at: int) -> None:
    reader, data = STREAMS[number]
    whole = read(reader(), [data])
    half = reader()
    found: list[ModelEvent] = []
    for text in data_of([data[: cut_at % (len(data) + 1)]]):
        found += half.read(text)
    try:
        found += half.finish()
    except Failure:
        assert not any(isinstance(event, ToolCall) for event in found)
        assert found == whole[: len(found)]
    else:
        assert [event for event in found if event in whole[:-1]] == whole[:-1]


CALLS = st.lists(
    st.tuples(st.text("ab_", min_size=1, max_size=5), st.text(max_size=12)), min_size=1, max_size=4
)


@given(data=st.data(), calls=CALLS)
def test_pieces_of_several_calls_may_be_mixed_in_any_way(
    data: st.DataObject, calls: list[tuple[str, str]]
) -> None:
    wanted = [ToolCall(f"c{at}", name, json.dumps([text])) for at, (name, text) in enumerate(calls)]
    left: list[list[dict[str, Any]]] = []
    for at, call in enumerate(wanted):
        index, rest = (
            at * 2 + 1,
            cut(call.arguments.encode("ascii"), data.draw(st.lists(st.integers(0, 30), max_size=4))),
        )
        left.append(
            [
                call_piece(index, call.id, call.name),
                *(call_piece(index, arguments=text.decode()) for text in rest),
            ]
        )
    mixed: list[dict[str, Any]] = []
    while any(left):
        mixed.append(data.draw(st.sampled_from([pieces for pieces in left if pieces])).pop(0))
    reader = OpenAi().reader()
    for piece in mixed:
        assert not list(reader.read(json.dumps(chunk(tool_calls=[piece]))))
    assert not list(reader.read(json.dumps(chunk("tool_calls"))))
    assert list(reader.finish())[:-1] == wanted  # fmt: skip


@pytest.mark.parametrize("at", [0, 1, 2, 3, 4])
def test_a_byte_order_mark_is_no_part_of_the_first_event(at: int) -> None:
    data = "\ufeffdata: a\n\n".encode()
    assert data_of([data[:at], data[at:]]) == ["a"]


def test_half_an_event_is_none() -> None:
    assert data_of([b"data: a\n\nda", b"ta: b\n"]) == ["a"]
    assert data_of([b"data: a\n\ndata: b"]) == ["a"]


def test_comments_and_events_without_data_are_none() -> None:
    assert data_of([b": hello\n\nevent: ping\n\nid: 5\n\n\n\nretry: 1\n\ndata\n\ndata: a\ndata: b\n\n"]) == [
        "a\nb"
    ]


def test_bytes_that_are_no_text_do_no_harm() -> None:
    assert data_of([b"data: a\xff\xc3\n\n"]) == ["a\ufffd\ufffd"]


@pytest.mark.parametrize("pieces", [1, 7, 1_000_000])
def test_an_event_is_bounded(pieces: int) -> None:
    limits = StreamLimits(event_characters=1_000)

    def events(length: int) -> list[str]:
        data = b"data: " + b"a" * length + b"\n\n"
        return data_of([data[at : at + pieces] for at in range(0, len(data), pieces)], limits)

    assert events(1_000) == ["a" * 1_000]
    with pytest.raises(Failure, match="an event that is too large"):
        events(1_001)


@pytest.mark.parametrize("endless", [b"a", b"data: a\n", b": a\n"])
def test_an_event_that_never_ends_is_not_waited_for(endless: bytes) -> None:
    taken = 0

    def sent() -> Iterable[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield endless * 1_024

    with pytest.raises(Failure, match="an event that is too large"):
        data_of(sent(), StreamLimits(event_characters=1_000))
    assert taken <= 70_000 / len(endless * 1_024) + 2


def test_an_answer_is_bounded() -> None:
    event = b"data: aaaaaaaaaaaa\n\n"
    limits = partial(StreamLimits, event_characters=1_000)
    assert len(data_of([event] * 10, limits(answer_bytes=200))) == 10
    with pytest.raises(Failure, match="more than one answer may have"):
        data_of([event] * 10, limits(answer_bytes=199))


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_stream_may_be_compressed(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    data = compress(sse("a", "b"))
    pieces = [data[at : at + 1] for at in range(len(data))]
    assert data_of(pieces, headers={"content-encoding": encoding}) == ["a", "b"]


def test_a_little_that_is_much_uncompressed_is_bounded() -> None:
    data = gzip.compress(b"data: " + bytes(3_000_000))
    with pytest.raises(Failure, match="more than one answer may have"):
        data_of([data], StreamLimits(answer_bytes=1_000_000), {"content-encoding": "gzip"})
