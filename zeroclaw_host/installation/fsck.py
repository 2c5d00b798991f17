"""Everything in the plugins directory that is not simply an installed package: what it is, and what to do about it.

Looking changes nothing. Repairing does what the rules of the commands allow without anybody being asked: it deletes what is
provably abandoned or committed to deletion, and puts back what an interrupted removal had moved aside. A package that an
interrupted update moved aside is not put back here, because only naming it may do that (PLG-338).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from zeroclaw_host.errors import Remedy, RemedyAction, SignatureRefused, ZeroclawError
from zeroclaw_host.installation.claim import Claim, NotPutBack
from zeroclaw_host.installation.discovery import AmbiguousName, Discovery, Rejected, discover
from zeroclaw_host.installation.displaced import delete_replaced
from zeroclaw_host.installation.entries import Entry, Standing, entries, legacy_entries
from zeroclaw_host.installation.filesystem import FileSystem, PosixFileSystem, storage_error
from zeroclaw_host.installation.footprint import why_kept
from zeroclaw_host.installation.lock import LOCK_NAME, Clock, DirectoryLock, NamespaceChanged, locked
from zeroclaw_host.installation.package_log import Action, Journal, Record, Unlogged
from zeroclaw_host.installation.recovery import clear_staging
from zeroclaw_host.installation.transaction import EntryName, TransactionKind
from zeroclaw_host.package.manifest import is_package_name
from zeroclaw_host.package.signature import SignaturePolicy


class FindingKind(StrEnum):
    """Everything that can be found."""

    ABANDONED_STAGING = "abandoned_staging"
    """An install or update was interrupted while it wrote a package."""
    LIVE_ENTRY = "live_entry"
    """A command is at work in it."""
    LEGACY_STAGING = "legacy_staging"
    """A staging of an earlier version, whose process number proves nothing."""
    UNCLEAR_ENTRY = "unclear_entry"
    """It has the name of an entry, and is none that proves whose it is."""
    INTERRUPTED_REMOVAL = "interrupted_removal"
    """A removal was interrupted before it decided; the package is whole inside."""
    UNFINISHED_REMOVAL = "unfinished_removal"
    """A removal was interrupted while it deleted."""
    REPLACED_VERSION = "replaced_version"
    """An earlier version of a package, left over by its update."""
    DISPLACED = "displaced"
    """An update was interrupted between taking the old version out and putting the new one in."""
    DISPLACED_SEVERAL = "displaced_several"
    """As displaced, but something is at its name, or there are several of them."""
    EMPTY_DIRECTORY = "empty_directory"
    """Nothing is in it, and it keeps a name."""
    INCOMPLETE_PACKAGE = "incomplete_package"
    """What an interrupted or outdated install left; it keeps its name."""
    REFUSED_PACKAGE = "refused_package"
    """A package that the signature policy does not let load."""
    AMBIGUOUS_NAME = "ambiguous_name"
    """Several directories hold packages of one name, and none of them is loaded."""
    BROKEN_PACKAGE = "broken_package"
    """A package that does not pass, in a directory that holds more than an install writes."""
    FOREIGN_DIRECTORY = "foreign_directory"
    """A directory that holds no manifest."""
    FOREIGN_FILE = "foreign_file"
    """No directory, and so no package."""
    LINK = "link"
    """A symbolic link, which is never followed here."""
    HIDDEN = "hidden"
    """A hidden name that nothing here makes."""
    LOCK_UNUSABLE = "lock_unusable"
    """The lock file is no regular file, so no command can change anything."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found."""

    kind: FindingKind
    path: Path
    name: str | None
    """The package it is about, where it is about one."""
    explanation: str
    remedy: Remedy | None
    """What a person can do about it; None where there is nothing to do but wait."""
    repairable: bool = False
    repaired: bool = False


