"""When a question that a server could not answer is asked again."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, slots=True)
class RetryRule:
    """How often, and after how long. Seconds, all of them.

    :param questions: how often one question is asked at most.
    :param first: the wait after the first failure. It doubles with each further one.
    :param longest: no wait of our own is longer.
    :param patience: a server that wants to be left alone for longer than this has failed.
    """

    questions: int = 4
    first: float = 1.0
    longest: float = 30.0
    patience: float = 60.0

    def wait(self, failures: int, after: float | None, chance: float) -> float | None:
        """Seconds to wait after this many failures, or None if that was all.

        :param after: what the server asks for. It is never asked earlier.
        :param chance: a random number from 0 to 1, so that many who failed together do not come back together.
        """
        if failures >= self.questions:
            return None
        if after is None:
            return min(self.longest, self.first * 2.0 ** (failures - 1)) * (1 + chance) / 2
        return None if after > self.patience else after + chance * self.first


def retry_after(text: str | None, now: float) -> float | None:
    """The seconds that a ``Retry-After`` asks for, given as such or as a date; None where it says nothing usable.

    :param now: seconds since 1970.
    """
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text)  # infinity, where no number holds it
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None
