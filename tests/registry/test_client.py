from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_host.errors import ArchiveError, RegistryEntryNotFound, RegistryError, RemedyAction
from zeroclaw_host.package.archive import MAX_ARCHIVE_BYTES
from zeroclaw_host.registry.client import EntryMismatch, RegistryClient
from zeroclaw_host.registry.download import Downloader, DownloadTooLarge
from zeroclaw_host.registry.index import MAX_INDEX_BYTES, PackageSpec, RegistryIndexInvalid
from zeroclaw_host.registry.location import Location

Archive = Callable[..., Any]


def entry(
    name: str = "redact", version: str = "1.0.0", url: str = "redact.zip", **more: object
) -> dict[str, object]:
    return {"name": name, "version": version, "url": url, **more}


def client(site: Any, path: str = "/registry.json") -> RegistryClient:
    return RegistryClient(Location.parse(site.url(path)))


@pytest.mark.req("PLG-363", "PLG-365")
def test_a_package_comes_from_the_archive_its_entry_names(site: Any, archive: Archive) -> None:
    made = archive()
    site.serve_index(entry(sha256=f"sha256:{made.sha256.upper()}"))
    site.serve("/redact.zip", made.data)
    seen: list[tuple[int, int | None]] = []
    reader = client(site).open(PackageSpec("redact"), progress=lambda got, of: seen.append((got, of)))
    assert b'name = "redact"' in reader.read_manifest()
    assert reader.read_component("plugin.wasm").startswith(b"\0asm")
    assert seen[-1] == (len(made.data), len(made.data))
    assert site.asked == ["/registry.json", "/redact.zip"]


def test_an_archive_without_a_digest_in_its_entry_is_taken_as_it_is(site: Any, archive: Archive) -> None:
    site.serve_index(entry())
    site.serve("/redact.zip", archive().data)
    assert client(site).open(PackageSpec("redact")).read_manifest()


@pytest.mark.parametrize("form", ["path", "directory", "url"])
def test_a_registry_on_this_machine_needs_no_server(tmp_path: Path, archive: Archive, form: str) -> None:
    made = archive()
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "redact.zip").write_bytes(made.data)
    index = tmp_path / "registry.json"
    index.write_text(json.dumps({"plugins": [entry(url="files/redact.zip", sha256=made.sha256)]}))
    location = {"path": str(index), "directory": str(tmp_path), "url": index.as_uri()}[form]
    assert RegistryClient(Location.parse(location)).open(PackageSpec("redact")).read_manifest()


def test_relative_addresses_are_relative_to_where_the_index_was_served_in_the_end(
    site: Any, archive: Archive
) -> None:
    site.redirect("/registry.json", "/moved/here/registry.json")
    site.serve_index(entry(url="../redact.zip"), path="/moved/here/registry.json")
    site.serve("/moved/redact.zip", archive().data)
    assert client(site).open(PackageSpec("redact")).read_manifest()


@pytest.mark.req("PLG-363")
def test_other_bytes_than_the_listed_ones_are_refused(site: Any, archive: Archive) -> None:
    made = archive()
    site.serve_index(entry(sha256=made.sha256))
    flipped = bytearray(made.data)
    flipped[40] ^= 1
    site.serve("/redact.zip", bytes(flipped))
    with pytest.raises(EntryMismatch, match="SHA-256 differs"):
        client(site).open(PackageSpec("redact"))


@pytest.mark.req("PAINS-14")
def test_an_entry_whose_digest_cannot_be_checked_is_not_even_downloaded(site: Any, archive: Archive) -> None:
    site.serve_index(entry(sha256="md5:abc"))
    site.serve("/redact.zip", archive().data)
    with pytest.raises(RegistryIndexInvalid, match="no SHA-256 digest"):
        client(site).open(PackageSpec("redact"))
    assert site.asked == ["/registry.json"]


@pytest.mark.req("PLG-363")
@pytest.mark.parametrize(("inside", "what"), [({"name": "other"}, "name"), ({"version": "9.9.9"}, "version")])
def test_an_archive_of_another_package_than_the_listed_one_is_refused(
    site: Any, archive: Archive, inside: dict[str, str], what: str
) -> None:
    made = archive(**inside)
    site.serve_index(entry(sha256=made.sha256))
    site.serve("/redact.zip", made.data)
    reader = client(site).open(PackageSpec("redact"))
    with pytest.raises(EntryMismatch, match=f"lists redact 1.0.0, but the {what}"):
        reader.read_manifest()


