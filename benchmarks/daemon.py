"""The daemon as its clients meet it: how soon it serves, and what a request costs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.harness import Measurement, alternate
from benchmarks.plugin import admitted, built, cache_directory, compiled_sandbox

RTT_GOAL = 3
START_GOAL_MS = 1000
ROUNDS = 1000

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


def connect(path: Path, process: subprocess.Popen[bytes]) -> socket.socket:
    """A connection to the socket, as soon as there is one to be had."""
    limit = time.monotonic() + 30
    while time.monotonic() < limit and process.poll() is None:
        client = socket.socket(socket.AF_UNIX)
        try:
            client.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            client.close()
            time.sleep(0.002)
        else:
            return client
    raise RuntimeError(f"nothing listens on {path}")


@contextlib.contextmanager
def running(command: list[str], env: dict[str, str], path: Path) -> Iterator[tuple[socket.socket, float]]:
    """A server process with a connection to it and the milliseconds until it answered."""
    started = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with connect(path, process) as client:
            request(client, "initialize", {"protocolVersion": 1})
            yield client, (time.perf_counter() - started) * 1000
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def request(client: socket.socket, method: str, params: dict[str, object]) -> object:
    """One request and its answer."""
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"
    client.sendall(line)
    received = b""
    while not received.endswith(b"\n"):
        part = client.recv(65536)
        if not part:
            raise RuntimeError("the server closed the connection")
        received += part
    return json.loads(received)


def measure() -> Iterator[Measurement]:
    """Start-up with one installed plugin; the round trip of ``status`` beside a bare echo server."""
    program = str(Path(sys.executable).with_name("zeroclaw"))
    compiled_sandbox(admitted("redact")).close()  # or the daemon would compile beside what is measured
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home, "ZEROCLAW_CACHE_DIR": str(cache_directory())}
        for name in ("ZEROCLAW_SOCKET", "ZEROCLAW_CONFIG_DIR", "ZEROCLAW_DATA_DIR"):
            env.pop(name, None)
        for words in (
            ["plugin", "install", str(built("redact"))],
            ["config", "set", "plugins.enabled", "true"],
            ["config", "set", "plugins.auto_discover", "true"],
        ):
            subprocess.run([program, *words], env=env, check=True, capture_output=True)
        endpoint = Path(home) / ".zeroclaw" / "data" / "daemon.sock"
        starts: list[float] = []
        for _ in range(3):
            with running([program, "daemon"], env, endpoint) as (_, milliseconds):
                starts.append(milliseconds)
        best = sorted(starts)[1]
        yield Measurement(
            "daemon start until `initialize` is answered, one plugin installed",
            {"start": best},
            f"< {START_GOAL_MS} ms",
            best < START_GOAL_MS,
        )
        bare = Path(home) / "echo.sock"
        with (
            running([program, "daemon"], env, endpoint) as (ours, _),
            running([sys.executable, "-c", _ECHO, str(bare)], env, bare) as (theirs, _),
        ):
            subjects: dict[str, Callable[[], object]] = {
                "status over the daemon's socket": lambda: request(ours, "status", {}),
                "bare asyncio NDJSON echo": lambda: request(theirs, "status", {}),
            }
            medians = alternate(subjects, rounds=ROUNDS, warmup=50)
        ratio = medians["status over the daemon's socket"] / medians["bare asyncio NDJSON echo"]
        yield Measurement("round trip of `status`", medians, f"≤ {RTT_GOAL}×", ratio <= RTT_GOAL)
