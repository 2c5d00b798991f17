from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import RegistryError, RemedyAction
from zeroclaw_host.registry.download import Downloader
from zeroclaw_host.registry.location import Location, RegistryNotNamed, choose_registry, without_secrets


def test_a_path_becomes_an_absolute_file_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    location = Location.parse("a registry/index.json")
    assert location.url == f"{tmp_path.as_uri()}/a%20registry/index.json"
    assert location.path == tmp_path / "a registry" / "index.json"


@pytest.mark.parametrize("form", ["{path}", "{path}/", "{url}", "{url}/"])
def test_a_directory_means_the_index_in_it(tmp_path: Path, form: str) -> None:
    text = form.format(path=tmp_path, url=tmp_path.as_uri())
    assert Location.parse(text).path == tmp_path / "registry.json"


def test_a_url_that_ends_in_a_slash_means_the_index_below_it() -> None:
    assert Location.parse("https://r.test/p/").url == "https://r.test/p/registry.json"
    assert Location.parse("https://r.test/p").url == "https://r.test/p"


def test_the_tilde_means_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Location.parse("~/r.json").path == tmp_path / "r.json"


@pytest.mark.parametrize(
    "text", ["ftp://r.test/x", "https://", "http:///x", "javascript://x/", "https://[::1/x"]
)
def test_what_cannot_be_a_registry_is_refused_and_says_how_to_name_one(text: str) -> None:
    with pytest.raises(RegistryNotNamed) as caught:
        Location.parse(text)
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.NAME_REGISTRY


def test_a_file_on_another_machine_is_refused() -> None:
    with pytest.raises(RegistryNotNamed, match="another machine"):
        Location.parse("file://server/share/registry.json")


@pytest.mark.parametrize("text", ["a\0b", "file:///a%00b", "file:///a/registry.json\0"])
def test_what_no_path_can_be_is_refused(text: str) -> None:
    with pytest.raises(RegistryNotNamed, match="is no path"):
        Location.parse(text)


def test_the_first_registry_that_is_not_blank_wins() -> None:
    assert choose_registry(None, "  ", "https://b.test/i", "https://c.test/i").url == "https://b.test/i"


def test_without_any_registry_the_error_says_how_to_name_one() -> None:
    with pytest.raises(RegistryNotNamed, match="no registry is named") as caught:
        choose_registry(None, "", " \n")
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.NAME_REGISTRY


@pytest.mark.parametrize(
    ("base", "url", "meant"),
    [
        ("https://r.test/a/registry.json", "x.zip", "https://r.test/a/x.zip"),
        ("https://r.test/a/registry.json", "../x.zip", "https://r.test/x.zip"),
        ("https://r.test/a/registry.json", "https://cdn.test/x.zip", "https://cdn.test/x.zip"),
        ("http://r.test/registry.json", "//cdn.test/x.zip", "http://cdn.test/x.zip"),
        ("http://r.test/registry.json", "https://cdn.test/x.zip", "https://cdn.test/x.zip"),
        ("file:///srv/r/registry.json", "x.zip", "file:///srv/r/x.zip"),
        ("file:///srv/r/registry.json", "http://cdn.test/x.zip", "http://cdn.test/x.zip"),
    ],
)
def test_an_address_in_an_index_is_relative_to_the_index(base: str, url: str, meant: str) -> None:
    assert Location(base).follow(url).url == meant


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://r.test/registry.json", "file:///etc/passwd"),
        ("https://r.test/registry.json", "file:///etc/passwd"),
        ("https://r.test/registry.json", "http://r.test/x.zip"),
        ("http://r.test/registry.json", "ftp://r.test/x.zip"),
        ("http://r.test/registry.json", "data:text/plain,x"),
    ],
)
def test_no_index_leads_onto_this_machines_files_or_off_tls(base: str, url: str) -> None:
    with pytest.raises(RegistryError, match="may only lead to"):
        Location(base).follow(url)


def test_credentials_in_an_address_appear_in_no_text_of_it() -> None:
    location = Location.parse("https://user:hunter2@r.test/i.json?token=hunter2#hunter2")
    assert "hunter2" not in str(location) + repr(location)
    assert str(location) == "https://r.test/i.json"
    assert "hunter2" in location.url


@given(st.text(max_size=60))
def test_any_text_is_a_location_or_one_error(text: str) -> None:
    with contextlib.suppress(RegistryError):
        location = Location.parse(text)
        assert location.scheme in ("file", "http", "https")
        assert location.scheme != "file" or location.path.is_absolute()
    assert "hunter2" not in without_secrets(f"https://hunter2@{text}")


@pytest.mark.parametrize("url", ["http://[::1", "https://[x]/a.zip", "//["])
@pytest.mark.parametrize("base", ["https://r.test/registry.json", "file:///srv/r/registry.json"])
def test_what_is_no_address_at_all_leads_nowhere(base: str, url: str) -> None:
    with pytest.raises(RegistryError, match="that is no URL"):
        Location(base).follow(url)


@given(st.text(max_size=60) | st.text("hps:/[]@?#\\\\.x1%", max_size=20))
def test_any_text_in_an_index_leads_somewhere_allowed_or_nowhere(url: str) -> None:
    with contextlib.suppress(RegistryError):
        assert Location("https://r.test/registry.json").follow(url).scheme == "https"


def test_an_address_is_shown_on_one_line_that_steers_no_terminal_and_has_an_end() -> None:
    shown = str(Location("https://r.test/\x1b[2J\u202e\x9b\udc80" + "a" * 5000))
    assert shown.isprintable()
    assert shown.startswith("https://r.test/\\x1b[2J\\u202e\\x9b\\udc80aaa")
    assert len(shown) < 500


def test_a_path_longer_than_any_is_one_error_when_it_is_read() -> None:
    with pytest.raises(RegistryError, match="file name too long"):
        Downloader().fetch(Location.parse("/" + "a" * 5000), limit=1)
