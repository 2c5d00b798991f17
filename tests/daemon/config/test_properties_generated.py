"""What holds for any configuration that the schema accepts."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomlkit
from generated_configs import configurations, keys_and_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zeroclaw_daemon.config.coercion import MASK, PropertyError
from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.file import Snapshot, parse
from zeroclaw_daemon.config.map_keys import keys
from zeroclaw_daemon.config.properties import find_value, get_property, list_properties, segments_of
from zeroclaw_daemon.config.shape import ValueKind

FILE = Path("c.toml")
UNHURRIED = [HealthCheck.too_slow]
"""How long a busy machine takes to make a configuration says nothing about the code."""
FEW = settings(max_examples=25, suppress_health_check=UNHURRIED)
MANY = settings(max_examples=300, suppress_health_check=UNHURRIED)


def read(text: str) -> Snapshot:
    snapshot = parse(text.encode(), FILE)
    assert snapshot.problems == ()
    return snapshot


def draft_of(text: str) -> Draft:
    return Draft(tomlkit.parse(text), lambda: read(text))


@given(values=configurations())
@FEW
def test_an_accepted_file_is_read_as_it_was_written(values: dict[str, Any]) -> None:
    text = tomlkit.dumps(values)
    assert tomllib.loads(text) == values
    assert read(text).config == read(tomlkit.dumps(tomllib.loads(text))).config


@given(values=configurations())
@FEW
def test_every_listed_path_can_be_got_and_set(values: dict[str, Any]) -> None:
    text = tomlkit.dumps(values)
    config = read(text).config
    listed = list(list_properties(config))
    assert len({each.path for each in listed}) == len(listed)
    draft = draft_of(text)
    for each in listed:
        assert get_property(config, each.path) == each
        assert find_value(each.path) == each.type
        if each.type.kind is ValueKind.SECRET:
            assert each.value in (None, MASK)
        else:
            draft.set(each.path, each.value)
    assert read(draft.document.as_string()).config == config


@given(values=configurations())
@FEW
def test_what_is_set_piece_by_piece_is_what_was_written_at_once(values: dict[str, Any]) -> None:
    draft = draft_of("schema_version = 1\n")
    for path, key in keys_and_rows(values):
        draft.create_key(path, key)
    expected = read(tomlkit.dumps(values)).config
    for each in list_properties(expected):
        if each.type.kind is ValueKind.SECRET:
            if each.populated:
                draft.set(each.path, value_at(values, each.path))
        elif each.populated:
            draft.set(each.path, each.value)
    made = read(draft.document.as_string()).config
    assert made == expected
    for path, key in keys_and_rows(values):
        assert key in keys(made, path)


@given(values=configurations())
@FEW
def test_a_secret_is_in_no_listing(values: dict[str, Any]) -> None:
    planted = "hunter2-planted"
    for row in values.get("plugins", {}).get("entries", ()):
        row.setdefault("config", {})["secret"] = planted
    for models in values.get("providers", {}).get("models", {}).values():
        for model in models.values():
            model["api_key"] = planted
    snapshot = read(tomlkit.dumps(values))
    listed = list(list_properties(snapshot.config))
    assert planted not in repr(listed) + repr(snapshot) + "".join(each.shown for each in listed)


@given(
    path=st.text(max_size=40)
    | st.lists(st.sampled_from(["plugins", "entries", "agents", "ada", "config", "", "users"])).map(".".join)
)
def test_any_text_names_a_property_or_is_refused_in_words(path: str) -> None:
    if (error := refusal(lambda: find_value(path))) is not None:
        assert error.details["property"] == path
    assert ".".join(segments_of(path)) == path


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=6,
    ),
    path=st.sampled_from(
        [
            "plugins.enabled", "gateway.port", "agents.ada.model", "agents.ada.approval", "agents.ada.tools",
            "providers.models.openai.a.api_key", "permission_profiles.a.grants", "agents.ada.provider",
        ]
    ),
)  # fmt: skip
@MANY
def test_any_value_is_written_as_toml_or_refused(value: object, path: str) -> None:
    draft = draft_of("")
    if (error := refusal(lambda: draft.set(path, value))) is not None:
        assert error.details["property"] == path
        assert draft.document.as_string() == ""
    tomllib.loads(draft.document.as_string().encode().decode())


def refusal(act: Callable[[], object]) -> PropertyError | None:
    try:
        act()
    except PropertyError as error:
        return error
    return None


def value_at(values: Any, path: str) -> object:
    for segment in segments_of(path):
        values = (
            next(row for row in values if row["name"] == segment)
            if isinstance(values, list)
            else values[segment]
        )
    return values
