"""A draft against an obvious model: any sequence of changes, in a file of any style, means what it should."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroclaw_daemon.config.coercion import PropertyError
from zeroclaw_daemon.config.document.fidelity import faithful
from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.file import parse
from zeroclaw_daemon.config.map_keys import MapKeyExists, MapKeyNotFound
from zeroclaw_daemon.config.properties import segments_of
from zeroclaw_host.instance import InstanceIdentity

ONE, TWO = (InstanceIdentity.default_tool(name).key for name in "ab")
STYLES = [
    "",
    "# only a remark\n",
    '[agents.ada] # hers\nmodel = "m" # m\n',
    'agents.ada.model = "m"\nagents.bob.model = "b"\n',
    'agents = { ada = { model = "m" }, bob = {} } # inline\n',
    '[agents]\nada.model = "m"\nada.max_steps = 2\nbob.model = "z"\n',
    '[agents.ada]\nmodel = "m"\n[gateway]\nport = 1\n[agents.bob]\nmodel="b"\n',
    '[agents."ada"]\nmodel = "m"\n\n# about plugins\n[plugins]\nenabled = true\n[plugins.security]\n'
    'signature_mode="strict"\n[gateway]\nport=2\n[plugins.limits]\ncall_fuel=5\n',
    f'[plugins]\nentries = [{{name = "{ONE}", config = {{a = "1"}}}}]\n',
    f'[[plugins.entries]]\nname="{ONE}"\n[plugins.entries.config]\na="1" # one\n[plugins.limits]\ncall_fuel=1\n'
    f'[[plugins.entries]]\nname="{TWO}"\n',
    'plugins.enabled = true\n[providers.models.openai.x]\nmodel="m"\n[providers.models.echo.y]\n'
    '[permission_profiles.p]\n[users.u]\nuid=1\npermission_profiles=["p"]\n',
    '[providers]\nmodels.openai.x.model = "m"\n[memory]\n# inside memory\n[permission_profiles.p.grants]\n'
    'config=["read"]\n',
    'plugins.enabled = true\nagents.ada.model = "m"\n',
    f'[[plugins.entries]] # one\nname="{ONE}"\n[gateway]\nport=1\n[[plugins.entries]]\nname="{TWO}"\n'
    '[agents.ada]\nmodel = "m"\n',
]

ALIASES = st.sampled_from(["ada", "bob", "eve"])
ROWS = st.sampled_from([ONE, TWO])
TEXTS = st.sampled_from(["q", "w"])
NUMBERS = st.integers(1, 9)


def row(rest: str) -> st.SearchStrategy[str]:
    return ROWS.map(lambda key: f"plugins.entries.{key}{rest}")


OPERATIONS: st.SearchStrategy[tuple[Any, ...]] = st.one_of(
    st.tuples(st.just("set"), ALIASES.map("agents.{}.model".format), TEXTS),
    st.tuples(st.just("set"), ALIASES.map("agents.{}.max_steps".format), NUMBERS),
    st.tuples(st.just("set"), st.sampled_from(["gateway.port", "plugins.limits.call_fuel"]), NUMBERS),
    st.tuples(st.just("set"), st.just("plugins.enabled"), st.booleans()),
    st.tuples(st.just("set"), row(".config.a") | row(".config.b"), TEXTS),
    st.tuples(st.just("set"), row(".egress_hosts"), st.just(["a.example"])),
    st.tuples(st.just("set"), st.just("providers.models.openai.x.model"), TEXTS),
    st.tuples(st.just("set"), st.just("permission_profiles.p.allowed_tools"), st.just(["a", "b", "c", "d"])),
    st.tuples(st.just("set"), st.just("permission_profiles.p.grants.config"), st.just(["read", "update"])),
    st.tuples(
        st.just("unset"), ALIASES.map("agents.{}.model".format) | row(".config.a") | st.just("gateway.port")
    ),
    st.tuples(st.just("create"), st.sampled_from(["agents", "permission_profiles"]), ALIASES),
    st.tuples(st.just("create"), st.just("plugins.entries"), ROWS),
    st.tuples(st.just("delete"), st.just("agents"), ALIASES),
    st.tuples(st.just("delete"), st.just("plugins.entries"), ROWS),
    st.tuples(st.just("delete"), row(".config"), st.just("a")),
    st.tuples(st.just("delete"), st.just("providers.models.openai"), st.just("x")),
    st.tuples(st.just("rename"), st.just("agents"), ALIASES, ALIASES),
    st.tuples(st.just("rename"), row(".config"), st.just("a"), st.just("c.d")),
    st.tuples(st.just("rename"), st.just("providers.models.openai"), st.just("x"), st.just("zz")),
)


def reach(values: Any, segments: tuple[str, ...], *, make: bool = False) -> Any:
    for segment in segments:
        if isinstance(values, list):
            values = next((each for each in values if each["name"] == segment), {})
        elif make:
            values = values.setdefault(segment, {})
        else:
            values = values.get(segment, {})
    return values


def apply_to_model(values: Any, what: str, path: str, *rest: Any) -> None:
    segments = segments_of(path)
    match what:
        case "set":
            reach(values, segments[:-1], make=True)[segments[-1]] = rest[0]
        case "unset":
            reach(values, segments[:-1]).pop(segments[-1], None)
        case "create" if path == "plugins.entries":
            values.setdefault("plugins", {}).setdefault("entries", []).append({"name": rest[0]})
        case "create":
            reach(values, segments, make=True)[rest[0]] = {}
        case "delete":
            found = reach(values, segments)
            if isinstance(found, list):
                found[:] = [each for each in found if each["name"] != rest[0]]
            else:
                del found[rest[0]]
        case _:
            found = reach(values, segments)
            items = [(rest[1] if key == rest[0] else key, inner) for key, inner in found.items()]
            found.clear()
            found.update(items)


def without_emptiness(value: Any) -> Any:
    """Tables and lists that hold nothing may be written or not."""
    if isinstance(value, dict):
        pruned = {key: without_emptiness(inner) for key, inner in value.items()}
        return {key: inner for key, inner in pruned.items() if inner not in ({}, [])}
    return [without_emptiness(inner) for inner in value] if isinstance(value, list) else value


def draft_of(text: str) -> Draft:
    return Draft(tomlkit.parse(text), lambda: parse(text.encode(), Path("c.toml")))


@given(text=st.sampled_from(STYLES), operations=st.lists(OPERATIONS, max_size=6))
@settings(max_examples=250, deadline=None)
def test_any_changes_of_a_file_of_any_style_mean_what_they_should(
    text: str, operations: list[tuple[Any, ...]]
) -> None:
    draft, model = draft_of(text), tomllib.loads(text)
    methods: dict[str, Callable[..., object]] = {
        "set": draft.set,
        "unset": draft.unset,
        "create": draft.create_key,
        "delete": draft.delete_key,
        "rename": draft.rename_key,
    }
    for what, *arguments in operations:
        before = draft.document.as_string()
        try:
            methods[what](*arguments)
        except PropertyError:
            assert without_emptiness(tomllib.loads(draft.document.as_string())) == without_emptiness(
                tomllib.loads(before)
            )
        else:
            changed = copy.deepcopy(model)
            apply_to_model(changed, what, *arguments)
            model = changed
    assert faithful(draft.document)
    assert without_emptiness(tomllib.loads(draft.document.as_string())) == without_emptiness(model)
    for remark in ("# only a remark", "# about plugins", "# inside memory", "# inline"):
        assert (remark in draft.document.as_string()) == (remark in text)


@pytest.mark.parametrize("style", [2, 3, 4, 5, 6, 7])
def test_a_renamed_key_keeps_its_place_its_comments_and_everything_below(style: int) -> None:
    draft = draft_of(STYLES[style])
    draft.rename_key("agents", "ada", "zoe")
    assert draft.document.as_string().replace("zoe", "ada") == STYLES[style].replace('"ada"', "ada")


def test_keys_that_are_there_or_not_are_named() -> None:
    draft = draft_of(STYLES[6])
    with pytest.raises(MapKeyExists, match="bob"):
        draft.create_key("agents", "bob")
    with pytest.raises(MapKeyExists, match="bob"):
        draft.rename_key("agents", "ada", "bob")
    with pytest.raises(MapKeyNotFound, match="ada"):
        draft.delete_key("agents", "adda")
    with pytest.raises(MapKeyNotFound, match="none"):
        draft.delete_key("plugins.entries", ONE)
    assert draft.document.as_string() == STYLES[6]


def test_rows_without_a_name_are_not_offered() -> None:
    draft = draft_of(f'[plugins]\nentries = [1, {{}}, {{name = "{ONE}"}}]\n')
    with pytest.raises(MapKeyNotFound, match=f"there is {ONE}$"):
        draft.delete_key("plugins.entries", TWO)
    with pytest.raises(PropertyError, match=f"there is {ONE}$"):
        draft.set(f"plugins.entries.{TWO}.config.a", "1")


@pytest.mark.parametrize(
    ("value", "text"), [(["a", "é", 1], '["a", "é", 1]'), ({"a": None}, '{"a": null}'), ([], "[]")]
)
def test_what_an_instance_is_told_is_kept_as_json_where_it_is_more_than_a_text(
    value: object, text: str
) -> None:
    asked: list[tuple[str, object]] = []
    document = tomlkit.parse(f'[[plugins.entries]]\nname = "{ONE}"\n')
    draft = Draft(document, lambda: parse(b"", Path("c.toml")), lambda *given: asked.append(given))
    path = f"plugins.entries.{ONE}.config.a.b"
    draft.set(path, value)
    assert document.unwrap()["plugins"]["entries"][0]["config"] == {"a.b": text}
    assert asked == [(path, value)]
    with pytest.raises(PropertyError):
        draft.set("providers.models.openai.m.api_key", value)


@pytest.mark.parametrize(
    ("text", "path"), [("plugins = 1\n", "plugins.enabled"), ("agents.ada = 1\n", "agents.ada.model")]
)
def test_a_value_where_a_table_should_be_is_an_error(text: str, path: str) -> None:
    with pytest.raises(PropertyError, match="no table"):
        draft_of(text).set(path, "true")


@pytest.mark.parametrize(
    "path", ["agents.entries.model", "agents.tls_profiles.model", "channels.plugin.entries.package"]
)
def test_what_is_named_like_rows_is_made_like_everything_else(path: str) -> None:
    draft = draft_of("")
    draft.set(path, "x")
    assert reach(tomllib.loads(draft.document.as_string()), segments_of(path)) == "x"


REMARKED = f"""\
[agents.ada]
model = "m"

