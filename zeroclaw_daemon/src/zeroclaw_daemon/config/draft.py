"""A change of the configuration file while it is made: the document in memory, edited so that comments and order stay."""

from __future__ import annotations

import json
from collections.abc import Callable, MutableMapping, MutableSequence, Sequence
from typing import TYPE_CHECKING, Final, cast

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.items import AoT, Array, InlineTable

from zeroclaw_daemon.config.coercion import PropertyValueInvalid, coerce
from zeroclaw_daemon.config.document.fidelity import faithful, has_dotted_keys
from zeroclaw_daemon.config.document.items import new_table, write
from zeroclaw_daemon.config.document.mentions import written_key
from zeroclaw_daemon.config.document.remarks import below_the_keys, kept_after_removal
from zeroclaw_daemon.config.document.renaming import renamed
from zeroclaw_daemon.config.document.tree import (
    Writable,
    drop_row,
    find,
    keys_in,
    name_of,
    stand_apart,
    with_indexes,
)
from zeroclaw_daemon.config.map_keys import (
    MapKeyExists,
    MapKeyNotFound,
    check_create,
    check_rename,
    map_at,
    row_named_by,
)
from zeroclaw_daemon.config.properties import (
    UnknownProperty,
    find_value,
    instance_property,
    node_at,
    segments_of,
)
from zeroclaw_daemon.config.shape import RowsOf, Value, ValueKind

if TYPE_CHECKING:
    from zeroclaw_daemon.config.file import Snapshot

ValueCheck = Callable[[str, object], None]
"""Takes a path and the value to be written there, of an instance also an array or object whose JSON is to be written; raises
a :class:`PropertyError` to refuse it."""


def unchecked(path: str, value: object) -> None:
    """Refuses nothing."""
    del path, value


