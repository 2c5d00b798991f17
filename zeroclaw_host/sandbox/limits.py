"""The bounds every guest runs under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from zeroclaw_host.errors import Kind, MemoryLimit, ZeroclawError

MAX_TEXT_BYTES: Final = 16 * 1024 * 1024
"""UTF-8 bytes of one text that a guest can hand over. wasmtime alone would let 128 MiB pass, which Python turns into up to
512: more than the plugin itself may use."""

MAX_LIST_ELEMENTS: Final = 2_796_000
"""Elements of a list, bytes included, that a guest can hand over at once. wasmtime's own bound, measured; larger values
have to be cut into pieces."""

MAX_RANDOM_BYTES: Final = 64 * 1024 * 1024
"""Random bytes of one request; wasmtime's own bound."""

MAX_MEMORIES: Final = 4
"""Linear memories of one store. A Python guest has one, a JavaScript guest two."""

MAX_TABLES: Final = 64
"""Tables of one store. wasmtime bounds the elements of each alone."""


MOST: Final[Mapping[str, int]] = {
    "call_fuel": 2**63 - 1,
    "call_timeout_ms": 7 * 24 * 3600 * 1000,
    "max_memory_mb": 16 * 1024,
    "max_table_elements": 10_000_000,
    "max_instances": 100_000,
}
"""Beyond these a limit is none: the engine's own numbers wrap around, or mean "no limit"."""


class LimitInvalid(ZeroclawError):
    """A limit is not a positive whole number, or too large. ``details`` holds ``limit`` and then ``maximum``."""

    code = "limit_invalid"
    kind = Kind.INVALID


def text_too_long() -> MemoryLimit:
    """The error of a guest that hands over more than :data:`MAX_TEXT_BYTES` in one text."""
    return MemoryLimit(
        f"the plugin wants to hand over a longer text than allowed (text bytes is {MAX_TEXT_BYTES})",
        details={"limit": "text bytes", "maximum": MAX_TEXT_BYTES},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one plugin instance may use. A store cannot be built without these (PLG-020…023).

    All are at least one: zero would mean a plugin that can do nothing, and is taken for a mistake (PLG-021).

    :raises LimitInvalid: a value is zero, negative, no whole number, or so large that it limits nothing.
    """

    call_fuel: int = 1_000_000_000
    """Units of guest work in one call."""
    call_timeout_ms: int = 30_000
    """Wall-clock milliseconds of one call, host work included."""
    max_memory_mb: int = 256
    """Mebibytes of linear memory in all. A component of several memories gets equal shares of it."""
    max_table_elements: int = 100_000
    """Elements of one table."""
    max_instances: int = 64
    """Core instances in one store."""

    def __post_init__(self) -> None:
        for bound in fields(self):
            value: object = getattr(self, bound.name)
            most = MOST[bound.name]
            if type(value) is not int or value < 1:
                raise LimitInvalid(
                    f"{bound.name} must be a whole number of at least 1", details={"limit": bound.name}
                )
            if value > most:
                raise LimitInvalid(
                    f"{bound.name} must be at most {most}", details={"limit": bound.name, "maximum": most}
                )

    @property
    def max_memory_bytes(self) -> int:
        """The memory ceiling in bytes."""
        return self.max_memory_mb * 1024 * 1024

    @property
    def call_timeout_seconds(self) -> float:
        """The deadline of one call in seconds."""
        return self.call_timeout_ms / 1000
