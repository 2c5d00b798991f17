"""A registry over HTTP: real sockets, a real server process."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import pytest

from zeroclaw_host.registry.client import RegistryClient
from zeroclaw_host.registry.location import Location
from zeroclaw_sdk.registry.server import PortBusy, serve
from zeroclaw_sdk.registry.store import RegistryDirectory

PROGRAM = Path(sys.executable).with_name("zeroclaw-registry")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


class Server:
    """A running server, asked byte for byte: no client tidies the path up."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._address = url.split("/")[2]

    def ask(self, method: str, target: str) -> Answer:
        connection = HTTPConnection(self._address, timeout=20)
        with closing(connection):
            connection.putrequest(method, target, skip_accept_encoding=True)
            connection.endheaders()
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, headers, answer.read())


def filled(directory: Path) -> RegistryDirectory:
    registry = RegistryDirectory.create(directory)
    (registry.directory / "packages" / "a-1.zip").write_bytes(b"archive")
    (registry.directory / "packages" / "notes.txt").write_text("not for others")
    (registry.directory / "secret.pem").write_text("key")
    (registry.directory / "publishers" / "ada.pub").write_text("0" * 64)
    (registry.directory / "packages" / "link.zip").symlink_to(registry.directory / "secret.pem")
    (registry.directory / "packages" / ".hidden.zip").write_text("hidden")
    return registry


@pytest.fixture
def registry(tmp_path: Path) -> RegistryDirectory:
    return filled(tmp_path / "registry")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server process for the tests that only read."""
    registry = filled(tmp_path_factory.mktemp("served") / "registry")
    words = [str(PROGRAM), "serve", str(registry.directory), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield Server(process.stdout.readline().removeprefix("serving ").strip())
        process.terminate()


def test_index_and_archives_have_their_types(server: Server):
    index = server.ask("GET", "/registry.json")
    assert (index.status, index.headers["content-type"]) == (200, "application/json")
    assert json.loads(index.body) == {"plugins": []}
    archive = server.ask("GET", "/packages/a-1.zip")
    assert (archive.status, archive.headers["content-type"], archive.body) == (
        200,
        "application/zip",
        b"archive",
    )
    assert server.ask("HEAD", "/packages/a-1.zip").headers["content-length"] == "7"
    assert server.ask("GET", "/").headers["location"] == "registry.json"
    assert "server" not in index.headers


@pytest.mark.parametrize(
    "target",
    [
        "/secret.pem",
        "/publishers/ada.pub",
        "/packages/",
        "/packages/notes.txt",
        "/packages/link.zip",
        "/packages/.hidden.zip",
        "/packages/none.zip",
        "/packages/../secret.pem",
        "/../secret.pem",
        "/packages/..%2fsecret.pem",
        "/packages/%2e%2e/secret.pem",
        "/packages/..%5csecret.pem",
        "/packages/%252e%252e%252fsecret.zip",
        "/packages/%2fetc%2fpasswd.zip",
        "/packages/a%00.zip",
        "/packages/" + "a" * 5000 + ".zip",
        "//etc/passwd",
    ],
)
def test_nothing_else_is_handed_out(server: Server, target: str):
    assert server.ask("GET", target).status in (404, 400)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_written(server: Server, method: str):
    assert server.ask(method, "/registry.json").status == 405


def test_a_taken_port_is_an_error_of_its_own(registry: RegistryDirectory):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortBusy, match=str(port)):
            serve(registry, host="127.0.0.1", port=port, started=print)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM)])
def test_the_command_says_where_it_serves_and_ends_cleanly(
    registry: RegistryDirectory, tmp_path: Path, number: signal.Signals, status: int
):
    url_file = tmp_path / "url"
    words = ["serve", str(registry.directory), "--port", "0", "--url-file", str(url_file)]
    with subprocess.Popen(
        [str(PROGRAM), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        url = line.removeprefix("serving ").strip()
        assert url.startswith("http://127.0.0.1:")
        assert RegistryClient(Location.parse(url)).index().plugins == ()
        assert url_file.read_text().strip() == url
        server.send_signal(number)
        _, errors = server.communicate(timeout=20)
    assert server.returncode == status
    assert "Traceback" not in errors
