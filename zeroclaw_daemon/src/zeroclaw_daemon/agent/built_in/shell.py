"""One shell command as a group of processes that ends as a whole, whatever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from zeroclaw_daemon.clock import Clock
from zeroclaw_host.errors import Kind, ZeroclawError

MAX_OUTPUT_BYTES: Final = 32 * 1024
"""Bytes of output that are kept: the first and the last half of them."""
_READ_BYTES: Final = 64 * 1024
_PIPE_BYTES: Final = 1024 * 1024
"""What a pipe holds at most, unless an administrator raised the system's own bound."""
_REAP_SECONDS: Final = 5.0
"""For a killed shell to be gone."""
_SHELL: Final = "bash"


class ShellUnavailable(ZeroclawError):
    """No command could be started."""

    code = "shell_unavailable"
    kind = Kind.UNAVAILABLE


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that is over. ``status`` is its exit status, negative for a signal, None where its time was up."""

    output: str
    status: int | None


class BoundedOutput:
    """The beginning and the end of what is printed, and how much is left out between them.

    :param limit: bytes that are kept.
    """

    def __init__(self, limit: int = MAX_OUTPUT_BYTES) -> None:
        self._head_room = limit // 2
        self._tail_room = limit - self._head_room
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def add(self, data: bytes) -> None:
        """Some more of it."""
        room = self._head_room - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        over = len(self._tail) - self._tail_room
        if over > 0:
            del self._tail[:over]
            self._left_out += over

    def text(self) -> str:
        """What was kept; bytes that are no UTF-8 are replaced."""
        if not self._left_out:
            return (self._head + self._tail).decode(errors="replace")
        gap = f"\n…[{self._left_out} bytes left out]…\n"
        return self._head.decode(errors="replace") + gap + self._tail.decode(errors="replace")


async def run(
    command: str, *, directory: str, environment: Mapping[str, str], seconds: float, clock: Clock
) -> Ended:
    """Run a command to its end, or to the end of its time. However this ends, cancelled too, none of the command's processes
    is left but one that made itself a session of its own.

    :raises ShellUnavailable: it could not be started.
    """
    # On a thread, because it waits for a file system. Who is cancelled meanwhile gets the shell all the same, and ends it.
    shell = await anyio.to_thread.run_sync(partial(_start, command, directory, environment))
    output = BoundedOutput()
    async with _ended(shell):
        with clock.move_on_after(seconds) as time:
            await _collect(shell, output)
        in_time = not time.cancelled_caught
    return Ended(output.text(), shell.process.returncode if in_time else None)


@dataclass(frozen=True, slots=True)
class _Shell:
    """A shell that leads a group of its own. ``exited`` is a descriptor that can be read once it has exited, ``pipe`` the one
    that it prints to.

    It is not reaped before its group is ended: until then its number, which is its group's, belongs to nobody else.
    """

    process: subprocess.Popen[bytes]
    exited: int
    pipe: int

    def kill(self) -> None:
        """End the whole group."""
        _kill(self.process)

    def close(self) -> None:
        """Reap it, if it has exited, and close what is open."""
        self.process.poll()
        os.close(self.pipe)
        os.close(self.exited)


def _start(command: str, directory: str, environment: Mapping[str, str]) -> _Shell:
    if not hasattr(os, "pidfd_open"):
        raise ShellUnavailable("commands can be run on Linux alone")
    try:
        pipe, printed = os.pipe()
        with ExitStack() as undo:
            undo.callback(os.close, pipe)
            try:
                process = subprocess.Popen(
                    [_SHELL, "-c", "--", command],
                    cwd=directory,
                    env=dict(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=printed,
                    start_new_session=True,
                )
            finally:
                os.close(printed)
            undo.callback(process.wait)
            undo.callback(_kill, process)
            shell = _Shell(process, os.pidfd_open(process.pid), pipe)
            os.set_blocking(pipe, False)
            undo.pop_all()
            return shell
    except (OSError, ValueError) as error:
        # A directory that is gone, no shell, no descriptor left, an argument with a null character. The command itself is not
        # repeated.
        why = (error.strerror if isinstance(error, OSError) else None) or "the command cannot be passed on"
        raise ShellUnavailable(f"the shell cannot be started: {why}") from error


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


@asynccontextmanager
async def _ended(shell: _Shell) -> AsyncGenerator[None]:
    """After the block, the whole group of the shell is ended and nothing is open."""
    try:
        yield
    finally:
        shell.kill()
        # One that hangs in the kernel cannot be waited for; it is reaped when a later command starts.
        with anyio.move_on_after(_REAP_SECONDS, shield=True):
            await anyio.wait_readable(shell.exited)
        shell.close()


async def _collect(shell: _Shell, output: BoundedOutput) -> None:
    """Take what is printed until the shell has exited. What others of its group still print then is not waited for."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_pump, shell.pipe, output)
        await anyio.wait_readable(shell.exited)
        tasks.cancel_scope.cancel()
    _drain(shell.pipe, output)


async def _pump(pipe: int, output: BoundedOutput) -> None:
    while True:
        await anyio.wait_readable(pipe)
        data = os.read(pipe, _READ_BYTES)
        if not data:
            return
        output.add(data)


def _drain(pipe: int, output: BoundedOutput) -> None:
    """What lies in the pipe now: at most what a pipe holds, so that a process which goes on printing keeps nobody."""
    left = _PIPE_BYTES
    while left > 0:
        try:
            data = os.read(pipe, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            return
        output.add(data)
        left -= len(data)
