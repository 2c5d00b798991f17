"""A real HTTP server on loopback, whose every answer a test writes itself."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Site:
    """Answers by path; what was asked for, in order."""

    base: str
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def url(self, path: str) -> str:
        return self.base + path

    def serve(
        self, path: str, body: bytes, *, status: int = 200, headers: dict[str, str] | None = None
    ) -> str:
        """Answer with a body and the length of it."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(body)

        self.answers[path] = answer
        return self.url(path)

    def redirect(self, path: str, target: str, *, status: int = 302) -> str:
        return self.serve(path, b"", status=status, headers={"Location": target})

    def serve_index(self, *entries: dict[str, object], path: str = "/registry.json") -> str:
        return self.serve(path, json.dumps({"plugins": list(entries)}).encode())


@pytest.fixture
def site() -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # otherwise every answer waits for a delayed acknowledgement
        timeout = 20

        def do_GET(self) -> None:
            served.asked.append(self.path)
            served.headers.append({name.lower(): value for name, value in self.headers.items()})
            answer = served.answers.get(self.path)
            if answer is None:
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                answer(self)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Clients of these tests hang up early on purpose."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served = Site(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True)
class Archive:
    data: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


@pytest.fixture
def archive() -> Callable[..., Archive]:
    """A package archive with a manifest of this name and version and a component of eight bytes."""

    def make(name: str = "redact", version: str = "1.0.0") -> Archive:
        manifest = (
            f'name = "{name}"\nversion = "{version}"\nwasm_path = "plugin.wasm"\ncapabilities = ["tool"]\n'
        )
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("manifest.toml", manifest)
            archive.writestr("plugin.wasm", b"\0asm\x0d\0\x01\0")
        return Archive(file.getvalue())

    return make
