"""Several changes of the configuration in one text: JSON Patch (RFC 6902), of which it takes ``add``, ``replace``, ``remove``
and ``test``.

A pointer is a property's path with ``/`` between its segments. ``add`` makes what is missing on the way, a row of
``plugins.entries`` among it (PLG-206), and with ``/-`` at its end adds to a list. ``test`` looks at the file as it was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, cast

from zeroclaw_daemon import strict_json
from zeroclaw_daemon.config.coercion import MASK, PropertyError, PropertyValueInvalid
from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.map_keys import MapKeyExists, MapKeyNotFound
from zeroclaw_daemon.config.properties import get_property, node_at, segments_of, unknown_property
from zeroclaw_daemon.config.shape import MapOf, RowsOf, ValueKind, as_value
from zeroclaw_host.errors import Kind, ZeroclawError

MAX_OPERATIONS: Final = 256
_OPERATIONS: Final = frozenset({"add", "replace", "remove", "test"})
_APPEND: Final = "-"
_NOTHING: Final = object()


class PatchInvalid(ZeroclawError):
    """The text is no patch that can be applied. ``details`` holds ``index``, the operation's, where one is at fault."""

    code = "patch_invalid"
    kind = Kind.INVALID


class PatchTestFailed(ZeroclawError):
    """A ``test`` of the patch found another value. ``details`` holds ``property`` and ``index``."""

    code = "patch_test_failed"
    kind = Kind.CONFLICT


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. ``path`` is the dotted path of a property, a key of a map or a row; ``value`` may be secret."""

    verb: str
    path: str
    value: object = field(default=_NOTHING, repr=False)
    appends: bool = False


def read_patch(text: str) -> tuple[Operation, ...]:
    """The operations of a patch, in their order.

    :raises PatchInvalid: the text is no JSON Patch, or uses what is not taken here.
    """
    try:
        given: object = strict_json.parse(text)
    except strict_json.NotJson:
        raise PatchInvalid("the patch is no JSON") from None
    if not isinstance(given, list) or not 1 <= len(cast("list[object]", given)) <= MAX_OPERATIONS:
        raise PatchInvalid(f"a patch is a JSON array of 1 to {MAX_OPERATIONS} operations")
    return tuple(_operation(index, each) for index, each in enumerate(cast("list[object]", given)))


def apply_patch(draft: Draft, operations: Sequence[Operation]) -> None:
    """Make the changes in the draft, in their order.

    :raises PropertyError: one of them cannot be made; ``details`` holds its ``index``.
    :raises PatchTestFailed: a value is not what a ``test`` says.
    """
    for index, operation in enumerate(operations):
        try:
            _apply(draft, operation)
        except (PropertyError, PatchTestFailed) as error:
            error.details = {**error.details, "index": index}
            raise


def take_out(draft: Draft, path: str) -> None:
    """Take a property, a key of a map with all below it, or a row, out of the file.

    :raises UnknownProperty: the path names none of these.
    :raises MapKeyNotFound: the map has no such key, or there is no such row.
    """
    if as_value(node_at(path)) is not None:
        draft.unset(path)
        return
    *above, key = segments_of(path)
    if not above or not isinstance(node_at(".".join(above)), MapOf | RowsOf):
        raise unknown_property(path)
    draft.delete_key(".".join(above), key)


def _operation(index: int, given: object) -> Operation:
    def refuse(words: str) -> PatchInvalid:
        return PatchInvalid(f"operation {index} of the patch {words}", details={"index": index})

    if not isinstance(given, dict):
        raise refuse("is no JSON object")
    members = cast("dict[str, object]", given)
    verb, pointer = members.get("op"), members.get("path")
    if not isinstance(verb, str) or verb not in _OPERATIONS:
        raise refuse(f"must have an op of {', '.join(sorted(_OPERATIONS))}")
    if not isinstance(pointer, str) or not pointer.startswith("/"):
        raise refuse("must have a path that begins with /")
    if (verb != "remove") != ("value" in members):
        raise refuse("must have a value" if verb != "remove" else "must have no value")
    if unknown := members.keys() - {"op", "path", "value"}:
        raise refuse(f"has a member that is not taken: {', '.join(sorted(unknown))}")
    segments = [each.replace("~1", "/").replace("~0", "~") for each in pointer[1:].split("/")]
    appends = verb == "add" and len(segments) > 1 and segments[-1] == _APPEND
    path = ".".join(segments[:-1] if appends else segments)
    return Operation(verb, path, members.get("value", _NOTHING), appends)


def _apply(draft: Draft, operation: Operation) -> None:
    path, value = operation.path, operation.value
    match operation.verb:
        case "remove":
            take_out(draft, path)
        case "test":
            _test(draft, path, value)
        case "add" if operation.appends:
            draft.append(path, json.dumps([value]))
        case "add":
            _make_rows(draft, path)
            _put(draft, path, value)
        case _:
            _put(draft, path, value)


def _test(draft: Draft, path: str, value: object) -> None:
    found = get_property(draft.snapshot.config, path)
    if found.type.kind is ValueKind.SECRET:
        raise PropertyValueInvalid(
            f"{path}: a secret is {MASK} to everybody, and cannot be compared", details={"property": path}
        )
    if type(found.value) is not type(value) or found.value != value:
        raise PatchTestFailed(f"{path} is not what the patch was made for", details={"property": path})


def _make_rows(draft: Draft, path: str) -> None:
    """Make the rows that the path leads through and that are missing."""
    segments = segments_of(path)
    for position in range(1, len(segments) - 1):
        above = ".".join(segments[:position])
        if isinstance(node_at(above), RowsOf):
            with suppress(MapKeyExists):
                draft.create_key(above, segments[position])


def _put(draft: Draft, path: str, value: object) -> None:
    """Set a property, or make a key of a map anew with everything the value has for it."""
    if as_value(node_at(path)) is not None:
        draft.set(path, value)
        return
    *above, key = segments_of(path)
    parent = ".".join(above)
    if not above or not isinstance(node_at(parent), MapOf | RowsOf) or not isinstance(value, dict):
        raise unknown_property(path)
    with suppress(MapKeyNotFound):
        draft.delete_key(parent, key)
    draft.create_key(parent, key)
    _fill(draft, path, cast("dict[str, object]", value))


def _fill(draft: Draft, path: str, members: dict[str, object]) -> None:
    for name, inner in members.items():
        below = f"{path}.{name}"
        if as_value(node_at(below)) is not None:
            draft.set(below, inner)
        elif isinstance(inner, dict):
            _fill(draft, below, cast("dict[str, object]", inner))
        else:
            raise unknown_property(below)
