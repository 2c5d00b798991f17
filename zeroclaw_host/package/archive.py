"""A package as one ZIP file, the form in which registries carry it.

Reading trusts nothing: names that leave the package, links, duplicates and bombs are refused, and sizes are counted while
extracting, never taken from the headers. Writing is deterministic: the same package gives the same bytes.
"""

from __future__ import annotations

import io
import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final

from zeroclaw_host.errors import ArchiveError, ComponentMissing, SkillsInvalid
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.package.manifest import MANIFEST_NAME, SKILLS_DIRECTORY
from zeroclaw_host.package.reader import SkillTree
from zeroclaw_host.package.toml_source import printable

MAX_ARCHIVE_BYTES: Final = 50 * 1024 * 1024
MAX_EXTRACTED_BYTES: Final = 50 * 1024 * 1024
MAX_ENTRIES: Final = 10_000
MAX_NAME_PARTS: Final = 64
"""Far deeper than any package; every part of a name is a directory that is remembered by its whole path."""
MAX_PART_BYTES: Final = 255
"""What a file system takes for one name."""

_CHUNK: Final = 1024 * 1024
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_CENTRAL_ENTRY: Final = b"PK\x01\x02"
"""What every entry of a ZIP file's directory begins with."""
_ENCRYPTED: Final = 0x1
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_LEVEL: Final = 6
"""How hard an archive is compressed. A Python component at 9 is one percent smaller and takes four times as long."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time a ZIP file can hold."""
# What the standard library raises on damaged archives, besides its own error.
_DAMAGE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    UnicodeError,
    ValueError,
    OverflowError,
    IndexError,
    OSError,
)


class ArchiveReader:
    """Reads a package from the bytes of an archive. The whole archive is extracted and checked at once, in memory.

    :param origin: where the archive comes from, for messages.
    :raises ArchiveError: it is damaged, too large, holds a name or kind of entry that no package may hold, or not
        exactly one ``manifest.toml``.
    """

    def __init__(self, data: bytes, *, origin: str = "archive") -> None:
        self._origin = origin
        if len(data) > MAX_ARCHIVE_BYTES:
            raise ArchiveError(f"{origin} is larger than {MAX_ARCHIVE_BYTES} bytes")
        files, directories = _extract(data, origin)
        manifests = [path for path in files if PurePosixPath(path).name == MANIFEST_NAME]
        if len(manifests) != 1:
            found = "no" if not manifests else "more than one"
            raise ArchiveError(f"{origin} holds {found} {MANIFEST_NAME}")
        prefix = manifests[0].removesuffix(MANIFEST_NAME)
        self._files = _below(files, prefix)
        self._directories = {path.removeprefix(prefix) for path in directories if path.startswith(prefix)}

    @property
    def origin(self) -> str:
        """Where the archive comes from."""
        return self._origin

    def read_manifest(self) -> bytes:
        """The bytes of ``manifest.toml``."""
        return self._files[MANIFEST_NAME]

    def read_component(self, wasm_path: str) -> bytes:
        """The bytes of the component.

        :raises ComponentMissing: the archive has no such file.
        """
        try:
            return self._files[wasm_path]
        except KeyError:
            raise ComponentMissing(f"{self._origin} holds no {printable(wasm_path)}") from None

    def read_skills(self) -> SkillTree:
        """What lies under ``skills/``.

        :raises SkillsInvalid: the archive has no such directory.
        """
        prefix = f"{SKILLS_DIRECTORY}/"
        files = _below(self._files, prefix)
        directories = {path.removeprefix(prefix) for path in self._directories if path.startswith(prefix)}
        if not files and not directories:
            raise SkillsInvalid(f"{self._origin} holds no {prefix}")
        return SkillTree(files, frozenset(directories))


