"""A daemon as a process of its own, with a home of its own, and the plainest client there is: a socket and lines."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.plugin import cache_directory

PROGRAM = str(Path(sys.executable).with_name("zeroclaw"))


class Lines:
    """A connection: lines out, lines in."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._unread = b""

    def ask(self, method: str, params: object = None) -> object:
        """One request and its answer; what else comes is passed over."""
        self.send(method, params)
        while True:
            answer = self.receive()
            if "id" in answer:
                return answer

    def send(self, method: str, params: object = None) -> None:
        """One request."""
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}})
        self.socket.sendall(line.encode() + b"\n")

    def receive(self) -> dict[str, object]:
        """The next message."""
        while b"\n" not in self._unread:
            part = self.socket.recv(65536)
            if not part:
                raise RuntimeError("the server closed the connection")
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)


class Home:
    """Where one daemon lives."""

    def __init__(self, directory: Path) -> None:
        self.env = {**os.environ, "HOME": str(directory), "ZEROCLAW_CACHE_DIR": str(cache_directory())}
        for name in ("ZEROCLAW_SOCKET", "ZEROCLAW_CONFIG_DIR", "ZEROCLAW_DATA_DIR"):
            self.env.pop(name, None)
        self.config = directory / ".zeroclaw" / "config.toml"
        self.endpoint = directory / ".zeroclaw" / "data" / "daemon.sock"

    def command(self, *words: str) -> None:
        """Run a command of ``zeroclaw`` there."""
        subprocess.run([PROGRAM, *words], env=self.env, check=True, capture_output=True)

    @contextlib.contextmanager
    def daemon(self) -> Iterator[tuple[Lines, subprocess.Popen[bytes], float]]:
        """A daemon that runs: a connection to it, its process, and the milliseconds until it answered."""
        with running([PROGRAM, "daemon"], self.env, self.endpoint) as found:
            yield found


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
def running(
    command: list[str], env: dict[str, str], path: Path
) -> Iterator[tuple[Lines, subprocess.Popen[bytes], float]]:
    """A server process with a connection to it and the milliseconds until it answered."""
    started = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with connect(path, process) as client:
            lines = Lines(client)
            lines.ask("initialize", {"protocolVersion": 1})
            yield lines, process, (time.perf_counter() - started) * 1000
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
