"""A registry as an installation uses it: its index, and the archives the index names."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Final

from zeroclaw_host.errors import Kind, RegistryError, Remedy, RemedyAction
from zeroclaw_host.package.archive import MAX_ARCHIVE_BYTES, ArchiveReader
from zeroclaw_host.package.manifest import MANIFEST_NAME, parse_manifest
from zeroclaw_host.package.reader import PackageReader, SkillTree
from zeroclaw_host.package.toml_source import printable
from zeroclaw_host.registry.download import Downloader, Progress
from zeroclaw_host.registry.index import MAX_INDEX_BYTES, Entry, Index, PackageSpec, parse_index
from zeroclaw_host.registry.index_cache import CachedIndex, IndexCache
from zeroclaw_host.registry.location import Location

INDEX_TIMEOUT_SECONDS: Final = 60.0
"""An index is small; one that takes longer than this does not come."""


class EntryMismatch(RegistryError):
    """An archive is not what its entry says: other bytes, another name, or another version (PLG-363)."""

    code = "registry_entry_mismatch"
    kind = Kind.REFUSED


class RegistryClient:
    """One registry.

    :param location: where its index is.
    :param downloader: how to fetch; the default one uses no proxy.
    :param cache: where the index is kept that was served last; nowhere, when left out.
    """

    def __init__(
        self, location: Location, downloader: Downloader | None = None, *, cache: IndexCache | None = None
    ) -> None:
        self.location = location
        self._cache = cache
        self._downloader = downloader or Downloader()
        self._index_downloader = replace(self._downloader, total_timeout=INDEX_TIMEOUT_SECONDS)
        self._served_from = location

    def index(self) -> Index:
        """The registry's current offer.

        :raises RegistryError: it cannot be fetched, or is no index.
        """
        download = self._index_downloader.fetch(self.location, limit=MAX_INDEX_BYTES)
        # Relative addresses in the index are relative to where it was served in the end (D-43).
        self._served_from = download.location
        index = parse_index(download.data, self.location)
        if self._cache is not None:
            self._cache.store(download.data, self.location)
        return index

    def last_index(self) -> CachedIndex | None:
        """What the registry offered when it was last reached. Nothing of it is for fetching."""
        return None if self._cache is None else self._cache.load(self.location)

    def fetch(self, entry: Entry, *, progress: Progress | None = None) -> PackageReader:
        """Download an entry's archive and check it against the entry.

        The digest is checked here; the name and the version when the manifest is read, so that no use of the reader can
        forget to.

        :raises RegistryError: it cannot be fetched, or has another digest than the entry says.
        :raises ArchiveError: it is no package archive.
        """
        expected = entry.digest
        location = self._served_from.follow(entry.url)
        data = self._downloader.fetch(location, limit=MAX_ARCHIVE_BYTES, progress=progress).data
        if expected is not None and hashlib.sha256(data).hexdigest() != expected:
            raise _mismatch(
                entry, f"the archive at {location} is not the one the registry lists: its SHA-256 differs"
            )
        return _EntryReader(ArchiveReader(data, origin=str(location)), entry)

    def open(self, spec: PackageSpec, *, progress: Progress | None = None) -> PackageReader:
        """Select and fetch in one go.

        :raises RegistryEntryNotFound: the registry lists no such package.
        """
        return self.fetch(self.index().select(spec), progress=progress)


class _EntryReader:
    """An archive's reader that holds its manifest to the registry's entry."""

    def __init__(self, archive: PackageReader, entry: Entry) -> None:
        self._archive = archive
        self._entry = entry

    @property
    def origin(self) -> str:
        return self._archive.origin

    def read_manifest(self) -> bytes:
        data = self._archive.read_manifest()
        manifest = parse_manifest(data, path=f"{self.origin}/{MANIFEST_NAME}")
        for what, found, listed in (
            ("name", manifest.name, self._entry.name),
            ("version", manifest.version, self._entry.version),
        ):
            if found != listed:
                raise _mismatch(
                    self._entry,
                    f"the registry lists {self._entry}, but the {what} in the archive's manifest is {printable(found)}",
                )
        return data

    def read_component(self, wasm_path: str) -> bytes:
        return self._archive.read_component(wasm_path)

    def read_skills(self) -> SkillTree:
        return self._archive.read_skills()


def _mismatch(entry: Entry, message: str) -> EntryMismatch:
    return EntryMismatch(
        message,
        # Whether by mistake or by an attack: another registry is no answer to it.
        remedy=Remedy(RemedyAction.REPORT_TO_REGISTRY, {"package": str(entry)}),
        details={"name": entry.name, "version": entry.version},
    )
