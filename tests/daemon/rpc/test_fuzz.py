"""Any bytes at all: each request is answered once, nothing else is, and the connection ends only where a line is too long.

The limit is injected and small, so that lines on both sides of it are common.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from zeroclaw_daemon.rpc.limits import ConnectionLimits, ServerLimits

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]
LIMIT = 400
LIMITS = ServerLimits(connection=ConnectionLimits(frame_bytes=LIMIT))
TOKEN = "qzxjkw"
"""What no message of the daemon's own holds."""
PARSE, INVALID, UNKNOWN = -32700, -32600, -32601


@dataclass(frozen=True)
class Line:
    """Bytes without a line end, and what must come of them: the id and code of an answer (None: a success), or nothing."""

    data: bytes
    answer: tuple[Any, int | None] | None


def line(value: Any, answer: tuple[Any, int | None] | None, **options: Any) -> Line:
    return Line(json.dumps(value, **options).encode(), answer)


TEXT = st.text(max_size=12).map(lambda text: text + TOKEN)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)
IDS = st.one_of(
    st.none(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=()), max_size=8),
    st.sampled_from(["zc-out-0", "", 2**53 + 1]),
)
NO_ID = st.one_of(st.booleans(), st.lists(JSON, max_size=2), st.dictionaries(TEXT, JSON, max_size=2))
PARAMS = st.one_of(st.dictionaries(TEXT, JSON, max_size=3), st.lists(JSON, max_size=3))
NO_PARAMS = SCALARS
METHODS = st.one_of(TEXT, st.just("status"))


@st.composite
def valid_requests(draw: st.DrawFn) -> Line:
    method, request_id = draw(METHODS), draw(IDS)
    frame = {"jsonrpc": "2.0", "method": method, "id": request_id}
    if draw(st.booleans()):
        frame["params"] = draw(PARAMS)
    if draw(st.booleans()):
        frame[draw(TEXT)] = draw(JSON)
    frame = dict(draw(st.permutations(list(frame.items()))))
    return line(
        frame, (request_id, None if method == "status" else UNKNOWN), ensure_ascii=draw(st.booleans())
    )


@st.composite
def notifications(draw: st.DrawFn) -> Line:
    return line({"jsonrpc": "2.0", "method": draw(METHODS), "params": draw(PARAMS)}, None)


@st.composite
def malformed_requests(draw: st.DrawFn) -> Line:
    frame: dict[str, Any] = {"jsonrpc": "2.0", "method": draw(METHODS), "params": draw(PARAMS)}
    request_id = draw(IDS)
    frame["id"] = request_id
    match draw(st.sampled_from(["version", "no version", "params", "id", "both", "method", "neither"])):
        case "version":
            frame["jsonrpc"] = draw(JSON.filter(lambda value: value != "2.0"))
        case "no version":
            del frame["jsonrpc"]
        case "params":
            frame["params"] = draw(NO_PARAMS)
        case "id":
            frame["id"], request_id = draw(NO_ID), None
        case "both":
            frame[draw(st.sampled_from(["result", "error"]))], request_id = draw(JSON), None
        case "method":
            frame["method"], request_id = draw(JSON.filter(lambda value: not isinstance(value, str))), None
        case _:
            del frame["method"]
            request_id = None
    if "id" in frame and draw(st.booleans()) and request_id is not None:
        del frame["id"]
        request_id = None
    return line(frame, (request_id, INVALID))


@st.composite
def responses(draw: st.DrawFn) -> Line:
    """Good or bad, nobody waits for one here."""
    frame: dict[str, Any] = {draw(st.sampled_from(["result", "error"])): draw(JSON)}
    optional = {"jsonrpc": st.one_of(st.just("2.0"), JSON), "id": st.one_of(IDS, NO_ID), "result": JSON, "error": JSON,
                "params": JSON}  # fmt: skip
    for member in draw(st.sets(st.sampled_from(sorted(optional)))):
        frame[member] = draw(optional[member])
    return line(frame, None)


@st.composite
def good_responses(draw: st.DrawFn) -> Line:
    """Responses that are right in every way, and answer nothing."""
    failure = {"code": draw(st.integers()), "message": draw(TEXT), "data": draw(JSON)}
    answer = draw(st.sampled_from([{"result": draw(JSON)}, {"error": failure}]))
    return line({"jsonrpc": "2.0", "id": draw(IDS), **answer}, None)


NO_MESSAGES = JSON.filter(lambda value: not isinstance(value, dict)).map(
    lambda value: line(value, (None, INVALID))
)


