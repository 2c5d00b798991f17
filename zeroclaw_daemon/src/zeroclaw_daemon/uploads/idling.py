"""What uploads hold that nobody goes on with is given back when their time is up, whether or not anybody asks."""

from __future__ import annotations

from typing import Any

from zeroclaw_daemon.clock import Clock
from zeroclaw_daemon.uploads.staging import Staging


class IdleUploads:
    """Discards uploads that were idle for too long (RPC-194). Without one they would stay in memory until another begins."""

    def __init__(self, staging: Staging[Any], clock: Clock) -> None:
        self._staging = staging
        self._clock = clock

    async def run(self) -> None:
        """Wait for the next one, for ever."""
        while True:
            await self._clock.sleep(await self._staging.until_idle())
            self._staging.reclaim()
