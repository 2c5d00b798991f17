"""Packages as ZIP files."""

from __future__ import annotations

import io
import os
import stat
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import ArchiveError, ComponentMissing, SkillsInvalid
from zeroclaw_host.package import archive as archive_module
from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.archive import (
    MAX_ENTRIES,
    MAX_EXTRACTED_BYTES,
    MAX_NAME_PARTS,
    ArchiveReader,
    write_archive,
)
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy

Make = Callable[..., Path]
Entry = tuple[str | zipfile.ZipInfo, bytes]

SKILL = "---\nname: a\ndescription: b\n---\n"


def zipped(*entries: Entry, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return buffer.getvalue()


def renamed(data: bytes, old: str, new: str) -> bytes:
    """Give an entry a name that the writer would not write; both have the same length."""
    assert len(old) == len(new)
    return data.replace(old.encode(), new.encode())


def special(name: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.create_system = 3
    entry.external_attr = mode << 16
    return entry


MANIFEST: Entry = ("manifest.toml", b'name = "demo"')


@pytest.fixture
def package(package_directory: Make) -> AdmittedPackage:
    directory = package_directory(
        capabilities=["tool", "skill"], skills={"a/SKILL.md": SKILL, "a/x/y.md": "y"}
    )
    return admit(DirectoryReader(directory), SignaturePolicy())


@pytest.mark.req("PLG-001", "PLG-004")
def test_what_is_written_is_what_is_read(package: AdmittedPackage) -> None:
    read = admit(ArchiveReader(write_archive(package)), SignaturePolicy())
    assert read.files() == package.files()
    assert read.skills == package.skills
    assert read.component_sha256 == package.component_sha256


def test_the_same_package_gives_the_same_bytes(package: AdmittedPackage, tmp_path: Path) -> None:
    first = write_archive(package)
    for path in (tmp_path / "package").rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    assert write_archive(admit(DirectoryReader(tmp_path / "package"), SignaturePolicy())) == first
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        assert archive.namelist() == ["manifest.toml", "plugin.wasm", "skills/a/SKILL.md", "skills/a/x/y.md"]
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.external_attr >> 16 for entry in archive.infolist()} == {stat.S_IFREG | 0o644}


def test_other_programs_read_what_is_written(
    package: AdmittedPackage, tmp_path: Path, system_program: Callable[[str], str]
) -> None:
    (tmp_path / "demo.zip").write_bytes(write_archive(package))
    subprocess.run([system_program("unzip"), "-tq", tmp_path / "demo.zip"], check=True, capture_output=True)


def test_a_package_may_lie_in_a_directory_of_its_archive() -> None:
    data = zipped(
        ("README", b"r"),
        ("demo/manifest.toml", b"m"),
        ("demo/lib/", b""),
        ("demo/lib/p.wasm", b"p"),
        ("demo/skills/a/SKILL.md", b"s"),
        ("skills/b/SKILL.md", b"no"),
    )
    reader = ArchiveReader(data, origin="demo.zip")
    assert reader.origin == "demo.zip"
    assert reader.read_manifest() == b"m"
    assert reader.read_component("lib/p.wasm") == b"p"
    tree = reader.read_skills()
    assert (dict(tree.files), tree.directories) == ({"a/SKILL.md": b"s"}, {"a"})
    for path in ("README", "p.wasm", "../README"):
        with pytest.raises(ComponentMissing):
            reader.read_component(path)


def test_an_archive_without_skills_has_none() -> None:
    with pytest.raises(SkillsInvalid):
        ArchiveReader(zipped(MANIFEST, ("skills", b""))).read_skills()


def test_an_empty_skill_directory_is_seen() -> None:
    assert ArchiveReader(zipped(MANIFEST, ("skills/a/", b""))).read_skills().directories == {"a"}


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([], "holds no manifest.toml"),
        ([("Manifest.toml", b"")], "holds no manifest.toml"),
        ([("manifest.toml/", b"")], "holds no manifest.toml"),
        ([MANIFEST, ("a/manifest.toml", b"")], "more than one manifest.toml"),
    ],
)
def test_an_archive_holds_exactly_one_manifest(entries: list[Entry], words: str) -> None:
    with pytest.raises(ArchiveError, match=words):
        ArchiveReader(zipped(*entries))


