"""Packages that an interrupted update left moved aside.

An update claims the installed package, then publishes the new one. Stopped in between, it leaves the name empty and the
package whole, in a hidden entry that nobody holds. Such a package is *displaced*: it is reported, and the next update by
its name puts it back before anything else, without any network (PLG-335 to PLG-342).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.installation.claim import Claim, NotPutBack
from zeroclaw_host.installation.discovery import Discovery, discover
from zeroclaw_host.installation.entries import Entry, Standing, entries
from zeroclaw_host.installation.filesystem import FileSystem, storage_error
from zeroclaw_host.installation.lock import Clock, DirectoryLock, locked
from zeroclaw_host.installation.package_log import Action, Journal, Record, Unlogged
from zeroclaw_host.installation.transaction import EntryName, TransactionKind
from zeroclaw_host.package.signature import SignaturePolicy


@dataclass(frozen=True, slots=True)
class Displaced:
    """A package that is not installed, and whole in hidden entries."""

    name: str
    locations: tuple[Path, ...]
    """Where it is; several when several updates were interrupted. Then none of them is put back by itself."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What is installed, and what should be."""

    discovery: Discovery
    displaced: tuple[Displaced, ...]


def survey(directory: Path, policy: SignaturePolicy, *, clock: Clock | None = None) -> Survey:
    """Discover packages, and those that interrupted updates moved aside.

    Where an update left or has an entry, this waits for the directory's lock first, so that a package that is being
    replaced at this moment is not taken for a missing one (PLG-336).

    :raises LockTimeout: another command held the lock all the time.
    :raises StorageError: the plugins directory cannot be listed.
    """
    before = _changed_at(directory)
    found = discover(directory, policy)
    if before == _changed_at(directory) and not _has_entries(directory, None):
        return Survey(found, ())
    with locked(directory, clock=clock) as lock:
        found = discover(directory, policy)
        return Survey(found, find_displaced(lock, found))


def find_displaced(lock: DirectoryLock, found: Discovery) -> tuple[Displaced, ...]:
    """The displaced packages, by name.

    :param found: what is installed, discovered under the same lock.
    """
    installed = {package.name for package in found.packages}
    named: dict[str, list[Path]] = {}
    for entry in entries(lock, kind=TransactionKind.REPLACING):
        if entry.is_claim and entry.name.package not in installed:
            named.setdefault(entry.name.package, []).append(lock.directory / str(entry.name))
    return tuple(Displaced(name, tuple(places)) for name, places in sorted(named.items()))


def settle_replaced(
    directory: Path,
    filesystem: FileSystem,
    name: str,
    policy: SignaturePolicy,
    *,
    put_back: bool = True,
    clock: Clock | None = None,
    journal: Journal | None = None,
) -> bool:
    """Put a displaced package back at its name, and delete what replaced versions of it are left over.

    :param put_back: without it, a displaced package stays where it is (PLG-338).
    :param journal: told of a package that goes back, ahead of it.
    :returns: whether one was put back.
    :raises NotPutBack: there are several of them, or something is at the name; all of it is as it was (PLG-342).
    """
    if not _has_entries(directory, name):
        return False
    with locked(directory, clock=clock) as lock:
        found = entries(lock, package=name, kind=TransactionKind.REPLACING)
        if _is_installed(directory, name, policy):
            for entry in found:
                delete_replaced(lock, filesystem, entry)
            return False
        if not put_back:
            return False
        claims = [entry for entry in found if entry.is_claim]
        if len(claims) > 1:
            raise _several(lock, name, claims)
        for entry in claims:
            (journal or Unlogged()).append(Record(Action.RESTORE, name))
            _put_back(lock, filesystem, entry)
        for entry in found:
            if not entry.is_claim:
                delete_replaced(lock, filesystem, entry)
        return bool(claims)


def delete_replaced(lock: DirectoryLock, filesystem: FileSystem, entry: Entry) -> Path | None:
    """Delete an entry of an update that is over; what stays of it."""
    if entry.standing not in (Standing.ABANDONED, Standing.EMPTY):
        return lock.directory / str(entry.name)
    work = Claim(lock, filesystem, entry.name, entry.name.package)
    try:
        if entry.standing is Standing.ABANDONED:
            work.adopt()
        work.discard()
    finally:
        work.close()
    return work.leftover


def _put_back(lock: DirectoryLock, filesystem: FileSystem, entry: Entry) -> None:
    work = Claim(lock, filesystem, entry.name, entry.name.package)
    try:
        work.adopt()
        work.put_back()
        work.discard()
    finally:
        work.close()


def _is_installed(directory: Path, name: str, policy: SignaturePolicy) -> bool:
    return any(package.name == name for package in discover(directory, policy, only=name).packages)


def _several(lock: DirectoryLock, name: str, claims: list[Entry]) -> NotPutBack:
    places = [str(lock.directory / str(entry.name)) for entry in claims]
    return NotPutBack(
        f"interrupted updates left several versions of {name} moved aside, and only one can go back: {', '.join(places)}; "
        "keep the one you want, and do not delete hidden entries just because they look left over",
        remedy=Remedy(RemedyAction.CLEAR_BY_HAND, {"path": places[0]}),
        details={"name": name, "locations": places, "location": places[0]},
    )


def _has_entries(directory: Path, name: str | None) -> bool:
    """Whether there are entries of updates, asked without the lock."""
    try:
        with os.scandir(directory) as listing:
            found = [EntryName.parse(entry.name) for entry in listing]
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise storage_error(error, str(directory), "list the plugins directory") from error
    return any(
        entry is not None and entry.kind is TransactionKind.REPLACING and name in (None, entry.package)
        for entry in found
    )


def _changed_at(directory: Path) -> int | None:
    try:
        return directory.stat().st_mtime_ns
    except OSError:
        return None
