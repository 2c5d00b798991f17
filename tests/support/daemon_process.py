"""A daemon as a process of its own."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = str(Path(sys.executable).with_name("zeroclaw"))
KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH")
"""What of this environment a daemon needs to be the one that is tested."""
START_SECONDS = 60.0
"""Far above what a start takes, so that only a daemon that hangs fails by it."""


@dataclass
class RunningDaemon:
    """A daemon that has said it is ready."""

    process: subprocess.Popen[str]
    ready: str

    @property
    def pid(self) -> int:
        return self.process.pid

    def ask(self, endpoint: Path, *requests: str) -> list[dict[str, Any]]:
        """Send lines, say that no more will come, and read every answer."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(START_SECONDS)
            client.connect(str(endpoint))
            client.sendall("".join(f"{request}\n" for request in requests).encode())
            client.shutdown(socket.SHUT_WR)
            with client.makefile("rb") as answers:
                return [json.loads(line) for line in answers]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """End it with a signal; its exit status and what it still said."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=START_SECONDS)
        return self.process.returncode, self.ready + err


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment in which nothing of this machine's own is set."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    kept["PATH"] = os.pathsep.join((str(Path(PROGRAM).parent), kept["PATH"]))
    return {**kept, "HOME": str(home), **(extra or {})}


def spawn(
    *options: str, env: Mapping[str, str], cwd: Path, arguments: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Start a daemon and do not wait for it; ``arguments`` stand behind the name of the command."""
    return subprocess.Popen(
        [PROGRAM, *options, "daemon", *arguments],
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


def ready(process: subprocess.Popen[str]) -> RunningDaemon:
    """The daemon, once it has said that it serves."""
    assert process.stderr is not None
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stderr, selectors.EVENT_READ)
        while b" serves " not in said or not said.endswith(b"\n"):
            assert selector.select(START_SECONDS), f"the daemon is not ready: {said.decode()}"
            piece = os.read(process.stderr.fileno(), 65_536)
            assert piece, f"the daemon ended with status {process.wait()}: {said.decode()}"
            said += piece
    return RunningDaemon(process, said.decode())


def end(process: subprocess.Popen[str]) -> None:
    """Make sure that it is gone."""
    if process.poll() is None:
        process.kill()
    process.communicate()
