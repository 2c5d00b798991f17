"""What asking the network authority costs: one decision."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from benchmarks.harness import Measurement, alternate
from zeroclaw_host.egress.decision import decide
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.request import EgressRequest, TlsMode, Transport
from zeroclaw_host.instance import InstanceIdentity

DECISIONS = 200
"""Decisions of one measured loop."""
ROUNDS = 60
GOAL_MICROSECONDS = 20.0
IDENTITY = InstanceIdentity.default_tool("weather")
HOSTS = ("api.example.com", "*.example.org", "b.example", "c.example")
ADDRESSES = [ipaddress.ip_address("1.1.1.1"), ipaddress.ip_address("2606:4700::1111")]


def measure() -> Iterator[Measurement]:
    """A decision against its goal."""
    yield decision()


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


def request(host: str, port: int, tls: TlsMode) -> EgressRequest:
    """A permitted request."""
    return EgressRequest(
        identity=IDENTITY, transport=Transport.HTTP, host=host, port=port, tls=tls, permitted=True
    )