@pytest.mark.parametrize(
    "name", ["../evil", "a/../evil", "a/..", "/evil", "//evil", "\\evil", "..\\evil", "a\\b", "a\\..\\b", "c:evil", "C:/evil",
             "./evil", "a/./b", "a//b", "a/", "..", ".", "evil\n", "\x1b[2J", "\u202egnp.exe", "a\0b"],
)  # fmt: skip
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    harmless = "_" * len(name.encode())
    data = (
        renamed(zipped(MANIFEST, (harmless, b"x")), harmless, name)
        if name.isascii()
        else zipped(MANIFEST, (name, b"x"))
    )
    if name == "a/":  # the one of them that is a directory, and harmless
        ArchiveReader(data)
        return
    with pytest.raises(ArchiveError) as caught:
        ArchiveReader(data)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    "kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK, stat.S_IFDIR]
)
def test_a_link_or_device_is_refused(kind: int) -> None:
    with pytest.raises(ArchiveError, match="neither a regular file nor a directory"):
        ArchiveReader(zipped(MANIFEST, (special("plugin.wasm", kind | 0o777), b"/etc/passwd")))


def test_a_directory_that_says_it_is_a_file_is_refused() -> None:
    with pytest.raises(ArchiveError, match="neither"):
        ArchiveReader(zipped(MANIFEST, (special("lib/", stat.S_IFREG | 0o644), b"")))


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("a/" * (MAX_NAME_PARTS - 1) + "b", True),
        ("a/" * MAX_NAME_PARTS + "b", False),
        ("a/" * MAX_NAME_PARTS, True),
        ("a/" * (MAX_NAME_PARTS + 1), False),
        ("a/" * 30_000 + "b", False),
        ("a" * 255, True),
        ("a" * 256, False),
        ("\u00e4" * 127, True),
        ("\u00e4" * 128, False),
        ("lib/" + "a" * 256 + "/b", False),
    ],
)
def test_a_name_is_no_deeper_and_no_longer_than_a_file_system_takes(name: str, fits: bool) -> None:
    data = zipped(MANIFEST, (name, b""))
    if fits:
        ArchiveReader(data)
        return
    with pytest.raises(ArchiveError, match="name no package may hold") as caught:
        ArchiveReader(data)
    assert len(caught.value.message) < 200


def test_entries_are_counted_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("the directory was read")

    data = zipped(MANIFEST, *((str(number), b"") for number in range(MAX_ENTRIES)))
    monkeypatch.setattr(zipfile, "ZipFile", forbidden)
    with pytest.raises(ArchiveError, match=f"more than {MAX_ENTRIES} entries"):
        ArchiveReader(data)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "entries",
    [
        [("a", b"1"), ("a", b"2")],
        [("a/", b""), ("a", b"2")],
        [("manifest.toml", b"2")],
        [("a", b"1"), ("a/b", b"2")],
        [("a/b/c", b"1"), ("a/b", b"2")],
    ],
)
def test_a_name_that_is_used_twice_is_refused(entries: list[Entry]) -> None:
    with pytest.raises(ArchiveError, match=r"twice|as a file and as a directory"):
        ArchiveReader(zipped(MANIFEST, *entries))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("readme", "README"),
        ("Manifest.toml", "manifest.toml"),
        ("skills/a/SKILL.md", "skills/A/other.md"),
        ("a/b", "A"),
        ("stra\u00dfe", "STRASSE"),
        ("caf\u00e9", "cafe\u0301"),
        ("\u212bngstrom", "\u00e5ngstrom"),
    ],
)
def test_names_that_some_file_systems_take_for_one_are_refused(one: str, other: str) -> None:
    entries = [(name, b"x") for name in (one, other) if name != MANIFEST[0]]
    with pytest.raises(ArchiveError, match="take for one"):
        ArchiveReader(zipped(MANIFEST, *entries))


def test_a_name_that_is_no_utf_8_is_refused() -> None:
    data = zipped(MANIFEST, ("\u00fc\u00fc", b"x"))
    with pytest.raises(ArchiveError, match="no intact ZIP"):
        ArchiveReader(data.replace("\u00fc\u00fc".encode(), b"\xff\xfe\xff\xfe"))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_deflate_is_read(method: int) -> None:
    with pytest.raises(ArchiveError, match="deflate"):
        ArchiveReader(zipped(MANIFEST, method=method))


