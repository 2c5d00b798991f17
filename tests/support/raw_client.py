"""A client of the socket that knows lines and JSON and nothing of this project: what a stranger would write."""

from __future__ import annotations

import json
import socket
import threading
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

PATIENCE = 60.0
"""Seconds after which a daemon that says nothing has failed a test. No test waits this long otherwise."""

Frame = dict[str, Any]


def _no_number(name: str) -> NoReturn:
    raise AssertionError(f"a frame holds {name}, which no JSON has")


def read_frame(line: bytes) -> Frame:
    """One line of a daemon, which is always an object of JSON-RPC 2.0 and exactly one of its three kinds."""
    frame = json.loads(line.decode("utf-8"), parse_constant=_no_number)
    assert isinstance(frame, dict), frame
    assert frame.get("jsonrpc") == "2.0", frame
    if "method" in frame:
        assert isinstance(frame["method"], str), frame
        assert not {"result", "error"} & frame.keys(), frame
    else:
        assert "id" in frame, frame
        assert ("result" in frame) != ("error" in frame), frame
    if "error" in frame:
        _check_error(frame["error"])
    return frame


def _check_error(error: Any) -> None:
    assert type(error["code"]) is int, error
    assert isinstance(error["message"], str), error
    reason = error["data"]["reason"]
    assert reason.isascii(), error
    assert reason == reason.lower(), error
    assert reason.replace("_", "").isalnum(), error


class RawClient:
    """One connection, as bytes."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE)
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise
        self.frames: list[Frame] = []
        """Every frame that came."""
        self._unread = b""
        self._writers: list[threading.Thread] = []

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def write(self, data: bytes) -> None:
        """Write all of it."""
        self.socket.sendall(data)

    def write_while_it_goes(self, data: bytes) -> None:
        """Write as much of it as the other side takes, in the background, until the connection is closed."""

        def write() -> None:
            with suppress(OSError):
                self.socket.sendall(data)

        writer = threading.Thread(target=write)
        writer.start()
        self._writers.append(writer)

    def receive(self) -> Frame:
        """The next frame; fails at the end of the stream."""
        frame = self.receive_or_end()
        assert frame is not None, "the stream ended"
        return frame

    def receive_or_end(self) -> Frame | None:
        """The next frame, or None at the end of the stream; a reset fails."""
        while b"\n" not in self._unread:
            data = self.socket.recv(1 << 20)
            if not data:
                assert not self._unread, "the stream ended inside a line"
                return None
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        frame = read_frame(line)
        self.frames.append(frame)
        return frame

    def send(self, method: str, params: Any, request_id: Any) -> None:
        """Write one request."""
        frame = {"jsonrpc": "2.0", "method": method, "params": params, "id": request_id}
        self.write(json.dumps(frame).encode() + b"\n")

    def ask(self, method: str, params: Any = None) -> Frame:
        """Call a method; the next frame, which must be the answer: nothing else was on its way."""
        request_id = f"ask-{uuid.uuid4().hex}"
        self.send(method, {} if params is None else params, request_id)
        answer = self.receive()
        assert answer.get("id") == request_id, answer
        return answer

    def call(self, method: str, params: Any = None) -> Any:
        """Call a method; its result."""
        answer = self.ask(method, params)
        assert "result" in answer, answer
        return answer["result"]

    def initialize(self, **params: Any) -> Any:
        return self.call("initialize", {"protocolVersion": 1, **params})

    def finish_sending(self) -> None:
        """Say that no more will come."""
        self.socket.shutdown(socket.SHUT_WR)

    def leave(self) -> None:
        """Say that no more will come and read to the end, which is the daemon's last act for this connection."""
        self.finish_sending()
        assert self.receive_or_end() is None

    def close(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        for writer in self._writers:
            writer.join()
        self.socket.close()