@st.composite
def not_json(draw: st.DrawFn) -> Line:
    good = draw(valid_requests()).data
    cut = draw(st.integers(1, len(good) - 1))
    data = draw(
        st.sampled_from(
            [
                good[:cut],
                good[cut:].replace(b'"', b"", 1),
                good + good,
                good + b" x",
                b"\xef\xbb\xbf" + good,
                good[:-1] + b',"a":NaN}',
                good[:-1] + b',"a":-Infinity}',
                good[:-1] + b',"a":1e999}',
                good[:-1] + b',"a":"\xff"}',
                good[:-1] + b',"a":"\xed\xa0\x80"}',
                good[:-1] + b',"a":"\x01"}',
                good[:-1] + b',"a":01}',
                good[:-1] + b",}",
                b"'" + good,
                b"[" * 300,
                b"[" * 199 + b"]" * 198,
            ]
        )
    ).replace(b"\n", b"")
    return Line(data, (None, PARSE))


LINES = st.one_of(
    valid_requests(),
    notifications(),
    malformed_requests(),
    responses(),
    good_responses(),
    NO_MESSAGES,
    not_json(),
).filter(lambda each: len(each.data) < LIMIT and _is_json(each) is not (each.answer == (None, PARSE)))
BLANKS = st.sampled_from([b"", b"\r", b" \t", b"\r\n", b"\n \r"])


def _is_json(each: Line) -> bool:
    """Whether the standard library, told to be strict, agrees that this is JSON."""

    def no(_: str) -> Any:
        raise ValueError

    def number(digits: str) -> float:
        value = float(digits)
        return value if abs(value) < float("inf") else no(digits)

    try:
        json.loads(each.data.decode("utf-8"), parse_constant=no, parse_float=number)
    except (ValueError, RecursionError):
        return False
    return not each.data.startswith(b"\xef\xbb\xbf")


async def write_cut(wire: Any, data: bytes, cuts: list[int]) -> None:
    """Write the data in pieces, and give the daemon the time to read each by itself."""
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, stop in pairwise(edges):
        await wire.write(data[start:stop])
        for _ in range(4):
            await anyio.lowlevel.checkpoint()


async def read(wire: Any, count: int) -> list[dict[str, Any]]:
    return [await wire.receive() for _ in range(count)]


def named(answers: list[tuple[Any, int | None]]) -> list[str]:
    """Answers as they are compared: 1, 1.0 and true are three ids."""
    return [f"{type(request_id).__name__} {request_id!r} {code}" for request_id, code in answers]


def got(frames: list[dict[str, Any]]) -> list[tuple[Any, int | None]]:
    return [(frame["id"], frame["error"]["code"] if "error" in frame else None) for frame in frames]


