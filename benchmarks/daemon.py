"""The daemon as its clients meet it: how soon it serves, what a request costs, and how many it answers."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.daemon_process import Home, Lines, running
from benchmarks.harness import Measurement, alternate
from benchmarks.plugin import SOURCES, admitted, built, compiled_sandbox

RTT_GOAL = 2
MCP_GOAL = 5
START_GOAL_MS = 1000
ROUNDS = 1000
PIPELINED = 10_000
PIPELINED_GOAL = 10_000
"""Requests a second."""
BURSTS = 5

_ECHO = """
import asyncio, json, sys

async def serve(reader, writer):
    while line := await reader.readline():
        message = json.loads(line)
        writer.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}).encode() + b"\\n")
        await writer.drain()

async def main():
    server = await asyncio.start_unix_server(serve, sys.argv[1])
    async with server:
        await server.serve_forever()

asyncio.run(main())
"""


def measure() -> Iterator[Measurement]:
    """Start-up with one installed plugin; the round trip of ``status`` beside a bare echo server and an MCP server; a burst."""
    compiled_sandbox(admitted("redact")).close()  # or the daemon would compile beside what is measured
    with tempfile.TemporaryDirectory() as directory:
        home = Home(Path(directory))
        home.command("plugin", "install", str(built("redact")))
        home.command("config", "set", "plugins.enabled", "true")
        home.command("config", "set", "plugins.auto_discover", "true")
        starts: list[float] = []
        for _ in range(3):
            with home.daemon() as (_, _, milliseconds):
                starts.append(milliseconds)
        best = statistics.median(starts)
        yield Measurement(
            "daemon start until `initialize` is answered, one plugin installed",
            {"start": best},
            f"< {START_GOAL_MS} ms",
            best < START_GOAL_MS,
        )
        bare = Path(directory) / "echo.sock"
        with (
            home.daemon() as (ours, _, _),
            running([sys.executable, "-c", _ECHO, str(bare)], home.env, bare) as (echo, _, _),
            _mcp_server() as mcp,
        ):
            _await_plugin(ours)
            yield from _round_trips(ours, echo, mcp)
            yield _pipelined(ours, echo)


def _await_plugin(ours: Lines) -> None:
    """Wait until the daemon has loaded its plugin, or that is what would be measured."""
    limit = time.monotonic() + 30
    while '"state": "loaded"' not in json.dumps(ours.ask("status")):
        if time.monotonic() > limit:
            raise RuntimeError("the plugin is not loaded")
        time.sleep(0.05)


def _round_trips(ours: Lines, echo: Lines, mcp: Callable[[], object]) -> Iterator[Measurement]:
    status, bare, ping = "status over the daemon's socket", "bare asyncio NDJSON echo", "MCP ping over pipes"
    medians = alternate(
        {status: lambda: ours.ask("status"), bare: lambda: echo.ask("status"), ping: mcp},
        rounds=ROUNDS,
        warmup=50,
    )
    ratio = medians[status] / medians[bare]
    yield Measurement(
        "round trip of `status`",
        {status: medians[status], bare: medians[bare]},
        f"≤ {RTT_GOAL}×",
        ratio <= RTT_GOAL,
    )
    ratio = medians[ping] / medians[status]
    yield Measurement(
        "round trip of a `ping` of an MCP server",
        {ping: medians[ping], status: medians[status]},
        f"≥ {MCP_GOAL}×",
        ratio >= MCP_GOAL,
        notes=(f"as often a bare echo fits into it: {medians[ping] / medians[bare]:.2f}",),
    )


def _pipelined(ours: Lines, echo: Lines) -> Measurement:
    """Both answer the same burst; the daemon looks at who asks and what is configured for each of its requests."""
    names = {"requests that no method serves": "no/such/method", "`status`": "status"}
    rates = {
        name: statistics.median(_rate(ours, method) for _ in range(BURSTS)) for name, method in names.items()
    }
    bare = statistics.median(_rate(echo, "status") for _ in range(BURSTS))
    return Measurement(
        f"{PIPELINED} requests at once on one connection, answered in a second",
        {**rates, "bare asyncio NDJSON echo": bare},
        f"≥ {PIPELINED_GOAL} of `status`",
        rates["`status`"] >= PIPELINED_GOAL,
        unit="/s",
        compared=False,
    )


def _rate(lines: Lines, method: str) -> float:
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}).encode() + b"\n"
    sender = threading.Thread(target=lines.socket.sendall, args=(request * PIPELINED,))
    started = time.perf_counter()
    sender.start()
    answered = 0
    while answered < PIPELINED:
        answered += lines.socket.recv(1024 * 1024).count(b"\n")
    sender.join()
    return PIPELINED / (time.perf_counter() - started)


@contextlib.contextmanager
def _mcp_server() -> Iterator[Callable[[], object]]:
    """A server of the protocol's own SDK, and one ``ping`` of it by the same plain client: lines over pipes."""
    # -P, because modules beside the server have names of the standard library.
    command = [sys.executable, "-P", str(Path(__file__).with_name("mcp_server.py"))]
    env = {**os.environ, "PYTHONPATH": str(SOURCES["redact"])}
    with subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        into, out = server.stdin, server.stdout

        def send(message: dict[str, object]) -> None:
            into.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            into.flush()

        def ask(method: str, params: dict[str, object]) -> object:
            send({"id": 1, "method": method, "params": params})
            return json.loads(out.readline())

        client = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "b", "version": "1"},
        }
        try:
            ask("initialize", client)
            send({"method": "notifications/initialized"})
            yield lambda: ask("ping", {})
        finally:
            server.terminate()
