"""A change of the configuration file while it is made: the document in memory, edited so that comments and order stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, MutableSequence, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.items import AoT, Array, Table

from zeroclaw_daemon.config.properties import (
    PropertyValueInvalid,
    UnknownProperty,
    coerce,
    find_value,
    segments_of,
)
from zeroclaw_daemon.config.shape import Value, ValueKind

if TYPE_CHECKING:
    from zeroclaw_daemon.config.file import Snapshot

Writable = MutableMapping[str, Any]

_WRAP_LISTS_FROM: Final = 3
"""A list of this many texts is written one a line, so that a change of one shows as one line."""

ValueCheck = Callable[[str, object], None]
"""Takes a path and the value to be written there; raises a :class:`PropertyError` to refuse it."""


def unchecked(path: str, value: object) -> None:
    """Refuses nothing."""
    del path, value


class Draft:
    """The file as it was read under the lock, to be changed in place.

    :param document: the file's text, parsed; :attr:`document` is the same object.
    :param snapshot: makes the snapshot of the file as it was.
    :param check: refuses a value that is to be written and that somebody else knows more about than the schema.
    """

    def __init__(
        self, document: TOMLDocument, snapshot: Callable[[], Snapshot], check: ValueCheck = unchecked
    ) -> None:
        self._document: Final = document
        self._make_snapshot: Final = snapshot
        self._check: Final = check
        self._snapshot: Snapshot | None = None

    @property
    def document(self) -> TOMLDocument:
        """The document, for a change that no method here makes."""
        return self._document

    @property
    def snapshot(self) -> Snapshot:
        """What the file said before the change, overriding variables included.

        :raises ConfigFileInvalid: it breaks a rule outside ``[plugins]``.
        """
        if self._snapshot is None:
            self._snapshot = self._make_snapshot()
        return self._snapshot

    def set(self, path: str, value: object) -> None:
        """Set one property to a JSON value or a text; None and, for optional properties, the empty text unset it.

        :raises UnknownProperty: the path names nothing.
        :raises PropertyValueInvalid: the value does not fit its property.
        """
        segments = segments_of(path)
        wanted = coerce(find_value(segments), value, path=path)
        if wanted is not None:
            table = self._table(segments)
            self._check(path, wanted)
            _write(table, segments[-1], wanted)
        else:
            self._remove(segments)

    def append(self, path: str, value: str) -> None:
        """Add elements to a list property, leaving out those it has.

        :raises UnknownProperty: the path names nothing.
        :raises PropertyValueInvalid: the property is no list.
        """
        segments = segments_of(path)
        added = cast("list[str]", coerce(_list_type(path, segments), value, path=path))
        table = self._table(segments)
        present = [str(element) for element in cast("Sequence[object]", table.get(segments[-1], ()))]
        _write(table, segments[-1], [*present, *(each for each in added if each not in present)])

    def unset(self, path: str) -> None:
        """Take a property out, secrets included. One that is not there is left out already.

        :raises UnknownProperty: the path names nothing.
        """
        segments = segments_of(path)
        find_value(segments)
        self._remove(segments)

    def _remove(self, segments: Sequence[str]) -> None:
        if self._exists(segments):
            del self._table(segments)[segments[-1]]

    def _exists(self, segments: Sequence[str]) -> bool:
        node: object = self._document
        for segment in segments:
            if isinstance(node, MutableMapping):
                node = cast("Writable", node).get(segment)
            elif isinstance(node, (AoT, Array)):
                rows = _tables(cast("Sequence[object]", node))
                node = next((row for row in rows if row.get("name") == segment), None)
            else:
                return False
        return node is not None

    def _table(self, segments: Sequence[str]) -> Writable:
        """The table that holds the property; tables on the way are made, rows are not."""
        table = cast("Writable", self._document)
        position = 0
        while position < len(segments) - 1:
            key = segments[position]
            inner: object = table.get(key)
            if isinstance(inner, (AoT, Array)):
                position += 1
                table = _row(cast("Sequence[object]", inner), segments, position)
            elif inner is None:
                if key == "entries" or key == "tls_profiles":
                    raise _no_row(segments, position + 1)
                table[key] = tomlkit.table(is_super_table=position < len(segments) - 2)
                table = cast("Writable", table[key])
            else:
                table = cast("Writable", inner)
            position += 1
        return table


def _list_type(dotted: str, segments: Sequence[str]) -> Value:
    found = find_value(segments)
    if found.kind is not ValueKind.LIST:
        raise PropertyValueInvalid(f"{dotted}: is no list", details={"property": dotted})
    return found


def _tables(rows: Sequence[object]) -> Iterator[Writable]:
    return (cast("Writable", row) for row in rows if isinstance(row, MutableMapping))


def _row(rows: Sequence[object], segments: Sequence[str], position: int) -> Writable:
    for row in _tables(rows):
        if row.get("name") == segments[position]:
            return row
    raise _no_row(segments, position, [str(row.get("name")) for row in _tables(rows)])


def _no_row(segments: Sequence[str], position: int, known: Sequence[str] = ()) -> UnknownProperty:
    path = ".".join(segments)
    return UnknownProperty(
        f"Unknown property {path}: there is no row {segments[position]}; there is {', '.join(known) or 'none'}",
        details={"property": path, "rows": tuple(known)},
    )


def _write(table: Writable, key: str, value: object) -> None:
    """Write a value, unless it is there already: then its text stays, however it is written."""
    present: object = table.get(key)
    if present is not None and _same(_plain(present), value):
        return
    table[key] = _item(value, wraps=isinstance(table, Table))


def _item(value: object, *, wraps: bool) -> object:
    match value:
        case list() | tuple():
            array = tomlkit.array()
            for element in cast("Sequence[object]", value):
                cast("MutableSequence[object]", array).append(_item(element, wraps=False))
            return array.multiline(wraps and len(array) >= _WRAP_LISTS_FROM)
        case dict():
            table = tomlkit.inline_table()
            for key, element in cast("dict[str, object]", value).items():
                cast("Writable", table)[key] = _item(element, wraps=False)
            return table
        case _:
            return value


def _plain(value: object) -> object:
    return cast("Any", value).unwrap() if hasattr(value, "unwrap") else value


def _same(left: object, right: object) -> bool:
    """Equal, and of the same types: 1 is not true."""
    match left, right:
        case dict(), dict():
            mine, other = cast("dict[str, object]", left), cast("dict[str, object]", right)
            return mine.keys() == other.keys() and all(_same(mine[key], other[key]) for key in mine)
        case ((list() | tuple()), (list() | tuple())):
            one, two = cast("Sequence[object]", left), cast("Sequence[object]", right)
            return len(one) == len(two) and all(map(_same, one, two))
        case _:
            return type(left) is type(right) and left == right
