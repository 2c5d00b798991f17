"""What compiling may use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

ORDINARY_BYTES: Final = 16 * 1024**2
"""Size up to which a source is compiled within the limits as they are set. A larger one gets more, in proportion."""

BACKGROUND_PATIENCE: Final = 10
"""How many times longer a compilation may take that leaves the processor to everybody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileLimits:
    """What one compilation may use."""

    memory_bytes: int = 2 * 1024**3
    """Address space of the process that compiles."""
    seconds: float = 120.0
    artifact_bytes: int = 1024**3
    """Size of what it may write."""
    loaded_bytes: int = 32 * 1024**2
    """Memory for what a loaded component is besides its code: its structure, which instances are made from. A Python
    plugin takes one mebibyte; a component of a thousand bytes that nests instances takes gigabytes."""

    def of(self, size: int, *, background: bool = False) -> CompileLimits:
        """The limits for sources of so many bytes together: more memory and time for many, more time in the background."""
        factor = max(1.0, size / ORDINARY_BYTES)
        return replace(
            self,
            memory_bytes=round(self.memory_bytes * factor),
            seconds=self.seconds * factor * (BACKGROUND_PATIENCE if background else 1),
        )