def test_a_name_the_registry_does_not_list_downloads_nothing(site: Any) -> None:
    site.serve_index(entry())
    with pytest.raises(RegistryEntryNotFound):
        client(site).open(PackageSpec("redact", "2.0.0"))
    assert site.asked == ["/registry.json"]


def test_an_html_page_in_place_of_an_index_is_called_by_its_name(site: Any) -> None:
    site.serve(
        "/registry.json", b"<!doctype html><title>Sign in</title>", headers={"Content-Type": "text/html"}
    )
    with pytest.raises(RegistryIndexInvalid, match="an HTML page") as caught:
        client(site).index()
    assert caught.value.remedy is not None


def test_an_html_page_in_place_of_an_archive_is_no_archive(site: Any) -> None:
    site.serve_index(entry())
    site.serve("/redact.zip", b"<!doctype html>")
    with pytest.raises(ArchiveError):
        client(site).open(PackageSpec("redact")).read_manifest()


def test_a_listed_archive_that_is_gone_is_one_error(site: Any) -> None:
    site.serve_index(entry())
    with pytest.raises(RegistryError, match=r"redact\.zip answers 404"):
        client(site).open(PackageSpec("redact"))


def test_an_index_of_exactly_the_limit_is_read_and_one_byte_more_is_refused(site: Any) -> None:
    start, end = b'{"plugins": [], "padding": "', b'"}'
    fits = start + b"x" * (MAX_INDEX_BYTES - len(start) - len(end)) + end
    assert len(fits) == MAX_INDEX_BYTES
    site.serve("/registry.json", fits)
    assert client(site).index().plugins == ()
    site.serve("/registry.json", fits + b"\n")
    with pytest.raises(DownloadTooLarge, match=str(MAX_INDEX_BYTES)):
        client(site).index()


def test_an_archive_that_announces_more_than_the_limit_is_not_read(site: Any) -> None:
    site.serve_index(entry())
    site.serve("/redact.zip", b"", headers={"Content-Length": str(MAX_ARCHIVE_BYTES + 1)})
    with pytest.raises(DownloadTooLarge, match=str(MAX_ARCHIVE_BYTES)):
        client(site).open(PackageSpec("redact"))


def test_an_index_leads_to_no_file_of_this_machine(site: Any, tmp_path: Path, archive: Archive) -> None:
    (tmp_path / "redact.zip").write_bytes(archive().data)
    site.serve_index(entry(url=(tmp_path / "redact.zip").as_uri()))
    with pytest.raises(RegistryError, match="may only lead to"):
        client(site).open(PackageSpec("redact"))


def test_an_index_is_waited_for_less_long_than_an_archive(site: Any) -> None:
    site.serve_index()
    ticks = iter([0.0, 61.0])
    slow = RegistryClient(Location.parse(site.url("/registry.json")), Downloader(now=lambda: next(ticks)))
    with pytest.raises(RegistryError, match="did not finish within 60 seconds"):
        slow.index()


@pytest.mark.req("PLG-363")
def test_what_is_not_as_the_registry_lists_it_is_to_be_reported_and_not_installed(
    site: Any, archive: Archive
) -> None:
    made = archive(version="2.0.0")
    site.serve("/redact.zip", made.data)
    for listed in ({"sha256": "0" * 64}, {"sha256": made.sha256}):
        site.serve_index(entry(**listed))
        with pytest.raises(EntryMismatch) as caught:
            client(site).open(PackageSpec("redact")).read_manifest()
        assert caught.value.remedy is not None
        assert caught.value.remedy.action is RemedyAction.REPORT_TO_REGISTRY
        assert caught.value.remedy.arguments == {"package": "redact 1.0.0"}


def test_an_archives_fault_names_the_address_it_came_from(site: Any) -> None:
    site.serve_index(entry())
    url = site.serve("/redact.zip", b"no archive")
    with pytest.raises(ArchiveError, match=url):
        client(site).open(PackageSpec("redact"))
