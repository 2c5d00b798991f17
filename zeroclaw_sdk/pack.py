"""A plugin project as one archive, the same bytes for the same package."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.archive import write_archive
from zeroclaw_sdk.files import make_directory, replace_file
from zeroclaw_sdk.project import Project
from zeroclaw_sdk.signing import author_policy, open_package


@dataclass(frozen=True, slots=True)
class PackReport:
    """A written archive."""

    archive: Path
    size: int
    sha256: str
    package: AdmittedPackage


def pack(project: Project, output: Path | None = None) -> PackReport:
    """Write the archive of a project, after the admission every host runs.

    Manifest, component and skills go in, nothing else of the directory.

    :param output: ``dist/<name>-<version>.zip`` in the project when left out.
    :raises PackageError: admission refused the package.
    :raises StorageError: a file cannot be read or written.
    """
    package = admit(open_package(project.directory), author_policy(project.manifest_bytes))
    data = write_archive(package)
    target = output or project.directory / "dist" / f"{package.manifest.name}-{package.manifest.version}.zip"
    make_directory(target.parent)
    replace_file(target, data)
    return PackReport(target, len(data), hashlib.sha256(data).hexdigest(), package)
