"""Measuring several subjects alternately, so that a machine that slows down slows all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Measurement:
    """Medians in milliseconds by subject. The first subject is this product, the second what it is compared with."""

    title: str
    milliseconds: Mapping[str, float]
    goal: str
    met: bool
    notes: tuple[str, ...] = field(default=())

    @property
    def ratio(self) -> float | None:
        """The first subject's time over the second's, where there are two."""
        values = list(self.milliseconds.values())
        return values[0] / values[1] if len(values) > 1 else None

    def rows(self) -> list[str]:
        """The measurement as lines of text."""
        lines = [self.title]
        lines += [f"    {name:<44} {value:9.3f} ms" for name, value in self.milliseconds.items()]
        verdict = "met" if self.met else "MISSED"
        ratio = "" if self.ratio is None else f"ratio {self.ratio:.2f}, "
        lines.append(f"    {ratio}goal {self.goal}: {verdict}")
        lines += [f"    {note}" for note in self.notes]
        return lines


def alternate(
    subjects: Mapping[str, Callable[[], object]], *, rounds: int, warmup: int = 3
) -> dict[str, float]:
    """The median milliseconds of each subject over interleaved rounds."""
    times: dict[str, list[int]] = {name: [] for name in subjects}
    for turn in range(rounds + warmup):
        for name, subject in subjects.items():
            started = time.perf_counter_ns()
            subject()
            elapsed = time.perf_counter_ns() - started
            if turn >= warmup:
                times[name].append(elapsed)
    return {name: statistics.median(found) / 1e6 for name, found in times.items()}


def once(subject: Callable[[], object]) -> float:
    """The milliseconds of one run."""
    started = time.perf_counter_ns()
    subject()
    return (time.perf_counter_ns() - started) / 1e6