def test_an_encrypted_entry_is_refused() -> None:
    data = bytearray(zipped(MANIFEST))
    central = data.index(b"PK\1\2")
    data[central + 8] |= 1
    with pytest.raises(ArchiveError, match="encrypted"):
        ArchiveReader(bytes(data))


def test_an_archive_extracts_to_at_most_50_mib() -> None:
    room = MAX_EXTRACTED_BYTES - len(MANIFEST[1])
    assert len(ArchiveReader(zipped(MANIFEST, ("zero", bytes(room)))).read_component("zero")) == room
    for entries in ([("zero", bytes(room + 1))], [("zero", bytes(room)), ("one", b"x")]):
        with pytest.raises(ArchiveError, match="extracts to more than 52428800"):
            ArchiveReader(zipped(MANIFEST, *entries))


def test_a_size_in_a_header_is_not_believed() -> None:
    data = bytearray(zipped(MANIFEST, ("zero", bytes(MAX_EXTRACTED_BYTES + 1))))
    for signature, offset in ((b"PK\3\4", 22), (b"PK\1\2", 24)):
        at = data.index(b"zero", data.index(signature)) - (30 if offset == 22 else 46)
        data[at + offset : at + offset + 4] = struct.pack("<I", 10)
    with pytest.raises(ArchiveError):
        ArchiveReader(bytes(data))


def test_entries_that_share_their_bytes_are_counted_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "MAX_EXTRACTED_BYTES", 1000)
    names = [f"f{number}" for number in range(20)]
    data = zipped(MANIFEST, *((name, bytes(100)) for name in names))
    with pytest.raises(ArchiveError, match="extracts"):
        ArchiveReader(data)


def test_an_archive_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = zipped(MANIFEST, ("a", b""), ("b", b""))
    monkeypatch.setattr(archive_module, "MAX_ENTRIES", 3)
    monkeypatch.setattr(archive_module, "MAX_ARCHIVE_BYTES", len(data))
    ArchiveReader(data)
    with pytest.raises(ArchiveError, match="larger than"):
        ArchiveReader(data + b"x")
    monkeypatch.setattr(archive_module, "MAX_ENTRIES", 2)
    with pytest.raises(ArchiveError, match="more than 2 entries"):
        ArchiveReader(data)


def test_a_package_too_large_for_an_archive_is_not_written(
    package: AdmittedPackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = sum(map(len, package.files().values()))
    monkeypatch.setattr(archive_module, "MAX_EXTRACTED_BYTES", size)
    write_archive(package)
    monkeypatch.setattr(archive_module, "MAX_EXTRACTED_BYTES", size - 1)
    with pytest.raises(ArchiveError, match="larger than"):
        write_archive(package)


@pytest.mark.parametrize("data", [b"", b"PK", b"<!doctype html><p>404", b"PK\5\6" + bytes(18)])
def test_what_is_no_archive_is_an_error(data: bytes) -> None:
    with pytest.raises(ArchiveError):
        ArchiveReader(data)


def test_a_cut_archive_is_an_error() -> None:
    data = zipped(MANIFEST, ("a", b"x" * 100))
    for length in range(len(data)):
        with pytest.raises(ArchiveError):
            ArchiveReader(data[:length])


SAMPLE = zipped(MANIFEST, ("plugin.wasm", b"p" * 100), ("skills/a/SKILL.md", SKILL.encode()))


@pytest.mark.req("PAINS-10")
@given(st.lists(st.tuples(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_archive_is_an_error_or_the_same_package(changes: list[tuple[int, int]]) -> None:
    data = bytearray(SAMPLE)
    for at, value in changes:
        data[at] = value
    try:
        reader = ArchiveReader(bytes(data))
    except ArchiveError:
        return
    assert reader.read_manifest() == MANIFEST[1]
    for path, content in (("plugin.wasm", b"p" * 100),):
        try:
            assert reader.read_component(path) == content
        except ComponentMissing:
            continue


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_an_archive_error(data: bytes) -> None:
    for content in (data, b"PK\5\6" + data, SAMPLE[:40] + data, data + SAMPLE[-22:]):
        try:
            ArchiveReader(content)
        except ArchiveError:
            continue
