"""The files of a registry, and what may be added to them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from zeroclaw_host.errors import StorageError, ZeroclawError
from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.archive import ArchiveReader
from zeroclaw_host.package.manifest import MANIFEST_NAME, Manifest, parse_manifest
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy
from zeroclaw_host.registry.index import MAX_INDEX_BYTES, Entry, Index, parse_index
from zeroclaw_host.registry.location import INDEX_NAME, Location
from zeroclaw_sdk.errors import ProjectInvalid, PublishRefused, ScaffoldConflict
from zeroclaw_sdk.files import make_directory, read_file, replace_file, storage_error
from zeroclaw_sdk.signing import read_archive, strict_policy

PACKAGES: Final = "packages"
PUBLISHERS: Final = "publishers"
_LOCK: Final = ".registry.lock"
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,254}")
"""What :func:`archive_name` can yield, and nothing that could mean another place."""
_KEY: Final = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True, slots=True)
class AddReport:
    """``fresh`` is false when exactly these bytes were published before."""

    entry: Entry
    archive: Path
    fresh: bool


@dataclass(frozen=True, slots=True)
class EntryProblem:
    """An entry of the index that a client could not install, and why."""

    name: str
    version: str
    problem: str
    code: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """A whole registry, looked at. ``strays`` are files in ``packages/`` that no entry names."""

    entries: int
    problems: tuple[EntryProblem, ...]
    strays: tuple[str, ...]


class RegistryDirectory:
    """A registry on the maintainer's disk.

    :raises ProjectInvalid: the directory holds no index; :meth:`create` makes one.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        if not self.index_path.is_file():
            raise ProjectInvalid(f"{directory} is no registry: there is no {INDEX_NAME} in it")

    @classmethod
    def create(cls, directory: Path) -> RegistryDirectory:
        """Make an empty registry.

        :raises ScaffoldConflict: there is one already.
        :raises StorageError: it cannot be written.
        """
        index = directory / INDEX_NAME
        if index.exists() or index.is_symlink():
            raise ScaffoldConflict(f"{index} exists already", details={"path": str(index)})
        for folder in (PACKAGES, PUBLISHERS):
            make_directory(directory / folder)
        replace_file(index, _index_bytes(Index(plugins=())))
        return cls(directory)

    @property
    def index_path(self) -> Path:
        """The index file."""
        return self.directory / INDEX_NAME

    def index(self) -> Index:
        """The index as it is now.

        :raises RegistryIndexInvalid: it is damaged.
        :raises StorageError: it cannot be read.
        """
        return parse_index(read_file(self.index_path), Location.parse(str(self.index_path)))

    def publishers(self) -> frozenset[str]:
        """The public keys of accepted publishers, in lower case.

        :raises ProjectInvalid: a ``.pub`` file holds no key.
        """
        keys: set[str] = set()
        for path in sorted((self.directory / PUBLISHERS).glob("*.pub")):
            text = path.read_text(encoding="utf-8", errors="replace").strip()
            if not _KEY.fullmatch(text):
                raise ProjectInvalid(
                    f"{path} holds no public key of 64 hexadecimal digits", details={"path": str(path)}
                )
            keys.add(text.lower())
        return frozenset(keys)

    def add(self, source: Path, *, allow_unsigned: bool = False) -> AddReport:
        """Publish a package archive.

        The archive passes the admission that clients run, in strict mode. The index is written last and in one step,
        so that it never names a file that is not there.

        :param allow_unsigned: accept a package without signature; a wrong signature is refused all the same.
        :raises PackageError: admission refused it.
        :raises PublishRefused: this name and version was published with other bytes (D-15), or the index would become
            larger than clients read.
        :raises StorageError: it cannot be read or written; the registry is then as it was.
        """
        data = read_archive(source)
        package = self._admit(data, source.name, allow_unsigned=allow_unsigned)
        digest = hashlib.sha256(data).hexdigest()
        manifest = package.manifest
        with self._locked():
            index = self.index()
            for published in index.plugins:
                if (published.name, published.version) == (manifest.name, manifest.version):
                    return self._again(published, digest)
            archive = self.directory / PACKAGES / archive_name(manifest)
            entry = Entry(
                name=manifest.name,
                version=manifest.version,
                description=manifest.description or "",
                author=manifest.author,
                capabilities=tuple(each.value for each in manifest.capabilities),
                url=f"{PACKAGES}/{quote(archive.name)}",
                sha256=digest,
            )
            text = _index_bytes(Index(plugins=(*index.plugins, entry)))
            if len(text) > MAX_INDEX_BYTES:
                raise PublishRefused(
                    "the index would be larger than clients read", details={"limit": MAX_INDEX_BYTES}
                )
            make_directory(archive.parent)
            replace_file(archive, data)
            try:
                replace_file(self.index_path, text)
            except StorageError:
                archive.unlink(missing_ok=True)
                raise
        return AddReport(entry, archive, fresh=True)

    def verify(self, *, allow_unsigned: bool = False) -> VerifyReport:
        """Read every entry's archive and judge it as a client would.

        :raises RegistryIndexInvalid: the index is damaged.
        """
        index = self.index()
        problems: list[EntryProblem] = []
        named: set[str] = set()
        first: dict[tuple[str, str], str | None] = {}
        for entry in index.plugins:
            named.add(unquote(entry.url))
            try:
                self._verify_entry(entry, allow_unsigned=allow_unsigned)
                if first.setdefault((entry.name, entry.version), entry.digest) != entry.digest:
                    raise PublishRefused(f"{entry.name}@{entry.version} is listed twice with different bytes")
            except ZeroclawError as error:
                problems.append(EntryProblem(entry.name, entry.version, error.message, error.code))
        packages = self.directory / PACKAGES
        strays = sorted(f"{PACKAGES}/{path.name}" for path in packages.iterdir()) if packages.is_dir() else []
        return VerifyReport(
            len(index.plugins), tuple(problems), tuple(path for path in strays if path not in named)
        )

    def archive_path(self, url: str) -> Path | None:
        """The file behind an entry's relative URL, or None when it leads anywhere but into ``packages/``."""
        folder, _, name = unquote(url).partition("/")
        if folder != PACKAGES or not _FILE_NAME.fullmatch(name):
            return None
        path = self.directory / PACKAGES / name
        return None if path.is_symlink() else path

    def _verify_entry(self, entry: Entry, *, allow_unsigned: bool) -> None:
        path = self.archive_path(entry.url)
        if path is None:
            raise PublishRefused(f"its url does not lead into {PACKAGES}/")
        if entry.digest is None:
            raise PublishRefused("it carries no sha256")
        data = read_archive(path)
        if hashlib.sha256(data).hexdigest() != entry.digest:
            raise PublishRefused("the archive's bytes are not those of its sha256")
        manifest = self._admit(data, path.name, allow_unsigned=allow_unsigned).manifest
        if (manifest.name, manifest.version) != (entry.name, entry.version):
            raise PublishRefused(f"the archive holds {manifest.name}@{manifest.version}")

    def _admit(self, data: bytes, origin: str, *, allow_unsigned: bool) -> AdmittedPackage:
        reader = ArchiveReader(data, origin=origin)
        raw = reader.read_manifest()
        manifest = parse_manifest(raw, path=f"{origin}/{MANIFEST_NAME}")
        if allow_unsigned and manifest.signature is None and manifest.publisher_key is None:
            return admit(reader, SignaturePolicy(SignatureMode.DISABLED, frozenset()))
        # Without a list of publishers the signature must be good, whoever made it.
        return admit(reader, strict_policy(raw, self.publishers() or None))

    def _again(self, published: Entry, digest: str) -> AddReport:
        if published.digest != digest:
            raise PublishRefused(
                f"{published.name}@{published.version} was published with other bytes; raise the version",
                details={"name": published.name, "version": published.version},
            )
        return AddReport(published, self.directory / unquote(published.url), fresh=False)

    @contextmanager
    def _locked(self) -> Generator[None]:
        """One writer at a time, across processes."""
        try:
            descriptor = os.open(
                self.directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644
            )
        except OSError as error:
            raise storage_error(self.directory / _LOCK, "opened", error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def archive_name(manifest: Manifest) -> str:
    """The file name of a package's archive. A version is free text, so what a file name cannot hold is replaced."""
    version = manifest.version
    plain = re.sub(r"[^A-Za-z0-9.+_-]", "_", version)[:100]
    if plain != version:
        plain += "-" + hashlib.sha256(version.encode()).hexdigest()[:12]
    return f"{manifest.name}-{plain}.zip"


def _index_bytes(index: Index) -> bytes:
    plugins = [entry.model_dump(mode="json", exclude_none=True) for entry in index.plugins]
    return (json.dumps({"plugins": plugins}, indent=2, ensure_ascii=False) + "\n").encode()
