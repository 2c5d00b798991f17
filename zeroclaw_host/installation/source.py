"""What a person names when asking for a package: something on this machine, or an entry of a registry."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from zeroclaw_host.errors import ArchiveError, Remedy, RemedyAction, StorageError, UsageError
from zeroclaw_host.installation.filesystem import storage_error
from zeroclaw_host.package.archive import MAX_ARCHIVE_BYTES, ArchiveReader
from zeroclaw_host.package.manifest import MANIFEST_NAME
from zeroclaw_host.package.reader import DirectoryReader, PackageReader, open_regular_file
from zeroclaw_host.registry.index import PackageSpec
from zeroclaw_host.registry.location import without_secrets


@dataclass(frozen=True, slots=True)
class LocalSource:
    """A package directory, its manifest file, or a package archive."""

    path: Path

    def open(self) -> PackageReader:
        """A reader of the package.

        :raises StorageError: there is nothing of that name, or it cannot be read.
        :raises ArchiveError: the file is larger than any package archive may be.
        """
        try:
            status = self.path.stat()
            if stat.S_ISDIR(status.st_mode):
                return DirectoryReader(self.path)
            if self.path.name == MANIFEST_NAME:
                return DirectoryReader(self.path.parent)
            if stat.S_ISREG(status.st_mode):
                return ArchiveReader(_read_archive(self.path), origin=str(self.path))
        except OSError as error:
            raise _unreadable(self.path, error) from error
        except ValueError as error:  # such as a NUL in it
            raise StorageError(
                f"{str(self.path)!r} is no path", details={"path": str(self.path), "errno": errno.EINVAL}
            ) from error
        raise StorageError(
            f"{self.path} is neither a directory nor a file",
            details={"path": str(self.path), "errno": errno.EINVAL},
        )


@dataclass(frozen=True, slots=True)
class RegistrySource:
    """An entry of a registry."""

    spec: PackageSpec


Source = LocalSource | RegistrySource


def parse_source(text: str, *, home: Path | None = None) -> Source:
    """Tell a path from a registry's ``name`` or ``name@version``.

    A path is what exists, starts with ``.`` or ``~``, or contains ``/`` or ``\\``.

    :param home: what ``~`` stands for; the user's home directory when left out.
    :raises UsageError: the text is a URL, or neither a path nor a registry name.
    """
    if "://" in text:
        raise UsageError(
            f"a package is not installed from a URL: {without_secrets(text)}; download it and name the file, or name a "
            "registry and the package in it",
            remedy=Remedy(RemedyAction.NAME_REGISTRY),
        )
    if not text.strip():
        raise UsageError("a package to install is a path, or a name in a registry")
    if text[0] in ".~" or "/" in text or "\\" in text or os.path.lexists(text):
        return LocalSource(_expanded(text, home))
    return RegistrySource(PackageSpec.parse(text))


def _expanded(text: str, home: Path | None) -> Path:
    if text == "~" or text.startswith("~/"):
        return (home or Path.home()) / text[2:]
    return Path(text)


def _unreadable(path: Path, error: OSError) -> StorageError:
    """There is nothing to advise: where no package is, a directory made for it would hold none."""
    found = storage_error(error, str(path), "read the package")
    return StorageError(found.message, details=found.details)


def _read_archive(path: Path) -> bytes:
    with open_regular_file(path) as file:
        data = file.read(MAX_ARCHIVE_BYTES + 1)
    if len(data) > MAX_ARCHIVE_BYTES:
        raise ArchiveError(
            f"{path} is larger than {MAX_ARCHIVE_BYTES} bytes, the most a package archive may be"
        )
    return data
