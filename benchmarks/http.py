"""What an instance's HTTP request costs beside httpx alone: authorised, on a connection of its own, over the host's loop."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from benchmarks.egress import IDENTITY, ROUNDS, request
from benchmarks.harness import Measurement, alternate
from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.http.exchange import HttpClient
from zeroclaw_host.egress.http.message import HttpTimes, RequestHead
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.records import MemoryEgressLog
from zeroclaw_host.egress.request import TlsMode
from zeroclaw_host.egress.slots import ConnectionSlots
from zeroclaw_host.egress.testing import ScriptedResolver, SettablePolicies

GOAL_ADDED_MILLISECONDS = 2.0
BODY = bytes(1024)

_PIECE = 64 * 1024


def measure() -> Iterator[Measurement]:
    """A GET of 1 KiB, as wasi:http makes it, without the guest."""
    policies = SettablePolicies({IDENTITY: EgressPolicy.of(["a.example"], ["a.example"])})
    client = HttpClient(
        Dialer(
            policies,
            MemoryEgressLog(),
            resolver=ScriptedResolver({"a.example": [["127.0.0.1"]]}),
            slots=ConnectionSlots(),
        )
    )
    with _server() as port:
        values = alternate(
            {
                "wasi:http's exchange": lambda: _get(client, port),
                "httpx alone, a new client": lambda: _plain(port),
            },
            rounds=ROUNDS,
        )
    added = values["wasi:http's exchange"] - values["httpx alone, a new client"]
    yield Measurement(
        "A guest's GET of 1 KiB over loopback, without the guest",
        values,
        goal=f"at most {GOAL_ADDED_MILLISECONDS:.0f} ms more than httpx alone",
        met=added <= GOAL_ADDED_MILLISECONDS,
    )


def _get(client: HttpClient, port: int) -> None:
    changed = threading.Event()
    head = RequestHead.of(b"GET", b"/", b"a.example", (), content=False)
    exchange = client.begin(request("a.example", port, TlsMode.NONE), head, None, HttpTimes(), changed.set)
    found = b""
    while not exchange.download.exhausted:
        changed.clear()
        piece = exchange.download.read(_PIECE)
        found += piece
        if not piece and not exchange.download.ready:
            changed.wait()
    assert found == BODY, exchange.download.failure


def _plain(port: int) -> None:
    with httpx.Client(verify=False, trust_env=False) as client:
        assert client.get(f"http://127.0.0.1:{port}/").content == BODY


class _Origin(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def _server() -> Generator[int]:
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
