"""Header fields: names without regard to case, and more than one value to a name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

HeaderValues = Mapping[str, str | Iterable[str]] | Iterable[tuple[str, str]]
"""Fields to send: by name, a list for several of one name; or pairs."""

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_VALUES: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Headers(Mapping[str, str]):
    """The fields of a response.

    ``headers["etag"]`` is a value, several of one name joined by commas; :meth:`all` keeps them apart, as ``set-cookie``
    needs it; ``pairs`` is everything as it came. Bytes that are no UTF-8 are read as Latin-1.
    """

    def __init__(self, pairs: Iterable[tuple[str, bytes]]) -> None:
        self.pairs: tuple[tuple[str, str], ...] = tuple((name, _decoded(value)) for name, value in pairs)
        self._values: dict[str, list[str]] = {}
        for name, value in self.pairs:
            self._values.setdefault(name.lower(), []).append(value)

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of a name, in their order; none is an empty tuple."""
        return tuple(self._values.get(name.lower(), ()))

    def __getitem__(self, name: str) -> str:
        return ", ".join(self._values[name.lower()])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Headers({', '.join(self._values)})"  # a value may be a session's key


def encoded(values: HeaderValues | None) -> list[tuple[str, bytes]]:
    """Fields as they are sent.

    :raises ValueError: a name is none, or a value holds a control character. Names are quoted, values are not.
    """
    pairs: list[tuple[str, bytes]] = []
    given = cast("Iterable[tuple[str, object]]", items_of(values))
    for name, value in given:
        if not isinstance(name, str) or not _NAME.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped authors
            raise ValueError(f"{name!r} is no name of a header")
        several = isinstance(value, Iterable) and not isinstance(value, str | bytes)
        for each in cast("Iterable[str]", value if several else (value,)):
            if not isinstance(each, str):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped authors
                raise TypeError(f"header {name}: a value is a text, not {type(each).__name__}")
            if _NOT_IN_VALUES.search(each):
                raise ValueError(f"header {name}: its value holds a line break or another control character")
            try:
                pairs.append((name, each.strip(" \t").encode()))
            except UnicodeEncodeError:
                raise ValueError(f"header {name}: its value holds half of a character") from None
    return pairs


def items_of(values: object) -> object:
    """Names and values of a mapping, or the pairs as they are."""
    return cast("Mapping[str, object]", values).items() if isinstance(values, Mapping) else values or ()


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