def fsck(
    directory: Path,
    policy: SignaturePolicy,
    *,
    repair: bool = False,
    filesystem: FileSystem | None = None,
    clock: Clock | None = None,
    journal: Journal | None = None,
) -> tuple[Finding, ...]:
    """Look at everything in the plugins directory, by path; with ``repair``, do what the rules allow.

    :param journal: told of a package that is put back, ahead of it.
    :returns: nothing, when every name is an installed package's or the lock's.
    :raises LockTimeout: another command held the lock all the time.
    :raises StorageError: the directory cannot be read.
    """
    if not directory.is_dir():
        return ()
    try:
        with locked(directory, clock=clock) as lock:
            found = _Examination(lock, policy)
            findings = sorted(found.findings(), key=lambda finding: finding.path)
            if repair:
                files, log = filesystem or PosixFileSystem(), journal or Unlogged()
                findings = [found.repair(finding, files, log) for finding in findings]
            return tuple(findings)
    except NamespaceChanged as error:
        path = directory / LOCK_NAME
        remedy = Remedy(RemedyAction.CLEAR_BY_HAND, {"path": str(path)})
        return (Finding(FindingKind.LOCK_UNUSABLE, path, None, error.message, remedy),)


class _Examination:
    """One look at a locked directory."""

    def __init__(self, lock: DirectoryLock, policy: SignaturePolicy) -> None:
        self._lock = lock
        self._policy = policy
        self._found: Discovery = discover(lock.directory, policy)
        self._entries = {str(entry.name): entry for entry in entries(lock)}
        self._installed = {package.name for package in self._found.packages}

    def findings(self) -> Iterator[Finding]:
        loaded = {package.directory.name for package in self._found.packages}
        rejected = {each.directory.name: each for each in self._found.rejected}
        legacy = set(legacy_entries(self._lock))
        for name, mode in _names(self._lock):
            path = self._lock.directory / name
            if name in loaded or name == LOCK_NAME:
                continue
            if name in self._entries:
                yield self._entry(self._entries[name])
            elif name in legacy:
                package = name[1:].rpartition(".installing-")[0]
                words = "an install of an earlier version left it; nothing proves that its process is gone"
                yield _by_hand(FindingKind.LEGACY_STAGING, path, package, words)
            elif name in rejected:
                yield self._rejected(rejected[name])
            else:
                yield _foreign(path, mode)

    def _entry(self, entry: Entry) -> Finding:
        path = self._lock.directory / str(entry.name)
        package = entry.name.package
        if entry.standing is Standing.LIVE:
            return Finding(FindingKind.LIVE_ENTRY, path, package, "a command is at work in it", None)
        if entry.standing is Standing.UNCLEAR:
            words = "it has the name of a command's entry, and nothing in it proves whose it is"
            return _by_hand(FindingKind.UNCLEAR_ENTRY, path, package, words)
        match entry.name.kind:
            case TransactionKind.INSTALLING:
                return Finding(
                    FindingKind.ABANDONED_STAGING,
                    path,
                    package,
                    "an install or update was interrupted while it wrote the package; nothing uses it",
                    Remedy(RemedyAction.REPAIR_PLUGINS),
                    repairable=True,
                )
            case TransactionKind.RECOVERING:
                return self._removal(entry, path)
            case TransactionKind.REPLACING:
                return self._replacement(entry, path)

    def _removal(self, entry: Entry, path: Path) -> Finding:
        package = entry.name.package
        remedy = Remedy(RemedyAction.REMOVE_PLUGIN, {"name": package})
        if not entry.is_claim:
            words = "a removal was interrupted while it deleted the package"
            return Finding(FindingKind.UNFINISHED_REMOVAL, path, package, words, remedy, repairable=True)
        free = not os.path.lexists(self._lock.directory / package) and len(self._claims(entry)) == 1
        words = "a removal was interrupted; the package is whole inside, and goes back to its name" + (
            "" if free else " once that is free"
        )
        if not free:
            remedy = Remedy(RemedyAction.CLEAR_BY_HAND, {"path": str(self._lock.directory / package)})
        return Finding(FindingKind.INTERRUPTED_REMOVAL, path, package, words, remedy, repairable=free)

    def _replacement(self, entry: Entry, path: Path) -> Finding:
        package = entry.name.package
        if package in self._installed or not entry.is_claim:
            words = (
                "an update replaced this version and could not delete it, or was interrupted before it did"
            )
            remedy = Remedy(RemedyAction.REPAIR_PLUGINS)
            return Finding(FindingKind.REPLACED_VERSION, path, package, words, remedy, repairable=True)
        if len(self._claims(entry)) > 1 or os.path.lexists(self._lock.directory / package):
            words = "an update was interrupted and moved this version aside; it cannot be told what belongs at its name"
            return _by_hand(FindingKind.DISPLACED_SEVERAL, path, package, words)
        words = "an update was interrupted and moved the package aside; an update by its name puts it back"
        remedy = Remedy(RemedyAction.UPDATE_PLUGIN, {"name": package})
        return Finding(FindingKind.DISPLACED, path, package, words, remedy)

    def _claims(self, entry: Entry) -> list[Entry]:
        return [
            other
            for other in self._entries.values()
            if other.is_claim
            and (other.name.package, other.name.kind) == (entry.name.package, entry.name.kind)
        ]

    def _rejected(self, rejected: Rejected) -> Finding:
        path, error = rejected.directory, rejected.error
        name = rejected.name or (path.name if is_package_name(path.name) else None)
        if isinstance(error, AmbiguousName):
            return _by_hand(FindingKind.AMBIGUOUS_NAME, path, name, error.message)
        if isinstance(error, SignatureRefused):
            return Finding(FindingKind.REFUSED_PACKAGE, path, name, error.message, error.remedy)
        removable = is_package_name(path.name)
        kept = why_kept(path, path.name, self._policy, shown=path)
        if removable and kept is None:
            kind = FindingKind.INCOMPLETE_PACKAGE if _has_any(path) else FindingKind.EMPTY_DIRECTORY
            remedy = Remedy(RemedyAction.REMOVE_PLUGIN, {"name": path.name})
            return Finding(kind, path, path.name, error.message, remedy)
        reason = kept.message if isinstance(kept, ZeroclawError) else kept
        words = f"{error.message}; remove leaves it alone: {reason}" if reason else error.message
        kind = FindingKind.FOREIGN_DIRECTORY if rejected.name is None else FindingKind.BROKEN_PACKAGE
        return _by_hand(kind, path, name, words)

    def repair(self, finding: Finding, filesystem: FileSystem, journal: Journal) -> Finding:
        """Do what the rules allow; the finding as it is afterwards."""
        entry = self._entries.get(finding.path.name)
        if not finding.repairable or entry is None:
            return finding
        match entry.name.kind:
            case TransactionKind.INSTALLING:
                done = clear_staging(self._lock, filesystem, entry) is None
            case TransactionKind.RECOVERING if entry.is_claim:
                journal.append(Record(Action.RESTORE, entry.name.package))
                done = _put_back(self._lock, filesystem, entry)
            case _:
                done = delete_replaced(self._lock, filesystem, entry) is None
        return replace(finding, repaired=done)


