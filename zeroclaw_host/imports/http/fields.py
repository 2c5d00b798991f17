"""``fields``: the headers and trailers of messages.

Names are kept in lower case and compared so; the order of values of one name stays. A value is bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from zeroclaw_host.egress.http.message import LINE_OVERHEAD, MAX_HEAD_BYTES, FieldLines
from zeroclaw_host.imports.http.rules import TooLarge, too_much_held
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.holdings import Holding, Holdings
from zeroclaw_host.sandbox.interface import HostFunction
from zeroclaw_host.sandbox.values import OK, Err, Ok

MAX_FIELDS_BYTES: Final = MAX_HEAD_BYTES
"""Size of one ``fields``, counted as HTTP/2 counts: names, values, and :data:`LINE_OVERHEAD` for each line. The same number as for what a peer sends."""

FORBIDDEN: Final = frozenset(
    {
        "connection",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "transfer-encoding",
        "upgrade",
    }
)
"""Fields that are about the connection, which is the host's. ``host`` is not among them: the policy looks at the authority
that is connected to, whatever a request says there."""

_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")

_INVALID: Final = Err(("invalid-syntax", None))
_FORBIDDEN: Final = Err(("forbidden", None))
_IMMUTABLE: Final = Err(("immutable", None))


class Fields:
    """Headers or trailers.

    :param lines: names in lower case.
    :param immutable: whether the guest may only read them.
    :param holding: counts them, and nothing else yet; when left out they are nobody's.
    :raises TooLarge: the guest holds too much with them.
    """

    __slots__ = ("_holding", "_lines", "immutable", "size")

    def __init__(
        self,
        lines: Iterable[tuple[str, bytes]] = (),
        *,
        immutable: bool = False,
        holding: Holding | None = None,
    ) -> None:
        # Neither is changed in place: copies share both, so that they cost nothing however many a guest makes.
        self._lines = tuple(lines)
        self._holding = Holdings().open() if holding is None else holding
        self.size = sum(map(_size, self._lines))
        self.immutable = immutable
        if holding is not None and not holding.resize(self.size):
            raise too_much_held()

    @classmethod
    def received(cls, lines: FieldLines, holding: Holding, *, immutable: bool = False) -> Fields:
        """Fields as a peer sent them, without those that are about its connection."""
        decoded = ((name.decode("ascii"), value) for name, value in lines)
        kept = ((name, value) for name, value in decoded if name not in FORBIDDEN)
        return cls(kept, immutable=immutable, holding=holding)

    @property
    def lines(self) -> list[tuple[str, bytes]]:
        """Every name with every value of it."""
        return list(self._lines)

    def as_sent(self) -> FieldLines:
        """The same as bytes."""
        return tuple((name.encode("ascii"), value) for name, value in self._lines)

    def get(self, name: str) -> list[bytes]:
        """The values of a name, in any case."""
        wanted = name.lower()
        return [value for found, value in self._lines if found == wanted]

    def replace(self, name: str, values: list[bytes]) -> None:
        """These values instead of the name's.

        :raises TooLarge: that would be too large; nothing was changed.
        """
        kept = tuple(line for line in self._lines if line[0] != name)
        lines = (*kept, *((name, value) for value in values))
        self._become(lines, sum(map(_size, lines)))

    def append(self, name: str, value: bytes) -> None:
        """One more value of a name.

        :raises TooLarge: as :meth:`replace`.
        """
        line = (name, value)
        self._become((*self._lines, line), self.size + _size(line))

    def copy(self, *, immutable: bool = False) -> Fields:
        """The same fields."""
        made = Fields(immutable=immutable)
        made._lines, made._holding, made.size = self._lines, self._holding, self.size
        return made

    def _become(self, lines: tuple[tuple[str, bytes], ...], size: int) -> None:
        _check(size)
        holding = self._holding.another()
        if not holding.resize(size):
            raise too_much_held()
        self._lines, self._holding, self.size = lines, holding, size


def _size(line: tuple[str, bytes]) -> int:
    return len(line[0]) + len(line[1]) + LINE_OVERHEAD


def _check(size: int) -> None:
    if size > MAX_FIELDS_BYTES:
        raise TooLarge(
            f"the fields of one HTTP message are larger than {MAX_FIELDS_BYTES} bytes",
            details={"limit": "HTTP fields", "maximum": MAX_FIELDS_BYTES},
        )


def _refused(name: str) -> Err | None:
    """Why a guest may not use this name."""
    if _NAME.fullmatch(name) is None:
        return _INVALID
    return _FORBIDDEN if name.lower() in FORBIDDEN else None


def _all_valid(values: Iterable[bytes]) -> bool:
    return all(_VALUE.fullmatch(value) is not None for value in values)


def _new(frame: CallFrame) -> Fields:
    return Fields(holding=frame.table.holdings.open())


def _from_list(frame: CallFrame, entries: list[tuple[str, bytes]]) -> Ok | Err:
    for name, value in entries:
        refused = _refused(name)
        if refused is not None:
            return refused
        if not _all_valid([value]):
            return _INVALID
    found = Fields(((name.lower(), value) for name, value in entries), holding=frame.table.holdings.open())
    _check(found.size)
    return Ok(found)


def _get(frame: CallFrame, fields: Fields, name: str) -> list[bytes]:
    return fields.get(name)


def _has(frame: CallFrame, fields: Fields, name: str) -> bool:
    return bool(fields.get(name))


def _set(frame: CallFrame, fields: Fields, name: str, values: list[bytes]) -> Ok | Err:
    refused = _refused(name)
    if refused is not None:
        return refused
    if not _all_valid(values):
        return _INVALID
    if fields.immutable:
        return _IMMUTABLE
    fields.replace(name.lower(), values)
    return OK


def _delete(frame: CallFrame, fields: Fields, name: str) -> Ok | Err:
    return _set(frame, fields, name, [])


def _append(frame: CallFrame, fields: Fields, name: str, value: bytes) -> Ok | Err:
    refused = _refused(name)
    if refused is not None:
        return refused
    if not _all_valid([value]):
        return _INVALID
    if fields.immutable:
        return _IMMUTABLE
    fields.append(name.lower(), value)
    return OK


def _entries(frame: CallFrame, fields: Fields) -> list[tuple[str, bytes]]:
    return fields.lines


def _clone(frame: CallFrame, fields: Fields) -> Fields:
    return fields.copy()


FUNCTIONS: Final = (
    HostFunction("[constructor]fields", _new),
    HostFunction("[static]fields.from-list", _from_list),
    HostFunction("[method]fields.get", _get),
    HostFunction("[method]fields.has", _has),
    HostFunction("[method]fields.set", _set),
    HostFunction("[method]fields.delete", _delete),
    HostFunction("[method]fields.append", _append),
    HostFunction("[method]fields.entries", _entries),
    HostFunction("[method]fields.clone", _clone),
)
