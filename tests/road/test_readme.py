"""The README's commands, run as they stand, by somebody who has nothing but the README."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"<!-- run: ([a-z]+) -->\n```sh\n(.*?)```", re.DOTALL)


def blocks() -> dict[str, str]:
    """The command blocks that are meant to be run, by name, in order."""
    return dict(BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8")))


class Reader:
    """Somebody with a new home directory and the commands on the path, who types everything into one shell.

    It begins in an empty directory; where one block leaves it, the next one starts.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.directory = home / "work"
        self.directory.mkdir(parents=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ZEROCLAW_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
        self.environment = {**kept, "HOME": str(home), "PATH": path}

    def types(self, commands: str) -> str:
        """Run commands one after the other; their output."""
        done = subprocess.run(
            ["sh", "-eu", "-c", f'{commands}\npwd >"$HOME/.directory"'],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.directory = Path((self.home / ".directory").read_text(encoding="utf-8").strip())
        return done.stdout

    @contextmanager
    def leaves_running(self, command: str) -> Iterator[None]:
        """Run one command in the background until its socket answers; it must end by itself when asked to."""
        program = ["sh", "-c", f"exec {command}"]
        process = subprocess.Popen(
            program, cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL
        )
        try:
            endpoint = self.home / ".zeroclaw" / "data" / "daemon.sock"
            limit = time.monotonic() + 60
            while not accepts(endpoint):
                assert process.poll() is None, "the daemon ended"
                assert time.monotonic() < limit, "the daemon does not serve"
                time.sleep(0.02)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0


def accepts(endpoint: Path) -> bool:
    """Whether somebody listens on the socket."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(endpoint))
        except OSError:
            return False
    return True


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.req("RPC-223")
def test_every_command_of_the_readme_does_what_it_says(
    tmp_path: Path, system_program: Callable[[str], str]
) -> None:
    system_program("socat")
    reader, commands = Reader(tmp_path / "home"), blocks()
    assert list(commands) == ["author", "maintainer", "operator", "daemon", "client", "socket"]
    assert "Hello, Ada" in reader.types(commands["author"])
    reader.types(commands["maintainer"])
    listed = reader.types(commands["operator"])
    assert "hello" in listed
    with reader.leaves_running(commands["daemon"].strip()):
        assert "Hello, Ada" in reader.types(commands["client"])
        first, second = reader.types(commands["socket"]).splitlines()
        assert '"protocolVersion":1' in first.replace(" ", "")
        assert '"id":2' in second.replace(" ", "")


def test_the_readme_names_the_test_command_that_ci_runs() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "make test" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\nmake test\n" in script
