"""Stories that are told to a store of sessions: operations, each with the write that it is announced as. Listened to, or told by
a process that is killed at every write.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from zeroclaw_daemon.sessions.store.points import Phase, StoreSteps, WritePoint

Story: TypeAlias = Sequence[tuple[WritePoint, Callable[[Any], object]]]

BOUND = 240
"""Seconds after which a process that hangs is given up."""


class Heard(StoreSteps):
    """What a store announces."""

    def __init__(self) -> None:
        self.writes: list[tuple[WritePoint, Phase]] = []

    def reached(self, point: WritePoint, phase: Phase) -> None:
        self.writes.append((point, phase))


class Fatal(StoreSteps):
    """Ends the process at one write of a story, as a power cut does: without a word."""

    def __init__(self, story: Story, number: int, phase: Phase) -> None:
        self.story, self.number, self.phase, self.now = story, number, phase, -1

    def reached(self, point: WritePoint, phase: Phase) -> None:
        if phase is Phase.BEGUN:
            self.now += 1
            assert point is self.story[self.now][0], (point, self.now)
        if self.now == self.number and phase is self.phase:
            os.kill(os.getpid(), signal.SIGKILL)


def kill_everywhere(root: Path, story: Story, tell: Callable[[Path, StoreSteps], object]) -> None:
    """Leave a directory ``NUMBER-PHASE`` for each write and phase of a story, as a process leaves it that is killed there."""
    for number in range(len(story)):
        for phase in Phase:
            child = os.fork()
            if child == 0:
                tell(root / f"{number}-{phase.value}", Fatal(story, number, phase))
                os._exit(1)
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status), (number, phase, status)
            assert os.WTERMSIG(status) == signal.SIGKILL


def left_by(program: str, root: Path) -> Path:
    """The directory, after a program that kills its children everywhere has run in it."""
    done = subprocess.run(
        [sys.executable, program, str(root)], capture_output=True, timeout=BOUND, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return root
