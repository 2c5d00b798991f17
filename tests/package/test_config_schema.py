"""What a ``config_schema`` may be, and what it makes of an operator's texts."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import ConfigInvalid, ConfigSchemaError
from zeroclaw_host.package.config_schema import MAX_VALUE_DEPTH, ConfigSchema
from zeroclaw_host.package.schema_rules import (
    MAX_PROPERTIES,
    MAX_REF_HOPS,
    MAX_SCHEMA_BYTES,
    MAX_SCHEMA_DEPTH,
    MAX_STEPS,
    PropertyType,
)


def schema(properties: Any = None, **more: Any) -> dict[str, Any]:
    closed = {
        "type": "object",
        "additionalProperties": False,
        "properties": {} if properties is None else properties,
    }
    return {key: value for key, value in (closed | more).items() if value is not ...}


def refused(raw: dict[str, Any], *, allow_secrets: bool = True) -> ConfigSchemaError:
    with pytest.raises(ConfigSchemaError) as caught:
        ConfigSchema.compile(raw, allow_secrets=allow_secrets)
    return caught.value


TEXT = {"type": "string"}


@pytest.mark.req("PLG-140")
@pytest.mark.parametrize("kind", list(PropertyType))
def test_a_property_has_one_of_six_types(kind: PropertyType) -> None:
    compiled = ConfigSchema.compile(schema({"p": {"type": kind.value}}))
    assert compiled.properties["p"].type is kind


@pytest.mark.req("PLG-140")
def test_the_dialect_may_be_named() -> None:
    ConfigSchema.compile({**schema(), "$schema": "https://json-schema.org/draft/2020-12/schema"})


@pytest.mark.req("PLG-141")
@pytest.mark.parametrize("keyword", ["patternProperties", "propertyNames", "unevaluatedProperties"])
def test_what_the_root_may_not_say_a_property_may(keyword: str) -> None:
    ConfigSchema.compile(schema({"p": {"type": "object", keyword: {}}}))


@pytest.mark.req("PLG-141")
def test_a_schema_is_at_most_64_kib_of_compact_json() -> None:
    room = MAX_SCHEMA_BYTES - len(json.dumps(schema(description=""), separators=(",", ":")))
    ConfigSchema.compile(schema(description="ä" * (room // 2) + "x" * (room % 2)))
    assert "65536 bytes" in refused(schema(description="ä" * (room // 2) + "xx")).message


@pytest.mark.req("PLG-141")
def test_a_schema_is_at_most_32_levels_deep() -> None:
    def nested(levels: int) -> dict[str, Any]:
        value: list[Any] = []
        for _ in range(levels - 1):
            value = [value]
        return schema(examples=value)

    ConfigSchema.compile(nested(MAX_SCHEMA_DEPTH))
    assert "32 levels" in refused(nested(MAX_SCHEMA_DEPTH + 1)).message


@pytest.mark.req("PLG-141")
def test_a_schema_has_at_most_256_properties() -> None:
    properties = {f"p{number}": TEXT for number in range(MAX_PROPERTIES)}
    assert len(ConfigSchema.compile(schema(properties)).properties) == 256
    assert "256 properties" in refused(schema({**properties, "more": TEXT})).message


def test_a_local_reference_is_followed() -> None:
    raw = schema(
        {"p": {"$ref": "#/$defs/a~1b%20c"}},
        **{"$defs": {"a/b c": {"$ref": "#/$defs/some/anyOf/0"}, "some": {"anyOf": [TEXT]}}},
    )
    assert ConfigSchema.compile(raw).properties["p"].type is PropertyType.STRING


def test_a_reference_to_nothing_is_refused() -> None:
    refused(schema({"p": {"type": "array", "items": {"$ref": "#/$defs/none"}}}))
    refused(schema({"p": {"$ref": "#/$defs/some/anyOf/7"}}, **{"$defs": {"some": {"anyOf": [TEXT]}}}))


def test_a_chain_of_references_has_an_end() -> None:
    def chain(hops: int) -> dict[str, Any]:
        links = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(1, hops)}
        return schema({"p": {"$ref": "#/$defs/d1"}}, **{"$defs": {**links, f"d{hops}": TEXT}})

    assert ConfigSchema.compile(chain(MAX_REF_HOPS)).properties["p"].type is PropertyType.STRING
    refused(chain(MAX_REF_HOPS + 1))


@pytest.mark.parametrize(
    "pattern", ["^sk-[A-Za-z0-9]{20,64}$", r"^\d{4}-\d{2}$", r"^(a|b)+$", r"^\S{1,100}$", r"\p{L}+"]
)
def test_an_ordinary_pattern_is_accepted(pattern: str) -> None:
    ConfigSchema.compile(schema({"p": {"type": "string", "pattern": pattern}}))


@pytest.mark.parametrize(
    "value", [datetime.date(2026, 1, 1), datetime.time(1), float("nan"), float("inf"), 2**63]
)
def test_what_json_does_not_have_is_refused(value: Any) -> None:
    assert refused(schema({"p": {"type": "string", "default": value}})).details["schema_path"] == (
        "properties",
        "p",
        "default",
    )


def test_references_that_fork_again_and_again_are_refused_at_once() -> None:
    links = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
    raw = schema(
        {"p": {"type": "string", "allOf": [{"$ref": "#/$defs/d0"}]}}, **{"$defs": {**links, "d60": TEXT}}
    )
    assert f"{MAX_STEPS} schemas" in refused(raw).message


def test_a_schema_may_lead_back_to_itself_for_a_part_of_the_value() -> None:
    tree = {"type": "array", "items": {"$ref": "#/$defs/tree"}}
    compiled = ConfigSchema.compile(schema({"p": {"$ref": "#/$defs/tree"}}, **{"$defs": {"tree": tree}}))
    assert compiled.materialise({"p": "[[],[[]]]"}) == {"p": [[], [[]]]}
    with pytest.raises(ConfigInvalid):
        compiled.materialise({"p": "[[1]]"})


def test_a_long_chain_of_combinations_is_refused() -> None:
    links = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(1500)}
    refused(schema(**{"$defs": {**links, "d1500": TEXT}}))


@pytest.mark.req("PLG-142")
def test_a_top_level_string_may_be_a_secret() -> None:
    raw = schema(
        {
            "key": {"type": "string", "x-secret": True},
            "ref": {"$ref": "#/$defs/s", "x-secret": True},
            "x-secret": TEXT,
        },
        **{"$defs": {"s": TEXT}},
    )
    compiled = ConfigSchema.compile(raw)
    assert compiled.secret_names == {"key", "ref"}
    assert compiled.properties["key"].secret


@pytest.mark.req("PLG-142")
def test_only_a_tool_or_a_channel_has_secrets() -> None:
    raw = schema({"key": {"type": "string", "x-secret": True}})
    assert "tool or a channel" in refused(raw, allow_secrets=False).message
    ConfigSchema.compile(schema({"key": TEXT}), allow_secrets=False)


@pytest.fixture(scope="module")
def typed() -> ConfigSchema:
    return ConfigSchema.compile(
        schema(
            {
                "text": {"type": "string", "maxLength": 20, "description": "a text"},
                "flag": {"type": "boolean"},
                "count": {"type": "integer"},
                "ratio": {"type": "number"},
                "list": {"type": "array", "items": {"type": "string"}},
                "table": {"type": "object", "additionalProperties": {"type": "integer", "maximum": 9}},
            }
        )
    )


@pytest.mark.req("PLG-148")
@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("text", "", ""),
        ("text", "4", "4"),
        ("text", '"quoted"', '"quoted"'),
        ("text", " spaces ", " spaces "),
        ("flag", "true", True),
        ("flag", " false\n", False),
        ("count", "4", 4),
        ("count", "-9223372036854775808", -(2**63)),
        ("count", "18446744073709551615", 2**64 - 1),
        ("ratio", "4", 4),
        ("ratio", "-0.5e1", -5.0),
        ("ratio", "1e308", 1e308),
        ("list", '["a"]', ["a"]),
        ("list", "[]", []),
        ("table", '{"a": 1}', {"a": 1}),
    ],
)
def test_a_text_becomes_a_typed_value(typed: ConfigSchema, name: str, text: str, value: object) -> None:
    found = typed.materialise({name: text})
    assert found == {name: value}
    assert type(found[name]) is type(value)


@pytest.mark.req("PLG-148", "PLG-149")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("flag", "True"), ("flag", "1"), ("flag", '"true"'), ("flag", ""), ("flag", "null"),
        ("count", "1.0"), ("count", "1e3"), ("count", "true"), ("count", '"1"'), ("count", "01"), ("count", "+1"),
        ("count", "-9223372036854775809"), ("count", "18446744073709551616"), ("count", "9" * 5000), ("count", "1_0"),
        ("ratio", "NaN"), ("ratio", "Infinity"), ("ratio", "-Infinity"), ("ratio", "1e999"), ("ratio", "false"),
        ("ratio", ".5"), ("list", "a"), ("list", "['a']"), ("list", '{"a": 1}'), ("list", "[1e999]"), ("list", "[NaN]"),
        ("list", '["\\ud800"]'), ("list", '["a"'), ("list", "[" * 100_000), ("list", "[" * 500 + "]" * 500),
        ("table", "[]"), ("table", '{"a": 1} x'), ("text", "\ud800"),
    ],
)  # fmt: skip
def test_a_text_that_does_not_encode_its_type_is_refused(typed: ConfigSchema, name: str, text: str) -> None:
    with pytest.raises(ConfigInvalid, match=f"property {name} is not the text of one") as caught:
        typed.materialise({name: text})
    assert caught.value.details["properties"] == (name,)
    assert caught.value.causes() == ()


@pytest.mark.req("PLG-149")
@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("text", "SECRET VALUE" * 2, "properties/text/maxLength"),
        ("list", '["SECRET VALUE", 1]', "properties/list/items/type"),
        ("table", '{"SECRET VALUE": 10}', "properties/table/additionalProperties/maximum"),
        ("table", '{"a": "SECRET VALUE"}', "properties/table/additionalProperties/type"),
    ],
)
def test_an_error_names_the_property_and_the_place_in_the_schema_and_no_value(
    typed: ConfigSchema, name: str, text: str, place: str
) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        typed.materialise({name: text})
    error = caught.value
    assert f"property {name} does not satisfy the schema at {place}" in error.message
    shown = f"{error!r} {error} {error.details} {error.causes()}"
    assert "SECRET" not in shown
    assert error.__cause__ is None


@pytest.mark.req("PLG-149")
def test_an_unknown_property_is_refused_by_name(typed: ConfigSchema) -> None:
    with pytest.raises(ConfigInvalid, match="property other is not in the schema"):
        typed.materialise({"other": "SECRET", "text": "a"})


def test_a_value_is_at_most_64_levels_deep() -> None:
    compiled = ConfigSchema.compile(schema({"p": {"type": "array"}}))
    compiled.materialise({"p": "[" * (MAX_VALUE_DEPTH + 1) + "]" * (MAX_VALUE_DEPTH + 1)})
    with pytest.raises(ConfigInvalid):
        compiled.materialise({"p": "[" * (MAX_VALUE_DEPTH + 2) + "]" * (MAX_VALUE_DEPTH + 2)})


def test_what_is_not_configured_is_absent_and_gets_no_default() -> None:
    compiled = ConfigSchema.compile(schema({"p": {"type": "integer", "default": 7}}))
    assert compiled.materialise({}) == {}


@pytest.mark.req("PLG-149")
def test_what_is_required_must_be_configured() -> None:
    compiled = ConfigSchema.compile(schema({"p": TEXT, "q": TEXT}, required=["p", "q"]))
    assert compiled.required == {"p", "q"}
    with pytest.raises(ConfigInvalid, match=r"property p is required; property q is required$") as caught:
        compiled.materialise({})
    assert caught.value.details["properties"] == ("p", "q")


def test_a_rule_about_the_whole_object_is_checked_too() -> None:
    compiled = ConfigSchema.compile(schema({"p": TEXT, "q": TEXT}, dependentRequired={"p": ["q"]}))
    with pytest.raises(ConfigInvalid, match="it does not satisfy the schema at dependentRequired"):
        compiled.materialise({"p": "x"})


def test_an_error_names_a_bounded_number_of_problems() -> None:
    compiled = ConfigSchema.compile(schema({"p": {"type": "array", "items": TEXT}}))
    with pytest.raises(ConfigInvalid) as caught:
        compiled.materialise({"p": json.dumps(list(range(1000)))})
    assert caught.value.message.count("property") == 16


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
schema_words = st.sampled_from(
    ["type", "object", "string", "properties", "$ref", "#", "#/properties/a", "allOf", "items", "not", "x-secret", "a",
     "pattern", "(", "$defs", "additionalProperties", "required", "if", "dependentSchemas", "minimum", "enum"]
)  # fmt: skip
schema_like = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | schema_words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(schema_words, inner, max_size=4),
    max_leaves=12,
)


@given(
    st.dictionaries(schema_words, schema_like, max_size=4),
    st.dictionaries(schema_words, schema_like, max_size=4),
)
def test_no_schema_raises_anything_but_a_schema_error(
    properties: dict[str, Any], more: dict[str, Any]
) -> None:
    try:
        compiled = ConfigSchema.compile({**more, **schema({**properties, "text": TEXT})})
        compiled.materialise({"text": "x"})
    except (ConfigSchemaError, ConfigInvalid):
        return
    assert compiled.properties["text"].type is PropertyType.STRING


@given(st.sampled_from(["flag", "count", "ratio", "list", "table"]), json_values.map(json.dumps) | st.text())
def test_no_text_raises_anything_but_a_configuration_error(typed: ConfigSchema, name: str, text: str) -> None:
    try:
        found = typed.materialise({name: text})
    except ConfigInvalid:
        return
    assert found == {name: json.loads(text)}


PORT = {"type": "integer", "maximum": 10, "default": 4, "description": "Where."}


@pytest.mark.req("PLG-148", "PLG-149")
@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("prot", "4", "property prot is not in the schema"),
        ("port", "four", "property port is not the text of one integer"),
        ("port", "4.0", "property port is not the text of one integer"),
        ("port", "11", "property port does not satisfy the schema at properties/port/maximum, which is 10"),
        ("mode", "c", 'does not satisfy the schema at properties/mode/enum, which is ["a", "b"]'),
        ("tags", '["a", 1]', 'at properties/tags/items/type, which is "string"'),
        ("tags", '{"a": 1}', "is not the text of one array"),
    ],
)
def test_one_text_is_checked_by_itself(name: str, text: str, words: str) -> None:
    properties = {
        "port": PORT,
        "mode": {"enum": ["a", "b"], "type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    compiled = ConfigSchema.compile(schema(properties, required=["port", "mode"]))
    with pytest.raises(ConfigInvalid) as caught:
        compiled.check(name, text)
    assert words in caught.value.message
    assert caught.value.details["properties"][0] == name  # type: ignore[index]


@pytest.mark.req("PLG-148", "PLG-149")
def test_a_text_that_fits_does_not_wait_for_the_others() -> None:
    compiled = ConfigSchema.compile(schema({"port": PORT, "key": TEXT}, required=["port", "key"]))
    compiled.check("port", "10")
    compiled.check("key", "")
    assert compiled.properties["port"].default == "4"
    assert compiled.properties["key"].default is None


def test_a_rule_that_is_long_is_named_and_not_repeated() -> None:
    compiled = ConfigSchema.compile(schema({"p": {"type": "string", "enum": ["x" * 100]}}))
    with pytest.raises(ConfigInvalid) as caught:
        compiled.check("p", "hunter2")
    assert caught.value.message.endswith("at properties/p/enum")
    assert "hunter2" not in str(caught.value)