def write_archive(package: AdmittedPackage) -> bytes:
    """A package as an archive: its files sorted by name, with no times and no owners.

    :raises ArchiveError: the package is too large, or holds a file name, that no archive may carry.
    """
    files = package.files()
    if sum(map(len, files.values())) > MAX_EXTRACTED_BYTES:
        raise ArchiveError(f"package {package.name} is larger than {MAX_EXTRACTED_BYTES} bytes")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in sorted(files.items()):
            _check_name(path, package.name)
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.create_system = 3
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, _LEVEL)
    data = buffer.getvalue()
    # Reading it back applies every other rule, so what is written can be read.
    ArchiveReader(data, origin=f"the archive of {package.name}")
    return data


def _extract(data: bytes, origin: str) -> tuple[dict[str, bytes], set[str]]:
    """Every regular file, and every directory that is named or leads to a file."""
    files: dict[str, bytes] = {}
    directories: set[str] = set()
    # The standard library reads a whole directory at once, and a small archive can have a million entries.
    if data.count(_CENTRAL_ENTRY) > MAX_ENTRIES:
        raise ArchiveError(f"{origin} holds more than {MAX_ENTRIES} entries")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            seen: set[str] = set()
            room = MAX_EXTRACTED_BYTES
            for entry in entries:
                path = _check_entry(entry, origin)
                if path in seen:
                    raise ArchiveError(f"{origin} holds {printable(path)} twice")
                seen.add(path)
                directories.update(str(parent) for parent in PurePosixPath(path).parents[:-1])
                if entry.is_dir():
                    directories.add(path)
                    continue
                files[path] = _inflate(archive, entry, room, origin)
                room -= len(files[path])
    except _DAMAGE as error:
        raise ArchiveError(f"{origin} is no intact ZIP archive") from error
    if clash := files.keys() & directories:
        raise ArchiveError(f"{origin} holds {printable(min(clash))} as a file and as a directory")
    _require_distinct(files.keys() | directories, origin)
    return files, directories


def _require_distinct(paths: Iterable[str], origin: str) -> None:
    """Whether all paths stay apart on a file system that tells neither letter case nor compositions of letters apart."""
    seen: dict[str, str] = {}
    for path in sorted(paths):
        other = seen.setdefault(unicodedata.normalize("NFC", path.casefold()), path)
        if other != path:
            raise ArchiveError(
                f"{origin} holds {printable(other)} and {printable(path)}, which some file systems take for one"
            )


def _inflate(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, room: int, origin: str) -> bytes:
    content = io.BytesIO()  # hands its bytes over without a second copy of them
    with archive.open(entry) as stream:
        while chunk := stream.read(min(_CHUNK, room + 1 - content.tell())):
            content.write(chunk)
            if content.tell() > room:
                raise ArchiveError(f"{origin} extracts to more than {MAX_EXTRACTED_BYTES} bytes")
    return content.getvalue()


def _check_entry(entry: zipfile.ZipInfo, origin: str) -> str:
    """The path of an entry that a package may hold, without a final slash."""
    name = entry.orig_filename
    path = _check_name(name.removesuffix("/"), origin)
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or (
        (kind == stat.S_IFDIR) != entry.is_dir() and kind != 0
    ):
        raise ArchiveError(f"{origin}: {printable(name)} is neither a regular file nor a directory")
    if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _METHODS:
        raise ArchiveError(
            f"{origin}: {printable(name)} is encrypted, or compressed by another method than deflate"
        )
    return path


def _check_name(name: str, origin: str) -> str:
    parts = re.split(r"[/\\]", name)
    if (
        not name.isprintable()
        or "\\" in name
        or _DRIVE.match(name)
        or len(parts) > MAX_NAME_PARTS
        or any(part in ("", ".", "..") or len(part.encode()) > MAX_PART_BYTES for part in parts)
    ):
        raise ArchiveError(f"{origin} holds an entry whose name no package may hold: {printable(name)}")
    return name


def _below(files: Mapping[str, bytes], prefix: str) -> dict[str, bytes]:
    return {path.removeprefix(prefix): content for path, content in files.items() if path.startswith(prefix)}
