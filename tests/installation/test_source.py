from __future__ import annotations

import os
from pathlib import Path

import pytest

from zeroclaw_host.errors import ArchiveError, RemedyAction, StorageError, UsageError
from zeroclaw_host.installation.source import LocalSource, RegistrySource, parse_source
from zeroclaw_host.package.archive import MAX_ARCHIVE_BYTES
from zeroclaw_host.registry.index import PackageSpec


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.req("PLG-365")
@pytest.mark.parametrize(
    "text", [".", "..", "./redact", ".redact", "a/b", "a\\b", "/srv/redact", "dir/redact@1.0"]
)
def test_what_looks_like_a_path_is_a_path(text: str) -> None:
    assert parse_source(text) == LocalSource(Path(text))


@pytest.mark.req("PLG-365")
def test_the_tilde_means_the_home_directory(tmp_path: Path) -> None:
    assert parse_source("~/redact", home=tmp_path) == LocalSource(tmp_path / "redact")
    assert parse_source("~", home=tmp_path) == LocalSource(tmp_path)


@pytest.mark.req("PLG-365")
@pytest.mark.parametrize("text", ["redact", "redact@1.0.0", "acme.chat"])
def test_what_exists_is_a_path_and_otherwise_a_name_in_a_registry(text: str, tmp_path: Path) -> None:
    assert parse_source(text) == RegistrySource(PackageSpec.parse(text))
    (tmp_path / text).mkdir()
    assert parse_source(text) == LocalSource(Path(text))


def test_even_a_dangling_link_of_that_name_is_what_the_person_sees_there(tmp_path: Path) -> None:
    (tmp_path / "redact").symlink_to("nowhere")
    assert isinstance(parse_source("redact"), LocalSource)


@pytest.mark.parametrize("text", ["https://user:hunter2@r.test/a.zip?token=hunter2", "file:///srv/a", "x://"])
def test_a_url_is_refused_with_advice_and_without_its_credentials(text: str) -> None:
    with pytest.raises(UsageError, match="download it") as caught:
        parse_source(text)
    assert "hunter2" not in caught.value.message
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.NAME_REGISTRY


@pytest.mark.parametrize("text", ["", "  ", "@1.0", "name@"])
def test_a_text_that_names_nothing_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_source(text)


def test_a_directory_its_manifest_and_an_archive_are_all_packages(tmp_path: Path) -> None:
    folder = tmp_path / "redact"
    folder.mkdir()
    (folder / "manifest.toml").write_text('name = "redact"\n')
    expected = (folder / "manifest.toml").read_bytes()
    assert LocalSource(folder).open().read_manifest() == expected
    assert LocalSource(folder / "manifest.toml").open().read_manifest() == expected


def test_a_path_that_does_not_exist_or_is_no_file_is_one_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no such file") as caught:
        LocalSource(tmp_path / "none").open()
    assert caught.value.remedy is None  # an empty directory of that name would be no package
    with pytest.raises(StorageError, match="neither a directory nor a file"):
        LocalSource(Path("/dev/null")).open()


def test_a_file_that_is_no_archive_is_an_archive_error(tmp_path: Path) -> None:
    (tmp_path / "redact.zip").write_bytes(b"not a zip")
    with pytest.raises(ArchiveError):
        LocalSource(tmp_path / "redact.zip").open().read_manifest()


def test_an_archive_larger_than_any_may_be_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "big.zip"
    with path.open("wb") as file:
        file.truncate(MAX_ARCHIVE_BYTES + 1)
    with pytest.raises(ArchiveError, match="larger than"):
        LocalSource(path).open()


def test_a_name_no_path_can_have_is_one_storage_error() -> None:
    for text in ("./a\0b", "./" + "a" * 5000):
        with pytest.raises(StorageError):
            LocalSource(Path(text)).open()


def test_an_archive_swapped_for_a_pipe_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "redact.zip"
    path.write_bytes(b"x")
    looked = Path.stat

    def swap(self: Path, **more: bool) -> os.stat_result:
        found = looked(self, **more)
        self.unlink()
        os.mkfifo(self)
        return found

    monkeypatch.setattr(Path, "stat", swap)
    with pytest.raises(StorageError, match="not a regular file"):
        LocalSource(path).open()
