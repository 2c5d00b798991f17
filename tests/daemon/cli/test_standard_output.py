"""A standard output that nobody reads, or that cannot say everything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

PROGRAM = "zeroclaw"
SIGPIPE_STATUS = 141


def unread(home, *arguments: str) -> tuple[int, str]:
    """Run a command whose reader has already ended; its status and what it said beside."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [PROGRAM, *arguments],
            env=home.environment(),
            cwd=home.path,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(writing)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "words", [("config", "list"), ("config", "list", "--json"), ("plugin", "list", "--json")]
)
def test_a_command_whose_reader_went_away_ends_as_if_by_the_pipe_and_in_silence(home, words) -> None:
    assert unread(home, *words) == (SIGPIPE_STATUS, "")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_prompt_whose_reader_went_away_ends_as_if_by_the_pipe_and_in_silence(
    home, zeroclaw_process, start_daemon, options
) -> None:
    daemon = start_daemon()
    assert unread(home, "prompt", *options, "hello") == (SIGPIPE_STATUS, "")
    assert zeroclaw_process("prompt", "hello").out == "hello\n"
    assert zeroclaw_process("status", "--json").json["sessionIds"] == []
    assert daemon.stop()[0] == 0


def test_what_the_output_has_no_letters_for_is_written_as_an_escape(zeroclaw_process, start_daemon) -> None:
    start_daemon()
    done = zeroclaw_process("prompt", "Zoë ☃", env={"PYTHONIOENCODING": "ascii"})
    assert (done.status, done.out, done.err) == (0, "Zo\\xeb \\u2603\n", "")


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_standard_stream_is_nobody_who_reads(home, redirection: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec {PROGRAM} config list {redirection}"],
        env=home.environment(),
        cwd=home.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [("config list", ""), ("config list --json", "1"), ("--help", "1"), ("prompt hello", "1")],
)
def test_a_disk_that_is_full_is_told_in_a_line(home, start_daemon, words: str, unbuffered: str) -> None:
    if words.startswith("prompt"):
        start_daemon()
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [PROGRAM, *words.split()],
            env=home.environment({"PYTHONUNBUFFERED": unbuffered}),
            cwd=home.path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 7
    assert "standard output cannot be written: no space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
