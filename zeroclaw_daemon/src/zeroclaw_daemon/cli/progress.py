"""What a person sees while something takes long: on a terminal only, on standard error only."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Activity:
    """A line that moves while the block runs: a spinner, the time, and how far it is.

    :param what: what is being done, already fit to be shown.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Activity:
        if sys.stderr.isatty():
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            from zeroclaw_daemon.cli.output import console

            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                TimeElapsedColumn(),
                console=console(stderr=True),
                transient=True,
            )
            self._task = self._progress.add_task(self._what, total=None)
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def downloaded(self, done: int, total: int | None) -> None:
        """So many bytes have come, of so many."""
        size = f"{done / 1e6:.1f} MB" if total is None else f"{done / 1e6:.1f} of {total / 1e6:.1f} MB"
        self._say(f"{self._what}: downloaded {size}")

    def compiling(self, seconds: float) -> None:
        """A component is being compiled. The time is shown anyway."""
        del seconds
        self._say(f"{self._what}: compiling")

    def _say(self, text: str) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=text)