# about plugins
[plugins]
enabled = true
# end

# about rows
[[plugins.entries]]
name = "{TWO}"

# about the gateway
[gateway]
port = 1
"""


def test_a_comment_above_a_header_stays_above_it_whatever_is_added_or_taken_away() -> None:
    draft = draft_of(REMARKED)
    draft.set("agents.ada.max_steps", 3)
    draft.set("plugins.auto_discover", True)
    draft.set("agents.bob.model", "x")
    draft.set(f"plugins.entries.{TWO}.config.city", "Oslo")
    draft.create_key("plugins.entries", ONE)
    assert (
        draft.document.as_string()
        == f"""\
[agents.ada]
model = "m"
max_steps = 3

[agents.bob]
model = "x"

# about plugins
[plugins]
enabled = true
# end
auto_discover = true

# about rows
[[plugins.entries]]
name = "{TWO}"

[plugins.entries.config]
city = "Oslo"
[[plugins.entries]]
name = "{ONE}"

# about the gateway
[gateway]
port = 1
"""
    )
    draft.delete_key("agents", "ada")
    draft.delete_key("agents", "bob")
    draft.delete_key("plugins.entries", ONE)
    draft.delete_key("plugins.entries", TWO)
    text = draft.document.as_string()
    for remark, header in (("# about plugins", "[plugins]"), ("# about the gateway", "[gateway]")):
        assert f"{remark}\n{header}\n" in text


@pytest.mark.req("PLG-206")
def test_a_row_is_made_and_taken_out_where_other_tables_stand_between_the_rows() -> None:
    apart = (
        f'[[plugins.entries]]\nname = "{ONE}"\n\n[channels.plugin.ops] # theirs\npackage = "a"\n\n'
        f'[[plugins.entries]] # two\nname = "{TWO}"\n'
    )
    draft = draft_of(apart)
    third = InstanceIdentity.default_tool("c").key
    draft.create_key("plugins.entries", third)
    draft.set(f"plugins.entries.{third}.egress_hosts", ["a.example"])
    rows = tomllib.loads(draft.document.as_string())["plugins"]["entries"]
    assert rows == [{"name": ONE}, {"name": TWO}, {"name": third, "egress_hosts": ["a.example"]}]
    assert draft.document.as_string().startswith(apart)
    for gone in (ONE, third):
        draft.delete_key("plugins.entries", gone)
    assert tomllib.loads(draft.document.as_string()) == {
        "channels": {"plugin": {"ops": {"package": "a"}}},
        "plugins": {"entries": [{"name": TWO}]},
    }
    assert "# theirs" in draft.document.as_string()
    assert "# two" in draft.document.as_string()
