"""The keys of the maps in the configuration, which an operator chooses, and the names of rows (D-50).

What is checked here is what a key may be. Whether the file as a whole goes on to make sense, for instance when a profile is
renamed that users name, is decided by its validation like that of any other change.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from pydantic import BaseModel

from zeroclaw_daemon.config.coercion import PropertyError, PropertyValueInvalid
from zeroclaw_daemon.config.properties import UnknownProperty, node_at, segments_of
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.config.shape import MapOf, RowsOf, takes_values
from zeroclaw_host.errors import Kind
from zeroclaw_host.instance import IdentityInvalid, InstanceIdentity
from zeroclaw_host.visible import is_plain

INSTANCES = "plugins.entries"
BINDINGS = "channels.plugin"
NAME = "name"
"""What rows are told apart by."""


class MapKeyExists(PropertyError):
    """The map has this key already. ``details`` holds ``property`` and ``key``."""

    code = "map_key_exists"
    kind = Kind.CONFLICT

    def __init__(self, path: str, key: str) -> None:
        super().__init__(f"{path} has a key {key} already", details={"property": path, "key": key})


class MapKeyNotFound(PropertyError):
    """The map has no such key. ``details`` holds ``property``, ``key`` and ``suggestions``."""

    code = "map_key_not_found"
    kind = Kind.NOT_FOUND

    def __init__(self, path: str, key: str, known: Sequence[str] = ()) -> None:
        close = tuple(difflib.get_close_matches(key, known, n=3))
        super().__init__(
            f"{path} has no key {key}; there is {', '.join(close or known) or 'none'}",
            details={"property": path, "key": key, "suggestions": close},
        )


def map_at(path: str) -> MapOf | RowsOf:
    """The map, or the rows, at this path.

    :raises UnknownProperty: the schema has no map there.
    :raises PropertyValueInvalid: a name on the way breaks the grammar of names there.
    """
    node = node_at(path)
    if isinstance(node, MapOf | RowsOf):
        return node
    raise UnknownProperty(f"{path} is no map", details={"property": path, "suggestions": ()})


def keys(config: Config, path: str) -> tuple[str, ...]:
    """The keys that the map has now, in the file's order.

    :raises UnknownProperty: the schema has no map there.
    :raises MapKeyNotFound: a row on the way does not exist.
    """
    map_at(path)
    current: object = config
    segments = segments_of(path)
    for position, segment in enumerate(segments):
        match current:
            case BaseModel():
                current = getattr(current, segment)
            case Mapping():
                current = cast("Mapping[str, object]", current).get(segment, {})
            case _:
                rows = {_name(row): row for row in cast("tuple[object, ...]", current)}
                if segment not in rows:
                    raise MapKeyNotFound(".".join(segments[:position]), segment, tuple(rows))
                current = rows[segment]
    if isinstance(current, Mapping):
        return tuple(cast("Mapping[str, object]", current))
    return tuple(map(_name, cast("tuple[object, ...]", current)))


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a map, or the name of a row."""

    map_path: str
    key: str


def row_named_by(path: str) -> Key | None:
    """The row whose name is the property at this path; None for every other property.

    :raises PropertyValueInvalid: a name on the way breaks the grammar of names there.
    """
    segments = segments_of(path)
    above = ".".join(segments[:-2])
    if segments[-1] != NAME or not above or not isinstance(node_at(above), RowsOf):
        return None
    return Key(above, segments[-2])


def check_new_key(path: str, key: str) -> None:
    """Whether a map may get this key.

    :raises UnknownProperty: the schema has no map there.
    :raises PropertyValueInvalid: the key breaks the grammar, or is reserved.
    """
    node = map_at(path)
    try:
        if isinstance(node, MapOf):
            node.check_key(key)
        elif path == INSTANCES:
            InstanceIdentity.parse(key)
        elif not key or "." in key or not is_plain(key):
            raise ValueError("a name here is any text without dots and control characters")
    except (ValueError, IdentityInvalid) as error:
        raise _refused(path, f"{key!r}: {error}") from None


def check_create(path: str, key: str) -> None:
    """Whether an empty table can be made under this key; a map of values gets a key by a value.

    :raises UnknownProperty: the schema has no map there.
    :raises PropertyValueInvalid: the key breaks the grammar, is reserved, or needs a value.
    """
    check_new_key(path, key)
    if takes_values(map_at(path)):
        raise _refused(path, f"{key!r} is made by setting {path}.{key} to a value")


def check_rename(path: str, old: str, new: str) -> None:
    """Whether the map's key may become another.

    :raises UnknownProperty: the schema has no map there.
    :raises PropertyValueInvalid: the new key breaks the grammar or is reserved, or the key is what an instance is known by.
    """
    check_new_key(path, new)
    if path == BINDINGS:
        raise _refused(
            path,
            f"{old!r} is what the channel's instance is known by: under another name it would have no row and no state",
        )
    if path == INSTANCES and _identity(old) is not None:
        raise _refused(path, f"{old!r} is the key of an instance, whose configuration would become another's")


def _identity(key: str) -> InstanceIdentity | None:
    try:
        return InstanceIdentity.parse(key)
    except IdentityInvalid:
        return None


def _refused(path: str, message: str) -> PropertyValueInvalid:
    return PropertyValueInvalid(f"{path}: {message}", details={"property": path})


def _name(row: object) -> str:
    return str(getattr(row, NAME, ""))
