"""Commands of a shell: what is kept of their output, and that nothing of them is left."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import runs

from zeroclaw_daemon.agent.built_in.bash import Bash, inherited
from zeroclaw_daemon.agent.built_in.shell import BoundedOutput, Ended, ShellUnavailable, run
from zeroclaw_daemon.agent.surroundings import Surroundings, TurnSite
from zeroclaw_daemon.clock import ManualClock, SystemClock

pytestmark = pytest.mark.anyio

PATIENCE = 60
ENVIRONMENT = {"PATH": os.environ["PATH"]}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def shell(command: str, directory: Path, **parts: Any) -> Ended:
    parts = {"environment": ENVIRONMENT, "seconds": 60, "clock": ManualClock(), **parts}
    with anyio.fail_after(PATIENCE):
        return await run(command, directory=str(directory), **parts)


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something outside of this process."""
    with anyio.fail_after(PATIENCE):
        while not holds():
            await anyio.lowlevel.checkpoint()


def entries(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@given(pieces=st.lists(st.binary(max_size=30)), limit=st.integers(2, 40))
def test_the_beginning_and_the_end_of_output_are_kept(pieces: list[bytes], limit: int) -> None:
    output = BoundedOutput(limit)
    for piece in pieces:
        output.add(piece)
    whole = b"".join(pieces)
    if len(whole) <= limit:
        assert output.text() == whole.decode(errors="replace")
    else:
        head, tail = whole[: limit // 2], whole[-(limit - limit // 2) :]
        gap = f"\n…[{len(whole) - limit} bytes left out]…\n"
        assert output.text() == head.decode(errors="replace") + gap + tail.decode(errors="replace")


async def test_a_command_runs_in_its_directory_and_both_outputs_are_read(tmp_path: Path) -> None:
    ended = await shell("pwd -L; echo two >&2; cat; exit 3", tmp_path)
    assert ended == Ended(f"{tmp_path}\ntwo\n", 3)
    assert await shell("kill -TERM $$", tmp_path) == Ended("", -15)


async def test_a_command_sees_the_environment_it_is_given_and_no_other(tmp_path: Path) -> None:
    ended = await shell("env", tmp_path, environment={"PATH": os.environ["PATH"], "TOKEN": "t1"})
    names = {line.partition("=")[0] for line in ended.output.splitlines()}
    assert "TOKEN=t1" in ended.output.splitlines()
    assert names <= {"PATH", "TOKEN", "PWD", "SHLVL", "_", "OLDPWD"}


def test_of_the_daemons_own_environment_commands_get_what_holds_no_secret() -> None:
    mixed = {
        "PATH": "/bin", "HOME": "/root", "LC_ALL": "C", "LANG": "C", "TZ": "UTC",
        "ZEROCLAW_providers__models__openai__a__api_key": "sk", "OPENAI_API_KEY": "sk", "LD_PRELOAD": "x", "LCX": "x",
    }  # fmt: skip
    assert inherited(mixed) == {"PATH": "/bin", "HOME": "/root", "LC_ALL": "C", "LANG": "C", "TZ": "UTC"}


async def test_more_output_than_is_kept_is_read_all_the_same(tmp_path: Path) -> None:
    ended = await shell("head -c 300000 /dev/zero | tr '\\0' x; echo end", tmp_path)
    assert ended.status == 0
    assert ended.output.endswith("xend\n")
    assert "bytes left out" in ended.output
    assert len(ended.output) < 33_000


async def test_what_is_left_in_the_background_ends_with_the_command(tmp_path: Path) -> None:
    before = open_files()
    ended = await shell("sleep 1000 & echo $!; (sleep 1000; true) & echo $!", tmp_path)
    children = [int(line) for line in ended.output.split()]
    assert len(children) == 2
    await until(lambda: not any(map(runs, children)))
    assert open_files() == before


@pytest.mark.parametrize(
    "command", ["sleep 1000", "trap '' TERM HUP INT; sleep 1000 & wait; sleep 1000", "yes"]
)
async def test_at_the_end_of_its_time_the_whole_group_is_ended(tmp_path: Path, command: str) -> None:
    clock = ManualClock()
    before = open_files()
    pids = tmp_path / "pids"
    found: list[Ended] = []

    async def work() -> None:
        found.append(
            await shell(
                f"sleep 1000 & echo $$ $! > new; mv new pids; {command}", tmp_path, seconds=5, clock=clock
            )
        )

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            await until(lambda: pids.exists() and clock.waits == 1)
            clock.advance(4.999)
            await anyio.lowlevel.checkpoint()
            assert not found
            clock.advance(0.001)
    assert found[0].status is None
    group = [int(pid) for pid in pids.read_text().split()]
    await until(lambda: not any(map(runs, group)))
    assert open_files() == before


async def test_a_cancelled_command_leaves_nothing(tmp_path: Path) -> None:
    before = open_files()
    pids = tmp_path / "pids"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: shell("sleep 1000 & echo $$ $! > new; mv new pids; wait", tmp_path))
        await until(pids.exists)
        tasks.cancel_scope.cancel()
    group = [int(pid) for pid in pids.read_text().split()]
    await until(lambda: not any(map(runs, group)))
    assert open_files() == before


async def test_a_command_that_is_cancelled_while_it_starts_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_files()
    started: list[int] = []
    with anyio.CancelScope() as scope:

        def begun(pid: int, flags: int = 0) -> int:
            anyio.from_thread.run_sync(scope.cancel)
            started.append(pid)
            return pidfd_open(pid, flags)

        pidfd_open = os.pidfd_open
        monkeypatch.setattr(os, "pidfd_open", begun)
        await shell("sleep 1000", tmp_path)
    assert scope.cancelled_caught
    await until(lambda: not runs(started[0]))
    assert open_files() == before


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("true", {"environment": {"PATH": "/nowhere"}}),
        ("true", {"environment": {"A": "\0"}}),
        ("tr\0ue", {}),
        ("\ud800", {}),
        ("x" * 3_000_000, {}),
    ],
)
async def test_what_cannot_be_started_says_why_and_leaves_nothing(
    tmp_path: Path, command: str, parts: dict[str, Any]
) -> None:
    before = open_files()
    with pytest.raises(ShellUnavailable) as raised:
        await shell(command, tmp_path, **parts)
    assert "the shell cannot be started: " in raised.value.message
    assert command not in raised.value.message
    assert open_files() == before


