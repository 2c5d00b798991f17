"""Moving packages from another directory into the plugins directory (D-45).

Each package goes the way of an install: the same checks, the same transaction, and nothing is ever overwritten. Only once it
is in its new place is it removed from the old one, so that a stop in between leaves it in both and a repetition goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from zeroclaw_host.errors import Remedy, RemedyAction, StorageError, ZeroclawError
from zeroclaw_host.installation.discovery import InstalledPackage, discover
from zeroclaw_host.installation.install import InstallReport
from zeroclaw_host.installation.package_log import Journal
from zeroclaw_host.installation.remove import remove
from zeroclaw_host.package.reader import DirectoryReader, PackageReader
from zeroclaw_host.package.signature import SignaturePolicy

Install = Callable[[PackageReader], InstallReport]
"""Checks a package and publishes it in the plugins directory."""


@dataclass(frozen=True, slots=True)
class Migration:
    """What became of one package, or of one directory that is none."""

    source: Path
    name: str | None
    version: str | None = None
    report: InstallReport | None = None
    """What the install did, where it succeeded."""
    error: ZeroclawError | None = None
    """Why it was not moved; or, beside a report, why the original is still there as well."""


def migrate(
    source: Path, install: Install, policy: SignaturePolicy, *, target: Path, journal: Journal | None = None
) -> Iterator[Migration]:
    """Move every package of a directory, one result after the other.

    A package that is in the target already, with the same manifest and component, is only removed from the source.

    :raises StorageError: the source is no directory, cannot be listed, or is the target itself.
    """
    _require_source(source, target)
    found = discover(source, policy)
    for rejected in found.rejected:
        yield Migration(rejected.directory, rejected.name, error=rejected.error)
    for package in found.packages:
        yield _moved(package, install, policy, target, journal)


def _moved(
    package: InstalledPackage,
    install: Install,
    policy: SignaturePolicy,
    target: Path,
    journal: Journal | None,
) -> Migration:
    result = Migration(package.directory, package.name, package.version)
    report: InstallReport | None = None
    try:
        if not _is_there(package, target, policy):
            report = install(DirectoryReader(package.directory))
        remove(package.directory.parent, package.name, policy=policy, journal=journal)
    except ZeroclawError as error:
        return Migration(result.source, result.name, result.version, report, error)
    return Migration(result.source, result.name, result.version, report)


def _is_there(package: InstalledPackage, target: Path, policy: SignaturePolicy) -> bool:
    """Whether an earlier migration was stopped before it removed the original."""
    return any(
        (there.name, there.manifest_bytes, there.component_sha256)
        == (package.name, package.manifest_bytes, package.component_sha256)
        for there in discover(target, policy, only=package.name).packages
    )


def _require_source(source: Path, target: Path) -> None:
    if not source.is_dir():
        raise StorageError(
            f"{source} is no directory, so there is nothing to move", details={"path": str(source)}
        )
    if target.exists() and source.samefile(target):
        raise StorageError(
            f"{source} is the plugins directory itself",
            remedy=Remedy(RemedyAction.RUN_HELP, {"command": "plugin migrate"}),
            details={"path": str(source)},
        )
