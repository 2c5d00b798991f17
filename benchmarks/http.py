"""What an instance's HTTP costs beside httpx alone: authorised, on a connection of its own, over the host's loop; and by a guest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx

from benchmarks.boundary import MIB, PATIENT, Guest
from benchmarks.egress import IDENTITY, ROUNDS, request
from benchmarks.harness import Measurement, alternate
from benchmarks.origin import origin
from benchmarks.plugin import admitted, compiled_sandbox, scope_of, services_of
from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.http.exchange import HttpClient
from zeroclaw_host.egress.http.message import HttpTimes, RequestHead
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.records import MemoryEgressLog
from zeroclaw_host.egress.request import TlsMode
from zeroclaw_host.egress.slots import ConnectionSlots
from zeroclaw_host.egress.testing import ScriptedResolver, SettablePolicies
from zeroclaw_host.imports.wasi.streams import MAX_CHUNK
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.sandbox.conversion import CompiledConversion
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.worlds.tool import ToolPlugin

GOAL_ADDED_MILLISECONDS = 2.0
GOAL_OF_FLOOR = 1.3
PARALLEL = 16
SMALL = 1024
LARGE_ROUNDS = 15
FRESH = "a call that requests nothing"


def measure() -> Iterator[Measurement]:
    """A request of 1 KiB as wasi:http makes it; then a guest's: small, large each way, and many side by side."""
    with origin() as port:
        yield exchange_alone(port)
        package = admitted("courier")
        scope = scope_of(package)
        services = replace(services_of(package), network=_dialer(scope.identity))
        with compiled_sandbox(package) as sandbox:
            courier = ToolPlugin.load(sandbox, package, scope, services, PATIENT)

            def call(size: int = 0, requests: int = 1, content: int = 0) -> None:
                url = f"http://a.example:{port}/{size}"
                done = courier.execute_sync({"url": url, "requests": requests, "content": content})
                assert done.output == str(size * requests), done

            yield small(call, port)
            frame = CallFrame(scope=scope, services=services, limits=PATIENT)
            with Guest(CompiledConversion(), frame) as crossing:
                yield large("a guest's GET of 1 MiB", "make", lambda: call(MIB), call, crossing)
                yield large("a guest's POST of 1 MiB", "take", lambda: call(content=MIB), call, crossing)
            yield side_by_side(call, port)


def exchange_alone(port: int) -> Measurement:
    """A GET of 1 KiB without the guest."""
    client = HttpClient(_dialer(IDENTITY))
    values = alternate(
        {
            "wasi:http's exchange": lambda: _get(client, port),
            "httpx alone, a new client": lambda: _plain(port),
        },
        rounds=ROUNDS,
    )
    added = values["wasi:http's exchange"] - values["httpx alone, a new client"]
    return Measurement(
        "A guest's GET of 1 KiB over loopback, without the guest",
        values,
        goal=f"at most {GOAL_ADDED_MILLISECONDS:.0f} ms more than httpx alone",
        met=added <= GOAL_ADDED_MILLISECONDS,
    )


def small(call: Callable[..., None], port: int) -> Measurement:
    """A GET of 1 KiB by a guest, beyond the call that it is made in."""
    values = alternate(
        {
            "a Python guest's GET": lambda: call(SMALL),
            FRESH: lambda: call(requests=0),
            "httpx alone, a new client": lambda: _plain(port),
        },
        rounds=ROUNDS,
    )
    with_get, fresh, alone = values.values()
    added = with_get - fresh - alone
    return Measurement(
        "A guest's GET of 1 KiB over loopback",
        values,
        goal=f"at most {GOAL_ADDED_MILLISECONDS:.0f} ms more than the call and httpx",
        met=added <= GOAL_ADDED_MILLISECONDS,
        compared=False,
        notes=(f"{added:.1f} ms more",),
    )


def large(
    title: str, crosses: str, subject: Callable[[], None], call: Callable[..., None], crossing: Guest
) -> Measurement:
    """1 MiB by a guest, beyond a call with a request of nothing, beside the same bytes across the boundary alone."""
    values = alternate(
        {
            title: subject,
            "the same request of nothing": lambda: call(),
            "the bytes across the boundary": lambda: crossing.run(crosses, MIB // MAX_CHUNK, MAX_CHUNK),
        },
        rounds=LARGE_ROUNDS,
    )
    whole, nothing, floor = values.values()
    times = (whole - nothing) / floor
    return Measurement(
        f"{title} over loopback",
        values,
        goal=f"at most {GOAL_OF_FLOOR}× the boundary",
        met=times <= GOAL_OF_FLOOR,
        compared=False,
        notes=(f"{times:.2f}× the boundary",),
    )


def side_by_side(call: Callable[..., None], port: int) -> Measurement:
    """As many responses at once as a plugin may hold."""

    def plain() -> None:
        with ThreadPoolExecutor(PARALLEL) as threads:
            list(threads.map(lambda _: _plain(port), range(PARALLEL)))

    values = alternate(
        {
            f"{PARALLEL} at once by a guest": lambda: call(SMALL, PARALLEL),
            f"httpx, {PARALLEL} threads with a new client each": plain,
            f"{PARALLEL} calls with one each": lambda: [call(SMALL) for _ in range(PARALLEL)],
        },
        rounds=LARGE_ROUNDS,
    )
    return Measurement(f"{PARALLEL} GETs of 1 KiB side by side in one call", values)


def _dialer(identity: InstanceIdentity) -> Dialer:
    policies = SettablePolicies({identity: EgressPolicy.of(["a.example"], ["a.example"])})
    resolver = ScriptedResolver({"a.example": [["127.0.0.1"]]})
    return Dialer(policies, MemoryEgressLog(), resolver=resolver, slots=ConnectionSlots())


def _get(client: HttpClient, port: int) -> None:
    changed = threading.Event()
    head = RequestHead.of(b"GET", b"/%d" % SMALL, b"a.example", (), content=False)
    exchange = client.begin(request("a.example", port, TlsMode.NONE), head, None, HttpTimes(), changed.set)
    found = b""
    while not exchange.download.exhausted:
        changed.clear()
        piece = exchange.download.read(MAX_CHUNK)
        found += piece
        if not piece and not exchange.download.ready:
            changed.wait()
    assert len(found) == SMALL, exchange.download.failure


def _plain(port: int) -> None:
    with httpx.Client(verify=False, trust_env=False) as client:
        assert len(client.get(f"http://127.0.0.1:{port}/{SMALL}").content) == SMALL