async def test_where_no_descriptor_is_left_the_command_that_was_begun_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_files()
    pids = tmp_path / "pids"

    def none_left(pid: int, flags: int = 0) -> int:
        while not pids.exists():
            time.sleep(0.001)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", none_left)
    with pytest.raises(ShellUnavailable, match="Too many open files"):
        await shell("sleep 1000 & echo $$ $! > new; mv new pids; wait", tmp_path)
    group = [int(pid) for pid in pids.read_text().split()]
    await until(lambda: not any(map(runs, group)))
    assert open_files() == before


async def test_where_the_system_cannot_tell_of_an_exit_nothing_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    with pytest.raises(ShellUnavailable, match="on Linux alone"):
        await shell("touch there", tmp_path)
    assert entries(tmp_path) == []


async def test_a_command_that_looks_like_an_option_is_a_command(tmp_path: Path) -> None:
    ended = await shell("-l", tmp_path)
    assert ended.status == 127
    assert "not found" in ended.output


async def test_a_directory_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(ShellUnavailable, match="directory cannot be entered: No such file"):
        await shell("true", tmp_path / "gone")


@pytest.mark.parametrize(
    ("command", "success", "output", "error"),
    [
        ("echo a", True, "a\n", None),
        ("echo a; exit 2", False, "a\n", "the command ended with status 2"),
        ("echo a; kill -KILL $$", False, "a\n", "the command was ended by signal 9"),
    ],
)
async def test_the_tool_says_how_a_command_ended(
    tmp_path: Path, command: str, success: bool, output: str, error: str | None
) -> None:
    around = Surroundings(workspace=str(tmp_path), clock=SystemClock())
    result = await Bash().execute({"command": command}, call_site=TurnSite({}, around))
    assert (result.success, result.output, result.error) == (success, output, error)


async def test_the_tool_says_when_its_time_was_up(tmp_path: Path) -> None:
    clock = ManualClock()
    around = Surroundings(workspace=str(tmp_path), clock=clock)
    results: list[Any] = []

    async def work() -> None:
        arguments = {"command": "echo a; touch there; sleep 1000", "timeout_secs": 7}
        results.append(await Bash().execute(arguments, call_site=TurnSite({}, around)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await until((tmp_path / "there").exists)
        await until(lambda: clock.waits == 1)
        clock.advance(7)
    assert results[0].error == "the command was ended after 7 seconds"
    assert not results[0].success


def test_surroundings_do_not_show_what_a_client_forwarded() -> None:
    around = Surroundings(environment={"TOKEN": "hidden"})
    assert "hidden" not in repr(around)
    assert "hidden" not in repr(TurnSite({}, around))


async def test_what_makes_itself_a_session_of_its_own_ends_with_the_command(tmp_path: Path) -> None:
    ended = await shell(
        "setsid sleep 1000 & (setsid sh -c 'echo $$ >> pids; sleep 1000 & echo $! >> pids; wait' &)"
        " ; echo $! >> pids; while test $(wc -l < pids) -lt 3; do :; done",
        tmp_path,
    )
    assert ended.status == 0
    children = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(children) == 3
    assert not any(map(runs, children))


@pytest.mark.parametrize(
    "command", ["kill -STOP $PPID", "kill -HUP $PPID; kill -INT $PPID; kill -TERM $PPID"]
)
async def test_a_command_that_holds_up_its_supervisor_ends_all_the_same(tmp_path: Path, command: str) -> None:
    pids = tmp_path / "pids"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(
            lambda: shell(f"{command}; sleep 1000 & echo $$ $! > new; mv new pids; wait", tmp_path)
        )
        await until(pids.exists)
        tasks.cancel_scope.cancel()
    assert not any(runs(int(pid)) for pid in pids.read_text().split())


async def test_a_pipe_that_nobody_reads_ends_who_writes_to_it_and_nothing_can_be_typed(
    tmp_path: Path,
) -> None:
    ended = await shell("yes | head -n 1; echo ${PIPESTATUS[0]}; readlink /proc/$$/fd/0", tmp_path)
    assert ended.output == "y\n141\n/dev/null\n"


RUNS_A_COMMAND = """
import os, sys
import anyio
from zeroclaw_daemon.agent.built_in.shell import run
from zeroclaw_daemon.clock import SystemClock
command = "sleep 1000 & echo $$ $! > new; setsid sleep 1000 & echo $! >> new; mv new pids; wait"
anyio.run(lambda: run(
    command, directory=sys.argv[1], environment={"PATH": os.environ["PATH"]}, seconds=1000, clock=SystemClock()
))
"""


async def test_the_commands_of_a_daemon_that_is_killed_end_with_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    daemon = await anyio.open_process(
        [sys.executable, "-c", RUNS_A_COMMAND, str(tmp_path)], stdin=None, stdout=None, stderr=None
    )
    try:
        await until(lambda: pids.exists() or daemon.returncode is not None)
        children = [int(line) for line in pids.read_text().split()]
        assert all(map(runs, children))
        assert len(children) == 3
    finally:
        daemon.kill()
        await daemon.wait()
    await until(lambda: not any(map(runs, children)))
