"""Log records of the daemon: an ordinary logger, with what happened as data beside the words."""

from __future__ import annotations

import logging
from typing import Final

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
    """Write one record. Neither the message nor a fact may hold a secret or the content of a frame (RPC-119)."""
    logger.log(level, message, extra={ATTRIBUTE: {"category": category, "action": action, **facts}})
