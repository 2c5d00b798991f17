"""The process between the daemon and a shell, as a program: ``supervisor.py PATH NAME ARGUMENT…``. It owns everything that the
shell starts, and ends it when the shell has exited, or when the daemon closes its end of standard input or is no more.

It uses the standard library alone, so that it starts quickly. It exits as the shell did: with its status, or by its signal.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

_SET_PARENT_DEATH_SIGNAL: Final = 1
_SET_CHILD_SUBREAPER: Final = 36
"""Numbers of ``prctl``, as Linux has them."""

_KEPT_FROM_US: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""Signals that are no reason for the supervisor to end. The shell gets them as it would without one."""
_OF_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores, and programs expect not to be ignored."""

_NOT_FOUND: Final = 127
"""The status of a shell for a command that cannot be run."""


def main(arguments: list[str]) -> NoReturn:
    """Run the shell until it has exited or the daemon lets go of it, and end what is left of it."""
    _control(_SET_CHILD_SUBREAPER, 1)
    for number in _KEPT_FROM_US:
        signal.signal(number, signal.SIG_IGN)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _woken)
    supervisor = os.getpid()
    shell = os.fork()
    if shell == 0:
        _become(arguments[0], arguments[1:], supervisor)
    status = _status_of(shell, woken)
    _end_descendants()
    _exit_as(status)


def _woken(number: int, frame: object) -> None:
    """A signal came: its number is in the pipe, and that is all there is to do."""


def _control(option: int, value: int) -> None:
    """:raises OSError: the system does not do this."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _become(path: str, arguments: list[str], supervisor: int) -> NoReturn:
    """Turn into the shell, with its own session and the environment that was meant for it: Python may have added to ours."""
    try:
        os.setsid()
        _control(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != supervisor:  # it was gone before
            os._exit(_NOT_FOUND)
        for number in (*_KEPT_FROM_US, *_OF_PYTHON):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        pairs = Path("/proc/self/environ").read_bytes().split(b"\0")
        environment = dict(pair.split(b"=", 1) for pair in pairs if b"=" in pair)
        os.execve(path, arguments, environment)
    except OSError as error:
        os.write(2, f"the shell cannot be started: {error}\n".encode(errors="replace"))
        os._exit(_NOT_FOUND)


def _status_of(shell: int, woken: int) -> int | None:
    """Wait for the shell to exit, as ``waitpid`` tells it; None if the daemon let go first. Orphans are reaped meanwhile."""
    events = select.poll()
    events.register(0, select.POLLIN)
    events.register(woken, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in events.poll()}
        if woken in ready:
            os.read(woken, 4096)
            for pid, status in _reaped():
                if pid == shell:
                    return status
        if 0 in ready:  # nothing is ever written there
            return None


def _reaped() -> list[tuple[int, int]]:
    """The children that have exited, with their statuses."""
    found: list[tuple[int, int]] = []
    with suppress(ChildProcessError):
        while (one := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(one)
    return found


def _end_descendants() -> None:
    """End everything below this process. Whose parent ends becomes a child of ours, so that it is all over once there is none."""
    while True:
        for pid in _descendants():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
        _reaped()


def _descendants() -> list[int]:
    """All processes below this one."""
    below: dict[int, list[int]] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                # The name of a program stands in brackets and may hold anything.
                parent = (process / "stat").read_bytes().rpartition(b")")[2].split()[1]
                below.setdefault(int(parent), []).append(int(process.name))
    found = list(below.get(os.getpid(), []))
    for pid in found:
        found += below.get(pid, [])
    return found


def _exit_as(status: int | None) -> NoReturn:
    """Exit with the status of the shell, or by the signal that ended it."""
    if status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # whatever there was to see was not here
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(0 if status is None else os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(sys.argv[1:])
