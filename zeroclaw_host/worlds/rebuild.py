"""How often a plugin that keeps failing may have a new instance (PLG-110, D-11).

A pure value: it knows moments that it is told, and no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WINDOW_SECONDS: Final = 60.0
"""The time over which rebuilds are counted, and for which an instance has to live before its past is forgiven. It is the
longest wait, too: a plugin that fails at every call is tried once in this time, so that it comes back by itself."""

FREE_REBUILDS: Final = 3
"""Rebuilds in a window that wait for nothing: a chance failure, and a second one on top, cost no message its time."""

FIRST_WAIT_SECONDS: Final = 1.0
"""The first wait. Each further one is twice as long, up to the window."""


@dataclass(frozen=True, slots=True)
class RebuildPace:
    """What the past of one plugin says about its next rebuild. Moments are seconds of one clock."""

    recent: tuple[float, ...] = ()
    """When it was rebuilt, the last time at the end; moments that no longer count are left out by the next rebuild."""
    wait: float = 0.0
    """The seconds of the last wait, since the plugin was last forgiven."""

    def earliest(self, now: float) -> float:
        """The moment before which there is no rebuild; ``now`` or an earlier one when there may be one at once."""
        return self.recent[-1] + self._next_wait(now) if self.recent else now

    def rebuilt(self, now: float) -> RebuildPace:
        """The pace after a rebuild was begun, whether it will succeed or not."""
        return RebuildPace((*self._counted(now), now), self._next_wait(now))

    def lost(self, now: float) -> RebuildPace:
        """The pace after an instance failed, or could not even be made."""
        lived = bool(self.recent) and now - self.recent[-1] >= WINDOW_SECONDS
        return RebuildPace() if lived else self

    def _next_wait(self, now: float) -> float:
        if self.wait:
            return min(self.wait * 2, WINDOW_SECONDS)
        return FIRST_WAIT_SECONDS if len(self._counted(now)) >= FREE_REBUILDS else 0.0

    def _counted(self, now: float) -> tuple[float, ...]:
        return tuple(moment for moment in self.recent if now - moment < WINDOW_SECONDS)
