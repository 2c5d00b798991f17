"""The commands of a page of documentation, typed as they stand by somebody who has nothing but the page.

A block that is meant to be run follows a line ``<!-- run: NAME -->``. One that is named ``daemon`` stays running behind
those that follow. A block behind ``<!-- shows -->`` holds lines that the run block before it prints, in their order; ``…``
stands for anything within a line.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(
    r"^<!-- (?:run: (?P<name>[a-z-]+)|(?P<shows>shows)) -->\n+```[a-z]*\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
DAEMON = "daemon"


@dataclass
class Block:
    """Commands, and lines that they print."""

    name: str
    commands: str
    shows: tuple[str, ...] = ()


def blocks_of(page: Path) -> list[Block]:
    """The command blocks of a page that are meant to be run, in order."""
    found: list[Block] = []
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if match["shows"]:
            found[-1].shows = tuple(match["text"].splitlines())
        else:
            found.append(Block(match["name"], match["text"]))
    return found


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

    def follows(self, page: Path) -> dict[str, str]:
        """Type everything of a page that is meant to be run, and compare what comes with what the page shows.

        :return: what each block printed.
        """
        printed: dict[str, str] = {}
        with ExitStack() as running:
            for block in blocks_of(page):
                assert block.name not in printed, f"{page.name} has two blocks named {block.name}"
                if block.name == DAEMON:
                    running.enter_context(self.leaves_running(block.commands.strip()))
                    printed[block.name] = ""
                    continue
                printed[block.name] = self.types(block.commands)
                missing = not_printed(block.shows, printed[block.name])
                assert missing is None, f"{page.name}, {block.name}: no {missing!r} in\n{printed[block.name]}"
        return printed


def not_printed(shown: tuple[str, ...], printed: str) -> str | None:
    """The first line of the page that the output does not have behind the ones before it, or None."""
    left = iter(printed.splitlines())
    for line in shown:
        pattern = re.compile(".*".join(re.escape(part) for part in line.rstrip().split("…")))
        if not any(pattern.fullmatch(candidate.rstrip()) for candidate in left):
            return line
    return None


def accepts(endpoint: Path) -> bool:
    """Whether somebody listens on the socket."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(endpoint))
        except OSError:
            return False
    return True
