"""Single properties: their paths, their values, and the document they are set in."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import property_cases
import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st
from property_cases import FULL, GRANTS, OTHER_ROW, PROFILES, ROW

from zeroclaw_daemon.config.coercion import MASK, PropertyValueInvalid, coerce
from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.file import parse
from zeroclaw_daemon.config.plugin_schema import PluginLimits
from zeroclaw_daemon.config.problems import ConfigCandidateInvalid
from zeroclaw_daemon.config.properties import (
    UnknownProperty,
    find_value,
    get_property,
    list_properties,
    segments_of,
)
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.config.shape import ROOT, MapOf, Node, RowsOf, TableOf, Value, ValueKind, children, step
from zeroclaw_daemon.config.source import FileSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_daemon.config.unnamed import unnamed
from zeroclaw_host.sandbox.limits import MOST, Limits
from zeroclaw_host.services.sealing import KeyFile


def config_of(text: str) -> Config:
    return parse(text.encode(), Path("c.toml")).config


def set_in(text: str, *values: tuple[str, object]) -> str:
    draft = Draft(tomlkit.parse(text), lambda: parse(text.encode(), Path("c.toml")))
    for path, value in values:
        draft.set(path, value)
    return draft.document.as_string()


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
            text = set_in(FULL, (each.path, each.value))
            assert config_of(text) == config
            if each.populated:
                assert text == FULL


def test_secrets_are_masked_wherever_they_are_listed() -> None:
    listed = {each.path: each for each in list_properties(config_of(FULL))}
    assert listed[f"plugins.entries.{ROW}.config.token"].value == MASK
    assert listed["providers.models.openai.main.api_key"].shown == MASK
    assert "hunter2" not in "".join(str(each) + each.shown for each in listed.values())


def test_a_prefix_selects_a_property_and_what_is_below_it() -> None:
    config = config_of(FULL)
    assert [each.path for each in list_properties(config, "plugins.enabled")] == ["plugins.enabled"]
    assert {each.path.split(".")[1] for each in list_properties(config, "agents.")} == {"ada"}
    assert list(list_properties(config, "plugins.ena")) == []


@pytest.mark.parametrize(("path", "closest"), property_cases.UNKNOWN)
def test_an_unknown_property_names_the_closest(path: str, closest: str) -> None:
    config = config_of(FULL)
    for look in (get_property, lambda config, path: find_value(path, config)):
        with pytest.raises(UnknownProperty, match="Unknown property") as caught:
            look(config, path)
        suggestions = caught.value.details["suggestions"]
        assert isinstance(suggestions, tuple)
        assert not closest or suggestions[0] == closest


@pytest.mark.req("PLG-217")
def test_a_row_that_does_not_exist_is_an_unknown_property() -> None:
    for text in (FULL, ""):
        with pytest.raises(UnknownProperty, match="Unknown property"):
            set_in(text, ("plugins.entries.zpi1_new.egress_hosts", "a.example"))


def stored_at(text: str, path: str) -> object:
    """What the file has for a property."""
    node: object = tomllib.loads(text)
    for key in segments_of(path):
        if isinstance(node, list):
            node = next(row for row in node if row["name"] == key)
        else:
            assert isinstance(node, dict)
            node = node.get(key)
    return node


@pytest.mark.req("RPC-071")
@pytest.mark.parametrize(("path", "given", "stored"), property_cases.ACCEPTED)
def test_a_value_is_read_as_its_property_wants_it(path: str, given: object, stored: object) -> None:
    text = set_in(FULL, (path, given))
    found = stored_at(text, path)
    assert found == stored
    assert type(found) is type(stored)
    assert parse(text.encode(), Path("c.toml")).problems == ()


@pytest.mark.req("RPC-071")
@pytest.mark.parametrize(("path", "given", "word"), property_cases.REFUSED)
def test_a_value_that_does_not_fit_is_refused_with_the_property_named(
    path: str, given: object, word: str
) -> None:
    with pytest.raises(PropertyValueInvalid) as caught:
        set_in(FULL, (path, given))
    assert word in caught.value.message
    assert path in caught.value.message
    assert caught.value.details["property"] == path


@pytest.mark.parametrize(
    ("given", "stored"), [("0.5", 0.5), (" -1e3 ", -1000.0), ("2", 2.0), (2, 2.0), (0.25, 0.25)]
)
def test_a_number_may_have_a_fraction_where_one_is_wanted(given: object, stored: float) -> None:
    assert coerce(Value(ValueKind.FLOAT), given, path="p") == stored


@pytest.mark.parametrize(
    "given",
    [
        "",
        "nan",
        "inf",
        "1e999",
        "1_0",
        ".5",
        "0x1",
        "1" * 65,
        10**400,
        float("inf"),
        float("nan"),
        True,
        [],
        None,
    ],
)
def test_what_is_no_finite_number_is_none(given: object) -> None:
    with pytest.raises(PropertyValueInvalid, match=r"number|float"):
        coerce(Value(ValueKind.FLOAT), given, path="p")


def test_an_optional_number_is_unset_by_nothing() -> None:
    for nothing in ("", None):
        assert coerce(Value(ValueKind.FLOAT, optional=True), nothing, path="p") is None


@pytest.mark.req("RPC-085")
def test_a_key_of_a_map_cannot_be_taken_away_by_a_value() -> None:
    for path in ("users.eve", "permission_profiles.op", "users", "plugins.entries", f"plugins.entries.{ROW}"):
        for nothing in (None, "", {}):
            with pytest.raises(UnknownProperty):
                set_in(FULL, (path, nothing))


def test_below_a_map_of_values_the_rest_of_the_path_is_one_key() -> None:
    path = f"plugins.entries.{OTHER_ROW}.config.a.b"
    assert segments_of(path) == ("plugins", "entries", OTHER_ROW, "config", "a.b")
    assert get_property(config_of(FULL), path).value == MASK
    changed = set_in(FULL, (path, "z"), (f"plugins.entries.{OTHER_ROW}.config.a b", "w"))
    assert tomllib.loads(changed)["plugins"]["entries"][1]["config"] == {"url": "x", "a.b": "z", "a b": "w"}


def test_what_no_path_can_name_is_not_listed_and_not_touched() -> None:
    text = FULL + '[[plugins.entries]]\nname = "weather.v1"\n[plugins.entries.config]\n"x\\u0007" = "y"\n'
    assert not [each.path for each in list_properties(config_of(text)) if "weather" in each.path]


def test_setting_a_whole_to_what_it_is_leaves_the_text_as_it_is() -> None:
    config = config_of(FULL)
    for path in (PROFILES, GRANTS):
        assert set_in(FULL, (path, get_property(config, path).value)) == FULL


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
        f"plugins.entries.{ROW}.egress_hosts",
        st.lists(st.sampled_from(["a.example", "b.example"]), max_size=4),
    ),
    (f"plugins.entries.{OTHER_ROW}.config.url", st.text(min_size=1, max_size=20)),
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
        wanted: object = [each for each in value if each.strip()] if isinstance(value, list) else value
        if path in now and now[path].type.kind is not ValueKind.SECRET:
            assert now[path].value == (None if wanted == "" and now[path].type.optional else wanted)
    for path in expected.keys() - dict(changes):
        assert now[path].value == expected[path]


# Several properties in one step.


@pytest.fixture
def store(tmp_path: Path) -> ConfigStore:
    file = tmp_path / "config.toml"
    file.write_text(FULL)
    return ConfigStore(FileSource(file, {}), KeyFile(tmp_path / ".secret_key"))


def setting(*values: tuple[str, object]) -> Callable[[Draft], None]:
    def change(draft: Draft) -> None:
        for path, value in values:
            draft.set(path, value)

    return change


@pytest.mark.req("RPC-073", "RPC-248")
def test_values_that_are_valid_only_together_are_taken_together_and_refused_alone(store: ConfigStore) -> None:
    before = store.path.read_bytes()
    uid, profiles = ("users.example.uid", 1002), ("users.example.permission_profiles", ["op"])
    for alone in (uid, profiles):
        with pytest.raises(ConfigCandidateInvalid, match="this key is required"):
            store.commit(setting(alone))
        assert store.path.read_bytes() == before
    for order in ((uid, profiles), (profiles, uid)):
        user = store.commit(setting(*order)).config.users["example"]
        assert (user.uid, user.permission_profiles) == (1002, ("op",))
        store.commit(lambda draft: draft.delete_key("users", "example"))


@pytest.mark.req("RPC-075")
def test_of_two_values_for_one_property_the_later_one_counts(store: ConfigStore) -> None:
    config = store.commit(setting(("gateway.port", 1), ("agents.ada.model", "x"), ("gateway.port", 2))).config
    assert config.gateway.port == 2
    assert store.path.read_text().count("port = ") == 1


@pytest.mark.req("RPC-248")
@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"uid": 1001, "permission_profiles": ["op"]},
            "users.example.uid: the users eve and example have the same uid",
        ),
        ({"uid": 1002, "permission_profiles": ["none"]}, "there is no permission profile none; there is op"),
        ({"uid": 1002, "permission_profiles": []}, "users.example.permission_profiles: must not be empty"),
        ({"uid": -1, "permission_profiles": ["op"]}, "users.example.uid: must be at least 0"),
        ({"uid": 2**32, "permission_profiles": ["op"]}, "users.example.uid: must be at most 4294967295"),
        (
            {"uid": 1002, "permission_profiles": ["op"], "principal_id": "eve"},
            "users.example.principal_id: the users eve and example have the same principal_id",
        ),
    ],
)
def test_users_that_do_not_go_together_are_refused(
    store: ConfigStore, values: dict[str, object], words: str
) -> None:
    before = store.path.read_bytes()
    with pytest.raises(ConfigCandidateInvalid) as caught:
        store.commit(setting(*((f"users.example.{name}", value) for name, value in values.items())))
    assert words in caught.value.message
    assert store.path.read_bytes() == before


def test_an_agent_needs_a_provider_that_is_there(store: ConfigStore) -> None:
    with pytest.raises(ConfigCandidateInvalid, match="there is no provider openai"):
        store.commit(setting(("agents.ada.provider", "openai.other")))
    store.commit(
        setting(("agents.ada.provider", "openai.other"), ("providers.models.openai.other.model", "m"))
    )


@pytest.mark.req("PLG-122", "PLG-021")
@pytest.mark.parametrize("name", [*MOST])
def test_a_limit_is_at_least_one_and_at_most_what_the_sandbox_takes(store: ConfigStore, name: str) -> None:
    path = f"plugins.limits.{name}"
    for good in (1, MOST[name]):
        store.commit(setting((path, good))).config.plugins.limits.as_limits()
    for bad in (0, -1, MOST[name] + 1):
        with pytest.raises((ConfigCandidateInvalid, PropertyValueInvalid), match="must be"):
            store.commit(setting((path, bad)))


def test_every_other_limit_is_the_sandboxs_own() -> None:
    assert {*PluginLimits.model_fields} - {*MOST} == {"max_connections_per_instance"}


@pytest.mark.req("PLG-226", "PLG-124")
def test_no_connections_at_all_can_be_set_and_is_no_limit_of_the_sandbox(store: ConfigStore) -> None:
    path = "plugins.limits.max_connections_per_instance"
    for good in (0, 1, 100_000):
        limits = store.commit(setting((path, good))).config.plugins.limits
        assert limits.max_connections_per_instance == good
        assert limits.as_limits() == Limits(call_fuel=limits.call_fuel)
    for bad in (-1, 100_001):
        with pytest.raises((ConfigCandidateInvalid, PropertyValueInvalid), match="must be"):
            store.commit(setting((path, bad)))


@pytest.mark.req("PLG-226")
def test_the_nat64_prefixes_are_of_the_whole_deployment_and_their_former_place_names_the_new_one(
    store: ConfigStore,
) -> None:
    config = store.commit(setting(("security.nat64_prefixes", ["2600:64::/32"]))).config
    assert config.security.nat64_prefixes == ("2600:64::/32",)
    with pytest.raises(UnknownProperty) as caught:
        store.commit(setting(("plugins.security.nat64_prefixes", [])))
    assert caught.value.details["suggestions"] == ("security.nat64_prefixes",)


@pytest.mark.req("PLG-121")
@pytest.mark.parametrize("mode", ["disabled", "permissive", "strict"])
def test_the_three_signature_modes_can_be_set(store: ConfigStore, mode: str) -> None:
    assert (
        store.commit(
            setting(("plugins.security.signature_mode", mode))
        ).config.plugins.security.signature_mode
        == mode
    )


def test_the_waiting_times_of_an_agent_have_their_defaults() -> None:
    ada = config_of(FULL).agents["ada"]
    assert (ada.approval_timeout_secs, ada.ask_timeout_secs) == (120, 300)


def test_a_variable_names_a_value_of_an_instance_as_a_path_does() -> None:
    name = f"ZEROCLAW_plugins__entries__{OTHER_ROW}__config__a__b"
    row = parse(FULL.encode(), Path("c.toml"), env={name: "z"}).config.plugins.entry(OTHER_ROW)
    assert row is not None
    assert {key: text.get_secret_value() for key, text in row.config.items()} == {"url": "x", "a.b": "z"}


def test_what_no_path_can_name_is_told_and_all_else_is_listed() -> None:
    config = config_of(
        f"""
        [[plugins.entries]]
        name = "old.package"
        [plugins.entries.config]
        token = "hunter2"
        [[plugins.entries]]
        name = "{ROW}"
        [plugins.entries.config]
        "a.b" = "1"
        "a\\u001b" = "2"
        [[plugins.entries.tls_profiles]]
        name = "p.q"
        hosts = ["h"]
        [agents.ada]
        """
    )
    assert list(unnamed(config)) == [
        ("plugins.entries", "old.package"),
        (f"plugins.entries.{ROW}.config", "a\x1b"),
        (f"plugins.entries.{ROW}.tls_profiles", "p.q"),
    ]
    listed = [each.path for each in list_properties(config)]
    assert f"plugins.entries.{ROW}.config.a.b" in listed
    assert not any("old" in path or "p.q" in path or "\x1b" in path for path in listed)
    assert not list(unnamed(config_of(FULL)))
