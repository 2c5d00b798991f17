"""Any function of ``wasi:http`` and ``wasi:io``, in any order, on any of a guest's handles: an answer or the guest's end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import http_origins
import peers
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zeroclaw_host.contract import contract
from zeroclaw_host.errors import GuestTrap
from zeroclaw_host.imports.http import OUTGOING_HANDLER, TYPES
from zeroclaw_host.imports.http.bodies import (
    BodyInput,
    BodyOutput,
    FutureTrailers,
    IncomingBody,
    OutgoingBody,
)
from zeroclaw_host.imports.http.fields import Fields
from zeroclaw_host.imports.http.options import RequestOptions
from zeroclaw_host.imports.http.requests import OutgoingRequest
from zeroclaw_host.imports.http.responses import FutureIncomingResponse, IncomingResponse, OutgoingResponse
from zeroclaw_host.imports.wasi import INTERFACES
from zeroclaw_host.imports.wasi.streams import IoError, Pollable
from zeroclaw_host.sandbox.resources import Closable
from zeroclaw_host.sandbox.values import Err, Ok

Make = Callable[..., Any]

Draw = Callable[[Random], Any]


def any_of(*values: Any) -> Draw:
    return lambda random: random.choice(values)


def some_fields(random: Random) -> list[tuple[str, bytes]]:
    names = ["x-a", "Content-Length", "Host", "Connection", "Transfer-Encoding", "a b", "expect"]
    values = [b"", b"0", b"3", b"1\r\nx: y", b"a b", b"\xff", b"100-continue"]
    return [(random.choice(names), random.choice(values)) for _ in range(random.randrange(3))]


METHODS = any_of(
    *(("get", None), ("head", None), ("post", None), ("put", None), ("connect", None), ("options", None)),
    *(("other", "post"), ("other", "GET / HTTP/1.1\r\nx:")),
)
SIZES = any_of(0, 1, 65_536, 10**6)

WANTS: dict[str, tuple[Any, ...]] = {
    "[constructor]fields": (),
    "[static]fields.from-list": (some_fields,),
    "[method]fields.append": (Fields, any_of("x", "Host", "te"), any_of(b"1", b"\0")),
    "[method]fields.entries": (Fields,),
    "[method]fields.clone": (Fields,),
    "[constructor]outgoing-request": (Fields,),
    "[method]outgoing-request.set-method": (OutgoingRequest, METHODS),
    "[method]outgoing-request.set-path-with-query": (
        OutgoingRequest,
        any_of(None, "*", "?a", "/big"),
    ),
    "[method]outgoing-request.headers": (OutgoingRequest,),
    "[method]outgoing-request.body": (OutgoingRequest,),
    "[method]outgoing-body.write": (OutgoingBody,),
    "[static]outgoing-body.finish": (OutgoingBody, None),
    "[constructor]request-options": (),
    "[method]request-options.set-first-byte-timeout": (RequestOptions, any_of(None, 0, 10**12)),
    "[method]request-options.set-connect-timeout": (RequestOptions, any_of(None, 0, 10**12)),
    "handle": (OutgoingRequest, None),
    "[method]future-incoming-response.subscribe": (FutureIncomingResponse,),
    "[method]future-incoming-response.get": (FutureIncomingResponse,),
    "[method]incoming-response.headers": (IncomingResponse,),
    "[method]incoming-response.consume": (IncomingResponse,),
    "[method]incoming-body.stream": (IncomingBody,),
    "[static]incoming-body.finish": (IncomingBody,),
    "[method]future-trailers.subscribe": (FutureTrailers,),
    "[method]future-trailers.get": (FutureTrailers,),
    "[constructor]outgoing-response": (Fields,),
    "[method]outgoing-response.body": (OutgoingResponse,),
    "http-error-code": (IoError,),
    "[method]pollable.ready": (Pollable,),
    "[method]pollable.block": (Pollable,),
    "[method]input-stream.read": (BodyInput, SIZES),
    "[method]input-stream.subscribe": (BodyInput,),
    "[method]output-stream.check-write": (BodyOutput,),
    "[method]output-stream.write": (BodyOutput, any_of(b"", b"abc", bytes(65_536))),
    "[method]output-stream.subscribe": (BodyOutput,),
    "[method]output-stream.splice": (BodyOutput, BodyInput, SIZES),
}
"""A class is a handle of that kind; None is what is made up below."""

OWNED = {
    *("[constructor]outgoing-request", "[constructor]outgoing-response", "handle"),
    *("[static]outgoing-body.finish", "[static]incoming-body.finish"),
}
"""Whose first argument the host takes."""


KINDS = (Fields, Pollable, IoError, RequestOptions, OutgoingResponse, Closable)
HALF = 0.5
DROPPED = 0.1
"""How many of the steps drop a handle."""

ANSWER = 0.02
"""Seconds for which a guest waits for a response at most. One origin in five never gives one."""
GLANCE = 0.002
"""Seconds for which a guest waits for anything else, which mostly never comes."""


class Steps:
    """A guest that does anything with what it has."""

    def __init__(self, net: Any, port: int, random: Random) -> None:
        self.net, self.port, self.random = net, port, random
        self.handles: list[int] = []

    def begin(self) -> None:
        """A request that is under way, and with luck as much of its response as the guest wants to have."""
        method, path = self.random.choice(["get", "head", "post"]), "/" * self.random.randrange(1, 9)
        request = self.net.request(f"http://a.example:{self.port}{path}", method=(method, None))
        if method == "post":
            body = self.net.ok("[method]outgoing-request.body", request)
            self.keep(body)
            self.keep(self.net.call("[method]outgoing-body.write", body))
        future = self.net.handle(request)
        self.keep(future)
        self.net.frame.wait(lambda: future.exchange.answered, "", until=self.net.frame.now() + ANSWER)
        found = self.net.call("[method]future-incoming-response.get", future)
        self.keep(found)
        response = found.value.value if isinstance(found, Ok) else None
        if isinstance(response, IncomingResponse) and self.random.random() < HALF:
            body = self.net.ok("[method]incoming-response.consume", response)
            self.keep(body)
            self.keep(self.net.call("[method]incoming-body.stream", body))

    def one_of(self, kind: type) -> int | None:
        found = [at for at in self.handles if isinstance(self.net.frame.table.get(at), kind)]
        return self.random.choice(found) if found else None

    def argument(self, name: str, at: int, wanted: Any) -> Any:
        if isinstance(wanted, type):
            handle = self.one_of(wanted)
            if handle is None:
                raise LookupError
            if at == 0 and name in OWNED:
                self.handles.remove(handle)
                return self.net.frame.table.pop(handle)
            return self.net.frame.table.get(handle)
        if wanted is None:  # an owned handle that may be left out
            handle = self.one_of(RequestOptions if name == "handle" else Fields)
            if handle is None or self.random.random() < HALF:
                return None
            self.handles.remove(handle)
            return self.net.frame.table.pop(handle)
        return wanted(self.random)

    def keep(self, result: Any) -> None:
        """Give the guest what it got."""
        while isinstance(result, (Ok, Err)):
            result = result.value
        if isinstance(result, tuple):
            result = result[-1]  # pyright: ignore[reportUnknownVariableType]
        if isinstance(result, KINDS):
            self.handles.append(self.net.frame.table.push(result))

    def glance(self) -> None:
        """Wait a little for something, as a guest does that has a timer, too."""
        handle = self.one_of(Pollable)
        if handle is not None:
            timer = Pollable(at=self.net.frame.now() + GLANCE)
            self.net.call("poll", [self.net.frame.table.get(handle), timer])

    def step(self) -> None:
        if self.handles and self.random.random() < DROPPED:
            at = self.random.choice(self.handles)
            self.handles.remove(at)
            self.net.frame.table.drop(at)
            return
        name = self.random.choice(list(WANTS))
        if name == "[method]pollable.block":
            self.glance()
            return
        try:
            arguments = [self.argument(name, at, wanted) for at, wanted in enumerate(WANTS[name])]
        except LookupError:
            return
        if name == "handle":
            arguments[0].authority = f"a.example:{self.port}"
            arguments[0].scheme = ("HTTP", None)
        self.keep(self.net.call(name, *arguments))


def answers(came: http_origins.Asked) -> None:
    """One thing or another, the same for the same request."""
    fate = Random(len(came.headers) + len(came.method) + len(came.target)).randrange(5)
    if fate == 0:
        came.send(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc")
    elif fate == 1:
        http_origins.echo(came)
    elif fate == 2:
        came.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nab")
    elif fate == 3:
        came.body()
        came.send(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(10**6))


def test_every_function_with_a_choice_is_among_the_steps() -> None:
    known = {*contract().interface(TYPES.name).functions, *OUTGOING_HANDLER.functions}
    for each in INTERFACES.values():
        known |= set(each.functions)
    assert set(WANTS) <= known


@pytest.mark.req("PLG-007", "PLG-124", "PAINS-3")
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_any_steps_give_answers_or_end_the_guest_and_leave_nothing(
    guest: Make, origin: Make, seed: int
) -> None:
    net, server, random = guest(), origin(answers), Random(seed)
    steps = Steps(net, server.port, random)
    with peers.nothing_left():
        with suppress(GuestTrap):
            for _ in range(random.randrange(4)):
                steps.begin()
            for _ in range(random.randrange(100)):
                steps.step()
        with suppress(GuestTrap):  # as for a body that goes before its stream
            net.frame.table.close()
        server.close()
        assert net.held == 0
