"""Which keys maps may have, and what making, taking away and renaming them keeps (D-50)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st
from property_cases import FULL, OTHER_ROW, ROW

from zeroclaw_daemon.config import names
from zeroclaw_daemon.config.coercion import PropertyValueInvalid
from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.file import Snapshot, parse
from zeroclaw_daemon.config.map_keys import MapKeyExists, MapKeyNotFound, keys, map_at
from zeroclaw_daemon.config.problems import ConfigCandidateInvalid
from zeroclaw_daemon.config.properties import UnknownProperty
from zeroclaw_daemon.config.source import FileSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.services.sealing import KeyFile

NEW_ROW = InstanceIdentity.default_tool("weather").key


def snapshot_of(text: str) -> Snapshot:
    return parse(text.encode(), Path("c.toml"))


def changed(change: Callable[[Draft], None], text: str = FULL) -> str:
    draft = Draft(tomlkit.parse(text), lambda: snapshot_of(text))
    change(draft)
    return draft.document.as_string()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("agents", ("ada",)),
        ("providers.models", ("openai",)),
        ("providers.models.openai", ("main",)),
        ("providers.models.echo", ()),
        ("channels.plugin", ()),
        ("users", ("eve",)),
        ("permission_profiles", ("op",)),
        ("permission_profiles.op.grants", ("config",)),
        ("permission_profiles.other.grants", ()),
        ("plugins.entries", (ROW, OTHER_ROW)),
        (f"plugins.entries.{OTHER_ROW}.config", ("url", "a.b")),
        (f"plugins.entries.{OTHER_ROW}.tls_profiles", ("t",)),
    ],
)
def test_the_keys_of_every_map_are_told(path: str, expected: tuple[str, ...]) -> None:
    assert keys(snapshot_of(FULL).config, path) == expected


@pytest.mark.parametrize(
    "path", ["gateway", "gateway.port", "agents.ada", "", "nothing", "agents.ada.tools", "schema_version"]
)
def test_what_is_no_map_has_no_keys(path: str) -> None:
    with pytest.raises(UnknownProperty):
        map_at(path)
    with pytest.raises(UnknownProperty):
        keys(snapshot_of(FULL).config, path)


def test_the_keys_below_a_row_that_is_not_there_are_not_told() -> None:
    with pytest.raises(MapKeyNotFound, match=r"plugins\.entries has no key"):
        keys(snapshot_of(FULL).config, f"plugins.entries.{NEW_ROW}.config")


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("agents", "bob"),
        ("providers.models.openai", "other"),
        ("providers.models", "anthropic"),
        ("permission_profiles", "Read-only"),
        ("plugins.entries", NEW_ROW),
    ],
)
def test_a_key_is_made_and_taken_away_again(path: str, key: str) -> None:
    text = changed(lambda draft: draft.create_key(path, key))
    assert keys(snapshot_of(text).config, path)[-1] == key
    assert snapshot_of(text).problems == ()
    gone = changed(lambda draft: draft.delete_key(path, key), text)
    assert snapshot_of(gone).config == snapshot_of(FULL).config


@pytest.mark.parametrize(
    ("path", "key", "words"),
    [
        ("agents", "default", "reserved"),
        ("agents", "ops-team", "lowercase"),
        ("agents", "a__b", "lowercase"),
        ("agents", "a" * 64, "63"),
        ("agents", "", "lowercase"),
        ("channels.plugin", "a.b", "lowercase"),
        ("providers.models", "mystery", "one of echo"),
        ("users", "-eve", "1 to 64"),
        ("users", "e" * 65, "1 to 64"),
        ("permission_profiles", "a b", "1 to 64"),
        ("plugins.entries", "weather", "zpi1_"),
        ("plugins.entries", "zpi1_WyJ3Il0", "instance key"),
        ("plugins.entries", NEW_ROW + "=", "instance key"),
        (f"plugins.entries.{ROW}.tls_profiles", "a.b", "without dots"),
        (f"plugins.entries.{ROW}.config", "limit", "by setting"),
        ("permission_profiles.op.grants", "plugins", "by setting"),
        ("permission_profiles.op.grants", "weather", "one of system"),
    ],
)
def test_a_key_that_may_not_be_is_not_made(path: str, key: str, words: str) -> None:
    with pytest.raises(PropertyValueInvalid) as caught:
        changed(lambda draft: draft.create_key(path, key))
    assert words in caught.value.message
    assert caught.value.details["property"] == path


@pytest.mark.parametrize(
    ("path", "key"),
    [("agents", "ada"), ("users", "eve"), ("plugins.entries", ROW), ("providers.models", "openai")],
)
def test_a_key_that_is_there_is_not_made_again(path: str, key: str) -> None:
    with pytest.raises(MapKeyExists):
        changed(lambda draft: draft.create_key(path, key))


@pytest.mark.parametrize(
    ("path", "key", "close"),
    [
        ("agents", "adda", ("ada",)),
        ("plugins.entries", NEW_ROW, ()),
        ("permission_profiles.op.grants", "plugins", ()),
    ],
)
def test_a_key_that_is_not_there_is_not_taken_away(path: str, key: str, close: tuple[str, ...]) -> None:
    with pytest.raises(MapKeyNotFound) as caught:
        changed(lambda draft: draft.delete_key(path, key))
    suggestions = caught.value.details["suggestions"]
    assert not close or suggestions == close


def test_a_rename_keeps_values_place_and_comments() -> None:
    text = FULL.replace("[agents.ada]\n", "# about ada\n[agents.ada] # here\n").replace(
        'model = "m"', 'model = "m" # hers'
    )
    text = text.replace("[providers.models", "[agents.zoe]\n\n[providers.models")
    renamed = changed(lambda draft: draft.rename_key("agents", "ada", "bob"), text)
    assert renamed == text.replace("[agents.ada]", "[agents.bob]")
    assert keys(snapshot_of(renamed).config, "agents") == ("bob", "zoe")


@pytest.mark.parametrize(
    ("path", "old", "new", "error", "words"),
    [
        ("agents", "ada", "default", PropertyValueInvalid, "reserved"),
        ("agents", "ada", "Bob", PropertyValueInvalid, "lowercase"),
        ("agents", "nobody", "bob", MapKeyNotFound, "there is ada"),
        ("agents", "ada", "ada", MapKeyExists, "already"),
        ("plugins.entries", ROW, NEW_ROW, PropertyValueInvalid, "another's"),
        ("channels.plugin", "ops", "other", PropertyValueInvalid, "no row and no state"),
    ],
)
def test_a_rename_that_may_not_be_is_refused(
    path: str, old: str, new: str, error: type[Exception], words: str
) -> None:
    text = FULL + '[channels.plugin.ops]\npackage = "p"\n'
    with pytest.raises(error) as caught:
        changed(lambda draft: draft.rename_key(path, old, new), text)
    assert words in str(caught.value)


@pytest.mark.req("PLG-172")
def test_a_row_of_before_1_0_can_be_given_its_instances_key() -> None:
    text = FULL + '[[plugins.entries]]\nname = "weather" # old\nconfig = { a = "b" }\n'
    renamed = changed(lambda draft: draft.rename_key("plugins.entries", "weather", NEW_ROW), text)
    assert renamed == text.replace('name = "weather"', f'name = "{NEW_ROW}"')


@pytest.mark.req("RPC-248")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda draft: draft.rename_key("permission_profiles", "op", "operator"),
            "users.eve.permission_profiles: there is no permission profile op; there is operator",
        ),
        (
            lambda draft: draft.delete_key("permission_profiles", "op"),
            "users.eve.permission_profiles: there is no permission profile op; there is none",
        ),
        (
            lambda draft: draft.delete_key("providers.models.openai", "main"),
            "agents.ada.provider: there is no provider openai.main; there is echo",
        ),
        (
            lambda draft: draft.rename_key("providers.models.openai", "main", "first"),
            "agents.ada.provider: there is no provider openai.main; there is echo, openai.first",
        ),
        (lambda draft: draft.create_key("users", "bob"), "users.bob.uid: this key is required"),
        (
            lambda draft: draft.set("users.bob.uid", 1001),
            "users.bob.permission_profiles: this key is required",
        ),
    ],
)
def test_what_others_name_stays_until_they_name_something_else(
    tmp_path: Path, change: Callable[[Draft], None], words: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(FULL.replace('model = "m"', 'provider = "openai.main"'))
    before = file.read_bytes()
    store = ConfigStore(FileSource(file, {}), KeyFile(tmp_path / ".secret_key"))
    with pytest.raises(ConfigCandidateInvalid) as caught:
        store.commit(change)
    assert words in caught.value.message
    assert file.read_bytes() == before


def test_a_rename_and_who_names_it_go_in_one_step(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(FULL)
    store = ConfigStore(FileSource(file, {}), KeyFile(tmp_path / ".secret_key"))

    def change(draft: Draft) -> None:
        draft.rename_key("permission_profiles", "op", "operator")
        draft.set("users.eve.permission_profiles", ["operator"])

    config = store.commit(change).config
    assert config.users["eve"].permission_profiles == ("operator",)
    assert config.permission_profiles["operator"].admin


@given(text=st.text(max_size=70))
def test_an_alias_is_what_its_rule_says(text: str) -> None:
    letters = set("abcdefghijklmnopqrstuvwxyz0123456789")
    good = (
        1 <= len(text) <= 63
        and set(text) <= letters | {"_"}
        and "__" not in text
        and not text.startswith("_")
        and not text.endswith("_")
    )
    assert accepted(names.alias, text) == good
    assert accepted(names.agent_alias, text) == (good and text != "default")


@given(text=st.text(max_size=70) | st.from_regex(r"[A-Za-z0-9_-]{1,66}", fullmatch=True))
def test_the_name_of_a_user_is_what_its_rule_says(text: str) -> None:
    good = (
        1 <= len(text) <= 64
        and text[0] not in "_-"
        and all(c.isascii() and (c.isalnum() or c in "_-") for c in text)
    )
    assert accepted(names.principal, text) == good


def accepted(rule: Callable[[str], str], text: str) -> bool:
    try:
        return rule(text) == text
    except ValueError:
        return False


def test_setting_a_rows_name_is_renaming_it() -> None:
    """The same rules hold: an instance's row does not become another's by its name, and every other row may."""
    assert changed(lambda draft: draft.set(f"plugins.entries.{ROW}.name", ROW)) == FULL
    for name in (NEW_ROW, "weather"):
        with pytest.raises(PropertyValueInvalid, match="instance"):
            changed(lambda draft, name=name: draft.set(f"plugins.entries.{ROW}.name", name))
    profiles = f"plugins.entries.{OTHER_ROW}.tls_profiles"
    with pytest.raises(PropertyValueInvalid, match="without dots"):
        changed(lambda draft: draft.set(f"{profiles}.t.name", "a.b"))
    renamed = changed(lambda draft: draft.set(f"{profiles}.t.name", "u"))
    assert keys(snapshot_of(renamed).config, profiles) == ("u",)
    legacy = changed(
        lambda draft: draft.set("plugins.entries.weather.name", NEW_ROW), FULL.replace(ROW, "weather")
    )
    assert keys(snapshot_of(legacy).config, "plugins.entries") == (NEW_ROW, OTHER_ROW)
