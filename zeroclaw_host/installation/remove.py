"""Taking an installed package out of the plugins directory.

Rows, bindings and durable state stay: they belong to the instance, not to the package (PLG-064).
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from pathlib import Path

from zeroclaw_host.errors import PluginNotFound, Remedy, RemedyAction
from zeroclaw_host.installation.claim import claim
from zeroclaw_host.installation.discovery import InstalledPackage, discover
from zeroclaw_host.installation.filesystem import FileSystem, PosixFileSystem
from zeroclaw_host.installation.lock import Clock, locked
from zeroclaw_host.installation.rows import seed_for
from zeroclaw_host.package.manifest import is_package_name
from zeroclaw_host.package.signature import SignaturePolicy


@dataclass(frozen=True, slots=True)
class RemoveReport:
    """What a removal did."""

    name: str
    version: str
    directory: Path
    key: str | None
    """The key of the default tool binding's row, which stays, where the package was owed one."""
    leftover: Path | None
    """A hidden entry with what could not be deleted. It is marked as deleted and is never put back."""


def remove(
    directory: Path,
    name: str,
    *,
    policy: SignaturePolicy,
    filesystem: FileSystem | None = None,
    clock: Clock | None = None,
) -> RemoveReport:
    """Delete the directory of an installed package.

    The directory leaves its name in one move before anything in it is deleted, so that a stop at any point leaves a
    whole package or none.

    :raises PluginNotFound: no package of that name is installed; the remedy says what to do about anything else there.
    :raises StorageError: the disk did not do its part; the package is where it was.
    :raises InstallError: see :mod:`~zeroclaw_host.installation.transaction` and ``lock``.
    """
    _find(directory, name, policy)  # without the lock, whose file a mistyped name need not create
    with locked(directory, clock=clock) as lock:
        installed = _find(directory, name, policy)
        with claim(lock, filesystem or PosixFileSystem(), name, installed.directory.name) as work:
            work.take()
            work.mark()
    seed = seed_for(installed.manifest)
    return RemoveReport(
        name=name,
        version=installed.version,
        directory=installed.directory,
        key=None if seed is None else seed.key,
        leftover=work.leftover,
    )


def _find(directory: Path, name: str, policy: SignaturePolicy) -> InstalledPackage:
    found = discover(directory, policy, only=name)
    for package in found.packages:
        if package.name == name:
            return package
        raise PluginNotFound(
            f"no package named {name} is installed; {package.directory} holds the package {package.name}",
            remedy=Remedy(RemedyAction.REMOVE_PLUGIN, {"name": package.name}),
            details={"name": name, "path": str(package.directory)},
        )
    for rejected in found.rejected:
        raise _no_package(name, rejected.directory, "holds no package that loads") from rejected.error
    # A name that is none could lead out of the directory.
    if is_package_name(name) and os.path.lexists(directory / name):
        raise _no_package(name, directory / name, "is no directory, and so no package")
    raise PluginNotFound(f"no package named {name} is installed in {directory}", details={"name": name})


def _no_package(name: str, path: Path, what: str) -> PluginNotFound:
    return PluginNotFound(
        f"{path} {what}",
        remedy=Remedy(RemedyAction.CLEAR_BY_HAND, {"path": str(path)}),
        details={"name": name, "path": str(path)},
    )
