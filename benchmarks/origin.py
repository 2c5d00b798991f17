"""An HTTP origin on loopback, in a process of its own, so that what it does is not counted with what is measured.

``GET /N`` is answered with N bytes; the content of a POST is read to its end, and answered with none.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Origin(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(bytes(int(self.path[1:])))

    def do_POST(self) -> None:
        if "chunked" in self.headers.get("transfer-encoding", ""):
            while size := int(self.rfile.readline(), 16):
                self.rfile.read(size + 2)
            self.rfile.readline()
        else:
            self.rfile.read(int(self.headers["content-length"]))
        self._answer(b"")

    def _answer(self, body: bytes) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 64
    """More than are asked for side by side."""


@contextmanager
def origin() -> Generator[int]:
    """One that runs; its port."""
    command = [sys.executable, "-m", "benchmarks.origin"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield int(child.stdout.readline())
        finally:
            child.terminate()


def main() -> None:
    """Serve until ended."""
    server = _Server(("127.0.0.1", 0), _Origin)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
