"""Bad input as a person meets it: one clear error, what to do about it, an exit status, and nothing half-written."""

from __future__ import annotations

import http.server
import resource
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zeroclaw_host.errors import Kind

pytestmark = pytest.mark.usefixtures("compile_cache")

ON = "schema_version = 1\n[plugins]\nenabled = true\nauto_discover = true\n"
CORE_MODULE = b"\0asm\x01\0\0\0"


def truncated(component: bytes) -> bytes:
    return component[: len(component) // 2]


@pytest.mark.parametrize(
    ("damage", "kind", "words"),
    [
        pytest.param(
            lambda _: b"#!/bin/sh\necho hello\n", Kind.INVALID, ["no WebAssembly component"], id="a script"
        ),
        pytest.param(lambda _: b"", Kind.INVALID, ["no WebAssembly component"], id="nothing"),
        pytest.param(lambda _: CORE_MODULE, Kind.INVALID, ["module", "component"], id="a core module"),
        pytest.param(truncated, Kind.INVALID, ["component"], id="half a component"),
    ],
)
def test_what_is_no_component_is_refused_with_its_reason(
    home,
    zeroclaw,
    package,
    echo_component: bytes,
    damage: Callable[[bytes], bytes],
    kind: Kind,
    words: list[str],
) -> None:
    outcome = zeroclaw("plugin", "install", str(package(component=damage(echo_component))))
    assert outcome.status == kind.value, outcome.err
    assert all(word in outcome.err for word in words), outcome.err
    assert "to do: " in outcome.err
    assert nothing_installed(home)


@pytest.mark.req("PLG-003", "PLG-038")
def test_a_component_of_another_world_is_refused_naming_what_it_lacks(home, zeroclaw, package) -> None:
    outcome = zeroclaw("plugin", "install", str(package(capabilities=("channel",))))
    assert outcome.status == Kind.INVALID.value
    assert "zeroclaw:plugin/channel" in outcome.err
    assert "to do: " in outcome.err
    assert nothing_installed(home)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("permissions = [http_client]", "manifest.toml:6:"),
        ('permissions = ["everything"]', "everything"),
        ("permissions = 5", "permissions"),
    ],
)
def test_an_error_of_a_manifest_names_file_and_line(home, zeroclaw, package, line: str, words: str) -> None:
    source = package(more=line)
    outcome = zeroclaw("plugin", "install", str(source))
    assert outcome.status == Kind.INVALID.value
    assert f"{source}/manifest.toml:6:" in outcome.err
    assert words in outcome.err
    assert nothing_installed(home)


class Website(http.server.BaseHTTPRequestHandler):
    """A web server that has pages, and no registry."""

    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        page = b"<!doctype html><title>Welcome</title>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def website() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Website) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/registry.json"
        server.shutdown()
        thread.join()


def test_a_web_page_where_a_registry_should_be_is_told_apart(home, zeroclaw, website: str) -> None:
    outcome = zeroclaw("plugin", "install", "redact", "--registry", website)
    assert outcome.status in (Kind.UNAVAILABLE.value, Kind.INVALID.value)
    assert website in outcome.err
    assert "to do: " in outcome.err
    assert nothing_installed(home)


def test_a_registry_that_is_down_is_named(home, zeroclaw) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/registry.json"
        outcome = zeroclaw("plugin", "install", "redact", "--registry", url)
    assert outcome.status == Kind.UNAVAILABLE.value
    assert url in outcome.err
    assert nothing_installed(home)


@pytest.mark.parametrize("limit", [0, 1024, 4096])
def test_a_file_system_that_takes_no_more_bytes_leaves_nothing_behind(home, package, limit: int) -> None:
    source = package(component=None, capabilities=("skill",))
    skill = source / "skills" / "long"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(f"---\nname: long\ndescription: Long.\n---\n{'x' * 20_000}\n")
    done = subprocess.run(
        ["zeroclaw", "plugin", "install", str(source)],
        # The interpreter's own files must not be cut short by the limit: it would keep them.
        env=home.environment({"PYTHONDONTWRITEBYTECODE": "1"}),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == Kind.UNAVAILABLE.value, done.stderr
    assert "Traceback" not in done.stderr
    assert "to do: " in done.stderr
    assert nothing_installed(home)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("/tool nosuch {}", "nosuch"),
        ("/tool wat_echo [1, 2]", "object"),
        ("/tool wat_echo {broken", "JSON"),
    ],
)
def test_a_tool_that_cannot_be_called_is_a_failed_tool_call_and_the_session_goes_on(
    home, zeroclaw, start_daemon, package, prompt: str, words: str
) -> None:
    home.configure(ON)
    assert zeroclaw("plugin", "install", str(package())).status == 0
    start_daemon()
    outcome = zeroclaw("prompt", prompt)
    assert words in outcome.out + outcome.err
    assert "Traceback" not in outcome.err
    assert "hello" in zeroclaw("prompt", "hello").out


@pytest.mark.req("PLG-149")
def test_configuration_that_breaks_the_schema_keeps_the_tool_away_and_names_the_property(
    home, zeroclaw, start_daemon, package
) -> None:
    schema = (
        'permissions = ["config_read"]\n[config_schema]\ntype = "object"\nadditionalProperties = false\n'
        '[config_schema.properties.depth]\ntype = "integer"\nmaximum = 9\n'
    )
    home.configure(ON)
    zeroclaw("plugin", "install", str(package(more=schema)))
    with home.config_file.open("a") as file:
        file.write('[plugins.entries.config]\ndepth = "10"\n')
    daemon = start_daemon()
    outcome = zeroclaw("prompt", "/tool wat_echo {}")
    _, said = daemon.stop()
    assert "depth" in outcome.out + outcome.err + said
    assert "Traceback" not in outcome.err + said


def nothing_installed(home) -> bool:
    """Whether the plugins directory holds no package and no leftover but the lock."""
    if not home.plugins.exists():
        return True
    return [
        path.name for path in Path(home.plugins).iterdir() if path.name != ".zeroclaw-package-lock-v1"
    ] == []
