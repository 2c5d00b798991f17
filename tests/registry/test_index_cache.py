"""The index that is kept for when a registry cannot be reached."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from zeroclaw_host.errors import RegistryError
from zeroclaw_host.registry.client import RegistryClient
from zeroclaw_host.registry.index_cache import IndexCache
from zeroclaw_host.registry.location import Location

ENTRY = {"name": "redact", "version": "1.0.0", "url": "redact.zip", "provides": "irc"}


@pytest.fixture
def cache(tmp_path: Path) -> IndexCache:
    return IndexCache(tmp_path / "plugin-registry" / "registry.json")


def client(base: str, cache: IndexCache) -> RegistryClient:
    return RegistryClient(Location.parse(base), cache=cache)


def test_what_was_served_is_kept_readable_with_whose_it_is_and_nothing_lost(site, cache: IndexCache) -> None:
    address = site.serve_index(ENTRY)
    credentials = address.replace("http://", "http://ada:secret@")
    index = client(credentials, cache).index()
    kept = json.loads(cache.path.read_text())
    assert kept == {"plugins": [ENTRY], "registry_url": address}
    assert cache.path.read_text().startswith('{\n  "plugins"')
    assert [path.name for path in cache.path.parent.iterdir()] == ["registry.json"]
    found = client(credentials, cache).last_index()
    assert found is not None
    assert found.index == index
    assert found.fetched.timestamp() == pytest.approx(cache.path.stat().st_mtime)


def test_an_index_of_another_registry_or_a_spoiled_one_is_none(site, cache: IndexCache) -> None:
    address = site.serve_index(ENTRY)
    assert client(address, cache).last_index() is None
    client(address, cache).index()
    assert client(site.url("/other.json"), cache).last_index() is None
    for spoiled in (b"", b"[]", b"{", b'{"registry_url": "%s"}' % address.encode(), b"\xff", b"[" * 100_000):
        cache.path.write_bytes(spoiled)
        assert client(address, cache).last_index() is None
    cache.path.unlink()
    os.mkfifo(cache.path)
    assert client(address, cache).last_index() is None


def test_a_registry_that_serves_nonsense_does_not_take_the_place_of_what_it_served_before(
    site, cache: IndexCache
) -> None:
    address = site.serve_index(ENTRY)
    client(address, cache).index()
    site.serve("/registry.json", b"<html>")
    with pytest.raises(RegistryError):
        client(address, cache).index()
    assert client(address, cache).last_index() is not None


def test_a_cache_that_cannot_be_written_is_no_error(site, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    broken = IndexCache(tmp_path / "file" / "registry.json")
    assert client(site.serve_index(ENTRY), broken).index().plugins
    assert client(site.url("/registry.json"), broken).last_index() is None
