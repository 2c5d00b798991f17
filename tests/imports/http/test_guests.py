"""The same requests by tools in two languages: real components, real sockets, one suite."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import h11
import http_guests
import http_origins
import peers
import pytest
from plugin_parts import admitted

from zeroclaw_host.egress.http.body import BUFFER_BYTES
from zeroclaw_host.errors import DeadlineExceeded
from zeroclaw_host.imports.http.error_codes import NOT_PERMITTED
from zeroclaw_host.package.signature import SignatureStatus
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.tool import ToolPlugin

Make = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[3]
LIMITS = Limits(call_timeout_ms=120_000, call_fuel=10**12)
TEXT = "ä0123456"
TIMES = 8192
"""How often the text makes 64 KiB of content."""

DENIED = {"error": "internal-error", "payload": NOT_PERMITTED[1]}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(ROOT / ".cache" / "compiled", threads=4) as found:
        yield found


@pytest.fixture(params=["surfer.py", "surfer.js"])
def surf(request: pytest.FixtureRequest, sandbox: Sandbox, guest: Make) -> Callable[..., Any]:
    """Loads the tool of a language; gives a function that does steps, and the guest whose network it has."""
    component = http_guests.built(request.param)

    def load(
        limits: Limits = LIMITS, *, signed: SignatureStatus = SignatureStatus.UNSIGNED, **how: Any
    ) -> tuple[Callable[..., list[Any]], Any]:
        net = guest(**how)
        text = (
            b'name = "weather"\nversion = "1.0.0"\nwasm_path = "weather.wasm"\ncapabilities = ["tool"]\n'
            b'permissions = ["http_client"]\n[egress]\nhosts = ["declared.example"]\n'
        )
        package = admitted(text, component, signed=signed)
        tool = ToolPlugin.load(sandbox, package, net.scope, net.services, limits)

        def do(*steps: dict[str, Any], until: threading.Event | None = None) -> list[Any]:
            """The answers of the steps. With ``until``, the call is given up once that is set, and there are none."""
            arguments = {"steps": list(steps)}
            if until is not None:
                anyio.run(give_up, tool, arguments, until)
                return []
            result = tool.execute_sync(arguments)
            assert result.success, result
            found: list[Any] = json.loads(result.output)
            for answer in found:  # the languages spell the cases of a variant each in its own way
                for place in (answer, answer.get("ended", {})):
                    if "error" in place:
                        place["error"] = place["error"].lower()
            return found

        return do, net

    return load


async def give_up(tool: ToolPlugin, arguments: dict[str, Any], until: threading.Event) -> None:
    """Begin a call, and cancel its task once the event is set."""
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: tool.execute(arguments, call_site=CallSite({})))
        assert await anyio.to_thread.run_sync(until.wait, peers.PATIENCE)
        group.cancel_scope.cancel()


def at(origin: Any, path: str = "/x", **more: Any) -> dict[str, Any]:
    """A step that asks this origin."""
    return {"authority": f"a.example:{origin.port}", "path": path, **more}


@pytest.mark.req("PLG-007", "PLG-177", "PLG-352")
def test_a_tool_gets_what_the_origin_answers(surf: Make, origin: Make) -> None:
    server = origin(http_origins.reply(b"hello\xff", headers={"X-One": "1"}))
    do, net = surf()
    [answer] = do(at(server, "/a?b=c", headers=[["x-two", "2"], ["X-Two", "3"]]))
    assert answer == {
        "status": 200,
        "headers": [["content-length", "6"], ["x-one", "1"]],
        "body": "hello\xff",
    }
    [asked] = server.asked
    assert (asked.method, asked.target, asked.header("x-two")) == ("GET", "/a?b=c", "2")
    assert net.held == 0


def test_content_and_trailers_go_out_and_come_back(surf: Make, origin: Make) -> None:
    server = origin(http_origins.echo)
    do, net = surf()
    sent = (TEXT * TIMES).encode("latin-1")
    step = at(server, method="post", body=TEXT, times=TIMES, trailers=[["x-sum", "7"]], ask_trailers=True)
    first, second = do(step, at(server, method="put", body="x", headers=[["content-length", "1"]]))
    assert first["body"] == f"{len(sent)}:{sum(sent)}"
    assert first["trailers"] == [["x-sum", "7"]]
    assert second["body"] == "x"
    assert server.asked[1].header("transfer-encoding") is None
    assert net.held == 0


def test_sixteen_responses_are_held_in_one_call_and_a_seventeenth_is_refused(
    surf: Make, origin: Make
) -> None:
    server = origin(http_origins.reply(b"x" * 65_536))
    do, net = surf()
    held = at(server, keep=True, most=1)
    answers = do(*[held] * 16, at(server), {"let_go": True}, at(server, drop=True))
    assert [answer.get("body") for answer in answers[:16]] == ["x"] * 16
    assert answers[16] == {"error": "connection-limit-reached", "payload": None}
    assert answers[18]["status"] == 200
    assert net.held == 0


@pytest.mark.req("PLG-125")
def test_a_hundred_requests_in_one_call_never_reach_the_limit(surf: Make, origin: Make) -> None:
    server = origin(http_origins.reply(b"x"))
    do, net = surf(max_connections=1)
    assert {answer["status"] for answer in do(*[at(server), at(server, drop=True)] * 50)} == {200}
    assert net.held == 0


@pytest.mark.req("PLG-176", "PLG-174", "PLG-178")
def test_a_grant_that_is_taken_back_in_the_middle_of_a_call_is_taken_back(surf: Make, origin: Make) -> None:
    do, net = surf()

    def revoke(asked: http_origins.Asked) -> None:
        net.grant()
        http_origins.reply(b"the last")(asked)

    server = origin(revoke)
    first, second = do(at(server), at(server))
    assert (first["body"], second) == ("the last", DENIED)
    assert server.accepted == 1


@pytest.mark.req("PLG-174", "PLG-177")
@pytest.mark.parametrize("signed", [SignatureStatus.UNSIGNED, SignatureStatus.VALID])
def test_what_is_declared_counts_for_nothing_and_what_is_granted_alone(
    surf: Make, origin: Make, signed: SignatureStatus
) -> None:
    server = origin(http_origins.reply(b"x"))
    do, net = surf(
        signed=signed, script={name: [["127.0.0.1"]] for name in ("declared.example", "a.example")}
    )
    net.grant()
    assert do(at(server), at(server, authority=f"declared.example:{server.port}")) == [DENIED, DENIED]
    net.grant("a.example")
    granted, declared = do(at(server), at(server, authority=f"declared.example:{server.port}"))
    assert (granted["body"], declared) == ("x", DENIED)
    assert (server.accepted, net.resolver.asked) == (1, ["a.example"])


@pytest.mark.slow
@pytest.mark.req("PAINS-3", "PLG-124")
def test_a_thousand_calls_of_a_tool_leave_nothing(surf: Make, origin: Make) -> None:
    server = origin({"/x": http_origins.reply(b"x" * 1024), "/cut": http_origins.say(b"HTTP/1.1 200 OK\r\n")})
    do, net = surf()
    ways = [
        [at(server)],
        [at(server, drop=True)],
        [at(server, keep=True, most=1), at(server, keep=True, most=1)],  # its end is the call's
        [at(server, "/cut")],
    ]
    do(*ways[0])
    with peers.nothing_left():
        for each in range(1_000):
            do(*ways[each % len(ways)])
            assert net.held == 0


@pytest.mark.req("PLG-184", "PAINS-16")
def test_errors_are_the_interfaces_own(surf: Make, origin: Make) -> None:
    port = peers.unused_port()
    script = {"a.example": [["127.0.0.1"]], "empty.example": [[]], "meta.example": [["169.254.169.254"]]}
    do, net = surf(script=script)
    server = origin(
        {
            "/cut": http_origins.say(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"),
            "/odd": http_origins.say(b"nonsense\r\n\r\n"),
            "/late": http_origins.say_and_hold(b""),
            "/post": lambda asked: asked.body(),
        }
    )
    answers = do(
        {"authority": f"a.example:{port}"},
        {"authority": "b.example"},
        {"authority": "meta.example"},
        {"authority": "169.254.169.254"},
        {"authority": "empty.example"},
        {"authority": None},
        {"authority": "user@a.example"},
        {"authority": "a.example."},
        {"authority": "a.example:65536"},
        {"authority": "a.example", "scheme": "ftp"},
        {"authority": "a.example", "method": "CONNECT"},
        at(server, "/odd"),
        at(server, "/late", first_byte=100_000_000),
        at(server, "/x", connect=0),
        at(server, "/cut"),
        at(server, "/post", method="post", body="abc", headers=[["content-length", "4"]]),
    )
    words = [answer.get("error") for answer in answers]
    internal = "internal-error"
    assert words == [
        *("connection-refused", internal, internal, internal, "dns-error"),
        *["http-request-uri-invalid"] * 4,
        *("http-protocol-error", "http-request-method-invalid", "http-protocol-error"),
        *("connection-read-timeout", "connection-timeout", None, "http-request-body-size"),
    ]
    assert answers[1:4] == [DENIED] * 3
    assert answers[14]["body"] == "abc"
    assert answers[14]["ended"]["error"] == "http-response-incomplete"
    assert answers[15]["payload"] == 3
    assert net.held == 0


def test_fields_are_held_to_the_standard(surf: Make) -> None:
    do, _ = surf()
    answers = do(
        {"name": "X-A", "value": "1"},
        {"name": "Connection", "value": "close"},
        {"name": "a b", "value": "1"},
        {"name": "x", "value": "a\nb"},
    )
    assert answers == [
        {"fields": [["x-a", "1"]], "has": True},
        {"refused": "forbidden"},
        {"refused": "invalid-syntax"},
        {"refused": "invalid-syntax"},
    ]


@pytest.mark.req("PAINS-3")
@pytest.mark.parametrize("end", ["deadline", "cancel"])
@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"], ids=["head", "body"]
)
def test_a_call_that_waits_for_a_peer_ends_with_its_deadline_or_its_task_and_leaves_nothing(
    surf: Make, origin: Make, said: bytes, end: str
) -> None:
    there, gone = threading.Event(), threading.Event()

    def stall(asked: http_origins.Asked) -> None:
        try:
            asked.send(said)
            there.set()
            peers.hold(asked.connection)
        finally:
            gone.set()

    server = origin(stall)
    if end == "cancel":
        do, net = surf()
        began = time.monotonic()
        do(at(server), until=there)
        assert time.monotonic() - began < peers.PATIENCE, "half of the call's time: it was not its deadline"
    else:
        for milliseconds in (
            3_000,
            60_000,
        ):  # a slow machine may not get as far in a short time; then it has a longer one
            do, net = surf(Limits(call_timeout_ms=milliseconds, call_fuel=10**12))
            with pytest.raises(DeadlineExceeded, match="deadline") as caught:
                do(at(server))
            assert "fuel" not in caught.value.message
            if there.is_set():
                break
    assert gone.wait(peers.PATIENCE)
    assert peers.eventually(lambda: net.held == 0)


@pytest.mark.usefixtures("trusted")
@pytest.mark.req("PLG-354")
def test_https_works_with_whoever_is_the_host(surf: Make, origin: Make, secure: Make) -> None:
    server = origin(http_origins.reply(b"secret"), tls=secure("a.example"))
    do, net = surf(script={"a.example": [["127.0.0.1"]], "b.example": [["127.0.0.1"]]})
    good, other = do(at(server, scheme="https"), {"authority": f"b.example:{server.port}", "scheme": None})
    assert good["body"] == "secret"
    assert other["error"] == "tls-protocol-error"
    assert net.held == 0


@pytest.mark.slow
def test_many_bytes_go_through_in_bounded_memory(surf: Make, origin: Make) -> None:
    size = 64 * 1024 * 1024

    def pour(asked: http_origins.Asked) -> None:
        asked.body()
        asked.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for _ in range(size // 65_536):
            asked.send(bytes(65_536))

    do, net = surf(Limits(call_timeout_ms=250_000, call_fuel=10**13))
    [answer] = do(at(origin(pour), most=size))
    assert answer["body"] == f"{size}:0"
    assert net.held == 0


@pytest.mark.slow
@pytest.mark.parametrize("surf", ["surfer.py"], indirect=True)  # the other's own memory does not hold as much
def test_many_bytes_leave_in_bounded_memory(surf: Make, origin: Make) -> None:
    size, most = 64 * 1024 * 1024, 0

    def count(asked: http_origins.Asked) -> None:
        nonlocal most
        found = 0
        while isinstance(event := asked.next_event(), h11.Data):
            found += len(event.data)
            most = max(most, len(event.data))
        asked.content = b""
        http_origins.reply(str(found).encode())(asked)

    do, net = surf(Limits(call_timeout_ms=250_000, call_fuel=10**13))
    [answer] = do(at(origin(count), method="post", body=TEXT, times=size // len(TEXT)))
    assert answer["body"] == str(size)
    assert most <= BUFFER_BYTES
    assert net.held == 0
