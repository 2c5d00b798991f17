"""Clearing a package's name of what is there and was not loaded.

What an interrupted install left under a name is no package, and yet keeps the name. ``remove`` clears it away, by rules
that let nothing be lost that somebody may want: the directory is first reserved in a hidden entry, then judged there,
and put back unless :mod:`~zeroclaw_host.installation.footprint` says that it may go.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from zeroclaw_host.errors import InstallError, Kind, Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.installation.account import Account
from zeroclaw_host.installation.claim import Claim, NotPutBack, claim
from zeroclaw_host.installation.entries import Entry, Standing, entries, legacy_entries
from zeroclaw_host.installation.filesystem import FileSystem, storage_error
from zeroclaw_host.installation.footprint import why_kept
from zeroclaw_host.installation.lock import DirectoryLock
from zeroclaw_host.installation.package_log import Action, Journal, Record
from zeroclaw_host.installation.staging import Staging
from zeroclaw_host.installation.transaction import EntryInUse, TransactionKind
from zeroclaw_host.package.signature import SignaturePolicy


class RemoveRefused(InstallError):
    """What is at a name is not ``remove``'s to delete. It is where it was (PLG-081 to PLG-095)."""

    code = "remove_refused"
    kind = Kind.REFUSED


class KeptBecause(StrEnum):
    """Why a staging was not cleared away."""

    LIVE = "a command that is running holds it"
    LEGACY = "an earlier version made it, and nothing proves that its process is gone"
    UNCLEAR = "nothing proves that its process is gone"
    STUCK = "it could not be deleted"


@dataclass(frozen=True, slots=True)
class Kept:
    """A hidden entry that stays. It does not keep the name from being used (PLG-079)."""

    path: Path
    because: KeptBecause


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of the claims of earlier removals."""

    deleted: bool = False
    """Whether a removal that had begun was finished."""
    leftover: Path | None = None
    """What of it could still not be deleted."""


def settle(lock: DirectoryLock, filesystem: FileSystem, name: str, journal: Journal) -> Settled:
    """End what earlier removals of a name began: finish deleting, or put back to be judged again (PLG-098, PLG-099).

    :param journal: told of a package that goes back, ahead of it.
    :raises NotPutBack: a package of an earlier removal stays where it is.
    """
    found = entries(lock, package=name, kind=TransactionKind.RECOVERING)
    claims = [entry for entry in found if entry.is_claim]
    if len(claims) > 1:
        raise _several(lock, name, claims)
    deleted, leftover = False, None
    for entry in found:
        if entry.standing not in (Standing.ABANDONED, Standing.EMPTY):
            continue
        work = Claim(lock, filesystem, entry.name, name)
        try:
            if entry.standing is Standing.ABANDONED:
                work.adopt()
            if entry.is_claim:
                journal.append(Record(Action.RESTORE, name))
                work.put_back()
            work.discard()
        finally:
            work.close()
        deleted = deleted or entry.marked
        leftover = leftover or (work.leftover if entry.marked else None)
    return Settled(deleted, leftover)


def recover(
    lock: DirectoryLock, filesystem: FileSystem, name: str, policy: SignaturePolicy, told: Account
) -> Path | None:
    """Delete what is at a name and was not loaded, if it is an install's leftover.

    :param told: told what is about to be deleted.
    :returns: what could not be deleted of it.
    :raises RemoveRefused: it stays, and is where it was.
    :raises MoveUnsupported: it cannot be moved aside without risk (PLG-096).
    :raises CleanupFailed: it could not be put back.
    """
    path = lock.directory / name
    _require_directory(path, name)
    with claim(lock, filesystem, name, name) as work:
        work.take()
        reason = why_kept(work.contents, name, policy, shown=path)
        if reason is not None:
            raise refusal(name, path, reason)
        told.begin(work)
        work.mark()
    return work.leftover


def sweep(lock: DirectoryLock, filesystem: FileSystem, name: str) -> tuple[Kept, ...]:
    """Clear away the stagings of a name whose commands are provably gone (PLG-076).

    :returns: what stays, and why.
    """
    kept: list[Kept] = []
    for entry in entries(lock, package=name, kind=TransactionKind.INSTALLING):
        because = clear_staging(lock, filesystem, entry)
        if because is not None:
            kept.append(Kept(lock.directory / str(entry.name), because))
    kept += (Kept(lock.directory / path, KeptBecause.LEGACY) for path in legacy_entries(lock, package=name))
    return tuple(kept)


def clear_staging(lock: DirectoryLock, filesystem: FileSystem, entry: Entry) -> KeptBecause | None:
    """Delete one staging, if its command is provably gone; otherwise why it stays."""
    if entry.standing is Standing.LIVE:
        return KeptBecause.LIVE
    if entry.standing is Standing.UNCLEAR:
        return KeptBecause.UNCLEAR
    work = Staging(lock, filesystem, entry.name)
    try:
        if entry.standing is Standing.ABANDONED:
            work.adopt()
        work.discard()
    except EntryInUse:
        return KeptBecause.LIVE
    finally:
        work.close()
    return None if work.leftover is None else KeptBecause.STUCK


def refusal(name: str, path: Path, reason: str | ZeroclawError) -> RemoveRefused:
    """The error of something that is not ``remove``'s to delete."""
    words = reason if isinstance(reason, str) else reason.message
    error = RemoveRefused(
        f"{path} was not removed: {words}",
        remedy=Remedy(RemedyAction.CLEAR_BY_HAND, {"path": str(path)}),
        details={"name": name, "path": str(path)},
    )
    error.__cause__ = None if isinstance(reason, str) else reason
    return error


def _require_directory(path: Path, name: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        raise storage_error(error, str(path), "look at what is to be removed") from error
    if stat.S_ISLNK(mode):
        raise refusal(name, path, "it is a symbolic link")
    if not stat.S_ISDIR(mode):
        raise refusal(name, path, "it is no directory")


def _several(lock: DirectoryLock, name: str, claims: list[Entry]) -> NotPutBack:
    places = [str(lock.directory / str(entry.name)) for entry in claims]
    return NotPutBack(
        f"earlier removals of {name} left several packages aside, and only one can go back: {', '.join(places)}; look at "
        "them, keep the one you want, and do not delete hidden entries just because they look left over",
        remedy=Remedy(RemedyAction.CLEAR_BY_HAND, {"path": places[0]}),
        details={"name": name, "locations": places, "location": places[0]},
    )
