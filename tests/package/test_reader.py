"""Reading a package's files, once, and nothing but regular ones."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from zeroclaw_host.errors import (
    ComponentMissing,
    Kind,
    ManifestError,
    ManifestMissing,
    SkillsInvalid,
    StorageError,
)
from zeroclaw_host.package import reader as reader_module
from zeroclaw_host.package import toml_source
from zeroclaw_host.package.reader import MAX_COMPONENT_BYTES, MAX_SKILL_DEPTH, DirectoryReader

Make = Callable[..., Path]
SKILL = "---\nname: a\ndescription: b\n---\n"


@pytest.mark.req("PLG-001")
def test_a_package_is_a_manifest_and_a_component(
    package_directory: Make, component: bytes, manifest_text: Callable[..., bytes]
) -> None:
    reader = DirectoryReader(package_directory())
    assert reader.read_manifest() == manifest_text()
    assert reader.read_component("plugin.wasm") == component


def test_a_component_may_lie_in_a_directory_of_the_package(package_directory: Make) -> None:
    directory = package_directory()
    (directory / "lib/wasm").mkdir(parents=True)
    (directory / "lib/wasm/p.wasm").write_bytes(b"x")
    assert DirectoryReader(directory).read_component("lib/wasm/p.wasm") == b"x"


def test_a_directory_without_a_manifest_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "absent", tmp_path / "file"):
        with pytest.raises(ManifestMissing):
            DirectoryReader(path).read_manifest()


@pytest.mark.req("PLG-001")
@pytest.mark.parametrize("path", ["other.wasm", "lib/plugin.wasm", "plugin.wasm/x"])
def test_a_component_that_is_not_there_is_an_error(package_directory: Make, path: str) -> None:
    with pytest.raises(ComponentMissing, match="does not exist") as caught:
        DirectoryReader(package_directory()).read_component(path)
    assert caught.value.kind is Kind.INVALID


@pytest.mark.req("PAINS-10")
def test_a_component_behind_a_link_is_refused(package_directory: Make, tmp_path: Path) -> None:
    directory = package_directory(component=None)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/plugin.wasm").write_bytes(b"x")
    (directory / "plugin.wasm").symlink_to(tmp_path / "elsewhere/plugin.wasm")
    (directory / "lib").symlink_to(tmp_path / "elsewhere")
    (directory / "deep").mkdir()
    (directory / "deep/lib").symlink_to(tmp_path / "elsewhere")
    (directory / "dangling").symlink_to("nowhere")
    for path in ("plugin.wasm", "lib/plugin.wasm", "deep/lib/plugin.wasm", "dangling"):
        with pytest.raises(ComponentMissing, match="through a link"):
            DirectoryReader(directory).read_component(path)


@pytest.mark.req("PAINS-10")
def test_a_package_behind_a_link_is_refused(package_directory: Make, tmp_path: Path) -> None:
    directory = package_directory()
    (tmp_path / "link").symlink_to(directory)
    with pytest.raises(ManifestError, match="through a link"):
        DirectoryReader(tmp_path / "link").read_manifest()
    (directory / "manifest.toml").rename(tmp_path / "manifest.toml")
    (directory / "manifest.toml").symlink_to(tmp_path / "manifest.toml")
    with pytest.raises(ManifestError, match="through a link"):
        DirectoryReader(directory).read_manifest()


def test_only_regular_files_are_read(package_directory: Make) -> None:
    directory = package_directory()
    (directory / "dir").mkdir()
    os.mkfifo(directory / "fifo")
    for name in ("dir", "fifo"):
        with pytest.raises(ComponentMissing, match="not a regular file"):
            DirectoryReader(directory).read_component(name)
    with socket.socket(socket.AF_UNIX) as sock:
        here = Path.cwd()
        os.chdir(directory)  # a socket's path is short
        try:
            sock.bind("sock")
        finally:
            os.chdir(here)
        with pytest.raises(ComponentMissing):
            DirectoryReader(directory).read_component("sock")


def test_a_component_is_at_most_64_mib(package_directory: Make) -> None:
    directory = package_directory()
    with (directory / "plugin.wasm").open("wb") as file:
        file.truncate(MAX_COMPONENT_BYTES)
    assert len(DirectoryReader(directory).read_component("plugin.wasm")) == MAX_COMPONENT_BYTES
    os.truncate(directory / "plugin.wasm", MAX_COMPONENT_BYTES + 1)
    with pytest.raises(ComponentMissing, match="larger than the 67108864 bytes"):
        DirectoryReader(directory).read_component("plugin.wasm")


def test_a_file_that_grows_while_it_is_read_is_refused(
    package_directory: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = package_directory(component=b"x" * 10)
    monkeypatch.setattr(reader_module, "MAX_COMPONENT_BYTES", 10)
    monkeypatch.setattr(reader_module, "_CHUNK", 4)
    real_read, reads = os.read, []

    def read_and_grow(descriptor: int, size: int) -> bytes:
        reads.append(size)
        data = real_read(descriptor, size)
        with (directory / "plugin.wasm").open("ab") as file:
            file.write(b"y")
        return data

    assert DirectoryReader(directory).read_component("plugin.wasm") == b"x" * 10
    monkeypatch.setattr(os, "read", read_and_grow)
    with pytest.raises(ComponentMissing, match="larger"):
        DirectoryReader(directory).read_component("plugin.wasm")
    assert sum(reads) <= 10 + 1 + 4


def test_a_manifest_is_bounded_before_it_is_read(package_directory: Make) -> None:
    directory = package_directory()
    with (directory / "manifest.toml").open("ab") as file:
        file.truncate(toml_source.MAX_BYTES + 1)
    with pytest.raises(ManifestError, match="larger"):
        DirectoryReader(directory).read_manifest()


@pytest.mark.req("PAINS-10")
def test_a_directory_that_takes_the_packages_place_is_noticed(
    package_directory: Make, tmp_path: Path
) -> None:
    directory = package_directory()
    reader = DirectoryReader(directory)
    reader.read_manifest()
    directory.rename(tmp_path / "moved")
    directory.mkdir()
    (directory / "plugin.wasm").write_bytes(b"another")
    with pytest.raises(ComponentMissing, match="was replaced"):
        reader.read_component("plugin.wasm")


def test_a_failing_file_system_is_told_apart_from_a_bad_package(
    package_directory: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = DirectoryReader(package_directory(skills={"a/SKILL.md": SKILL}))

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "read", fail)
    for read in (reader.read_manifest, lambda: reader.read_component("plugin.wasm"), reader.read_skills):
        with pytest.raises(StorageError) as caught:
            read()
        assert caught.value.details["errno"] == errno.EIO
        assert caught.value.kind is Kind.UNAVAILABLE


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_reading_leaves_no_file_open(package_directory: Make) -> None:
    reader = DirectoryReader(package_directory(skills={"a/SKILL.md": SKILL, "a/deep/er/x.md": "x"}))
    before = open_files()
    for _ in range(5):
        reader.read_manifest()
        reader.read_component("plugin.wasm")
        reader.read_skills()
        with pytest.raises(ComponentMissing):
            reader.read_component("skills/a")
    assert open_files() <= before


@pytest.mark.req("PLG-004")
def test_a_skill_tree_holds_directories_and_regular_files_and_no_links(
    package_directory: Make, tmp_path: Path
) -> None:
    directory = package_directory(skills={"a/SKILL.md": SKILL, "a/examples/x.md": "x", "README.md": "r"})
    (directory / "skills/empty").mkdir()
    (directory / "skills/link.md").symlink_to(directory / "manifest.toml")
    (directory / "skills/linked").symlink_to(tmp_path)
    os.mkfifo(directory / "skills/a/fifo")
    tree = DirectoryReader(directory).read_skills()
    assert dict(tree.files) == {"README.md": b"r", "a/SKILL.md": SKILL.encode(), "a/examples/x.md": b"x"}
    assert tree.directories == {"a", "a/examples", "empty"}


@pytest.mark.req("PLG-004")
def test_the_skills_directory_is_a_real_one(package_directory: Make, tmp_path: Path) -> None:
    directory = package_directory()
    with pytest.raises(SkillsInvalid, match="holds no skills/"):
        DirectoryReader(directory).read_skills()
    (directory / "skills").write_text("")
    with pytest.raises(SkillsInvalid, match="not a directory"):
        DirectoryReader(directory).read_skills()
    (directory / "skills").unlink()
    (directory / "skills").symlink_to(tmp_path)
    with pytest.raises(SkillsInvalid, match="through a link"):
        DirectoryReader(directory).read_skills()


def test_a_skill_tree_is_bounded(package_directory: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = package_directory(skills={"a/SKILL.md": "12345", "a/b": "678"})
    reader = DirectoryReader(directory)
    for name, enough in (("MAX_SKILLS_BYTES", 8), ("MAX_SKILL_ENTRIES", 3)):
        with monkeypatch.context() as patch:
            patch.setattr(reader_module, name, enough)
            reader.read_skills()
            patch.setattr(reader_module, name, enough - 1)
            with pytest.raises(SkillsInvalid):
                reader.read_skills()
    deep = directory / "skills"
    for number in range(MAX_SKILL_DEPTH):
        deep /= str(number)
    deep.mkdir(parents=True)
    reader.read_skills()
    (deep / "more").mkdir()
    with pytest.raises(SkillsInvalid, match="deeper than 32"):
        reader.read_skills()


def test_a_file_whose_name_is_no_text_is_refused(package_directory: Make) -> None:
    directory = package_directory(skills={"a/SKILL.md": SKILL})
    (Path(os.fsdecode(os.fsencode(directory / "skills") + b"/\xff"))).write_text("")
    with pytest.raises(SkillsInvalid, match="not printable"):
        DirectoryReader(directory).read_skills()


@pytest.mark.req("PAINS-10")
def test_a_component_swapped_while_it_is_read_is_never_a_mixture(package_directory: Make) -> None:
    old, new = b"a" * 3_000_000, b"b" * 3_000_000
    directory = package_directory(component=old)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for content in (new, old):
                (directory / "next").write_bytes(content)
                (directory / "next").replace(directory / "plugin.wasm")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(20):
            assert DirectoryReader(directory).read_component("plugin.wasm") in (old, new)
    finally:
        stop.set()
        thread.join()
