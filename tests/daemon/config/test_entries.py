"""Rows of plugin instances: seeded without disturbing the file, and read as typed configuration."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from config_stores import set_properties

from zeroclaw_daemon.config.entries import ConfigRowStore
from zeroclaw_daemon.config.file import load
from zeroclaw_daemon.config.migration import ConfigOutdated
from zeroclaw_daemon.config.problems import ConfigFileInvalid
from zeroclaw_daemon.config.resolver import EntryResolver
from zeroclaw_daemon.config.source import FileSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_host.errors import ConfigInvalid
from zeroclaw_host.installation.rows import RowSeed
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import parse_manifest
from zeroclaw_host.services.sealing import KeyFile

SEED = RowSeed(InstanceIdentity.default_tool("acme"), ("a.example", "b.example"))
OTHER = 'schema_version = 1\n# mine\n[[plugins.entries]] # kept\nname = "zpi1_other"\n'

MANIFEST = b"""
name = "acme"
version = "1"
capabilities = ["tool"]
permissions = ["config_read"]
wasm_path = "a.wasm"
[config_schema]
type = "object"
additionalProperties = false
[config_schema.properties]
count = { type = "integer", minimum = 1 }
words = { type = "array", items = { type = "string" } }
token = { type = "string", x-secret = true }
"""


def key_of(file: Path) -> KeyFile:
    return KeyFile(file.with_name(".secret_key"))


def store_of(file: Path) -> ConfigStore:
    return ConfigStore(FileSource(file, {}), key_of(file))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "c" / "config.toml"


@pytest.mark.req("PLG-132")
@pytest.mark.parametrize(
    "before",
    [
        None,
        "",
        OTHER,
        "schema_version = 1\n[plugins]\nenabled = true\n",
        "schema_version = 1\n[gateway]\nport = 1 # one\n",
    ],
)
def test_a_row_is_added_and_undone_to_the_byte(file: Path, before: str | None) -> None:
    if before is not None:
        file.parent.mkdir()
        file.write_text(before)
    row = ConfigRowStore(store_of(file)).prepare(SEED)
    assert row.creates
    assert file.exists() == (before is not None)
    row.commit()
    entry = load(file).config.plugins.entry(SEED.key)
    assert entry is not None
    assert entry.egress_hosts == ("a.example", "b.example")
    for line in (before or "").splitlines():
        assert line in file.read_text()
    row.undo()
    row.undo()
    assert (file.read_text() if file.exists() else None) == before


def test_undoing_a_row_leaves_what_somebody_else_wrote_since(file: Path) -> None:
    file.parent.mkdir()
    file.write_text(OTHER)
    row = ConfigRowStore(store_of(file)).prepare(SEED)
    row.commit()
    set_properties(file, [("gateway.port", 5)])
    row.undo()
    config = load(file).config
    assert [entry.name for entry in config.plugins.entries] == ["zpi1_other"]
    assert config.gateway.port == 5


def test_an_existing_row_is_not_touched(file: Path) -> None:
    ConfigRowStore(store_of(file)).prepare(SEED).commit()
    before = file.read_bytes()
    again = ConfigRowStore(store_of(file)).prepare(SEED)
    assert not again.creates
    again.commit()
    again.undo()
    assert file.read_bytes() == before


def test_a_row_that_came_in_between_is_not_doubled(file: Path) -> None:
    first, second = ConfigRowStore(store_of(file)).prepare(SEED), ConfigRowStore(store_of(file)).prepare(SEED)
    first.commit()
    second.commit()
    assert len(tomllib.loads(file.read_text())["plugins"]["entries"]) == 1


def test_no_row_is_promised_in_a_file_that_cannot_be_read(file: Path) -> None:
    file.parent.mkdir()
    for text in ("[plugins.entries]\n", "[plugins\n"):
        file.write_text(text)
        with pytest.raises(ConfigFileInvalid):
            ConfigRowStore(store_of(file)).prepare(SEED)


@pytest.mark.req("PLG-368")
def test_no_row_is_promised_in_a_file_of_an_earlier_layout_unless_it_is_there(file: Path) -> None:
    file.parent.mkdir()
    file.write_text("[gateway]\nport = 1\n")
    with pytest.raises(ConfigOutdated):
        ConfigRowStore(store_of(file)).prepare(SEED)
    file.write_text(f'[[plugins.entries]]\nname = "{SEED.key}"\n')
    assert not ConfigRowStore(store_of(file)).prepare(SEED).creates


def resolver_and_scope(file: Path, config: dict[str, str]) -> tuple[EntryResolver, InstanceScope]:
    identity = InstanceIdentity.default_tool("acme")
    file.parent.mkdir(exist_ok=True)
    lines = [f"{name} = {json.dumps(text)}" for name, text in config.items()]
    row = (
        f'schema_version = 1\n[[plugins.entries]]\nname = "{identity.key}"\n[plugins.entries.config]\n'
        + "\n".join(lines)
    )
    # Rows named after the package alone are never consulted.
    file.write_text(f'{row}\n[[plugins.entries]]\nname = "acme"\n[plugins.entries.config]\ncount = "99"\n')
    return EntryResolver(lambda: load(file), key_of(file)), InstanceScope.admit(
        identity, parse_manifest(MANIFEST)
    )


@pytest.mark.req("PLG-135", "PLG-143", "PLG-148", "PLG-171")
def test_a_row_s_texts_become_the_typed_configuration_without_its_secrets(file: Path) -> None:
    resolver, scope = resolver_and_scope(file, {"count": "4", "words": '["a"]', "token": "hunter2"})
    resolved = resolver.resolve(scope)
    assert resolved.public == {"count": 4, "words": ["a"]}
    assert resolved.secrets == {"token": "hunter2"}
    assert "hunter2" not in repr(resolved)


@pytest.mark.req("PLG-169")
def test_a_changed_row_counts_from_the_next_resolution(file: Path) -> None:
    resolver, scope = resolver_and_scope(file, {"count": "4"})
    assert resolver.resolve(scope).public == {"count": 4}
    set_properties(file, [(f"plugins.entries.{scope.identity.key}.config.count", "5")])
    assert resolver.resolve(scope).public == {"count": 5}


@pytest.mark.req("PLG-149")
@pytest.mark.parametrize(
    "config", [{"count": "0"}, {"count": "x"}, {"unknown": "1"}, {"words": '["hunter2", 1]'}]
)
def test_a_row_that_breaks_the_schema_is_an_error_without_its_values(
    file: Path, config: dict[str, str]
) -> None:
    resolver, scope = resolver_and_scope(file, config)
    with pytest.raises(ConfigInvalid) as caught:
        resolver.resolve(scope)
    assert "hunter2" not in str(caught.value) + str(caught.value.details)


@pytest.mark.req("PLG-151")
def test_an_instance_that_may_not_read_its_configuration_gets_none(file: Path) -> None:
    resolver, scope = resolver_and_scope(file, {"count": "4", "token": "hunter2"})
    withheld = InstanceScope.admit(scope.identity, scope.manifest, grants=frozenset())
    resolved = resolver.resolve(withheld)
    assert (resolved.public, resolved.secrets) == ({}, {})
