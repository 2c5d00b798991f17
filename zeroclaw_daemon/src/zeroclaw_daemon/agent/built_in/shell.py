"""One shell command with everything that it starts, which ends as a whole, whatever ends it: the daemon's own end too."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
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
"""For everything that was killed to be gone."""
_SHELL: Final = "bash"
_SUPERVISED: Final = (
    sys.executable, "-I", "-S", "-X", "utf8", str(Path(__file__).with_name("supervisor.py"))
)  # fmt: skip
"""What runs :mod:`.supervisor`: nothing of the environment or of what is installed has a say in it."""


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
    """Run a command to its end, or to the end of its time. However this ends, cancelled or by the end of this process too, none of
    the command's processes is left. One that ends its supervisor or keeps it from hearing that it is to end, or that has other
    rights than this process, can be.

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
    """A shell under its supervisor, which is ``process`` and ends as the shell did. ``exited`` is a descriptor that can be read
    once all of it is over, ``pipe`` the one that it prints to, ``held`` the one by which the supervisor knows that it is wanted.
    """

    process: subprocess.Popen[bytes]
    exited: int
    pipe: int
    held: int

    def kill(self) -> None:
        """End all of it."""
        _let_go(self.process, self.held)

    def close(self) -> None:
        """Reap it, if it has exited, and close what is open."""
        self.process.poll()
        os.close(self.pipe)
        os.close(self.exited)


def _start(command: str, directory: str, environment: Mapping[str, str]) -> _Shell:
    if not hasattr(os, "pidfd_open"):
        raise ShellUnavailable("commands can be run on Linux alone")
    try:
        path = shutil.which(_SHELL, path=os.pathsep.join(os.get_exec_path(environment)))
        if path is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        with ExitStack() as undo, ExitStack() as theirs:
            pipe, printed = os.pipe()
            undo.callback(os.close, pipe)
            theirs.callback(os.close, printed)
            holds, held = os.pipe()
            theirs.callback(os.close, holds)
            letting_go = undo.enter_context(ExitStack())
            letting_go.callback(os.close, held)
            process = subprocess.Popen(
                [*_SUPERVISED, path, _SHELL, "-c", "--", command],
                cwd=directory,
                env=dict(environment),
                stdin=holds,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
            )
            letting_go.pop_all()
            undo.callback(process.wait)
            undo.callback(_let_go, process, held)
            shell = _Shell(process, os.pidfd_open(process.pid), pipe, held)
            os.set_blocking(pipe, False)
            undo.pop_all()
            return shell
    except (OSError, ValueError) as error:
        # A directory that is gone, no shell, no descriptor left, an argument with a null character. The command itself is not
        # repeated.
        why = (error.strerror if isinstance(error, OSError) else None) or "the command cannot be passed on"
        entered = not isinstance(error, OSError) or error.filename != directory
        what = "the shell cannot be started" if entered else "the working directory cannot be entered"
        raise ShellUnavailable(f"{what}: {why}") from error


def _let_go(supervisor: subprocess.Popen[bytes], held: int) -> None:
    """Have a supervisor end everything and exit. The command may have stopped it."""
    os.close(held)
    supervisor.send_signal(signal.SIGCONT)


@asynccontextmanager
async def _ended(shell: _Shell) -> AsyncGenerator[None]:
    """After the block, everything that the shell started is ended and nothing is open."""
    try:
        yield
    finally:
        shell.kill()
        # What hangs in the kernel cannot be waited for; the supervisor is reaped when a later command starts.
        with anyio.move_on_after(_REAP_SECONDS, shield=True):
            await anyio.wait_readable(shell.exited)
        shell.close()


async def _collect(shell: _Shell, output: BoundedOutput) -> None:
    """Take what is printed until the shell has exited and what it left is ended."""
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
