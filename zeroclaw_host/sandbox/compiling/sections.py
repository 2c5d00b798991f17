"""Reading WebAssembly's binary format as far as telling one section from the next and naming what modules and types hold.

Made for bytes of anybody: a reader stays inside what it was given, and all readers of one component draw on one budget
of items, so no input keeps this process busy. What a reader does not know it does not guess at: it raises
:class:`Unreadable`, which says nothing about whether the component is valid. That is the compiler's to judge.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"\0asm"
CORE_HEADER: Final = MAGIC + b"\x01\0\0\0"
COMPONENT_HEADER: Final = MAGIC + b"\x0d\0\x01\0"

MAX_ITEMS: Final = 250_000
"""Entries of all sections that are read one by one. A Python plugin has 25 000, and each costs some microseconds."""

_SECTION_ITEMS: Final = 10
"""What a section counts for, which is more than it holds: a component has some hundreds in all."""

_MAX_LEB_SHIFT: Final = 28
"""A number of 32 bits takes five bytes at most."""


class Unreadable(Exception):
    """The bytes are not what this reader knows. Never leaves the room."""


@dataclass(slots=True)
class Budget:
    """How many more items may be read."""

    items: int = MAX_ITEMS

    def spend(self, items: int) -> None:
        """Count items.

        :raises Unreadable: they are more than are left.
        """
        self.items -= items
        if self.items < 0:
            raise Unreadable("more items than are read")


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a module or component."""

    kind: int
    whole: memoryview
    """Its header and its body."""
    body: Reader


class Reader:
    """A position in some bytes. Every method moves it past what it returns, or raises :class:`Unreadable`."""

    __slots__ = ("_at", "_budget", "_data")

    def __init__(self, data: memoryview, budget: Budget) -> None:
        self._data = data
        self._at = 0
        self._budget = budget

    @property
    def data(self) -> memoryview:
        """All the bytes, those behind the position too."""
        return self._data

    @property
    def position(self) -> int:
        """Where the next byte is."""
        return self._at

    def done(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._data)

    def spend(self) -> None:
        """Count one item that no count announced."""
        self._budget.spend(1)

    def byte(self) -> int:
        """One byte."""
        try:
            found = self._data[self._at]
        except IndexError:
            raise Unreadable("cut off") from None
        self._at += 1
        return found

    def expect(self, *allowed: int) -> int:
        """One byte that must be one of these."""
        found = self.byte()
        if found not in allowed:
            raise Unreadable(f"byte {found:#04x}")
        return found

    def number(self) -> int:
        """An unsigned number of 32 bits in LEB128."""
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > _MAX_LEB_SHIFT:
                raise Unreadable("a number of more than 32 bits")
        if found >> 32:
            raise Unreadable("a number of more than 32 bits")
        return found

    def skip_number(self) -> None:
        """A number in LEB128 of any sign, and of up to 64 bits."""
        for _ in range(10):
            if self.byte() < 0x80:
                return
        raise Unreadable("a number of more than 64 bits")

    def count(self) -> int:
        """How many items follow. They are counted against the budget before anybody makes room for them."""
        found = self.number()
        self._budget.spend(found)
        return found

    def take(self, size: int) -> memoryview:
        """This many bytes."""
        end = self._at + size
        if end > len(self._data):
            raise Unreadable("cut off")
        found = self._data[self._at : end]
        self._at = end
        return found

    def name(self) -> bytes:
        """A name, without its length."""
        return bytes(self.take(self.number()))

    def since(self, start: int) -> bytes:
        """What lies between an earlier position and this one."""
        return bytes(self._data[start : self._at])

    def sections(self, header: bytes) -> Generator[Section]:
        """The sections of a module or component, which begins here with this header."""
        if bytes(self.take(len(header))) != header:
            raise Unreadable("another kind of file")
        while not self.done():
            self._budget.spend(_SECTION_ITEMS)
            start = self._at
            kind = self.byte()
            body = self.take(self.number())
            yield Section(kind, self._data[start : self._at], Reader(body, self._budget))


def encoded(number: int) -> bytes:
    """An unsigned number in LEB128."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def vector(items: list[bytes]) -> bytes:
    """Encoded items behind their count."""
    return encoded(len(items)) + b"".join(items)


def section(kind: int, body: bytes) -> bytes:
    """A section with its header."""
    return bytes([kind]) + encoded(len(body)) + body
