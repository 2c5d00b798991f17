"""Taking a package out of the plugins directory, and clearing a name of what an install left there.

Rows, bindings and durable state stay: they belong to the instance, not to the package (PLG-064).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from zeroclaw_host.errors import PluginNotFound, Remedy, RemedyAction
from zeroclaw_host.installation.account import Account, account
from zeroclaw_host.installation.claim import claim
from zeroclaw_host.installation.discovery import InstalledPackage, discover
from zeroclaw_host.installation.entries import mentions
from zeroclaw_host.installation.filesystem import FileSystem, PosixFileSystem, storage_error
from zeroclaw_host.installation.lock import Clock, DirectoryLock, locked
from zeroclaw_host.installation.package_log import Action, Journal, Unlogged
from zeroclaw_host.installation.recovery import Kept, recover, settle, sweep
from zeroclaw_host.installation.rows import seed_for
from zeroclaw_host.package.manifest import Manifest, is_package_name
from zeroclaw_host.package.signature import SignaturePolicy


@dataclass(frozen=True, slots=True)
class RemoveReport:
    """What a removal did."""

    name: str
    version: str | None
    """The version of the package; None where what was there was no package that loads."""
    directory: Path
    key: str | None
    """The key of the default tool binding's row, which stays, where the package was owed one."""
    leftover: Path | None
    """A hidden entry with what could not be deleted. It is marked as deleted and is never put back."""
    manifest: Manifest | None = None
    """That of the package, where it was one."""
    kept: tuple[Kept, ...] = ()
    """Stagings of the same name that stay; none of them keeps the name from being used."""


def remove(
    directory: Path,
    name: str,
    *,
    policy: SignaturePolicy,
    filesystem: FileSystem | None = None,
    clock: Clock | None = None,
    journal: Journal | None = None,
) -> RemoveReport:
    """Delete the directory of an installed package, or what an install left under a name.

    The directory leaves its name in one move before anything in it is deleted, so that a stop at any point leaves a
    whole package or none.

    :raises PluginNotFound: there is nothing of that name.
    :raises RemoveRefused: what is there is no package and no leftover of an install.
    :raises NotPutBack: something was moved aside by this or an earlier removal, and cannot be moved back.
    :raises StorageError: the disk did not do its part; the package is where it was.
    :raises InstallError: see :mod:`~zeroclaw_host.installation.transaction` and ``lock``.
    """
    files, log = filesystem or PosixFileSystem(), journal or Unlogged()
    # Without the lock, whose file a mistyped name need not create.
    if _installed(directory, name, policy) is None and not _anything_of(directory, name):
        raise _nothing(directory, name)
    with (
        account(log, Action.REMOVE, name) as told,
        locked(directory, clock=clock) as lock,
    ):
        installed = _installed(directory, name, policy)
        if installed is not None:
            return _remove_installed(lock, files, installed, told, policy)
        settled = settle(lock, files, name, log)
        # An earlier removal may have put a package back that loads.
        installed = _installed(directory, name, policy)
        if installed is not None:
            return _remove_installed(lock, files, installed, told, policy)
        leftover = settled.leftover
        if os.path.lexists(directory / name):
            leftover = recover(lock, files, name, policy, told) or leftover
        elif not settled.deleted:
            raise _nothing(directory, name)
        kept = sweep(lock, files, name)
    return RemoveReport(name, None, directory / name, None, leftover, kept=kept)


def _remove_installed(
    lock: DirectoryLock,
    filesystem: FileSystem,
    installed: InstalledPackage,
    told: Account,
    policy: SignaturePolicy,
) -> RemoveReport:
    told.about(installed, policy)
    with claim(lock, filesystem, installed.name, installed.directory.name) as work:
        told.begin(work)
        work.take()
        work.mark()
    seed = seed_for(installed.manifest)
    return RemoveReport(
        name=installed.name,
        version=installed.version,
        directory=installed.directory,
        key=None if seed is None else seed.key,
        leftover=work.leftover,
        manifest=installed.manifest,
    )


def _installed(directory: Path, name: str, policy: SignaturePolicy) -> InstalledPackage | None:
    """The loaded package of that name.

    :raises PluginNotFound: a loaded package of another name is in the directory of that name (PLG-086, PLG-088).
    """
    for package in discover(directory, policy, only=name).packages:
        if package.name == name:
            return package
        raise PluginNotFound(
            f"no package named {name} is installed; {package.directory} holds the package {package.name}",
            remedy=Remedy(RemedyAction.REMOVE_PLUGIN, {"name": package.name}),
            details={"name": name, "path": str(package.directory)},
        )
    return None


def _anything_of(directory: Path, name: str) -> bool:
    """Whether anything is at a name, or a command was in the middle of something about it.

    A name that is none could lead out of the directory.
    """
    if not is_package_name(name):
        return False
    try:
        names = [path.name for path in directory.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise storage_error(error, str(directory), "list the plugins directory") from error
    return name in names or mentions(names, name)


def _nothing(directory: Path, name: str) -> PluginNotFound:
    return PluginNotFound(f"no package named {name} is installed in {directory}", details={"name": name})
