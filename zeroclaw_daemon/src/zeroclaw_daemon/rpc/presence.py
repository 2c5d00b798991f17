"""How many clients there are, as something to wait for: what ``--ephemeral`` ends by (RPC-217…222, RPC-262).

Whoever is present is counted by events and never looked up from time to time, so that no client is too quick to be seen.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import anyio

from zeroclaw_daemon.clock import Clock
from zeroclaw_daemon.records import record

GRACE_SECONDS: Final = 1.0
"""How long an ephemeral daemon waits for another client after its last one (RPC-217)."""

logger = logging.getLogger(__name__)


class Presence:
    """Everybody the daemon serves now: connections that were accepted, and turns that have not ended."""

    def __init__(self) -> None:
        self._count = 0
        self._arrivals = 0
        self._changed = anyio.Event()

    @property
    def count(self) -> int:
        """How many are present."""
        return self._count

    @property
    def arrivals(self) -> int:
        """How many have come since the beginning."""
        return self._arrivals

    @contextmanager
    def counted(self) -> Generator[None]:
        """Be present while the block runs."""
        self._count += 1
        self._arrivals += 1
        self._stir()
        try:
            yield
        finally:
            self._count -= 1
            self._stir()

    async def deserted(self, clock: Clock, *, grace_seconds: float = GRACE_SECONDS) -> None:
        """Wait until somebody has been there, everybody has left, and nobody came for the whole of the grace period."""
        while True:
            while self._count or not self._arrivals:
                await self._changed.wait()
            arrivals = self._arrivals
            record(
                logger, logging.INFO, "nobody is connected; without another client the daemon ends soon",
                action="grace_started", category="daemon", grace_seconds=grace_seconds,
            )  # fmt: skip
            with clock.move_on_after(grace_seconds):
                while self._arrivals == arrivals:
                    await self._changed.wait()
            # Time and a client may have come together: the client counts.
            if self._arrivals == arrivals:
                return

    def _stir(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
