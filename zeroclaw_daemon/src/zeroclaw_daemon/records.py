"""Log records of the daemon: an ordinary logger, with what happened as data beside the words."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, cast

from zeroclaw_host.errors import Remedy

ATTRIBUTE: Final = "zeroclaw"
"""The attribute of a ``LogRecord`` under which its facts are: ``category``, ``action`` and whatever else is known."""


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


class Ration:
    """How many records of one kind one connection may cause. A client must not fill the log, and push out what others did.

    :param limit: how many.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit

    def spend(self, message: str) -> str | None:
        """The message of the next record; the last one says so. None where there is to be no further one."""
        if self._left == 0:
            return None
        self._left -= 1
        return message if self._left else f"{message}; further ones of this connection are not recorded"


def remedies_of(facts: Mapping[str, object]) -> tuple[Remedy, ...]:
    """What the facts of a record say that can be done, in its order."""
    several = facts.get("remedies")
    given = cast("Sequence[object]", several) if isinstance(several, tuple | list) else (facts.get("remedy"),)
    return tuple(each for each in given if isinstance(each, Remedy))