def _put_back(lock: DirectoryLock, filesystem: FileSystem, entry: Entry) -> bool:
    work = Claim(lock, filesystem, entry.name, entry.name.package)
    try:
        work.adopt()
        work.put_back()
        work.discard()
    except NotPutBack:
        return False
    finally:
        work.close()
    return True


def _foreign(path: Path, mode: int) -> Finding:
    if stat.S_ISLNK(mode):
        words = "it is a symbolic link; links are not followed here, so it is no package"
        return _by_hand(FindingKind.LINK, path, None, words)
    if EntryName.parse(path.name) is None and path.name.startswith("."):
        return _by_hand(FindingKind.HIDDEN, path, None, "it is hidden, and no command here made it")
    if stat.S_ISDIR(mode):
        return _by_hand(FindingKind.FOREIGN_DIRECTORY, path, None, "it appeared just now")
    return _by_hand(FindingKind.FOREIGN_FILE, path, None, "it is no directory, so it is no package")


def _by_hand(kind: FindingKind, path: Path, name: str | None, words: str) -> Finding:
    return Finding(kind, path, name, words, Remedy(RemedyAction.CLEAR_BY_HAND, {"path": str(path)}))


def _has_any(path: Path) -> bool:
    return any(path.iterdir())


def _names(lock: DirectoryLock) -> list[tuple[str, int]]:
    try:
        with os.scandir(lock.root) as listing:
            return sorted((entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in listing)
    except OSError as error:
        raise storage_error(error, str(lock.directory), "list the plugins directory") from error
