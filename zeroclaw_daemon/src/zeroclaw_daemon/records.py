"""Log records of the daemon: an ordinary logger, with what happened as data beside the words."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from zeroclaw_host.errors import Remedy

ATTRIBUTE: Final = "zeroclaw"
"""The attribute of a ``LogRecord`` under which its facts are: ``category``, ``action`` and whatever else is known."""


STRANGERS_RECORDED: Final = 60
"""Records that all strangers of one way in may cause in :data:`STRANGERS_SECONDS`: some megabytes a day, beside which what others
did stays in the log.
"""
STRANGERS_SECONDS: Final = 600.0


def record(
    logger: logging.Logger,
    level: int,
    message: str,
    *,
    action: str,
    category: str = "rpc",
    **facts: object,
) -> None:
    """Write one record. Neither the message nor a fact may hold a secret or the content of a frame (RPC-119).

    What can be done is the fact ``remedy``, or ``remedies`` where it is several things.
    """
    logger.log(level, message, extra={ATTRIBUTE: {"category": category, "action": action, **facts}})


class Pace:
    """How many records strangers may cause, all of them together: of somebody who may come as often as it likes, a bound for each
    time is none.

    :param now: seconds that only move forward.
    :param limit: how many in one period.
    :param seconds: how long a period is.
    """

    def __init__(
        self, now: Callable[[], float], *, limit: int = STRANGERS_RECORDED, seconds: float = STRANGERS_SECONDS
    ) -> None:
        self._now = now
        self._limit = limit
        self._seconds = seconds
        self._left = limit
        self._until: float | None = None

    def spend(self, message: str) -> str | None:
        """The message of the next record; the last one of a period says so. None where there is to be none for now."""
        now = self._now()
        if self._until is None or now >= self._until:
            self._left, self._until = self._limit, now + self._seconds
        if self._left == 0:
            return None
        self._left -= 1
        return message if self._left else f"{message}; what strangers do is not recorded for some minutes"


class Ration:
    """How many records of one kind one connection may cause. A client must not fill the log, and push out what others did.

    :param limit: how many.
    :param pace: what they count against besides; None while there is no such thing.
    """

    def __init__(self, limit: int, pace: Callable[[], Pace | None] = lambda: None) -> None:
        self._left = limit
        self._pace = pace

    def spend(self, message: str) -> str | None:
        """The message of the next record; the last one says so. None where there is to be no further one."""
        if self._left == 0:
            return None
        pace = self._pace()
        if pace is not None:
            paced = pace.spend(message)
            if paced is None:
                return None
            message = paced
        self._left -= 1
        return message if self._left else f"{message}; further ones of this connection are not recorded"


def remedies_of(facts: Mapping[str, object]) -> tuple[Remedy, ...]:
    """What the facts of a record say that can be done, in its order."""
    several = facts.get("remedies")
    given = cast("Sequence[object]", several) if isinstance(several, tuple | list) else (facts.get("remedy"),)
    return tuple(each for each in given if isinstance(each, Remedy))
