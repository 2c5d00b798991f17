"""The hidden entries of a plugins directory: which there are, of which kind, and whether anybody is at work in them.

Asked under the directory lock, so that the answer holds until something is done about it. A lease that can be taken
proves that an entry's process is gone; nothing else does (PLG-076 to PLG-078).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from zeroclaw_host.installation.filesystem import DIRECTORY_FLAGS, storage_error
from zeroclaw_host.installation.lock import DirectoryLock, hold
from zeroclaw_host.installation.transaction import (
    DELETING,
    PACKAGE,
    EntryName,
    TransactionKind,
    open_lease,
)
from zeroclaw_host.package.manifest import is_package_name

_LEGACY: Final = re.compile(r"\.(?P<package>[^/]+)\.installing-(?P<pid>[0-9]+)")


class Standing(StrEnum):
    """Whether somebody is at work in an entry."""

    LIVE = "live"
    """Its lease is held: a command is running."""
    ABANDONED = "abandoned"
    """Its lease can be taken: its command is gone."""
    EMPTY = "empty"
    """There is nothing in it, not even a lease: its command ended as it began or ended."""
    UNCLEAR = "unclear"
    """It is no directory, or holds something and no lease. Nothing proves whose it is."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One hidden entry, as it was found."""

    name: EntryName
    standing: Standing
    has_package: bool
    marked: bool
    """Whether its package is committed to deletion."""

    @property
    def is_claim(self) -> bool:
        """Whether it holds a package that has to be put back, if anything."""
        return self.standing is Standing.ABANDONED and self.has_package and not self.marked


def entries(
    lock: DirectoryLock, *, package: str | None = None, kind: TransactionKind | None = None
) -> tuple[Entry, ...]:
    """The entries of the current protocol, by name.

    :param package: of this package alone.
    :param kind: of this kind alone.
    :raises StorageError: the plugins directory cannot be listed.
    """
    found = (EntryName.parse(name) for name in _names(lock))
    return tuple(
        _examine(lock, name)
        for name in found
        if name is not None and package in (None, name.package) and kind in (None, name.kind)
    )


def legacy_entries(lock: DirectoryLock, *, package: str | None = None) -> tuple[str, ...]:
    """Names of stagings as earlier versions made them: their process number proves nothing (PLG-078).

    :raises StorageError: the plugins directory cannot be listed.
    """
    return tuple(
        name
        for name in _names(lock)
        if (match := _LEGACY.fullmatch(name)) is not None
        and is_package_name(match["package"])
        and package in (None, match["package"])
    )


def mentions(directory_names: Iterable[str], package: str) -> bool:
    """Whether any of the names is a hidden entry of the package; asked without the lock, as a first look."""
    return any(
        (name := EntryName.parse(text)) is not None and name.package == package for text in directory_names
    )


def _names(lock: DirectoryLock) -> list[str]:
    try:
        with os.scandir(lock.root) as listing:
            return sorted(entry.name for entry in listing)
    except OSError as error:
        raise storage_error(error, str(lock.directory), "list the plugins directory") from error


def _examine(lock: DirectoryLock, name: EntryName) -> Entry:
    members = _members(lock.root, str(name))
    if members is None:
        return Entry(name, Standing.UNCLEAR, has_package=False, marked=False)
    return Entry(
        name,
        _standing(lock.root, str(name), members),
        has_package=PACKAGE in members,
        marked=DELETING in members,
    )


def _members(root: int, entry: str) -> set[str] | None:
    """What is in an entry; None when it is no directory that can be listed."""
    try:
        descriptor = os.open(entry, DIRECTORY_FLAGS, dir_fd=root)
    except OSError:
        return None
    try:
        with os.scandir(descriptor) as listing:
            return {entry.name for entry in listing}
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _standing(root: int, entry: str, members: set[str]) -> Standing:
    if not members:
        return Standing.EMPTY
    try:
        lease = open_lease(root, entry)
    except OSError:
        return Standing.UNCLEAR
    try:
        return Standing.ABANDONED if hold(lease) else Standing.LIVE
    finally:
        os.close(lease)
