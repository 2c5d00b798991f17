"""A piece of a model's answer on its way: from the server of the model, through the daemon, to its client."""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.daemon_process import Home, Lines
from benchmarks.harness import Measurement

TURNS = 40
LATER = 5
"""Pieces of one answer after the first."""
PAUSE = 0.01
"""Seconds between two pieces, so that each finds the daemon at rest."""
GOAL_MS = 2.0


class _Model(ThreadingHTTPServer):
    """Answers every question with the same pieces, and keeps when it sent each."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.sent: list[float] = []


class _Answering(BaseHTTPRequestHandler):
    server: _Model

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        for _ in range(1 + LATER):
            time.sleep(PAUSE)
            self.server.sent.append(time.perf_counter())
            self._event({"choices": [{"index": 0, "delta": {"content": "word "}}]})
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, event: object) -> None:
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def measure() -> Iterator[Measurement]:
    """How much later than the daemon its client has a piece, the first of an answer and the others."""
    with _model() as model, tempfile.TemporaryDirectory() as directory:
        home = Home(Path(directory))
        home.config.parent.mkdir(mode=0o700)
        home.config.write_text(
            'schema_version = 1\n[agents.ada]\nprovider = "openai.near"\n[providers.models.openai.near]\n'
            f'uri = "http://127.0.0.1:{model.server_port}"\nmodel = "m"\n'
        )
        home.config.chmod(0o600)
        with home.daemon() as (client, _, _):
            session = client.ask("session/new", {"agentAlias": "ada"})["result"]["sessionId"]  # type: ignore[index]
            first: list[float] = []
            later: list[float] = []
            for _ in range(TURNS):
                delays = _turn(client, model, session)
                first.append(delays[0])
                later += delays[1:]
    found = {"the first piece": statistics.median(first), "those after it": statistics.median(later)}
    yield Measurement(
        "from the model's server through the daemon to its client, written down on the way, median",
        found,
        goal=f"≤ {GOAL_MS:g} ms",
        met=max(found.values()) <= GOAL_MS,
        compared=False,
    )


def _turn(client: Lines, model: _Model, session: object) -> list[float]:
    """The milliseconds of each piece of one answer."""
    model.sent.clear()
    client.send("session/prompt", {"sessionId": session, "prompt": "go on"})
    came: list[float] = []
    while "id" not in (message := client.receive()):
        if "agent_message_chunk" in json.dumps(message):
            came.append(time.perf_counter())
    if len(came) != 1 + LATER:
        raise RuntimeError(f"{len(came)} pieces came: {message}")
    return [(got - sent) * 1000 for got, sent in zip(came, model.sent, strict=True)]


@contextmanager
def _model() -> Generator[_Model]:
    with _Model() as model:
        thread = threading.Thread(target=model.serve_forever)
        thread.start()
        try:
            yield model
        finally:
            model.shutdown()
            thread.join()
