"""What asking the network authority costs: one decision, and one HTTP exchange over loopback beside httpx alone."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from benchmarks.harness import Measurement, alternate
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.decision import decide
from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.http_backend import PinnedBackend, pinned_pool
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.records import MemoryEgressLog
from zeroclaw_host.egress.request import EgressRequest, TlsMode, Transport
from zeroclaw_host.egress.slots import ConnectionSlots
from zeroclaw_host.egress.testing import ScriptedResolver, SettablePolicies
from zeroclaw_host.instance import InstanceIdentity

DECISIONS = 200
"""Decisions of one measured loop."""
ROUNDS = 60
GOAL_MICROSECONDS = 20.0
GOAL_ADDED_MILLISECONDS = 2.0
BODY = bytes(1024)
IDENTITY = InstanceIdentity.default_tool("weather")
HOSTS = ("api.example.com", "*.example.org", "b.example", "c.example")
ADDRESSES = [ipaddress.ip_address("1.1.1.1"), ipaddress.ip_address("2606:4700::1111")]


def measure() -> Iterator[Measurement]:
    """A decision against its goal, then an exchange."""
    yield decision()
    yield exchange()


def decision() -> Measurement:
    """The policy as it is made for every request, and what is decided by it."""

    def loop(host: str) -> None:
        for _ in range(DECISIONS):
            policy = EgressPolicy.of(HOSTS, nat64_prefixes=("2600:64::/32",))
            decide(request(host, 443, TlsMode.DIRECT), policy, ADDRESSES)

    found = alternate(
        {
            "allowed, by an exact entry": lambda: loop("api.example.com"),
            "allowed, by a wildcard": lambda: loop("a.example.org"),
            "refused": lambda: loop("other.example"),
        },
        rounds=ROUNDS,
    )
    values = {name: milliseconds * 1000 / DECISIONS for name, milliseconds in found.items()}
    return Measurement(
        "One decision about a request whose host has two addresses",
        values,
        goal=f"allowed under {GOAL_MICROSECONDS:.0f} µs",
        met=values["allowed, by an exact entry"] < GOAL_MICROSECONDS,
        unit="µs",
        compared=False,
    )


def exchange() -> Measurement:
    """A GET of 1 KiB on a new connection, in plaintext."""
    policies = SettablePolicies({IDENTITY: EgressPolicy.of(["a.example"], ["a.example"])})
    dialer = Dialer(
        policies,
        MemoryEgressLog(),
        resolver=ScriptedResolver({"a.example": [["127.0.0.1"]]}),
        slots=ConnectionSlots(),
    )
    with server() as port:

        def pinned() -> None:
            backend = PinnedBackend(dialer, request("a.example", port, TlsMode.NONE), Deadline(30.0))
            with pinned_pool(backend) as pool:
                assert pool.request("GET", f"http://a.example:{port}/").content == BODY

        def plain() -> None:
            with httpx.Client(verify=False, trust_env=False) as client:
                assert client.get(f"http://127.0.0.1:{port}/").content == BODY

        values = alternate({"through the dialer": pinned, "httpx alone, a new client": plain}, rounds=ROUNDS)
    added = values["through the dialer"] - values["httpx alone, a new client"]
    return Measurement(
        "A GET of 1 KiB over loopback on a new connection",
        values,
        goal=f"at most {GOAL_ADDED_MILLISECONDS:.0f} ms more than httpx alone",
        met=added <= GOAL_ADDED_MILLISECONDS,
    )


def request(host: str, port: int, tls: TlsMode) -> EgressRequest:
    """A permitted request."""
    return EgressRequest(
        identity=IDENTITY, transport=Transport.HTTP, host=host, port=port, tls=tls, permitted=True
    )


class _Origin(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def server() -> Iterator[int]:
    """An origin on loopback; its port."""
    origin = ThreadingHTTPServer(("127.0.0.1", 0), _Origin)
    serving = threading.Thread(target=origin.serve_forever, name="origin")
    serving.start()
    try:
        yield origin.server_address[1]
    finally:
        origin.shutdown()
        serving.join()
        origin.server_close()
