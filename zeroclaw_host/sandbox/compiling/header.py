"""What can be said of a component's bytes without compiling them."""

from __future__ import annotations

from typing import Final

from zeroclaw_host.errors import ComponentInvalid, Remedy, RemedyAction

MAX_COMPONENT_BYTES: Final = 64 * 1024 * 1024
"""The largest component this host takes."""

_MAGIC: Final = b"\0asm"
_CORE_VERSION: Final = b"\x01\0\0\0"
_COMPONENT_VERSION: Final = b"\x0d\0\x01\0"
_HEADER_BYTES: Final = 8

_MAX_SECTIONS_LOOKED_AT: Final = 10_000
"""A real component has some hundred. One made of millions of empty ones is left to the child, which is bounded."""


def check_header(component: bytes) -> None:
    """Refuse what cannot be a component, without compiling it.

    :raises ComponentInvalid: too large, no WebAssembly, a core module, or cut off.
    """
    if len(component) > MAX_COMPONENT_BYTES:
        raise ComponentInvalid(
            f"the component has {len(component)} bytes; at most {MAX_COMPONENT_BYTES} are allowed",
            details={"bytes": len(component), "maximum": MAX_COMPONENT_BYTES},
        )
    rebuild = Remedy(RemedyAction.REBUILD_PLUGIN)
    if component[:4] != _MAGIC[: len(component[:4])] or not component:
        raise ComponentInvalid("the file is no WebAssembly component", remedy=rebuild)
    version = component[4:_HEADER_BYTES]
    if version == _CORE_VERSION:
        raise ComponentInvalid("the file is a core WebAssembly module, not a component", remedy=rebuild)
    if len(version) == 4 and version != _COMPONENT_VERSION:
        raise ComponentInvalid("the file is a component of a version this host does not know", remedy=rebuild)
    if len(component) < _HEADER_BYTES or not _sections_are_whole(component):
        raise ComponentInvalid("the component is truncated", remedy=rebuild)


def _sections_are_whole(component: bytes) -> bool:
    """Whether the sections' announced sizes add up to the bytes there are. What is inside is the compiler's to judge."""
    position, end = _HEADER_BYTES, len(component)
    for _ in range(_MAX_SECTIONS_LOOKED_AT):
        if position >= end:
            break
        position += 1  # the section's kind
        size = shift = 0
        while True:
            if position >= end or shift > 28:
                return False
            byte = component[position]
            position += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        position += size
    else:
        return True
    return position == end
