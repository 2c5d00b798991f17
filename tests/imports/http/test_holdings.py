"""How much the host keeps for one guest in all, whatever the guest keeps it in: at the limit, and one byte past it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import http_origins
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import Kind
from zeroclaw_host.imports.http.fields import LINE_OVERHEAD, MAX_FIELDS_BYTES
from zeroclaw_host.imports.http.rules import TooLarge
from zeroclaw_host.sandbox.holdings import MAX_HELD_BYTES, Holding, Holdings
from zeroclaw_host.sandbox.values import OK, Err

Make = Callable[..., Any]
WHOLE = [("x", b"y" * (MAX_FIELDS_BYTES - LINE_OVERHEAD - 1))]
"""Fields as large as they may be."""

FULL = MAX_HELD_BYTES // MAX_FIELDS_BYTES


def total(net: Any) -> int:
    return net.frame.table.holdings.total


def filled(net: Any, left: int) -> Holding:
    """Something that leaves so much room beside what is held already."""
    held = net.frame.table.holdings.open()
    assert held.resize(MAX_HELD_BYTES - left - total(net))
    return held


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, MAX_HELD_BYTES // 2))))
def test_the_sum_is_that_of_what_is_held(steps: list[tuple[int, int]]) -> None:
    holdings, held = Holdings(), dict[int, Holding]()
    for place, size in steps:
        others = sum(holding.size for at, holding in held.items() if at != place)
        before = held[place].size if place in held else 0
        if size % 5 == 0:
            held.pop(place, None)
        else:
            fits = size <= before or others + size <= MAX_HELD_BYTES
            assert held.setdefault(place, holdings.open()).resize(size) is fits
        assert holdings.total == sum(holding.size for holding in held.values()) <= MAX_HELD_BYTES


def test_a_guest_holds_as_many_fields_as_it_may_and_one_byte_more_ends_it(guest: Make) -> None:
    net = guest()
    kept = [net.fields(*WHOLE) for _ in range(FULL - 1)]
    last = net.fields(("x", b"y" * (MAX_FIELDS_BYTES - LINE_OVERHEAD - 2)))
    assert total(net) == MAX_HELD_BYTES - 1
    with pytest.raises(TooLarge) as caught:
        net.fields(("a", b""))
    assert caught.value.kind is Kind.LIMIT
    assert caught.value.details == {"limit": "held HTTP bytes", "maximum": MAX_HELD_BYTES}
    del caught, last
    kept.append(net.fields(*WHOLE))
    assert total(net) == MAX_HELD_BYTES
    kept.clear()
    gc.collect()
    assert total(net) == 0


@pytest.mark.parametrize("how", ["append", "set"])
def test_fields_that_grow_are_counted_as_they_are_then(guest: Make, how: str) -> None:
    net = guest()
    fields = net.call("[constructor]fields")
    empty = net.call("[method]fields.clone", fields)
    for each in (fields, empty):  # a clone of nothing that grows is counted for itself
        value: Any = b"1" if how == "append" else [b"1"]
        assert net.call(f"[method]fields.{how}", each, "a", value) == OK
    assert total(net) == 2 * (2 + LINE_OVERHEAD)
    assert net.call("[method]fields.delete", fields, "a") == OK
    assert total(net) == 2 + LINE_OVERHEAD


def test_copies_share_what_they_are_copies_of(guest: Make) -> None:
    net = guest()
    fields = net.fields(*WHOLE)
    copies = [net.call("[method]fields.clone", fields) for _ in range(2 * FULL)]
    requests = [net.call("[constructor]outgoing-request", copy) for copy in copies]
    assert total(net) == MAX_FIELDS_BYTES
    del fields, copies
    assert total(net) == MAX_FIELDS_BYTES  # the requests have them
    requests.clear()
    assert total(net) == 0


def test_the_paths_of_requests_that_are_not_sent_are_counted(guest: Make) -> None:
    net = guest()
    request = net.call("[constructor]outgoing-request", net.fields())
    held = filled(net, 5)
    assert net.call("[method]outgoing-request.set-path-with-query", request, "/abcd") == OK
    with pytest.raises(TooLarge):
        net.call("[method]outgoing-request.set-path-with-query", request, "/abcde")
    assert net.call("[method]outgoing-request.set-path-with-query", request, None) == OK
    assert total(net) == held.size


@pytest.mark.parametrize("of", ["request", "response"])
def test_content_that_is_on_its_way_nowhere_is_counted(guest: Make, of: str) -> None:
    net = guest()
    owner = net.call(f"[constructor]outgoing-{of}", net.fields())
    body = net.ok(f"[method]outgoing-{of}.body", owner)
    stream = net.ok("[method]outgoing-body.write", body)
    held = filled(net, 4096)
    assert net.call("[method]output-stream.blocking-write-and-flush", stream, bytes(4096)) == OK
    with pytest.raises(TooLarge):
        net.call("[method]output-stream.blocking-write-and-flush", stream, b"x")
    stream.close()
    body.close()
    assert total(net) == held.size


def test_content_that_was_sent_is_counted_by_its_connection(guest: Make, origin: Make) -> None:
    net, server = guest(), origin(http_origins.echo)
    request = net.request(f"http://a.example:{server.port}/", method=("post", None))
    body = net.ok("[method]outgoing-request.body", request)
    stream = net.ok("[method]outgoing-body.write", body)
    assert net.call("[method]output-stream.blocking-write-and-flush", stream, b"early") == OK
    assert total(net) > 0
    future = net.handle(request)
    del request
    assert total(net) == 0
    held = filled(net, 4096)  # enough for the response's head
    assert net.call("[method]output-stream.blocking-write-and-flush", stream, bytes(4096)) == OK
    assert net.call("[method]output-stream.blocking-write-and-flush", stream, bytes(4096)) == OK
    stream.close()
    assert net.call("[static]outgoing-body.finish", body, None) == OK
    assert len(net.content(net.answer(future))) == 5 + 8192
    del held


HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
HEAD_SIZE = len(b"transfer-encodingchunked") + LINE_OVERHEAD


@pytest.mark.parametrize("short", [0, 1])
def test_a_head_that_there_is_no_room_for_fails_the_request(guest: Make, origin: Make, short: int) -> None:
    net, server = guest(), origin(http_origins.say(HEAD + b"0\r\n\r\n"))
    request = net.request(f"http://a.example:{server.port}/")
    held = filled(net, HEAD_SIZE - short)
    future = net.handle(request)
    net.call("[method]pollable.block", net.call("[method]future-incoming-response.subscribe", future))
    assert (future.exchange.head is None) == bool(short)
    if short:
        assert net.answer(future) == ("internal-error", None)
    future.close()
    assert net.held == 0
    del held


@pytest.mark.parametrize("short", [0, 1])
def test_trailers_that_there_is_no_room_for_fail_the_response(guest: Make, origin: Make, short: int) -> None:
    net, server = guest(), origin(http_origins.say(HEAD + b"1\r\nz\r\n0\r\nx-a: 1\r\n\r\n"))
    size = len("x-a1") + LINE_OVERHEAD
    future = net.get(f"http://a.example:{server.port}/")
    response = net.answer(future)
    download = response.exchange.download
    # As much as is there already, and room for the trailers as the exchange has them and as the guest is to get them.
    held = net.frame.table.holdings.open()
    before = total(net)
    assert before >= HEAD_SIZE
    body, stream = net.body(response)
    found, error = net.read(stream)
    assert (found, error, download.trailers) == (b"z", None, ((b"x-a", b"1"),))
    stream.close()
    assert held.resize(MAX_HELD_BYTES - total(net) - size + short)
    if short:
        with pytest.raises(TooLarge):
            net.trailers(body)
    else:
        assert net.trailers(body).value.value.lines == [("x-a", b"1")]
    assert net.held == 0


def test_what_is_left_of_a_failed_response_is_dropped_where_there_is_no_room(
    guest: Make, origin: Make
) -> None:
    net = guest()
    server = origin(http_origins.say(HEAD + b"3\r\nabc\r\n5\r\nde"))
    code = ("HTTP-response-incomplete", None)
    for left, found in ((5, b"abcde"), (4, b"")):
        request = net.request(f"http://a.example:{server.port}/")
        held = filled(net, HEAD_SIZE + left)
        future = net.handle(request)
        net.call("[method]pollable.block", net.call("[method]future-incoming-response.subscribe", future))
        exchange = future.exchange
        net.frame.wait(lambda exchange=exchange: exchange.download.ended, "the end")
        del held  # room for the response as the guest gets it
        assert net.read(net.body(net.answer(future))[1]) == (found, code)
        del future, exchange
        assert net.held == 0


def test_nothing_of_an_ended_exchange_is_kept_by_what_still_refers_to_it(guest: Make, origin: Make) -> None:
    net, server = guest(), origin(http_origins.say(HEAD + b"10000\r\n" + bytes(65_536) + b"\r\n5\r\nde"))
    future = net.get(f"http://a.example:{server.port}/")
    response = net.answer(future)
    pollable = net.call("[method]future-incoming-response.subscribe", future)
    download = response.exchange.download
    net.frame.wait(lambda: download.ended, "the end")
    response.close()
    assert download.failure.__traceback__ is None  # whose frames have what was received
    assert download.read(65_536) == b""
    assert pollable.ready(0.0)
    assert net.call("[method]future-incoming-response.get", future) == Err()
