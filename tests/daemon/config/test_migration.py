"""Files of an earlier layout: read as ever, written by nobody but a migration, which says what it did and what it left."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from config_stores import STEPS, Broken, command, key_of, left_behind, live

from zeroclaw_daemon.config.document.location import Place
from zeroclaw_daemon.config.file import load
from zeroclaw_daemon.config.migration import ConfigOutdated, ConfigTooNew
from zeroclaw_daemon.config.problems import ConfigFileInvalid, ConfigSyntaxInvalid
from zeroclaw_daemon.config.resolver import EntryResolver
from zeroclaw_host.errors import RemedyAction, StorageError
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import parse_manifest

KEY = InstanceIdentity.default_tool("acme").key
OLD = """\
# of the first days
[plugins]
enabled = true # since May

[[plugins.entries]]
name = "acme" # the weather
[plugins.entries.config]
city = "Oslo" # where

[[plugins.entries]]
name = "unknown"

[gateway]
port = 1
"""
MANIFEST = b"""
name = "acme"
version = "1"
capabilities = ["tool"]
permissions = ["config_read"]
wasm_path = "a.wasm"
[config_schema]
type = "object"
additionalProperties = false
properties.city = { type = "string" }
"""


def key_for(name: str) -> str | None:
    return KEY if name == "acme" else None


def nothing_known(name: str) -> str | None:
    return None


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(OLD)
    return path


def city(file: Path) -> object:
    scope = InstanceScope.admit(InstanceIdentity.default_tool("acme"), parse_manifest(MANIFEST))
    return EntryResolver(lambda: load(file), key_of(file)).resolve(scope).public.get("city")


@pytest.mark.req("PLG-368")
@pytest.mark.parametrize("text", [OLD, "schema_version = 0\n" + OLD, "gateway.port = 1\n"])
def test_an_older_file_is_read_and_refuses_every_write_until_it_is_migrated(file: Path, text: str) -> None:
    file.write_text(text)
    store = live(file)
    assert store.current().config.gateway.port == 1
    with pytest.raises(ConfigOutdated) as caught:
        store.commit(lambda draft: draft.set("gateway.port", 2))
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.MIGRATE_CONFIG
    with pytest.raises(ConfigOutdated):
        store.check_writable()
    assert file.read_text() == text
    assert store.current().config.gateway.port == 1
    migration = store.migrate(nothing_known)
    assert (migration.from_version, migration.to_version, migration.changed) == (0, 1, True)
    store.check_writable()
    assert store.commit(lambda draft: draft.set("gateway.port", 2)).config.gateway.port == 2
    assert load(file).config.schema_version == 1


@pytest.mark.req("PLG-368")
def test_a_newer_file_is_written_by_nobody(file: Path) -> None:
    file.write_text("schema_version = 2\n")
    store = command(file)
    for write in (
        lambda: store.commit(lambda draft: draft.set("gateway.port", 2)),
        lambda: store.migrate(key_for),
    ):
        with pytest.raises(ConfigTooNew, match="layout 2"):
            write()
    assert file.read_text() == "schema_version = 2\n"


@pytest.mark.req("PLG-368")
@pytest.mark.parametrize("text", [None, "", "\n", "# only a remark\n"])
def test_a_file_that_says_nothing_is_of_today_and_is_stamped_by_its_first_write(
    file: Path, text: str | None
) -> None:
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    store = command(file)
    assert not store.migrate(key_for).changed
    assert (file.read_text() if file.exists() else None) == text
    store.commit(lambda draft: draft.set("gateway.port", 2))
    assert load(file).config.schema_version == 1
    assert (text or "").strip() in file.read_text()


@pytest.mark.req("PLG-172", "PLG-139")
def test_a_migration_renames_what_it_can_reports_the_rest_and_keeps_the_text(file: Path) -> None:
    assert city(file) is None, "a row of a former name is consulted by nobody"
    steps = Broken("none")
    migration = command(file, steps=steps).migrate(key_for)
    assert migration.renamed == (("acme", KEY),)
    assert [(row.name, row.place) for row in migration.left] == [("unknown", Place(11, 1))]
    assert (migration.sealed, migration.unreadable) == (1, ())
    assert steps.done.count("rename") == 1
    sealed = load(file).config.plugins.entries[0].config["city"].get_secret_value()
    assert file.read_text() == "schema_version = 1\n\n" + OLD.replace('"acme"', f'"{KEY}"').replace(
        '"Oslo"', f'"{sealed}"'
    )
    assert city(file) == "Oslo"
    again = command(file).migrate(key_for)
    assert (again.from_version, again.changed, again.renamed, again.sealed) == (1, False, (), 0)
    assert [row.name for row in again.left] == ["unknown"]


@pytest.mark.req("PLG-172")
def test_a_row_renamed_by_hand_is_in_force_as_well(file: Path) -> None:
    file.write_text(OLD.replace('"acme"', f'"{KEY}"'))
    assert city(file) == "Oslo"


def test_a_row_whose_instance_has_one_already_stays(file: Path) -> None:
    file.write_text(OLD + f'[[plugins.entries]]\nname = "{KEY}"\n')
    migration = command(file).migrate(key_for)
    assert migration.renamed == ()
    assert [row.name for row in migration.left] == ["acme", "unknown"]
    assert KEY in migration.left[0].reason


def test_a_version_that_is_said_is_changed_in_its_place(file: Path) -> None:
    file.write_text("# top\r\nschema_version = 0 # old\r\n[gateway]\r\nport = 1\r\n")
    command(file).migrate(key_for)
    assert file.read_bytes() == b"# top\r\nschema_version = 1 # old\r\n[gateway]\r\nport = 1\r\n"
    file.write_bytes(b"[gateway]\r\nport = 1\r\n")
    command(file).migrate(key_for)
    assert file.read_bytes() == b"schema_version = 1\r\n\r\n[gateway]\r\nport = 1\r\n"


def test_what_cannot_be_unsealed_is_reported_and_left(file: Path) -> None:
    key_of(file).read_or_create()
    file.write_text(OLD.replace('"Oslo"', '"enc:zz"'))
    migration = command(file).migrate(key_for)
    assert migration.unreadable == (f"plugins.entries.{KEY}.config.city",)
    assert '"enc:zz"' in file.read_text()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[gateway\n", ConfigSyntaxInvalid),
        (OLD + "prot = 1\n", ConfigFileInvalid),
        ("schema_version = []\n", ConfigFileInvalid),
    ],
)
def test_a_broken_file_is_not_migrated(file: Path, text: str, error: type[Exception]) -> None:
    file.write_text(text)
    with pytest.raises(error, match=f"{file}:"):
        command(file).migrate(key_for)
    assert file.read_text() == text


@pytest.mark.parametrize("step", STEPS)
def test_a_migration_that_fails_at_any_step_leaves_the_old_file(file: Path, step: str) -> None:
    with pytest.raises(StorageError):
        command(file, steps=Broken(step, errno.ENOSPC)).migrate(key_for)
    assert file.read_text() == OLD
    assert left_behind(file) == []
    assert command(file).migrate(key_for).changed
