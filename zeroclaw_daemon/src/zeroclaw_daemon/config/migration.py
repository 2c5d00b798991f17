"""From the file layout of an earlier release to the one of today (D-39).

Version 0 is a file that says no version and anything else. It differs from version 1 in the names of instances' rows: they
were named after the package or the channel. Rows whose key can be derived are renamed; the others are left and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import tomlkit
from tomlkit import TOMLDocument

from zeroclaw_daemon.config.document.location import Place, Places
from zeroclaw_daemon.config.schema import SCHEMA_VERSION
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.instance import KEY_PREFIX

VERSION: Final = "schema_version"

KeyOf = Callable[[str], str | None]
"""The key of the one instance that a row of this former name was for; None where that cannot be told."""


class ConfigOutdated(ZeroclawError):
    """The file has an older layout; nothing is written to it before it is migrated (PLG-368).

    ``details`` holds ``path``, ``version`` and ``wanted``.
    """

    code = "config_outdated"
    kind = Kind.CONFLICT

    def __init__(self, path: Path, version: int) -> None:
        said = "says no schema_version, or 0" if version == 0 else f"has the layout {version}"
        super().__init__(
            f"{path} {said}, so it is of an earlier release, and is not changed before it is brought to the layout "
            f"{SCHEMA_VERSION}",
            remedy=Remedy(RemedyAction.MIGRATE_CONFIG),
            details={"path": str(path), "version": version, "wanted": SCHEMA_VERSION},
        )


class ConfigTooNew(ZeroclawError):
    """The file was written by a later release; nothing is written to it. ``details`` as for :class:`ConfigOutdated`."""

    code = "config_too_new"
    kind = Kind.CONFLICT

    def __init__(self, path: Path, version: int) -> None:
        super().__init__(
            f"{path} has the layout {version}, of a later release: this one knows {SCHEMA_VERSION} and does not change it",
            details={"path": str(path), "version": version, "wanted": SCHEMA_VERSION},
        )


@dataclass(frozen=True, slots=True)
class LeftRow:
    """A row of a former name that stays as it is, where it stands, and why."""

    name: str
    reason: str
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Migration:
    """What a migration did, or found done already.

    ``renamed`` are rows, by former and new name. ``sealed`` counts the secrets that were sealed. ``unreadable`` are the
    properties whose sealed text this installation's key does not open; they stay as they are.
    """

    from_version: int
    changed: bool
    renamed: tuple[tuple[str, str], ...] = ()
    left: tuple[LeftRow, ...] = ()
    sealed: int = 0
    unreadable: tuple[str, ...] = ()

    @property
    def to_version(self) -> int:
        """The layout the file has now."""
        return SCHEMA_VERSION


def version_of(values: Mapping[str, object]) -> int | None:
    """The layout of a file with these values; None where ``schema_version`` is no possible number, which validation reports.

    An empty file has no layout yet, so it has today's.
    """
    said = values.get(VERSION, 0 if values else SCHEMA_VERSION)
    return said if isinstance(said, int) and not isinstance(said, bool) and said >= 0 else None


def check_version(values: Mapping[str, object], path: Path) -> None:
    """Whether the file may be written as it is.

    :raises ConfigOutdated: it has an older layout.
    :raises ConfigTooNew: it has a newer one.
    """
    version = version_of(values)
    if version is not None and version < SCHEMA_VERSION:
        raise ConfigOutdated(path, version)
    if version is not None and version > SCHEMA_VERSION:
        raise ConfigTooNew(path, version)


def stamped(document: TOMLDocument) -> TOMLDocument:
    """The document with today's version: in place of another, or as its first line."""
    if VERSION in document:
        document[VERSION] = SCHEMA_VERSION
        return document
    text = document.as_string()
    blank = "\n" if text.strip() else ""
    return tomlkit.parse(f"{VERSION} = {SCHEMA_VERSION}\n{blank}{text}")


def rename_rows(document: TOMLDocument, key_of: KeyOf) -> tuple[list[tuple[str, str]], list[LeftRow]]:
    """Give rows of former names the keys of their instances, in place; comments and order stay.

    :returns: the renamed rows, and those that were left.
    """
    renamed, left = list[tuple[str, str]](), list[LeftRow]()
    rows = _rows(document)
    names = {str(row.get("name")) for row in rows}
    places = Places(document.as_string())
    for index, row in enumerate(rows):
        name: object = row.get("name")
        if not isinstance(name, str) or name.startswith(KEY_PREFIX):
            continue
        name, key = str(name), key_of(name)
        place = places.of(("plugins", "entries", index, "name"))
        if key is None:
            left.append(LeftRow(name, "no instance of an installed package goes by that name", place))
        elif key in names:
            left.append(LeftRow(name, f"its instance has a row already, {key}", place))
        else:
            row["name"] = key
            names.add(key)
            renamed.append((name, key))
    return renamed, left


def _rows(document: TOMLDocument) -> list[MutableMapping[str, Any]]:
    plugins: object = cast("Mapping[str, object]", document).get("plugins")
    found: object = (
        cast("Mapping[str, object]", plugins).get("entries") if isinstance(plugins, Mapping) else None
    )
    if not isinstance(found, Sequence) or isinstance(found, str):
        return []
    return [
        cast("MutableMapping[str, Any]", row)
        for row in cast("Sequence[object]", found)
        if isinstance(row, MutableMapping)
    ]
