"""The documented session: two lines in, two lines out, as the page on the protocol has it."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from daemon_process import environment
from raw_client import PATIENCE, read_frame

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rpc.md"
INITIALIZE = '{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":1},"id":1}'
STATUS = '{"jsonrpc":"2.0","method":"status","params":{},"id":2}'


def commands() -> list[str]:
    """The commands of the page's last section."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Try it\n")[2]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)


def assert_two_results(lines: list[bytes]) -> None:
    first, second = (read_frame(line) for line in lines)
    assert (first["id"], first["result"]["protocolVersion"]) == (1, 1)
    assert (second["id"], second["result"]["protocolVersion"]) == (2, 1)


def test_the_page_has_the_documented_session_literally() -> None:
    endpoint = 'UNIX-CONNECT:"$HOME"/.zeroclaw/data/daemon.sock'
    assert commands()[0] == f"(printf '%s\\n' '{INITIALIZE}' '{STATUS}'; sleep 1) | socat - {endpoint}\n"


@pytest.mark.realtime
@pytest.mark.req("RPC-223")
@pytest.mark.parametrize("number", range(len(commands())))
def test_every_form_of_the_documented_session_gets_two_results(
    number: int, endpoint: Any, system_program: Callable[[str], str]
) -> None:
    system_program("socat")
    if endpoint.home is None:
        pytest.skip("the page speaks of the daemon of a home directory")
    done = subprocess.run(
        ["sh", "-eu", "-c", commands()[number]],
        env=environment(endpoint.home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    assert_two_results(done.stdout.splitlines())
    assert done.stderr == b""


@pytest.mark.req("RPC-223", "RPC-015")
@pytest.mark.parametrize("at_once", [True, False])
def test_the_same_two_lines_over_a_bare_socket_get_two_results(endpoint: Any, at_once: bool) -> None:
    lines = [f"{INITIALIZE}\n".encode(), f"{STATUS}\n".encode()]
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(str(endpoint.socket))
        with client.makefile("rb") as answers:
            if at_once:
                client.sendall(b"".join(lines))
                received = [answers.readline(), answers.readline()]
            else:
                received = []
                for line in lines:
                    client.sendall(line)
                    received.append(answers.readline())
            assert all(line.endswith(b"\n") for line in received)
            assert_two_results(received)
            client.shutdown(socket.SHUT_WR)
            assert answers.read() == b""
    assert (
        json.loads(received[1])["result"]["serverVersion"]
        == json.loads(received[0])["result"]["serverVersion"]
    )
