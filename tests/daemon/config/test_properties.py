"""Single properties: their paths, their values, and the document they are set in."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.config.file import parse
from zeroclaw_daemon.config.properties import (
    MASK,
    PropertyValueInvalid,
    UnknownProperty,
    get_property,
    list_properties,
)
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.config.shape import ROOT, MapOf, Node, RowsOf, TableOf, Value, ValueKind, children, step
from zeroclaw_daemon.config.writing import assign

FULL = """\
schema_version = 1

# the plugin host
[plugins]
enabled = true # yes

[[plugins.entries]]
name = "zpi1_a"
egress_hosts = ["a.example"]
config = { token = "hunter2" } # inline

[[plugins.entries]]
name = "zpi1_b"
[plugins.entries.config]
url = "x"
[[plugins.entries.tls_profiles]]
name = "t"
hosts = ["a.example"]

[agents.ada]
model = "m"

[providers.models.openai.main]
api_key = "hunter2"

[plugins.limits]
call_fuel = 7

[permission_profiles.op]
admin = true
[permission_profiles.op.grants]
config = ["read", "update"]

[users.eve]
uid = 1001
permission_profiles = ["op"]
"""


def config_of(text: str) -> Config:
    return parse(text.encode(), Path("c.toml")).config


def set_in(text: str, *values: tuple[str, object]) -> str:
    document = tomlkit.parse(text)
    for path, value in values:
        assign(document, path, value)
    return document.as_string()


def every_table(node: Node = ROOT) -> Iterator[TableOf]:
    match node:
        case TableOf():
            yield node
            for key in children(node):
                inner = step(node, key)
                assert inner is not None
                yield from every_table(inner)
        case RowsOf(model):
            yield from every_table(TableOf(model))
        case MapOf():
            inner = step(node, "x")
            assert inner is not None
            yield from every_table(inner)
        case Value():
            return


def test_every_key_of_the_schema_says_what_it_is_for() -> None:
    silent = [
        f"{table.model.__name__}.{name}"
        for table in every_table()
        for name, field in table.model.model_fields.items()
        if not (field.description or "").endswith(".")
    ]
    assert silent == []


def test_every_listed_property_can_be_got_and_set_to_what_it_is() -> None:
    config = config_of(FULL)
    listed = list(list_properties(config))
    assert len({each.path for each in listed}) == len(listed) > 40
    for each in listed:
        assert get_property(config, each.path) == each
        if each.type.kind is not ValueKind.SECRET:
            value = list(each.value) if isinstance(each.value, tuple) else each.value
            text = set_in(FULL, (each.path, value))
            assert config_of(text) == config
            if each.populated:
                assert text == FULL


def test_secrets_are_masked_wherever_they_are_listed() -> None:
    listed = {each.path: each for each in list_properties(config_of(FULL))}
    assert listed["plugins.entries.zpi1_a.config.token"].value == MASK
    assert listed["providers.models.openai.main.api_key"].shown == MASK
    assert "hunter2" not in "".join(str(each) + each.shown for each in listed.values())


def test_a_prefix_selects_a_property_and_what_is_below_it() -> None:
    config = config_of(FULL)
    assert [each.path for each in list_properties(config, "plugins.enabled")] == ["plugins.enabled"]
    assert {each.path.split(".")[1] for each in list_properties(config, "agents.")} == {"ada"}
    assert list(list_properties(config, "plugins.ena")) == []


@pytest.mark.parametrize(
    ("path", "closest"),
    [
        ("plugins.enabld", "plugins.enabled"),
        ("plugin.enabled", "plugins.enabled"),
        ("gateway.prot", "gateway.port"),
        ("plugins", ""),
        ("", ""),
        ("agents.nobody.model", "agents.ada.model"),
    ],
)
def test_an_unknown_property_names_the_closest(path: str, closest: str) -> None:
    with pytest.raises(UnknownProperty, match="Unknown property") as caught:
        get_property(config_of(FULL), path)
    suggestions = caught.value.details["suggestions"]
    assert isinstance(suggestions, tuple)
    assert not closest or suggestions[0] == closest


@pytest.mark.req("PLG-217")
def test_a_row_that_does_not_exist_is_an_unknown_property() -> None:
    for text in (FULL, ""):
        with pytest.raises(UnknownProperty, match="Unknown property"):
            set_in(text, ("plugins.entries.zpi1_new.egress_hosts", "a.example"))


@pytest.mark.parametrize(
    ("path", "given", "stored"),
    [
        ("plugins.enabled", "true", True),
        ("plugins.enabled", False, False),
        ("gateway.port", "80", 80),
        ("gateway.port", 80, 80),
        ("gateway.port", 80.0, 80),
        ("memory.backend", "x y", "x y"),
        ("memory.backend", 5, "5"),
        ("memory.backend", True, "true"),
        ("plugins.security.signature_mode", "strict", "strict"),
        ("plugins.security.trusted_publisher_keys", "a, b,,", ["a", "b"]),
        ("plugins.security.trusted_publisher_keys", '["a,b", ""]', ["a,b"]),
        ("plugins.security.trusted_publisher_keys", ["a", " "], ["a"]),
        ("plugins.security.trusted_publisher_keys", "", []),
        ("plugins.entries.zpi1_a.config.pattern", "[", "["),
        ("plugins.entries.zpi1_b.tls_profiles.t.system_roots", "false", False),
        ("permission_profiles.op.grants.plugins", "read", ["read"]),
        ("agents.newcomer.model", "m", "m"),
        ("providers.models.openai.other.api_key", "k", "k"),
    ],
)
def test_a_value_is_read_as_its_property_wants_it(path: str, given: object, stored: object) -> None:
    document = tomllib.loads(set_in(FULL, (path, given)))
    node: object = document
    for key in path.split("."):
        if isinstance(node, list):
            node = next(row for row in node if row["name"] == key)
        else:
            assert isinstance(node, dict)
            node = node[key]
    assert node == stored
    assert type(node) is type(stored)


@pytest.mark.parametrize(
    ("path", "given", "message"),
    [
        ("plugins.enabled", "yes", "true or false"),
        ("plugins.enabled", 1, "bool"),
        ("plugins.enabled", None, "true or false"),
        ("gateway.port", "1.5", "whole number"),
        ("gateway.port", 1.5, "integer"),
        ("gateway.port", True, "integer"),
        ("gateway.port", "", "whole number"),
        ("gateway.port", "9" * 5000, "whole number"),
        ("memory.backend", ["a"], "string"),
        ("plugins.security.signature_mode", "stirct", "one of disabled, permissive, strict"),
        ("plugins.security.trusted_publisher_keys", ["a", 1], "element 1"),
        ("plugins.security.trusted_publisher_keys", {"a": 1}, "string-array"),
        ("plugins.security.trusted_publisher_keys", "[1", "JSON array"),
        ("permission_profiles.op.grants.config", "erase", "one of create"),
        ("providers.models.openai.main.api_key", "", "mask"),
        ("providers.models.openai.main.api_key", "****", "mask"),
        ("providers.models.openai.main.api_key", MASK, "mask"),
        ("agents.default.model", "m", "reserved"),
        ("agents.ops-team.model", "m", "lowercase"),
        ("agents.a__b.model", "m", "lowercase"),
        ("providers.models.mystery.a.model", "m", "one of echo"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_the_property_named(
    path: str, given: object, message: str
) -> None:
    with pytest.raises(PropertyValueInvalid, match=message) as caught:
        set_in(FULL, (path, given))
    assert path in caught.value.message


def test_an_empty_text_or_null_unsets_an_optional_property() -> None:
    for nothing in ("", None):
        assert "model = " not in set_in('[agents.ada]\nmodel = "m"\n', ("agents.ada.model", nothing))
        assert set_in("", ("plugins.registry_url", nothing), ("agents.bob.model", nothing)) == ""


def test_a_refused_secret_is_not_repeated() -> None:
    with pytest.raises(PropertyValueInvalid) as caught:
        set_in(FULL, ("providers.models.openai.main.api_key", {"k": "hunter2"}))
    assert "hunter2" not in str(caught.value)


SETTABLE = (
    ("plugins.enabled", st.booleans()),
    ("plugins.registry_url", st.text(max_size=20)),
    ("plugins.limits.call_fuel", st.integers(1, 10**9)),
    ("plugins.security.trusted_publisher_keys", st.lists(st.text(min_size=1, max_size=8), max_size=5)),
    (
        "plugins.entries.zpi1_a.egress_hosts",
        st.lists(st.sampled_from(["a.example", "b.example"]), max_size=4),
    ),
    ("plugins.entries.zpi1_b.config.url", st.text(min_size=1, max_size=20)),
    ("agents.ada.system_prompt", st.text(max_size=30)),
    ("agents.bob.max_steps", st.integers(1, 50)),
    ("gateway.port", st.integers(0, 65535)),
    ("channels.plugin.ops.package", st.text(min_size=1, max_size=10)),
    ("providers.models.openai.main.model", st.text(min_size=1, max_size=10)),
    ("users.eve.permission_profiles", st.just(["op"])),
)


@given(
    start=st.sampled_from(["", "[plugins]\n", "[plugins.security]\n[gateway]\n", "# only a comment\n"]),
    full=st.booleans(),
    changes=st.lists(st.one_of(*(st.tuples(st.just(path), values) for path, values in SETTABLE)), max_size=8),
)
def test_any_changes_come_back_as_set_and_disturb_nothing_else(
    start: str, full: bool, changes: list[tuple[str, object]]
) -> None:
    text = FULL if full else start
    if not full:
        changes = [each for each in changes if not each[0].startswith(("plugins.entries", "users"))]
    expected = {each.path: each.value for each in list_properties(config_of(text))}
    changed = set_in(text, *changes)
    for comment in ("# the plugin host", "# yes", "# inline", "# only a comment"):
        assert text.count(comment) == changed.count(comment) or comment in str(changes)
    config = config_of(changed)
    assert parse(changed.encode(), Path("c.toml")).problems == ()
    now = {each.path: each for each in list_properties(config)}
    for path, value in dict(changes).items():
        wanted: object = tuple(each for each in value if each.strip()) if isinstance(value, list) else value
        if path in now and now[path].type.kind is not ValueKind.SECRET:
            assert now[path].value == (None if wanted == "" and now[path].type.optional else wanted)
    for path in expected.keys() - dict(changes):
        assert now[path].value == expected[path]
