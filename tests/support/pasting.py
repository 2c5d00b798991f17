"""Printed commands, pasted into real shells as a person does, and what the programs they name are given."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SHELLS: Final = {
    "sh": ("sh",),
    "dash": ("dash",),
    # With history expansion, as at a prompt: these two read `!` in what is pasted.
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config"),
}
"""The shells that read the POSIX form, and how each is started."""

SECONDS: Final = 120
"""Far above what pasting takes, so that only a shell that waits for the rest of a command fails by it."""

_PREFIX: Final = "recorded-"
_RECORDER: Final = """#!/bin/sh
printf '%s\\0' "$#" "${0##*/}" "$@" >> "$SEEN"
"""

HOSTILE: Final = (
    "",
    " ",
    "it's here",
    "'",
    "''",
    "\\",
    "a\\",
    "\\'",
    "'\\''",
    "\\n",
    "$(id).example.com",
    "`id`",
    "${HOME}",
    "!!",
    "!-1:p",
    "a;b&c|d>e<f",
    "a && exit 9",
    "*?[x]{a..b}~",
    "~",
    "~root",
    "=ls",
    "-rf",
    "--config-dir",
    "#no comment",
    "é ✓ 日本",
    '"quoted"',
    "%PATH%",
    "^x^y",
    "\u2018typographic\u2019 \u201cquotes\u201d",
)
"""What a path, a package or an alias may hold, and some shell would read."""

UNSHOWABLE: Final = (
    "two\nlines",
    "tab\there",
    "\r",
    "\x1b[2J",
    "\x7f",
    "\x9b",
    "\u202e",
    "\u2028",
    "\udcff",
    "\0",
)
"""What no line of a terminal shows as it is."""


@dataclass(frozen=True)
class Shell:
    """A real shell, and programs that record their arguments in place of those that commands name."""

    command: tuple[str, ...]
    directory: Path

    def paste(self, lines: Sequence[str]) -> list[list[str]]:
        """Run the lines in one shell; program and arguments of everything that ran, in order.

        The programs have other names meanwhile: some are words of the shells themselves, some a shell runs as it starts.
        """
        programs, seen, work = self.directory / "bin", self.directory / "seen", self.directory / "empty"
        for each in (programs, work):
            each.mkdir(exist_ok=True)
        for program in {line.split(" ", 1)[0] for line in lines}:
            recorder = programs / f"{_PREFIX}{program}"
            recorder.write_text(_RECORDER)
            recorder.chmod(0o700)
        seen.write_bytes(b"")
        text = "".join(f"{_PREFIX}{line}\n" for line in lines)
        environment = {
            "PATH": os.pathsep.join((str(programs), os.environ["PATH"])),
            "HOME": str(work),
            "LC_ALL": "C.UTF-8",
            "HISTFILE": os.devnull,
            "SEEN": str(seen),
        }
        subprocess.run(
            self.command,
            input=text.encode(),
            env=environment,
            cwd=work,
            capture_output=True,
            timeout=SECONDS,
            check=False,  # an interactive shell ends as its last line did
        )
        made = {path.name for path in work.iterdir()} - {".config", ".local", ".cache"}
        assert not made, f"a pasted line made files: {made}"
        return _read(seen.read_bytes())


def _read(recorded: bytes) -> list[list[str]]:
    fields = recorded.decode(errors="surrogateescape").split("\0")[:-1]
    found: list[list[str]] = []
    while fields:
        end = int(fields[0]) + 2
        found.append([fields[1].removeprefix(_PREFIX), *fields[2:end]])
        del fields[:end]
    return found