SETTINGS = settings(
    max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.req("RPC-017", "RPC-018", "RPC-059", "RPC-088", "RPC-099", "RPC-117", "RPC-119", "RPC-120", "RPC-232", "RPC-233", "RPC-253")  # fmt: skip
@SETTINGS
@given(
    lines=st.lists(st.tuples(LINES, BLANKS), max_size=8),
    cuts=st.lists(st.integers(0, 2000), max_size=8),
    before_ends=st.booleans(),
    end=st.sampled_from(["open", "half-close", "no line end"]),
)
async def test_lines_of_every_kind_however_they_are_cut(
    serving: Serving,
    caplog: pytest.LogCaptureFixture,
    lines: list[tuple[Line, bytes]],
    cuts: list[int],
    before_ends: bool,
    end: str,
) -> None:
    caplog.clear()
    caplog.set_level(logging.DEBUG)
    data = b"".join(each.data + b"\n" + blank + b"\n" * (b"\r" in blank) for each, blank in lines)
    if end == "no line end":
        data = data.rstrip(b" \t\r\n")
    wanted = [each.answer for each, _ in lines if each.answer is not None]
    if before_ends:
        cuts = [place for place, byte in enumerate(data) if byte == ord("\n")]
    async with serving(limits=LIMITS) as daemon, daemon.connect() as wire:
        await write_cut(wire, data, cuts)
        if end == "open":
            frames = await read(wire, len(wanted))
            assert "error" in await wire.ask("no/such")
            assert (await wire.call("status"))["sessionIds"] == []
        else:
            wire.transport.end()
            frames = await wire.rest()
        assert named(got(frames)) == named(wanted)
        assert [frame for frame in frames if "method" in frame] == []
        assert TOKEN not in json.dumps([frame.get("error") for frame in frames])
        assert not re.search(rb"NaN|Infinity", wire.raw)
    assert TOKEN not in repr([record.__dict__ for record in caplog.records])


@pytest.mark.req("RPC-021", "RPC-022", "RPC-023", "RPC-234", "PAINS-20")
@SETTINGS
@given(
    before=st.lists(valid_requests().filter(lambda each: len(each.data) < LIMIT), max_size=3),
    length=st.integers(LIMIT - 3, LIMIT + 3),
    ended=st.booleans(),
    cuts=st.lists(st.integers(0, 2000), max_size=6),
)
@example(before=[], length=LIMIT, ended=True, cuts=[])
@example(before=[], length=LIMIT, ended=True, cuts=[LIMIT - 1])
@example(before=[], length=LIMIT + 1, ended=True, cuts=[LIMIT])
@example(before=[], length=LIMIT + 1, ended=False, cuts=[LIMIT])
async def test_a_line_around_the_limit(
    serving: Serving, before: list[Line], length: int, ended: bool, cuts: list[int]
) -> None:
    """``length`` counts the line's end, if it has come."""
    request = b'{"jsonrpc":"2.0","method":"status","id":"last"'
    body = request + b" " * (length - ended - len(request) - 1) + b"}"
    assert len(body) + ended == length
    data = b"".join(each.data + b"\n" for each in before) + body + b"\n" * ended
    too_long = length > LIMIT
    async with serving(limits=LIMITS) as daemon, daemon.connect() as wire:
        await write_cut(wire, data, cuts)
        if not too_long and not ended:
            await wire.write(b"\n") if length < LIMIT else wire.transport.end()
        answers = [each.answer for each in before]
        if not too_long:
            assert got(await read(wire, len(answers) + 1)) == [*answers, ("last", None)]
            if not wire.transport._outgoing.writer_ended:
                await wire.call("status")
            return
        frames = await wire.rest()
        assert got(frames) == [*answers, (None, INVALID)]
        assert frames[-1]["error"]["data"] == {"reason": "frame_too_large", "limit_bytes": LIMIT}


@pytest.mark.req("RPC-015", "RPC-019", "RPC-233", "RPC-237")
@SETTINGS
@given(
    data=st.binary(max_size=LIMIT - 1),
    mutations=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
)
@example(data=b'{"jsonrpc":"2.0","method":"status","id":1,"id":2}', mutations=[])
@example(data=b'{"jsonrpc":"2.0","method":"status","method":"no/such","id":1}', mutations=[])
@example(data=b'{"jsonrpc":"2.0","id":1,"result":1,"result":2,"method":"status"}', mutations=[])
async def test_bytes_that_nobody_meant(
    serving: Serving, data: bytes, mutations: list[tuple[int, int]]
) -> None:
    """Random bytes, and a request with some bytes changed: every line of theirs has at most one answer, and the last request,
    which is a good one, has exactly one.
    """
    request = bytearray(b'{"jsonrpc":"2.0","method":"session/state","params":{"sessionId":"x"},"id":12}')
    for place, value in mutations:
        request[place % len(request)] = value
    lines = [part for part in (*data.split(b"\n"), *bytes(request).split(b"\n")) if part.strip(b" \t\r")]
    async with serving(limits=LIMITS) as daemon, daemon.connect() as wire:
        await wire.write(data + b"\n" + request + b"\n")
        await wire.send({"jsonrpc": "2.0", "method": "status", "id": "the last one"})
        wire.transport.end()
        frames = await wire.rest()
        assert len(frames) <= len(lines) + 1
        assert [frame["id"] for frame in frames].count("the last one") == 1
        assert "result" in frames[-1]
        assert all(("result" in frame) != ("error" in frame) for frame in frames)


@pytest.mark.req("RPC-233")
@SETTINGS
@given(depth=st.integers(1, 6000), opening=st.sampled_from(["[", '{"a":', '[{"a":']), closed=st.booleans())
@example(depth=255, opening="[", closed=True)
@example(depth=256, opening="[", closed=True)
@example(depth=5000, opening='[{"a":', closed=True)
async def test_nesting_of_any_depth(serving: Serving, depth: int, opening: str, closed: bool) -> None:
    closing = "".join({"[": "]", "{": "}"}[mark] for mark in reversed(opening) if mark in "[{")
    inner = opening * depth + "1" + closing * depth * closed
    async with serving() as daemon, daemon.connect() as wire:
        await wire.send(f'{{"jsonrpc":"2.0","method":"status","params":{{"deep":{inner}}},"id":1}}'.encode())
        answer = await wire.receive()
        held = closed and 2 + depth * len(closing) <= 256
        assert got([answer]) == [(1, None) if held else (None, PARSE)]
        await wire.call("status")


@pytest.mark.req("RPC-088", "RPC-233")
@SETTINGS
@given(
    digits=st.integers(1, 5000),
    sign=st.sampled_from(["", "-"]),
    tail=st.sampled_from(["", ".5", "e9", "e-9", "e400", ".0e99"]),
)
@example(digits=4000, sign="-", tail="")
@example(digits=4001, sign="", tail="")
@example(digits=309, sign="", tail=".5")
async def test_numbers_of_any_length(serving: Serving, digits: int, sign: str, tail: str) -> None:
    text = f"{sign}{'7' * digits}{tail}"
    async with serving() as daemon, daemon.connect() as wire:
        await wire.send(f'{{"jsonrpc":"2.0","method":"status","id":{text}}}'.encode())
        answer = await wire.receive()
        if tail:
            value = float(text)
            held = abs(value) != float("inf")
        else:
            held = len(text) <= 4000
            value = int(text) if held else 0
        assert named(got([answer])) == named([(value, None) if held else (None, PARSE)])
        await wire.call("status")
