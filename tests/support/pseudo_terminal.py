"""A command on a terminal of its own, and a person who reads what it shows and types."""

from __future__ import annotations

import os
import pty
import re
import selectors
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

PATIENCE: Final = 60.0
"""Seconds after which a command that shows nothing has failed a test. No test waits this long otherwise."""

_SEQUENCE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x01\x02]")


class PseudoTerminal:
    """Runs a command in the foreground of a new terminal, so that Ctrl-C reaches it as it does from a keyboard."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> None:
        self._controller, terminal = pty.openpty()
        self._shown = b""
        self._seen = 0
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *command],
            env={"TERM": "xterm-256color", "COLUMNS": "100", **env},
            cwd=cwd,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        )
        os.close(terminal)

    def __enter__(self) -> PseudoTerminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._controller)

    @property
    def raw(self) -> str:
        """Everything that was shown, with the sequences that drive a terminal."""
        return self._shown.decode(errors="replace")

    @property
    def text(self) -> str:
        """Everything that was shown, as it reads."""
        return _SEQUENCE.sub("", self.raw).replace("\r\n", "\n").replace("\r", "")

    def expect(self, wanted: str) -> str:
        """Read until this is shown, behind what was expected before; what was shown up to and with it."""
        while (at := self.text.find(wanted, self._seen)) < 0:
            assert self._read(), f"{wanted!r} was not shown before the end; all that was is\n{self.text}"
        before, self._seen = self._seen, at + len(wanted)
        return self.text[before : self._seen]

    def type(self, text: str) -> None:
        """Type something; ``\\x03`` is Ctrl-C, ``\\x04`` Ctrl-D."""
        os.write(self._controller, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C once the command waits. Where it is about to, Python forgets a press until there is other input."""
        while Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            os.sched_yield()
        self.type("\x03")

    def enter(self, line: str) -> None:
        """Type a line."""
        self.type(f"{line}\n")

    def ends(self) -> int:
        """Read to the end; the exit status."""
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._controller, selectors.EVENT_READ)
            assert selector.select(PATIENCE), f"nothing more is shown; all that was is\n{self.text}"
        try:
            piece = os.read(self._controller, 65_536)
        except OSError:  # Linux says so when the last process has left the terminal
            return False
        self._shown += piece
        return bool(piece)