class Draft:
    """The file as it was read under the lock, to be changed in place.

    :param document: the file's text, parsed.
    :param snapshot: makes the snapshot of the file as it was.
    :param check: refuses a value that is to be written and that somebody else knows more about than the schema.
    """

    def __init__(
        self, document: TOMLDocument, snapshot: Callable[[], Snapshot], check: ValueCheck = unchecked
    ) -> None:
        self._document = document
        self._make_snapshot: Final = snapshot
        self._check: Final = check
        self._snapshot: Snapshot | None = None
        self._hints: dict[str, int] = {}
        self._is_dotted: Final = has_dotted_keys(document)

    @property
    def document(self) -> TOMLDocument:
        """The document, for a change that no method here makes. A key that is renamed makes a new one."""
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

        What an instance is told is kept as text; an array or an object as its JSON.

        :raises UnknownProperty: the path names nothing.
        :raises PropertyValueInvalid: the value does not fit its property.
        """
        segments = segments_of(path)
        structured = isinstance(value, (list, dict)) and instance_property(path) is not None
        given: object = cast("object", value)
        text = json.dumps(given, ensure_ascii=False) if structured else given
        wanted = coerce(find_value(segments), text, path=path)
        if wanted is not None:
            table = self._table(segments)
            self._check(path, given if structured else wanted)
            if (row := row_named_by(path)) is not None and row.key != wanted:
                check_rename(row.map_path, row.key, str(wanted))
            write(table, segments[-1], wanted)
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
        write(table, segments[-1], [*present, *(each for each in added if each not in present)])

    def comment(self, path: str, text: str) -> None:
        """Put a comment behind the value of a property that is there, in place of one that stands there.

        :param text: one line without control characters.
        :raises PropertyValueInvalid: the property stands in an inline table, which holds no comments.
        """
        segments = segments_of(path)
        if not self._exists(segments):
            return
        table = self._table(segments)
        if isinstance(table, InlineTable):
            raise PropertyValueInvalid(
                f"{path}: it stands in an inline table, which holds no comments", details={"property": path}
            )
        table[segments[-1]].comment(text)

    def unset(self, path: str) -> bool:
        """Take a property out, secrets included. One that is not there is left out already.

        :returns: whether it was there.
        :raises UnknownProperty: the path names nothing.
        """
        segments = segments_of(path)
        find_value(segments)
        there = self._exists(segments)
        self._remove(segments)
        return there

    def create_key(self, map_path: str, key: str) -> None:
        """Make an empty table under a new key of a map, or an empty row of that name.

        :raises UnknownProperty: there is no map at the path.
        :raises PropertyValueInvalid: the key breaks the map's rule, or needs a value.
        :raises MapKeyExists: it is there already.
        """
        check_create(map_path, key)
        segments = (*segments_of(map_path), key)
        if self._exists(segments):
            raise MapKeyExists(map_path, key)
        if isinstance(map_at(map_path), RowsOf):
            self._add_row(segments)
            return
        self._add_table(self._table(segments), segments)

    def delete_key(self, map_path: str, key: str) -> None:
        """Take a key out of a map, or a row out of its rows, with everything below it.

        :raises UnknownProperty: there is no map at the path.
        :raises MapKeyNotFound: the map has no such key.
        """
        map_at(map_path)
        segments = segments_of(map_path)
        self._require(map_path, key)
        around = find(self._document, segments)
        if isinstance(around, AoT) and len(around) == 1:
            self._remove(segments)
        elif isinstance(around, (AoT, Array)):
            rows, before = cast("MutableSequence[object]", around), self._document.as_string()
            if stand_apart(self._document, segments):
                self._document = drop_row(self._document, segments, key)
            else:
                del rows[next(index for index, row in enumerate(rows) if name_of(row) == key)]
            self._keep_remarks(before)
        else:
            self._remove((*segments, key))

    def rename_key(self, map_path: str, old: str, new: str) -> None:
        """Give a key of a map, or a row, another name; everything below it, its place and the comments stay.

        :raises UnknownProperty: there is no map at the path.
        :raises PropertyValueInvalid: the new key breaks the map's rule, or the old one may not be renamed.
        :raises MapKeyNotFound: the map has no such key.
        :raises MapKeyExists: the new one is there already.
        """
        check_rename(map_path, old, new)
        self._require(map_path, old)
        segments = segments_of(map_path)
        if self._exists((*segments, new)):
            raise MapKeyExists(map_path, new)
        if isinstance(map_at(map_path), RowsOf):
            self._table((*segments, old, "name"))["name"] = new
        else:
            text = renamed(self._document.as_string(), (*with_indexes(self._document, segments), old), new)
            self._document = tomlkit.parse(text)

    def _remove(self, segments: Sequence[str]) -> None:
        there = find(self._document, segments)
        if there is None:
            return
        holds_lines = isinstance(there, (AoT, MutableMapping)) and not isinstance(there, InlineTable)
        before = self._document.as_string() if holds_lines else ""
        del self._table(segments)[segments[-1]]
        if holds_lines:
            self._keep_remarks(before)

    def _keep_remarks(self, before: str) -> None:
        """Put back the comments of the next header that went with a table or row."""
        after = self._document.as_string()
        kept = kept_after_removal(before, after)
        if kept != after:
            self._document = tomlkit.parse(kept)

    def _require(self, map_path: str, key: str) -> None:
        """:raises MapKeyNotFound: the map has no such key."""
        known = keys_in(find(self._document, segments_of(map_path)))
        if key not in known:
            raise MapKeyNotFound(map_path, key, known)

    def _add_row(self, segments: Sequence[str]) -> None:
        """Add an empty row; where there is no row yet, they are written as headers. Beside dotted keys as :meth:`_add_table`."""
        text = self._document.as_string() if self._is_dotted else ""
        rows = find(self._document, segments[:-1])
        if rows is None:
            around = self._table(segments[:-1])
            around[segments[-2]] = tomlkit.array() if isinstance(around, InlineTable) else tomlkit.aot()
            rows = around[segments[-2]]
        row = tomlkit.inline_table() if isinstance(rows, Array) else tomlkit.table()
        row["name"] = segments[-1]
        with below_the_keys(rows):
            cast("MutableSequence[object]", rows).append(row)
        if self._is_dotted and not faithful(self._document):
            self._document = tomlkit.parse(text)
            self._append_header(segments[:-1], row=segments[-1])
        elif not self._exists(segments):
            # Other tables stand between the rows: tomlkit shows them together in a copy, where nothing can be added.
            self._append_header(segments[:-1], row=segments[-1])

    def _exists(self, segments: Sequence[str]) -> bool:
        return find(self._document, segments) is not None

    def _table(self, segments: Sequence[str]) -> Writable:
        """The table that holds the property; tables on the way are made, rows are not."""
        table = cast("Writable", self._document)
        position = 0
        while position < len(segments) - 1:
            key = segments[position]
            inner: object = table.get(key)
            if isinstance(inner, (AoT, Array)):
                position += 1
                table = self._row(cast("Sequence[object]", inner), segments, position)
            elif inner is None:
                if isinstance(node_at(".".join(segments[: position + 1])), RowsOf):
                    raise _no_row(segments, position + 1)
                self._add_table(table, segments[: position + 1], implicit=position < len(segments) - 2)
                return self._table(segments)
            elif isinstance(inner, MutableMapping):
                table = cast("Writable", inner)
            else:
                path = ".".join(segments)
                raise PropertyValueInvalid(
                    f"{path}: {key} is no table in the file", details={"property": path}
                )
            position += 1
        return table

    def _row(self, rows: Sequence[object], segments: Sequence[str], position: int) -> Writable:
        """The row of that name. Where it was last time is looked at first: a batch asks for the same rows again and again."""
        wanted = segments[position]
        hint = self._hints.get(wanted, len(rows))
        if hint < len(rows) and name_of(rows[hint]) == wanted:
            return cast("Writable", rows[hint])
        names = [name_of(row) for row in rows]
        self._hints.update({str(name): index for index, name in enumerate(names)})
        if wanted not in names:
            raise _no_row(segments, position, keys_in(rows))
        return cast("Writable", rows[names.index(wanted)])

    def _add_table(self, around: Writable, segments: Sequence[str], *, implicit: bool = False) -> None:
        """Make an empty table under the last key.

        Beside dotted keys tomlkit may write a header where it swallows what follows, or with half a name: there the table
        begins at the end of the file instead.
        """
        text = self._document.as_string() if self._is_dotted else ""
        with below_the_keys(around):
            around[segments[-1]] = new_table(around, implicit=implicit)
        if self._is_dotted and not faithful(self._document):
            self._document = tomlkit.parse(text)
            self._append_header(segments)

    def _append_header(self, segments: Sequence[str], *, row: str | None = None) -> None:
        """Begin a table at the end of the file: a header cannot stand between dotted keys, which it would swallow.

        :param row: the name of a row, where rows stand at the path.
        """
        text = self._document.as_string()
        blank = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        header = ".".join(map(written_key, segments))
        begun = (
            f"[{header}]\n" if row is None else f"[[{header}]]\nname = {tomlkit.string(row).as_string()}\n"
        )
        self._document = tomlkit.parse(f"{text}{blank}{begun}")


def _list_type(dotted: str, segments: Sequence[str]) -> Value:
    found = find_value(segments)
    if found.kind is not ValueKind.LIST:
        raise PropertyValueInvalid(f"{dotted}: is no list", details={"property": dotted})
    return found


def _no_row(segments: Sequence[str], position: int, known: Sequence[str] = ()) -> UnknownProperty:
    path = ".".join(segments)
    rows = f"there is {', '.join(known) or 'none'}"
    if not known and tuple(segments[:position]) == ("plugins", "entries"):
        rows += (
            ". Installing a package with a configuration makes one; `zeroclaw plugin info NAME` shows its key"
        )
    return UnknownProperty(
        f"Unknown property {path}: there is no row {segments[position]}; {rows}",
        details={"property": path, "rows": tuple(known)},
    )
