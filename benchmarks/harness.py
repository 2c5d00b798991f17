"""Measuring several subjects alternately, so that a machine that slows down slows all of them."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol


class Result(Protocol):
    """What a measurement yields."""

    def rows(self) -> list[str]:
        """The result as lines of text."""
        ...


@dataclass(frozen=True)
class Measurement:
    """Medians by subject. The first subject is this product, the second what it is compared with.

    :param values: the medians, in ``unit``.
    :param goal: what is aimed at, as a person reads it; None for what is only measured.
    :param met: whether the goal is met.
    :param compared: whether the first two are to be compared; otherwise they are figures of one subject.
    """

    title: str
    values: Mapping[str, float]
    goal: str | None = None
    met: bool = True
    unit: str = "ms"
    compared: bool = True
    notes: tuple[str, ...] = field(default=())

    @property
    def ratio(self) -> float | None:
        """The first subject's value over the second's, where there are two to compare."""
        values = list(self.values.values())
        return values[0] / values[1] if self.compared and len(values) > 1 else None

    def rows(self) -> list[str]:
        """See :meth:`Result.rows`."""
        lines = [self.title]
        lines += [f"    {name:<48} {value:9.3f} {self.unit}" for name, value in self.values.items()]
        verdict = [] if self.ratio is None else [f"ratio {self.ratio:.2f}"]
        if self.goal is not None:
            verdict.append(f"goal {self.goal}: {'met' if self.met else 'MISSED'}")
        lines += [f"    {', '.join(verdict)}"] if verdict else []
        lines += [f"    {note}" for note in self.notes]
        return lines


@dataclass(frozen=True)
class Table:
    """Several figures of several subjects.

    :param columns: the heads, the first of which names the subjects.
    :param lines: one a subject, with as many cells as there are heads.
    """

    title: str
    columns: Sequence[str]
    lines: Sequence[Sequence[str]]
    notes: tuple[str, ...] = field(default=())

    def rows(self) -> list[str]:
        """See :meth:`Result.rows`."""
        cells = [self.columns, *self.lines]
        widths = [max(len(line[column]) for line in cells) for column in range(len(self.columns))]
        table = [
            "  ".join(
                [line[0].ljust(widths[0])]
                + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
            )
            for line in cells
        ]
        return [self.title, *(f"    {line}" for line in table), *(f"    {note}" for note in self.notes)]


def alternate(
    subjects: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    warmup: int = 3,
    series: int = 1,
    pause: float = 0.0,
) -> dict[str, float]:
    """The median milliseconds of each subject over interleaved rounds.

    :param series: how often a subject is called in a row in each round, for subjects that do better when they are.
    :param pause: seconds between two calls, for what depends on how long ago the last one was.
    """
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for turn in range(rounds + warmup):
        for name, subject in subjects.items():
            for _ in range(series):
                elapsed = once(subject)
                if turn >= warmup:
                    times[name].append(elapsed)
                if pause:
                    time.sleep(pause)
    return {name: statistics.median(found) for name, found in times.items()}


def once(subject: Callable[[], object]) -> float:
    """The milliseconds of one run."""
    started = time.perf_counter_ns()
    subject()
    return (time.perf_counter_ns() - started) / 1e6


@contextmanager
def busy_thread() -> Generator[None]:
    """A thread beside the block that computes in Python without a pause."""
    stop = threading.Event()

    def spin() -> None:
        total = 0
        while not stop.is_set():
            for number in range(1000):
                total += number * number

    thread = threading.Thread(target=spin, name="busy")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
