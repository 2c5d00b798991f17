"""What compiling may use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

ORDINARY_BYTES: Final = 16 * 1024**2
"""Size up to which a source is compiled within the limits as they are set. A larger one gets more.

Measured on two cores, in processor time and memory: 6 MiB of code with nothing else in the component, 14 s and 360 MiB;
30 MiB, 88 s and 1350 MiB; 60 MiB, nearly the most that a component can have, 159 s and 2430 MiB, and what comes out has 228
MiB. 63 MiB of data, half a second and 290 MiB. A Python plugin of 18 MiB, most of it data, 16 s and 450 MiB.
"""

MEMORY_PER_BYTE: Final = 48
"""Memory for each byte above :data:`ORDINARY_BYTES`. It was 39 when all of them were code."""

BACKGROUND_PATIENCE: Final = 10
"""How many times longer a compilation may take that leaves the processor to everybody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileLimits:
    """What one compilation may use, of sources of up to :data:`ORDINARY_BYTES`."""

    memory_bytes: int = 2 * 1024**3
    """Address space of the process that compiles."""
    seconds: float = 120.0
    """Three times what 16 MiB of code take one processor."""
    artifact_bytes: int = 1024**3
    """Size of what it may write."""
    loaded_bytes: int = 32 * 1024**2
    """Memory for what a loaded component is besides its code: its structure, which instances are made from. A Python
    plugin takes one mebibyte; a component of a thousand bytes that nests instances takes gigabytes."""

    def of(self, size: int, *, background: bool = False) -> CompileLimits:
        """The limits of sources of so many bytes together: with more memory and time for more of them, and with more
        time in the background."""
        patience = BACKGROUND_PATIENCE if background else 1
        return replace(
            self,
            memory_bytes=self.memory_bytes + MEMORY_PER_BYTE * max(0, size - ORDINARY_BYTES),
            seconds=self.seconds * max(1.0, size / ORDINARY_BYTES) * patience,
        )
